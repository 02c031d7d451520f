//! Streams in memory, halves of streams, and how dumps list tasks that wait for them.

use std::cell::Cell;
use std::future::{pending, poll_fn};
use std::io::{ErrorKind, IoSlice};
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::pin::pin;
use std::task::{Context, Poll};

use futures::FutureExt;
use wakeful::io::{
    self, AsyncBufReadExt, AsyncReadExt, AsyncSeekExt, AsyncWrite, AsyncWriteExt, DuplexStream,
    SeekFrom, SimplexStream, duplex, empty, join, repeat, simplex, sink, split,
};
use wakeful::runtime::OrphanPolicy;
use wakeful::task::{consume_budget, yield_now};

mod support {
    pub mod not_send;
    pub mod panic_site;
    pub mod rng;
    pub mod runtimes;
    pub mod scripted_io;
}
use support::not_send::CountingWaker;
use support::panic_site::panic_site;
use support::runtimes::{runtimes, serial_builders, watch};
use support::scripted_io::{Act, ScriptedIo, give};

#[test]
fn a_panic_does_not_spoil_a_stream_in_memory() {
    fn can_be_seen_after<T: UnwindSafe + RefUnwindSafe>() {}
    can_be_seen_after::<DuplexStream>();
    can_be_seen_after::<SimplexStream>();
}

#[wakeful::test]
async fn data_written_at_one_end_is_read_at_the_other() {
    let (mut a, mut b) = duplex(16);
    a.write_all(b"ping").await.unwrap();
    b.write_all(b"pong").await.unwrap();
    let mut buffer = [0; 16];
    assert_eq!(a.read(&mut buffer).await.unwrap(), 4);
    assert_eq!(b.read(&mut buffer).await.unwrap(), 4);
    assert_eq!(&buffer[..4], b"ping");
    assert!(b.read(&mut buffer).now_or_never().is_none());
    assert_eq!(b.read(&mut []).await.unwrap(), 0, "no room, no wait");
}

#[wakeful::test]
async fn a_full_pipe_takes_what_there_is_room_for() {
    let (mut a, mut b) = duplex(4);
    assert_eq!(a.write(b"abcdef").await.unwrap(), 4);
    assert!(a.write(b"ef").now_or_never().is_none());
    assert_eq!(a.write(b"").await.unwrap(), 0);
    let mut buffer = [0; 3];
    assert_eq!(b.read(&mut buffer).await.unwrap(), 3);
    let slices = [IoSlice::new(b""), IoSlice::new(b"e"), IoSlice::new(b"fgh")];
    assert!(a.is_write_vectored());
    assert_eq!(a.write_vectored(&slices).await.unwrap(), 3);
    assert!(a.write_vectored(&slices).now_or_never().is_none());
    assert_eq!(a.write_vectored(&slices[..1]).await.unwrap(), 0);
    drop(a);
    let mut rest = String::new();
    b.read_to_string(&mut rest).await.unwrap();
    assert_eq!(rest, "defg");
}

#[wakeful::test]
async fn the_end_of_one_is_the_end_of_the_other() {
    let (mut a, mut b) = duplex(4);
    a.write_all(b"last").await.unwrap();
    let mut stuck = pin!(async { b.write_all(b"too much").await });
    assert!(stuck.as_mut().now_or_never().is_none());
    drop(a);
    assert_eq!(stuck.await.unwrap_err().kind(), ErrorKind::BrokenPipe);
    let mut rest = Vec::new();
    assert_eq!(b.read_to_end(&mut rest).await.unwrap(), 4, "what was there is there");
    assert_eq!(b.write(b"").await.unwrap_err().kind(), ErrorKind::BrokenPipe);
}

#[wakeful::test]
async fn a_shutdown_ends_one_direction() {
    let (mut a, mut b) = duplex(4);
    a.write_all(b"bye").await.unwrap();
    a.shutdown().await.unwrap();
    assert_eq!(a.write(b"x").await.unwrap_err().kind(), ErrorKind::BrokenPipe);
    let mut text = String::new();
    b.read_to_string(&mut text).await.unwrap();
    assert_eq!(text, "bye");
    b.write_all(b"yes").await.unwrap();
    assert_eq!(a.read(&mut [0; 4]).await.unwrap(), 3);
}

