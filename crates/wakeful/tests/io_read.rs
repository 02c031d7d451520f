//! The methods of readers: `AsyncReadExt` and `AsyncBufReadExt`.

use std::io::ErrorKind;

use futures::FutureExt;
use wakeful::io::{AsyncBufReadExt, AsyncReadExt, BufReader};

mod support {
    pub mod rng;
    pub mod scripted_io;
}
use support::scripted_io::{Act, ScriptedIo, give};

/// Every number, a byte at a time, in both orders.
macro_rules! numbers {
    ($($number:ident: $big:ident $little:ident;)+) => {
        #[wakeful::test]
        async fn numbers_come_byte_by_byte_in_both_orders() {
            $(
                for number in [$number::MIN, $number::MAX, 3 as $number, (0x5a as $number) / (7 as $number)] {
                    let in_bytes = |bytes: &[u8]| {
                        let steps = |&byte| [Act::Wait, Act::Fail(ErrorKind::Interrupted), give([byte])];
                        ScriptedIo::reads(bytes.iter().flat_map(steps))
                    };
                    let mut big = in_bytes(&number.to_be_bytes());
                    assert_eq!(big.$big().await.unwrap(), number);
                    let mut little = in_bytes(&number.to_le_bytes());
                    assert_eq!(little.$little().await.unwrap(), number);
                    let early = big.$big().await.unwrap_err();
                    assert_eq!(early.kind(), ErrorKind::UnexpectedEof);
                }
            )+
        }
    };
}

numbers! {
    u8: read_u8 read_u8;
    i8: read_i8 read_i8;
    u16: read_u16 read_u16_le;
    i16: read_i16 read_i16_le;
    u32: read_u32 read_u32_le;
    i32: read_i32 read_i32_le;
    u64: read_u64 read_u64_le;
    i64: read_i64 read_i64_le;
    u128: read_u128 read_u128_le;
    i128: read_i128 read_i128_le;
    f32: read_f32 read_f32_le;
    f64: read_f64 read_f64_le;
}

#[wakeful::test]
async fn read_gives_what_is_there() {
    let mut script =
        ScriptedIo::reads([give("hello"), Act::Wait, give("!"), Act::Fail(ErrorKind::Other)]);
    let mut buffer = [0; 3];
    assert_eq!(script.read(&mut buffer).await.unwrap(), 3);
    assert_eq!(&buffer, b"hel");
    assert_eq!(script.read(&mut buffer).await.unwrap(), 2);
    assert_eq!(script.read(&mut buffer).await.unwrap(), 1);
    assert_eq!(script.read(&mut buffer).await.unwrap_err().kind(), ErrorKind::Other);
    assert_eq!(script.read(&mut buffer).await.unwrap(), 0);
    assert_eq!(&buffer, b"!ol");

    let mut script = ScriptedIo::reads([Act::Fail(ErrorKind::Interrupted)]);
    let interrupted = script.read(&mut buffer).await.unwrap_err();
    assert_eq!(interrupted.kind(), ErrorKind::Interrupted, "one read is one read");
}

#[wakeful::test]
async fn a_read_that_is_given_up_takes_nothing() {
    let mut script = ScriptedIo::reads([Act::Hang, give("kept")]);
    assert!(script.read(&mut [0; 8]).now_or_never().is_none());
    let mut buffer = [0; 8];
    assert_eq!(script.read(&mut buffer).await.unwrap(), 4);
}

