//! Loom models of the queues: a task that enters leaves exactly once, with all that was written to
//! it.

use crate::queue::injector::Injector;
use crate::queue::lifo_slot;
use crate::queue::ring::{self, CAPACITY, Owner};
use crate::sys::membarrier::Barriers;
use crate::sys::sync::thread;
use crate::task::models::scheduler::{Entries, model, start};
use crate::task::runnable::Runnable;
use std::sync::Arc;

/// Takes all tasks.
fn drain(entries: &Entries, owner: &Owner) -> Vec<usize> {
    std::iter::from_fn(|| owner.pop()).map(|task| entries.end(task)).collect()
}

/// Pushes a task. Returns the overflow.
fn push(entries: &Entries, owner: &Owner, number: usize) -> Vec<usize> {
    match owner.push(entries.make(number)) {
        Ok(()) => Vec::new(),
        Err(overflow) => {
            let mut out: Vec<usize> =
                overflow.oldest_half.into_iter().map(|task| entries.end(task)).collect();
            out.push(entries.end(overflow.newest));
            out
        }
    }
}

/// Starts a thread that steals once, into its own ring.
fn thief(entries: &Arc<Entries>, stealer: Arc<ring::Stealer>) -> thread::JoinHandle<Vec<usize>> {
    let entries = entries.clone();
    thread::spawn(move || {
        let (own, _) = ring::ring();
        let mut stolen: Vec<usize> =
            stealer.steal_into(&own).map(|(task, _)| entries.end(task)).into_iter().collect();
        stolen.extend(drain(&entries, &own));
        stolen
    })
}

fn gather(threads: impl IntoIterator<Item = thread::JoinHandle<Vec<usize>>>) -> Vec<usize> {
    threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
}

/// The owner pushes and pops while a thief steals half.
///
/// Detects a task that both take, and a task that is taken before it is written.
#[test]
fn one_thief_against_the_owner() {
    model(6, || {
        let entries = Entries::new(4);
        let (owner, stealer) = ring::ring();
        push(&entries, &owner, 0);
        push(&entries, &owner, 1);
        let thief = thief(&entries, Arc::new(stealer));
        start();
        push(&entries, &owner, 2);
        let mut ended: Vec<usize> = owner.pop().map(|task| entries.end(task)).into_iter().collect();
        push(&entries, &owner, 3);
        ended.extend(drain(&entries, &owner));
        assert!(ended.is_sorted(), "the owner popped out of order: {ended:?}");
        ended.extend(gather([thief]));
        entries.assert_ended(ended);
    });
}

/// Two thieves and the owner take at the same time.
///
/// Detects an exchange that succeeds although another thread has moved `head`.
#[test]
fn two_thieves_against_the_owner() {
    model(4, || {
        let entries = Entries::new(3);
        let (owner, stealer) = ring::ring();
        (0..3).for_each(|number| drop(push(&entries, &owner, number)));
        let stealer = Arc::new(stealer);
        let thieves = [thief(&entries, stealer.clone()), thief(&entries, stealer)];
        start();
        let mut ended = drain(&entries, &owner);
        ended.extend(gather(thieves));
        entries.assert_ended(ended);
    });
}

/// The ring is full. The owner pops, overwrites the slot that a thief may be copying, and pushes
/// once more, which overflows unless the thief has stolen.
///
/// Detects a copy of an overwritten slot, and an overflow that loses a task.
#[test]
fn full_ring_is_stolen_from() {
    model(5, || {
        let count = CAPACITY as usize;
        let entries = Entries::new(count + 2);
        let (owner, stealer) = ring::ring();
        (0..count).for_each(|number| drop(push(&entries, &owner, number)));
        let thief = thief(&entries, Arc::new(stealer));
        start();
        let mut ended: Vec<usize> = owner.pop().map(|task| entries.end(task)).into_iter().collect();
        ended.extend(push(&entries, &owner, count));
        ended.extend(push(&entries, &owner, count + 1));
        ended.extend(drain(&entries, &owner));
        ended.extend(gather([thief]));
        entries.assert_ended(ended);
    });
}

/// The watchdog takes the whole ring of a worker that is not stuck after all and keeps popping.
#[test]
fn ring_is_drained_by_the_watchdog() {
    model(6, || {
        let entries = Entries::new(3);
        let (owner, stealer) = ring::ring();
        (0..2).for_each(|number| drop(push(&entries, &owner, number)));
        let watchdog = thread::spawn({
            let entries = entries.clone();
            move || {
                let mut moved = Vec::new();
                stealer.drain(|task| moved.push(entries.end(task)));
                moved
            }
        });
        start();
        let mut ended: Vec<usize> = owner.pop().map(|task| entries.end(task)).into_iter().collect();
        push(&entries, &owner, 2);
        ended.extend(drain(&entries, &owner));
        ended.extend(gather([watchdog]));
        entries.assert_ended(ended);
    });
}