#[test]
fn each_wakes_the_other_once_and_lets_go_of_its_waker() {
    let (mut a, mut b) = duplex(2);
    let (count, waker) = CountingWaker::new();
    let mut cx = Context::from_waker(&waker);
    {
        let mut buffer = [0; 2];
        let mut read = pin!(b.read(&mut buffer));
        assert!(read.as_mut().poll(&mut cx).is_pending());
        assert_eq!((count.take(), count.other_clones()), (0, 1));
        a.write(b"x").now_or_never().unwrap().unwrap();
        assert_eq!((count.take(), count.other_clones()), (1, 0));
        a.write(b"y").now_or_never().unwrap().unwrap();
        assert_eq!(count.take(), 0, "no task waits any more");
        assert!(read.as_mut().poll(&mut cx).is_ready());
    }
    let mut write = pin!(a.write_all(b"123"));
    assert!(write.as_mut().poll(&mut cx).is_pending());
    drop(b);
    assert_eq!((count.take(), count.other_clones()), (1, 0));

    let (mut a, b) = duplex(2);
    {
        let mut buffer = [0; 2];
        assert!(pin!(a.read(&mut buffer)).poll(&mut cx).is_pending());
        assert!(pin!(a.write_all(b"123")).poll(&mut cx).is_pending());
    }
    assert_eq!(count.other_clones(), 2, "the future was dropped, and the pipe keeps its waker");
    drop(a);
    assert_eq!((count.take(), count.other_clones()), (0, 0), "an end that goes is not woken");
    drop(b);
}

#[test]
fn two_tasks_with_little_room_between_them() {
    for rt in runtimes() {
        let data: Vec<u8> = (0..50_000u32).map(|n| (n % 251) as u8).collect();
        let (mut a, mut b) = duplex(7);
        let expected = data.clone();
        let writer = rt.spawn(async move {
            let mut rest = data.as_slice();
            for len in (1..20).cycle() {
                let piece = rest.split_off(..len.min(rest.len())).unwrap();
                a.write_all(piece).await.unwrap();
                if rest.is_empty() {
                    return;
                }
            }
        });
        let reader = rt.spawn(async move {
            let mut all = Vec::new();
            b.read_to_end(&mut all).await.unwrap();
            all
        });
        rt.block_on(writer).unwrap();
        assert_eq!(rt.block_on(reader).unwrap(), expected, "{}", rt.name);
    }
}

#[wakeful::test]
async fn simplex_is_one_direction() {
    let (mut reader, mut writer) = simplex(4);
    writer.write_all(b"ab").await.unwrap();
    assert_eq!(reader.read(&mut [0; 4]).await.unwrap(), 2);
    assert!(reader.read(&mut [0; 4]).now_or_never().is_none());
    writer.write_all(b"cd").await.unwrap();
    writer.shutdown().await.unwrap();
    assert_eq!(writer.write(b"e").await.unwrap_err().kind(), ErrorKind::BrokenPipe);
    assert!(writer.is_write_vectored());
    let mut whole: SimplexStream = reader.unsplit(writer);
    let mut text = String::new();
    assert_eq!(whole.read_to_string(&mut text).await.unwrap(), 2);
    assert!(format!("{whole:?}").contains("is_closed: true"), "{whole:?}");
}

#[test]
fn a_pipe_needs_room() {
    for misuse in
        [(|| drop(duplex(0))) as fn(), || drop(simplex(0)), || drop(SimplexStream::new_unsplit(0))]
    {
        let site = panic_site(misuse);
        assert_eq!(
            (site.file.as_str(), site.message.as_str()),
            (file!(), "`max_buf_size` must be greater than 0")
        );
    }
}

#[test]
fn halves_work_from_two_tasks() {
    for rt in runtimes() {
        let (near, far) = duplex(8);
        let (mut far_reader, mut far_writer) = split(far);
        let echo = rt.spawn(async move {
            io::copy(&mut far_reader, &mut far_writer).await.unwrap();
            far_writer.shutdown().await.unwrap();
            (far_reader, far_writer)
        });
        let (mut reader, mut writer) = split(near);
        let talk = rt.spawn(async move {
            for _ in 0..1000 {
                writer.write_all(b"0123456789").await.unwrap();
            }
            writer.shutdown().await.unwrap();
        });
        let mut all = Vec::new();
        rt.block_on(reader.read_to_end(&mut all)).unwrap();
        assert_eq!(all, b"0123456789".repeat(1000), "{}", rt.name);
        rt.block_on(talk).unwrap();
        let (reader, writer) = rt.block_on(echo).unwrap();
        assert!(reader.is_pair_of(&writer) && writer.is_pair_of(&reader));
        drop(reader.unsplit(writer));
    }
}

#[test]
fn halves_of_two_streams_are_no_pair() {
    let (reader, writer) = split(duplex(1).0);
    let (other_reader, other_writer) = split(duplex(1).0);
    assert!(!reader.is_pair_of(&other_writer) && !writer.is_pair_of(&other_reader));
    let site = panic_site(std::panic::AssertUnwindSafe(|| reader.unsplit(other_writer)));
    assert_eq!(
        (site.file.as_str(), site.message.as_str()),
        (file!(), "Unrelated `split::Write` passed to `split::Read::unsplit`.")
    );
    assert_eq!(format!("{other_reader:?} {writer:?}"), "split::ReadHalf split::WriteHalf");
}

