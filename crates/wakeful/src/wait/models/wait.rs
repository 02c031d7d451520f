//! Models of the wait list and of the place for one waker.

use crate::sys::sync::atomic::{AtomicUsize, Ordering::*};
use crate::sys::sync::{Arc, thread};
use crate::task::models::scheduler::{model, start};
use crate::wait::atomic_waker::{AtomicWaker, Registered};
use crate::wait::list::{Grant, Waiter, WaiterState, Waiters};
use crate::wait::rerun_gate::RerunGate;
use std::pin::Pin;
use std::sync::Arc as StdArc;
use std::sync::atomic::AtomicUsize as StdUsize;
use std::task::{Wake, Waker};

/// Counts how often it was woken; not part of the model.
struct Count(StdUsize);

impl Wake for Count {
    fn wake(self: StdArc<Self>) {
        self.0.fetch_add(1, SeqCst);
    }
}

fn counter() -> (StdArc<Count>, Waker) {
    let count = StdArc::new(Count(StdUsize::new(0)));
    (count.clone(), Waker::from(count))
}

struct Scene {
    list: Waiters<usize, ()>,
    waiter: Pin<Box<Waiter<()>>>,
}

/// A waiter gives up while it is answered. Catches an answer that both sides
/// believe to have prevented, and a waiter that is left in the list.
#[test]
fn a_waiter_gives_up_as_it_is_answered() {
    model(5, || {
        let scene = Arc::new(Scene { list: Waiters::new(0), waiter: Box::pin(Waiter::new()) });
        let (count, waker) = counter();
        scene.list.with(|list| list.push_back(scene.waiter.as_ref(), (), Some(waker)));
        let giver = thread::spawn({
            let scene = scene.clone();
            move || {
                let call = scene.list.with(|list| list.pop_front(Grant::One));
                let given = call.is_some();
                if let Some(call) = call {
                    call.wake();
                }
                given
            }
        });
        start();
        let standing = scene.list.cancel(scene.waiter.as_ref());
        let given = giver.join().unwrap();
        let answered = standing == WaiterState::Granted(Grant::One);
        assert_eq!(given, answered, "given away, and to whom?");
        assert_eq!(count.0.load(SeqCst), usize::from(given));
        assert!(scene.list.with(|list| list.is_empty()));
    });
}

/// A waiter is polled by another task while it is answered: whichever waker is
/// woken, the waiter sees the answer or the new waker is woken.
#[test]
fn the_waker_changes_as_the_waiter_is_answered() {
    model(5, || {
        let scene = Arc::new(Scene { list: Waiters::new(0), waiter: Box::pin(Waiter::new()) });
        let ((old_count, old), (new_count, new)) = (counter(), counter());
        scene.list.with(|list| list.push_back(scene.waiter.as_ref(), (), Some(old)));
        let giver = thread::spawn({
            let scene = scene.clone();
            move || {
                let call = scene.list.with(|list| list.pop_front(Grant::All));
                call.expect("it waits").wake();
            }
        });
        start();
        let standing = scene.list.update_waker(scene.waiter.as_ref(), &new);
        giver.join().unwrap();
        let (old, new) = (old_count.0.load(SeqCst), new_count.0.load(SeqCst));
        assert_eq!(old + new, 1);
        assert!(new == 1 || standing == WaiterState::Granted(Grant::All));
        assert_eq!(scene.waiter.state(), WaiterState::Granted(Grant::All));
    });
}

/// Two waiters come and go while two are answered: nobody is lost or answered
/// twice, and the state behind the lock is one for all.
#[test]
fn the_list_stays_whole() {
    model(3, || {
        let list: Arc<Waiters<usize, ()>> = Arc::new(Waiters::new(1));
        let waits = |list: &Waiters<usize, ()>| {
            let waiter = Box::pin(Waiter::new());
            list.with(|list| list.push_back(waiter.as_ref(), (), None));
            let call = list.with(|list| {
                if **list == 0 {
                    return None;
                }
                **list -= 1;
                list.pop_front(Grant::One)
            });
            if let Some(call) = call {
                call.wake();
            }
            list.cancel(waiter.as_ref()) == WaiterState::Granted(Grant::One)
        };
        let other = thread::spawn({
            let list = list.clone();
            move || waits(&list)
        });
        start();
        let (mine, others) = (waits(&list), other.join().unwrap());
        assert!(!(mine && others), "there was one to give");
        assert_eq!(list.with(|list| (list.is_empty(), **list)), (true, 0));
    });
}

/// Something is put there while the waiter registers. Catches a giver that finds
/// nobody while the waiter finds nothing.
#[test]
fn a_call_is_never_missed() {
    model(5, || {
        let shared = Arc::new((AtomicWaker::new(), AtomicUsize::new(0)));
        let (count, waker) = counter();
        let giver = thread::spawn({
            let shared = shared.clone();
            move || {
                shared.1.store(1, SeqCst);
                shared.0.take().wake();
            }
        });
        start();
        let registered = shared.0.register(&waker);
        let seen = shared.1.load(SeqCst) == 1;
        giver.join().unwrap();
        let woken = count.0.load(SeqCst) == 1;
        assert!(seen || woken, "{registered:?}");
        assert!(registered == Registered::Waiting || seen, "called, so it is there");
    });
}

/// The waiter registers again for another task, or goes away, while two call.
#[test]
fn two_call_as_the_waiter_moves() {
    for goes in [false, true] {
        model(3, move || {
            let single = Arc::new(AtomicWaker::new());
            let ((old_count, old), (new_count, new)) = (counter(), counter());
            assert_eq!(single.register(&old), Registered::Waiting);
            let callers = [0, 1].map(|_| {
                let single = single.clone();
                thread::spawn(move || single.take().wake())
            });
            start();
            let told = if goes {
                single.deregister();
                true
            } else {
                single.register(&new) == Registered::Notified
            };
            callers.into_iter().for_each(|caller| caller.join().unwrap());
            let (old, new) = (old_count.0.load(SeqCst), new_count.0.load(SeqCst));
            assert!(told || old + new >= 1, "two called, and nobody heard");
            assert!(old <= 1 && new <= 1);
            // Whatever is left, a last call gets it out.
            single.take().wake();
        });
    }
}

/// Two ask for the same work, each after it has brought something. Catches work that is asked for
/// when the one who was at it has looked for the last time.
#[test]
fn whoever_asks_has_it_done_after_that() {
    model(5, || {
        let scene = Arc::new((RerunGate::new(), AtomicUsize::new(0), AtomicUsize::new(0)));
        let ask = |scene: &Arc<(RerunGate, AtomicUsize, AtomicUsize)>| {
            let (again, brought, seen) = &**scene;
            brought.fetch_add(1, Relaxed);
            again.run(|| {
                assert_eq!(seen.fetch_or(1 << 8, Relaxed) >> 8, 0, "one at a time");
                seen.store(brought.load(Relaxed), Relaxed);
            });
        };
        let other = thread::spawn({
            let scene = scene.clone();
            move || ask(&scene)
        });
        start();
        ask(&scene);
        other.join().unwrap();
        assert_eq!(scene.2.load(Relaxed), 2, "all that was brought was seen");
    });
}
