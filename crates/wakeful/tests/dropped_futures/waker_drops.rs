//! Wakers that panic when they are dropped, and wakers that own what keeps them.

use std::future::{pending, poll_fn};
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Wake, Waker};
use std::time::Duration;

use wakeful::runtime::Builder;
use wakeful::signal::unix::{SignalKind, signal};
use wakeful::sync::{mpsc, oneshot};
use wakeful::task::{JoinSet, LocalSet, may_wait_forever};
use wakeful::time::sleep;

use crate::support::bad_wakers::{panics, panics_when_cloned, panics_when_dropped};
use crate::support::manual_poll::ManualPoll;
use crate::support::runtimes::{current_thread, serial_runtimes, watch};

/// The waker of a dropped future is foreign code, and may panic when the resource drops it.
#[test]
fn a_waker_that_panics_when_it_is_dropped_harms_no_other_end() {
    let poll = |future: &mut dyn FnMut(&mut Context<'_>)| {
        let waker = panics_when_dropped();
        future(&mut Context::from_waker(&waker));
    };
    let (tx, mut rx) = mpsc::channel::<u32>(1);
    poll(&mut |cx| assert!(pin!(rx.recv()).poll(cx).is_pending()));
    tx.try_reserve().map(std::mem::forget).unwrap();
    let waiting = ManualPoll::pending(tx.closed());
    assert!(panics(|| drop(rx)));
    assert!(tx.is_closed());
    assert_eq!(waiting.take_wakes(), 1);

    let (mut tx, mut rx) = oneshot::channel::<u32>();
    poll(&mut |cx| assert!(pin!(tx.closed()).poll(cx).is_pending()));
    let mut receiver = ManualPoll::pending(&mut rx);
    assert!(panics(|| tx.send(1).unwrap()));
    assert_eq!((receiver.take_wakes(), receiver.ready()), (1, Ok(1)));

    let rt = current_thread();
    let mut set = JoinSet::new();
    let task = set.spawn_on(may_wait_forever(pending::<()>()), rt.handle());
    poll(&mut |cx| assert!(pin!(set.join_next()).poll(cx).is_pending()));
    assert!(panics(|| drop(set)));
    rt.settle();
    assert!(task.is_finished(), "it was aborted");
}

/// The first waker panics when the second poll replaces it. The second waker is dropped with the future, at the latest.
#[track_caller]
fn drops_both_wakers<F: Future>(future: F) {
    let mut manual = ManualPoll::new(future);
    {
        let waker = panics_when_dropped();
        assert!(manual.poll_with(&waker).is_pending());
    }
    assert!(panics(|| _ = manual.poll()), "the second waker did not replace the first");
    let wake_count = manual.wake_count();
    drop(manual);
    assert_eq!(Arc::strong_count(&wake_count), 1, "the second waker is lost");
}

#[test]
fn a_waker_is_not_lost_if_the_one_before_panics_when_it_is_dropped() {
    let rt = watch("with drivers", Builder::new_current_thread().enable_all());
    let _entered = rt.enter();
    drops_both_wakers(rt.spawn(may_wait_forever(pending::<()>())));
    let (_tx, mut rx) = mpsc::channel::<u32>(1);
    drops_both_wakers(async move { rx.recv().await });
    let (_tx, rx) = oneshot::channel::<u32>();
    drops_both_wakers(rx);
    let (mut tx, _rx) = oneshot::channel::<u32>();
    drops_both_wakers(async move { tx.closed().await });
    let mut set = JoinSet::new();
    set.spawn_on(may_wait_forever(pending::<()>()), rt.handle());
    drops_both_wakers(async move { set.join_next().await });
    let mut signal = signal(SignalKind::user_defined2()).unwrap();
    drops_both_wakers(async move { signal.recv().await });
    drops_both_wakers(sleep(Duration::from_secs(3_600)));
    let held = wakeful::sync::Mutex::new(());
    let _guard = held.try_lock().unwrap();
    drops_both_wakers(held.lock());
    let set = LocalSet::new();
    drops_both_wakers(async move { set.run_until(pending::<()>()).await });
}

