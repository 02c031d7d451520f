//! Waits that may never end: a barrier with too few tasks, too many permits, a kept sender, a channel that is full by
//! itself, a lost notification. Each has twins in which nothing is wrong, and nothing is reported.
//!
//! On a current-thread runtime the clock is paused and moved by hand. On a multi-thread runtime every wait counts as
//! stalled at once.

#[path = "../support/settle.rs"]
mod settle;

use std::panic::Location;
use std::sync::Arc;
use std::time::Duration;

use settle::settle;
use wakeful::inspect::{Certainty, Report, Stalled};
use wakeful::runtime::{Builder, Handle, Runtime};
use wakeful::sync::{Barrier, Notify, Semaphore, mpsc, oneshot};
use wakeful::task::{self, JoinHandle, may_wait_forever};
use wakeful::time::{advance, interval, sleep, timeout};

const SECOND: Duration = Duration::from_secs(1);
const HOUR: Duration = Duration::from_secs(3600);

/// A runtime whose clock only moves by `advance`, with the default time of three seconds.
fn paused() -> Runtime {
    let mut builder = Builder::new_current_thread();
    builder.enable_all().start_paused(true).on_report(|_| ()).build().unwrap()
}

/// A runtime on which each wait counts as stalled at once.
fn hasty() -> Runtime {
    let mut builder = Builder::new_multi_thread();
    builder.worker_threads(2).enable_all().report_lasting_after(Some(Duration::ZERO));
    builder.report_blocked_after(None).on_report(|_| ()).build().unwrap()
}

#[derive(Clone, Copy, PartialEq)]
enum Clock {
    Paused,
    Hasty,
}

impl Clock {
    /// Lets nine seconds pass. Returns what is stalled then, and asserts that nothing was stalled before.
    async fn stalled(self) -> Vec<Stalled> {
        settle().await;
        if self == Clock::Paused {
            for second in 0..9 {
                assert_eq!(names(&stalled_now()), [""; 0], "in second {second}");
                advance(SECOND).await;
                settle().await;
            }
        }
        stalled_now()
    }

    /// Lets nine seconds pass, and returns the only stalled wait.
    async fn only(self) -> Stalled {
        let mut found = self.stalled().await;
        assert_eq!(found.len(), 1, "{found:#?}");
        let found = found.remove(0);
        let text = found.to_string();
        assert!(text.starts_with("stalled (suspected): "), "{text}");
        assert!(text.contains("  assumes: ") && text.contains("  fix: "), "{text}");
        if self == Clock::Paused {
            assert!(found.waited() >= 9 * SECOND, "{text}");
        }
        found
    }

    /// Checks that nothing is stalled after nine seconds.
    async fn none(self) {
        let found = self.stalled().await;
        assert_eq!(found.len(), 0, "{}", found[0]);
    }
}

/// Runs a program on both kinds of runtime.
macro_rules! on_both {
    ($program:expr) => {{
        paused().block_on(async { $program(Clock::Paused).await });
        let rt = hasty();
        rt.block_on(async { $program(Clock::Hasty).await });
        rt.shutdown_background();
    }};
}

mod lookalikes;

fn names(found: &[Stalled]) -> Vec<&str> {
    found.iter().map(|stalled| stalled.task().name().unwrap_or("no name")).collect()
}

/// Returns what is stalled. Other reports may come too.
fn stalled_now() -> Vec<Stalled> {
    let only_stalled = |report: Report| match report {
        Report::Stalled(stalled) => Some(stalled),
        _ => None,
    };
    Handle::current().diagnose().into_iter().filter_map(only_stalled).collect()
}

fn named<F>(name: &str, future: F) -> JoinHandle<F::Output>
where
    F: Future<Output: Send> + Send + 'static,
{
    task::Builder::new().name(name).spawn(future).unwrap()
}

fn is_at(site: Option<&Location<'_>>, line: u32) -> bool {
    site.is_some_and(|site| (site.file(), site.line()) == (file!(), line))
}

// Barriers.

fn arrive(barrier: &Arc<Barrier>, name: &str) -> JoinHandle<()> {
    let barrier = barrier.clone();
    named(name, async move {
        barrier.wait().await;
    })
}

