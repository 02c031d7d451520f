//! `Mutex`: one holder, FIFO order, and dropped futures that had been granted the lock.

use std::fmt::Display;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::task::Waker;
use std::thread;

use futures::executor;
use wakeful::sync::{
    MappedMutexGuard, Mutex, MutexGuard, OwnedMappedMutexGuard, OwnedMutexGuard, TryLockError,
};
use wakeful::task::{coop, yield_now};

mod support {
    pub mod fifo_model;
    pub mod manual_poll;
    pub mod panic_site;
    pub mod rng;
    pub mod runtimes;
}
use support::fifo_model::{WALKS, Walk};
use support::manual_poll::ManualPoll;
use support::panic_site::panic_site;
use support::rng::{TestRng, seed};
use support::runtimes::{current_thread, multi_thread, runtimes};

static COUNTER: Mutex<u32> = Mutex::const_new(0);

#[test]
fn a_static_one_works_without_a_runtime() {
    let threads = [0; 4].map(|_| {
        thread::spawn(|| {
            for _ in 0..100 {
                *executor::block_on(COUNTER.lock()) += 1;
                *COUNTER.blocking_lock() += 1;
            }
        })
    });
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    assert_eq!(*COUNTER.try_lock().unwrap(), 800);
}

#[test]
fn waiters_get_the_lock_in_order() {
    let mutex = Mutex::new(Vec::new());
    let mut guard = mutex.try_lock().unwrap();
    let mut waits: Vec<_> = (0..5).map(|_| ManualPoll::pending(mutex.lock())).collect();
    for (number, wait) in waits.iter_mut().enumerate() {
        guard.push(number);
        drop(guard);
        assert_eq!(wait.take_wakes(), 1, "handed to the one in front");
        assert!(mutex.try_lock().is_err(), "no other task acquires it in between");
        let mut late = ManualPoll::new(mutex.lock());
        assert!(late.poll().is_pending());
        drop(late);
        guard = wait.ready();
    }
    assert_eq!(*guard, [0, 1, 2, 3, 4]);
    drop(guard);
    assert!(waits.iter().all(|wait| wait.take_wakes() == 0 && wait.wakers() == 0));
    assert!(mutex.try_lock().is_ok());
}

#[test]
fn a_dropped_wait_passes_the_lock_on() {
    let mutex = Mutex::new(());
    for gives_up in 0..3 {
        // The future is dropped before its first poll, while it waits, or after it was granted the lock.
        let guard = mutex.try_lock().unwrap();
        let mut first = Some(ManualPoll::new(mutex.lock()));
        if gives_up > 0 {
            assert!(first.as_mut().unwrap().poll().is_pending());
        }
        let mut second = ManualPoll::pending(mutex.lock());
        if gives_up < 2 {
            first = None;
        }
        drop(guard);
        drop(first);
        assert_eq!(second.take_wakes(), 1);
        drop(second.ready());
        assert!(mutex.try_lock().is_ok());
    }
}

#[test]
fn the_last_that_gives_up_leaves_the_lock_as_it_was() {
    let mutex = Mutex::new(());
    let guard = mutex.try_lock().unwrap();
    let wait = ManualPoll::pending(mutex.lock());
    let wake_count = wait.wake_count();
    drop(wait);
    assert_eq!(Arc::strong_count(&wake_count), 1, "no waker is left behind");
    drop(guard);
    drop(mutex.try_lock().unwrap());
    let guard = mutex.try_lock().unwrap();
    let handed = ManualPoll::pending(mutex.lock());
    drop(guard);
    drop(handed);
    assert!(mutex.try_lock().is_ok(), "granted to a cancelled waiter, with no waiter behind it");
}

#[test]
fn another_task_may_go_on_polling() {
    let mutex = Mutex::new(());
    let guard = mutex.try_lock().unwrap();
    let mut wait = ManualPoll::new(mutex.lock());
    assert!(wait.poll_with(Waker::noop()).is_pending());
    assert_eq!(wait.wakers(), 0);
    assert!(wait.poll().is_pending());
    assert_eq!(wait.wakers(), 1);
    drop(guard);
    assert_eq!(wait.take_wakes(), 1);
    drop(wait.ready());
}

#[test]
fn a_panic_unlocks() {
    let mutex = Mutex::new(1);
    let panicked = catch_unwind(AssertUnwindSafe(|| {
        let mut guard = mutex.try_lock().unwrap();
        *guard = 2;
        MutexGuard::map(guard, |_| -> &mut i32 { panic!("on purpose") })
    }));
    assert!(panicked.is_err());
    assert_eq!(*mutex.try_lock().unwrap(), 2);
}

