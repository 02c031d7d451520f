//! Awaiting the tasks of a `JoinSet`.

use crate::runtime::join_set::JoinSet;
use crate::runtime::join_set::slots::Ended;
use crate::task::futile::{self, FutileKind};
use crate::task::{Id, JoinError, coop};
use std::marker::PhantomPinned;
use std::panic::Location;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

/// Methods that wait for tasks.
impl<T: 'static> JoinSet<T> {
    /// Waits for the next task to end, removes it from the set and returns its output.
    ///
    /// Returns `None` if the set is empty.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: a task that has ended stays in the set until its output is returned. The set
    /// keeps the waker of the last poll, see [wakers](crate::sync#wakers).
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::task::JoinSet;
    ///
    /// # #[wakeful::main]
    /// # async fn main() {
    /// let mut set = JoinSet::new();
    /// set.spawn(async { 1 });
    /// set.spawn(async { 2 });
    /// let mut sum = 0;
    /// while let Some(output) = set.join_next().await {
    ///     sum += output.unwrap();
    /// }
    /// assert_eq!(sum, 3);
    /// # }
    /// ```
    #[track_caller]
    pub fn join_next(&mut self) -> JoinNext<'_, T> {
        JoinNext { inner: self.join_next_with_id(), _pinned: PhantomPinned }
    }

    /// Waits for the next task to end, and returns its id together with its output.
    ///
    /// Returns `None` if the set is empty. [`JoinError::id`] has the id of a task that failed.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: a task that has ended stays in the set until its output is returned.
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::task::JoinSet;
    ///
    /// # #[wakeful::main]
    /// # async fn main() {
    /// let mut set = JoinSet::new();
    /// let id = set.spawn(async { 42 }).id();
    /// assert_eq!(set.join_next_with_id().await.unwrap().unwrap(), (id, 42));
    /// # }
    /// ```
    #[track_caller]
    pub fn join_next_with_id(&mut self) -> JoinNextWithId<'_, T> {
        let site = Location::caller();
        JoinNextWithId { set: self, site, _pinned: PhantomPinned }
    }

    /// Removes a task that has ended and returns its output, without waiting.
    ///
    /// Returns `None` if no task has ended, or if the set is empty.
    ///
    /// # Errors
    ///
    /// The output is a [`JoinError`] if the task panicked or was cancelled.
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::task::JoinSet;
    ///
    /// # #[wakeful::main(flavor = "current_thread")]
    /// # async fn main() {
    /// let mut set = JoinSet::new();
    /// set.spawn(async { 42 });
    /// assert!(set.try_join_next().is_none());
    /// wakeful::task::yield_now().await;
    /// assert_eq!(set.try_join_next().unwrap().unwrap(), 42);
    /// # }
    /// ```
    pub fn try_join_next(&mut self) -> Option<Result<T, JoinError>> {
        self.slots.take_ended().map(|(_, output)| output)
    }

    /// Removes a task that has ended and returns its id and output, without waiting.
    ///
    /// Returns `None` if no task has ended, or if the set is empty.
    ///
    /// # Errors
    ///
    /// The output is a [`JoinError`] if the task panicked or was cancelled. [`JoinError::id`] has
    /// the id.
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::task::JoinSet;
    ///
    /// # #[wakeful::main(flavor = "current_thread")]
    /// # async fn main() {
    /// let mut set = JoinSet::new();
    /// let id = set.spawn(async { 42 }).id();
    /// wakeful::task::yield_now().await;
    /// assert_eq!(set.try_join_next_with_id().unwrap().unwrap(), (id, 42));
    /// # }
    /// ```
    pub fn try_join_next_with_id(&mut self) -> Option<Result<(Id, T), JoinError>> {
        self.slots.take_ended().map(with_id)
    }

    /// Aborts all tasks and waits until they have ended.
    ///
    /// Their outputs and panics are dropped.
    ///
    /// # Cancel safety
    ///
    /// The first poll aborts the tasks. If the future is dropped later, tasks that it has not
    /// awaited stay in the set. The set keeps the waker of the last poll, see
    /// [wakers](crate::sync#wakers).
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// use wakeful::task::JoinSet;
    ///
    /// # #[wakeful::main]
    /// # async fn main() {
    /// let mut set = JoinSet::new();
    /// set.spawn(wakeful::time::sleep(Duration::from_secs(3600)));
    /// set.shutdown().await;
    /// assert!(set.is_empty());
    /// # }
    /// ```
    pub async fn shutdown(&mut self) {
        self.abort_all();
        while self.join_next().await.is_some() {}
    }

    /// Waits for all tasks and returns their outputs, in the order in which the tasks ended.
    ///
    /// # Cancel safety
    ///
    /// Not cancel safe: dropping the future drops the set, which aborts its tasks and loses their
    /// outputs.
    ///
    /// # Panics
    ///
    /// If a task panicked or was cancelled. This aborts the other tasks. Use
    /// [`join_next`](Self::join_next) to handle such errors.
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::task::JoinSet;
    ///
    /// # #[wakeful::main(flavor = "current_thread")]
    /// # async fn main() {
    /// let squares: JoinSet<u32> = (0..4).map(|n| async move { n * n }).collect();
    /// assert_eq!(squares.join_all().await, [0, 1, 4, 9]);
    /// # }
    /// ```
    pub async fn join_all(mut self) -> Vec<T> {
        let mut outputs = Vec::with_capacity(self.len());
        while let Some(output) = self.join_next().await {
            match output {
                Ok(output) => outputs.push(output),
                Err(error) => match error.try_into_panic() {
                    Ok(payload) => std::panic::resume_unwind(payload),
                    Err(error) => panic!("{error}"),
                },
            }
        }
        outputs
    }

    /// Polls for the next task to end.
    ///
    /// Returns:
    ///
    /// - `Ready(Some(output))` with the output of a task that has ended.
    /// - `Ready(None)` if the set is empty.
    /// - `Pending` otherwise. The waker of `cx` is woken when a task may have ended. Only the waker
    ///   of the last call is woken.
    ///
    /// # Errors
    ///
    /// The output is a [`JoinError`] if the task panicked or was cancelled.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::future::poll_fn;
    /// use wakeful::task::JoinSet;
    ///
    /// # #[wakeful::main]
    /// # async fn main() {
    /// let mut set = JoinSet::new();
    /// set.spawn(async { 42 });
    /// let output = poll_fn(|cx| set.poll_join_next(cx)).await;
    /// assert_eq!(output.unwrap().unwrap(), 42);
    /// # }
    /// ```
    pub fn poll_join_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<T, JoinError>>> {
        self.poll_ended(cx).map(|ended| ended.map(|(_, output)| output))
    }

    /// Polls for the next task to end, and returns its id together with its output.
    ///
    /// Returns `Ready(None)` if the set is empty. If the result is `Pending`, the waker of `cx` is
    /// woken when a task may have ended. Only the waker of the last call is woken.
    ///
    /// # Errors
    ///
    /// The output is a [`JoinError`] if the task panicked or was cancelled. [`JoinError::id`] has
    /// the id.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[wakeful::main]
    /// # async fn main() {
    /// use std::future::poll_fn;
    /// use wakeful::task::JoinSet;
    ///
    /// let mut set = JoinSet::new();
    /// let id = set.spawn(async { 42 }).id();
    /// let output = poll_fn(|cx| set.poll_join_next_with_id(cx)).await;
    /// assert_eq!(output.unwrap().unwrap(), (id, 42));
    /// # }
    /// ```
    pub fn poll_join_next_with_id(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<(Id, T), JoinError>>> {
        self.poll_ended(cx).map(|ended| ended.map(with_id))
    }

    /// Counts another call at `site` that finds the set empty.
    #[cold]
    fn count_empty_result(&mut self, site: &'static Location<'static>) {
        if std::mem::replace(&mut self.has_returned_none, true) {
            futile::count(FutileKind::JoinNext, std::ptr::from_ref(self).addr() as u64, Some(site));
        }
    }

    fn poll_ended(&mut self, cx: &mut Context<'_>) -> Poll<Option<Ended<T>>> {
        if self.is_empty() {
            return Poll::Ready(None);
        }
        // Checked before an output is removed: a task without budget must not lose one.
        let progress = ready!(coop::poll_proceed(cx));
        match self.slots.take_ended_or_register(cx.waker()) {
            Some(ended) => {
                progress.made_progress();
                Poll::Ready(Some(ended))
            }
            None => Poll::Pending,
        }
    }
}

