//! Deadlocks of tasks that wait for several events: a lock in `select!` or `timeout`, beside a shutdown signal, a
//! timer or a socket.
//!
//! They are suspected, since one of the other events can end them, and the report names these.

use std::future::Future;
use std::panic::Location;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use wakeful::inspect::{Certainty, Deadlock, Exit, Report};
use wakeful::io::AsyncReadExt;
use wakeful::net::{TcpListener, TcpStream};
use wakeful::runtime::{Builder, Runtime};
use wakeful::sync::{Mutex, Notify, RwLock, Semaphore, broadcast, mpsc, oneshot, watch};
use wakeful::task::{JoinSet, yield_now};
use wakeful::time::{advance, interval, sleep, timeout};

/// The time limit of a wait; a test that reaches it hangs.
const LIMIT: Duration = Duration::from_secs(60);
/// Longer than any test.
const LONG: Duration = Duration::from_secs(3600);

type Program = fn() -> Pin<Box<dyn Future<Output = ()> + Send>>;

fn runtimes() -> Vec<(Runtime, Receiver<Report>)> {
    let mut two = Builder::new_multi_thread();
    two.worker_threads(2);
    let build = |mut builder: Builder| {
        let (tx, rx) = channel();
        let hook = move |report: &Report| drop(tx.send(report.clone()));
        builder.enable_all().report_blocked_after(None).on_report(hook);
        (builder.build().unwrap(), rx)
    };
    [Builder::new_current_thread(), two].into_iter().map(build).collect()
}

/// Runs the program until something is reported, and returns that: a suspected deadlock.
fn reported(rt: &Runtime, reports: Receiver<Report>, program: Program) -> Deadlock {
    rt.block_on(async {
        let program = wakeful::spawn(program());
        // `block_on` must not block, so another thread waits.
        let report = wakeful::task::spawn_blocking(move || reports.recv_timeout(LIMIT));
        let report = report.await.unwrap().expect("a report");
        let text = report.to_string();
        // The text stays the same when the sockets of the program are closed.
        program.abort();
        assert!(program.await.unwrap_err().is_cancelled());
        assert_eq!(report.to_string(), text);
        assert_eq!(report.certainty(), Certainty::Suspected, "{text}");
        assert!(text.contains("  assumes: "), "{text}");
        let Report::Deadlock(deadlock) = report else { panic!("{text}") };
        assert!(text.contains("  why: only this can end it: "), "{text}");
        for exit in exits(&deadlock) {
            assert!(text.contains(&exit.to_string()), "{text}");
            let site = exit.site().unwrap();
            assert_eq!(site.file(), Location::caller().file(), "{text}");
        }
        deadlock
    })
}

fn exits(deadlock: &Deadlock) -> Vec<&Exit> {
    deadlock.edges().iter().flat_map(|edge| edge.exits()).collect()
}

fn kinds(deadlock: &Deadlock) -> Vec<&'static str> {
    exits(deadlock).into_iter().map(Exit::kind).collect()
}

/// The program deadlocks, and these are the ways out.
fn is_reported(program: Program, tasks: usize, ways_out: &[&str]) {
    for (rt, reports) in runtimes() {
        let deadlock = reported(&rt, reports, program);
        assert_eq!(deadlock.edges().len(), tasks, "{deadlock}");
        assert_eq!(kinds(&deadlock), ways_out, "{deadlock}");
    }
}

#[test]
fn a_lock_taken_twice_under_a_timeout() {
    async fn program() {
        let lock = Mutex::new(());
        let _first = lock.lock().await;
        drop(timeout(LONG, lock.lock()).await);
    }
    for (rt, reports) in runtimes() {
        let deadlock = reported(&rt, reports, || Box::pin(program()));
        let [exit] = exits(&deadlock)[..] else { panic!("{deadlock}") };
        assert_eq!(exit.kind(), "timeout");
        let left = exit.remaining().unwrap();
        assert!(left < LONG && left > LONG - LIMIT, "{left:?}");
        assert!(deadlock.to_string().contains("the time-out at "), "{deadlock}");
    }
}

#[test]
fn a_lock_taken_twice_beside_a_shutdown_signal() {
    is_reported(
        || {
            Box::pin(async {
                let (_stop, mut stopped) = watch::channel(false);
                let lock = Mutex::new(());
                let _first = lock.lock().await;
                wakeful::select! {
                    _ = lock.lock() => unreachable!(),
                    _ = stopped.changed() => {}
                }
            })
        },
        1,
        &["watch::Receiver::changed"],
    );
}