#[test]
fn a_barrier_with_too_few_tasks() {
    on_both!(async |clock: Clock| {
        let (barrier, made) = (Arc::new(Barrier::new(4)), line!());
        let _tasks = ["one", "two", "three"].map(|name| arrive(&barrier, name));
        let found = clock.only().await;
        assert_eq!((found.kind(), found.amounts()), ("Barrier::wait", Some((3, 4))), "{found}");
        assert_eq!(found.others(), 2, "{found}");
        assert!(found.to_string().contains("2 other tasks wait at the barrier"), "{found}");
        assert!(clock == Clock::Hasty || found.waited() == 9 * SECOND, "{found}");
        assert!(is_at(found.made_at(), made) && found.exits().is_empty(), "{found}");
        assert!(found.to_string().contains("3 of 4 tasks have arrived at a barrier"), "{found}");
        assert_eq!(Report::Stalled(found).certainty(), Certainty::Suspected);
        arrive(&barrier, "late").await.unwrap();
        settle().await;
        assert_eq!(names(&stalled_now()), [""; 0], "the last task was only late");
    });
}

#[test]
fn a_second_round_of_a_barrier_counts_anew() {
    on_both!(async |clock: Clock| {
        let barrier = Arc::new(Barrier::new(2));
        let (one, two) = (arrive(&barrier, "one"), arrive(&barrier, "two"));
        one.await.unwrap();
        two.await.unwrap();
        clock.none().await;
        let _third = arrive(&barrier, "third");
        let found = clock.only().await;
        assert_eq!((found.amounts(), names(&[found])), (Some((1, 2)), vec!["third"]));
    });
}

/// Only the time-out can end the wait, and the report says so.
#[test]
fn a_barrier_with_a_timeout_has_an_exit() {
    paused().block_on(async {
        let barrier = Arc::new(Barrier::new(2));
        named("waiter", async move { timeout(60 * SECOND, barrier.wait()).await.is_ok() });
        let found = Clock::Paused.only().await;
        let [exit] = found.exits() else { panic!("{found}") };
        assert_eq!((exit.kind(), exit.remaining()), ("timeout", Some(51 * SECOND)), "{found}");
        assert!(found.to_string().contains("  ends if: the time-out at "), "{found}");
    });
}

/// The other branch of the task does work, in which the other tasks may be started.
#[test]
fn a_barrier_beside_work_is_not_reported() {
    paused().block_on(async {
        let barrier = Arc::new(Barrier::new(2));
        let (_tx, mut rx) = mpsc::channel::<()>(1);
        named("works", async move {
            wakeful::select! {
                _ = barrier.wait() => {}
                _ = rx.recv() => {}
            }
        });
        Clock::Paused.none().await;
    });
}

#[test]
fn a_task_that_may_wait_forever_is_not_reported() {
    on_both!(async |clock: Clock| {
        let barrier = Arc::new(Barrier::new(2));
        named("idle", may_wait_forever(async move { barrier.wait().await.is_leader() }));
        clock.none().await;
    });
}

// Permits.

#[test]
fn more_permits_than_there_ever_were() {
    on_both!(async |clock: Clock| {
        let budget = Arc::new(Semaphore::new(10));
        let acquire = |name: &str, permits| {
            let budget = budget.clone();
            named(name, async move { drop(budget.acquire_many(permits).await.unwrap()) })
        };
        let large = acquire("large", 16);
        settle().await;
        let behind = [acquire("behind", 1), acquire("behind", 2)];
        let found = clock.only().await;
        assert_eq!((found.kind(), found.amounts()), ("Semaphore::acquire", Some((16, 10))));
        assert_eq!((found.others(), found.task().name()), (2, Some("large")), "{found}");
        let text = "wants 16 permits of a semaphore that never had more than 10\n";
        assert!(found.to_string().contains(text), "{found}");
        budget.add_permits(6);
        large.await.unwrap();
        for task in behind {
            task.await.unwrap();
        }
    });
}

/// The large request is cancelled. Its task then waits for a held permit, which is not stalled. A later large request
/// is.
#[test]
fn a_cancelled_request_is_forgotten() {
    on_both!(async |clock: Clock| {
        let budget = Arc::new(Semaphore::new(1));
        let (permit, own) = (budget.acquire().await.unwrap(), budget.clone());
        let _small = named("small", async move {
            let mut large = Box::pin(own.acquire_many(2));
            std::future::poll_fn(|cx| {
                assert!(large.as_mut().poll(cx).is_pending());
                std::task::Poll::Ready(())
            })
            .await;
            drop(large);
            drop(own.acquire().await);
        });
        clock.none().await;
        let own = budget.clone();
        let _large = named("large", async move { drop(own.acquire_many(3).await) });
        let found = clock.only().await;
        assert_eq!((found.amounts(), names(&[found])), (Some((3, 1)), vec!["large"]));
        drop(permit);
    });
}

