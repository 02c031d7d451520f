//! `AsyncFd` on pipes, timer descriptors and sockets, on both kinds of runtime.

use std::fs::File;
use std::future::poll_fn;
use std::io::{self, ErrorKind, PipeReader, PipeWriter, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

use rustix::fs::OFlags;
use rustix::time::{Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec};
use wakeful::io::unix::AsyncFd;
use wakeful::io::{Interest, Ready};
use wakeful::task::yield_now;

mod support {
    pub mod panic_site;
    pub mod rng;
    pub mod runtimes;
    pub mod sockets;
}
use support::panic_site::panic_site;
use support::rng::{TestRng, seed};
use support::sockets::{Folder, current_thread, poll_once, runtimes};

/// Watches the descriptor of a value, in non-blocking mode.
#[track_caller]
fn watch<T: AsRawFd + AsFd>(thing: T, interest: Interest) -> AsyncFd<T> {
    let flags = rustix::fs::fcntl_getfl(&thing).unwrap();
    rustix::fs::fcntl_setfl(&thing, flags | OFlags::NONBLOCK).unwrap();
    // SAFETY: all that is watched here is of the standard library, which keeps it.
    unsafe { AsyncFd::register_with_interest(thing, interest) }.unwrap()
}

fn pipe() -> (AsyncFd<PipeReader>, PipeWriter) {
    let (reader, writer) = std::io::pipe().unwrap();
    (watch(reader, Interest::READABLE), writer)
}

async fn read(fd: &AsyncFd<PipeReader>, buf: &mut [u8]) -> io::Result<usize> {
    loop {
        let mut guard = fd.readable().await?;
        match guard.try_io(|fd| fd.get_ref().read(buf)) {
            Ok(result) => return result,
            Err(_would_block) => continue,
        }
    }
}

#[test]
fn a_pipe_is_read_as_it_is_written() {
    for rt in runtimes() {
        rt.block_on(async {
            let (fd, writer) = pipe();
            let writer = std::thread::spawn(move || {
                for byte in 0..200u8 {
                    (&writer).write_all(&[byte]).unwrap();
                }
            });
            let (mut all, mut buf) = (Vec::<u8>::new(), [0; 16]);
            loop {
                match read(&fd, &mut buf).await.unwrap() {
                    0 => break,
                    count => all.extend(&buf[..count]),
                }
            }
            assert_eq!(all, Vec::from_iter(0..200));
            // A read may see the end before the poller reports it.
            loop {
                let mut guard = fd.readable().await.unwrap();
                if guard.ready().is_read_closed() {
                    break;
                }
                guard.clear_ready();
            }
            writer.join().unwrap();
        });
    }
}

#[test]
fn a_timer_of_the_system_fires() {
    for rt in runtimes() {
        rt.block_on(async {
            let timer = rustix::time::timerfd_create(
                TimerfdClockId::Monotonic,
                TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC,
            );
            let timer = watch(timer.unwrap(), Interest::READABLE);
            let expirations = |timer: &OwnedFd| {
                let mut count = [0; 8];
                rustix::io::read(timer, &mut count)?;
                Ok(u64::from_ne_bytes(count))
            };
            let zero = Timespec { tv_sec: 0, tv_nsec: 0 };
            let soon = Timespec { tv_sec: 0, tv_nsec: 1_000_000 };
            let once = Itimerspec { it_interval: zero, it_value: soon };
            let again = Itimerspec { it_interval: soon, it_value: soon };

            let unset = pin!(timer.readable());
            assert!(poll_once(unset).await.is_pending());
            for _ in 0..3 {
                let flags = TimerfdTimerFlags::empty();
                rustix::time::timerfd_settime(timer.get_ref(), flags, &once).unwrap();
                assert_eq!(timer.async_io(Interest::READABLE, expirations).await.unwrap(), 1);
            }
            let flags = TimerfdTimerFlags::empty();
            rustix::time::timerfd_settime(timer.get_ref(), flags, &again).unwrap();
            let mut total = 0;
            while total < 5 {
                total += timer.async_io(Interest::READABLE, expirations).await.unwrap();
            }
        });
    }
}

#[test]
fn a_guard_says_whether_it_is_still_ready() {
    for rt in runtimes() {
        rt.block_on(async {
            let (fd, mut writer) = pipe();
            writer.write_all(b"ab").unwrap();

            // The descriptor stays ready after `retain_ready`, and after a dropped guard.
            let mut guard = fd.readable().await.unwrap();
            assert!(guard.ready().is_readable() && !guard.ready().is_writable());
            assert_eq!(guard.get_ref().as_raw_fd(), guard.get_inner().as_raw_fd());
            guard.retain_ready();
            drop(guard);
            let mut guard = fd.readable().await.unwrap();
            let result = guard.try_io(|fd| fd.get_ref().read(&mut [0]));
            assert_eq!(result.unwrap().unwrap(), 1);
            drop(guard);

            // An operation that would block clears readiness.
            let mut guard = fd.readable().await.unwrap();
            assert!(guard.try_io(|fd| fd.get_ref().read(&mut [0])).is_ok());
            let mut guard = fd.readable().await.unwrap();
            assert!(guard.try_io(|fd| fd.get_ref().read(&mut [0])).is_err());
            assert_eq!(guard.ready(), Ready::EMPTY);
            let mut ready = pin!(fd.readable());
            assert!(poll_once(ready.as_mut()).await.is_pending());
            let unasked = fd.try_io(Interest::READABLE, |_| -> io::Result<()> { panic!("asked") });
            assert_eq!(unasked.unwrap_err().kind(), ErrorKind::WouldBlock);

            writer.write_all(b"c").unwrap();
            drop(ready.await.unwrap());
            let asked = fd.try_io(Interest::READABLE, |mut fd| fd.read(&mut [0]));
            assert_eq!(asked.unwrap(), 1);
        });
    }
}

#[test]
fn a_guard_does_not_clear_what_came_after_it() {
    for rt in runtimes() {
        rt.block_on(async {
            let (fd, mut writer) = pipe();
            for _ in 0..50 {
                writer.write_all(b"a").unwrap();
                let mut guard = fd.readable().await.unwrap();
                assert_eq!(fd.get_ref().read(&mut [0]).unwrap(), 1);
                assert!(fd.get_ref().read(&mut [0]).is_err());
                // More data comes before the guard is cleared. It is found nevertheless: by an
                // event that came after the guard, or by an event that is still to come.
                writer.write_all(b"b").unwrap();
                if rt.name == "current_thread" {
                    for _ in 0..64 {
                        yield_now().await;
                    }
                }
                guard.clear_ready();
                assert_eq!(read(&fd, &mut [0]).await.unwrap(), 1);
            }
        });
    }
}

#[test]
fn a_part_of_what_is_ready_is_cleared() {
    for rt in runtimes() {
        rt.block_on(async {
            let (a, b) = std::os::unix::net::UnixStream::pair().unwrap();
            let mut fd = watch(a, Interest::READABLE | Interest::WRITABLE);
            (&b).write_all(b"x").unwrap();
            drop(fd.readable().await.unwrap());
            drop(fd.writable().await.unwrap());

            let both = Interest::READABLE | Interest::WRITABLE;
            let mut guard = fd.ready_mut(both).await.unwrap();
            assert!(guard.ready().is_readable() && guard.ready().is_writable());
            guard.clear_ready_matching(Ready::READABLE);
            assert!(!guard.ready().is_readable() && guard.ready().is_writable());
            assert_eq!(guard.get_inner_mut().write(b"y").unwrap(), 1);
            drop(guard);
            // Readiness was cleared before the read: no new event comes.
            let unasked = fd.try_io_mut(Interest::READABLE, |_| -> io::Result<()> { Ok(()) });
            assert_eq!(unasked.unwrap_err().kind(), ErrorKind::WouldBlock);
            fd.try_io_mut(Interest::WRITABLE, |fd| fd.write(b"z")).unwrap();

            // The end of a stream cannot be cleared.
            drop(b);
            let mut guard = fd.readable_mut().await.unwrap();
            guard.clear_ready();
            assert!(fd.readable_mut().await.unwrap().ready().is_read_closed());
            poll_fn(|cx| fd.poll_read_ready(cx).map_ok(drop)).await.unwrap();
            poll_fn(|cx| fd.poll_read_ready_mut(cx).map_ok(drop)).await.unwrap();
            poll_fn(|cx| fd.poll_write_ready(cx).map_ok(drop)).await.unwrap();
            poll_fn(|cx| fd.poll_write_ready_mut(cx).map_ok(drop)).await.unwrap();
            drop(fd.writable_mut().await.unwrap());
            let text = format!("{fd:?}");
            assert!(text.starts_with("AsyncFd { inner: Some(UnixStream"), "{text}");
        });
    }
}

/// A guard clears the readiness that it was created for. It clears other readiness only on request.
#[test]
fn a_guard_clears_what_it_was_not_given_for_if_asked_to() {
    for rt in runtimes() {
        rt.block_on(async {
            // Readable and writable from the start: the kernel reports both in one event.
            let ready_for_both = async || {
                let (a, b) = std::os::unix::net::UnixStream::pair().unwrap();
                (&b).write_all(b"x").unwrap();
                let fd = watch(a, Interest::READABLE | Interest::WRITABLE);
                drop(fd.readable().await.unwrap());
                (fd, b)
            };
            let is_ready = |fd: &AsyncFd<_>, interest| fd.try_io(interest, |_| Ok(())).is_ok();

            let (fd, _b) = ready_for_both().await;
            fd.readable().await.unwrap().clear_ready();
            assert!(!is_ready(&fd, Interest::READABLE) && is_ready(&fd, Interest::WRITABLE));

            let (fd, _b) = ready_for_both().await;
            let mut guard = fd.readable().await.unwrap();
            guard.clear_ready_matching(Ready::WRITABLE);
            assert!(guard.ready().is_readable());
            assert!(is_ready(&fd, Interest::READABLE) && !is_ready(&fd, Interest::WRITABLE));
        });
    }
}

#[test]
fn urgent_data_is_priority_readiness() {
    for rt in runtimes() {
        rt.block_on(async {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            let near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            let (far, _) = listener.accept().unwrap();
            let far = watch(far, Interest::READABLE | Interest::PRIORITY);

            near.set_nodelay(true).unwrap();
            (&near).write_all(b"plain").unwrap();
            let ready = far.ready(Interest::READABLE | Interest::PRIORITY).await.unwrap().ready();
            assert!(ready.is_readable() && !ready.is_priority());
            let mut urgent = pin!(far.ready(Interest::PRIORITY));
            assert!(poll_once(urgent.as_mut()).await.is_pending());
            socket2::SockRef::from(&near).send_out_of_band(b"!").unwrap();
            assert!(urgent.await.unwrap().ready().is_priority());
            let mut byte = [std::mem::MaybeUninit::uninit()];
            let socket = socket2::SockRef::from(far.get_ref());
            assert_eq!(socket.recv_out_of_band(&mut byte).unwrap(), 1);
        });
    }
}

#[test]
fn an_error_is_reported_to_an_interest_in_errors_alone() {
    for rt in runtimes() {
        rt.block_on(async {
            let (reader, writer) = std::io::pipe().unwrap();
            let writer = watch(writer, Interest::ERROR);
            let mut error = pin!(writer.ready(Interest::ERROR));
            assert!(poll_once(error.as_mut()).await.is_pending());
            drop(reader);
            let mut guard = error.await.unwrap();
            assert!(guard.ready().is_error());
            guard.clear_ready();
            assert!(poll_once(pin!(writer.ready(Interest::ERROR))).await.is_pending());
        });
    }
}

#[test]
fn a_value_that_cannot_be_watched_is_returned() {
    let rt = current_thread();
    let folder = Folder::new();
    rt.block_on(async {
        let file = File::create(folder.join("regular")).unwrap();
        let number = file.as_raw_fd();
        // SAFETY: a file keeps its descriptor.
        let error = unsafe { AsyncFd::register(file) }.unwrap_err();
        let text = error.to_string();
        assert!(std::error::Error::source(&error).is_some());
        let (file, cause) = error.into_parts();
        assert_eq!((file.as_raw_fd(), cause.kind()), (number, ErrorKind::PermissionDenied));
        assert_eq!(cause.to_string(), text);
        #[allow(deprecated, reason = "it is there for old code")]
        let error = AsyncFd::new(file).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::PermissionDenied);
    });
}

