//! The futures that wait for a notification.

use super::{Notify, Which, calls};
use crate::sys::sync::atomic::Ordering::*;
use crate::task::wait_kind::WaitKind;
use crate::wait;
use crate::wait::list::{Grant, Waiter, WaiterState};
use std::fmt;
use std::panic::Location;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

/// How far a waiter has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// Not polled yet.
    Made,
    /// Has been in the list; `Waiter::standing` says the rest.
    Queued,
    /// Notified, and has said so.
    Done,
}

pin_project_lite::pin_project! {
    /// What both futures are made of.
    struct Wait {
        stage: Stage,
        made_at: usize,
        site: &'static Location<'static>,
        #[pin]
        waiter: Waiter<usize>,
    }
}

impl Wait {
    #[inline]
    fn new(notify: &Notify, site: &'static Location<'static>) -> Self {
        // Acquire: whoever sees the count of a call sees what was done before it,
        // and does not wait for it.
        let made_at = calls(notify.word.load(Acquire));
        Self { stage: Stage::Made, made_at, site, waiter: Waiter::new() }
    }

    /// With a waker, the waiter is woken by the next notification; without, it
    /// only takes its place in the list.
    #[inline]
    fn poll(self: Pin<&mut Self>, notify: &Notify, waker: Option<&Waker>) -> Poll<()> {
        let this = self.project();
        let waiter = this.waiter.as_ref();
        let notified = match *this.stage {
            Stage::Done => return Poll::Ready(()),
            Stage::Made => {
                notify.take(*this.made_at) || {
                    let queued = notify.queue_up(waiter, *this.made_at, waker.cloned());
                    if queued.is_ok() {
                        *this.stage = Stage::Queued;
                    }
                    queued.is_err()
                }
            }
            Stage::Queued => is_notified(notify, waiter, *this.made_at, waker),
        };
        if notified {
            *this.stage = Stage::Done;
            return Poll::Ready(());
        }
        if waker.is_some() {
            wait::record_secondary_wait(WaitKind::Notified, notify, this.site);
        }
        Poll::Pending
    }

    /// The future is dropped: gives back what it got and did not see.
    #[inline]
    fn end(self: Pin<&mut Self>, notify: &Notify) {
        if self.stage != Stage::Queued {
            return;
        }
        let this = self.project();
        *this.stage = Stage::Done;
        match notify.leave(this.waiter.as_ref()) {
            WaiterState::Granted(Grant::One) => notify.notify(Which::First),
            WaiterState::Granted(Grant::Last) => notify.notify(Which::Last),
            _ => {}
        }
    }
}

/// For a waiter that has been in the list.
fn is_notified(
    notify: &Notify,
    waiter: Pin<&Waiter<usize>>,
    made_at: usize,
    waker: Option<&Waker>,
) -> bool {
    let mut standing = waiter.state();
    if standing == WaiterState::Waiting {
        if calls(notify.word.load(Acquire)) != made_at {
            // N3: no need to wait until its turn to be woken comes.
            notify.leave(waiter);
            return true;
        }
        if let Some(waker) = waker {
            standing = notify.waiters.update_waker(waiter, waker);
        }
    }
    standing != WaiterState::Waiting
}

impl fmt::Debug for Wait {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Wait").field("stage", &self.stage).finish_non_exhaustive()
    }
}

pin_project_lite::pin_project! {
    /// Waits for a notification; made by [`Notify::notified`].
    ///
    /// Once it is ready it stays so: polling it again gives `Ready`.
    #[derive(Debug)]
    #[must_use = "futures do nothing unless you `.await` or poll them"]
    pub struct Notified<'a> {
        notify: &'a Notify,
        #[pin]
        wait: Wait,
    }

    impl PinnedDrop for Notified<'_> {
        fn drop(this: Pin<&mut Self>) {
            let this = this.project();
            this.wait.end(this.notify);
        }
    }
}

pin_project_lite::pin_project! {
    /// Waits for a notification; made by [`Notify::notified_owned`].
    ///
    /// Once it is ready it stays so: polling it again gives `Ready`.
    #[derive(Debug)]
    #[must_use = "futures do nothing unless you `.await` or poll them"]
    pub struct OwnedNotified {
        notify: Arc<Notify>,
        #[pin]
        wait: Wait,
    }

    impl PinnedDrop for OwnedNotified {
        fn drop(this: Pin<&mut Self>) {
            let this = this.project();
            this.wait.end(this.notify);
        }
    }
}

impl<'a> Notified<'a> {
    #[inline]
    pub(super) fn new(notify: &'a Notify, site: &'static Location<'static>) -> Self {
        Self { notify, wait: Wait::new(notify, site) }
    }

    /// Takes its place in the queue without being polled, so that a
    /// [`notify_one`](Notify::notify_one) from here on reaches it. Answers
    /// whether it is notified already; then it is ready whenever it is polled.
    ///
    /// Needed when several tasks look for something, find nothing and wait: if
    /// two calls of `notify_one` come between the look and the first poll, only
    /// one permit is stored, and one task waits although there is something for
    /// it. With `enable` before the look, each call finds a waiter of its own.
    /// Has no influence on [`notify_waiters`](Notify::notify_waiters).
    ///
    /// ```
    /// use std::collections::VecDeque;
    /// use std::pin::pin;
    /// use std::sync::Mutex;
    /// use wakeful::sync::Notify;
    ///
    /// /// A queue that many tasks may take from.
    /// struct Line<T> {
    ///     items: Mutex<VecDeque<T>>,
    ///     arrived: Notify,
    /// }
    ///
    /// impl<T> Line<T> {
    ///     fn push(&self, item: T) {
    ///         self.items.lock().unwrap().push_back(item);
    ///         self.arrived.notify_one();
    ///     }
    ///
    ///     async fn pop(&self) -> T {
    ///         let mut arrival = pin!(self.arrived.notified());
    ///         loop {
    ///             arrival.as_mut().enable();
    ///             if let Some(item) = self.items.lock().unwrap().pop_front() {
    ///                 return item;
    ///             }
    ///             arrival.as_mut().await;
    ///             arrival.set(self.arrived.notified());
    ///         }
    ///     }
    /// }
    /// # #[wakeful::main(flavor = "current_thread")]
    /// # async fn main() {
    /// # let line = Line { items: Mutex::default(), arrived: Notify::new() };
    /// # line.push(1);
    /// # assert_eq!(line.pop().await, 1);
    /// # }
    /// ```
    pub fn enable(self: Pin<&mut Self>) -> bool {
        let this = self.project();
        this.wait.poll(this.notify, None).is_ready()
    }
}

impl OwnedNotified {
    pub(super) fn new(notify: Arc<Notify>, site: &'static Location<'static>) -> Self {
        let wait = Wait::new(&notify, site);
        Self { notify, wait }
    }

    /// As [`Notified::enable`].
    pub fn enable(self: Pin<&mut Self>) -> bool {
        let this = self.project();
        this.wait.poll(this.notify, None).is_ready()
    }
}

impl Future for Notified<'_> {
    type Output = ();

    #[inline]
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let this = self.project();
        this.wait.poll(this.notify, Some(cx.waker()))
    }
}

impl Future for OwnedNotified {
    type Output = ();

    #[inline]
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let this = self.project();
        this.wait.poll(this.notify, Some(cx.waker()))
    }
}