#[wakeful::test]
async fn read_buf_moves_the_end_of_the_buffer() {
    let mut script = ScriptedIo::reads([give("hello"), Act::Wait, give("world")]);
    let mut vec = Vec::with_capacity(16);
    vec.push(b'>');
    assert_eq!(script.read_buf(&mut vec).await.unwrap(), 5);
    assert_eq!(script.read_buf(&mut vec).await.unwrap(), 5);
    assert_eq!(script.read_buf(&mut vec).await.unwrap(), 0);
    assert_eq!(vec, b">helloworld");

    let mut script = ScriptedIo::reads([give("hello")]);
    let mut memory = [0; 2];
    let mut slice = &mut memory[..];
    assert_eq!(script.read_buf(&mut slice).await.unwrap(), 2);
    assert_eq!(script.read_buf(&mut slice).await.unwrap(), 0, "no room");
    assert_eq!(script.take_log(), ["read 2"], "without room the reader is not asked");
    assert_eq!(&memory, b"he");
}

#[wakeful::test]
async fn read_exact_gives_all_or_an_error() {
    let mut script = ScriptedIo::reads([
        give("he"),
        Act::Wait,
        Act::Fail(ErrorKind::Interrupted),
        give("llo!"),
        Act::Fail(ErrorKind::TimedOut),
    ]);
    let mut buffer = [0; 5];
    assert_eq!(script.read_exact(&mut buffer).await.unwrap(), 5);
    assert_eq!(&buffer, b"hello");
    assert_eq!(script.read_exact(&mut []).await.unwrap(), 0);
    let failed = script.read_exact(&mut buffer).await.unwrap_err();
    assert_eq!(failed.kind(), ErrorKind::TimedOut);

    let early = ScriptedIo::reads([give("abc")]).read_exact(&mut buffer).await.unwrap_err();
    assert_eq!((early.kind(), early.to_string().as_str()), (ErrorKind::UnexpectedEof, "early eof"));
}

#[wakeful::test]
async fn read_to_end_adds_to_what_is_there() {
    let acts = [give("he"), Act::Wait, Act::Fail(ErrorKind::Interrupted), give([b'l'; 100])];
    let mut vec = b">".to_vec();
    assert_eq!(ScriptedIo::reads(acts).read_to_end(&mut vec).await.unwrap(), 102);
    assert_eq!(vec, [&b">he"[..], &[b'l'; 100]].concat());

    let mut script = ScriptedIo::reads([give("he"), Act::Fail(ErrorKind::Other), give("llo")]);
    assert!(script.read_to_end(&mut vec).await.is_err());
    assert!(vec.ends_with(b"lhe"), "what came before the error is there");
}

#[wakeful::test]
async fn a_vector_of_the_right_size_does_not_grow() {
    for len in [32, 33, 100, 5000] {
        let data = vec![7; len];
        let mut vec = Vec::with_capacity(len);
        let capacity = vec.capacity();
        assert_eq!(ScriptedIo::reads([give(&data)]).read_to_end(&mut vec).await.unwrap(), len);
        assert_eq!((&vec, vec.capacity()), (&data, capacity));

        let mut script = ScriptedIo::reads([give(&data), Act::Wait, give("more")]);
        let mut vec = Vec::with_capacity(len);
        assert_eq!(script.read_to_end(&mut vec).await.unwrap(), len + 4);
        assert_eq!(vec[len..], *b"more");
    }
}

#[wakeful::test]
async fn read_to_end_asks_for_more_and_more() {
    let mut script = ScriptedIo::reads([give(vec![1; 100_000])]);
    script.read_to_end(&mut Vec::new()).await.unwrap();
    assert!(script.log.len() < 20, "{:?}", script.log);
}

#[wakeful::test]
async fn text_must_be_text() {
    let mut text = ">".to_owned();
    let euro = "€".as_bytes();
    let mut script = ScriptedIo::reads([give(&euro[..1]), Act::Wait, give(&euro[1..])]);
    assert_eq!(script.read_to_string(&mut text).await.unwrap(), 3);
    assert_eq!(text, ">€");

    let not_text = ScriptedIo::reads([give(euro), give([0xff])]).read_to_string(&mut text).await;
    assert_eq!(not_text.unwrap_err().kind(), ErrorKind::InvalidData);
    assert_eq!(text, ">€", "as it was before");

    let mut script = ScriptedIo::reads([give("abc"), Act::Fail(ErrorKind::Other)]);
    assert_eq!(script.read_to_string(&mut text).await.unwrap_err().kind(), ErrorKind::Other);
    assert_eq!(text, ">€", "as it was before");

    let mut script = ScriptedIo::reads([give([0xff]), Act::Fail(ErrorKind::TimedOut)]);
    assert_eq!(script.read_to_string(&mut text).await.unwrap_err().kind(), ErrorKind::TimedOut);
    assert_eq!(text, ">€");
}

