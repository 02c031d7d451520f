//! Tests of descriptors on both flavors of runtime, without the types of `net` on top.

use super::*;
use crate::runtime::{Builder, OrphanPolicy, Runtime};
use std::future::poll_fn;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::Arc;

fn runtimes() -> [Runtime; 3] {
    // An unexpected orphan report ends the test.
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

fn kernel<S>(io: Io<'_, S>) -> &S {
    match io {
        Io::Kernel(io) => io,
        Io::Simulated(_) => panic!("no simulation runs"),
    }
}

async fn read(io: &PollEvented<UnixStream>) -> u8 {
    let mut byte = [0];
    let count = poll_fn(|cx| io.poll_read(cx, 1, |io| kernel(io).read(&mut byte))).await.unwrap();
    assert_eq!(count, 1);
    byte[0]
}

async fn write(io: &PollEvented<UnixStream>, byte: u8) {
    let count = poll_fn(|cx| io.poll_write(cx, 1, |io| kernel(io).write(&[byte]))).await.unwrap();
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
        // Once from `block_on`, once from a task.
        runtime.block_on(async {
            ping.await;
        });
        runtime.block_on(async {
            let (a, b) = pair();
            let a = PollEvented::both(a).unwrap();
            let writer = std::thread::spawn(move || (&b).write_all(&[7]).map(|()| b));
            assert_eq!(read(&a).await, 7);
            let b = writer.join().unwrap().unwrap();
            let task = crate::spawn(async move { read(&a).await });
            (&b).write_all(&[8]).unwrap();
            assert_eq!(task.await.unwrap(), 8);
        });
    }
}

#[test]
fn many_tasks_wait_for_one_descriptor() {
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
                        assert!(!ready.await.unwrap().ready().is_empty());
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
fn shutdown_of_the_runtime_fails_operations() {
    for runtime in runtimes() {
        let (a, _b) = pair();
        let a = runtime.block_on(async { PollEvented::both(a).unwrap() });
        drop(runtime);
        let mut cx = Context::from_waker(std::task::Waker::noop());
        let mut byte = [0];
        let result = a.poll_read(&mut cx, 1, |io| kernel(io).read(&mut byte));
        assert!(matches!(result, Poll::Ready(Err(_))));
        drop(a);
    }
}

/// The kernel reports a message in the error queue of a socket like a closed direction. An
/// operation that would block proves that the direction is open.
#[test]
fn would_block_clears_a_wrong_closed_direction() {
    const CLOSED: Readiness = Readiness(Readiness::READ_CLOSED.0 | Readiness::WRITE_CLOSED.0);
    const BOTH: Readiness = Readiness(Readiness::READ.0 | Readiness::WRITE.0);
    for runtime in runtimes() {
        let (a, _b) = pair();
        let a = runtime.block_on(async {
            let a = PollEvented::both(a).unwrap();
            // The only event that the kernel reports.
            let here = Location::caller();
            a.registration.ready(Readiness::WRITE, WaitKind::IoReady, here).await.unwrap();
            a
        });
        let mut cx = Context::from_waker(std::task::Waker::noop());
        let block = || Err::<usize, _>(io::Error::from(io::ErrorKind::WouldBlock));
        let is_closed = || !a.registration.readiness(CLOSED).ready().is_empty();

        a.registration.assume(CLOSED);
        assert!(a.poll_read(&mut cx, 1, |_| block()).is_pending());
        assert!(a.poll_write(&mut cx, 1, |_| block()).is_pending());
        assert!(!is_closed());

        a.registration.assume(CLOSED);
        let here = Location::caller();
        let mut wait =
            std::pin::pin!(a.async_io(OpSource::User, BOTH, WaitKind::IoReady, here, |_| block()));
        assert!(wait.as_mut().poll(&mut cx).is_pending());
        assert!(!is_closed());

        a.registration.assume(CLOSED);
        assert_eq!(
            a.try_io(OpSource::User, BOTH, |_| block()).unwrap_err().kind(),
            io::ErrorKind::WouldBlock
        );
        assert!(!is_closed());
    }
}

/// A later registration may rely on the failed one to wake the owner of the poller.
#[test]
fn failed_registration_wakes_the_owner_of_the_poller() {
    for runtime in runtimes().into_iter().skip(1) {
        let _entered = runtime.enter();
        let runtime_ref = crate::runtime::registration::runtime_ref_with_io();
        let (poller, _) = runtime_ref.shared.poller().unwrap();
        let file = std::fs::File::open("/proc/self/exe").unwrap();
        let Err(refused) = PollEvented::both(OwnedFd::from(file)) else {
            panic!("epoll cannot watch a regular file")
        };
        assert_eq!(refused.kind(), io::ErrorKind::PermissionDenied);
        // The owner removes the rest of the registration when it next polls.
        let began = std::time::Instant::now();
        while poller.needs_poll() {
            assert!(began.elapsed().as_secs() < 20, "no thread polls");
            std::thread::yield_now();
        }
    }
}
