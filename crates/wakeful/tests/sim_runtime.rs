//! The simulated flavor behaves like the other flavors, in virtual time and in a seeded order.

use std::cell::Cell;
use std::io::ErrorKind;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;
use wakeful::io::{AsyncBufReadExt, AsyncWriteExt};
use wakeful::runtime::{Builder, Handle, LocalOptions, Runtime, RuntimeFlavor};
use wakeful::sync::{Barrier, Notify, Semaphore, broadcast, mpsc, oneshot, watch};
use wakeful::task::{JoinSet, LocalSet, spawn_blocking, yield_now};
use wakeful::time::{Instant, interval, sleep, timeout};

const SEEDS: u64 = 30;

fn simulated(seed: u64) -> Runtime {
    Builder::new_simulated(seed).enable_all().build().unwrap()
}

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

fn secs(secs: u64) -> Duration {
    Duration::from_secs(secs)
}

/// Returns the message of the panic of `f`.
fn panic_of<R>(f: impl FnOnce() -> R) -> String {
    let payload = catch_unwind(AssertUnwindSafe(f)).err().expect("it panics");
    match payload.downcast::<String>() {
        Ok(text) => *text,
        Err(payload) => (*payload.downcast::<&str>().unwrap()).to_owned(),
    }
}

#[test]
fn tasks_and_their_outputs() {
    for seed in 0..SEEDS {
        let sum = simulated(seed).block_on(async {
            assert_eq!(Handle::current().runtime_flavor(), RuntimeFlavor::Simulated);
            let tasks: Vec<_> = (1..=10)
                .map(|n| {
                    wakeful::spawn(async move {
                        yield_now().await;
                        n
                    })
                })
                .collect();
            let mut sum = 0;
            for task in tasks {
                sum += task.await.unwrap();
            }
            sum
        });
        assert_eq!(sum, 55);
    }
}

#[test]
fn the_seed_decides_the_order_of_ready_tasks() {
    let order = |seed| {
        simulated(seed).block_on(async {
            let order = Arc::new(Mutex::new(Vec::new()));
            let tasks = (0..5).map(|n| (n, order.clone()));
            let tasks: Vec<_> = tasks
                .map(|(n, order)| wakeful::spawn(async move { order.lock().unwrap().push(n) }))
                .collect();
            for task in tasks {
                task.await.unwrap();
            }
            Arc::into_inner(order).unwrap().into_inner().unwrap()
        })
    };
    let orders: std::collections::BTreeSet<_> = (0..200).map(order).collect();
    // A fair draw of 200 from 120 permutations practically always has more than 60 different ones.
    assert!(orders.len() > 60, "{} orders", orders.len());
    assert_eq!(order(7), order(7));
}

#[test]
fn time_moves_to_the_next_timer_and_exactly_there() {
    for seed in 0..SEEDS {
        simulated(seed).block_on(async {
            let began = Instant::now();
            let fired = Arc::new(Mutex::new(Vec::new()));
            let sleepers = [30, 10, 3_600_000, 20].map(|after| {
                let fired = fired.clone();
                wakeful::spawn(async move {
                    sleep(ms(after)).await;
                    fired.lock().unwrap().push((after, began.elapsed()));
                })
            });
            for sleeper in sleepers {
                sleeper.await.unwrap();
            }
            let expected = [10, 20, 30, 3_600_000].map(|after| (after, ms(after)));
            assert_eq!(*fired.lock().unwrap(), expected);
            let mut ticks = interval(ms(7));
            for n in 0..5 {
                assert_eq!(ticks.tick().await - began, ms(3_600_000 + 7 * n));
            }
        });
    }
}

#[test]
fn a_timeout_elapses_only_when_its_future_is_late() {
    for seed in 0..SEEDS {
        simulated(seed).block_on(async {
            assert!(timeout(ms(10), sleep(ms(9))).await.is_ok());
            let began = Instant::now();
            assert!(timeout(ms(10), sleep(ms(11))).await.is_err());
            assert_eq!(began.elapsed(), ms(10));
            assert!(timeout(Duration::MAX, yield_now()).await.is_ok());
        });
    }
}

