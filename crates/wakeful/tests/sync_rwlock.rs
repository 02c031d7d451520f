//! `RwLock`: many readers or one writer, FIFO order, and mapped guards.

use std::fmt::Display;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread;

use futures::executor;
use wakeful::sync::{
    OwnedRwLockMappedWriteGuard, OwnedRwLockReadGuard, OwnedRwLockWriteGuard, RwLock,
    RwLockMappedWriteGuard, RwLockReadGuard, RwLockWriteGuard,
};
use wakeful::task::yield_now;

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
use support::runtimes::{current_thread, runtimes};

static STATIC: RwLock<u32> = RwLock::const_new(0);
static NARROW: RwLock<u32> = RwLock::const_with_max_readers(0, 1);

#[test]
fn a_static_one_works_without_a_runtime() {
    let threads = [0; 4].map(|_| {
        thread::spawn(|| {
            for _ in 0..100 {
                *executor::block_on(STATIC.write()) += 1;
                *STATIC.blocking_write() += 1;
                // One after the other: a second read guard would wait behind a writer
                // that waits for the first.
                let earlier = *STATIC.blocking_read();
                assert!(earlier <= *executor::block_on(STATIC.read()));
            }
        })
    });
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    assert_eq!(*STATIC.try_read().unwrap(), 800);
    let _reads = NARROW.try_read().unwrap();
    assert!(NARROW.try_read().is_err());
}

#[test]
fn readers_share_and_writers_do_not() {
    let lock = RwLock::new(1);
    let (one, another) = (lock.try_read().unwrap(), ManualPoll::new(lock.read()).ready());
    assert_eq!(*one + *another, 2);
    assert!(lock.try_write().is_err());
    let mut writer = ManualPoll::pending(lock.write());
    assert!(lock.try_read().is_err(), "a writer waits");
    let mut reader = ManualPoll::pending(lock.read());
    drop(one);
    assert!(writer.poll().is_pending());
    drop(another);
    assert_eq!((writer.take_wakes(), reader.take_wakes()), (1, 0));
    let mut guard = writer.ready();
    assert!(lock.try_read().is_err() && lock.try_write().is_err());
    *guard = 2;
    drop(guard);
    assert_eq!(reader.take_wakes(), 1);
    assert_eq!(*reader.ready(), 2);
    assert!(lock.try_write().is_ok());
}

#[test]
fn readers_behind_a_writer_that_gives_up_come_in() {
    let lock = RwLock::new(());
    let guard = lock.try_read().unwrap();
    let writer = ManualPoll::pending(lock.write());
    let mut readers = [ManualPoll::pending(lock.read()), ManualPoll::pending(lock.read())];
    let last = ManualPoll::pending(lock.write());
    drop(writer);
    let guards = readers.each_mut().map(|reader| {
        assert_eq!(reader.take_wakes(), 1);
        reader.ready()
    });
    assert_eq!(last.take_wakes(), 0);
    drop((guard, guards));
    assert_eq!(last.take_wakes(), 1);
    drop(last);
    assert!(lock.try_write().is_ok(), "given to one that gave up");
}

#[test]
fn no_more_readers_than_asked_for() {
    let lock = RwLock::with_max_readers((), 2);
    let guards = (lock.try_read().unwrap(), lock.try_read().unwrap());
    assert!(lock.try_read().is_err());
    let mut third = ManualPoll::pending(lock.read());
    drop(guards.0);
    drop(third.ready());
    drop(guards.1);
    assert!(lock.try_write().is_ok());
}

#[test]
fn a_writer_becomes_a_reader() {
    let lock = Arc::new(RwLock::new((1, 2)));
    let guard = lock.try_write().unwrap();
    let mut readers = [ManualPoll::pending(lock.read()), ManualPoll::pending(lock.read())];
    let mut writer = ManualPoll::pending(lock.write());
    let guard = guard.downgrade();
    let guards = readers.each_mut().map(ManualPoll::ready);
    assert!(writer.poll().is_pending());
    drop((guard, guards));
    let guard = writer.ready();
    let guard = RwLockWriteGuard::try_downgrade_map(guard, |_| None::<&u8>).unwrap_err();
    let part = RwLockWriteGuard::downgrade_map(guard, |pair| &pair.1);
    assert_eq!((*part, lock.try_read().unwrap().0), (2, 1));
    drop(part);
    let guard = lock.try_write().unwrap();
    assert_eq!(*RwLockWriteGuard::try_downgrade_map(guard, |pair| Some(&pair.0)).unwrap(), 1);

    let guard = lock.clone().try_write_owned().unwrap();
    let guard = OwnedRwLockWriteGuard::try_downgrade_map(guard, |_| None::<&u8>).unwrap_err();
    let part = OwnedRwLockWriteGuard::downgrade_map(guard, |pair| &pair.1);
    assert_eq!((*part, lock.try_read().unwrap().0), (2, 1));
    drop(part);
    let guard = lock.clone().try_write_owned().unwrap();
    let part = OwnedRwLockWriteGuard::try_downgrade_map(guard, |pair| Some(&pair.0)).unwrap();
    assert!(lock.try_write().is_err() && *part == 1);
    drop(part);
    let guard = lock.clone().try_write_owned().unwrap().downgrade();
    assert!(lock.try_write().is_err() && lock.try_read().is_ok());
    drop(guard);
    let narrow = RwLock::with_max_readers((), 1);
    let guard = narrow.try_write().unwrap().downgrade();
    assert!(narrow.try_read().is_err());
    drop(guard);
    assert!(narrow.try_write().is_ok());
}

