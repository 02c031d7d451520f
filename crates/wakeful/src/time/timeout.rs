//! Letting a future run for so long and no longer.

use super::Instant;
use super::error::Elapsed;
use super::sleep::{Sleep, no_timers, shut_down};
use crate::driver::clock::tsc::TscInstant;
use crate::runtime::context::RuntimeRef;
use crate::runtime::{Id, Shared, context, registry};
use crate::task::{self, coop};
use std::panic::Location;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

/// Runs `future` for at most `duration`: gives its output, or [`Elapsed`] and
/// drops it.
///
/// The future is polled before the clock is looked at, so one that is ready
/// wins, however late it is. A future that is ready at its first poll costs no
/// timer at all.
///
/// # Cancel safety
///
/// Dropping it drops `future`.
///
/// # Panics
///
/// Outside of a runtime, or on one without timers (see
/// [`enable_time`](crate::runtime::Builder::enable_time)).
///
/// ```
/// # #[wakeful::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() {
/// use wakeful::time::{Duration, sleep, timeout};
///
/// let slow = timeout(Duration::from_millis(10), sleep(Duration::from_secs(60)));
/// assert!(slow.await.is_err());
/// let quick = timeout(Duration::from_millis(10), async { 42 });
/// assert_eq!(quick.await, Ok(42));
/// # }
/// ```
#[inline(always)] // or it is copied to its place, which costs more than all else
#[track_caller]
pub fn timeout<F>(duration: Duration, future: F) -> Timeout<F::IntoFuture>
where
    F: IntoFuture,
{
    let (runtime, soon) = with_timers(|shared| (shared.id, shared.clock().now_upper_bound()));
    Timeout {
        value: future.into_future(),
        deadline: soon.after(duration),
        runtime,
        site: Location::caller(),
        delay: None,
    }
}

/// Runs `future` until `deadline` at the latest; otherwise as [`timeout`].
///
/// # Panics
///
/// Outside of a runtime, or on one without timers.
#[inline(always)]
#[track_caller]
pub fn timeout_at<F>(deadline: Instant, future: F) -> Timeout<F::IntoFuture>
where
    F: IntoFuture,
{
    Timeout {
        value: future.into_future(),
        deadline: TscInstant::from_instant(deadline.into_std()),
        runtime: with_timers(|shared| shared.id),
        site: Location::caller(),
        delay: None,
    }
}

/// Calls `f` with the current runtime, which has timers.
#[inline(always)]
#[track_caller]
fn with_timers<R>(f: impl FnOnce(&Shared) -> R) -> R {
    match context::with_current(|shared| shared.has_time.then(|| f(shared))) {
        Some(Some(result)) => result,
        Some(None) => no_timers(),
        None => crate::runtime::task_api::spawn::no_runtime(),
    }
}

/// The runtime in whose context a timeout was made, wherever it is polled.
fn runtime(id: Id) -> Arc<RuntimeRef> {
    match context::keeper() {
        Ok(keeper) if keeper.shared.id == id => keeper,
        _ => match registry::find(id) {
            Some(handle) => Arc::new(RuntimeRef { shared: handle.shared }),
            None => shut_down(),
        },
    }
}

pin_project_lite::pin_project! {
    /// The future of [`timeout`] and [`timeout_at`].
    #[derive(Debug)]
    #[must_use = "futures do nothing unless polled"]
    pub struct Timeout<T> {
        #[pin]
        value: T,
        deadline: TscInstant,
        // Whose timers it uses. A handle would cost twice what all the rest
        // does, and most futures are done before it is needed.
        runtime: Id,
        site: &'static Location<'static>,
        // Made when `value` is pending for the first time.
        #[pin]
        delay: Option<Sleep>,
    }
}

impl<T> Timeout<T> {
    /// The future inside.
    pub fn get_ref(&self) -> &T {
        &self.value
    }

    /// The future inside.
    pub fn get_mut(&mut self) -> &mut T {
        &mut self.value
    }

    /// The future inside, without its time limit.
    pub fn into_inner(self) -> T {
        self.value
    }
}

impl<T: Future> Future for Timeout<T> {
    type Output = Result<T::Output, Elapsed>;

    #[inline]
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut this = self.project();
        let had_budget = coop::has_budget_remaining();
        if let Poll::Ready(output) = this.value.poll(cx) {
            return Poll::Ready(Ok(output));
        }
        if this.delay.is_none() {
            let deadline =
                this.deadline.to_instant().map_or_else(Instant::far_future, Instant::from_std);
            this.delay.set(Some(Sleep::on(runtime(*this.runtime), deadline, this.site)));
        }
        let Some(delay) = this.delay.as_pin_mut() else { unreachable!("set a moment ago") };
        poll_delay(delay, had_budget && !coop::has_budget_remaining(), cx)
            .map(|()| Err(Elapsed::new()))
    }
}

/// If the future `used_up` all of the budget, the limit still counts.
#[inline(never)]
fn poll_delay(mut delay: Pin<&mut Sleep>, used_up: bool, cx: &mut Context<'_>) -> Poll<()> {
    if used_up {
        return coop::without_limit(|| poll_delay(delay, false, cx));
    }
    let elapsed = delay.as_mut().poll_silently(cx);
    // What is waited for tells more than until when.
    if elapsed.is_pending() {
        task::context::record_wait_if_none(|since_ms| delay.wait(since_ms));
    }
    elapsed
}