#[test]
fn channels_and_locks() {
    for seed in 0..SEEDS {
        simulated(seed).block_on(async {
            let (tx, mut rx) = mpsc::channel(2);
            for n in 0..4 {
                let tx = tx.clone();
                wakeful::spawn(async move {
                    for m in 0..10 {
                        tx.send((n, m)).await.unwrap();
                    }
                });
            }
            drop(tx);
            let mut next = [0; 4];
            while let Some((n, m)) = rx.recv().await {
                assert_eq!(next[n], m, "the order of each sender is kept");
                next[n] += 1;
            }
            assert_eq!(next, [10; 4]);

            let count = Arc::new(wakeful::sync::Mutex::new(0));
            let barrier = Arc::new(Barrier::new(5));
            let mut set = JoinSet::new();
            for _ in 0..5 {
                let (count, barrier) = (count.clone(), barrier.clone());
                set.spawn(async move {
                    barrier.wait().await;
                    let mut count = count.lock().await;
                    let before = *count;
                    yield_now().await;
                    *count = before + 1;
                });
            }
            while let Some(joined) = set.join_next().await {
                joined.unwrap();
            }
            assert_eq!(*count.lock().await, 5);
        });
    }
}

#[test]
fn other_primitives() {
    for seed in 0..SEEDS {
        simulated(seed).block_on(async {
            let (to_all, mut all) = broadcast::channel(4);
            let (set, mut seen) = watch::channel(0);
            let (done, is_done) = oneshot::channel();
            let (notify, permits) = (Arc::new(Notify::new()), Arc::new(Semaphore::new(1)));
            let (notified, held) = (notify.clone(), permits.clone());
            let task = wakeful::spawn(async move {
                let _permit = held.acquire().await.unwrap();
                notified.notified().await;
                seen.wait_for(|value| *value == 3).await.unwrap();
                done.send(all.recv().await.unwrap()).unwrap();
            });
            notify.notify_one();
            set.send(3).unwrap();
            to_all.send("all").unwrap();
            assert_eq!(is_done.await.unwrap(), "all");
            task.await.unwrap();
            assert_eq!(permits.available_permits(), 1);
        });
    }
}

#[test]
fn select_begins_where_the_seed_says() {
    let first = |seed| {
        simulated(seed).block_on(async {
            wakeful::select! {
                () = async {} => 1,
                () = async {} => 2,
                () = async {} => 3,
            }
        })
    };
    let firsts: Vec<i32> = (0..100).map(first).collect();
    assert!((1..=3).all(|branch| firsts.contains(&branch)), "{firsts:?}");
    assert_eq!(firsts, (0..100).map(first).collect::<Vec<_>>());
}

#[test]
fn local_tasks_of_sets_and_of_a_local_runtime() {
    let order = |seed| {
        simulated(seed).block_on(async {
            let order = Rc::new(Cell::new(0));
            let set = LocalSet::new();
            for n in 1..=3 {
                let order = order.clone();
                set.spawn_local(async move { order.set(order.get() * 10 + n) });
            }
            set.await;
            order.get()
        })
    };
    let orders: std::collections::BTreeSet<_> = (0..100).map(order).collect();
    assert!(orders.contains(&123) && orders.len() == 6, "{orders:?}");

    let local = Builder::new_simulated(1).build_local(LocalOptions::default()).unwrap();
    let value = Rc::new(5);
    let kept = value.clone();
    let task = local.spawn_local(async move {
        wakeful::task::spawn_local(async move { *value }).await.unwrap()
    });
    assert_eq!(local.block_on(task).unwrap(), *kept);
}

#[test]
fn closures_run_as_tasks_on_the_thread_of_the_simulation() {
    for seed in 0..SEEDS {
        let runtime = simulated(seed);
        let here = thread::current().id();
        let sum = runtime.block_on(async {
            let closures = (0..5).map(|n| spawn_blocking(move || (thread::current().id(), n)));
            let mut sum = 0;
            for closure in closures.collect::<Vec<_>>() {
                let (thread, n) = closure.await.unwrap();
                assert_eq!(thread, here);
                sum += n;
            }
            sum
        });
        assert_eq!(sum, 10);
        assert_eq!(runtime.metrics().num_blocking_threads(), 0);
    }
}

