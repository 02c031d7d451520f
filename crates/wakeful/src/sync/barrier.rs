//! A place where tasks wait until a number of them are there.
//!
//! Actors: the one who arrives last is the *leader*; it lets the others go.
//!
//! Rules:
//! - G1. `arrived` and `generation` are touched under the list's lock. The leader
//!   counts the generation up in the same hold in which it arrives.
//! - G2. A waiter asks with the generation it arrived in. If it is not the
//!   list's, the waiter is let go: the leader does so batch by batch, and those
//!   who arrive for the next round meanwhile stand behind.

use crate::task::coop;
use crate::task::wait_kind::WaitKind;
use crate::wait;
use crate::wait::list::{Grant, Waiter, WaiterState, Waiters};
use std::fmt;
use std::panic::{Location, RefUnwindSafe, UnwindSafe};
use std::pin::Pin;
use std::task::{Context, Poll, Waker, ready};

/// Lets tasks go on together, as soon as a number of them have arrived; then the
/// next round begins.
///
/// # Memory ordering
///
/// What a task did before it arrived is seen by all once they are let go.
///
/// # Examples
///
/// ```
/// use std::sync::Arc;
/// use wakeful::sync::Barrier;
///
/// # #[wakeful::main(flavor = "current_thread")]
/// # async fn main() {
/// let start = Arc::new(Barrier::new(3));
/// let runners: Vec<_> = (0..3)
///     .map(|_| {
///         let start = start.clone();
///         wakeful::spawn(async move { start.wait().await.is_leader() })
///     })
///     .collect();
/// let mut leaders = 0;
/// for runner in runners {
///     leaders += usize::from(runner.await.unwrap());
/// }
/// assert_eq!(leaders, 1);
/// # }
/// ```
pub struct Barrier {
    /// How many have to arrive; at least 1.
    n: usize,
    waiters: Waiters<Round, u64>,
}

struct Round {
    /// Who is there, or was when its future was dropped.
    arrived: usize,
    generation: u64,
}

/// What it means for a task that it has arrived.
#[must_use]
enum Arrival {
    /// It was the last: it has to let the others go.
    Leads,
    /// It waits for the others.
    Waits,
}

impl Barrier {
    /// A barrier for `n` tasks. With 0 it lets every task pass, as with 1.
    #[track_caller]
    pub fn new(n: usize) -> Barrier {
        Barrier { n: n.max(1), waiters: Waiters::new(Round { arrived: 0, generation: 0 }) }
    }

    /// Waits until as many have arrived as the barrier is for.
    ///
    /// The task counts as arrived from the first poll. One task of each round is
    /// told that it is the leader: here the one that arrived last.
    ///
    /// # Cancel safety
    ///
    /// Not cancel safe: if the future is dropped after it was polled, the task
    /// still counts as arrived, and the round ends without it.
    #[track_caller]
    pub fn wait(&self) -> impl Future<Output = BarrierWaitResult> {
        let site = Location::caller();
        Wait { barrier: self, stage: Stage::Made, site, waiter: Waiter::new() }
    }

    fn arrive(&self, waiter: Pin<&Waiter<u64>>, waker: Waker) -> Arrival {
        // What is left of it is dropped after the lock.
        let mut waker = Some(waker);
        let arrival = self.waiters.with(|list| {
            list.arrived += 1;
            if list.arrived == self.n {
                list.arrived = 0;
                list.generation += 1;
                return Arrival::Leads;
            }
            let generation = list.generation;
            list.push_back(waiter, generation, waker.take());
            Arrival::Waits
        });
        if let Arrival::Leads = arrival {
            // G2.
            self.waiters.grant_while(Grant::All, |round, asked| *asked != round.generation);
        }
        arrival
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// Not polled yet.
    Made,
    /// Has arrived.
    Waits,
    /// Was let go.
    Done,
}

pin_project_lite::pin_project! {
    struct Wait<'a> {
        barrier: &'a Barrier,
        stage: Stage,
        site: &'static Location<'static>,
        #[pin]
        waiter: Waiter<u64>,
    }

    impl PinnedDrop for Wait<'_> {
        fn drop(this: Pin<&mut Self>) {
            let this = this.project();
            // It still counts as arrived.
            this.barrier.waiters.cancel(this.waiter.as_ref());
        }
    }
}

impl Future for Wait<'_> {
    type Output = BarrierWaitResult;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<BarrierWaitResult> {
        let this = self.project();
        let (barrier, waiter) = (*this.barrier, this.waiter.as_ref());
        let waits = match *this.stage {
            Stage::Done => panic!("`Barrier::wait` polled after completion"),
            Stage::Made => {
                let waker = cx.waker().clone();
                *this.stage = Stage::Waits;
                match barrier.arrive(waiter, waker) {
                    Arrival::Leads => {
                        *this.stage = Stage::Done;
                        return Poll::Ready(BarrierWaitResult(true));
                    }
                    Arrival::Waits => true,
                }
            }
            Stage::Waits => {
                barrier.waiters.update_waker(waiter, cx.waker()) == WaiterState::Waiting
            }
        };
        if waits {
            wait::record_wait(WaitKind::Barrier, barrier, this.site);
            return Poll::Pending;
        }
        let progress = ready!(coop::poll_proceed(cx));
        progress.made_progress();
        *this.stage = Stage::Done;
        Poll::Ready(BarrierWaitResult(false))
    }
}

impl UnwindSafe for Barrier {}
impl RefUnwindSafe for Barrier {}

impl fmt::Debug for Barrier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let arrived = self.waiters.with(|list| list.arrived);
        f.debug_struct("Barrier").field("n", &self.n).field("arrived", &arrived).finish()
    }
}

/// What [`Barrier::wait`] gives to a task that is let go.
#[derive(Debug, Clone)]
pub struct BarrierWaitResult(bool);

impl BarrierWaitResult {
    /// Whether this task is the one leader of its round.
    pub fn is_leader(&self) -> bool {
        self.0
    }
}
