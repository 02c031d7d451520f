//! Waiting for a moment.

use super::Instant;
use crate::driver::timers::{RegisterOutcome, TimerEntry, TimerState};
use crate::runtime::context::{self, RuntimeRef};
use crate::runtime::task_api::spawn::no_runtime;
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
/// Dropping it cancels it; nothing else is lost.
///
/// # Panics
///
/// Outside of a runtime, or on one without timers (see
/// [`enable_time`](crate::runtime::Builder::enable_time)).
#[track_caller]
pub fn sleep_until(deadline: Instant) -> Sleep {
    Sleep::new(deadline, Location::caller())
}

/// Waits for `duration`.
///
/// # Cancel safety
///
/// Dropping it cancels it; nothing else is lost.
///
/// # Panics
///
/// Outside of a runtime, or on one without timers (see
/// [`enable_time`](crate::runtime::Builder::enable_time)).
///
/// ```
/// # #[wakeful::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() {
/// use wakeful::time::{Duration, Instant, sleep};
///
/// let before = Instant::now();
/// sleep(Duration::from_millis(100)).await;
/// assert!(before.elapsed() >= Duration::from_millis(100));
/// # }
/// ```
#[track_caller]
pub fn sleep(duration: Duration) -> Sleep {
    let deadline = Instant::now().checked_add(duration).unwrap_or_else(Instant::far_future);
    Sleep::new(deadline, Location::caller())
}

pin_project_lite::pin_project! {
    /// The future of [`sleep`] and [`sleep_until`].
    ///
    /// It can be [`reset`](Sleep::reset) to another deadline, before and after
    /// it is done; to do that it has to be pinned (`pin!`, `Box::pin`).
    #[project(!Unpin)]
    #[must_use = "futures do nothing unless polled"]
    pub struct Sleep {
        deadline: Instant,
        site: &'static Location<'static>,
        // Keeps the timers alive.
        keeper: Arc<RuntimeRef>,
        place: Place,
        #[pin]
        entry: TimerEntry,
    }

    impl PinnedDrop for Sleep {
        fn drop(this: Pin<&mut Self>) {
            this.unregister();
        }
    }
}

/// With whose timers a [`Sleep`] is registered.
#[derive(Clone, Copy)]
enum Place {
    /// With nobody's: it was not polled.
    New,
    /// The same, after its deadline was moved.
    Reset,
    With(usize),
}

impl Sleep {
    #[track_caller]
    fn new(deadline: Instant, site: &'static Location<'static>) -> Self {
        let keeper = match context::keeper() {
            Ok(keeper) => keeper,
            Err(_) => no_runtime(),
        };
        if !keeper.shared.has_time {
            no_timers();
        }
        Self { deadline, site, keeper, place: Place::New, entry: TimerEntry::new() }
    }

    /// As `new`, for a future that has checked the context already.
    pub(super) fn on(
        keeper: Arc<RuntimeRef>,
        deadline: Instant,
        site: &'static Location<'static>,
    ) -> Self {
        Self { deadline, site, keeper, place: Place::New, entry: TimerEntry::new() }
    }

    /// The moment this waits for.
    pub fn deadline(&self) -> Instant {
        self.deadline
    }

    /// Whether that moment has come, as far as the timer noticed; or by the clock, after a
    /// [`reset`](Sleep::reset) that no poll has followed. One that was never polled, nor reset, has
    /// not noticed anything.
    pub fn is_elapsed(&self) -> bool {
        match self.place {
            Place::New => false,
            Place::Reset => {
                let clock = self.keeper.shared.clock();
                clock.tick() >= clock.tick_at(self.deadline.into_std())
            }
            Place::With(_) => self.entry.state() == TimerState::Fired,
        }
    }

    /// Moves the deadline. A task that waits for this future need not poll it
    /// again: it is woken when the new deadline has come. Moving a deadline
    /// later is one atomic step.
    pub fn reset(self: Pin<&mut Self>, deadline: Instant) {
        let mut this = self.project();
        *this.deadline = deadline;
        let entry = this.entry.as_mut().into_ref();
        let owner = match *this.place {
            Place::With(owner) if entry.state() == TimerState::Waiting => owner,
            // Not begun, or done once: the next poll starts over.
            _ => {
                *this.place = Place::Reset;
                return;
            }
        };
        let shared = &this.keeper.shared;
        let tick = shared.clock().tick_at(deadline.into_std());
        let timers = shared.timers_of(owner);
        if timers.rearm(entry, tick) == RegisterOutcome::WaitingFirst {
            shared.wake_timers(timers);
        }
    }

    #[inline(never)] // or it stands wherever a time limit goes that never got here
    fn unregister(self: Pin<&mut Self>) {
        let this = self.project();
        if let Place::With(owner) = std::mem::replace(this.place, Place::New) {
            this.keeper.shared.timers_of(owner).cancel(this.entry.into_ref());
        }
    }

    /// Registers with the timers of this thread, on the first poll.
    fn register(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let this = self.project();
        let shared = &this.keeper.shared;
        let tick = shared.clock().tick_at(this.deadline.into_std());
        let timers = shared.timers();
        let registered = timers.register(this.entry.into_ref(), tick, cx.waker());
        *this.place = Place::With(timers.owner);
        match registered {
            RegisterOutcome::Due => Poll::Ready(()),
            RegisterOutcome::Waiting => Poll::Pending,
            RegisterOutcome::WaitingFirst => {
                shared.wake_timers(timers);
                Poll::Pending
            }
            RegisterOutcome::ShutDown => shut_down(),
        }
    }

    pub(super) fn poll_elapsed(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let this = self.as_mut().project();
        let Place::With(owner) = *this.place else { return self.register(cx) };
        let entry = this.entry.into_ref();
        if entry.state() == TimerState::Waiting {
            this.keeper.shared.timers_of(owner).update_waker(entry, cx.waker());
        }
        match entry.state() {
            TimerState::Fired => Poll::Ready(()),
            TimerState::Waiting => Poll::Pending,
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
        let polled = self.as_mut().poll_silently(cx);
        if polled.is_pending() {
            task::context::record_secondary_wait(|since_ms| self.wait(since_ms));
        }
        polled
    }
}

impl Sleep {
    /// Notes nothing.
    #[inline(always)]
    pub(super) fn poll_silently(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let progress = ready!(coop::poll_proceed(cx));
        ready!(self.as_mut().poll_elapsed(cx));
        progress.made_progress();
        Poll::Ready(())
    }

    /// What a task waits for in here.
    #[inline]
    pub(super) fn wait(&self, since_ms: u32) -> Wait {
        let target = TargetWord::of_tick(self.entry.tick());
        Wait { kind: WaitKind::Sleep, target, site: self.site, since_ms }
    }
}

impl fmt::Debug for Sleep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sleep").field("deadline", &self.deadline).finish_non_exhaustive()
    }
}