#[wakeful::test]
async fn take_ends_at_its_limit() {
    let script = ScriptedIo::reads([give("hello"), Act::Wait, give("world")]);
    let mut take = script.take(7);
    let mut text = String::new();
    assert_eq!(take.read_to_string(&mut text).await.unwrap(), 7);
    assert_eq!((text.as_str(), take.limit()), ("hellowo", 0));
    let asked = take.get_mut().take_log().len();
    assert_eq!(take.read(&mut [0; 1]).await.unwrap(), 0);
    assert_eq!(take.get_ref().log.len(), 0, "not asked again, after {asked} times");
    take.set_limit(u64::MAX);
    assert_eq!(take.read_to_string(&mut text).await.unwrap(), 3);
    assert_eq!(take.into_inner().read(&mut [0; 1]).await.unwrap(), 0);
}

#[wakeful::test]
async fn take_limits_the_buffer_too() {
    let mut take = (&b"hello world"[..]).take(5);
    assert_eq!(take.fill_buf().await.unwrap(), b"hello");
    take.consume(3);
    assert_eq!((take.limit(), take.fill_buf().await.unwrap()), (2, &b"lo"[..]));
    take.consume(2);
    assert_eq!(take.fill_buf().await.unwrap(), b"");
    assert_eq!(take.into_inner(), b" world");
}

#[wakeful::test]
async fn a_chain_reads_one_and_then_the_other() {
    let first = ScriptedIo::reads([give("he"), Act::Wait, give("l")]);
    let mut chain = first.chain(ScriptedIo::reads([Act::Wait, give("lo")]));
    assert_eq!(chain.read(&mut []).await.unwrap(), 0, "that is not the end of the first");
    let mut text = String::new();
    chain.read_to_string(&mut text).await.unwrap();
    assert_eq!(text, "hello");

    let mut chain = AsyncReadExt::chain(&b"ab"[..], &b"cd"[..]);
    let mut bytes = Vec::new();
    assert_eq!(chain.read_until(b'b', &mut bytes).await.unwrap(), 2);
    assert_eq!(chain.read_until(b'x', &mut bytes).await.unwrap(), 2);
    assert_eq!((bytes.as_slice(), chain.into_inner()), (&b"abcd"[..], (&b""[..], &b""[..])));
}

#[wakeful::test]
async fn read_until_includes_the_byte() {
    let acts = [give("a,b"), Act::Wait, Act::Fail(ErrorKind::Interrupted), give("c,,d")];
    let mut reader = BufReader::with_capacity(2, ScriptedIo::reads(acts));
    let mut bytes = Vec::new();
    let mut lengths = Vec::new();
    loop {
        match reader.read_until(b',', &mut bytes).await.unwrap() {
            0 => break,
            len => lengths.push(len),
        }
    }
    assert_eq!((lengths, bytes.as_slice()), (vec![2, 3, 1, 1], &b"a,bc,,d"[..]));
}

#[wakeful::test]
async fn read_until_can_be_given_up_and_begun_again() {
    let mut reader = BufReader::new(ScriptedIo::reads([give("ab"), Act::Hang, give("c,d")]));
    let mut bytes = Vec::new();
    assert!(reader.read_until(b',', &mut bytes).now_or_never().is_none());
    assert_eq!(bytes, b"ab");
    assert_eq!(reader.read_until(b',', &mut bytes).await.unwrap(), 2);
    assert_eq!(bytes, b"abc,");
}

