//! The list of branches behind `select!`, and [`Select`], the future that polls it.
//!
//! A list is `Branch<A, _, Branch<B, _, NoBranch>>`; where the winner's output is found in [`Selected`] mirrors where the
//! branch stands in the list: `Here(output)`, `Later(Here(output))`, …, and `Later(Later(AllDisabled))` at the end.
//!
//! A branch is *disabled* when its precondition was false, and as soon as its future has finished: so a future is never
//! polled after its end, even if its output did not fit. One bit per branch says so.
//!
//! Each poll makes at most two walks over the list, front to back: the first polls the enabled branches from a random one
//! to the end, the second those before it. That is a rotation, without an index to dispatch on.

use core::pin::Pin;
use core::task::{Context, Poll, ready};

use pin_project_lite::pin_project;

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
    /// One branch of a `select!` and the branches after it.
    pub struct Branch<F, Fits, Rest> {
        #[pin]
        future: F,
        fits: Fits,
        #[pin]
        rest: Rest,
    }
}

/// The end of a list of branches.
pub struct NoBranch;

impl NoBranch {
    /// Starts a list from its last branch.
    #[inline]
    pub fn after<F, Fits>(self, future: F, fits: Fits) -> Branch<F::IntoFuture, Fits, Self>
    where
        F: IntoFuture,
        Fits: Fn(Option<F::Output>) -> Option<F::Output>,
    {
        Branch { future: future.into_future(), fits, rest: self }
    }
}

impl<F, Fits, Rest> Branch<F, Fits, Rest> {
    /// Puts one more branch in front: lists are built from the back.
    #[inline]
    pub fn after<G, GFits>(self, future: G, fits: GFits) -> Branch<G::IntoFuture, GFits, Self>
    where
        G: IntoFuture,
        GFits: Fn(Option<G::Output>) -> Option<G::Output>,
    {
        Branch { future: future.into_future(), fits, rest: self }
    }
}

/// One walk over the branches, front to back.
pub struct Walk {
    /// The branches that this walk polls, one bit each. A branch's bit is cleared when its future has finished.
    enabled: u64,
    /// Whether a branch is still waiting.
    pending: bool,
}

/// A list of branches: [`Branch`]es down to [`NoBranch`].
pub trait Branches {
    /// How many branches there are.
    const COUNT: u32;

    /// Where the winner's output goes.
    type Selected;

    /// Polls the branches that `walk` has enabled until one wins; the bit of this list's first branch is `bit`.
    fn poll_walk(
        self: Pin<&mut Self>,
        bit: u64,
        walk: &mut Walk,
        cx: &mut Context<'_>,
    ) -> Option<Self::Selected>;

    /// What to say when no branch is left.
    fn all_disabled() -> Self::Selected;
}

impl Branches for NoBranch {
    const COUNT: u32 = 0;
    type Selected = AllDisabled;

    #[inline]
    fn poll_walk(
        self: Pin<&mut Self>,
        _: u64,
        _: &mut Walk,
        _: &mut Context<'_>,
    ) -> Option<AllDisabled> {
        None
    }

    #[inline]
    fn all_disabled() -> AllDisabled {
        AllDisabled
    }
}

impl<F, Fits, Rest> Branches for Branch<F, Fits, Rest>
where
    F: Future,
    Fits: Fn(Option<F::Output>) -> Option<F::Output>,
    Rest: Branches,
{
    const COUNT: u32 = 1 + Rest::COUNT;
    type Selected = Selected<F::Output, Rest::Selected>;

    #[inline]
    fn poll_walk(
        self: Pin<&mut Self>,
        bit: u64,
        walk: &mut Walk,
        cx: &mut Context<'_>,
    ) -> Option<Self::Selected> {
        let me = self.project();
        if walk.enabled & bit != 0 {
            match me.future.poll(cx) {
                Poll::Pending => walk.pending = true,
                Poll::Ready(output) => {
                    walk.enabled &= !bit;
                    if let Some(output) = (me.fits)(Some(output)) {
                        return Some(Selected::Here(output));
                    }
                }
            }
        }
        me.rest.poll_walk(bit << 1, walk, cx).map(Selected::Later)
    }

    #[inline]
    fn all_disabled() -> Self::Selected {
        Selected::Later(Rest::all_disabled())
    }
}

pin_project! {
    /// Polls a list of branches until one wins.
    #[must_use = "futures do nothing unless polled"]
    pub struct Select<L> {
        #[pin]
        branches: L,
        // One bit for each branch that must not be polled (again).
        disabled: u64,
        // Whether each poll starts at the first branch rather than at a random one.
        biased: bool,
    }
}

impl<L: Branches> Select<L> {
    /// Waits for the first of `branches`.
    #[inline]
    pub fn new(biased: bool, preconditions: Preconditions, branches: L) -> Self {
        const {
            assert!(L::COUNT <= 64, "select! takes up to 64 branches; for more, use a JoinSet");
        }
        Select { branches, disabled: preconditions.disabled, biased }
    }
}

impl<L: Branches> Future for Select<L> {
    type Output = L::Selected;

    #[inline]
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<L::Selected> {
        // Without budget the futures that honour it would all refuse, leaving the choice to those that do not.
        ready!(poll_budget_available(cx));

        let mut me = self.project();
        let first = match *me.biased || L::COUNT == 1 {
            true => 0,
            false => thread_rng_n(L::COUNT),
        };
        debug_assert!(first < L::COUNT, "the random branch must be one of ours");

        let before_first = (1u64 << first) - 1;
        let mut pending = false;
        for part in [!before_first, before_first] {
            let mut walk = Walk { enabled: part & !*me.disabled, pending: false };
            if walk.enabled == 0 {
                continue;
            }
            let selected = me.branches.as_mut().poll_walk(1, &mut walk, cx);
            *me.disabled |= part & !walk.enabled;
            if let Some(selected) = selected {
                return Poll::Ready(selected);
            }
            pending |= walk.pending;
        }
        match pending {
            true => Poll::Pending,
            false => Poll::Ready(L::all_disabled()),
        }
    }
}