/// Added permits count, even if they were forgotten since.
#[test]
fn a_request_that_added_permits_could_fill() {
    on_both!(async |clock: Clock| {
        let tokens = Arc::new(Semaphore::new(0));
        tokens.add_permits(16);
        assert_eq!(tokens.forget_permits(10), 10);
        let own = tokens.clone();
        let _task = named("task", async move { drop(own.acquire_many(8).await) });
        clock.none().await;
    });
}

// Kept senders.

/// Receives all that the workers send, and keeps the first sender if `keeps`.
async fn collect(keeps: bool) -> u32 {
    let (tx, mut rx) = mpsc::channel(8); // made
    for n in 0..3 {
        let tx = tx.clone();
        named("worker", async move { tx.send(n).await.unwrap() });
    }
    let tx = keeps.then_some(tx);
    let mut sum = 0;
    while let Some(n) = rx.recv().await {
        sum += n;
    }
    drop(tx);
    sum
}

#[test]
fn a_sender_that_is_kept_by_its_receiver() {
    on_both!(async |clock: Clock| {
        let task = named("collect", collect(true));
        let found = clock.only().await;
        assert_eq!(
            (found.kind(), names(std::slice::from_ref(&found))),
            ("mpsc::Receiver::recv", vec!["collect"])
        );
        let made = include_str!("main.rs").lines().position(|line| line.ends_with("// made"));
        assert!(is_at(found.made_at(), made.unwrap() as u32 + 1), "{found}");
        assert!(found.kept_by().is_none() && found.others() == 0, "{found}");
        task.abort();
        assert_eq!(collect(false).await, 3, "the twin ends");
    });
}

/// Dropping a clone of the sender does not wake the receiver for a report.
#[test]
fn a_drop_of_a_clone_wakes_no_receiver() {
    paused().block_on(async {
        let (tx, mut rx) = mpsc::channel::<u32>(1);
        let task = named("receiver", async move { rx.recv().await });
        settle().await;
        let polls = || {
            let dump = Handle::current().dump();
            dump.find(task.id()).unwrap().polls()
        };
        assert_eq!(polls(), 1);
        for _ in 0..3 {
            drop(tx.clone());
            settle().await;
        }
        assert_eq!(polls(), 1);
    });
}

/// The task that keeps the sender is reported once, after it was the only sender for long enough.
#[test]
fn a_slow_worker_is_waited_for() {
    paused().block_on(async {
        let (tx, mut rx) = mpsc::unbounded_channel();
        named("collect", async move {
            let worker = tx.clone();
            named("worker", async move {
                sleep(20 * SECOND).await;
                worker.send(1).unwrap();
            });
            while rx.recv().await.is_some() {}
            drop(tx);
        });
        Clock::Paused.none().await;
        advance(20 * SECOND).await;
        assert_eq!(names(&[Clock::Paused.only().await]), ["collect"]);
    });
}

#[test]
fn a_sender_that_is_kept_by_the_task_that_joins_the_receiver() {
    on_both!(async |clock: Clock| {
        let manager = named("manager", async {
            let (tx, mut rx) = mpsc::channel(8);
            let sink = named("sink", async move { while rx.recv().await.is_some() {} });
            let source = tx.clone();
            named("source", async move { source.send(1).await.unwrap() }).await.unwrap();
            sink.await.unwrap();
            drop(tx);
        });
        let found = clock.only().await;
        assert_eq!(found.task().name(), Some("sink"), "{found}");
        assert_eq!(found.kept_by().unwrap().name(), Some("manager"), "{found}");
        manager.abort();
    });
}

/// The task that made the channel waits for something else. The actor is idle.
#[test]
fn an_idle_actor_is_not_reported() {
    on_both!(async |clock: Clock| {
        let (stop, stopped) = oneshot::channel::<()>();
        let owner = named("owner", async move {
            let (tx, mut rx) = mpsc::channel::<u32>(8);
            let actor = named("actor", async move { while rx.recv().await.is_some() {} });
            let client = tx.clone();
            named("client", async move { client.send(1).await.unwrap() }).await.unwrap();
            let _ = stopped.await;
            drop(tx);
            actor.await.unwrap();
        });
        clock.none().await;
        stop.send(()).unwrap();
        owner.await.unwrap();
    });
}

