//! Models of `OnceCell`, `SetOnce` and `Barrier`: waiting tasks are woken, and see what was
//! written.

use crate::sync::{Barrier, OnceCell, SetOnce};
use crate::sys::sync::atomic::{AtomicUsize, Ordering::*};
use crate::sys::sync::{Arc, thread};
use crate::task::models::scheduler::{model, start};
use loom::future::block_on;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

/// The value is set as a task waits for it. Catches a waiter that enqueues itself unnoticed, and a
/// value that is read before it is written.
#[test]
fn value_is_set_while_task_waits() {
    model(4, || {
        let cell = Arc::new(SetOnce::new());
        let setter = thread::spawn({
            let cell = cell.clone();
            move || cell.set(Box::new(7)).unwrap()
        });
        start();
        assert_eq!(**block_on(cell.wait()), 7);
        setter.join().unwrap();
    });
}

/// Two threads set the value: one is rejected, and then there is a value.
#[test]
fn two_setters() {
    model(4, || {
        let cell = Arc::new(SetOnce::new());
        let set = |cell: &SetOnce<Box<u32>>, value| match cell.set(Box::new(value)) {
            Ok(()) => 1,
            Err(refused) => {
                assert_eq!(*refused.0, value);
                assert!(cell.get().is_some());
                0
            }
        };
        let other = thread::spawn({
            let cell = cell.clone();
            move || set(&cell, 1)
        });
        start();
        let mine = set(&cell, 2);
        assert_eq!(mine + other.join().unwrap(), 1);
    });
}

/// Two tasks need the value: one computes it, and both see it.
#[test]
fn two_tasks_need_the_value() {
    model(3, || {
        let shared = Arc::new((OnceCell::new(), AtomicUsize::new(0)));
        let need = |shared: &(OnceCell<Box<u32>>, AtomicUsize)| {
            let value = block_on(shared.0.get_or_init(|| async {
                shared.1.fetch_add(1, Relaxed);
                Box::new(7)
            }));
            assert_eq!(**value, 7);
        };
        let other = thread::spawn({
            let shared = shared.clone();
            move || need(&shared)
        });
        start();
        need(&shared);
        other.join().unwrap();
        assert_eq!(shared.1.load(Relaxed), 1);
    });
}

/// The initializer is cancelled as another task enqueues itself. Catches an initializer's right
/// that is lost.
#[test]
fn init_is_handed_over() {
    model(4, || {
        let cell = Arc::new(OnceCell::new());
        let other = thread::spawn({
            let cell = cell.clone();
            move || assert_eq!(*block_on(cell.get_or_init(|| async { 7 })), 7)
        });
        start();
        {
            let mut never = pin!(cell.get_or_init(std::future::pending));
            let _ = never.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        }
        other.join().unwrap();
        assert_eq!(cell.get(), Some(&7));
    });
}

/// The waiter that is granted the initializer's right is cancelled at the same time.
#[test]
fn granted_waiter_is_cancelled_too() {
    model(3, || {
        let cell = Arc::new(OnceCell::new());
        let mut cx = Context::from_waker(Waker::noop());
        let mut first = Box::pin(cell.get_or_init(std::future::pending::<u32>));
        let mut second = Box::pin(cell.get_or_init(std::future::pending::<u32>));
        assert!(first.as_mut().poll(&mut cx).is_pending());
        assert!(second.as_mut().poll(&mut cx).is_pending());
        let other = thread::spawn({
            let cell = cell.clone();
            move || assert_eq!(*block_on(cell.get_or_init(|| async { 7 })), 7)
        });
        start();
        drop(first);
        drop(second);
        other.join().unwrap();
        assert!(cell.set(8).is_err_and(|error| error.is_already_init_err()));
    });
}

/// Two tasks meet, twice. Catches two leaders, no leader, and a task that is released a round
/// early.
#[test]
fn two_tasks_meet_twice() {
    model(3, || {
        let shared = Arc::new((Barrier::new(2), AtomicUsize::new(0)));
        let meet = |shared: &(Barrier, AtomicUsize)| {
            let mut led = 0;
            for round in 1..=2 {
                shared.1.fetch_add(1, Relaxed);
                led += usize::from(block_on(shared.0.wait()).is_leader());
                assert!(shared.1.load(Relaxed) >= 2 * round, "released too early");
            }
            led
        };
        let other = thread::spawn({
            let shared = shared.clone();
            move || meet(&shared)
        });
        start();
        let led = meet(&shared);
        assert_eq!(led + other.join().unwrap(), 2, "one leader per round");
    });
}

/// A waiter is dropped as the leader releases it: it counts as arrived.
#[test]
fn waiter_is_dropped_while_others_meet() {
    model(4, || {
        let barrier = Arc::new(Barrier::new(2));
        let leader = thread::spawn({
            let barrier = barrier.clone();
            move || block_on(barrier.wait()).is_leader()
        });
        start();
        let polled = {
            let mut wait = pin!(barrier.wait());
            wait.as_mut().poll(&mut Context::from_waker(Waker::noop()))
        };
        let leads = matches!(polled, Poll::Ready(result) if result.is_leader());
        assert!(leader.join().unwrap() != leads);
    });
}
