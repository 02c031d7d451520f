//! The methods of writers: `AsyncWriteExt`.

use std::io::{ErrorKind, IoSlice};

use bytes::{Buf, Bytes};
use futures::FutureExt;
use wakeful::io::AsyncWriteExt;

mod support {
    pub mod rng;
    pub mod scripted_io;
}
use support::scripted_io::{Act, ScriptedIo};

/// Every number, a byte at a time, in both orders.
macro_rules! numbers {
    ($($number:ident: $big:ident $little:ident;)+) => {
        #[wakeful::test]
        async fn numbers_go_byte_by_byte_in_both_orders() {
            $(
                for number in [$number::MIN, $number::MAX, 3 as $number, (0x5a as $number) / (7 as $number)] {
                    let slow = || {
                        let bytes = size_of::<$number>();
                        let step = |_| [Act::Wait, Act::Fail(ErrorKind::Interrupted), Act::Take(1)];
                        ScriptedIo::writes((0..bytes).flat_map(step))
                    };
                    let mut big = slow();
                    big.$big(number).await.unwrap();
                    assert_eq!(big.written, number.to_be_bytes());
                    let mut little = slow();
                    little.$little(number).await.unwrap();
                    assert_eq!(little.written, number.to_le_bytes());
                }
            )+
        }
    };
}

numbers! {
    u8: write_u8 write_u8;
    i8: write_i8 write_i8;
    u16: write_u16 write_u16_le;
    i16: write_i16 write_i16_le;
    u32: write_u32 write_u32_le;
    i32: write_i32 write_i32_le;
    u64: write_u64 write_u64_le;
    i64: write_i64 write_i64_le;
    u128: write_u128 write_u128_le;
    i128: write_i128 write_i128_le;
    f32: write_f32 write_f32_le;
    f64: write_f64 write_f64_le;
}

/// A `Buf` of several parts.
fn parts() -> impl Buf {
    Bytes::from_static(b"ab").chain(Bytes::from_static(b"cde")).chain(Bytes::from_static(b"f"))
}

#[wakeful::test]
async fn write_says_how_much_was_taken() {
    let mut script = ScriptedIo::writes([
        Act::Take(3),
        Act::Wait,
        Act::Take(0),
        Act::Fail(ErrorKind::Interrupted),
    ]);
    assert_eq!(script.write(b"hello").await.unwrap(), 3);
    assert_eq!(script.write(b"hello").await.unwrap(), 0);
    let interrupted = script.write(b"hello").await.unwrap_err();
    assert_eq!(interrupted.kind(), ErrorKind::Interrupted, "one write is one write");
    assert_eq!(script.write(b"").await.unwrap(), 0);
    assert_eq!(script.written, b"hel");
}

#[wakeful::test]
async fn a_write_that_is_given_up_wrote_nothing() {
    let mut script = ScriptedIo::writes([Act::Hang]);
    assert!(script.write(b"lost").now_or_never().is_none());
    assert_eq!(script.written, b"");
}

#[wakeful::test]
async fn slices_go_together() {
    let slices = [IoSlice::new(b"ab"), IoSlice::new(b""), IoSlice::new(b"cde")];
    let mut script = ScriptedIo::writes([Act::Wait, Act::Take(4)]).vectored();
    assert_eq!(script.write_vectored(&slices).await.unwrap(), 4);
    assert_eq!(script.written, b"abcd");
    assert_eq!(script.take_log(), ["write 2+0+3", "write 2+0+3"]);
}

#[wakeful::test]
async fn write_buf_takes_off_the_front_what_was_taken() {
    let mut script = ScriptedIo::writes([Act::Take(4), Act::Fail(ErrorKind::Other)]);
    let mut buf = parts();
    assert_eq!(script.write_buf(&mut buf).await.unwrap(), 2, "one part at a time");
    assert!(script.write_buf(&mut buf).await.is_err());
    assert_eq!(buf.remaining(), 4);

    let mut script = ScriptedIo::writes([Act::Take(4)]).vectored();
    let mut buf = parts();
    assert_eq!(script.write_buf(&mut buf).await.unwrap(), 4, "all parts together");
    assert_eq!(script.take_log(), ["write 2+3+1"]);
    assert_eq!(buf.copy_to_bytes(2), "ef");

    let mut empty = Bytes::new();
    assert_eq!(script.write_buf(&mut empty).await.unwrap(), 0);
    assert_eq!(script.take_log(), [""; 0], "with nothing to write the writer is not asked");
}

#[wakeful::test]
async fn write_all_writes_all() {
    let acts =
        [Act::Take(2), Act::Wait, Act::Fail(ErrorKind::Interrupted), Act::Take(1), Act::Take(9)];
    let mut script = ScriptedIo::writes(acts.clone());
    script.write_all(b"hello").await.unwrap();
    assert_eq!(script.written, b"hello");
    script.write_all(b"").await.unwrap();

    let mut script = ScriptedIo::writes(acts).vectored();
    let mut buf = parts();
    script.write_all_buf(&mut buf).await.unwrap();
    assert_eq!(script.written, b"abcdef");
    assert_eq!(
        script.take_log(),
        ["write 2+3+1", "write 3+1", "write 3+1", "write 3+1", "write 2+1"]
    );
}

#[wakeful::test]
async fn a_writer_that_takes_no_more_is_an_error() {
    let takes_none = || ScriptedIo::writes([Act::Take(1), Act::Take(0)]);
    let mut buf = Bytes::from_static(b"hello");
    let errors = [
        takes_none().write_all(b"hello").await,
        takes_none().write_all_buf(&mut buf).await,
        takes_none().write_u16(7).await,
    ];
    for error in errors {
        assert_eq!(error.unwrap_err().kind(), ErrorKind::WriteZero);
    }
    assert_eq!(buf, "ello", "it knows how far it came");
}

#[wakeful::test]
async fn write_all_buf_can_be_given_up_and_begun_again() {
    let mut script = ScriptedIo::writes([Act::Take(3), Act::Hang]);
    let mut buf = Bytes::from_static(b"hello");
    assert!(script.write_all_buf(&mut buf).now_or_never().is_none());
    assert_eq!((script.written.as_slice(), &buf[..]), (&b"hel"[..], &b"lo"[..]));
    script.write_all_buf(&mut buf).await.unwrap();
    assert_eq!(script.written, b"hello");
}

#[wakeful::test]
async fn many_parts_take_several_writes() {
    let mut script = ScriptedIo::default().vectored();
    let mut buf: Box<dyn Buf> = Box::new(Bytes::new());
    for _ in 0..100 {
        buf = Box::new(Bytes::from_static(b"x").chain(buf));
    }
    script.write_all_buf(&mut buf).await.unwrap();
    let parts: Vec<usize> = script.log.iter().map(|line| line.matches('1').count()).collect();
    assert_eq!((parts, script.written.len()), (vec![64, 36], 100));
}

#[wakeful::test]
async fn flush_and_shutdown_reach_the_writer() {
    let mut script = ScriptedIo::default();
    script.flushes.extend([Act::Wait, Act::Fail(ErrorKind::Other)]);
    assert_eq!(script.flush().await.unwrap_err().kind(), ErrorKind::Other);
    script.flush().await.unwrap();
    script.shutdown().await.unwrap();
    assert_eq!(script.take_log(), ["flush", "flush", "flush", "shutdown"]);
}
