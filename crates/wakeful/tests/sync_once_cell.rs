//! `OnceCell`: one task computes the value and the others wait. If it is cancelled, the next one computes it.

use std::cell::Cell;
use std::collections::VecDeque;
use std::future::{pending, poll_fn, ready};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::task::Poll;

use futures::executor;
use wakeful::sync::{OnceCell, SetError};
use wakeful::task::yield_now;

mod support {
    pub mod manual_poll;
    pub mod rng;
    pub mod runtimes;
}
use support::manual_poll::ManualPoll;
use support::rng::{TestRng, seed};
use support::runtimes::{current_thread, multi_thread};

static FULL: OnceCell<&str> = OnceCell::const_new_with("full");
static EMPTY: OnceCell<u32> = OnceCell::const_new();

#[test]
fn a_cell_can_be_static() {
    assert_eq!(FULL.get(), Some(&"full"));
    assert_eq!(EMPTY.get(), None);
    assert_eq!(*executor::block_on(EMPTY.get_or_init(|| ready(3))), 3);
    assert_eq!(*executor::block_on(EMPTY.get_or_init(pending)), 3);
}

#[test]
fn values_come_and_go_with_the_cell() {
    let value = Rc::new(());
    let mut cell = OnceCell::new();
    cell.set(value.clone()).unwrap();
    assert_eq!(Rc::strong_count(&value), 2);
    assert!(cell.get_mut().is_some());
    drop(cell.take());
    assert_eq!(Rc::strong_count(&value), 1);
    assert!(cell.take().is_none() && !cell.initialized() && cell.get_mut().is_none());
    cell.set(value.clone()).unwrap();
    assert_eq!(cell.clone().into_inner().map(|value| Rc::strong_count(&value)), Some(3));
    drop(cell);
    assert_eq!(Rc::strong_count(&value), 1);
}

#[test]
fn the_usual_traits_are_implemented() {
    let cell = OnceCell::from(1);
    assert_eq!(cell, OnceCell::new_with(Some(1)));
    assert_ne!(cell, OnceCell::default());
    assert_eq!(format!("{cell:?}"), "OnceCell { value: Some(1) }");
    let error = cell.set(2).unwrap_err();
    assert_eq!(error, SetError::AlreadyInitializedError(2));
    assert_eq!(error.to_string(), "AlreadyInitializedError");
    assert_eq!(SetError::InitializingError(2).to_string(), "InitializingError");
}

#[test]
fn the_others_wait_and_get_the_same() {
    let cell = OnceCell::new();
    let go = Cell::new(false);
    let compute = || poll_fn(|_| if go.get() { Poll::Ready(Box::new(7)) } else { Poll::Pending });
    let mut first = ManualPoll::pending(cell.get_or_init(compute));
    let mut others: Vec<_> =
        (0..50).map(|_| ManualPoll::pending(cell.get_or_init(|| ready(Box::new(0))))).collect();
    assert!(cell.set(Box::new(1)).unwrap_err().is_initializing_err());
    go.set(true);
    let value = first.ready();
    for other in &mut others {
        assert_eq!((other.take_wakes(), other.wakers()), (1, 0));
        assert!(std::ptr::eq(value, other.ready()));
    }
}

async fn panics_inside() -> Result<u32, &'static str> {
    panic!("inside")
}

#[test]
fn the_next_goes_on_when_one_fails_panics_or_is_dropped() {
    let cell = OnceCell::new();
    let dropped = ManualPoll::pending(cell.get_or_try_init(pending::<Result<u32, &str>>));
    let mut fails = ManualPoll::pending(cell.get_or_try_init(|| ready(Err::<u32, _>("no"))));
    let mut panics = ManualPoll::pending(cell.get_or_try_init(panics_inside));
    let gone = ManualPoll::pending(cell.get_or_try_init(pending::<Result<u32, &str>>));
    let mut works = ManualPoll::pending(cell.get_or_try_init(|| ready(Ok::<_, &str>(7))));
    drop(dropped);
    assert_eq!((fails.take_wakes(), panics.take_wakes()), (1, 0));
    assert_eq!(fails.ready(), Err("no"));
    assert_eq!((panics.take_wakes(), gone.take_wakes()), (1, 0));
    assert!(catch_unwind(AssertUnwindSafe(|| panics.poll())).is_err());
    assert_eq!((gone.take_wakes(), works.take_wakes()), (1, 0));
    drop(gone);
    assert_eq!(works.take_wakes(), 1);
    assert!(cell.set(1).unwrap_err().is_initializing_err(), "the turn is not free for others");
    assert_eq!(works.ready(), Ok(&7));
}

#[test]
fn a_panic_before_the_future_is_there_frees_the_turn_too() {
    let cell = OnceCell::new();
    let call = || executor::block_on(cell.get_or_init(|| -> std::future::Ready<u32> { panic!() }));
    assert!(catch_unwind(AssertUnwindSafe(call)).is_err());
    assert_eq!(cell.set(1), Ok(()));
}

/// The turn to compute the value spends budget. Reading the value spends none.
#[test]
fn the_turn_costs_budget_and_the_value_does_not() {
    let runtime = current_thread();
    runtime.block_on(async {
        let full = OnceCell::from(());
        let spent = wakeful::spawn(async move {
            for _ in 0..1_000 {
                full.get_or_init(pending).await;
            }
            assert!(wakeful::task::coop::has_budget_remaining());
            let empty = OnceCell::<()>::new();
            let mut polls = 0;
            while wakeful::task::coop::has_budget_remaining() {
                let _ = empty.get_or_try_init(|| ready(Err(()))).await;
                polls += 1;
            }
            polls
        });
        assert_eq!(spent.await.unwrap(), 128);
    });
}

