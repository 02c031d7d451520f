//! [`Sleep`]: the future that waits for a deadline.

use super::Instant;
use crate::driver::timers::{RegisterOutcome, TimerEntry, TimerState};
use crate::runtime::context::{self, RuntimeRef};
use crate::runtime::task_api::spawn::no_runtime;
use crate::task::futile::{self, FutileKind};
use crate::task::wait_kind::WaitKind;
use crate::task::wait_record::Wait;
use crate::task::wait_target::TargetWord;
use crate::task::{self, coop};
use std::fmt;
use std::panic::Location;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

/// Waits until `deadline`.
///
/// # Cancel safety
///
/// Cancel safe. Dropping the future cancels the timer.
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
/// use wakeful::time::{Duration, Instant, sleep_until};
///
/// let deadline = Instant::now() + Duration::from_millis(100);
/// sleep_until(deadline).await;
/// assert!(Instant::now() >= deadline);
/// # }
/// ```
#[track_caller]
pub fn sleep_until(deadline: Instant) -> Sleep {
    Sleep::new(deadline, Location::caller())
}

/// Waits for `duration`.
///
/// Use this instead of [`std::thread::sleep`], which blocks the worker and every task on it.
///
/// # Cancel safety
///
/// Cancel safe. Dropping the future cancels the timer.
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
/// use wakeful::time::{Duration, Instant, sleep};
///
/// let start = Instant::now();
/// sleep(Duration::from_millis(100)).await;
/// assert!(start.elapsed() >= Duration::from_millis(100));
/// # }
/// ```
#[track_caller]
pub fn sleep(duration: Duration) -> Sleep {
    let deadline = Instant::now().checked_add(duration).unwrap_or_else(Instant::far_future);
    Sleep::new(deadline, Location::caller())
}

pin_project_lite::pin_project! {
    /// Future returned by [`sleep`] and [`sleep_until`].
    ///
    /// A `Sleep` can be [`reset`](Sleep::reset) to another deadline, before and after it completes.
    /// For that, and to poll it repeatedly in a `select!`, pin it with `pin!` or `Box::pin`.
    ///
    /// # Examples
    ///
    /// A time limit that covers a whole loop:
    ///
    /// ```
    /// # #[wakeful::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() {
    /// use wakeful::time::{Duration, interval, sleep};
    ///
    /// let mut interval = interval(Duration::from_millis(10));
    /// let mut ticks = 0;
    /// wakeful::pin! { let limit = sleep(Duration::from_millis(35)); }
    /// loop {
    ///     wakeful::select! {
    ///         _ = interval.tick() => ticks += 1,
    ///         _ = &mut limit => break,
    ///     }
    /// }
    /// assert_eq!(ticks, 4); // at 0, 10, 20 and 30 ms
    /// # }
    /// ```
    #[project(!Unpin)]
    #[must_use = "futures do nothing unless polled"]
    pub struct Sleep {
        deadline: Instant,
        site: &'static Location<'static>,
        // Keeps the timers alive.
        runtime: Arc<RuntimeRef>,
        state: SleepState,
        #[pin]
        entry: TimerEntry,
    }

    impl PinnedDrop for Sleep {
        fn drop(this: Pin<&mut Self>) {
            this.unregister();
        }
    }
}

/// The registration state of a [`Sleep`] with a worker's timers.
#[derive(Clone, Copy)]
enum SleepState {
    /// Not registered: the future was never polled.
    Unregistered,
    /// Not registered: the deadline was changed by [`Sleep::reset`], and no poll followed.
    Reset,
    /// Registered with the timers of this owner.
    Registered(usize),
    /// The timer of this owner has fired, and a poll has returned `Ready`.
    Elapsed(usize),
}

impl Sleep {
    #[track_caller]
    fn new(deadline: Instant, site: &'static Location<'static>) -> Self {
        let runtime = match context::runtime_ref() {
            Ok(runtime) => runtime,
            Err(_) => no_runtime(),
        };
        if !runtime.shared.has_time {
            no_timers();
        }
        Self { deadline, site, runtime, state: SleepState::Unregistered, entry: TimerEntry::new() }
    }

    /// Creates a timer on `runtime`; the caller has checked that timers are enabled.
    pub(super) fn with_runtime(
        runtime: Arc<RuntimeRef>,
        deadline: Instant,
        site: &'static Location<'static>,
    ) -> Self {
        Self { deadline, site, runtime, state: SleepState::Unregistered, entry: TimerEntry::new() }
    }

    /// Returns the deadline.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[wakeful::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() {
    /// use wakeful::time::{Duration, Instant, sleep_until};
    ///
    /// let deadline = Instant::now() + Duration::from_secs(1);
    /// assert_eq!(sleep_until(deadline).deadline(), deadline);
    /// # }
    /// ```
    pub fn deadline(&self) -> Instant {
        self.deadline
    }

    /// Returns whether the deadline has passed.
    ///
    /// A timer that was never polled or reset returns false. After a [`reset`](Sleep::reset)
    /// without a poll, the result comes from the clock. Otherwise the result is whether the timer
    /// has fired.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[wakeful::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() {
    /// use wakeful::time::{Duration, sleep};
    ///
    /// wakeful::pin! { let timer = sleep(Duration::from_millis(10)); }
    /// assert!(!timer.is_elapsed());
    /// timer.as_mut().await;
    /// assert!(timer.is_elapsed());
    /// # }
    /// ```
    pub fn is_elapsed(&self) -> bool {
        match self.state {
            SleepState::Unregistered => false,
            SleepState::Reset => {
                let clock = self.runtime.shared.clock();
                clock.tick() >= clock.tick_at(self.deadline.into_std())
            }
            SleepState::Registered(_) => self.entry.state() == TimerState::Fired,
            SleepState::Elapsed(_) => true,
        }
    }

