//! The branches behind `select!`, and [`Select`], the future that polls them.
//!
//! Where the winner's output is found in [`Selected`] mirrors where the branch stands: `Here(output)`,
//! `Later(Here(output))`, …, and `Later(Later(AllDisabled))` at the end. Each branch's own closure puts an output there
//! in one step.
//!
//! A branch is *disabled* when its precondition was false, and as soon as its future has finished: so a future is never
//! polled after its end, even if its output did not fit. One bit per branch says so.
//!
//! Each poll makes at most two walks over the list, front to back: the first polls the enabled branches from a random one
//! to the end, the second those before it. That is a rotation, without an index to dispatch on.

use core::ops::ControlFlow;
use core::pin::Pin;
use core::task::{Context, Poll, ready};

use pin_project_lite::pin_project;

use super::list::{List, Visit};
use super::support::{poll_budget_available, thread_rng_n};

/// What a [`Select`] found: the output of the first branch of the list, or something further on.
pub enum Selected<T, Rest> {
    /// This branch won.
    Here(T),
    /// A later one did.
    Later(Rest),
}

/// What a [`Select`] found past its last branch: nobody was left to wait for.
pub struct AllDisabled;

/// Which branches start out enabled: collects the conditions in the order of the branches.
pub struct Preconditions {
    /// One bit for each branch that is disabled.
    disabled: u64,
    /// The bit of the branch whose condition comes next.
    next: u64,
}

impl Preconditions {
    /// Nothing collected yet.
    #[inline]
    #[allow(clippy::new_without_default)]
    pub fn new() -> Self {
        Preconditions { disabled: 0, next: 1 }
    }

    /// Notes the condition of the next branch. By value: what was borrowed before an `.await` is kept across it.
    #[inline]
    pub fn and(self, enabled: bool) -> Self {
        let disabled = if enabled { self.disabled } else { self.disabled | self.next };
        Preconditions { disabled, next: self.next << 1 }
    }
}

pin_project! {
    /// One branch of a `select!`.
    pub struct Branch<F, Pick> {
        #[pin]
        future: F,
        // Gives an output that fits the pattern its place in what the `select!` found, or drops it.
        pick: Pick,
    }
}

impl<F: Future, Pick> Branch<F, Pick> {
    /// A branch that waits for `future`.
    ///
    /// `pick` takes an `Option`, always `Some`, so that a future that never says what it returns has an output type all
    /// the same: in the closure the output meets a value of type `!`.
    #[inline]
    pub fn new<G, Out>(future: G, pick: Pick) -> Self
    where
        G: IntoFuture<IntoFuture = F, Output = F::Output>,
        Pick: Fn(Option<G::Output>) -> Option<Out>,
    {
        Branch { future: future.into_future(), pick }
    }
}

/// One walk over the branches, front to back. `Break`s off when one has won.
pub struct Walk<'a, 'cx, Out> {
    /// The bit of the branch that comes next.
    bit: u64,
    /// The branches to poll, one bit each. A branch's bit is cleared when its future has finished.
    enabled: u64,
    /// Whether a branch is still waiting.
    pending: bool,
    /// What the winner gave.
    found: Option<Out>,
    cx: &'a mut Context<'cx>,
}

impl<F, Pick, Out> Visit<Branch<F, Pick>> for Walk<'_, '_, Out>
where
    F: Future,
    Pick: Fn(Option<F::Output>) -> Option<Out>,
{
    #[inline]
    fn visit(&mut self, branch: Pin<&mut Branch<F, Pick>>) -> ControlFlow<()> {
        let bit = self.bit;
        self.bit <<= 1;
        if self.enabled & bit == 0 {
            return ControlFlow::Continue(());
        }
        let branch = branch.project();
        match branch.future.poll(self.cx) {
            Poll::Pending => self.pending = true,
            Poll::Ready(output) => {
                self.enabled &= !bit;
                self.found = (branch.pick)(Some(output));
                if self.found.is_some() {
                    return ControlFlow::Break(());
                }
            }
        }
        ControlFlow::Continue(())
    }
}

/// A list of [`Branch`]es whose winner is found in an `Out`.
pub trait Branches<Out>: for<'a, 'cx> List<Walk<'a, 'cx, Out>> {}

impl<L, Out> Branches<Out> for L where L: for<'a, 'cx> List<Walk<'a, 'cx, Out>> {}

pin_project! {
    /// Polls a list of branches until one wins.
    #[must_use = "futures do nothing unless polled"]
    pub struct Select<L, End> {
        #[pin]
        branches: L,
        // Says that no branch is left.
        all_disabled: End,
        // One bit for each branch that must not be polled (again).
        disabled: u64,
        // Whether each poll starts at the first branch rather than at a random one.
        biased: bool,
    }
}

impl<L, End> Select<L, End> {
    /// Waits for the first of `branches`.
    #[inline]
    pub fn new<Out>(
        biased: bool,
        preconditions: Preconditions,
        branches: L,
        all_disabled: End,
    ) -> Self
    where
        L: Branches<Out>,
        End: Fn() -> Out,
    {
        const {
            assert!(L::LEN <= 64, "select! takes up to 64 branches; for more, use a JoinSet");
        }
        Select { branches, all_disabled, disabled: preconditions.disabled, biased }
    }
}

impl<L, End, Out> Future for Select<L, End>
where
    L: Branches<Out>,
    End: Fn() -> Out,
{
    type Output = Out;

    #[inline]
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Out> {
        // Without budget the futures that honour it would all refuse, leaving the choice to those that do not.
        ready!(poll_budget_available(cx));

        let mut me = self.project();
        let first = match *me.biased || L::LEN == 1 {
            true => 0,
            false => thread_rng_n(L::LEN),
        };
        debug_assert!(first < L::LEN, "the random branch must be one of ours");

        let before_first = (1u64 << first) - 1;
        let mut pending = false;
        for part in [!before_first, before_first] {
            let enabled = part & !*me.disabled;
            if enabled == 0 {
                continue;
            }
            let mut walk = Walk { bit: 1, enabled, pending: false, found: None, cx };
            let _ = me.branches.as_mut().visit_all(&mut walk);
            *me.disabled |= part & !walk.enabled;
            pending |= walk.pending;
            if let Some(output) = walk.found {
                return Poll::Ready(output);
            }
        }
        match pending {
            true => Poll::Pending,
            false => Poll::Ready((me.all_disabled)()),
        }
    }
}
