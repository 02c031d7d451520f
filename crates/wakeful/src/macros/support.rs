//! What the expansions of `select!`, `join!` and `try_join!` may name, and the two doors by which they reach the
//! runtime: one for randomness, one for the budget. Neither door needs a runtime to be there.

use core::task::{Context, Poll};

pub use super::join::{InOrder, Join, MaybeDone, Rotating};
pub use super::list::{End, List1, List2, List3, List4, List5, List6, List7, List8};
pub use super::select_future::Selected::{self, Here, Later};
pub use super::select_future::{AllDisabled, Branch, Preconditions, Select};
pub use super::try_join::TryJoin;

/// A number below `n`, from the randomness of the runtime that polls this task.
///
/// The number comes from the runtime's own generator, so that `Builder::rng_seed` fixes which branch a `select!`
/// polls first.
#[inline]
pub fn thread_rng_n(n: u32) -> u32 {
    crate::task::context::random_below(n)
}

/// Ready while the task may go on; `Pending`, with a wake-up on its way, once its budget is spent.
#[inline]
pub fn poll_budget_available(cx: &mut Context<'_>) -> Poll<()> {
    crate::task::coop::poll_budget_available(cx)
}
