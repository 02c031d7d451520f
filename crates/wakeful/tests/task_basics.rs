//! One task: its output, its panics, its abort in every state, its size, its id.

use std::future::{pending, poll_fn, ready};
use std::panic::panic_any;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex, OnceLock, mpsc};
use std::task::{Context, Poll, RawWaker, RawWakerVTable, Waker};

use futures::executor;
use futures::future::FutureExt;
use wakeful::runtime::{Builder, UnhandledPanic};
use wakeful::task::{self, AbortHandle, JoinError, may_wait_forever, yield_now};

mod support {
    pub mod panic_site;
    pub mod runtimes;
    pub mod waker_store;
}
use support::panic_site::panic_site;
use support::runtimes::{current_thread, runtimes, serial_builders, watch};
use support::waker_store::WakerStore;

/// Counts its drops.
#[derive(Default)]
struct Counted(Arc<AtomicUsize>);

impl Counted {
    fn new() -> (Self, Arc<AtomicUsize>) {
        let drops = Arc::new(AtomicUsize::new(0));
        (Self(drops.clone()), drops)
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_add(1, SeqCst);
    }
}

/// Panics when it is dropped.
struct Bomb(&'static str);

impl Drop for Bomb {
    fn drop(&mut self) {
        panic!("{}", self.0);
    }
}

/// Not known at compile time, so that the panic's message is a `String`.
fn seven() -> u32 {
    std::hint::black_box(7)
}

#[test]
fn a_panic_reaches_the_handle_with_its_payload() {
    for rt in runtimes() {
        let text: JoinError = rt
            .block_on(rt.spawn(async { panic!("number {}", seven()) }))
            .map(|_: ()| ())
            .unwrap_err();
        assert!(text.is_panic() && !text.is_cancelled() && !text.is_orphaned(), "{}", rt.name);
        let shown = format!("task {} panicked with message \"number 7\"", text.id());
        assert_eq!(text.to_string(), shown);
        assert!(format!("{text:?}").contains("number 7"));
        assert_eq!(*text.into_panic().downcast::<String>().unwrap(), "number 7");

        let value = rt.spawn(async {
            yield_now().await;
            panic_any(41u8);
        });
        let error: JoinError = rt.block_on(value).map(|_: ()| ()).unwrap_err();
        assert_eq!(error.to_string(), format!("task {} panicked", error.id()));
        assert_eq!(*error.try_into_panic().unwrap().downcast::<u8>().unwrap(), 41);
        assert_eq!(rt.block_on(rt.spawn(async { 1 })).unwrap(), 1, "the worker lives, {}", rt.name);
    }
}

#[test]
fn a_panic_in_the_drop_of_a_future_is_caught() {
    for rt in runtimes() {
        // Dropped because it was aborted: that is how the task ended.
        let store = WakerStore::default();
        let wait = store.wait();
        let aborted = rt.spawn(async move {
            let _bomb = Bomb("dropped while it waits");
            wait.await;
        });
        aborted.abort();
        let error = rt.block_on(aborted).unwrap_err();
        if error.is_panic() {
            assert!(error.to_string().contains("dropped while it waits"), "{error}");
        } else {
            // The task was aborted before its first poll, so the bomb did not exist yet.
            assert!(error.is_cancelled(), "{error}");
        }

        // The future is dropped because it is complete. The output is kept although the drop panics.
        struct Done(#[allow(dead_code, reason = "it is there for its drop")] Bomb);
        impl Future for Done {
            type Output = u32;
            fn poll(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<u32> {
                Poll::Ready(12)
            }
        }
        let done = rt.spawn(Done(Bomb("dropped when it is done")));
        assert_eq!(rt.block_on(done).unwrap(), 12, "{}", rt.name);

        // Dropped because it panicked: the first panic counts.
        let twice = rt.spawn(async {
            let bomb = AssertBomb(Some(Bomb("second")));
            poll_fn(|_| -> Poll<()> { panic!("first") }).await;
            drop(bomb);
        });
        let error = rt.block_on(twice).unwrap_err();
        assert!(error.to_string().contains("first"), "{error}");
        rt.block_on(rt.spawn(async {})).unwrap();
    }
}

/// Holds a bomb, and forgets it while another panic unwinds: a second panic would abort the process.
struct AssertBomb(Option<Bomb>);

impl Drop for AssertBomb {
    fn drop(&mut self) {
        if std::thread::panicking() {
            std::mem::forget(self.0.take());
        }
    }
}

#[test]
fn a_panic_in_the_drop_of_an_output_is_caught() {
    for rt in runtimes() {
        // The join handle is gone, so the runtime drops the output.
        let store = WakerStore::default();
        let wait = store.wait();
        drop(rt.spawn(async move {
            wait.await;
            Bomb("unwanted")
        }));
        store.open();
        rt.block_on(rt.spawn(async {})).unwrap();

        // The output exists when the handle is dropped.
        let handle = rt.spawn(async { Bomb("too late") });
        while !handle.is_finished() {
            rt.block_on(rt.spawn(async {})).unwrap();
        }
        drop(handle);

        // A panic's payload may be a bomb itself.
        drop(rt.spawn(async { panic_any(Bomb("payload")) }));
        for _ in 0..10 {
            rt.block_on(rt.spawn(async {})).unwrap();
        }
    }
}

#[test]
fn unhandled_panic_can_shut_the_runtime_down() {
    for (name, mut builder) in serial_builders() {
        let rt = watch(name, builder.unhandled_panic(UnhandledPanic::ShutdownRuntime));
        let (counted, drops) = Counted::new();
        let bystander = rt.spawn(may_wait_forever(async move {
            let _counted = counted;
            pending::<()>().await;
        }));
        rt.settle();
        let culprit = rt.spawn(async { panic!("the culprit") });
        let panic = panic_site(std::panic::AssertUnwindSafe(|| rt.block_on(pending::<()>())));
        assert!(panic.message.contains("a spawned task panicked"), "{panic:?}");
        assert!(panic.message.contains("shut down on unhandled panic"), "{panic:?}");
        assert_eq!(panic.file, file!(), "{name}");
        // All of it before the runtime is dropped.
        assert!(executor::block_on(bystander).unwrap_err().is_cancelled(), "{name}");
        assert_eq!(drops.load(SeqCst), 1, "{name}");
        assert!(executor::block_on(culprit).map(|_: ()| ()).unwrap_err().is_panic());
        let late = rt.spawn(async { unreachable!("nothing runs any more") });
        assert!(executor::block_on(late).map(|_: ()| ()).unwrap_err().is_cancelled(), "{name}");
        let again = panic_site(std::panic::AssertUnwindSafe(|| rt.block_on(async {})));
        assert_eq!(again.message, panic.message, "{name}");
        let again = panic_site(std::panic::AssertUnwindSafe(|| rt.handle().block_on(async {})));
        assert_eq!(again.message, panic.message, "{name}");
    }
    let ignoring =
        watch("ignoring", Builder::new_current_thread().unhandled_panic(UnhandledPanic::Ignore));
    let culprit = ignoring.spawn(async { panic!("ignored") });
    assert!(ignoring.block_on(culprit).map(|_: ()| ()).unwrap_err().is_panic());
}

#[test]
fn abort_before_the_first_poll_drops_the_future_unpolled() {
    let rt = current_thread();
    let (counted, drops) = Counted::new();
    let task = rt.spawn(async move {
        let _counted = counted;
        unreachable!("aborted before a thread drove the runtime");
    });
    task.abort();
    task.abort();
    assert!(!task.is_finished());
    let error: JoinError = rt.block_on(task).map(|_: ()| ()).unwrap_err();
    assert!(error.is_cancelled() && !error.is_panic());
    assert_eq!(error.to_string(), format!("task {} was cancelled", error.id()));
    assert!(error.try_into_panic().is_err());
    assert_eq!(drops.load(SeqCst), 1);
}

#[test]
fn abort_of_a_waiting_task_drops_it() {
    for (name, mut builder) in serial_builders() {
        let rt = watch(name, &mut builder);
        let (store, (counted, drops)) = (WakerStore::default(), Counted::new());
        let wait = store.wait();
        let task = rt.spawn(async move {
            let _counted = counted;
            wait.await;
        });
        rt.settle();
        assert_eq!(store.len(), 1, "it waits, {name}");
        let abort = task.abort_handle();
        assert_eq!(abort.id(), task.id());
        abort.abort();
        assert!(rt.block_on(task).unwrap_err().is_cancelled(), "{name}");
        assert!(abort.is_finished());
        assert_eq!(drops.load(SeqCst), 1, "{name}");
        store.open(); // the task has ended, so this wakes no task
        abort.abort();
    }
}

#[test]
fn a_task_may_abort_itself() {
    for rt in runtimes() {
        let spawn = |then: Poll<u32>| {
            let own = Arc::new(OnceLock::<AbortHandle>::new());
            let mine = own.clone();
            let start = WakerStore::default();
            let wait = start.wait();
            let task = rt.spawn(async move {
                wait.await;
                mine.get().unwrap().abort();
                poll_fn(|_| then).await
            });
            own.set(task.abort_handle()).unwrap();
            start.open();
            let result = rt.block_on(task);
            drop(start);
            result
        };
        assert!(spawn(Poll::Pending).unwrap_err().is_cancelled(), "{}", rt.name);
        assert_eq!(spawn(Poll::Ready(8)).unwrap(), 8, "it was faster, {}", rt.name);
    }
}

#[test]
fn abort_after_the_end_changes_nothing() {
    for rt in runtimes() {
        let task = rt.spawn(async { String::from("done") });
        while !task.is_finished() {
            rt.block_on(rt.spawn(async {})).unwrap();
        }
        let abort = task.abort_handle();
        task.abort();
        abort.abort();
        assert_eq!(rt.block_on(task).unwrap(), "done", "{}", rt.name);
    }
}

#[test]
fn a_handle_can_be_polled_again_after_a_lost_race_but_not_after_its_output() {
    for rt in runtimes() {
        let store = WakerStore::default();
        let mut task = rt.spawn(store.wait());
        rt.block_on(async {
            assert!((&mut task).now_or_never().is_none());
            store.open();
            (&mut task).await.unwrap();
        });
        let again = panic_site(std::panic::AssertUnwindSafe(|| rt.block_on(&mut task)));
        assert_eq!(again.message, "JoinHandle polled after completion", "{}", rt.name);
    }
}

#[test]
fn large_futures_and_outputs_arrive_whole() {
    fn pattern(seed: u8) -> [u8; 65_536] {
        std::array::from_fn(|i| (i as u8).wrapping_mul(31).wrapping_add(seed))
    }
    for rt in runtimes() {
        let tasks: Vec<_> = (0..8u8)
            .map(|seed| {
                let captured = pattern(seed);
                rt.spawn(async move {
                    yield_now().await;
                    captured
                })
            })
            .collect();
        for (seed, task) in tasks.into_iter().enumerate() {
            let output = rt.block_on(task).unwrap();
            assert!(output == pattern(seed as u8), "output {seed} was damaged, {}", rt.name);
        }
        // The sizes around which the cell's class or its place changes.
        macro_rules! sizes {
            ($($size:literal)*) => {$({
                let captured = [$size % 251; $size];
                let task = rt.spawn(async move { yield_now().await; captured });
                assert_eq!(rt.block_on(task).unwrap(), [$size % 251; $size]);
            })*};
        }
        sizes!(0 1 2 3 4 5 15 16 17 18 19 20 31 32 33 37 38 39 63 64 65 101 102 103 127 128 129);
        sizes!(255 256 257 273 274 275 276 287 288 289 511 512 513 1024);
    }
}

#[test]
fn over_aligned_futures_and_outputs_are_aligned() {
    macro_rules! alignments {
        ($rt:ident: $($align:literal)*) => {$({
            #[repr(align($align))]
            struct Aligned(u8);
            impl Future for Aligned {
                type Output = Aligned;
                fn poll(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Aligned> {
                    assert!((&raw const *self).addr().is_multiple_of($align), "the future");
                    Poll::Ready(Aligned(self.0 + 1))
                }
            }
            impl Drop for Aligned {
                fn drop(&mut self) {
                    assert!((&raw const *self).addr().is_multiple_of($align), "at its drop");
                }
            }
            let tasks: Vec<_> = (0..20).map(|n| $rt.spawn(Aligned(n))).collect();
            for (n, task) in tasks.into_iter().enumerate() {
                assert_eq!($rt.block_on(task).unwrap().0 as usize, n + 1);
            }
            drop($rt.spawn(Aligned(0)));
        })*};
    }
    for rt in runtimes() {
        alignments!(rt: 1 2 4 8 16 32 64 128 4096);
        rt.block_on(rt.spawn(async {})).unwrap();
    }
}

#[test]
fn ids_are_known_in_poll_and_drop_and_are_unique() {
    struct Notes(Arc<Mutex<Vec<task::Id>>>);
    impl Drop for Notes {
        fn drop(&mut self) {
            self.0.lock().unwrap().push(task::id());
        }
    }
    for rt in runtimes() {
        assert_eq!(task::try_id(), None);
        rt.block_on(async { assert_eq!(task::try_id(), None, "the root is not a task") });
        let notes = Arc::new(Mutex::new(Vec::new()));
        let (in_future, in_output) = (Notes(notes.clone()), Notes(notes.clone()));
        let handle = rt.spawn(async move {
            yield_now().await;
            in_future.0.lock().unwrap().push(task::id());
            drop(in_future);
            in_output
        });
        let id = handle.id();
        while !handle.is_finished() {
            rt.block_on(rt.spawn(async {})).unwrap();
        }
        drop(handle); // with the output in it
        let aborted = rt.spawn(may_wait_forever({
            let held = Notes(notes.clone());
            async move {
                let _held = held;
                pending::<()>().await;
            }
        }));
        let aborted_id = aborted.id();
        aborted.abort();
        rt.block_on(aborted).unwrap_err();
        assert_eq!(*notes.lock().unwrap(), [id, id, id, aborted_id], "{}", rt.name);
        let closure = rt.spawn_blocking(task::id);
        let closure_id = closure.id();
        assert_eq!(rt.block_on(closure).unwrap(), closure_id, "{}", rt.name);

        let ids: std::collections::BTreeSet<_> =
            (0..500).map(|_| rt.spawn(ready(()))).map(|handle| handle.id().to_string()).collect();
        assert_eq!(ids.len(), 500, "{}", rt.name);
    }
    let outside = panic_site(|| task::id());
    assert_eq!(outside.message, "Can't get a task id when not inside a task");
    assert_eq!(outside.file, file!());
}

#[test]
fn a_future_that_panics_is_dropped_while_the_thread_is_panicking() {
    struct Boom(Option<mpsc::Sender<bool>>);
    impl Future for Boom {
        type Output = ();
        fn poll(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<()> {
            panic!("planted")
        }
    }
    impl Drop for Boom {
        fn drop(&mut self) {
            self.0.take().unwrap().send(std::thread::panicking()).unwrap();
            panic!("and once more")
        }
    }
    for rt in runtimes() {
        let (dropped, drops) = mpsc::channel();
        let error = rt.block_on(rt.spawn(Boom(Some(dropped)))).unwrap_err();
        assert!(error.to_string().contains("planted"), "the first panic counts: {error}");
        assert_eq!(drops.iter().collect::<Vec<_>>(), [true], "{}", rt.name);
    }
}

/// A foreign waker may have the same data pointer as the task's own waker, with another vtable.
#[test]
fn a_waker_of_others_is_not_taken_for_the_tasks_own() {
    static WOKEN: AtomicUsize = AtomicUsize::new(0);
    fn count(_: *const ()) {
        WOKEN.fetch_add(1, SeqCst);
    }
    static VTABLE: RawWakerVTable =
        RawWakerVTable::new(|data| RawWaker::new(data, &VTABLE), count, count, |_| {});
    let rt = current_thread();
    rt.block_on(async {
        let polls = std::future::poll_fn(|cx| {
            // SAFETY: the functions of the vtable do not read the data pointer.
            let other = unsafe { Waker::new(cx.waker().data(), &VTABLE) };
            let mut yields = std::pin::pin!(wakeful::task::yield_now());
            assert!(yields.as_mut().poll(&mut Context::from_waker(&other)).is_pending());
            Poll::Ready(())
        });
        wakeful::spawn(polls).await.unwrap();
    });
    drop(rt);
    assert_eq!(WOKEN.load(SeqCst), 1);
}
