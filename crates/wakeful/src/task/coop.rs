//! The cooperative budget: how many leaf operations a task may complete in one poll.
//!
//! Every leaf operation of wakeful spends one unit. A task without budget is requeued behind the
//! others, so a loop over resources that are always ready does not starve other tasks.

use super::context;
use std::cell::Cell;
use std::marker::PhantomData;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

/// The units of budget that the current poll may still spend.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(transparent)]
pub(crate) struct Budget(u8);

impl Budget {
    pub(crate) const FULL: Budget = Budget(128);
    pub(crate) const UNLIMITED: Budget = Budget(u8::MAX);
    const SPENT: Budget = Budget(0);

    /// Creates a budget of this many units, at most [`FULL`](Self::FULL).
    pub(super) fn of_units(units: u8) -> Budget {
        Budget(units.min(Budget::FULL.0))
    }

    pub(super) const fn to_u8(self) -> u8 {
        self.0
    }

    /// Returns the budget minus one unit. `None` if there is no limit, or no unit is left.
    #[inline]
    fn less_one(self) -> Option<Budget> {
        let less = self.0.wrapping_sub(1);
        (less < Budget::FULL.0).then_some(Budget(less))
    }
}

/// Runs `f` with another budget, and restores the old one.
pub(super) fn with_budget<R>(budget: Budget, f: impl FnOnce() -> R) -> R {
    struct Restore(Budget);
    impl Drop for Restore {
        fn drop(&mut self) {
            context::with_budget(|cell| cell.set(self.0));
        }
    }
    let _restore = Restore(context::with_budget(|cell| cell.replace(budget)));
    f()
}

/// Runs `f` without a limit, and restores the budget.
pub(crate) fn without_limit<R>(f: impl FnOnce() -> R) -> R {
    with_budget(Budget::UNLIMITED, f)
}

/// Returns whether the current task has budget left in this poll.
///
/// Always true outside a task and inside [`unconstrained`]. A loop that computes without awaiting
/// can use this to decide when to yield.
///
/// # Examples
///
/// ```
/// assert!(wakeful::task::coop::has_budget_remaining());
/// ```
pub fn has_budget_remaining() -> bool {
    context::with_budget(|cell| cell.get() != Budget::SPENT)
}

/// Restores the spent unit of budget when dropped, unless progress was made.
///
/// Returned by [`poll_proceed`]. Call [`made_progress`](Self::made_progress) if the operation is
/// ready; a pending operation costs no budget. The budget is thread-local, so this type is not
/// `Send`.
///
/// # Examples
///
/// A leaf future that takes a number from a counter, and waits while the counter is 0:
///
/// ```
/// use std::task::{Context, Poll, ready};
/// use wakeful::task::coop;
///
/// fn poll_take(cx: &mut Context<'_>, counter: &mut u32) -> Poll<u32> {
///     let progress = ready!(coop::poll_proceed(cx));
///     if *counter == 0 {
///         return Poll::Pending; // dropping `progress` restores the unit
///     }
///     *counter -= 1;
///     progress.made_progress();
///     Poll::Ready(*counter)
/// }
/// # futures::executor::block_on(async {
/// let mut counter = 3;
/// assert_eq!(std::future::poll_fn(|cx| poll_take(cx, &mut counter)).await, 2);
/// # });
/// ```
#[derive(Debug)]
#[must_use = "dropping it at once restores the unit of budget"]
pub struct RestoreOnPending(Cell<Budget>, PhantomData<*mut ()>);

impl RestoreOnPending {
    /// Keeps the unit spent: the operation made progress.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::task::{Context, Poll, ready};
    /// use wakeful::task::coop;
    ///
    /// fn poll_ready(cx: &mut Context<'_>) -> Poll<()> {
    ///     ready!(coop::poll_proceed(cx)).made_progress();
    ///     Poll::Ready(())
    /// }
    /// # futures::executor::block_on(async {
    /// std::future::poll_fn(poll_ready).await;
    /// # });
    /// ```
    pub fn made_progress(&self) {
        self.0.set(Budget::UNLIMITED);
    }
}

impl Drop for RestoreOnPending {
    #[inline]
    fn drop(&mut self) {
        // UNLIMITED is never restored, so `made_progress` stores it as "keep".
        let before = self.0.get();
        if before != Budget::UNLIMITED {
            context::with_budget(|cell| cell.set(before));
        }
    }
}

/// Spends one unit of the current task's budget.
///
/// Returns `Pending` if no budget is left; the task is then scheduled again. Leaf futures call this
/// first, and call [`made_progress`](RestoreOnPending::made_progress) when their operation is
/// ready.
///
/// # Examples
///
/// ```
/// use std::task::{Context, Poll, ready};
/// use wakeful::task::coop;
///
/// /// A leaf future that is always ready.
/// fn poll_next(cx: &mut Context<'_>) -> Poll<u32> {
///     let progress = ready!(coop::poll_proceed(cx));
///     progress.made_progress();
///     Poll::Ready(7)
/// }
/// # futures::executor::block_on(async {
/// assert_eq!(std::future::poll_fn(poll_next).await, 7);
/// # });
/// ```
#[inline]
pub fn poll_proceed(cx: &mut Context<'_>) -> Poll<RestoreOnPending> {
    match try_proceed() {
        Some(progress) => Poll::Ready(progress),
        None => {
            context::yield_out_of_budget(cx.waker());
            Poll::Pending
        }
    }
}