#[test]
fn a_read_lock_beside_its_own_write_lock_and_messages() {
    is_reported(
        || {
            Box::pin(async {
                let (_all, mut news) = broadcast::channel::<()>(1);
                let (_jobs, mut job) = mpsc::channel::<()>(1);
                let (_tx, rx) = oneshot::channel::<()>();
                let (lock, wake) = (RwLock::new(()), Notify::new());
                let _write = lock.write().await;
                wakeful::select! {
                    _ = lock.read() => unreachable!(),
                    _ = news.recv() => {}
                    _ = job.recv() => {}
                    _ = rx => {}
                    () = wake.notified() => {}
                    () = sleep(LONG) => {}
                }
            })
        },
        1,
        &[
            "oneshot::Receiver",
            "broadcast::Receiver::recv",
            "mpsc::Receiver::recv",
            "Notify::notified",
            "sleep",
        ],
    );
}

#[test]
fn an_abba_with_timeouts() {
    is_reported(
        || {
            Box::pin(async {
                let (a, b) = (Arc::new(Mutex::new(())), Arc::new(Mutex::new(())));
                let both = Arc::new(wakeful::sync::Barrier::new(2));
                let mut tasks = JoinSet::new();
                for (first, second) in [(a.clone(), b.clone()), (b, a)] {
                    let both = both.clone();
                    tasks.spawn(async move {
                        let _first = first.lock().await;
                        both.wait().await;
                        drop(timeout(LONG, second.lock()).await);
                    });
                }
                while tasks.join_next().await.is_some() {}
            })
        },
        2,
        &["timeout", "timeout"],
    );
}

/// Both tasks run the same code. The text names their exit once.
#[test]
fn an_abba_whose_sides_can_be_shut_down() {
    for (rt, reports) in runtimes() {
        let deadlock = reported(&rt, reports, || {
            Box::pin(async {
                let (a, b) = (Arc::new(Mutex::new(())), Arc::new(Mutex::new(())));
                let (_stop, stopped) = watch::channel(false);
                let both = Arc::new(wakeful::sync::Barrier::new(2));
                let mut tasks = JoinSet::new();
                for (first, second) in [(a.clone(), b.clone()), (b, a)] {
                    let (both, mut stopped) = (both.clone(), stopped.clone());
                    tasks.spawn(async move {
                        let _first = first.lock().await;
                        both.wait().await;
                        wakeful::select! {
                            _ = second.lock() => {}
                            _ = stopped.changed() => {}
                        }
                    });
                }
                while tasks.join_next().await.is_some() {}
            })
        });
        let [one, two] = exits(&deadlock)[..] else { panic!("{deadlock}") };
        assert_eq!(one.to_string(), two.to_string());
        assert!(deadlock.to_string().contains(&format!("only this can end it: {one}.\n")));
    }
}

/// One of two tasks has an exit. The other has none, but depends on the first.
#[test]
fn an_abba_of_which_one_side_can_be_shut_down() {
    is_reported(
        || {
            Box::pin(async {
                let (a, b) = (Arc::new(Mutex::new(())), Arc::new(Mutex::new(())));
                let (_stop, mut stopped) = watch::channel(false);
                let (a2, b2) = (a.clone(), b.clone());
                let (locked, has_locked) = oneshot::channel();
                let other = wakeful::spawn(async move {
                    let _b = b2.lock().await;
                    locked.send(()).unwrap();
                    drop(a2.lock().await);
                });
                let _a = a.lock().await;
                has_locked.await.unwrap();
                wakeful::select! {
                    _ = b.lock() => unreachable!(),
                    _ = stopped.changed() => {}
                }
                drop(other);
            })
        },
        2,
        &["watch::Receiver::changed"],
    );
}

/// As a connection of a web server does: it polls the handler, and reads the socket to see it closed.
#[test]
fn a_handler_that_locks_twice_beside_its_socket() {
    is_reported(
        || {
            Box::pin(async {
                let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
                let _client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
                let (mut socket, _) = listener.accept().await.unwrap();
                let state = Mutex::new(0);
                let handler = async {
                    let _first = state.lock().await;
                    *state.lock().await += 1;
                };
                wakeful::select! {
                    () = handler => unreachable!(),
                    _ = socket.read_u8() => {}
                }
            })
        },
        1,
        &["read"],
    );
}