#[test]
fn owned_guards_keep_the_mutex() {
    let mutex = Arc::new(Mutex::new(String::from("a")));
    let mut guard = mutex.clone().try_lock_owned().unwrap();
    let mut wait = ManualPoll::pending(mutex.clone().lock_owned());
    assert!(mutex.clone().try_lock_owned().is_err());
    assert!(Arc::ptr_eq(OwnedMutexGuard::mutex(&guard), &mutex));
    guard.push('b');
    drop((mutex, guard));
    let guard = wait.ready();
    drop(wait);
    assert_eq!(Arc::strong_count(OwnedMutexGuard::mutex(&guard)), 1);
    assert_eq!(&*guard, "ab");
    let mutex = OwnedMutexGuard::mutex(&guard).clone();
    let wait = ManualPoll::pending(mutex.clone().lock_owned());
    drop(guard);
    drop(wait);
    assert_eq!(*mutex.blocking_lock_owned(), "ab");
}

#[test]
fn a_guard_maps_to_a_part_of_the_value() {
    let mutex = Arc::new(Mutex::new((1, Some(String::from("x")))));
    let guard = mutex.try_lock().unwrap();
    assert!(std::ptr::eq(MutexGuard::mutex(&guard), &*mutex));
    let guard = MutexGuard::try_map(guard, |_| None::<&mut u8>).unwrap_err();
    let part = MutexGuard::try_map(guard, |pair| pair.1.as_mut()).unwrap();
    let mut part: MappedMutexGuard<'_, str> = MappedMutexGuard::map(part, |text| &mut text[..]);
    part.make_ascii_uppercase();
    let part = MappedMutexGuard::try_map(part, |_| None::<&mut u8>).unwrap_err();
    assert_eq!((format!("{part}"), format!("{part:?}")), ("X".into(), "\"X\"".into()));
    assert!(mutex.try_lock().is_err());
    drop(part);

    let guard = mutex.clone().try_lock_owned().unwrap();
    let guard = OwnedMutexGuard::try_map(guard, |_| None::<&mut u8>).unwrap_err();
    let part = OwnedMutexGuard::map(guard, |pair| &mut pair.1);
    let part = OwnedMappedMutexGuard::try_map(part, Option::as_mut).unwrap();
    let mut part = OwnedMappedMutexGuard::map(part, |text| text);
    part.push('!');
    assert!(mutex.try_lock().is_err());
    drop(part);
    assert_eq!(mutex.try_lock().unwrap().1.as_deref(), Some("X!"));
}

#[test]
fn a_mutex_holds_values_of_any_size() {
    let slice: Arc<Mutex<[u8]>> = Arc::new(Mutex::new([1, 2, 3]));
    executor::block_on(slice.clone().lock_owned())[1] = 5;
    assert_eq!(*slice.try_lock().unwrap(), [1, 5, 3]);
    let shown: Box<Mutex<dyn Display>> = Box::new(Mutex::new("shown"));
    assert_eq!(executor::block_on(shown.lock()).to_string(), "shown");
}

