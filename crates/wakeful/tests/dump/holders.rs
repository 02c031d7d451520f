//! What a dump says of the holders of a resource.

use std::sync::Arc;

use super::{dump_when, named, runtimes, wait_of, waits};
use wakeful::inspect::{Dump, TaskDump, TaskState};
use wakeful::runtime::Handle;
use wakeful::sync::{Mutex, Notify, RwLock, Semaphore};

#[test]
fn a_lock_that_is_waited_for_names_its_holder_and_where_it_was_taken() {
    for rt in runtimes() {
        rt.block_on(async {
            let lock = Arc::new(Mutex::new(()));
            let (theirs, mine) = (lock.clone(), lock.clone());
            let stop = Arc::new(Notify::new());
            let stopped = stop.clone();
            let holder = named("holder", async move {
                let _guard = theirs.lock().await;
                stopped.notified().await;
            });
            let line = line!() - 3;
            dump_when(|dump| waits(dump, "holder")).await;
            let waiter = named("waiter", async move { drop(mine.lock().await) });
            let waiter_line = line!() - 1;
            let dump = dump_when(|dump| waits(dump, "waiter")).await;
            let task = dump.find(waiter.id()).unwrap();
            assert_eq!((task.polls(), task.wakers(), task.wakes()), (1, 1, 0));
            assert!(task.spawned_by_block_on() && task.parent().is_none() && !task.is_orphan());
            assert_eq!(task.info().spawned_at().file(), file!());
            let wait = task.waiting_on().unwrap();
            assert_eq!((wait.kind(), wait.site().line()), ("Mutex::lock", waiter_line));
            assert!(wait.is_certain());
            let [by] = wait.holders() else { panic!("{wait:?}") };
            assert_eq!(by.task().unwrap().id(), Some(holder.id()));
            assert_eq!(by.acquired_at().unwrap().line(), line);
            assert!(!by.is_unpolled());
            assert_eq!(wait_of(&dump, "holder").kind(), "Notify::notified");
            stop.notify_one();
            waiter.await.unwrap();
        });
    }
}

#[test]
fn the_current_holder_is_named() {
    for rt in runtimes() {
        rt.block_on(async {
            let lock = Arc::new(Mutex::new(()));
            let guard = lock.lock().await;
            let stop = Arc::new(Notify::new());
            for name in ["first", "second"] {
                let (lock, stop) = (lock.clone(), stop.clone());
                named(name, async move {
                    let _guard = lock.lock().await;
                    stop.notified().await;
                });
                dump_when(|dump| waits(dump, name)).await;
            }
            let dump = Handle::current().dump();
            let by_root = wait_of(&dump, "first").holders()[0].task().unwrap();
            assert!(by_root.is_block_on() && by_root.name() == Some("the root"), "{dump}");
            drop(guard);
            let has_it = |dump: &Dump| {
                dump.find_named("first")
                    .and_then(TaskDump::waiting_on)
                    .is_some_and(|wait| wait.kind() == "Notify::notified")
            };
            let dump = dump_when(has_it).await;
            let wait = wait_of(&dump, "second");
            assert_eq!(wait.holders()[0].task().unwrap().name(), Some("first"), "{dump}");
            assert!(!wait.holders()[0].is_unpolled());
            stop.notify_one();
            let gone = |dump: &Dump| dump.find_named("first").is_none();
            dump_when(gone).await;
        });
    }
}

#[test]
fn shares_of_a_lock_and_permits_have_several_holders() {
    for rt in runtimes() {
        rt.block_on(async {
            let (lock, sem) = (Arc::new(RwLock::new(())), Arc::new(Semaphore::new(2)));
            let stop = Arc::new(Notify::new());
            for name in ["a", "b"] {
                let (lock, sem, stop) = (lock.clone(), sem.clone(), stop.clone());
                named(name, async move {
                    let _permit = sem.acquire().await.unwrap();
                    let _guard = lock.read().await;
                    stop.notified().await;
                });
                dump_when(|dump| waits(dump, name)).await;
            }
            let (writer, asker) = (lock.clone(), sem.clone());
            named("writer", async move { drop(writer.write().await) });
            named("asker", async move { drop(asker.acquire_many(2).await) });
            let dump = dump_when(|dump| waits(dump, "writer") && waits(dump, "asker")).await;
            for (name, kind) in [("writer", "RwLock::write"), ("asker", "Semaphore::acquire")] {
                let wait = wait_of(&dump, name);
                assert_eq!(wait.kind(), kind);
                let names: Vec<_> =
                    wait.holders().iter().map(|by| by.task().unwrap().name()).collect();
                assert_eq!(names, [Some("a"), Some("b")], "{dump}");
            }
            stop.notify_waiters();
            dump_when(|dump| {
                dump.tasks()
                    .iter()
                    .all(|task| task.state() == TaskState::Done || task.info().is_block_on())
            })
            .await;
        });
    }
}

