//! `SetOnce`: a value that is set once, for all waiting tasks and all later calls.

use std::rc::Rc;
use std::sync::Arc;
use std::thread;

use futures::executor;
use wakeful::sync::{SetOnce, SetOnceError};

mod support {
    pub mod manual_poll;
    pub mod rng;
    pub mod runtimes;
}
use support::manual_poll::ManualPoll;
use support::rng::{TestRng, seed};
use support::runtimes::runtimes;

static FULL: SetOnce<&str> = SetOnce::const_new_with("full");
static EMPTY: SetOnce<u32> = SetOnce::const_new();

#[test]
fn a_cell_can_be_static() {
    assert_eq!(*executor::block_on(FULL.wait()), "full");
    let waits = thread::spawn(|| *executor::block_on(EMPTY.wait()));
    EMPTY.set(3).unwrap();
    assert_eq!(waits.join().unwrap(), 3);
}

#[test]
fn values_come_and_go_with_the_cell() {
    let value = Rc::new(());
    let cell = SetOnce::new();
    cell.set(value.clone()).unwrap();
    assert_eq!(Rc::strong_count(&value), 2);
    let refused = cell.set(value.clone()).unwrap_err();
    assert_eq!(Rc::strong_count(&refused.0), 3);
    drop((refused, cell));
    assert_eq!(Rc::strong_count(&value), 1);
    assert_eq!(SetOnce::from(value).into_inner().map(|value| Rc::strong_count(&value)), Some(1));
    assert_eq!(SetOnce::<u32>::new().into_inner(), None);
}

#[test]
fn the_usual_traits_are_implemented() {
    let cell = SetOnce::from(1);
    assert_eq!(cell, SetOnce::new_with(Some(1)));
    assert_eq!(cell.clone(), cell);
    assert_ne!(cell, SetOnce::default());
    assert_eq!(format!("{cell:?}"), "SetOnce { value: Some(1) }");
    let error = cell.set(2).unwrap_err();
    assert_eq!(error, SetOnceError(2));
    assert_eq!(error.to_string(), "SetOnceError");
}

#[test]
fn waits_by_any_number_are_dropped_or_woken() {
    let mut rng = TestRng::new(seed());
    for _ in 0..100 {
        let cell = SetOnce::new();
        let mut waits: Vec<_> = (0..rng.below(200)).map(|_| ManualPoll::new(cell.wait())).collect();
        for wait in &mut waits {
            if rng.one_in(2) {
                assert!(wait.poll().is_pending());
                assert_eq!(wait.wakers(), 1);
            }
        }
        waits.retain(|_| !rng.one_in(5));
        let polled: Vec<bool> = waits.iter().map(|wait| wait.wakers() == 1).collect();
        cell.set(7).unwrap();
        for (wait, polled) in waits.iter_mut().zip(polled) {
            assert_eq!((wait.take_wakes(), wait.wakers()), (usize::from(polled), 0));
            assert_eq!(*wait.ready(), 7);
        }
    }
}

#[test]
fn another_task_may_go_on_polling() {
    let cell = SetOnce::new();
    let mut wait = ManualPoll::pending(cell.wait());
    let other = ManualPoll::new(std::future::pending::<()>());
    assert!(wait.poll_with(&other.wake_count().into()).is_pending());
    cell.set(()).unwrap();
    assert_eq!((wait.take_wakes(), other.take_wakes()), (0, 1));
    wait.ready();
}

#[test]
fn one_of_many_sets_the_value_and_all_see_it() {
    for runtime in runtimes() {
        for _ in 0..50 {
            let cell = Arc::new(SetOnce::new());
            let waits: Vec<_> = (0..10)
                .map(|_| {
                    let cell = cell.clone();
                    runtime.spawn(async move { *cell.wait().await })
                })
                .collect();
            let setters: Vec<_> = (0..4)
                .map(|number| {
                    let cell = cell.clone();
                    runtime.spawn(async move { cell.set(number).is_ok().then_some(number) })
                })
                .collect();
            runtime.block_on(async {
                let mut set = Vec::new();
                for setter in setters {
                    set.extend(setter.await.unwrap());
                }
                assert_eq!(set.len(), 1, "one of them");
                for wait in waits {
                    assert_eq!(wait.await.unwrap(), set[0]);
                }
            });
        }
    }
}
