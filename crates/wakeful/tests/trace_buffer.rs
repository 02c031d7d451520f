//! The flight recorder: the events that it records, and that it records none while it is off.

use wakeful::runtime::{Builder, Handle};
use wakeful::sync::Notify;
use wakeful::task::{self, yield_now};

use std::sync::Arc;

mod support {
    pub mod runtimes;
}
use support::runtimes::bound_this_binary;

fn runtimes() -> [wakeful::runtime::Runtime; 2] {
    [
        Builder::new_current_thread().enable_all().on_report(|_| {}).build().unwrap(),
        Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .on_report(|_| {})
            .build()
            .unwrap(),
    ]
}

/// A program that causes every kind of event.
async fn work() {
    let bell = Arc::new(Notify::new());
    let heard = bell.clone();
    let task = task::Builder::new().name("listener").spawn(async move {
        for _ in 0..200 {
            yield_now().await;
        }
        heard.notified().await;
        std::future::pending::<()>().await;
    });
    let driver = wakeful::spawn(async move {
        for _ in 0..400 {
            yield_now().await;
        }
        bell.notify_one();
        wakeful::spawn(async {}).await.unwrap();
    });
    driver.await.unwrap();
    wakeful::time::sleep(std::time::Duration::from_millis(1)).await;
    drop(task);
}

#[test]
fn notes_what_happens_while_it_is_on() {
    bound_this_binary();
    for rt in runtimes() {
        let handle = rt.handle().clone();
        rt.block_on(work());
        let empty = handle.trace();
        assert!(!handle.is_recording() && !empty.contains("\"poll\""), "{empty}");
        handle.record(true);
        assert!(handle.is_recording());
        // On several threads a round may end before the other worker parks or reports the orphan.
        let is_recorded = |kind: &str| handle.trace().contains(&format!("\"cat\":\"{kind}\""));
        for kind in ["poll", "park", "wake", "spawn", "report"] {
            while !is_recorded(kind) {
                rt.block_on(work());
            }
        }
        let trace = handle.trace();
        assert!(trace.contains("\\\"listener\\\"") && trace.contains("\"worker 0\""), "{trace}");
        assert!(trace.starts_with('{') && trace.ends_with("]}"), "{trace}");
        handle.record(false);
        let before = handle.trace();
        rt.block_on(async { yield_now().await });
        assert_eq!(
            Handle::trace(&handle).matches("\"ph\"").count(),
            before.matches("\"ph\"").count()
        );
    }
}

/// A poll that is timed only for the trace is no sample of other polls, even if the recording ends during it.
#[test]
fn the_end_of_a_recording_leaves_the_metrics_right() {
    for rt in runtimes() {
        let handle = rt.handle().clone();
        handle.record(true);
        let task = rt.spawn(async move {
            for n in 0..200 {
                if n == 20 {
                    Handle::current().record(false);
                }
                yield_now().await;
            }
        });
        rt.block_on(task).unwrap();
        let count = handle.metrics().poll_times().count();
        assert!(count < 10_000, "{count} polls were counted, of about 200");
    }
}

/// The marks of one kind on one row of the trace.
fn marks(trace: &str, row: &str, kind: &str) -> usize {
    let named = format!("\"args\":{{\"name\":\"{row}\"}}");
    let before = trace.split(&named).next().unwrap();
    let tid = before.rsplit("\"tid\":").next().unwrap().split(',').next().unwrap();
    let of_kind = trace.split("{\"name\":").filter(|event| {
        event.contains(&format!("\"cat\":\"{kind}\""))
            && event.contains(&format!("\"tid\":{tid}}}"))
    });
    of_kind.count()
}

#[test]
fn notes_what_other_threads_spawn_and_wake() {
    for rt in runtimes() {
        let handle = rt.handle().clone();
        handle.record(true);
        let bell = Arc::new(Notify::new());
        let heard = bell.clone();
        let task = handle.spawn(async move { heard.notified().await });
        // It waits before it is woken.
        while handle.dump().find(task.id()).is_none_or(|task| task.waiting_on().is_none()) {
            rt.block_on(yield_now());
        }
        bell.notify_one();
        rt.block_on(task).unwrap();
        let trace = handle.trace();
        let (spawns, wakes) =
            (marks(&trace, "other threads", "spawn"), marks(&trace, "other threads", "wake"));
        assert_eq!((spawns, wakes), (1, 1), "{trace}");
    }
}
