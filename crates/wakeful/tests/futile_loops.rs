//! Loops that get a final result again and again are reported, on every kind of runtime. Loops that look alike and do
//! work, or wait, are not.

use std::future::{Future, poll_fn};
use std::io::Write;
use std::net::Shutdown;
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, OnceLock};
use std::task::Poll;
use std::time::{Duration, Instant};

use futures::StreamExt;
use wakeful::inspect::{Certainty, FutileLoop, Report};
use wakeful::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use wakeful::net::{TcpListener, TcpStream, UnixStream};
use wakeful::runtime::{Builder, Runtime};
use wakeful::sync::{Semaphore, broadcast, mpsc, oneshot, watch};
use wakeful::task::{JoinSet, yield_now};
use wakeful::time::{interval, sleep};

/// A loop that is not reported within this time fails the test.
const LIMIT: Duration = Duration::from_secs(60);
/// How long a futile loop goes on before it is reported: a tenth of the default, which `gallery_stalls` tests.
const WINDOW: Duration = Duration::from_millis(100);
/// How long a loop without a defect runs. In this time it gets far more final results than a futile loop needs.
const INNOCENT: Duration = Duration::from_millis(200);
/// How long a loop runs that has about 100 µs between two results. A futile loop needs 10,000.
const SLOW_INNOCENT: Duration = Duration::from_millis(1_300);

/// Tells a loop when to end: a report has come, or the time is over.
#[derive(Clone)]
struct Stop {
    reported: Arc<AtomicBool>,
    limit: Duration,
    /// When the time is over. It begins with the first round, so a loop has at least one.
    until: Arc<OnceLock<Instant>>,
}

impl Stop {
    fn is_set(&self) -> bool {
        let until = *self.until.get_or_init(|| Instant::now() + self.limit);
        self.reported.load(Relaxed) || Instant::now() >= until
    }
}

type Reports = Arc<Mutex<Vec<Report>>>;