/// Spends one unit of budget. Returns `None` if none is left, without scheduling the task.
///
/// For futures that may have to wait anyway, and then need no extra poll.
#[inline]
pub(crate) fn try_proceed() -> Option<RestoreOnPending> {
    context::with_budget(|cell| {
        let before = cell.get();
        match before.less_one() {
            Some(less) => cell.set(less),
            None if before == Budget::SPENT => return None,
            None => {}
        }
        Some(RestoreOnPending(Cell::new(before), PhantomData))
    })
}

/// Returns `Ready` if there is budget, without spending it. Otherwise schedules the task again.
///
/// The caller must call [`spend`] once the operation has made progress.
#[inline]
pub(crate) fn poll_budget_available(cx: &mut Context<'_>) -> Poll<()> {
    if has_budget_remaining() {
        Poll::Ready(())
    } else {
        context::yield_out_of_budget(cx.waker());
        Poll::Pending
    }
}

/// Spends one unit of budget, if there is a limit and a unit is left.
#[inline]
pub(crate) fn spend() {
    context::with_budget(|cell| {
        if let Some(less) = cell.get().less_one() {
            cell.set(less);
        }
    });
}

/// Spends one unit of budget, and yields if none is left.
///
/// Use it in loops that compute for a long time without awaiting.
///
/// # Cancel safety
///
/// This function is cancel safe.
///
/// # Examples
///
/// ```
/// # #[wakeful::main(flavor = "current_thread")]
/// # async fn main() {
/// let mut sum = 0u64;
/// for n in 0..10_000 {
///     sum += n;
///     wakeful::task::consume_budget().await;
/// }
/// assert_eq!(sum, 49_995_000);
/// # }
/// ```
pub async fn consume_budget() {
    let mut is_spent = false;
    std::future::poll_fn(move |cx| {
        if is_spent {
            return Poll::Ready(());
        }
        let progress = ready!(poll_proceed(cx));
        is_spent = true;
        progress.made_progress();
        Poll::Ready(())
    })
    .await;
}

pin_project_lite::pin_project! {
    /// The future of [`unconstrained`], which spends no budget.
    #[derive(Debug)]
    #[must_use = "futures do nothing unless polled"]
    pub struct Unconstrained<F> {
        #[pin]
        inner: F,
    }
}

impl<F: Future> Future for Unconstrained<F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        with_budget(Budget::UNLIMITED, || self.project().inner.poll(cx))
    }
}

/// Runs a future without the cooperative budget.
///
/// Such a future must yield often enough by itself, or it starves other tasks of its worker.
///
/// # Examples
///
/// ```
/// # #[wakeful::main(flavor = "current_thread")]
/// # async fn main() {
/// use wakeful::sync::mpsc;
///
/// let (tx, mut rx) = mpsc::unbounded_channel();
/// (0..1000).for_each(|n| tx.send(n).unwrap());
/// // No yield between the thousand messages.
/// wakeful::task::unconstrained(async {
///     for n in 0..1000 {
///         assert_eq!(rx.recv().await, Some(n));
///     }
/// })
/// .await;
/// # }
/// ```
pub fn unconstrained<F>(inner: F) -> Unconstrained<F> {
    Unconstrained { inner }
}

pin_project_lite::pin_project! {
    /// The future of [`cooperative`], which spends one unit of budget when it completes.
    #[derive(Debug)]
    #[must_use = "futures do nothing unless polled"]
    pub struct Coop<F: Future> {
        #[pin]
        inner: F,
    }
}

impl<F: Future> Future for Coop<F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        let progress = ready!(poll_proceed(cx));
        let polled = self.project().inner.poll(cx);
        if polled.is_ready() {
            progress.made_progress();
        }
        polled
    }
}

/// Makes a future spend one unit of budget when it completes, as wakeful's own leaf futures do.
///
/// Use it for leaf futures of other crates.
///
/// # Examples
///
/// ```
/// # #[wakeful::main(flavor = "current_thread")]
/// # async fn main() {
/// let value = wakeful::task::coop::cooperative(std::future::ready(7)).await;
/// assert_eq!(value, 7);
/// # }
/// ```
pub fn cooperative<F: Future>(inner: F) -> Coop<F> {
    Coop { inner }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::pin::pin;
    use std::task::Waker;

    #[test]
    fn budget_has_128_units_and_pending_operations_cost_none() {
        with_budget(Budget::FULL, || {
            let mut cx = Context::from_waker(Waker::noop());
            for _ in 0..200 {
                assert!(poll_proceed(&mut cx).is_ready(), "dropped without progress");
            }
            let spend = |cx: &mut Context<'_>| {
                poll_proceed(cx).map(|progress| progress.made_progress()).is_ready()
            };
            assert_eq!((0..200).take_while(|_| spend(&mut cx)).count(), 128);
            assert!(!has_budget_remaining());
            assert!(pin!(unconstrained(std::future::ready(()))).poll(&mut cx).is_ready());
            assert!(pin!(cooperative(std::future::ready(()))).poll(&mut cx).is_pending());
        });
        assert!(has_budget_remaining(), "no limit outside of a task");
    }
}
