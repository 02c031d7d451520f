//! The names that the expansions of `select!`, `join!` and `try_join!` use.
//!
//! Four functions call into the runtime: one for random numbers, one for the cooperative budget, and
//! two for futile loops. All of them also work outside of a runtime.

use core::task::{Context, Poll};

pub use super::join::{InOrder, Join, MaybeDone, Rotating};
pub use super::list::{List1, List2, List3, List4, List5, List6, List7, List8, ListEnd};
pub use super::select_future::Selected::{self, Here, Later};
pub use super::select_future::{AllDisabled, Branch, Preconditions, Select};
pub use super::try_join::TryJoin;

/// Returns a random number below `n`, from the random number generator of the current runtime.
#[inline]
pub fn thread_rng_n(n: u32) -> u32 {
    crate::task::context::random_below(n)
}

/// Returns `Ready` while the task has budget left; otherwise wakes the task and returns `Pending`.
#[inline]
pub fn poll_budget_available(cx: &mut Context<'_>) -> Poll<()> {
    crate::task::coop::poll_budget_available(cx)
}

/// Identifies the last final result of this thread, such as the `None` of a closed channel.
#[inline]
pub fn last_final_result() -> u32 {
    crate::task::futile::last_result()
}

/// Records that a branch has won. `before` is the last final result before its poll.
#[inline]
pub fn branch_won(before: u32) {
    crate::task::futile::branch_won(before);
}
