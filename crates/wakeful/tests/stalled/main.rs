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
use wakeful::sync::{Barrier, Notify, Semaphore, mpsc};
use wakeful::task::{self, JoinHandle, may_wait_forever};
use wakeful::time::{advance, sleep, timeout};

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

// After the macros, which they use.
mod lookalikes;
mod notifications;
mod senders;

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

#[track_caller]
fn is_at(site: Option<&Location<'_>>, line: u32) -> bool {
    let file = Location::caller().file();
    site.is_some_and(|site| (site.file(), site.line()) == (file, line))
}

// Barriers.

fn arrive(barrier: &Arc<Barrier>, name: &str) -> JoinHandle<()> {
    let barrier = barrier.clone();
    named(name, async move {
        barrier.wait().await;
    })
}

#[test]
fn a_barrier_with_a_single_task() {
    on_both!(async |clock: Clock| {
        let barrier = Arc::new(Barrier::new(2));
        let _task = arrive(&barrier, "one");
        let found = clock.only().await;
        assert!(found.to_string().contains("1 of 2 tasks has arrived at a barrier"), "{found}");
        arrive(&barrier, "late").await.unwrap();
        settle().await;
    });
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
        assert!(is_at(found.created_at(), made) && found.exits().is_empty(), "{found}");
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
        let text = "requests 16 permits of a semaphore that never had more than 10\n";
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
        let text = "\"reducer\" waits for capacity in a channel of 1, on which it was the last to call recv";
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