/// A sender is moved to another task, and never cloned.
#[test]
fn a_moved_sender_is_not_reported() {
    on_both!(async |clock: Clock| {
        let (tx, mut rx) = mpsc::channel::<u32>(8);
        named("server", async move {
            sleep(HOUR).await;
            tx.send(1).await.unwrap();
        });
        named("main", async move { rx.recv().await });
        clock.none().await;
    });
}

/// The first sender serves the last worker, which is slow. All other senders were dropped.
#[test]
fn a_first_sender_that_another_task_clones_is_not_reported() {
    on_both!(async |clock: Clock| {
        named("main", async {
            let (tx, mut rx) = mpsc::channel::<u32>(8);
            drop(tx.clone());
            named("listener", async move {
                drop(tx.clone());
                sleep(HOUR).await;
                drop(tx);
            });
            rx.recv().await
        });
        clock.none().await;
    });
}

/// The first sender was moved, and sends from time to time.
#[test]
fn a_first_sender_that_sends_is_not_reported() {
    on_both!(async |clock: Clock| {
        let (go, gone) = oneshot::channel::<()>();
        let (got, was_got) = oneshot::channel::<()>();
        named("main", async move {
            let (tx, mut rx) = mpsc::channel::<u32>(8);
            drop(tx.clone());
            named("ticker", async move {
                gone.await.unwrap();
                tx.send(1).await.unwrap();
                sleep(HOUR).await;
                drop(tx);
            });
            assert_eq!(rx.recv().await, Some(1));
            got.send(()).unwrap();
            rx.recv().await
        });
        go.send(()).unwrap();
        was_got.await.unwrap();
        clock.none().await;
    });
}

/// A cache holds a weak sender, which becomes a sender when it is needed.
#[test]
fn a_weak_sender_is_not_reported() {
    on_both!(async |clock: Clock| {
        let (give, given) = oneshot::channel();
        named("main", async move {
            let (tx, mut rx) = mpsc::channel::<u32>(8);
            drop(tx.clone());
            assert!(give.send(tx.downgrade()).is_ok());
            rx.recv().await;
            drop(tx);
        });
        let weak = given.await.unwrap();
        clock.none().await;
        weak.upgrade().unwrap().send(1).await.unwrap();
    });
}

/// A manager starts a worker for each tick, and has the sender for that. No worker runs at the moment.
#[test]
fn a_manager_that_makes_more_senders_is_not_reported() {
    paused().block_on(async {
        named("manager", async {
            let (tx, mut rx) = mpsc::channel::<u32>(8);
            let mut ticks = interval(HOUR);
            loop {
                wakeful::select! {
                    _ = ticks.tick() => {
                        let tx = tx.clone();
                        named("worker", async move { tx.send(1).await.unwrap() });
                    }
                    _ = rx.recv() => {}
                }
            }
        });
        Clock::Paused.none().await;
    });
}

// Full channels.

#[test]
fn a_channel_that_is_full_by_itself() {
    on_both!(async |clock: Clock| {
        let task = named("looper", async {
            let (tx, mut rx) = mpsc::channel(2);
            for n in 0..4 {
                tx.send(n).await.unwrap();
            }
            rx.recv().await
        });
        let found = clock.only().await;
        let text =
            "\"looper\" waits for capacity in a channel of 2, from which no task has received";
        assert!(found.to_string().contains(text), "{found}");
        task.abort();
        drop(task.await);
        let task = named("reducer", async {
            let (tx, mut rx) = mpsc::channel(1);
            tx.send(0).await.unwrap();
            while let Some(n) = rx.recv().await {
                tx.send(n + 1).await.unwrap();
                tx.send(n + 2).await.unwrap();
            }
        });
        let found = clock.only().await;
        let text =
            "\"reducer\" waits for capacity in a channel of 1, whose recv it called last itself";
        assert!(found.to_string().contains(text), "{found}");
        task.abort();
    });
}