#[wakeful::test]
async fn read_line_adds_a_line() {
    let mut reader = BufReader::new(ScriptedIo::reads([
        give("on"),
        Act::Wait,
        give("e\ntw"),
        Act::Fail(ErrorKind::Other),
        give("o\nÿ\n"),
        give([0xff, b'\n']),
        give("end"),
    ]));
    let mut text = String::new();
    assert_eq!(reader.read_line(&mut text).await.unwrap(), 4);
    assert_eq!(reader.read_line(&mut text).await.unwrap_err().kind(), ErrorKind::Other);
    assert_eq!(text, "one\ntw", "what came before the error is there");
    assert_eq!(reader.read_line(&mut text).await.unwrap(), 2);
    assert_eq!(reader.read_line(&mut text).await.unwrap(), 3, "ÿ is text");
    assert_eq!(reader.read_line(&mut text).await.unwrap_err().kind(), ErrorKind::InvalidData);
    assert_eq!(text, "one\ntwo\nÿ\n");
    assert_eq!(reader.read_line(&mut text).await.unwrap(), 3);
    assert_eq!(reader.read_line(&mut text).await.unwrap(), 0);
}

#[wakeful::test]
async fn lines_come_without_their_breaks() {
    let text = "one\n\r\n\ntwo\r\nthree\r";
    let mut lines = text.as_bytes().lines();
    for expected in ["one", "", "", "two", "three\r"] {
        assert_eq!(lines.next_line().await.unwrap().as_deref(), Some(expected));
    }
    assert_eq!(lines.next_line().await.unwrap(), None);
    assert_eq!(lines.next_line().await.unwrap(), None);
}

#[wakeful::test]
async fn a_line_that_is_given_up_is_not_lost() {
    let acts = [give("on"), Act::Hang, give("e\n"), give([0xff, b'\n']), give("two")];
    let mut lines = BufReader::new(ScriptedIo::reads(acts)).lines();
    assert!(lines.next_line().now_or_never().is_none());
    assert_eq!(lines.next_line().await.unwrap().as_deref(), Some("one"));
    assert_eq!(lines.next_line().await.unwrap_err().kind(), ErrorKind::InvalidData);
    assert_eq!(lines.next_line().await.unwrap().as_deref(), Some("two"));
    assert_eq!(lines.get_ref().buffer(), b"");
    assert_eq!(lines.into_inner().into_inner().reads.len(), 0);
}

#[wakeful::test]
async fn segments_come_without_their_ends() {
    let acts = [give("a--b"), Act::Hang, give("c-")];
    let mut split = BufReader::new(ScriptedIo::reads(acts)).split(b'-');
    assert_eq!(split.next_segment().await.unwrap().as_deref(), Some(&b"a"[..]));
    assert_eq!(split.next_segment().await.unwrap().as_deref(), Some(&b""[..]));
    assert!(split.next_segment().now_or_never().is_none());
    assert_eq!(split.next_segment().await.unwrap().as_deref(), Some(&b"bc"[..]));
    assert_eq!(split.next_segment().await.unwrap(), None);
}

#[wakeful::test]
async fn the_buffer_can_be_looked_at() {
    let acts = [Act::Wait, give("hello"), Act::Fail(ErrorKind::Other), give("!")];
    let mut reader = BufReader::new(ScriptedIo::reads(acts));
    assert_eq!(reader.fill_buf().await.unwrap(), b"hello");
    reader.consume(2);
    assert_eq!(reader.fill_buf().await.unwrap(), b"llo", "still there");
    reader.consume(3);
    assert_eq!(reader.fill_buf().await.unwrap_err().kind(), ErrorKind::Other);
    assert_eq!(reader.fill_buf().await.unwrap(), b"!");
    reader.consume(1);
    assert_eq!(reader.fill_buf().await.unwrap(), b"");
}