#[test]
fn borrowed_guards_map_to_a_part_of_the_value() {
    let lock = RwLock::new((1, Some(String::from("x"))));
    let guard = lock.try_write().unwrap();
    let guard = RwLockWriteGuard::try_map(guard, |_| None::<&mut u8>).unwrap_err();
    let part = RwLockWriteGuard::try_map(guard, |pair| pair.1.as_mut()).unwrap();
    let part = RwLockMappedWriteGuard::try_map(part, |_| None::<&mut u8>).unwrap_err();
    let mut part: RwLockMappedWriteGuard<'_, str> =
        RwLockMappedWriteGuard::map(part, |text| &mut text[..]);
    part.make_ascii_uppercase();
    assert_eq!((format!("{part}"), format!("{part:?}")), ("X".into(), "\"X\"".into()));
    assert!(lock.try_read().is_err());
    drop(RwLockMappedWriteGuard::try_map(part, |text| text.get_mut(..1)).unwrap());
    let mut whole = RwLockWriteGuard::into_mapped(lock.try_write().unwrap());
    whole.0 = 3;
    drop(whole);
    drop(RwLockWriteGuard::map(lock.try_write().unwrap(), |pair| &mut pair.0));

    let guard = lock.try_read().unwrap();
    let guard = RwLockReadGuard::try_map(guard, |_| None::<&u8>).unwrap_err();
    let part = RwLockReadGuard::try_map(guard, |pair| pair.1.as_ref()).unwrap();
    let part: RwLockReadGuard<'_, str> = RwLockReadGuard::map(part, |text| &text[..]);
    assert_eq!((&*part, lock.try_read().unwrap().0), ("X", 3));
    assert!(lock.try_write().is_err());
    drop(part);
    assert!(lock.try_write().is_ok());
}

#[test]
fn owned_guards_keep_the_lock() {
    let lock = Arc::new(RwLock::new((1, Some(String::from("x")))));
    let guard = lock.clone().try_write_owned().unwrap();
    assert!(Arc::ptr_eq(OwnedRwLockWriteGuard::rwlock(&guard), &lock));
    let guard = OwnedRwLockWriteGuard::try_map(guard, |_| None::<&mut u8>).unwrap_err();
    let part = OwnedRwLockWriteGuard::map(guard, |pair| &mut pair.1);
    let part = OwnedRwLockMappedWriteGuard::try_map(part, |_| None::<&mut u8>).unwrap_err();
    let part = OwnedRwLockMappedWriteGuard::try_map(part, Option::as_mut).unwrap();
    let mut part = OwnedRwLockMappedWriteGuard::map(part, |text| text);
    part.push('!');
    assert!(Arc::ptr_eq(OwnedRwLockMappedWriteGuard::rwlock(&part), &lock));
    let mut reader = ManualPoll::pending(lock.clone().read_owned());
    let mut writer = ManualPoll::pending(lock.clone().write_owned());
    drop(part);
    let guard = reader.ready();
    assert!(Arc::ptr_eq(OwnedRwLockReadGuard::rwlock(&guard), &lock));
    let guard = OwnedRwLockReadGuard::try_map(guard, |_| None::<&u8>).unwrap_err();
    let part = OwnedRwLockReadGuard::try_map(guard, |pair| pair.1.as_ref()).unwrap();
    let part = OwnedRwLockReadGuard::map(part, |text| &text[..]);
    assert_eq!(&*part, "x!");
    drop((lock, part));
    let guard = writer.ready();
    drop((reader, writer));
    let guard = OwnedRwLockWriteGuard::into_mapped(guard);
    assert_eq!(Arc::strong_count(OwnedRwLockMappedWriteGuard::rwlock(&guard)), 1);
    let lock = OwnedRwLockMappedWriteGuard::rwlock(&guard).clone();
    drop(guard);
    let part = OwnedRwLockWriteGuard::try_map(lock.clone().try_write_owned().unwrap(), |pair| {
        Some(&mut pair.0)
    });
    assert_eq!(*part.unwrap(), 1);
    assert_eq!(lock.try_read_owned().unwrap().0, 1);
}

#[test]
fn a_lock_holds_values_of_any_size() {
    let slice: Arc<RwLock<[u8]>> = Arc::new(RwLock::new([1, 2, 3]));
    executor::block_on(slice.clone().write_owned())[1] = 5;
    assert_eq!(*slice.try_read().unwrap(), [1, 5, 3]);
    let shown: Box<RwLock<dyn Display>> = Box::new(RwLock::new("shown"));
    assert_eq!(executor::block_on(shown.read()).to_string(), "shown");
}

