//! Signals that this process raises for itself, on both kinds of runtime.
//!
//! Each test uses its own signals: a signal reaches the whole process, and tests run in parallel.

use std::ffi::c_int;
use std::future::pending;
use std::io::ErrorKind;
use std::pin::pin;
use std::sync::mpsc;
use std::task::Context;
use std::thread;

use wakeful::runtime::{Builder, OrphanPolicy};
use wakeful::signal;
use wakeful::signal::unix::{Signal, SignalKind, signal as listen};

mod support {
    pub mod bad_wakers;
    pub mod panic_site;
    pub mod runtimes;
    pub mod sockets;
}
use support::bad_wakers::panics_when_woken;
use support::panic_site::panic_site;
use support::runtimes::{TestRuntime, watch};
use support::sockets::{current_thread, poll_once, runtimes};

/// Raises a signal; its handler has run when this returns.
fn raise(kind: SignalKind) {
    // SAFETY: it sends a signal to this thread, and the test has a handler for it.
    assert_eq!(unsafe { libc::raise(kind.as_raw_value()) }, 0);
}

/// Returns a real-time signal, which no other code of this process uses.
fn real_time(number: c_int) -> SignalKind {
    SignalKind::from_raw(libc::SIGRTMIN() + number)
}

async fn is_pending(signal: &mut Signal) -> bool {
    poll_once(pin!(signal.recv())).await.is_pending()
}

#[test]
fn every_listener_gets_every_signal() {
    let kind = SignalKind::user_defined1();
    for rt in runtimes() {
        rt.block_on(async {
            let mut listeners: Vec<Signal> = (0..3).map(|_| listen(kind).unwrap()).collect();
            drop(listeners.remove(1));
            for _ in 0..3 {
                raise(kind);
                for listener in &mut listeners {
                    assert_eq!(listener.recv().await, Some(()), "{}", rt.name);
                }
            }
        });
    }
}

#[test]
fn a_task_waits_for_a_signal_from_another_process() {
    let kind = SignalKind::user_defined2();
    for rt in runtimes() {
        rt.block_on(async {
            let mut listener = listen(kind).unwrap();
            let task = wakeful::spawn(async move { listener.recv().await });
            let me = std::process::id().to_string();
            let kill = std::process::Command::new("sh")
                .args(["-c", &format!("kill -USR2 {me}")])
                .status()
                .unwrap();
            assert!(kill.success());
            assert_eq!(task.await.unwrap(), Some(()), "{}", rt.name);
        });
    }
}

#[test]
fn signals_that_came_before_a_recv_are_one() {
    let kind = SignalKind::hangup();
    let rt = current_thread();
    rt.block_on(async {
        let mut listener = listen(kind).unwrap();
        assert!(is_pending(&mut listener).await);
        raise(kind);
        raise(kind);
        listener.recv().await.unwrap();
        assert!(is_pending(&mut listener).await);
        raise(kind);
        listener.recv().await.unwrap();
    });
}

#[test]
fn a_new_listener_before_the_driver_poll_misses_no_signal() {
    let kind = SignalKind::window_change();
    let rt = current_thread();
    rt.block_on(async {
        drop(listen(kind).unwrap());
        raise(kind);
        assert_eq!(listen(kind).unwrap().recv().await, Some(()));
    });
}

#[test]
fn a_signal_without_a_listener_is_lost() {
    let (kind, other) = (real_time(0), real_time(1));
    let rt = current_thread();
    rt.block_on(async {
        drop(listen(kind).unwrap());
        let mut others = listen(other).unwrap();
        raise(kind);
        raise(other);
        // Signals arrive in order, so the one before was delivered too.
        others.recv().await.unwrap();
        assert!(is_pending(&mut listen(kind).unwrap()).await);
    });
}

#[test]
fn a_future_that_is_dropped_loses_no_signal() {
    let kind = real_time(2);
    for rt in runtimes() {
        rt.block_on(async {
            let mut listener = listen(kind).unwrap();
            assert!(is_pending(&mut listener).await);
            raise(kind);
            assert_eq!(listener.recv().await, Some(()), "{}", rt.name);
        });
    }
}

#[test]
fn several_runtimes_listen_at_once_and_go_in_any_order() {
    let kind = real_time(3);
    let (ready, is_ready) = mpsc::channel();
    let (got, has_got) = mpsc::channel();
    let mut threads: Vec<_> = (0..4)
        .map(|number| {
            let (ready, got) = (ready.clone(), got.clone());
            let (go, may_go) = mpsc::channel::<()>();
            let thread = thread::spawn(move || {
                let rt = current_thread();
                let mut listener = rt.block_on(async { listen(kind).unwrap() });
                ready.send(()).unwrap();
                while may_go.recv().is_ok() {
                    rt.block_on(listener.recv()).unwrap();
                    got.send(number).unwrap();
                }
            });
            (number, go, thread)
        })
        .collect();
    for _ in 0..4 {
        is_ready.recv().unwrap();
    }
    for leaves in [2, 0, 1, 0] {
        raise(kind);
        for (_, go, _) in &threads {
            go.send(()).unwrap();
        }
        let mut woken: Vec<i32> = threads.iter().map(|_| has_got.recv().unwrap()).collect();
        woken.sort_unstable();
        assert_eq!(woken, threads.iter().map(|(number, ..)| *number).collect::<Vec<_>>());
        let (_, go, thread) = threads.remove(leaves);
        drop(go);
        thread.join().unwrap();
    }
}