#[test]
fn of_many_holders_some_are_named_and_the_others_not_forgotten() {
    for rt in runtimes() {
        rt.block_on(async {
            let sem = Arc::new(Semaphore::new(6));
            let mut permits: Vec<_> = (0..6).map(|_| sem.try_acquire().unwrap()).collect();
            let asked = sem.clone();
            let asker = named("asker", async move { drop(asked.acquire_many(3).await) });
            let dump = dump_when(|dump| waits(dump, "asker")).await;
            let wait = wait_of(&dump, "asker");
            assert_eq!((wait.holders().len(), wait.has_other_holders()), (4, true), "{dump}");
            assert!(dump.to_string().contains("held by more tasks than are listed"), "{dump}");
            assert!(dump.to_json().contains(r#""other_holders":true"#), "{dump}");
            // Two listed holders release their permits. The list of the others is still incomplete.
            permits.drain(..2);
            let dump = Handle::current().dump();
            let wait = wait_of(&dump, "asker");
            assert_eq!((wait.holders().len(), wait.has_other_holders()), (2, true), "{dump}");
            permits.clear();
            asker.await.unwrap();
        });
    }
}

#[test]
fn permits_that_are_forgotten_have_no_holder_any_more() {
    for rt in runtimes() {
        rt.block_on(async {
            let sem = Arc::new(Semaphore::new(1));
            let permit = sem.try_acquire().unwrap();
            let asked = sem.clone();
            let asker = named("asker", async move { drop(asked.acquire().await) });
            let dump = dump_when(|dump| waits(dump, "asker")).await;
            assert_eq!(wait_of(&dump, "asker").holders().len(), 1, "{dump}");
            permit.forget();
            let dump = Handle::current().dump();
            assert_eq!(wait_of(&dump, "asker").holders().len(), 0, "{dump}");
            sem.add_permits(1);
            asker.await.unwrap();
        });
    }
}

/// Returns whether the task waits for a notification.
fn waits_to_be_notified(dump: &Dump, name: &str) -> bool {
    let wait = dump.find_named(name).and_then(TaskDump::waiting_on);
    wait.is_some_and(|wait| wait.kind() == "Notify::notified")
}

#[test]
fn the_new_owner_of_returned_permits_is_listed() {
    for rt in runtimes() {
        rt.block_on(async {
            let sem = Arc::new(Semaphore::new(5));
            let permits: Vec<_> = (0..4).map(|_| sem.try_acquire().unwrap()).collect();
            let stop = Arc::new(Notify::new());
            let ask = |name: &'static str, n| {
                let (sem, stop) = (sem.clone(), stop.clone());
                named(name, async move {
                    let _permits = sem.acquire_many(n).await.unwrap();
                    stop.notified().await;
                })
            };
            // The first takes the fifth permit and waits for a sixth.
            let first = ask("first", 2);
            dump_when(|dump| waits(dump, "first")).await;
            let second = ask("second", 1);
            dump_when(|dump| waits(dump, "second")).await;
            let third = ask("third", 1);
            let dump = dump_when(|dump| waits(dump, "third")).await;
            let wait = wait_of(&dump, "third");
            assert_eq!((wait.holders().len(), wait.has_other_holders()), (4, false), "{dump}");
            first.abort();
            assert!(first.await.unwrap_err().is_cancelled());
            let dump = dump_when(|dump| waits_to_be_notified(dump, "second")).await;
            let wait = wait_of(&dump, "third");
            assert_eq!((wait.holders().len(), wait.has_other_holders()), (4, true), "{dump}");
            drop(permits);
            dump_when(|dump| waits_to_be_notified(dump, "third")).await;
            stop.notify_waiters();
            second.await.unwrap();
            third.await.unwrap();
        });
    }
}