/// A runtime that is never quiet is scanned all the same.
#[test]
fn a_deadlock_beside_a_heartbeat() {
    is_reported(
        || {
            Box::pin(async {
                let beats = wakeful::spawn(async {
                    let mut beat = interval(Duration::from_millis(20));
                    loop {
                        beat.tick().await;
                    }
                });
                let lock = Mutex::new(());
                let _first = lock.lock().await;
                drop(timeout(LONG, lock.lock()).await);
                drop(beats);
            })
        },
        1,
        &["timeout"],
    );
}

/// A future of another library holds a waker of the task, so the report cannot name what it waits for.
#[test]
fn a_lock_beside_a_foreign_future() {
    for (rt, reports) in runtimes() {
        let report = rt.block_on(async {
            let (_tell, told_foreign) = futures::channel::oneshot::channel::<()>();
            let task = wakeful::spawn(async move {
                let lock = Mutex::new(());
                let _first = lock.lock().await;
                wakeful::select! {
                    _ = lock.lock() => unreachable!(),
                    _ = told_foreign => {}
                }
            });
            let report = wakeful::task::spawn_blocking(move || reports.recv_timeout(LIMIT));
            let report = report.await.unwrap().expect("a report");
            task.abort();
            report
        });
        let Report::Deadlock(deadlock) = &report else { panic!("{report}") };
        assert_eq!(report.certainty(), Certainty::Suspected);
        let [exit] = exits(deadlock)[..] else { panic!("{report}") };
        assert_eq!((exit.kind(), exit.site()), ("unknown", None));
        assert!(report.to_string().contains("a future that is not wakeful's own"), "{report}");
    }
}

/// Diagnoses a program on a paused clock after `waits`, and lets it finish.
fn diagnosed(waits: Duration, program: impl Future<Output = ()> + Send + 'static) -> Vec<Report> {
    let rt = Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
    rt.block_on(async {
        let task = wakeful::spawn(program);
        for _ in 0..3 {
            yield_now().await;
        }
        advance(waits).await;
        yield_now().await;
        let found = wakeful::runtime::Handle::current().diagnose();
        task.await.unwrap();
        found
    })
}

#[test]
fn a_lock_that_is_released_later_is_not_reported() {
    let found = diagnosed(Duration::from_secs(10), async {
        let lock = Arc::new(Mutex::new(()));
        let guard = lock.clone().lock_owned().await;
        let holds = wakeful::spawn(async move {
            sleep(Duration::from_secs(30)).await;
            drop(guard);
        });
        wakeful::select! {
            _ = lock.lock() => {}
            () = sleep(LONG) => unreachable!(),
        }
        holds.await.unwrap();
    });
    assert!(found.is_empty(), "{found:?}");
}

#[test]
fn a_lock_whose_holder_sleeps_is_not_reported() {
    let found = diagnosed(Duration::from_secs(10), async {
        let lock = Arc::new(Mutex::new(()));
        let holder = lock.clone();
        let holds = wakeful::spawn(async move {
            let _guard = holder.lock().await;
            sleep(Duration::from_secs(30)).await;
        });
        yield_now().await;
        assert!(timeout(LONG, lock.lock()).await.is_ok());
        holds.await.unwrap();
    });
    assert!(found.is_empty(), "{found:?}");
}

#[test]
fn a_young_deadlock_with_a_timeout_is_not_reported() {
    let program = async {
        let lock = Mutex::new(());
        let _first = lock.lock().await;
        assert!(timeout(Duration::from_secs(5), lock.lock()).await.is_err());
    };
    let found = diagnosed(Duration::from_secs(1), program);
    assert!(found.is_empty(), "{found:?}");
}

/// A common way to limit concurrency. The branches that have a permit go on.
#[test]
fn branches_that_share_permits_are_not_reported() {
    let found = diagnosed(Duration::from_secs(10), async {
        let permits = Semaphore::new(2);
        let job = || async {
            let _permit = permits.acquire().await.unwrap();
            sleep(Duration::from_secs(20)).await;
        };
        wakeful::join!(job(), job(), job(), job());
    });
    assert!(found.is_empty(), "{found:?}");
}