#[test]
fn a_descriptor_moves_to_another_runtime() {
    let [first, second, _third] = runtimes();
    let (fd, mut writer) = first.block_on(async { pipe() });
    let reader = fd.into_inner();
    let fd = first.block_on(async { watch(reader, Interest::READABLE) });
    drop(first.runtime);
    drop(first.reports);
    second.block_on(async {
        assert!(fd.readable().await.is_err());
        assert!(poll_fn(|cx| fd.poll_read_ready(cx).map_ok(drop)).await.is_err());
        assert!(fd.async_io(Interest::READABLE, |mut fd| fd.read(&mut [0])).await.is_err());
        let mut fd = watch(fd.into_inner(), Interest::READABLE);
        writer.write_all(b"x").unwrap();
        let count = fd.async_io_mut(Interest::READABLE, |fd| fd.read(&mut [0])).await.unwrap();
        assert_eq!(count, 1);
    });
    // Dropping the last `AsyncFd` closes the descriptor: the pipe has no reader.
    assert_eq!(writer.write(b"x").unwrap_err().kind(), ErrorKind::BrokenPipe);
}

#[test]
fn many_tasks_wait_for_one_descriptor() {
    for rt in runtimes() {
        rt.block_on(async {
            let (fd, mut writer) = pipe();
            let fd = Arc::new(fd);
            let tasks: Vec<_> = (0..50)
                .map(|_| {
                    let fd = fd.clone();
                    wakeful::spawn(async move { read(&fd, &mut [0]).await.unwrap() })
                })
                .collect();
            for _ in 0..50 {
                yield_now().await;
                writer.write_all(b"x").unwrap();
            }
            for task in tasks {
                assert_eq!(task.await.unwrap(), 1);
            }
        });
    }
}

