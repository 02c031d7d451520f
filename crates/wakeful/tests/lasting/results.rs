//! Panics that no task learns of, and closures that run after an abort.

use std::future::poll_fn;
use std::sync::mpsc::{Sender, channel};
use std::task::Poll;
use std::time::Duration;

use super::{Clock, SECOND, diagnose, hasty, paused, spawn_named};
use crate::settle::settle;
use wakeful::inspect::{AbortedClosure, Report, UnawaitedPanic};
use wakeful::runtime::Builder;
use wakeful::sync::oneshot;
use wakeful::task::{JoinHandle, JoinSet, spawn_blocking, yield_now};

fn panics() -> JoinHandle<()> {
    spawn_named("careless", async { panic!("planted") })
}

/// Returns when the handle's task has ended.
async fn finished<T>(handle: &JoinHandle<T>) {
    while !handle.is_finished() {
        yield_now().await;
    }
}

#[test]
fn a_panic_whose_handle_is_kept() {
    on_both!(async |clock: Clock| {
        let kept = panics();
        finished(&kept).await;
        if clock == Clock::Paused {
            assert_eq!(format!("{:?}", diagnose()), "[]", "too early");
        }
        clock.pass().await;
        let found: UnawaitedPanic = only!(diagnose(), UnawaitedPanic);
        let text = found.to_string();
        assert_eq!((found.task().name(), found.is_closure()), (Some("careless"), false), "{text}");
        assert_eq!(clock == Clock::Paused, found.since() == 3 * SECOND, "{text}");
        assert!(text.starts_with("unawaited panic (suspected): task "), "{text}");
        kept.await.unwrap_err();
        assert_eq!(format!("{:?}", diagnose()), "[]", "it was awaited");
    });
}

#[test]
fn a_panic_in_a_join_set_and_in_a_closure() {
    on_both!(async |clock: Clock| {
        let mut set = JoinSet::new();
        set.spawn(async { panic!("planted") });
        let closure: JoinHandle<()> = spawn_blocking(|| panic!("planted"));
        finished(&closure).await;
        settle().await;
        clock.pass().await;
        let found = diagnose();
        let closures = found.iter().map(|report| match report {
            Report::UnawaitedPanic(panic) => panic.is_closure(),
            other => panic!("{other}"),
        });
        let mut closures: Vec<bool> = closures.collect();
        closures.sort_unstable();
        assert_eq!(closures, [false, true]);
        set.join_next().await.unwrap().unwrap_err();
        closure.await.unwrap_err();
        assert_eq!(format!("{:?}", diagnose()), "[]");
    });
}

/// Handles that are awaited or dropped, and tasks that end without a panic.
#[test]
fn a_panic_that_is_awaited_or_dropped() {
    on_both!(async |clock: Clock| {
        panics().await.unwrap_err();
        drop(panics());
        let returned = wakeful::spawn(async {});
        let aborted = wakeful::spawn(poll_fn(|_| Poll::<()>::Ready(())));
        aborted.abort();
        settle().await;
        clock.pass().await;
        assert_eq!(format!("{:?}", diagnose()), "[]");
        drop((returned, aborted));
    });
}

/// Starts a closure that runs until the sender is dropped.
async fn start_closure() -> (JoinHandle<()>, Sender<()>) {
    let (end, ended) = channel::<()>();
    let (start, started) = oneshot::channel();
    let closure = spawn_blocking(move || {
        start.send(()).unwrap();
        ended.recv().unwrap_err();
    });
    started.await.unwrap();
    (closure, end)
}

#[test]
fn an_aborted_closure_that_still_runs() {
    on_both!(async |clock: Clock| {
        let ((aborted, end), (spared, end_spared)) = (start_closure().await, start_closure().await);
        aborted.abort();
        if clock == Clock::Paused {
            assert_eq!(format!("{:?}", diagnose()), "[]", "too early");
        }
        clock.pass().await;
        let found: AbortedClosure = only!(diagnose(), AbortedClosure);
        assert_eq!(found.task().id(), Some(aborted.id()), "{found}");
        assert_eq!(clock == Clock::Paused, found.since() == 3 * SECOND, "{found}");
        assert!(found.to_string().starts_with("aborted closure (suspected): the closure of task "));
        drop((end, end_spared));
        aborted.await.unwrap();
        spared.await.unwrap();
        assert_eq!(format!("{:?}", diagnose()), "[]", "it has ended");
    });
}

/// An abort of a queued closure takes effect.
#[test]
fn an_aborted_closure_that_never_ran() {
    let mut builder = Builder::new_current_thread();
    builder.max_blocking_threads(1).report_lasting_after(Some(Duration::ZERO)).on_report(|_| ());
    let rt = builder.build().unwrap();
    rt.block_on(async {
        let (first, end) = start_closure().await;
        let queued = spawn_blocking(|| ());
        queued.abort();
        assert_eq!(format!("{:?}", diagnose()), "[]");
        drop(end);
        first.await.unwrap();
        assert!(queued.await.unwrap_err().is_cancelled());
    });
}
