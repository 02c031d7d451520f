//! A barrier, at which tasks wait until a given number of them have arrived.
//!
//! Actors: the *leader* is the task that arrives last in a round. It releases the others.
//!
//! Rules:
//! - BARRIER-1. `arrived` and `generation` are accessed under the list's lock. The leader
//!   increments the generation in the critical section in which it arrives.
//! - BARRIER-2. Each entry holds the generation in which its waiter arrived. Once that differs from
//!   the list's generation, the leader releases the waiter, batch by batch. Tasks that arrive
//!   meanwhile for the next round are behind it in the list.

use crate::task::wait_kind::WaitKind;
use crate::task::wait_target::TargetWord;
use crate::task::{context, coop};
use crate::wait;
use crate::wait::describe::describe_wait;
use crate::wait::list::{Grant, Waiter, WaiterState, Waiters};
use crate::wait::ownership::resource_record::RecordCell;
use crate::wait::ownership::stall_note::Stall;
use std::fmt;
use std::panic::{Location, RefUnwindSafe, UnwindSafe};
use std::pin::Pin;
use std::task::{Context, Poll, Waker, ready};

/// A barrier, at which tasks wait until a given number of them have arrived.
///
/// After a round the barrier can be used again: the next task that arrives begins a new round.
///
/// # Memory ordering
///
/// Everything that a task did before it arrived happens before everything that the tasks do after
/// the barrier.
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
    /// The number of tasks in a round; at least 1.
    n: usize,
    waiters: Waiters<Round, u64>,
    created_at: &'static Location<'static>,
    /// For diagnostics. Kept apart from the list, so waits are not linked to the record.
    record: RecordCell,
}

struct Round {
    /// Tasks that have arrived in this round, including those whose future was dropped since.
    arrived: usize,
    generation: u64,
    /// Whether a future of this round was dropped while it waited.
    is_abandoned: bool,
}

/// The next step of the arriving task.
#[must_use]
enum Arrival {
    /// The task arrived last: it releases the others.
    Leader,
    /// The task waits for the others.
    Waiter,
}

impl Barrier {
    /// Creates a barrier for `n` tasks.
    ///
    /// With `n` = 0 every task passes immediately, as with `n` = 1.
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::sync::Barrier;
    ///
    /// # #[wakeful::main(flavor = "current_thread")]
    /// # async fn main() {
    /// let barrier = Barrier::new(1);
    /// assert!(barrier.wait().await.is_leader());
    /// # }
    /// ```
    #[track_caller]
    pub fn new(n: usize) -> Barrier {
        let waiters = Waiters::new(Round { arrived: 0, generation: 0, is_abandoned: false });
        let (created_at, record) = (Location::caller(), RecordCell::none());
        Barrier { n: n.max(1), waiters, created_at, record }
    }

    /// Waits until all tasks of the round have arrived.
    ///
    /// The task counts as arrived from the first poll of the future. The task that arrives last is
    /// the leader of the round.
    ///
    /// # Cancel safety
    ///
    /// This method is not cancel safe. If the future is dropped after it was polled, its task still
    /// counts as arrived, and the round ends without it.
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::sync::Barrier;
    ///
    /// # #[wakeful::main(flavor = "current_thread")]
    /// # async fn main() {
    /// let barrier = Barrier::new(2);
    /// let (first, second) = wakeful::join!(barrier.wait(), barrier.wait());
    /// assert!(!first.is_leader());
    /// assert!(second.is_leader());
    /// # }
    /// ```
    #[track_caller]
    pub fn wait(&self) -> impl Future<Output = BarrierWaitResult> {
        let site = Location::caller();
        Wait { barrier: self, stage: Stage::Created, site, waiter: Waiter::new() }
    }

    /// Describes the round in the report of a task that waits forever.
    fn describe(&self) -> String {
        let arrived = self.waiters.with(|list| list.arrived);
        let have = if arrived == 1 { "has" } else { "have" };
        format!("{arrived} of {} tasks {have} arrived", self.n)
    }

    /// Records that a task no longer waits in this round. Its wait record may still name the barrier,
    /// so no wait of the round is reported as stalled.
    fn abandon(&self) {
        self.waiters.with(|list| {
            list.is_abandoned = list.arrived > 0;
            if let Some(record) = self.record.get() {
                record.stall.clear();
            }
        });
    }

    fn arrive(&self, waiter: Pin<&Waiter<u64>>, waker: Waker) -> Arrival {
        // A waker that was not queued is dropped after the list's lock is released.
        let mut waker = Some(waker);
        let arrival = self.waiters.with(|list| {
            list.arrived += 1;
            if list.arrived == self.n {
                list.arrived = 0;
                list.is_abandoned = false;
                list.generation += 1;
                return Arrival::Leader;
            }
            let (generation, arrived) = (list.generation, list.arrived as u64);
            let note = &self.record.obtain().stall;
            match note.is_set() {
                _ if list.is_abandoned => {}
                true => note.set_count(arrived),
                false => {
                    let (total, created_at) = (self.n as u64, Some(self.created_at));
                    note.set(Stall { task: 0, count: arrived, total, created_at });
                }
            }
            list.push_back(waiter, generation, waker.take());
            Arrival::Waiter
        });
        if let Arrival::Leader = arrival {
            // BARRIER-2.
            self.waiters
                .grant_while(Grant::All, |round, generation| *generation != round.generation);
        }
        arrival
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// Not polled yet.
    Created,
    /// Arrived, and not released yet.
    Waiting,
    /// Released.
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
            // The task still counts as arrived.
            if this.barrier.waiters.cancel(this.waiter.as_ref()) == WaiterState::Waiting {
                this.barrier.abandon();
            }
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
            Stage::Created => {
                let waker = cx.waker().clone();
                *this.stage = Stage::Waiting;
                match barrier.arrive(waiter, waker) {
                    Arrival::Leader => {
                        *this.stage = Stage::Done;
                        return Poll::Ready(BarrierWaitResult(true));
                    }
                    Arrival::Waiter => true,
                }
            }
            Stage::Waiting => {
                let waits =
                    barrier.waiters.update_waker(waiter, cx.waker()) == WaiterState::Waiting;
                if waits {
                    describe_wait(|| barrier.describe());
                }
                waits
            }
        };
        if waits {
            let target = match context::is_own_waker(cx.waker()) {
                true => barrier.record.target(barrier),
                false => TargetWord::of_address(barrier),
            };
            wait::record_wait_for_target(WaitKind::Barrier, target, this.site);
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

/// The result of [`Barrier::wait`], which identifies the leader of the round.
///
/// # Examples
///
/// ```
/// use wakeful::sync::Barrier;
///
/// # #[wakeful::main(flavor = "current_thread")]
/// # async fn main() {
/// let barrier = Barrier::new(1);
/// if barrier.wait().await.is_leader() {
///     println!("one task of the round prints this");
/// }
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct BarrierWaitResult(bool);

impl BarrierWaitResult {
    /// Returns true for one task of each round, the leader.
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::sync::Barrier;
    ///
    /// # #[wakeful::main(flavor = "current_thread")]
    /// # async fn main() {
    /// assert!(Barrier::new(1).wait().await.is_leader());
    /// # }
    /// ```
    pub fn is_leader(&self) -> bool {
        self.0
    }
}