/// The state of one call in the naive model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Naive {
    Made,
    Waits,
    Granted,
    Computes,
    Done,
}

#[derive(Default)]
struct Model {
    full: bool,
    taken: bool,
    queue: VecDeque<usize>,
    calls: Vec<Option<Naive>>,
    woken: Vec<usize>,
}

impl Model {
    fn pass_on(&mut self) {
        match self.queue.pop_front() {
            Some(key) => {
                self.calls[key] = Some(Naive::Granted);
                self.woken.push(key);
            }
            None => self.taken = false,
        }
    }

    fn fill(&mut self) {
        (self.full, self.taken) = (true, true);
        self.woken.extend(self.queue.drain(..));
    }

    /// Polls a call of the model. `result` is that of its own computation.
    fn poll(&mut self, key: usize, result: Option<bool>) -> Poll<bool> {
        let stage = self.calls[key].expect("it is there");
        let computes = match stage {
            Naive::Done => unreachable!("polled after completion"),
            Naive::Granted | Naive::Computes => true,
            _ if self.full => {
                self.calls[key] = Some(Naive::Done);
                return Poll::Ready(true);
            }
            Naive::Made => !std::mem::replace(&mut self.taken, true),
            Naive::Waits => false,
        };
        if !computes {
            if stage == Naive::Made {
                self.queue.push_back(key);
            }
            self.calls[key] = Some(Naive::Waits);
            return Poll::Pending;
        }
        self.calls[key] = Some(if result.is_some() { Naive::Done } else { Naive::Computes });
        match result {
            Some(true) => self.fill(),
            Some(false) => self.pass_on(),
            None => return Poll::Pending,
        }
        Poll::Ready(result == Some(true))
    }

    fn drop(&mut self, key: usize) {
        match self.calls[key].take() {
            Some(Naive::Granted | Naive::Computes) => self.pass_on(),
            Some(Naive::Waits) => self.queue.retain(|&other| other != key),
            _ => {}
        }
    }
}

#[test]
fn agrees_with_a_naive_model() {
    let mut rng = TestRng::new(seed());
    for _ in 0..80 {
        let cell = OnceCell::new();
        let mut model = Model::default();
        // The results of the calls' own computations.
        let results: Vec<Cell<Option<bool>>> = (0..100).map(|_| Cell::new(None)).collect();
        let mut calls = Vec::new();
        while calls.len() < results.len() {
            let there: Vec<usize> = (0..calls.len())
                .filter(|&key| !matches!(model.calls[key], None | Some(Naive::Done)))
                .collect();
            let any = (!there.is_empty()).then(|| there[rng.below(there.len().max(1))]);
            match (rng.below(8), any) {
                (0 | 1, _) | (_, None) => {
                    let own = &results[calls.len()];
                    calls.push(Some(ManualPoll::new(cell.get_or_try_init(move || {
                        poll_fn(move |_| match own.get() {
                            None => Poll::Pending,
                            Some(works) => Poll::Ready(works.then_some(()).ok_or(())),
                        })
                    }))));
                    model.calls.push(Some(Naive::Made));
                }
                (2, _) if rng.one_in(60) => {
                    let free = !model.taken;
                    assert_eq!(cell.set(()).is_ok(), free);
                    if free {
                        model.fill();
                    }
                }
                (3, Some(key)) => results[key].set(Some(rng.one_in(12))),
                (4, Some(key)) if rng.one_in(2) => {
                    calls[key] = None;
                    model.drop(key);
                }
                (_, Some(key)) => {
                    let polled = calls[key].as_mut().unwrap().poll();
                    let expected = model.poll(key, results[key].get());
                    assert_eq!(polled.map(|result| result.is_ok()), expected);
                }
            }
            assert_eq!(cell.initialized(), model.full);
            for (key, call) in calls.iter().enumerate() {
                let Some(call) = call else { continue };
                assert_eq!(call.take_wakes(), usize::from(model.woken.contains(&key)), "of {key}");
                let waits = model.calls[key] == Some(Naive::Waits) && !model.full;
                assert_eq!(call.wakers(), usize::from(waits), "wakers of {key}");
            }
            model.woken.clear();
        }
    }
}

/// Many tasks need the value, and some are cancelled. The value is computed once.
#[test]
fn threads_share_one_value() {
    let runtime = multi_thread(2);
    for round in 0..200 {
        let shared = Arc::new((OnceCell::new(), AtomicUsize::new(0)));
        let tasks: Vec<_> = (0..8)
            .map(|number| {
                let shared = shared.clone();
                runtime.spawn(async move {
                    let (cell, computed) = &*shared;
                    let compute = || async {
                        yield_now().await;
                        if number == 0 {
                            return Err(());
                        }
                        computed.fetch_add(1, SeqCst);
                        Ok(round)
                    };
                    cell.get_or_try_init(compute).await.copied()
                })
            })
            .collect();
        tasks[1].abort();
        for (number, task) in tasks.into_iter().enumerate() {
            match runtime.block_on(task) {
                Ok(Ok(value)) => assert_eq!(value, round),
                Ok(Err(())) => assert_eq!(number, 0),
                Err(error) => assert!(error.is_cancelled() && number == 1),
            }
        }
        assert!(shared.0.initialized());
        assert_eq!(shared.1.load(SeqCst), 1);
    }
}
