//! Wait records hold numbers that the program chooses. No number may pass for the address of a record or the id of a
//! task. Without the fix these tests end with SIGSEGV, or name tasks that do not exist.

use std::future::{pending, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::task::Poll;
use std::time::Duration;

use wakeful::inspect::{Dump, Report};
use wakeful::runtime::{Builder, Handle, Runtime};
use wakeful::sync::Mutex;
use wakeful::task::{self, yield_now};
use wakeful::time::{Instant, interval_at, sleep, sleep_until, timeout};

/// Returns durations, in ticks of 62.5 µs, just below and above each high bit that a wait record may use itself.
/// Includes the longest durations.
fn far_durations() -> Vec<Duration> {
    const TICKS_PER_S: u64 = 16_000;
    let around = |tick: u64| {
        let s = tick / TICKS_PER_S;
        [s - 1, s, s + 1, s + s / 4, s + s / 2].map(Duration::from_secs)
    };
    let mut all: Vec<Duration> = (56..64).flat_map(|bit| around(1 << bit)).collect();
    // The shortest and the longest duration that were once read as an address, and one between them.
    let read_as_addresses = [576_460_752_303_424, 600_000_000_000_000, 864_691_128_455_000];
    all.extend(read_as_addresses.map(Duration::from_secs));
    all.push(Duration::from_secs(u64::MAX / TICKS_PER_S));
    all.push(Duration::from_secs(i64::MAX as u64));
    all.push(Duration::MAX);
    all
}

fn builders() -> [Builder; 2] {
    let mut multi = Builder::new_multi_thread();
    multi.worker_threads(2);
    let mut builders = [Builder::new_current_thread(), multi];
    builders.iter_mut().for_each(|builder| _ = builder.enable_time());
    builders
}

fn runtimes() -> [Runtime; 2] {
    builders().map(|mut builder| builder.build().unwrap())
}

/// A dump of the runtime once the task of this name waits.
async fn dump_when_waiting(name: &str) -> Dump {
    loop {
        let dump = Handle::current().dump();
        if dump.find_named(name).is_some_and(|task| task.waiting_on().is_some()) {
            return dump;
        }
        yield_now().await;
    }
}

/// Runs the future as a task. Checks that the dump and the diagnosis call it a task that sleeps, and nothing else.
fn check_sleeper<F>(rt: &Runtime, what: &str, future: impl FnOnce() -> F)
where
    F: Future<Output = ()> + Send + 'static,
{
    rt.block_on(async {
        let sleeper = task::Builder::new().name("sleeper").spawn(future()).unwrap();
        let dump = dump_when_waiting("sleeper").await;
        let wait = dump.find_named("sleeper").unwrap().waiting_on().unwrap();
        let kind = if what.starts_with("timeout") { "timeout" } else { "sleep" };
        assert_eq!(wait.kind(), kind, "{what}: {dump}");
        assert!(!wait.is_certain(), "{what} is taken for a resource: {dump}");
        assert!(wait.holders().is_empty() && !wait.has_other_holders(), "{what}: {dump}");
        assert!(wait.resource().starts_with("in "), "{what}: {dump}");
        let found = Handle::current().diagnose();
        assert!(found.is_empty(), "{what}: {found:?}");
        sleeper.abort();
        assert!(sleeper.await.unwrap_err().is_cancelled());
    });
}

#[test]
fn a_far_sleep_is_no_address_and_no_task() {
    for rt in &runtimes() {
        for far in far_durations() {
            check_sleeper(rt, &format!("sleep({far:?})"), || sleep(far));
        }
    }
}

#[test]
fn a_far_moment_of_another_kind_is_no_address_and_no_task() {
    for rt in &runtimes() {
        for far in far_durations() {
            check_sleeper(rt, &format!("timeout({far:?})"), || async move {
                let _ = timeout(far, pending::<()>()).await;
            });
            check_sleeper(rt, &format!("reset({far:?})"), || async move {
                let mut delay = pin!(sleep(Duration::from_secs(1_000)));
                poll_fn(|cx| {
                    assert!(delay.as_mut().poll(cx).is_pending());
                    Poll::Ready(())
                })
                .await;
                let far = Instant::now().checked_add(far).unwrap_or_else(Instant::now);
                delay.as_mut().reset(far + Duration::from_secs(1_000));
                delay.await;
            });
            let Some(at) = Instant::now().checked_add(far) else { continue };
            check_sleeper(rt, &format!("sleep_until({far:?})"), || sleep_until(at));
            check_sleeper(rt, &format!("interval_at({far:?})"), || async move {
                interval_at(at, far).tick().await;
            });
        }
    }
}

/// A `block_on` future that sleeps for long has the tick in its own wait record. A dump and a diagnosis in the same
/// poll read it.
#[test]
fn a_far_sleep_of_the_root_is_no_address_and_no_task() {
    for rt in &runtimes() {
        for far in far_durations() {
            rt.block_on(async {
                let mut asleep = pin!(sleep(far));
                poll_fn(|cx| {
                    assert!(asleep.as_mut().poll(cx).is_pending(), "sleep({far:?})");
                    let dump = Handle::current().dump();
                    assert!(!dump.to_string().is_empty() && !dump.to_json().is_empty());
                    let found = Handle::current().diagnose();
                    assert!(found.is_empty(), "sleep({far:?}): {found:?}");
                    Poll::Ready(())
                })
                .await;
            });
        }
    }
}

/// The watchdog reads the wait records once the runtime is quiet. It reports the
/// deadlock beside tasks that sleep for long, so it has read them too.
#[test]
fn the_deadlock_scanner_survives_far_sleeps() {
    for mut builder in builders() {
        let (tx, rx) = channel();
        let hook = move |report: &Report| drop(tx.send(report.clone()));
        let rt = builder.on_report(hook).build().unwrap();
        for far in far_durations() {
            rt.spawn(async move { sleep(far).await });
        }
        let lock = Arc::new(Mutex::new(()));
        let stuck = rt.spawn(async move {
            let _first = lock.lock().await;
            drop(lock.lock().await);
        });
        rt.block_on(async {
            // No task runs now, so the report comes from the watchdog.
            let hears = task::spawn_blocking(move || rx.recv().unwrap());
            let report = hears.await.unwrap();
            assert!(matches!(report, Report::Deadlock(_)), "{report}");
            stuck.abort();
            assert!(stuck.await.unwrap_err().is_cancelled());
        });
    }
}
