//! Local sets are nested, polled by hand and by runtimes, and dropped out of order, while other threads wake their tasks.
//! Oracle: futures are dropped once and on their own thread, and join handles resolve.

use std::cell::RefCell;
use std::pin::pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use std::thread::{self, ThreadId};
use std::time::Duration;

use futures::executor;
use wakeful::runtime::Runtime;
use wakeful::task::{JoinHandle, LocalEnterGuard, LocalSet, spawn_local, yield_now};
use wakeful::time::sleep;

use super::rng::TestRng;
use super::round::{Guard, Round, WakerStore, lock, quiet_panic, returns};

/// A value that records a drop on any thread except its first.
struct Pinned {
    thread: ThreadId,
    _guard: Guard,
}

impl Drop for Pinned {
    fn drop(&mut self) {
        if thread::current().id() != self.thread {
            eprintln!("a future of a local set was dropped on another thread");
            std::process::abort();
        }
    }
}

/// Sets that tasks may poll, spawn on and drop. A task may drop the set that it is in.
type Sets = Rc<RefCell<Vec<Rc<LocalSet>>>>;

struct Local<'a> {
    round: &'a mut Round,
    sets: Sets,
    wakers: WakerStore,
    joins: Vec<JoinHandle<()>>,
}

fn some_set(sets: &Sets, rng: &mut TestRng) -> Option<Rc<LocalSet>> {
    let sets = sets.borrow();
    if sets.is_empty() { None } else { Some(sets[rng.below(sets.len())].clone()) }
}

fn take_set(sets: &Sets, rng: &mut TestRng) -> Option<Rc<LocalSet>> {
    let mut sets = sets.borrow_mut();
    let len = sets.len();
    (len > 0).then(|| sets.swap_remove(rng.below(len)))
}

fn poll_set(set: &LocalSet) {
    let mut until = pin!(set.run_until(yield_now()));
    _ = until.as_mut().poll(&mut Context::from_waker(Waker::noop()));
}

impl Local<'_> {
    fn spawn(&mut self, set: &LocalSet) {
        let pinned = Pinned { thread: thread::current().id(), _guard: self.round.drops.guard() };
        let (sets, wakers) = (self.sets.clone(), self.wakers.clone());
        let mut rng = self.round.rng.branch();
        let task = async move {
            let _pinned = pinned;
            for _ in 0..rng.below(4) {
                match rng.below(8) {
                    0 => wakers.wait().await,
                    1 => sleep(Duration::from_micros(30)).await,
                    2 => drop(take_set(&sets, &mut rng)),
                    3 => {
                        if let Some(set) = some_set(&sets, &mut rng) {
                            set.run_until(yield_now()).await;
                        }
                    }
                    4 => drop(spawn_local(yield_now())),
                    5 if rng.one_in(4) => quiet_panic(),
                    6 => {
                        // A set inside a task, which is dropped with the task.
                        let inner = LocalSet::new();
                        let wakers = wakers.clone();
                        inner.spawn_local(async move { wakers.wait().await });
                        inner.run_until(yield_now()).await;
                    }
                    _ => yield_now().await,
                }
            }
        };
        self.joins.push(set.spawn_local(task));
    }

    fn act(&mut self, runtime: &Runtime, entered: &mut Vec<LocalEnterGuard>) {
        let Some(set) = some_set(&self.sets, &mut self.round.rng) else { return };
        match self.round.rng.below(8) {
            0 | 1 => self.spawn(&set),
            2 => entered.push(set.enter()),
            3 if !entered.is_empty() => {
                drop(entered.swap_remove(self.round.rng.below(entered.len())))
            }
            4 => _ = returns(|| poll_set(&set)),
            5 => _ = returns(|| set.block_on(runtime, yield_now())),
            6 => drop(take_set(&self.sets, &mut self.round.rng)),
            _ => {
                // The future is polled, then dropped before its end.
                let mut until = Box::pin(set.run_until(std::future::pending::<()>()));
                let poll =
                    std::future::poll_fn(|cx| Poll::Ready(until.as_mut().poll(cx).is_ready()));
                returns(|| _ = runtime.block_on(poll));
            }
        }
    }
}

pub fn round(round: &mut Round) {
    let runtime = round.runtime();
    let wakers = WakerStore::default();
    let stop = std::sync::Arc::new(std::sync::Mutex::new(false));
    let waking = {
        let (wakers, stop) = (wakers.clone(), stop.clone());
        thread::spawn(move || {
            while !*lock(&stop) {
                wakers.wake_all();
                thread::yield_now();
            }
        })
    };
    let sets: Sets = Rc::default();
    let count = 2 + round.rng.below(6);
    round.count("sets", count);
    sets.borrow_mut().extend((0..count).map(|_| Rc::new(LocalSet::new())));
    let mut entered = Vec::new();
    let mut local = Local { round, sets: sets.clone(), wakers, joins: Vec::new() };
    {
        // A task polled by hand may use timers.
        let _runtime = runtime.enter();
        for _ in 0..30 {
            local.act(&runtime, &mut entered);
        }
    }
    let Local { round, wakers, joins, .. } = local;
    let mut runtime = Some(runtime);
    if round.rng.one_in(2) {
        round.end(runtime.take().unwrap());
    }
    while let Some(set) = take_set(&sets, &mut round.rng) {
        returns(|| drop(set));
    }
    while !entered.is_empty() {
        drop(entered.swap_remove(round.rng.below(entered.len())));
    }
    *lock(&stop) = true;
    waking.join().unwrap();
    round.count("tasks", joins.len());
    // Every set is gone, so every task has ended.
    joins.into_iter().for_each(|join| drop(executor::block_on(join)));
    drop(wakers.take());
    if let Some(runtime) = runtime {
        round.end(runtime);
    }
}