/// The poll of a handle panics. The test then drops the handle, or polls it again. Both drop all wakers.
#[test]
fn a_handle_keeps_one_waker_whatever_panics() {
    let rt = current_thread();
    let (tx, rx) = oneshot::channel();
    let mut task = ManualPoll::new(rt.spawn(rx));
    assert!(task.poll_with(&panics_when_dropped()).is_pending());
    assert!(panics(|| _ = task.poll()));
    assert_eq!(task.wakers(), 1, "the new waker is registered before the old one is dropped");
    assert!(panics(|| _ = task.poll_with(&panics_when_cloned())));
    assert_eq!(task.wakers(), 0, "the waker that was taken out to be replaced is dropped");
    assert!(task.poll().is_pending());
    tx.send(7).unwrap();
    rt.settle();
    assert_eq!((task.take_wakes(), task.wakers()), (1, 0));
    assert_eq!(task.ready().unwrap(), Ok(7));
}

/// How the task ends.
#[derive(Clone, Copy, Debug)]
enum End {
    LastSender,
    Abort,
    Shutdown,
}

/// The task owns the receiver, and the channel keeps the task's waker. This cycle lasts until the task ends.
#[test]
fn a_task_that_owns_what_keeps_its_waker_is_freed() {
    for end in [End::LastSender, End::Abort, End::Shutdown] {
        for rt in serial_runtimes() {
            let (tx, mut rx) = mpsc::channel::<Arc<()>>(1);
            let (mut closed_tx, _closed_rx) = oneshot::channel::<u32>();
            let mut set = JoinSet::new();
            set.spawn_on(may_wait_forever(pending::<()>()), rt.handle());
            let owned = Arc::new(());
            let alive = Arc::downgrade(&owned);
            let task = rt.spawn(async move {
                let _owned = owned;
                poll_fn(|cx| {
                    assert!(pin!(closed_tx.closed()).poll(cx).is_pending());
                    assert!(pin!(set.join_next()).poll(cx).is_pending());
                    pin!(rx.recv()).poll(cx)
                })
                .await
            });
            rt.settle();
            assert_eq!(alive.strong_count(), 1);
            match end {
                End::LastSender => {
                    drop(tx);
                    assert_eq!(rt.block_on(task).unwrap(), None);
                    rt.settle();
                }
                End::Abort => {
                    task.abort();
                    rt.settle();
                    assert!(tx.is_closed(), "{}: the receiver is gone", rt.name);
                }
                End::Shutdown => {
                    drop(rt);
                    assert!(tx.is_closed(), "the receiver is gone");
                    assert_eq!(alive.strong_count(), 0);
                    continue;
                }
            }
            assert_eq!(alive.strong_count(), 0, "{}: {end:?}", rt.name);
            // Neither the task nor the task of its set is alive.
            assert_eq!(rt.metrics().num_alive_tasks(), 0, "{}: {end:?}", rt.name);
        }
    }
}

/// A waker that drops the set that wakes it.
#[test]
fn a_set_may_be_dropped_by_its_own_waker() {
    struct DropsSet(Mutex<Option<JoinSet<()>>>);
    impl Wake for DropsSet {
        fn wake(self: Arc<Self>) {
            let set = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
            drop(set.expect("it is woken once"));
        }
    }
    for rt in serial_runtimes() {
        let drops_set = Arc::new(DropsSet(Mutex::new(None)));
        let waker = Waker::from(drops_set.clone());
        let (tx, rx) = oneshot::channel::<()>();
        let mut set = JoinSet::new();
        set.spawn_on(async move { rx.await.unwrap() }, rt.handle());
        let other = set.spawn_on(may_wait_forever(pending::<()>()), rt.handle());
        assert!(pin!(set.join_next()).poll(&mut Context::from_waker(&waker)).is_pending());
        drop(waker);
        *drops_set.0.lock().unwrap() = Some(set);
        tx.send(()).unwrap();
        rt.settle();
        assert!(drops_set.0.lock().unwrap().is_none(), "{}: it was not woken", rt.name);
        rt.settle();
        assert!(other.is_finished(), "{}: it was aborted", rt.name);
        assert_eq!(Arc::strong_count(&drops_set), 1, "{}: the waker is lost", rt.name);
    }
}
