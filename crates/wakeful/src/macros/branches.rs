//! The list of branches behind `select!`, and [`Select`], the future that polls it.
//!
//! A list is `Branch<A, _, Branch<B, _, NoBranch>>`. Where the winner's output is found in [`Selected`] mirrors where the
//! branch stands in the list: `Here(output)`, `Later(Here(output))`, …, and `Later(Later(AllDisabled))` at the end. Each
//! branch's own closure puts an output there in one step, so that an output is not moved once per place in the list.
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
    pub struct Branch<F, Pick, Rest> {
        #[pin]
        future: F,
        // Gives an output that fits the pattern its place in what the `select!` found, or drops it. It takes an
        // `Option`, always `Some`, so that a future that never says what it returns has a type all the same: in the
        // closure the output meets a value of type `!`.
        pick: Pick,
        #[pin]
        rest: Rest,
    }
}

/// The end of a list of branches.
pub struct NoBranch;

impl NoBranch {
    /// Starts a list from its last branch.
    #[inline]
    pub fn after<F, Pick, Out>(self, future: F, pick: Pick) -> Branch<F::IntoFuture, Pick, Self>
    where
        F: IntoFuture,
        Pick: Fn(Option<F::Output>) -> Option<Out>,
    {
        Branch { future: future.into_future(), pick, rest: self }
    }
}

impl<F, Pick, Rest> Branch<F, Pick, Rest> {
    /// Puts one more branch in front: lists are built from the back.
    #[inline]
    pub fn after<G, GPick, Out>(self, future: G, pick: GPick) -> Branch<G::IntoFuture, GPick, Self>
    where
        G: IntoFuture,
        GPick: Fn(Option<G::Output>) -> Option<Out>,
    {
        Branch { future: future.into_future(), pick, rest: self }
    }
}

/// One walk over the branches, front to back.
pub struct Walk {
    /// The branches that this walk polls, one bit each. A branch's bit is cleared when its future has finished.
    enabled: u64,
    /// Whether a branch is still waiting.
    pending: bool,
}

/// A list of branches, [`Branch`]es down to [`NoBranch`], whose winner is found in an `Out`.
pub trait Branches<Out> {
    /// How many branches there are.
    const COUNT: u32;

    /// Polls the branches that `walk` has enabled until one wins; the bit of this list's first branch is `bit`.
    fn poll_walk(
        self: Pin<&mut Self>,
        bit: u64,
        walk: &mut Walk,
        cx: &mut Context<'_>,
    ) -> Option<Out>;
}

impl<Out> Branches<Out> for NoBranch {
    const COUNT: u32 = 0;

    #[inline]
    fn poll_walk(self: Pin<&mut Self>, _: u64, _: &mut Walk, _: &mut Context<'_>) -> Option<Out> {
        None
    }
}

impl<F, Pick, Rest, Out> Branches<Out> for Branch<F, Pick, Rest>
where
    F: Future,
    Pick: Fn(Option<F::Output>) -> Option<Out>,
    Rest: Branches<Out>,
{
    const COUNT: u32 = 1 + Rest::COUNT;

    #[inline]
    fn poll_walk(
        self: Pin<&mut Self>,
        bit: u64,
        walk: &mut Walk,
        cx: &mut Context<'_>,
    ) -> Option<Out> {
        let me = self.project();
        if walk.enabled & bit != 0 {
            match me.future.poll(cx) {
                Poll::Pending => walk.pending = true,
                Poll::Ready(output) => {
                    walk.enabled &= !bit;
                    let picked = (me.pick)(Some(output));
                    if picked.is_some() {
                        return picked;
                    }
                }
            }
        }
        me.rest.poll_walk(bit << 1, walk, cx)
    }
}

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
            assert!(L::COUNT <= 64, "select! takes up to 64 branches; for more, use a JoinSet");
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
            let picked = me.branches.as_mut().poll_walk(1, &mut walk, cx);
            *me.disabled |= part & !walk.enabled;
            if let Some(output) = picked {
                return Poll::Ready(output);
            }
            pending |= walk.pending;
        }
        match pending {
            true => Poll::Pending,
            false => Poll::Ready((me.all_disabled)()),
        }
    }
}
