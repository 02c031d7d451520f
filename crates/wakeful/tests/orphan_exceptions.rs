//! Tasks that are not reported as orphans although they resemble them, and reports without a working hook.

use std::future::{pending, poll_fn};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::mpsc as std_mpsc;
use std::task::Poll;
use std::thread;

use futures::executor;
use wakeful::runtime::{Builder, OrphanPolicy};
use wakeful::task::{may_wait_forever, yield_now};

mod support {
    pub mod runtimes;
    pub mod waker_store;
}
use support::runtimes::{TestRuntime, serial_builders, watch};
use support::waker_store::WakerStore;

fn serial(policy: OrphanPolicy) -> impl Iterator<Item = TestRuntime> {
    serial_builders()
        .into_iter()
        .map(move |(name, mut builder)| watch(name, builder.on_orphan(policy)))
}

/// Counts its drops.
#[derive(Clone, Default)]
struct Drops(Arc<AtomicUsize>);

impl Drop for Drops {
    fn drop(&mut self) {
        self.0.fetch_add(1, SeqCst);
    }
}

#[test]
fn may_wait_forever_exempts_while_inside() {
    for rt in serial(OrphanPolicy::Report) {
        let never = rt.spawn(may_wait_forever(pending::<()>()));
        let store = WakerStore::default();
        let lost_later = rt.spawn(may_wait_forever(store.wait()));
        rt.settle();
        drop(store);
        rt.settle();
        assert!(rt.reports.take().is_empty(), "{}", rt.name);

        let no_longer = rt.spawn(async {
            may_wait_forever(yield_now()).await;
            pending::<()>().await;
        });
        rt.settle();
        let orphan = rt.reports.wait_for_one();
        assert_eq!((orphan.id(), orphan.polls()), (no_longer.id(), 2), "{}", rt.name);

        never.abort();
        lost_later.abort();
        assert!(!rt.block_on(never).unwrap_err().is_orphaned());
        assert!(!rt.block_on(lost_later).unwrap_err().is_orphaned());
    }
}

#[test]
fn the_root_future_of_block_on_is_no_task() {
    for rt in serial(OrphanPolicy::Panic) {
        let TestRuntime { runtime, reports, name } = rt;
        let handle = runtime.handle().clone();
        let (polled, was_polled) = std_mpsc::channel();
        let root = thread::spawn(move || {
            // Pending, and no waker is kept.
            runtime.block_on(poll_fn(|_| {
                polled.send(()).unwrap();
                Poll::<()>::Pending
            }));
        });
        was_polled.recv().unwrap();
        // A task runs after the `block_on` future. If that future counted as an orphan, it would be reported by now.
        executor::block_on(handle.spawn(async {})).unwrap();
        assert!(reports.take().is_empty(), "{name}");
        let task = handle.spawn(pending::<()>());
        assert!(root.join().is_err(), "{name}");
        assert_eq!(reports.wait_for_one().id(), task.id(), "{name}");
    }
}

#[test]
fn a_shutdown_reports_no_orphan() {
    type Shutdown = fn(wakeful::runtime::Runtime);
    let ways: [Shutdown; 3] = [
        drop,
        |runtime| runtime.shutdown_background(),
        |runtime| runtime.shutdown_timeout(std::time::Duration::from_secs(60)),
    ];
    for shut_down in ways {
        for owner_first in [false, true] {
            for rt in serial(OrphanPolicy::Panic) {
                let store = WakerStore::default();
                let waits = [store.wait(), store.wait()];
                let mut store = Some(store);
                let mut spawn_owner = || {
                    let store = store.take();
                    rt.spawn(may_wait_forever(async move {
                        pending::<()>().await;
                        drop(store);
                    }));
                };
                if owner_first {
                    spawn_owner();
                }
                for wait in waits {
                    rt.spawn(wait);
                }
                if !owner_first {
                    spawn_owner();
                }
                rt.settle();
                let TestRuntime { runtime, reports, name: _ } = rt;
                // The first task to be dropped may drop the last waker of another.
                shut_down(runtime);
                drop(reports);
            }
        }
    }
}

#[test]
fn a_leaked_waker_is_a_waker() {
    for rt in serial(OrphanPolicy::Report) {
        let (store, drops) = (WakerStore::default(), Drops::default());
        let (waits, mark) = (store.wait(), drops.clone());
        rt.spawn(async move {
            let _mark = mark;
            waits.await;
        });
        rt.settle();
        store.take().into_iter().for_each(std::mem::forget);
        rt.settle();
        assert_eq!(drops.0.load(SeqCst), 0);
        drop(rt);
        assert_eq!(drops.0.load(SeqCst), 1, "the shutdown drops it all the same");
    }
}

#[test]
fn wakers_may_outlive_the_runtime() {
    for rt in serial(OrphanPolicy::Report) {
        let store = WakerStore::default();
        let waiting = rt.spawn(store.wait());
        let done = rt.spawn(poll_fn(|cx| Poll::Ready(cx.waker().clone())));
        rt.settle();
        let done_waker = rt.block_on(done).unwrap();
        let mut wakers = store.take();
        wakers.push(done_waker);
        drop(rt);
        assert!(executor::block_on(waiting).unwrap_err().is_cancelled());
        for waker in &wakers {
            waker.wake_by_ref();
            let by_value = waker.clone();
            by_value.wake();
        }
        thread::spawn(move || {
            for waker in wakers {
                waker.wake_by_ref();
                drop(waker.clone());
                waker.wake();
            }
        })
        .join()
        .unwrap();
    }
}

#[test]
fn a_hook_that_panics_harms_no_task() {
    for (name, mut builder) in serial_builders() {
        let runtime = builder.on_report(|_| panic!("the hook's own fault")).build().unwrap();
        for count in 1..=3 {
            runtime.spawn(pending::<()>());
            runtime.block_on(runtime.spawn(yield_now())).unwrap();
            while runtime.metrics().orphaned_tasks() < count {
                runtime.block_on(runtime.spawn(yield_now())).unwrap();
            }
        }
        assert_eq!(runtime.block_on(runtime.spawn(async { 4 })).unwrap(), 4, "{name}");
    }
}

#[test]
fn without_a_hook_reports_are_still_counted() {
    let runtime = Builder::new_current_thread().build().unwrap();
    runtime.block_on(async {
        wakeful::spawn(pending::<()>());
        yield_now().await;
    });
    assert_eq!(runtime.metrics().orphaned_tasks(), 1);
}
