//! The branches of `select!`, and [`Select`], the future that polls them.
//!
//! The position of the winner's output in [`Selected`] mirrors the position of its branch in the
//! list: `Here(output)`, `Later(Here(output))`, and so on. The end is `Later(Later(AllDisabled))`.
//! The matcher closure of each branch wraps its output in one step.
//!
//! A branch is *disabled* if its precondition was false, or once its future has completed. So a
//! future is never polled after completion, even if its output did not match the pattern. One bit
//! per branch records this.
//!
//! Fairness: each poll makes at most two passes over the list, front to back. The first pass polls
//! the enabled branches from a random one to the end, the second those before it. This rotates the
//! start without dispatching on an index.

use core::ops::ControlFlow;
use core::pin::Pin;
use core::task::{Context, Poll, ready};

use pin_project_lite::pin_project;

use super::list::{List, Visit};
use super::support::{branch_won, last_final_result, poll_budget_available, thread_rng_n};

/// The result of a [`Select`]: the output of the list's first branch, or the result of the rest.
pub enum Selected<T, Rest> {
    /// The first branch won.
    Here(T),
    /// A later branch won, or all are disabled.
    Later(Rest),
}

/// The result of a [`Select`] without enabled branches; terminates the list of results.
pub struct AllDisabled;

/// Collects the preconditions in the order of the branches.
pub struct Preconditions {
    /// One bit for each disabled branch.
    disabled: u64,
    /// The bit of the next branch.
    next: u64,
}

impl Preconditions {
    /// Creates an empty set of preconditions.
    #[inline]
    #[allow(clippy::new_without_default)]
    pub fn new() -> Self {
        Preconditions { disabled: 0, next: 1 }
    }

    /// Records the precondition of the next branch.
    ///
    /// Takes `self` by value: a value that was borrowed before an `.await` is kept in the future
    /// across it.
    #[inline]
    pub fn and(self, enabled: bool) -> Self {
        let disabled = if enabled { self.disabled } else { self.disabled | self.next };
        Preconditions { disabled, next: self.next << 1 }
    }
}

pin_project! {
    /// One branch of a `select!`.
    pub struct Branch<F, Matcher> {
        #[pin]
        future: F,
        // Wraps an output that matches the pattern at its position in `Selected`; drops any other.
        matcher: Matcher,
    }
}

impl<F: Future, Matcher> Branch<F, Matcher> {
    /// Creates a branch that waits for `future`.
    ///
    /// `matcher` takes an `Option` that is always `Some`. This gives a type to the output of a
    /// future that never returns: in the closure it is unified with a value of type `!`.
    #[inline]
    pub fn new<G, Out>(future: G, matcher: Matcher) -> Self
    where
        G: IntoFuture<IntoFuture = F, Output = F::Output>,
        Matcher: Fn(Option<G::Output>) -> Option<Out>,
    {
        Branch { future: future.into_future(), matcher }
    }
}

/// A visitor that polls the enabled branches and breaks when one has won.
pub struct PollBranches<'a, 'cx, Out> {
    /// The bit of the next branch.
    bit: u64,
    /// One bit for each branch to poll; cleared when its future completes.
    enabled: u64,
    /// Whether a branch is still pending.
    pending: bool,
    /// The wrapped output of the winner.
    found: Option<Out>,
    cx: &'a mut Context<'cx>,
}

impl<F, Matcher, Out> Visit<Branch<F, Matcher>> for PollBranches<'_, '_, Out>
where
    F: Future,
    Matcher: Fn(Option<F::Output>) -> Option<Out>,
{
    #[inline]
    fn visit(&mut self, branch: Pin<&mut Branch<F, Matcher>>) -> ControlFlow<()> {
        let bit = self.bit;
        self.bit <<= 1;
        if self.enabled & bit == 0 {
            return ControlFlow::Continue(());
        }
        let branch = branch.project();
        let before = last_final_result();
        match branch.future.poll(self.cx) {
            Poll::Pending => self.pending = true,
            Poll::Ready(output) => {
                self.enabled &= !bit;
                self.found = (branch.matcher)(Some(output));
                if self.found.is_some() {
                    branch_won(before);
                    return ControlFlow::Break(());
                }
            }
        }
        ControlFlow::Continue(())
    }
}

/// A list of [`Branch`]es whose winner's output is wrapped in an `Out`.
pub trait BranchList<Out>: for<'a, 'cx> List<PollBranches<'a, 'cx, Out>> {}

impl<L, Out> BranchList<Out> for L where L: for<'a, 'cx> List<PollBranches<'a, 'cx, Out>> {}

pin_project! {
    /// A future that polls a list of branches until one wins.
    #[must_use = "futures do nothing unless polled"]
    pub struct Select<L, OnAllDisabled> {
        #[pin]
        branches: L,
        // Creates the result to return if all branches are disabled.
        all_disabled: OnAllDisabled,
        // One bit for each branch that must not be polled (again).
        disabled: u64,
        // Whether each poll starts with the first branch instead of a random one.
        biased: bool,
    }
}

impl<L, OnAllDisabled> Select<L, OnAllDisabled> {
    /// Creates a future that waits for the first of `branches` whose output matches its pattern.
    #[inline]
    pub fn new<Out>(
        biased: bool,
        preconditions: Preconditions,
        branches: L,
        all_disabled: OnAllDisabled,
    ) -> Self
    where
        L: BranchList<Out>,
        OnAllDisabled: Fn() -> Out,
    {
        const {
            assert!(L::LEN <= 64, "select! takes up to 64 branches; for more, use a JoinSet");
        }
        Select { branches, all_disabled, disabled: preconditions.disabled, biased }
    }
}

impl<L, OnAllDisabled, Out> Future for Select<L, OnAllDisabled>
where
    L: BranchList<Out>,
    OnAllDisabled: Fn() -> Out,
{
    type Output = Out;

    #[inline]
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Out> {
        // Without budget, the futures that honor the budget would all be pending, and those that
        // ignore it would always win.
        ready!(poll_budget_available(cx));

        let mut me = self.project();
        let first = match *me.biased || L::LEN == 1 {
            true => 0,
            false => thread_rng_n(L::LEN),
        };
        debug_assert!(first < L::LEN, "the random branch must be in the list");

        let before_first = (1u64 << first) - 1;
        let mut pending = false;
        for part in [!before_first, before_first] {
            let enabled = part & !*me.disabled;
            if enabled == 0 {
                continue;
            }
            let mut pass = PollBranches { bit: 1, enabled, pending: false, found: None, cx };
            let _ = me.branches.as_mut().visit_all(&mut pass);
            *me.disabled |= part & !pass.enabled;
            pending |= pass.pending;
            if let Some(output) = pass.found {
                return Poll::Ready(output);
            }
        }
        match pending {
            true => Poll::Pending,
            false => Poll::Ready((me.all_disabled)()),
        }
    }
}