#[wakeful::test]
async fn a_half_stays_usable_after_a_panic_in_the_other() {
    let (mut reader, mut writer) = split(ScriptedIo::reads([Act::Take(1), give("fine")]));
    let panicked = std::panic::AssertUnwindSafe(reader.read_u8()).catch_unwind().await;
    assert!(panicked.is_err(), "the script has that act in the wrong direction");
    writer.write_all(b"x").await.unwrap();
    let mut text = String::new();
    reader.read_to_string(&mut text).await.unwrap();
    assert_eq!(text, "fine");
}

#[wakeful::test]
async fn a_reader_and_a_writer_make_a_stream() {
    let mut stream = join(&b"in\nside"[..], Vec::new());
    let mut line = String::new();
    stream.read_line(&mut line).await.unwrap();
    stream.read_to_string(&mut line).await.unwrap();
    stream.write_all(line.as_bytes()).await.unwrap();
    assert!(stream.is_write_vectored());
    stream.shutdown().await.unwrap();
    assert_eq!((stream.reader().len(), stream.writer().len()), (0, 7));
    let (_, written) = stream.into_inner();
    assert_eq!(written, b"in\nside");
}

#[wakeful::test]
async fn some_are_endless() {
    let mut nothing = empty();
    assert_eq!(nothing.read(&mut [0; 4]).await.unwrap(), 0);
    assert_eq!(nothing.fill_buf().await.unwrap(), b"");
    assert_eq!(nothing.write(b"abc").await.unwrap(), 3);
    assert_eq!(nothing.seek(SeekFrom::Start(9)).await.unwrap(), 0);
    let mut buffer = [0; 3];
    assert_eq!(repeat(b'x').read(&mut buffer).await.unwrap(), 3);
    assert_eq!(&buffer, b"xxx");
    let slices = [IoSlice::new(b"ab"), IoSlice::new(b"c")];
    assert_eq!(sink().write_vectored(&slices).await.unwrap(), 3);
    assert!(sink().is_write_vectored() && empty().is_write_vectored());
    assert_eq!(
        format!("{:?} {:?} {:?}", empty(), repeat(7), sink()),
        "Empty { .. } Repeat { byte: 7 } Sink { .. }"
    );
}

/// Runs `action` in a loop, and returns how often it ran before the task had to yield.
async fn times_until_a_yield(mut action: impl AsyncFnMut()) -> usize {
    yield_now().await;
    let times = Cell::new(0);
    let mut endless = pin!(async {
        loop {
            action().await;
            times.set(times.get() + 1);
        }
    });
    poll_fn(|cx| {
        assert!(endless.as_mut().poll(cx).is_pending());
        Poll::Ready(())
    })
    .await;
    times.get()
}

#[wakeful::test]
async fn memory_that_is_always_ready_spends_budget() {
    let budget = times_until_a_yield(consume_budget).await;
    assert_eq!(budget, 128);
    let mut buffer = [0; 1];
    let reads = times_until_a_yield(async || drop(empty().read(&mut [0; 1]).await)).await;
    let repeats = times_until_a_yield(async || drop(repeat(1).read(&mut buffer).await)).await;
    let writes = times_until_a_yield(async || drop(sink().write(b"x").await)).await;
    let flushes = times_until_a_yield(async || drop(sink().flush().await)).await;
    assert_eq!([reads, repeats, writes, flushes], [budget; 4]);
    let (mut a, mut b) = duplex(8);
    let both = times_until_a_yield(async || {
        a.write_all(b"x").await.unwrap();
        b.read_u8().await.unwrap();
    });
    assert_eq!(both.await, budget / 2);
}

#[test]
fn a_task_that_waits_is_listed_with_the_call_it_waits_in() {
    for (name, mut builder) in serial_builders() {
        let rt = watch(name, builder.on_orphan(OrphanPolicy::Report));
        let (tx, rx) = std::sync::mpsc::channel();
        let task = rt.spawn(async move {
            let (mut near, far) = duplex(8);
            let mut buffer = [0; 1];
            let (mut read, line) = (pin!(near.read(&mut buffer)), line!());
            poll_fn(|cx| {
                assert!(read.as_mut().poll(cx).is_pending());
                Poll::Ready(())
            })
            .await;
            tx.send(line).unwrap();
            // Dropping both ends drops the last waker of this task.
            drop(far);
            lose(read).await;
        });
        rt.settle();
        let orphan = rt.reports.wait_for_one();
        assert_eq!(orphan.id(), task.id(), "{name}");
        let (what, site) = orphan.last_waited_for().unwrap();
        assert_eq!(
            (what, site.file(), site.line()),
            ("data to read", file!(), rx.recv().unwrap()),
            "{name}"
        );
        task.abort();
    }
}

/// Waits forever, and drops its waker.
async fn lose<T>(_kept: T) {
    pending::<()>().await;
}