fn with_id<T>((id, output): Ended<T>) -> Result<(Id, T), JoinError> {
    output.map(|output| (id, output))
}

pin_project_lite::pin_project! {
    /// The future of [`JoinSet::join_next`].
    #[derive(Debug)]
    #[must_use = "futures do nothing unless polled"]
    pub struct JoinNext<'a, T> {
        inner: JoinNextWithId<'a, T>,
        #[pin]
        _pinned: PhantomPinned,
    }
}

pin_project_lite::pin_project! {
    /// The future of [`JoinSet::join_next_with_id`].
    #[derive(Debug)]
    #[must_use = "futures do nothing unless polled"]
    pub struct JoinNextWithId<'a, T> {
        set: &'a mut JoinSet<T>,
        site: &'static Location<'static>,
        #[pin]
        _pinned: PhantomPinned,
    }
}

impl<T: 'static> JoinNextWithId<'_, T> {
    fn poll_ended(
        set: &mut JoinSet<T>,
        cx: &mut Context<'_>,
        site: &'static Location<'static>,
    ) -> Poll<Option<Ended<T>>> {
        if set.is_empty() {
            set.count_empty_result(site);
            return Poll::Ready(None);
        }
        let polled = set.poll_ended(cx);
        if polled.is_pending() {
            set.slots.record_wait(cx.waker(), site);
        }
        polled
    }
}

impl<T: 'static> Future for JoinNext<'_, T> {
    type Output = Option<Result<T, JoinError>>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let JoinNextWithId { set, site, .. } = self.project().inner;
        let polled = JoinNextWithId::poll_ended(set, cx, site);
        polled.map(|ended| ended.map(|(_, output)| output))
    }
}

impl<T: 'static> Future for JoinNextWithId<'_, T> {
    type Output = Option<Result<(Id, T), JoinError>>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        let polled = Self::poll_ended(this.set, cx, this.site);
        polled.map(|ended| ended.map(with_id))
    }
}