/// The owner stores two tasks in its LIFO slot and takes one out, while two thieves find it stuck.
///
/// Detects two threads in the slot at once, which the barriers and the order of the flags prevent.
#[test]
fn lifo_slot_with_two_thieves() {
    model(3, || {
        let entries = Entries::new(2);
        let (owner, thief) = lifo_slot::lifo_slot(Barriers::detect());
        let thief = Arc::new(thief);
        let thieves = [(); 2].map(|()| {
            let (entries, thief) = (entries.clone(), thief.clone());
            thread::spawn(move || thief.take().map(|task| entries.end(task)).into_iter().collect())
        });
        start();
        let mut ended = Vec::new();
        let mut end = |task: Option<Runnable>| ended.extend(task.map(|task| entries.end(task)));
        end(owner.replace(entries.make(0)));
        end(owner.replace(entries.make(1)));
        end(owner.take());
        ended.extend(gather(thieves));
        assert!(owner.take().is_none());
        entries.assert_ended(ended);
    });
}

/// Two threads push while a third takes one task and then all.
///
/// Detects a task that is lost between the stack and the list, and two tasks of one pusher in the
/// wrong order.
#[test]
fn injector_keeps_the_order_of_each_pusher() {
    model(4, || {
        let entries = Entries::new(3);
        let injector = Arc::new(Injector::new());
        let pushers = [vec![0, 1], vec![2]].map(|own| {
            let (entries, injector) = (entries.clone(), injector.clone());
            thread::spawn(move || {
                own.into_iter().for_each(|number| injector.push(entries.make(number)).unwrap());
            })
        });
        start();
        let mut ended: Vec<usize> =
            injector.pop().map(|task| entries.end(task)).into_iter().collect();
        pushers.into_iter().for_each(|pusher| pusher.join().unwrap());
        let mut rest = Vec::new();
        let first = injector.take(|ready| ready, |task| rest.push(entries.end(task)));
        ended.extend(first.map(|task| entries.end(task)));
        ended.extend(rest);
        assert!(injector.is_empty());
        let at = |number| ended.iter().position(|&ended| ended == number);
        assert!(at(0) < at(1), "out of order: {ended:?}");
        entries.assert_ended(ended);
    });
}

/// A ring overflows into the injector while one thread pushes and another takes.
///
/// Detects a batch that overtakes tasks that arrived before it, and a count that hides a task.
#[test]
fn injector_gets_a_batch_during_a_push_and_a_take() {
    model(4, || {
        let entries = Entries::new(4);
        let injector = Arc::new(Injector::new());
        injector.push(entries.make(0)).unwrap();
        let pusher = thread::spawn({
            let (entries, injector) = (entries.clone(), injector.clone());
            move || injector.push(entries.make(1)).unwrap()
        });
        let taker = thread::spawn({
            let (entries, injector) = (entries.clone(), injector.clone());
            move || injector.pop().map(|task| entries.end(task)).into_iter().collect()
        });
        start();
        injector.push_batch([2, 3].map(|number| entries.make(number)));
        pusher.join().unwrap();
        let mut ended = gather([taker]);
        assert!(ended.is_empty() || ended == [0], "the first task was overtaken: {ended:?}");
        ended.extend(std::iter::from_fn(|| injector.pop()).map(|task| entries.end(task)));
        let at = |number| ended.iter().position(|&ended| ended == number);
        assert!(at(2) < at(3), "out of order: {ended:?}");
        entries.assert_ended(ended);
    });
}

/// One of two tasks is taken from the injector. Meanwhile a worker that is about to sleep must not
/// find the injector empty.
///
/// Detects a task that is neither on the stack nor counted.
#[test]
fn injector_with_tasks_is_never_empty() {
    model(5, || {
        let entries = Entries::new(2);
        let injector = Arc::new(Injector::new());
        (0..2).for_each(|number| injector.push(entries.make(number)).unwrap());
        let taker = thread::spawn({
            let (entries, injector) = (entries.clone(), injector.clone());
            move || injector.pop().map(|task| entries.end(task)).into_iter().collect()
        });
        start();
        assert!(!injector.is_empty(), "at least one task is in it");
        let mut ended = gather([taker]);
        ended.extend(injector.pop().map(|task| entries.end(task)));
        assert!(injector.is_empty());
        entries.assert_ended(ended);
    });
}

/// The injector is closed while one thread pushes and another takes.
///
/// Detects a task that is pushed after the close, and a taker that opens the stack again.
#[test]
fn injector_closes_during_a_push_and_a_take() {
    model(5, || {
        let entries = Entries::new(3);
        let injector = Arc::new(Injector::new());
        (0..2).for_each(|number| injector.push(entries.make(number)).unwrap());
        let pusher = thread::spawn({
            let (entries, injector) = (entries.clone(), injector.clone());
            move || {
                let refused = injector.push(entries.make(2)).err();
                refused.map(|task| entries.end(task)).into_iter().collect()
            }
        });
        let taker = thread::spawn({
            let (entries, injector) = (entries.clone(), injector.clone());
            move || injector.pop().map(|task| entries.end(task)).into_iter().collect()
        });
        start();
        let mut ended: Vec<usize> =
            injector.close().into_iter().map(|task| entries.end(task)).collect();
        ended.extend(gather([pusher, taker]));
        assert!(injector.is_empty() && injector.pop().is_none());
        entries.assert_ended(ended);
    });
}