fn builders() -> [(&'static str, Builder); 2] {
    let mut multi_thread = Builder::new_multi_thread();
    multi_thread.worker_threads(2);
    [("current_thread", Builder::new_current_thread()), ("multi_thread", multi_thread)]
}

/// Builds a runtime. Returns its reports, and the signal that stops the loop at the first report.
fn watched(builder: &mut Builder, limit: Duration) -> (Runtime, Reports, Stop) {
    wakeful::inspect::set_spin_window(WINDOW);
    let reports = Reports::default();
    let stop = Stop { reported: Arc::default(), limit, until: Arc::default() };
    let (list, reported) = (reports.clone(), stop.reported.clone());
    let hook = move |report: &Report| {
        list.lock().unwrap().push(report.clone());
        reported.store(true, Relaxed);
    };
    // A loop without any await that yields is reported as a blocked poll too.
    builder.enable_all().report_blocked_after(None).on_report(hook);
    (builder.build().unwrap(), reports, stop)
}

fn only_report(name: &str, reports: &Reports) -> FutileLoop {
    let reports = reports.lock().unwrap();
    match &reports[..] {
        [report @ Report::FutileLoop(futile)] => {
            assert_eq!((report.kind(), report.certainty()), ("futile_loop", Certainty::Suspected));
            futile.clone()
        }
        others => panic!("{name}: {} reports: {others:?}", others.len()),
    }
}

type Looping = Pin<Box<dyn Future<Output = u32> + Send>>;

/// Runs the loop as a task on each kind of runtime. It returns the line of its call.
fn finds(operation: &str, result: &str, looping: impl Fn(Stop) -> Looping) {
    for (flavor, mut builder) in builders() {
        let name = format!("{operation} on {flavor}");
        let (rt, reports, stop) = watched(&mut builder, LIMIT);
        let line = rt.block_on(async {
            let builder = wakeful::task::Builder::new().name("looping");
            builder.spawn(looping(stop)).unwrap().await.unwrap()
        });
        let report = only_report(&name, &reports);
        assert_eq!(report.task().name(), Some("looping"), "{name}");
        assert!(report.task().spawned_at().file().ends_with("futile_loops.rs"), "{name}");
        assert_eq!((report.operation(), &*report.result()), (operation, result), "{name}");
        assert!(report.count() >= 2_000, "{name}: {report}");
        assert!(report.duration() >= WINDOW, "{name}: {report}");
        let site = report.site().unwrap_or_else(|| panic!("{name}: no site in {report}"));
        assert!(site.file().ends_with("futile_loops.rs"), "{name}: {report}");
        assert_eq!(site.line(), line, "{name}: {report}");
        let text = report.to_string();
        assert!(text.starts_with("futile loop (suspected): task "), "{text}");
        assert!(text.contains(&format!(" {} times in ", report.count())), "{text}");
        assert!(text.contains("\"looping\"") && text.contains("  fix: "), "{text}");
    }
}

#[test]
fn recv_on_a_closed_channel() {
    finds("mpsc::Receiver::recv", "None", |stop| {
        Box::pin(async move {
            let (_, mut rx) = mpsc::channel::<u32>(1);
            while !stop.is_set() {
                let _ = rx.recv().await;
            }
            line!() - 2
        })
    });
}

#[test]
fn recv_in_a_select_with_a_timer() {
    finds("mpsc::Receiver::recv", "None", |stop| {
        Box::pin(async move {
            let (_, mut rx) = mpsc::unbounded_channel::<u32>();
            let mut ticks = interval(Duration::from_millis(20));
            while !stop.is_set() {
                wakeful::select! {
                    _ = ticks.tick() => {}
                    _ = rx.recv() => {}
                }
            }
            line!() - 3
        })
    });
}

#[test]
fn recv_many_and_try_recv_on_a_closed_channel() {
    finds("mpsc::Receiver::recv_many", "0", |stop| {
        Box::pin(async move {
            let (_, mut rx) = mpsc::channel::<u32>(1);
            let mut buffer = Vec::new();
            while !stop.is_set() {
                rx.recv_many(&mut buffer, 8).await;
            }
            line!() - 2
        })
    });
    finds("mpsc::Receiver::try_recv", "Err(Disconnected)", |stop| {
        Box::pin(async move {
            let (_, mut rx) = mpsc::channel::<u32>(1);
            while !stop.is_set() {
                let _ = (rx.try_recv(), yield_now().await);
            }
            line!() - 2
        })
    });
}

#[test]
fn other_channels_that_are_closed() {
    finds("oneshot::Receiver::try_recv", "Err(Closed)", |stop| {
        Box::pin(async move {
            let (_, mut rx) = oneshot::channel::<u32>();
            while !stop.is_set() {
                let _ = (rx.try_recv(), yield_now().await);
            }
            line!() - 2
        })
    });
    finds("broadcast::Receiver::recv", "Err(Closed)", |stop| {
        Box::pin(async move {
            let (_, mut rx) = broadcast::channel::<u32>(1);
            while !stop.is_set() {
                let _ = rx.recv().await;
            }
            line!() - 2
        })
    });
    finds("watch::Receiver::changed", "an error", |stop| {
        Box::pin(async move {
            let (_, mut rx) = watch::channel(1);
            while !stop.is_set() {
                let _ = rx.changed().await;
            }
            line!() - 2
        })
    });
    finds("Semaphore::acquire", "an error", |stop| {
        Box::pin(async move {
            let semaphore = Semaphore::new(1);
            semaphore.close();
            while !stop.is_set() {
                let _ = (semaphore.acquire().await.is_err(), yield_now().await);
            }
            line!() - 2
        })
    });
}

#[test]
fn an_empty_join_set() {
    finds("JoinSet::join_next", "None", |stop| {
        Box::pin(async move {
            let mut set = JoinSet::<()>::new();
            set.spawn(async {});
            while !stop.is_set() {
                wakeful::select! {
                    _ = std::future::pending::<()>() => {}
                    _ = set.join_next() => {}
                }
            }
            line!() - 3
        })
    });
}

#[test]
fn a_sleep_that_is_not_reset() {
    finds("Sleep", "Ready", |stop| {
        Box::pin(async move {
            let mut timer = pin!(sleep(Duration::from_millis(1)));
            let made = line!() - 1;
            while !stop.is_set() {
                timer.as_mut().await;
            }
            made
        })
    });
}

const END: &str = "0 bytes, the end of the data";

#[test]
fn reads_at_the_end_of_a_socket() {
    finds("read", END, |stop| {
        Box::pin(async move {
            let (mut socket, _) = UnixStream::pair().unwrap();
            let mut buf = [0; 16];
            while !stop.is_set() {
                let _ = socket.read(&mut buf).await;
            }
            line!() - 2
        })
    });
    finds("read", END, |stop| {
        Box::pin(async move {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let mut client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
            let (socket, _) = listener.accept().await.unwrap();
            client.write_all(b"one line\n").await.unwrap();
            drop(client);
            let mut lines = BufReader::new(socket).lines();
            while !stop.is_set() {
                let _ = lines.next_line().await;
            }
            line!() - 2
        })
    });
    finds("try_read", END, |stop| {
        Box::pin(async move {
            let (socket, _) = UnixStream::pair().unwrap();
            let mut buf = [0; 16];
            while !stop.is_set() {
                socket.readable().await.unwrap();
                let _ = socket.try_read(&mut buf);
            }
            line!() - 2
        })
    });
}

#[test]
fn reads_at_the_end_of_other_streams() {
    finds("read", END, |stop| {
        Box::pin(async move {
            let (mut pipe, _) = wakeful::io::duplex(16);
            let mut buf = [0; 16];
            while !stop.is_set() {
                let _ = pipe.read(&mut buf).await;
            }
            line!() - 2
        })
    });
    finds("read", END, |stop| {
        Box::pin(async move {
            let (_, mut pipe) = wakeful::net::unix::pipe::pipe().unwrap();
            let mut buf = [0; 16];
            while !stop.is_set() {
                let _ = pipe.read(&mut buf).await;
            }
            line!() - 2
        })
    });
    finds("read", END, |stop| {
        Box::pin(async move {
            let path = std::env::temp_dir().join(format!("wakeful-futile-{}", std::process::id()));
            std::fs::File::create(&path).unwrap().write_all(b"some bytes").unwrap();
            let mut file = wakeful::fs::File::open(&path).await.unwrap();
            let _ = std::fs::remove_file(&path);
            let mut buf = [0; 16];
            while !stop.is_set() {
                let _ = file.read(&mut buf).await;
            }
            line!() - 2
        })
    });
}

/// A listener that fails at each `accept`: the kernel refuses to accept after a shutdown.
fn broken_listener() -> TcpListener {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    // The standard library offers the call for streams only.
    let as_stream =
        std::net::TcpStream::from(std::os::fd::OwnedFd::from(listener.try_clone().unwrap()));
    as_stream.shutdown(Shutdown::Read).unwrap();
    TcpListener::from_std(listener).unwrap()
}

#[test]
fn an_accept_that_fails() {
    let error = std::io::Error::from_raw_os_error(22);
    finds("accept", &format!("the error {error}"), |stop| {
        Box::pin(async move {
            let listener = broken_listener();
            while !stop.is_set() {
                let _ = listener.accept().await;
            }
            line!() - 2
        })
    });
}

#[test]
fn the_future_of_block_on() {
    for (flavor, mut builder) in builders() {
        let (rt, reports, stop) = watched(&mut builder, LIMIT);
        rt.block_on(async {
            let (_, mut rx) = mpsc::channel::<u32>(1);
            while !stop.is_set() {
                let _ = rx.recv().await;
            }
        });
        let report = only_report(flavor, &reports);
        assert!(report.task().is_block_on() && report.count() >= 10_000, "{flavor}: {report}");
        assert!(report.site().unwrap().file().ends_with("futile_loops.rs"), "{flavor}: {report}");
    }
}

#[test]
fn two_loops_are_two_reports() {
    for (flavor, mut builder) in builders() {
        let (rt, reports, _) = watched(&mut builder, LIMIT);
        let limit = Instant::now() + LIMIT;
        let is_over = {
            let reports = reports.clone();
            move || reports.lock().unwrap().len() >= 2 || Instant::now() >= limit
        };
        rt.block_on(async {
            let mut tasks = JoinSet::new();
            for _ in 0..2 {
                let is_over = is_over.clone();
                tasks.spawn(async move {
                    let (_, mut rx) = mpsc::channel::<u32>(1);
                    while !is_over() {
                        for _ in 0..1_000 {
                            let _ = rx.recv().await;
                        }
                    }
                });
            }
            tasks.join_all().await;
        });
        let reports = reports.lock().unwrap();
        let task = |report: &Report| match report {
            Report::FutileLoop(futile) => futile.task().id().unwrap(),
            other => panic!("{flavor}: {other}"),
        };
        let tasks: Vec<_> = reports.iter().map(task).collect();
        assert!(tasks.len() == 2 && tasks[0] != tasks[1], "{flavor}: {reports:?}");
    }
}

type Innocent = Pin<Box<dyn Future<Output = u64> + Send>>;

fn is_silent(looping: impl Fn(Stop) -> Innocent) {
    is_silent_for(INNOCENT, looping);
}

/// Runs the loop as a task on each kind of runtime, and expects no report.
fn is_silent_for(duration: Duration, looping: impl Fn(Stop) -> Innocent) {
    for (flavor, mut builder) in builders() {
        let (rt, reports, stop) = watched(&mut builder, duration);
        let rounds = rt.block_on(async { wakeful::spawn(looping(stop)).await.unwrap() });
        let reports = reports.lock().unwrap();
        assert!(reports.is_empty() && rounds > 0, "{flavor}, {rounds} rounds: {reports:?}");
    }
}

#[test]
fn channels_that_are_drained_once_each() {
    is_silent(|stop| {
        Box::pin(async move {
            let mut rounds = 0;
            while !stop.is_set() {
                let (tx, mut rx) = mpsc::channel(4);
                if rounds % 2 == 0 {
                    tx.send(rounds).await.unwrap();
                }
                drop(tx);
                while rx.recv().await.is_some() {}
                rounds += 1;
            }
            rounds
        })
    });
}

#[test]
fn a_closed_channel_beside_one_with_messages() {
    is_silent(|stop| {
        Box::pin(async move {
            let (_, mut closed) = mpsc::channel::<u32>(1);
            let (tx, mut rx) = mpsc::unbounded_channel();
            let mut sum = 0;
            while !stop.is_set() {
                // As many as there are: the receiver never waits.
                (0..100).for_each(|number| tx.send(number).unwrap());
                for _ in 0..100 {
                    wakeful::select! {
                        Some(_) = closed.recv() => unreachable!(),
                        Some(number) = rx.recv() => sum += number,
                    }
                }
            }
            sum
        })
    });
}

/// Channels of other crates spend no budget. Each round handles a message.
#[test]
fn an_empty_join_set_or_a_closed_channel_beside_a_channel_of_another_crate() {
    is_silent(|stop| {
        Box::pin(async move {
            let mut set = JoinSet::<()>::new();
            let (_, mut closed) = mpsc::channel::<u32>(1);
            let (tx, mut rx) = futures::channel::mpsc::unbounded();
            let mut sum = 0;
            while !stop.is_set() {
                (0..100).for_each(|number| tx.unbounded_send(number).unwrap());
                for _ in 0..100 {
                    wakeful::select! {
                        Some(_) = set.join_next() => unreachable!(),
                        Some(_) = closed.recv() => unreachable!(),
                        Some(number) = rx.next() => sum += number,
                    }
                }
            }
            sum
        })
    });
}

/// The branch with the set goes on waiting, for tasks that another round may spawn.
#[test]
fn an_empty_join_set_in_a_branch_that_waits_on() {
    is_silent(|stop| {
        Box::pin(async move {
            let mut set = JoinSet::<()>::new();
            let (tx, mut rx) = futures::channel::mpsc::unbounded();
            let mut sum = 0;
            while !stop.is_set() {
                (0..100).for_each(|number| tx.unbounded_send(number).unwrap());
                for _ in 0..100 {
                    let all_ended = async {
                        while set.join_next().await.is_some() {}
                        std::future::pending::<()>().await;
                    };
                    wakeful::select! {
                        biased;
                        () = all_ended => unreachable!(),
                        Some(number) = rx.next() => sum += number,
                    }
                }
            }
            sum
        })
    });
}

/// Without `select!`: the loop handles a message, and then the tasks that it may have spawned.
#[test]
fn an_empty_join_set_after_each_message_of_another_crate() {
    is_silent(|stop| {
        Box::pin(async move {
            let mut set = JoinSet::<()>::new();
            let (tx, mut rx) = futures::channel::mpsc::unbounded();
            let mut sum = 0;
            while !stop.is_set() {
                (0..100).for_each(|number| tx.unbounded_send(number).unwrap());
                for _ in 0..100 {
                    sum += rx.next().await.unwrap();
                    while set.join_next().await.is_some() {}
                }
            }
            sum
        })
    });
}

#[test]
fn a_closed_channel_beside_a_timer() {
    is_silent_for(SLOW_INNOCENT, |stop| {
        Box::pin(async move {
            let (_, mut closed) = mpsc::channel::<u32>(1);
            let (mut ticks, mut count) = (interval(Duration::from_micros(100)), 0);
            while !stop.is_set() {
                wakeful::select! {
                    Some(_) = closed.recv() => unreachable!(),
                    _ = ticks.tick() => count += 1,
                }
            }
            count
        })
    });
}

#[test]
fn connections_that_end_once_each() {
    is_silent_for(SLOW_INNOCENT, |stop| {
        Box::pin(async move {
            let mut rounds = 0;
            let mut buf = [0; 16];
            while !stop.is_set() {
                let (mut socket, other) = UnixStream::pair().unwrap();
                drop(other);
                assert_eq!(socket.read(&mut buf).await.unwrap(), 0);
                rounds += 1;
            }
            rounds
        })
    });
}

#[test]
fn an_accept_that_backs_off() {
    is_silent_for(SLOW_INNOCENT, |stop| {
        Box::pin(async move {
            let listener = broken_listener();
            let mut errors = 0;
            while !stop.is_set() {
                assert!(listener.accept().await.is_err());
                errors += 1;
                sleep(Duration::from_micros(10)).await;
            }
            errors
        })
    });
}

#[test]
fn work_between_two_looks_at_a_closed_channel() {
    is_silent_for(SLOW_INNOCENT, |stop| {
        Box::pin(async move {
            let (_, mut commands) = mpsc::channel::<u32>(1);
            let mut state = 1_u64;
            while !stop.is_set() {
                if commands.try_recv().is_ok() {
                    break;
                }
                for _ in 0..20_000 {
                    state = std::hint::black_box(state).wrapping_mul(6_364_136_223_846_793_005) | 1;
                }
                yield_now().await;
            }
            state
        })
    });
}

#[test]
fn a_join_set_that_is_empty_now_and_then() {
    is_silent(|stop| {
        Box::pin(async move {
            let mut rounds = 0;
            while !stop.is_set() {
                let mut set = JoinSet::new();
                (0..rounds % 2).for_each(|_| drop(set.spawn(async {})));
                while set.join_next().await.is_some() {}
                rounds += 1;
            }
            rounds
        })
    });
}

/// A future that wakes itself and returns `Pending` once.
async fn yield_by_hand() {
    let mut has_yielded = false;
    poll_fn(|cx| {
        if std::mem::replace(&mut has_yielded, true) {
            return Poll::Ready(());
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

/// The work is a few additions to a variable of the task. It costs less than a yield.
#[test]
fn a_task_that_yields_by_hand_and_works() {
    is_silent(|stop| {
        Box::pin(async move {
            let mut done = 0;
            while !stop.is_set() {
                for _ in 0..1_000 {
                    done += std::hint::black_box(20);
                    yield_by_hand().await;
                }
            }
            done
        })
    });
}

/// The future of a `block_on` delays the tasks of its runtime, so it is watched there too.
#[test]
fn a_block_on_that_yields_by_hand_and_works() {
    let (rt, reports, stop) = watched(&mut Builder::new_current_thread(), INNOCENT);
    let waits = rt.spawn(async { sleep(LIMIT).await });
    let done = rt.block_on(async {
        let mut done = 0_u64;
        while !stop.is_set() {
            for _ in 0..1_000 {
                done += std::hint::black_box(20);
                yield_by_hand().await;
            }
        }
        done
    });
    waits.abort();
    let reports = reports.lock().unwrap();
    assert!(reports.is_empty() && done > 0, "{reports:?}");
}