#[test]
fn the_end_of_the_runtime_is_the_end_of_its_listeners() {
    let kind = real_time(4);
    for rt in runtimes() {
        let mut listener = rt.block_on(async { listen(kind).unwrap() });
        let other = current_thread();
        other.block_on(async {
            let task = wakeful::spawn(async move {
                let ended = listener.recv().await;
                (ended, listener.recv().await)
            });
            wakeful::task::yield_now().await;
            let TestRuntime { runtime, reports, name } = rt;
            runtime.shutdown_background();
            assert_eq!(task.await.unwrap(), (None, None), "{name}");
            drop(reports);
            // A listener of another runtime still gets the signal.
            let mut listener = listen(kind).unwrap();
            raise(kind);
            listener.recv().await.unwrap();
        });
    }
}

#[test]
fn runtimes_come_and_go() {
    let kind = real_time(5);
    for _ in 0..200 {
        let rt = current_thread();
        rt.block_on(async {
            let mut listener = listen(kind).unwrap();
            raise(kind);
            listener.recv().await.unwrap();
        });
    }
    let open = std::fs::read_dir("/proc/self/fd").unwrap().count();
    assert!(open < 150, "{open} descriptors are open, of 200 runtimes that are gone");
}

#[test]
fn ctrl_c_is_the_signal_interrupt() {
    for rt in runtimes() {
        rt.block_on(async {
            let mut waits = pin!(signal::ctrl_c());
            assert!(poll_once(waits.as_mut()).await.is_pending());
            raise(SignalKind::interrupt());
            waits.await.unwrap();
        });
    }
}

#[test]
fn some_signals_are_refused() {
    let rt = current_thread();
    rt.block_on(async {
        for number in [-1, 0, libc::SIGKILL, libc::SIGSTOP, libc::SIGSEGV, libc::SIGILL] {
            let refused = listen(SignalKind::from_raw(number)).unwrap_err();
            assert_eq!(refused.to_string(), format!("Refusing to register signal {number}"));
        }
        for number in [libc::SIGRTMAX() + 1, 1000, i32::MAX] {
            let unknown = listen(SignalKind::from_raw(number)).unwrap_err();
            assert_eq!((unknown.kind(), unknown.raw_os_error()), (ErrorKind::Other, None));
            assert!(unknown.to_string().contains(&number.to_string()), "{unknown}");
        }
        // The C library keeps this one for itself.
        for _ in 0..2 {
            let kept = listen(SignalKind::from_raw(33)).unwrap_err();
            assert_eq!(kept.raw_os_error(), Some(libc::EINVAL), "{kept}");
        }
    });
}

#[test]
fn listening_without_io_panics() {
    let site = panic_site(|| drop(listen(SignalKind::hangup())));
    assert_eq!(site.file, file!());
    assert!(site.message.starts_with("there is no reactor running"), "{}", site.message);
    let site = panic_site(|| {
        let rt = Builder::new_current_thread().build().unwrap();
        rt.block_on(async { drop(listen(SignalKind::from_raw(-1))) });
    });
    assert_eq!(site.file, file!());
    assert!(site.message.contains("IO is disabled"), "{}", site.message);
}

#[test]
fn a_task_that_waits_is_listed_with_the_site() {
    let mut builder = Builder::new_current_thread();
    let rt = watch("current_thread", builder.enable_all().on_orphan(OrphanPolicy::Report));
    let lost = rt.spawn(async {
        let mut listener = listen(real_time(6)).unwrap();
        assert!(is_pending(&mut listener).await);
        // The listener had the waker of the future that was dropped.
        drop(listener);
        pending::<()>().await;
    });
    rt.settle();
    let orphan = rt.reports.wait_for_one();
    assert_eq!(orphan.id(), lost.id());
    let (what, site) = orphan.last_waited_for().unwrap();
    assert_eq!((what, site.file()), ("a signal", file!()));
}

#[test]
fn kinds_are_numbers() {
    assert_eq!(SignalKind::from(libc::SIGTERM), SignalKind::terminate());
    assert_eq!(c_int::from(SignalKind::alarm()), libc::SIGALRM);
    let named = [
        (SignalKind::child(), libc::SIGCHLD),
        (SignalKind::io(), libc::SIGIO),
        (SignalKind::pipe(), libc::SIGPIPE),
        (SignalKind::quit(), libc::SIGQUIT),
    ];
    for (kind, number) in named {
        assert_eq!(kind.as_raw_value(), number);
    }
}

#[test]
fn a_waker_that_panics_silences_no_signal() {
    for rt in runtimes() {
        rt.block_on(async {
            let (mut bad, mut good) =
                (listen(real_time(20)).unwrap(), listen(real_time(21)).unwrap());
            for _ in 0..3 {
                assert!(bad.poll_recv(&mut Context::from_waker(&panics_when_woken())).is_pending());
                raise(real_time(20));
                raise(real_time(21));
                assert_eq!(good.recv().await, Some(()), "{}", rt.name);
                assert_eq!(bad.recv().await, Some(()), "{}", rt.name);
            }
        });
    }
}