#[test]
fn debug_output_and_accessors_show_the_value() {
    let mut mutex = Mutex::from(3);
    *mutex.get_mut() += 1;
    assert_eq!(format!("{mutex:?}"), "Mutex { data: 4 }");
    let guard = mutex.try_lock().unwrap();
    assert_eq!(format!("{mutex:?} {guard:?} {guard}"), "Mutex { data: <locked> } 4 4");
    let error: TryLockError = mutex.try_lock().unwrap_err();
    assert_eq!(error.to_string(), "operation would block");
    drop(guard);
    assert_eq!(mutex.into_inner(), 4);
    assert_eq!(Mutex::<u8>::default().into_inner(), 0);
    assert_eq!(size_of::<MutexGuard<'_, [u8; 100]>>(), size_of::<usize>());
}

#[test]
fn blocking_within_a_task_panics_at_the_caller() {
    let (mutex, line) = (Arc::new(Mutex::new(())), line!());
    let sites = [
        panic_site(AssertUnwindSafe(|| {
            current_thread().block_on(async { drop(mutex.blocking_lock()) })
        })),
        panic_site(AssertUnwindSafe(|| {
            current_thread().block_on(async { drop(mutex.clone().blocking_lock_owned()) })
        })),
    ];
    for site in sites {
        assert_eq!(site.file, file!());
        assert!(site.line > line);
        let start = "Cannot block the current thread from within a runtime.";
        assert!(site.message.starts_with(start), "{}", site.message);
    }
}

#[test]
fn a_thread_waits_for_a_task() {
    let runtime = multi_thread(1);
    let mutex = Arc::new(Mutex::new(0));
    let guard = mutex.clone().try_lock_owned().unwrap();
    let blocked = thread::spawn({
        let mutex = mutex.clone();
        move || *mutex.blocking_lock()
    });
    runtime.block_on(async {
        let mut guard = guard;
        yield_now().await;
        *guard = 7;
    });
    assert_eq!(blocked.join().unwrap(), 7);
}

#[test]
fn a_loop_over_a_free_lock_lets_others_run() {
    let runtime = current_thread();
    runtime.block_on(async {
        let mutex = Arc::new(Mutex::new(false));
        let other = wakeful::spawn({
            let mutex = mutex.clone();
            async move { *mutex.lock().await = true }
        });
        while !*mutex.lock().await {}
        other.await.unwrap();
    });
}

#[test]
fn without_budget_it_keeps_its_place() {
    let runtime = current_thread();
    runtime.block_on(async {
        let mutex = Mutex::new(());
        let guard = mutex.try_lock().unwrap();
        while coop::has_budget_remaining() {
            coop::consume_budget().await;
        }
        let mut first = ManualPoll::pending(mutex.lock());
        assert_eq!(first.take_wakes(), 0, "it waits, and is not just put off");
        let mut second = ManualPoll::pending(coop::unconstrained(mutex.lock()));
        drop(guard);
        assert_eq!((first.take_wakes(), second.take_wakes()), (1, 0));
        assert!(first.poll().is_pending(), "there is no budget to go on");
        yield_now().await;
        assert_eq!(first.take_wakes(), 1);
        drop(first.ready());
        drop(second.ready());
        while coop::has_budget_remaining() {
            drop(mutex.lock().await);
        }
        let mut third = ManualPoll::pending(mutex.lock());
        assert!(mutex.try_lock().is_ok(), "what is not used yet is not taken");
        yield_now().await;
        assert_eq!(third.take_wakes(), 1);
        drop(third.ready());
    });
}

fn step<'a>(walk: &mut Walk<'a, MutexGuard<'a, u32>>, rng: &mut TestRng, mutex: &'a Mutex<u32>) {
    let acquire = |_| Box::pin(async { Some(mutex.lock().await) }) as _;
    walk.step(rng, &[1], acquire, |_| mutex.try_lock().ok());
}

#[test]
fn agrees_with_a_naive_model() {
    let mut rng = TestRng::new(seed());
    for _ in 0..WALKS {
        let mutex = Mutex::new(0);
        let mut walk = Walk::new(1);
        for _ in 0..200 {
            step(&mut walk, &mut rng, &mutex);
        }
        walk.end(&mut rng);
        assert!(mutex.try_lock().is_ok(), "released by all tasks");
    }
}

#[test]
fn nothing_is_lost_between_threads() {
    const TASKS: usize = 16;
    const ROUNDS: usize = 400;
    let mut rng = TestRng::new(seed());
    for runtime in runtimes() {
        let mutex = Arc::new(Mutex::new(0));
        let tasks: Vec<_> = (0..TASKS)
            .map(|_| {
                let (mutex, mut rng) = (mutex.clone(), rng.branch());
                runtime.spawn(async move {
                    let mut locked = 0;
                    for _ in 0..ROUNDS {
                        let mut guard = wakeful::select! {
                            biased;
                            guard = mutex.lock() => guard,
                            () = yield_now(), if rng.one_in(3) => continue,
                        };
                        *guard += 1;
                        locked += 1;
                        if rng.one_in(4) {
                            yield_now().await;
                        }
                    }
                    locked
                })
            })
            .collect();
        let locked: usize =
            tasks.into_iter().map(|task| runtime.block_on(task).expect("no panic")).sum();
        assert_eq!(*mutex.try_lock().expect("no task holds it"), locked);
    }
}

#[test]
fn guards_and_futures_may_cross_threads() {
    fn crosses<T: Send + Sync>(value: T) -> T {
        value
    }
    let mutex = Arc::new(Mutex::new(1));
    drop(crosses(mutex.lock()));
    drop(crosses(mutex.clone().lock_owned()));
    drop(crosses(MutexGuard::map(crosses(mutex.try_lock().unwrap()), |value| value)));
    let guard = crosses(mutex.clone().try_lock_owned().unwrap());
    drop(crosses(OwnedMutexGuard::map(guard, |value| value)));
    // A value that is not `Sync` fits into a mutex.
    drop(crosses(Mutex::new(std::cell::Cell::new(1))));
}