#[test]
fn reservations_in_a_full_channel() {
    on_both!(async |clock: Clock| {
        let tasks = [
            named("reserve", async {
                let (tx, _rx) = mpsc::channel(1);
                tx.send(1).await.unwrap();
                tx.reserve().await.unwrap().send(2);
            }),
            named("reserve_many", async {
                let (tx, _rx) = mpsc::channel(4);
                tx.send(1).await.unwrap();
                drop(tx.reserve_many(4).await);
            }),
            named("send_timeout", async {
                let (tx, _rx) = mpsc::channel(1);
                tx.send(1).await.unwrap();
                tx.send_timeout(2, HOUR).await.unwrap();
            }),
        ];
        let found = clock.stalled().await;
        assert_eq!(names(&found).len(), 3, "{found:#?}");
        for stalled in &found {
            let has_exit = stalled.exits().len() == 1;
            assert_eq!(has_exit, stalled.task().name() == Some("send_timeout"), "{stalled}");
        }
        tasks.iter().for_each(JoinHandle::abort);
    });
}

/// The consumer is slow, and has received before.
#[test]
fn a_slow_consumer_is_not_reported() {
    on_both!(async |clock: Clock| {
        let (tx, mut rx) = mpsc::channel(1);
        named("consumer", async move {
            while rx.recv().await.is_some() {
                sleep(HOUR).await;
            }
        });
        named("producer", async move { while tx.send(1).await.is_ok() {} });
        clock.none().await;
    });
}

/// Another branch of the task receives.
#[test]
fn a_task_that_receives_while_it_sends_is_not_reported() {
    on_both!(async |clock: Clock| {
        let (other, mut at_other) = mpsc::channel::<u32>(1);
        named("proxy", async move {
            let (tx, mut rx) = mpsc::channel(1);
            tx.send(1).await.unwrap();
            rx.recv().await.unwrap();
            tx.send(1).await.unwrap();
            wakeful::select! {
                sent = tx.send(2) => sent.unwrap(),
                _ = at_other.recv() => drop(rx),
            }
        });
        clock.none().await;
        drop(other);
    });
}

// Notifications.

#[test]
fn a_lost_notification() {
    on_both!(async |clock: Clock| {
        let ready = Arc::new(Notify::new());
        ready.notify_waiters();
        let own = ready.clone();
        let waiter = named("waiter", async move { own.notified().await });
        let found = clock.only().await;
        let text = "notify_waiters was called once, before that, when no task waited";
        assert!(found.kind() == "Notify::notified" && found.to_string().contains(text), "{found}");
        ready.notify_waiters();
        waiter.await.unwrap();
        let own = ready.clone();
        let _again = named("again", async move { own.notified().await });
        clock.none().await;
    });
}

/// Tasks that were woken wait for the next time.
#[test]
fn a_periodic_notification_is_not_reported() {
    on_both!(async |clock: Clock| {
        let reload = Arc::new(Notify::new());
        let listen = || {
            let reload = reload.clone();
            named("listener", async move {
                loop {
                    reload.notified().await;
                }
            })
        };
        let _first = listen();
        settle().await;
        reload.notify_waiters();
        reload.notify_waiters();
        let _second = listen();
        clock.none().await;
    });
}

/// A condition variable: every change is announced, whether a task waits or not.
#[test]
fn a_condition_that_is_announced_each_time_is_not_reported() {
    on_both!(async |clock: Clock| {
        let changed = Arc::new(Notify::new());
        changed.notify_waiters();
        changed.notify_waiters();
        named("waiter", async move { changed.notified().await });
        clock.none().await;
    });
}

/// A future that was made before the call is notified, although no task waited.
#[test]
fn a_notification_that_was_expected_is_not_reported() {
    on_both!(async |clock: Clock| {
        let ready = Arc::new(Notify::new());
        let own = ready.clone();
        let (made, was_made) = oneshot::channel();
        let (told, was_told) = oneshot::channel::<()>();
        named("listener", async move {
            let first = own.notified();
            made.send(()).unwrap();
            was_told.await.unwrap();
            first.await;
            own.notified().await;
        });
        was_made.await.unwrap();
        ready.notify_waiters();
        told.send(()).unwrap();
        clock.none().await;
    });
}

#[test]
fn a_notification_that_never_came_is_not_reported() {
    on_both!(async |clock: Clock| {
        let shutdown = Arc::new(Notify::new());
        shutdown.notify_one();
        let own = shutdown.clone();
        named("task", async move {
            own.notified().await;
            own.notified().await;
        });
        clock.none().await;
    });
}