/// Waits for a byte in one of several ways, and returns the number of bytes read.
async fn some_way(fd: &AsyncFd<PipeReader>, way: usize) -> usize {
    let read = |mut fd: &PipeReader| fd.read(&mut [0; 3]);
    let now = |result: io::Result<usize>| match result {
        Err(error) if error.kind() == ErrorKind::WouldBlock => 0,
        result => result.unwrap(),
    };
    match way {
        // Polls once and drops the wait.
        0 => {
            let _ = poll_once(pin!(fd.readable())).await;
            0
        }
        1 => now(fd.try_io(Interest::READABLE, read)),
        // Leaves its waker in the slot for `poll_read_ready`, which another task overwrites.
        2 => {
            let _ = poll_once(pin!(poll_fn(|cx| fd.poll_read_ready(cx)))).await;
            0
        }
        // Polls the wait, and drops it later.
        3 => {
            let mut ready = pin!(fd.readable());
            if poll_once(ready.as_mut()).await.is_pending() {
                yield_now().await;
            }
            0
        }
        4 => fd.async_io(Interest::READABLE, read).await.unwrap(),
        _ => {
            let mut guard = fd.readable().await.unwrap();
            match guard.try_io(|fd| read(fd.get_ref())) {
                Ok(result) => result.unwrap(),
                Err(_would_block) => 0,
            }
        }
    }
}