#[test]
fn debug_output_and_accessors_show_the_value() {
    let mut lock = RwLock::from(3);
    *lock.get_mut() += 1;
    assert_eq!(format!("{lock:?}"), "RwLock { data: 4 }");
    let guard = lock.try_write().unwrap();
    assert_eq!(format!("{lock:?} {guard:?} {guard}"), "RwLock { data: <locked> } 4 4");
    assert_eq!(lock.try_read().unwrap_err().to_string(), "operation would block");
    drop(guard);
    assert_eq!(lock.into_inner(), 4);
    assert_eq!(RwLock::<u8>::default().into_inner(), 0);
    assert!(size_of::<RwLockReadGuard<'_, u8>>() <= 3 * size_of::<usize>());
}

#[test]
fn a_panic_unlocks() {
    let lock = RwLock::new(1);
    let panicked = catch_unwind(AssertUnwindSafe(|| {
        let mut guard = lock.try_write().unwrap();
        *guard = 2;
        RwLockWriteGuard::map(guard, |_| -> &mut i32 { panic!("on purpose") })
    }));
    assert!(panicked.is_err());
    assert_eq!(*lock.try_write().unwrap(), 2);
}

#[test]
fn misuse_panics_at_the_caller() {
    let first = line!();
    let lock = RwLock::new(0);
    let sites = [
        (
            "a RwLock may not be created with 0 readers",
            panic_site(|| drop(RwLock::with_max_readers(0, 0))),
        ),
        (
            "a RwLock may not be created with more than 536870911 readers",
            panic_site(|| drop(RwLock::with_max_readers(0, (u32::MAX >> 3) + 1))),
        ),
        (
            "Cannot block the current thread from within a runtime.",
            panic_site(AssertUnwindSafe(|| {
                current_thread().block_on(async { drop(lock.blocking_read()) })
            })),
        ),
        (
            "Cannot block the current thread from within a runtime.",
            panic_site(AssertUnwindSafe(|| {
                current_thread().block_on(async { drop(lock.blocking_write()) })
            })),
        ),
    ];
    for (message, site) in sites {
        assert!(site.message.starts_with(message), "{}", site.message);
        assert!(site.file == file!() && site.line > first, "{site:?}");
    }
}

/// Either kind of access, so that the walk can hold both.
enum Guard<'a> {
    Read(RwLockReadGuard<'a, usize>),
    Write(RwLockWriteGuard<'a, usize>),
}

const READERS: usize = 3;

fn step<'a>(walk: &mut Walk<'a, Guard<'a>>, rng: &mut TestRng, lock: &'a RwLock<usize>) {
    walk.step(
        rng,
        &[1, 1, 1, READERS],
        |share| match share {
            1 => Box::pin(async { Some(Guard::Read(lock.read().await)) }),
            _ => Box::pin(async { Some(Guard::Write(lock.write().await)) }),
        },
        |share| match share {
            1 => lock.try_read().ok().map(Guard::Read),
            _ => lock.try_write().ok().map(Guard::Write),
        },
    );
}

#[test]
fn agrees_with_a_naive_model() {
    let mut rng = TestRng::new(seed());
    for _ in 0..WALKS {
        let lock = RwLock::with_max_readers(0, READERS as u32);
        let mut walk = Walk::new(READERS);
        for _ in 0..200 {
            step(&mut walk, &mut rng, &lock);
            walk.held().for_each(|guard| match guard {
                Guard::Read(value) => assert_eq!(**value % 2, 0),
                Guard::Write(value) => **value += 2,
            });
        }
        walk.end(&mut rng);
        assert!(lock.try_write().is_ok(), "released by all tasks");
    }
}

#[test]
fn nothing_is_lost_between_threads() {
    let mut rng = TestRng::new(seed());
    for runtime in runtimes() {
        let lock = Arc::new(RwLock::new((0usize, 0usize)));
        let tasks: Vec<_> = (0..16)
            .map(|_| {
                let (lock, mut rng) = (lock.clone(), rng.branch());
                runtime.spawn(async move {
                    let mut written = 0;
                    for _ in 0..400 {
                        let give_up = rng.one_in(3);
                        if rng.one_in(3) {
                            let mut guard = wakeful::select! {
                                biased;
                                guard = lock.write() => guard,
                                () = yield_now(), if give_up => continue,
                            };
                            guard.0 += 1;
                            if rng.one_in(4) {
                                yield_now().await;
                            }
                            guard.1 += 1;
                            written += 1;
                            let guard = guard.downgrade();
                            assert_eq!(guard.0, guard.1);
                        } else {
                            let guard = wakeful::select! {
                                biased;
                                guard = lock.read() => guard,
                                () = yield_now(), if give_up => continue,
                            };
                            assert_eq!(guard.0, guard.1);
                            if rng.one_in(4) {
                                yield_now().await;
                            }
                        }
                    }
                    written
                })
            })
            .collect();
        let written: usize =
            tasks.into_iter().map(|task| runtime.block_on(task).expect("no panic")).sum();
        assert_eq!(*lock.try_write().expect("no task holds it"), (written, written));
    }
}
