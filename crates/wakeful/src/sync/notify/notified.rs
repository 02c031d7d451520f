//! The futures that wait for a notification.

use super::Notify;
use super::protocol::{Which, calls};
use crate::sys::sync::atomic::Ordering::*;
use crate::task::wait_kind::WaitKind;
use crate::wait;
use crate::wait::list::{Grant, Waiter, WaiterState};
use std::fmt;
use std::panic::Location;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

/// The progress of a waiter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// Not polled yet.
    Created,
    /// Enqueued at least once; `Waiter::state` has the details.
    Queued,
    /// Notified, and has returned `Ready`.
    Done,
}

pin_project_lite::pin_project! {
    /// The common part of both futures.
    struct Wait {
        stage: Stage,
        created_at: usize,
        site: &'static Location<'static>,
        #[pin]
        waiter: Waiter<usize>,
    }
}

impl Wait {
    #[inline]
    fn new(notify: &Notify, site: &'static Location<'static>) -> Self {
        // Acquire: a task that reads the count of a call sees what was done before that call, so it
        // need not be notified of it.
        let created_at = calls(notify.word.load(Acquire));
        Self { stage: Stage::Created, created_at, site, waiter: Waiter::new() }
    }

    /// Polls for a notification and registers the waker if there is one.
    ///
    /// Without a waker, the waiter only takes its place in the list.
    #[inline]
    fn poll(self: Pin<&mut Self>, notify: &Notify, waker: Option<&Waker>) -> Poll<()> {
        let this = self.project();
        let waiter = this.waiter.as_ref();
        let notified = match *this.stage {
            Stage::Done => return Poll::Ready(()),
            Stage::Created => {
                notify.try_consume(*this.created_at) || {
                    let queued = notify.enqueue(waiter, *this.created_at, waker.cloned());
                    if queued.is_ok() {
                        *this.stage = Stage::Queued;
                    }
                    queued.is_err()
                }
            }
            Stage::Queued => poll_queued(notify, waiter, *this.created_at, waker),
        };
        if notified {
            *this.stage = Stage::Done;
            return Poll::Ready(());
        }
        if let Some(waker) = waker {
            let target = notify.target(*this.created_at, waker);
            wait::record_wait_for_target(WaitKind::Notified, target, this.site);
        }
        Poll::Pending
    }

    /// Leaves the list when the future is dropped; passes on a notification that was granted but
    /// not returned.
    #[inline]
    fn cancel(self: Pin<&mut Self>, notify: &Notify) {
        if self.stage != Stage::Queued {
            return;
        }
        let this = self.project();
        *this.stage = Stage::Done;
        match notify.remove(this.waiter.as_ref()) {
            WaiterState::Granted(Grant::One) => notify.notify(Which::First),
            WaiterState::Granted(Grant::Last) => notify.notify(Which::Last),
            _ => {}
        }
    }
}

/// Polls a waiter that has been in the list. Returns true if it is notified.
fn poll_queued(
    notify: &Notify,
    waiter: Pin<&Waiter<usize>>,
    created_at: usize,
    waker: Option<&Waker>,
) -> bool {
    let mut waiter_state = waiter.state();
    if waiter_state == WaiterState::Waiting {
        if calls(notify.word.load(Acquire)) != created_at {
            // NOTIFY-3: the waiter need not wait until the notifier wakes it.
            notify.remove(waiter);
            return true;
        }
        if let Some(waker) = waker {
            waiter_state = notify.waiters.update_waker(waiter, waker);
        }
    }
    waiter_state != WaiterState::Waiting
}

impl fmt::Debug for Wait {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Wait").field("stage", &self.stage).finish_non_exhaustive()
    }
}

pin_project_lite::pin_project! {
    /// Future returned by [`Notify::notified`].
    ///
    /// Once completed, the future may be polled again and returns `Ready`.
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::sync::Notify;
    ///
    /// # #[wakeful::main(flavor = "current_thread")]
    /// # async fn main() {
    /// let notify = Notify::new();
    /// let notified = notify.notified();
    /// notify.notify_waiters();
    /// notified.await;
    /// # }
    /// ```
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
            this.wait.cancel(this.notify);
        }
    }
}

pin_project_lite::pin_project! {
    /// Future returned by [`Notify::notified_owned`]; keeps the `Notify` alive.
    ///
    /// Once completed, the future may be polled again and returns `Ready`.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::sync::Arc;
    /// use wakeful::sync::Notify;
    /// use wakeful::sync::futures::OwnedNotified;
    ///
    /// # #[wakeful::main(flavor = "current_thread")]
    /// # async fn main() {
    /// struct Worker {
    ///     shutdown: OwnedNotified,
    /// }
    ///
    /// let shutdown = Arc::new(Notify::new());
    /// let worker = Worker { shutdown: shutdown.clone().notified_owned() };
    /// shutdown.notify_waiters();
    /// worker.shutdown.await;
    /// # }
    /// ```
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
            this.wait.cancel(this.notify);
        }
    }
}

impl<'a> Notified<'a> {
    #[inline]
    pub(super) fn new(notify: &'a Notify, site: &'static Location<'static>) -> Self {
        Self { notify, wait: Wait::new(notify, site) }
    }

    /// Adds this waiter to the queue without polling it and returns whether it is notified.
    ///
    /// A [`notify_one`](Notify::notify_one) call after this reaches the waiter. If this returns
    /// true, the future completes when it is polled. `enable` makes no difference to
    /// [`notify_waiters`](Notify::notify_waiters).
    ///
    /// Call this if several tasks check a condition and then wait. Without `enable`, two
    /// `notify_one` calls between the check and the first poll store only one permit, and one task
    /// waits although its condition holds. With `enable` before the check, each call finds its own
    /// waiter.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::collections::VecDeque;
    /// use std::pin::pin;
    /// use std::sync::Mutex;
    /// use wakeful::sync::Notify;
    ///
    /// /// A queue from which any number of tasks may pop.
    /// struct Queue<T> {
    ///     items: Mutex<VecDeque<T>>,
    ///     arrived: Notify,
    /// }
    ///
    /// impl<T> Queue<T> {
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
    /// # let queue = Queue { items: Mutex::default(), arrived: Notify::new() };
    /// # queue.push(1);
    /// # assert_eq!(queue.pop().await, 1);
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

    /// Adds this waiter to the queue without polling it and returns whether it is notified.
    ///
    /// See [`Notified::enable`] for when to call it.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::pin::pin;
    /// use std::sync::Arc;
    /// use wakeful::sync::Notify;
    ///
    /// # #[wakeful::main(flavor = "current_thread")]
    /// # async fn main() {
    /// let notify = Arc::new(Notify::new());
    /// let mut notified = pin!(notify.clone().notified_owned());
    /// assert!(!notified.as_mut().enable(), "it waits now");
    /// notify.notify_one();
    /// notified.await;
    /// # }
    /// ```
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
