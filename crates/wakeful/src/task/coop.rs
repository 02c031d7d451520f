//! The cooperative budget: every leaf operation of ours spends one unit per
//! poll of a task; a task that has none left is put behind the others, so that
//! a loop over things that are always ready starves nobody.

use super::context;
use std::cell::Cell;
use std::marker::PhantomData;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

/// What is left of the current poll's allowance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(transparent)]
pub(crate) struct Budget(u8);

impl Budget {
    pub(crate) const FULL: Budget = Budget(128);
    pub(crate) const UNLIMITED: Budget = Budget(u8::MAX);
    const SPENT: Budget = Budget(0);

    pub(super) const fn to_u8(self) -> u8 {
        self.0
    }

    /// What is left when a unit is spent; none if there is no limit, or nothing left.
    #[inline]
    fn less_one(self) -> Option<Budget> {
        let less = self.0.wrapping_sub(1);
        (less < Budget::FULL.0).then_some(Budget(less))
    }
}

/// Runs `f` with another budget; the old one comes back afterwards.
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

/// Runs `f` without a limit; what is left of the budget comes back afterwards.
pub(crate) fn without_limit<R>(f: impl FnOnce() -> R) -> R {
    with_budget(Budget::UNLIMITED, f)
}

/// Whether the current task may go on before it should yield. Always true
/// outside of a task and inside [`unconstrained`].
pub fn has_budget_remaining() -> bool {
    context::with_budget(|cell| cell.get() != Budget::SPENT)
}

/// Gives the spent unit back when dropped, unless
/// [`made_progress`](Self::made_progress) was called: an operation that turned
/// out to be pending costs nothing. The budget is the thread's, so this stays on it.
#[derive(Debug)]
#[must_use = "dropping it at once gives the unit of budget back"]
pub struct RestoreOnPending(Cell<Budget>, PhantomData<*mut ()>);

impl RestoreOnPending {
    /// The operation got somewhere: the unit stays spent.
    pub fn made_progress(&self) {
        self.0.set(Budget::UNLIMITED);
    }
}

impl Drop for RestoreOnPending {
    #[inline]
    fn drop(&mut self) {
        // An unlimited budget has nothing to give back, so it marks "keep".
        let before = self.0.get();
        if before != Budget::UNLIMITED {
            context::with_budget(|cell| cell.set(before));
        }
    }
}

/// Spends one unit of the current task's budget, or, if there is none left,
/// schedules the task again and returns `Pending`.
///
/// For leaf futures: call it first, and call
/// [`made_progress`](RestoreOnPending::made_progress) when the operation is
/// ready.
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

/// As [`poll_proceed`], but does not schedule the task: for futures that look
/// whether they have to wait anyway.
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

/// As [`poll_proceed`], but spends nothing: [`spend`] does, once the operation got somewhere.
#[inline]
pub(crate) fn poll_budget_available(cx: &mut Context<'_>) -> Poll<()> {
    if has_budget_remaining() {
        Poll::Ready(())
    } else {
        context::yield_out_of_budget(cx.waker());
        Poll::Pending
    }
}

/// Spends one unit, if there is a limit and one left.
#[inline]
pub(crate) fn spend() {
    context::with_budget(|cell| {
        if let Some(less) = cell.get().less_one() {
            cell.set(less);
        }
    });
}

/// Spends one unit of budget, yielding if there is none left. For loops that
/// compute for long without awaiting anything else.
///
/// # Cancel safety
///
/// Cancel safe.
pub async fn consume_budget() {
    let mut asked = false;
    std::future::poll_fn(move |cx| {
        if asked {
            return Poll::Ready(());
        }
        let progress = ready!(poll_proceed(cx));
        asked = true;
        progress.made_progress();
        Poll::Ready(())
    })
    .await;
}

pin_project_lite::pin_project! {
    /// Runs a future without a budget; see [`unconstrained`].
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

/// Opts a future out of the budget: it is then on its own to yield often enough.
pub fn unconstrained<F>(inner: F) -> Unconstrained<F> {
    Unconstrained { inner }
}

pin_project_lite::pin_project! {
    /// Makes a future spend budget; see [`cooperative`].
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

/// Makes a future spend one unit of budget per completion, as wakeful's own leaf
/// futures do. For leaf futures from elsewhere.
pub fn cooperative<F: Future>(inner: F) -> Coop<F> {
    Coop { inner }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::pin::pin;
    use std::task::Waker;

    #[test]
    fn a_task_has_128_units_and_a_pending_one_costs_nothing() {
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
        assert!(has_budget_remaining(), "outside of a task there is no limit");
    }
}
