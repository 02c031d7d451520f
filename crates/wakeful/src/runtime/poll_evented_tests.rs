//! Descriptors on both kinds of runtime, without the types of `net` on top.

use super::*;
use crate::runtime::{Builder, OrphanPolicy, Runtime};
use std::future::poll_fn;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::Arc;

fn runtimes() -> [Runtime; 3] {
    // A report that nobody expects ends the test.
    let build = |builder: &mut Builder| {
        builder.enable_all().on_orphan(OrphanPolicy::Panic).build().unwrap()
    };
    let multi = |workers| build(Builder::new_multi_thread().worker_threads(workers));
    [build(&mut Builder::new_current_thread()), multi(1), multi(2)]
}

fn pair() -> (UnixStream, UnixStream) {
    let (a, b) = UnixStream::pair().unwrap();
    a.set_nonblocking(true).unwrap();
    b.set_nonblocking(true).unwrap();
    (a, b)
}

async fn read(io: &PollEvented<UnixStream>) -> u8 {
    let mut byte = [0];
    let count = poll_fn(|cx| io.poll_read(cx, 1, |mut io| io.read(&mut byte))).await.unwrap();
    assert_eq!(count, 1);
    byte[0]
}

async fn write(io: &PollEvented<UnixStream>, byte: u8) {
    let count = poll_fn(|cx| io.poll_write(cx, 1, |mut io| io.write(&[byte]))).await.unwrap();
    assert_eq!(count, 1);
}

#[test]
fn bytes_go_back_and_forth() {
    for runtime in runtimes() {
        let ping = async {
            let (a, b) = pair();
            let (a, b) = (PollEvented::both(a).unwrap(), PollEvented::both(b).unwrap());
            let echo = crate::spawn(async move {
                for _ in 0..1_000 {
                    let byte = read(&b).await;
                    write(&b, byte.wrapping_add(1)).await;
                }
            });
            for n in 0..1_000u32 {
                write(&a, n as u8).await;
                assert_eq!(read(&a).await, (n as u8).wrapping_add(1));
            }
            echo.await.unwrap();
        };
        // Once from the root, once from a task.
        runtime.block_on(async {
            ping.await;
        });
        runtime.block_on(async {
            let (a, b) = pair();
            let a = PollEvented::both(a).unwrap();
            let foreign = std::thread::spawn(move || (&b).write_all(&[7]).map(|()| b));
            assert_eq!(read(&a).await, 7);
            let b = foreign.join().unwrap().unwrap();
            let task = crate::spawn(async move { read(&a).await });
            (&b).write_all(&[8]).unwrap();
            assert_eq!(task.await.unwrap(), 8);
        });
    }
}

#[test]
fn many_wait_for_the_same() {
    for runtime in runtimes() {
        runtime.block_on(async {
            let (a, b) = pair();
            let a = Arc::new(PollEvented::both(a).unwrap());
            let waiting: Vec<_> = (0..100)
                .map(|_| {
                    let a = a.clone();
                    crate::spawn(async move {
                        let here = Location::caller();
                        let ready = a.registration.ready(Readiness::READ, WaitKind::IoReady, here);
                        assert!(!ready.await.unwrap().ready.is_empty());
                    })
                })
                .collect();
            (&b).write_all(&[1]).unwrap();
            for task in waiting {
                task.await.unwrap();
            }
        });
    }
}

#[test]
fn a_runtime_that_goes_tells_those_who_wait() {
    for runtime in runtimes() {
        let (a, _b) = pair();
        let a = runtime.block_on(async { PollEvented::both(a).unwrap() });
        drop(runtime);
        let mut cx = Context::from_waker(std::task::Waker::noop());
        let mut byte = [0];
        let gone = a.poll_read(&mut cx, 1, |mut io| io.read(&mut byte));
        assert!(matches!(gone, Poll::Ready(Err(_))));
        drop(a);
    }
}

/// As after a message in the error queue of a socket, which the system tells of as of an
/// end: an operation that would block shows that it was none.
#[test]
fn an_end_that_is_none_keeps_nobody_busy() {
    const ENDS: Readiness = Readiness(Readiness::READ_CLOSED.0 | Readiness::WRITE_CLOSED.0);
    const BOTH: Readiness = Readiness(Readiness::READ.0 | Readiness::WRITE.0);
    for runtime in runtimes() {
        let (a, _b) = pair();
        let a = runtime.block_on(async {
            let a = PollEvented::both(a).unwrap();
            // The only thing that the system has to tell.
            let here = Location::caller();
            a.registration.ready(Readiness::WRITE, WaitKind::IoReady, here).await.unwrap();
            a
        });
        let mut cx = Context::from_waker(std::task::Waker::noop());
        let block = || Err::<usize, _>(io::Error::from(io::ErrorKind::WouldBlock));
        let is_known = || !a.registration.look(ENDS).ready.is_empty();

        a.registration.assume(ENDS);
        assert!(a.poll_read(&mut cx, 1, |_| block()).is_pending());
        assert!(a.poll_write(&mut cx, 1, |_| block()).is_pending());
        assert!(!is_known());

        a.registration.assume(ENDS);
        let here = Location::caller();
        let mut waits =
            std::pin::pin!(
                a.async_io(OpSource::TheUsers, BOTH, WaitKind::IoReady, here, |_| block())
            );
        assert!(waits.as_mut().poll(&mut cx).is_pending());
        assert!(!is_known());

        a.registration.assume(ENDS);
        assert_eq!(
            a.try_io(OpSource::TheUsers, BOTH, |_| block()).unwrap_err().kind(),
            io::ErrorKind::WouldBlock
        );
        assert!(!is_known());
    }
}

/// Who came next may have relied on the one that failed to call the owner of the poller.
#[test]
fn a_registration_that_fails_calls_the_owner_of_the_poller() {
    for runtime in runtimes().into_iter().skip(1) {
        let _entered = runtime.enter();
        let keeper = crate::runtime::registration::keeper_with_io();
        let (poller, _) = keeper.shared.poller().unwrap();
        let file = std::fs::File::open("/proc/self/exe").unwrap();
        let Err(refused) = PollEvented::both(file) else { panic!("the system cannot watch it") };
        assert_eq!(refused.kind(), io::ErrorKind::PermissionDenied);
        // What is left of it is cleared away by a turn.
        let began = std::time::Instant::now();
        while poller.needs_poll() {
            assert!(began.elapsed().as_secs() < 20, "nobody turns the poller");
            std::thread::yield_now();
        }
    }
}