    /// Changes the deadline.
    ///
    /// A task that waits for this future need not poll it again: it is woken at the new deadline.
    /// Moving a deadline to a later time is one atomic operation.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[wakeful::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() {
    /// use wakeful::time::{Duration, Instant, sleep};
    ///
    /// let start = Instant::now();
    /// wakeful::pin! { let timer = sleep(Duration::from_millis(10)); }
    /// timer.as_mut().reset(start + Duration::from_millis(50));
    /// timer.await;
    /// assert_eq!(start.elapsed(), Duration::from_millis(50));
    /// # }
    /// ```
    pub fn reset(self: Pin<&mut Self>, deadline: Instant) {
        let mut this = self.project();
        *this.deadline = deadline;
        let entry = this.entry.as_mut().into_ref();
        let owner = match *this.state {
            SleepState::Registered(owner) if entry.state() == TimerState::Waiting => owner,
            // Not registered, or already fired: the next poll registers again.
            _ => {
                *this.state = SleepState::Reset;
                return;
            }
        };
        let shared = &this.runtime.shared;
        let tick = shared.clock().tick_at(deadline.into_std());
        let timers = shared.timers_of(owner);
        if timers.rearm(entry, tick) == RegisterOutcome::WaitingFirst {
            shared.wake_timers(timers);
        }
    }

    // Out of line: otherwise it is inlined into the drop glue of every `Timeout`, most of which
    // never register a timer.
    #[inline(never)]
    fn unregister(self: Pin<&mut Self>) {
        let this = self.project();
        if let SleepState::Registered(owner) | SleepState::Elapsed(owner) =
            std::mem::replace(this.state, SleepState::Unregistered)
        {
            this.runtime.shared.timers_of(owner).cancel(this.entry.into_ref());
        }
    }

    /// Registers with the timers of this thread, on the first poll.
    fn register(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let this = self.project();
        if let SleepState::Elapsed(_) = *this.state {
            let address = std::ptr::from_ref(this.deadline).addr() as u64;
            futile::count(FutileKind::Sleep, address, Some(this.site));
            return Poll::Ready(());
        }
        let shared = &this.runtime.shared;
        let tick = shared.clock().tick_at(this.deadline.into_std());
        let timers = shared.timers();
        let registered = timers.register(this.entry.into_ref(), tick, cx.waker());
        *this.state = SleepState::Registered(timers.owner);
        match registered {
            RegisterOutcome::Due => {
                *this.state = SleepState::Elapsed(timers.owner);
                Poll::Ready(())
            }
            RegisterOutcome::Waiting => Poll::Pending,
            RegisterOutcome::WaitingFirst => {
                shared.wake_timers(timers);
                Poll::Pending
            }
            RegisterOutcome::ShutDown => shut_down(),
        }
    }

    /// Polls the timer without spending budget.
    pub(super) fn poll_elapsed(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let this = self.as_mut().project();
        let SleepState::Registered(owner) = *this.state else { return self.register(cx) };
        let entry = this.entry.into_ref();
        if entry.state() == TimerState::Waiting {
            this.runtime.shared.timers_of(owner).update_waker(entry, cx.waker());
        }
        match entry.state() {
            TimerState::Fired => {
                *this.state = SleepState::Elapsed(owner);
                Poll::Ready(())
            }
            TimerState::Waiting => Poll::Pending,
            TimerState::ShutDown if this.runtime.shared.timers_elapse_at_shutdown => {
                *this.state = SleepState::Elapsed(owner);
                Poll::Ready(())
            }
            TimerState::ShutDown => shut_down(),
        }
    }
}

#[cold]
#[track_caller]
pub(super) fn no_timers() -> ! {
    panic!(
        "A Tokio 1.x context was found, but timers are disabled. Call `enable_time` on the \
         runtime builder to enable timers."
    )
}

#[cold]
pub(super) fn shut_down() -> ! {
    panic!("A Tokio 1.x context was found, but it is being shutdown.")
}

impl Future for Sleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let polled = self.as_mut().poll_without_wait_record(cx);
        if polled.is_pending() {
            task::context::record_wait(|since_ms| self.wait(WaitKind::Sleep, since_ms));
        }
        polled
    }
}

impl Sleep {
    /// Polls the timer without recording what the task waits for.
    #[inline(always)]
    pub(super) fn poll_without_wait_record(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<()> {
        let progress = ready!(coop::poll_proceed(cx));
        ready!(self.as_mut().poll_elapsed(cx));
        progress.made_progress();
        Poll::Ready(())
    }

    /// Returns the record of this wait, for diagnostics.
    #[inline]
    pub(super) fn wait(&self, kind: WaitKind, since_ms: u32) -> Wait {
        let target = TargetWord::of_tick(self.entry.tick());
        Wait { kind, target, site: self.site, since_ms }
    }
}

impl fmt::Debug for Sleep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sleep").field("deadline", &self.deadline).finish_non_exhaustive()
    }
}