#[test]
fn a_task_is_preempted_at_operations_that_are_ready() {
    // Without a cut, each of the two tasks adds all of its units in one poll.
    let interleaved = |seed| {
        simulated(seed).block_on(async {
            let (tx, mut rx) = mpsc::unbounded_channel();
            let semaphore = Arc::new(Semaphore::new(100));
            let tasks = ["a", "b"].map(|name| {
                let (tx, semaphore) = (tx.clone(), semaphore.clone());
                wakeful::spawn(async move {
                    for _ in 0..4 {
                        semaphore.acquire().await.unwrap().forget();
                        tx.send(name).unwrap();
                    }
                })
            });
            for task in tasks {
                task.await.unwrap();
            }
            drop(tx);
            let mut text = String::new();
            while let Some(name) = rx.recv().await {
                text += name;
            }
            text
        })
    };
    let texts: Vec<String> = (0..300).map(interleaved).collect();
    let calm = texts.iter().filter(|text| *text == "aaaabbbb" || *text == "bbbbaaaa").count();
    assert!(calm > 150 && calm < 300, "{calm} of 300 without a preemption");
}

#[test]
fn panics_and_aborts_reach_the_join_handle() {
    simulated(3).block_on(async {
        let panicked = wakeful::spawn(async { panic!("planted") }).await;
        assert!(panicked.unwrap_err().is_panic());
        let aborted = wakeful::spawn(sleep(ms(5)));
        aborted.abort();
        assert!(aborted.await.unwrap_err().is_cancelled());
    });
}

#[test]
fn tasks_make_progress_only_in_block_on_and_go_on_in_the_next() {
    let runtime = simulated(3);
    let polls = Arc::new(AtomicU32::new(0));
    let counter = polls.clone();
    let task = runtime.spawn(async move {
        sleep(ms(10)).await;
        counter.fetch_add(1, SeqCst)
    });
    runtime.block_on(async { sleep(ms(5)).await });
    assert_eq!(polls.load(SeqCst), 0);
    assert_eq!(runtime.block_on(task).unwrap(), 0);
    drop(runtime);
    assert_eq!(polls.load(SeqCst), 1);
}

#[test]
fn dumps_and_metrics_show_the_simulation() {
    let runtime = Builder::new_simulated(1).enable_all().name("sim").build().unwrap();
    runtime.block_on(async {
        let notify = Arc::new(Notify::new());
        let waiting = notify.clone();
        let task = wakeful::spawn(async move { waiting.notified().await });
        sleep(ms(1)).await;
        let dump = Handle::current().dump().to_string();
        assert!(dump.contains("sim_runtime.rs") && dump.contains("Notify"), "{dump}");
        notify.notify_one();
        task.await.unwrap();
        let metrics = Handle::current().metrics();
        assert_eq!(metrics.num_workers(), 1);
        assert!(metrics.worker_poll_count(0) >= 2);
        assert_eq!(metrics.num_alive_tasks(), 0);
    });
    assert_eq!(runtime.handle().name(), Some("sim"));
}

#[test]
fn task_hooks_see_every_poll() {
    let polls = Arc::new(AtomicU32::new(0));
    let counter = polls.clone();
    let mut builder = Builder::new_simulated(2);
    builder.on_before_task_poll(move |_| _ = counter.fetch_add(1, SeqCst));
    let runtime = builder.build().unwrap();
    runtime.block_on(wakeful::task::unconstrained(async {
        wakeful::spawn(yield_now()).await.unwrap();
    }));
    assert!(polls.load(SeqCst) >= 2);
}

#[test]
fn what_blocks_the_thread_is_refused() {
    let runtime = simulated(1);
    let nested = panic_of(|| runtime.block_on(async { Handle::current().block_on(async {}) }));
    assert!(nested.contains("`block_on` was called inside a simulation"), "{nested}");
    let closure = panic_of(|| {
        runtime.block_on(async {
            let handle = Handle::current();
            let closure = spawn_blocking(move || handle.block_on(async {}));
            std::panic::resume_unwind(closure.await.unwrap_err().into_panic())
        })
    });
    assert!(closure.contains("`block_on` was called inside a simulation"), "{closure}");
    let blocking = panic_of(|| {
        runtime.block_on(async {
            let (_tx, rx) = oneshot::channel::<()>();
            let closure = spawn_blocking(move || rx.blocking_recv());
            std::panic::resume_unwind(closure.await.unwrap_err().into_panic())
        })
    });
    assert!(blocking.contains("blocks its thread was called inside a simulation"), "{blocking}");
    let in_place = panic_of(|| runtime.block_on(async { wakeful::task::block_in_place(|| ()) }));
    assert!(in_place.contains("`block_in_place` was called inside a simulation"), "{in_place}");
}

