//! [`Timeout`]: a time limit for a future.

use super::Instant;
use super::error::Elapsed;
use super::sleep::{Sleep, no_timers, shut_down};
use crate::driver::clock::tsc::TscInstant;
use crate::runtime::context::RuntimeRef;
use crate::runtime::{Id, RuntimeInner, context, registry};
use crate::task::wait_kind::WaitKind;
use crate::task::{self, coop};
use std::panic::Location;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

/// Runs `future` for at most `duration`.
///
/// Returns the future's output, or [`Elapsed`] if the time runs out first. The future is dropped
/// with the `Timeout`, which cancels it.
///
/// Each poll polls the future before it checks the clock, so a future that is ready wins even if it
/// is late. A future that is ready at its first poll creates no timer.
///
/// # Errors
///
/// Returns [`Elapsed`] if the future does not complete within `duration`.
///
/// # Cancel safety
///
/// Dropping the returned future drops `future`.
///
/// # Panics
///
/// Panics if called outside of a runtime with timers enabled; see
/// [`enable_time`](crate::runtime::Builder::enable_time).
///
/// # Examples
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
// Inlined, so that the future is built in place. Copying it costs more than the rest of the call.
#[inline(always)]
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

/// Runs `future` until `deadline` at the latest.
///
/// Use this to share one deadline between several operations. For a duration, see [`timeout`].
///
/// # Errors
///
/// Returns [`Elapsed`] if the future does not complete before `deadline`.
///
/// # Cancel safety
///
/// Dropping the returned future drops `future`.
///
/// # Panics
///
/// Panics if called outside of a runtime with timers enabled; see
/// [`enable_time`](crate::runtime::Builder::enable_time).
///
/// # Examples
///
/// ```
/// # #[wakeful::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() {
/// use wakeful::time::{Duration, Instant, sleep, timeout_at};
///
/// let deadline = Instant::now() + Duration::from_millis(30);
/// for _ in 0..2 {
///     // Each step may use the time that earlier steps left over.
///     timeout_at(deadline, sleep(Duration::from_millis(10))).await.unwrap();
/// }
/// assert!(timeout_at(deadline, sleep(Duration::from_millis(20))).await.is_err());
/// # }
/// ```
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

/// Calls `f` with the current runtime. Panics unless it has timers.
#[inline(always)]
#[track_caller]
fn with_timers<R>(f: impl FnOnce(&RuntimeInner) -> R) -> R {
    match context::with_current(|shared| shared.has_time.then(|| f(shared))) {
        Some(Some(result)) => result,
        Some(None) => no_timers(),
        None => crate::runtime::task_api::spawn::no_runtime(),
    }
}

/// Returns the runtime in whose context a timeout was created.
///
/// The poll may happen in the context of another runtime, or of none.
fn runtime(id: Id) -> Arc<RuntimeRef> {
    match context::runtime_ref() {
        Ok(runtime) if runtime.shared.id == id => runtime,
        _ => match registry::find(id) {
            Some(handle) => Arc::new(RuntimeRef { shared: handle.shared }),
            None => shut_down(),
        },
    }
}

pin_project_lite::pin_project! {
    /// Future returned by [`timeout`] and [`timeout_at`].
    ///
    /// Resolves to the output of the inner future, or to [`Elapsed`](super::error::Elapsed) if the
    /// deadline passes first. [`into_inner`](Self::into_inner) returns the inner future.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[wakeful::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() {
    /// use std::future::{pending, ready};
    /// use std::time::Duration;
    /// use wakeful::time::timeout;
    ///
    /// let second = Duration::from_secs(1);
    /// assert_eq!(timeout(second, ready(7)).await, Ok(7));
    /// assert!(timeout(second, pending::<()>()).await.is_err());
    /// # }
    /// ```
    #[derive(Debug)]
    #[must_use = "futures do nothing unless polled"]
    pub struct Timeout<T> {
        #[pin]
        value: T,
        deadline: TscInstant,
        // The id of the runtime whose timers are used. A cloned handle would cost twice as much as
        // the rest of `timeout`, and most futures complete before it is needed.
        runtime: Id,
        site: &'static Location<'static>,
        // Created when `value` is pending for the first time.
        #[pin]
        delay: Option<Sleep>,
    }
}

impl<T> Timeout<T> {
    /// Returns a reference to the inner future.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[wakeful::main(flavor = "current_thread")]
    /// # async fn main() {
    /// use std::time::Duration;
    /// use wakeful::sync::oneshot;
    /// use wakeful::time::timeout;
    ///
    /// let (tx, rx) = oneshot::channel();
    /// let waiting = timeout(Duration::from_secs(1), rx);
    /// assert!(waiting.get_ref().is_empty());
    /// tx.send(7).unwrap();
    /// assert_eq!(waiting.await.unwrap(), Ok(7));
    /// # }
    /// ```
    pub fn get_ref(&self) -> &T {
        &self.value
    }

    /// Returns a mutable reference to the inner future.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[wakeful::main(flavor = "current_thread")]
    /// # async fn main() {
    /// use std::time::Duration;
    /// use wakeful::sync::oneshot;
    /// use wakeful::time::timeout;
    ///
    /// let (tx, rx) = oneshot::channel::<u32>();
    /// let mut waiting = timeout(Duration::from_secs(1), rx);
    /// waiting.get_mut().close();
    /// assert!(tx.send(7).is_err());
    /// # }
    /// ```
    pub fn get_mut(&mut self) -> &mut T {
        &mut self.value
    }

    /// Returns the inner future without its time limit.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[wakeful::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() {
    /// use wakeful::time::{Duration, timeout};
    ///
    /// let limited = timeout(Duration::from_millis(10), async { 42 });
    /// assert_eq!(limited.into_inner().await, 42);
    /// # }
    /// ```
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
            this.delay.set(Some(Sleep::with_runtime(runtime(*this.runtime), deadline, this.site)));
        }
        let Some(delay) = this.delay.as_pin_mut() else { unreachable!("the delay was just set") };
        poll_delay(delay, had_budget && !coop::has_budget_remaining(), cx)
            .map(|()| Err(Elapsed::new()))
    }
}

/// Polls the timer, ignoring the budget if the inner future has exhausted it.
///
/// Otherwise a future that always exhausts the budget would never time out.
#[inline(never)]
fn poll_delay(
    mut delay: Pin<&mut Sleep>,
    budget_exhausted: bool,
    cx: &mut Context<'_>,
) -> Poll<()> {
    if budget_exhausted {
        return coop::without_limit(|| poll_delay(delay, false, cx));
    }
    let elapsed = delay.as_mut().poll_without_wait_record(cx);
    if elapsed.is_pending() {
        task::context::record_wait(|since_ms| delay.wait(WaitKind::Timeout, since_ms));
    }
    elapsed
}