#[test]
fn readiness_is_never_lost() {
    const BYTES: usize = 20_000;
    let mut rng = TestRng::new(seed());
    for rt in runtimes() {
        let (fd, writer) = rt.block_on(async { pipe() });
        let fd = Arc::new(fd);
        let taken = Arc::new(AtomicUsize::new(0));
        let mut bursts = rng.branch();
        let thread = std::thread::spawn({
            let taken = taken.clone();
            move || {
                let mut sent = 0;
                while sent < BYTES {
                    let burst = (1 + bursts.below(8)).min(BYTES - sent);
                    (&writer).write_all(&[7; 8][..burst]).unwrap();
                    sent += burst;
                    // Usually waits until all bytes are read, so that every burst is an edge.
                    while !bursts.one_in(1_000) && taken.load(SeqCst) < sent {
                        std::thread::yield_now();
                    }
                }
            }
        });
        rt.block_on(async {
            let tasks: Vec<_> = (0..6)
                .map(|_| {
                    let (fd, taken, mut rng) = (fd.clone(), taken.clone(), rng.branch());
                    wakeful::spawn(async move {
                        // The end of the pipe ends all kinds of waits.
                        while !fd.readable().await.unwrap().ready().is_read_closed()
                            || taken.load(SeqCst) < BYTES
                        {
                            let count = some_way(&fd, rng.below(6)).await;
                            taken.fetch_add(count, SeqCst);
                        }
                    })
                })
                .collect();
            for task in tasks {
                task.await.unwrap();
            }
        });
        thread.join().unwrap();
        assert_eq!(taken.load(SeqCst), BYTES, "{}", rt.name);
    }
}

#[test]
fn outside_of_a_runtime_it_panics_at_the_call() {
    let (reader, _writer) = std::io::pipe().unwrap();
    let site = panic_site(move || watch(reader, Interest::READABLE));
    assert!(site.message.starts_with("there is no reactor running"), "{}", site.message);
    assert_eq!(site.file, file!());
}