#[test]
fn a_handle_cannot_block_on_a_simulation_from_outside() {
    let runtime = simulated(1);
    let handle = runtime.handle().clone();
    let text = panic_of(|| handle.block_on(async {}));
    assert!(text.contains("`Handle::block_on`") && text.contains("`Runtime::block_on`"), "{text}");
}

#[test]
fn advance_moves_the_clock_past_timers() {
    simulated(1).block_on(async {
        wakeful::time::pause();
        let began = Instant::now();
        let mut sleeps = [secs(1), secs(5)].map(|length| Box::pin(sleep(length)));
        for sleep in &mut sleeps {
            assert!(futures::poll!(sleep).is_pending());
        }
        wakeful::time::advance(secs(3)).await;
        assert_eq!(began.elapsed(), secs(3));
        assert_eq!(sleeps.each_ref().map(|sleep| sleep.is_elapsed()), [true, false]);
        wakeful::time::resume();
        let [_, last] = sleeps;
        last.await;
        assert_eq!(began.elapsed(), secs(5), "the time goes on from there by itself");
    });
}

#[test]
fn the_real_world_is_refused_with_an_error_that_names_it() {
    simulated(1).block_on(async {
        let errors = [
            (wakeful::fs::read("/etc/hostname").await.err(), "`wakeful::fs`"),
            (wakeful::process::Command::new("true").spawn().err(), "`process::Command`"),
            (wakeful::signal::ctrl_c().await.err(), "a listener for signals"),
            (wakeful::net::unix::pipe::pipe().err(), "what tests/sim_runtime.rs"),
            (Builder::new_current_thread().build().err(), "a runtime that a `Builder` builds"),
        ];
        let mut line = String::new();
        let stdin = wakeful::io::BufReader::new(wakeful::io::stdin());
        let stdin_error = { stdin }.read_line(&mut line).await.err();
        for (error, what) in errors.into_iter().chain([(stdin_error, "`io::stdin`")]) {
            let error = error.expect(what);
            assert_eq!(error.kind(), ErrorKind::Unsupported);
            let text = error.to_string().replace("crates/wakeful/", "");
            assert!(
                text.contains(what) && text.contains("not available in a simulation"),
                "{text}"
            );
        }
    });
}

#[test]
fn output_is_written() {
    simulated(1).block_on(async {
        let mut stderr = wakeful::io::stderr();
        stderr.write_all(b"a line of a simulated program\n").await.unwrap();
        stderr.flush().await.unwrap();
    });
}

#[test]
fn a_simulated_runtime_needs_no_thread_and_does_not_touch_others() {
    let other = Builder::new_current_thread().enable_all().build().unwrap();
    for seed in 0..3 {
        simulated(seed).block_on(async { sleep(ms(1_000_000)).await });
    }
    let began = std::time::Instant::now();
    other.block_on(async { sleep(ms(1)).await });
    assert!(began.elapsed() >= ms(1));
}

/// The number of a descriptor depends on the other open descriptors of the process.
#[test]
fn the_text_of_a_socket_names_no_descriptor() {
    let text = simulated(0).block_on(async {
        let listener = wakeful::net::TcpListener::bind("0.0.0.0:80").await.unwrap();
        let unbound = wakeful::net::TcpSocket::new_v4().unwrap();
        let unix = wakeful::net::UnixSocket::new_stream().unwrap();
        format!("{listener:?} {unbound:?} {unix:?}")
    });
    assert_eq!(text.matches("SimulatedSocket { id: ").count(), 3, "{text}");
    assert!(!text.contains("fd:"), "{text}");
}

#[test]
fn a_socket_of_the_kernel_does_not_connect() {
    use std::os::fd::{FromRawFd, IntoRawFd};
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let addr = listener.local_addr().unwrap();
    let plain = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
    plain.set_nonblocking(true).unwrap();
    let refused = simulated(0).block_on(async move {
        // SAFETY: the descriptor belongs to a socket, and has no other owner.
        let socket = unsafe { wakeful::net::TcpSocket::from_raw_fd(plain.into_raw_fd()) };
        socket.connect(addr).await.unwrap_err()
    });
    assert_eq!(refused.kind(), ErrorKind::Unsupported);
    assert!(refused.to_string().contains("`TcpSocket` made from a descriptor"), "{refused}");
    assert_eq!(listener.accept().unwrap_err().kind(), ErrorKind::WouldBlock);
}
