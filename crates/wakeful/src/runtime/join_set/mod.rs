//! Sets of tasks that are awaited together, each when it ends.

pub(crate) mod builder;
mod slots;

use crate::runtime::Handle;
use crate::runtime::join_set::builder::Builder;
use crate::runtime::join_set::slots::{Ended, Slots};
use crate::runtime::task_api::blocking::spawn_blocking;
use crate::runtime::task_api::local_set::{LocalSet, spawn_local};
use crate::runtime::task_api::spawn;
use crate::task::wait_kind::WaitKind;
use crate::task::wait_record::Wait;
use crate::task::wait_target::TargetWord;
use crate::task::{AbortHandle, Id, JoinError, JoinHandle, context, coop};
use std::fmt;
use std::marker::PhantomPinned;
use std::panic::Location;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

/// A collection of tasks, whose outputs are awaited in the order in which they
/// end.
///
/// Each task that ends costs the same, however many are in the set. All outputs
/// have the same type. Dropping the set aborts its tasks.
///
/// ```
/// use wakeful::task::JoinSet;
///
/// # #[wakeful::main]
/// # async fn main() {
/// let mut set = JoinSet::new();
/// for n in 0..10 {
///     set.spawn(async move { n * n });
/// }
/// let mut sum = 0;
/// while let Some(square) = set.join_next().await {
///     sum += square.unwrap();
/// }
/// assert_eq!(sum, 285);
/// # }
/// ```
pub struct JoinSet<T> {
    slots: Slots<T>,
}

impl<T> JoinSet<T> {
    /// An empty set.
    pub fn new() -> Self {
        Self { slots: Slots::new() }
    }

    /// How many tasks are in the set, counting those that have ended and were not
    /// taken out yet.
    pub fn len(&self) -> usize {
        self.slots.len()
    }

    /// Whether the set has no tasks.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl<T: 'static> JoinSet<T> {
    /// Configures a task before it is spawned on the set.
    ///
    /// ```
    /// # #[wakeful::main]
    /// # async fn main() -> std::io::Result<()> {
    /// let mut set = wakeful::task::JoinSet::new();
    /// set.build_task().name("answer").spawn(async { 42 })?;
    /// assert_eq!(set.join_next().await.unwrap().unwrap(), 42);
    /// # Ok(())
    /// # }
    /// ```
    pub fn build_task(&mut self) -> Builder<'_, T> {
        Builder::new(self)
    }

    pub(in crate::runtime) fn insert(&mut self, handle: JoinHandle<T>) -> AbortHandle {
        let abort = handle.abort_handle();
        self.slots.insert(handle);
        abort
    }

    /// Spawns a task on the current runtime.
    ///
    /// # Panics
    ///
    /// Outside of a runtime.
    #[track_caller]
    pub fn spawn<F>(&mut self, task: F) -> AbortHandle
    where
        F: Future<Output = T>,
        F: Send + 'static,
        T: Send,
    {
        self.insert(spawn::spawn(task))
    }

    /// Spawns a task on another runtime.
    #[track_caller]
    pub fn spawn_on<F>(&mut self, task: F, handle: &Handle) -> AbortHandle
    where
        F: Future<Output = T>,
        F: Send + 'static,
        T: Send,
    {
        self.insert(handle.spawn(task))
    }

    /// Spawns a task that stays on this thread; see [`spawn_local`].
    ///
    /// # Panics
    ///
    /// Outside of a `LocalSet` and of a `LocalRuntime`.
    #[track_caller]
    pub fn spawn_local<F>(&mut self, task: F) -> AbortHandle
    where
        F: Future<Output = T>,
        F: 'static,
    {
        self.insert(spawn_local(task))
    }

    /// Spawns a task on a [`LocalSet`]. It runs when that is polled.
    #[track_caller]
    pub fn spawn_local_on<F>(&mut self, task: F, local_set: &LocalSet) -> AbortHandle
    where
        F: Future<Output = T>,
        F: 'static,
    {
        self.insert(local_set.spawn_local(task))
    }

    /// Runs a closure on the blocking pool of the current runtime. Once it has
    /// started it cannot be aborted.
    ///
    /// # Panics
    ///
    /// Outside of a runtime.
    #[track_caller]
    pub fn spawn_blocking<F>(&mut self, f: F) -> AbortHandle
    where
        F: FnOnce() -> T,
        F: Send + 'static,
        T: Send,
    {
        self.insert(spawn_blocking(f))
    }

    /// Runs a closure on the blocking pool of another runtime.
    #[track_caller]
    pub fn spawn_blocking_on<F>(&mut self, f: F, handle: &Handle) -> AbortHandle
    where
        F: FnOnce() -> T,
        F: Send + 'static,
        T: Send,
    {
        self.insert(handle.spawn_blocking(f))
    }

    /// Awaits the next task to end, takes it out of the set and gives its output;
    /// `None` if the set is empty.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: a task that has ended stays in the set until its output was
    /// given out. The set keeps the waker of the last poll: see
    /// [wakers](crate::sync#wakers).
    #[track_caller]
    pub fn join_next(&mut self) -> JoinNext<'_, T> {
        JoinNext { inner: self.join_next_with_id(), _pinned: PhantomPinned }
    }

    /// As [`join_next`](Self::join_next), with the task's id. On an error, ask
    /// [`JoinError::id`].
    ///
    /// # Cancel safety
    ///
    /// Cancel safe, as `join_next` is.
    #[track_caller]
    pub fn join_next_with_id(&mut self) -> JoinNextWithId<'_, T> {
        let site = Location::caller();
        JoinNextWithId { set: self, site, _pinned: PhantomPinned }
    }

    /// As [`join_next`](Self::join_next), without waiting: `None` if no task has
    /// ended, or the set is empty.
    pub fn try_join_next(&mut self) -> Option<Result<T, JoinError>> {
        self.slots.take_ended().map(|(_, output)| output)
    }

    /// As [`try_join_next`](Self::try_join_next), with the task's id.
    pub fn try_join_next_with_id(&mut self) -> Option<Result<(Id, T), JoinError>> {
        self.slots.take_ended().map(with_id)
    }

    /// Aborts all tasks and waits until they have ended. Their outputs, and panics
    /// while they end, are dropped.
    ///
    /// # Cancel safety
    ///
    /// Once it was polled the tasks are aborted. Those that were not awaited stay in the
    /// set, which keeps the waker of the last poll: see [wakers](crate::sync#wakers).
    pub async fn shutdown(&mut self) {
        self.abort_all();
        while self.join_next().await.is_some() {}
    }

    /// Awaits all tasks and gives their outputs, in the order in which they ended.
    ///
    /// # Cancel safety
    ///
    /// Dropped before it is ready, the set is dropped: its tasks are aborted, and the
    /// outputs are lost.
    ///
    /// # Panics
    ///
    /// If a task panicked or was cancelled; the others are aborted then. For
    /// anything milder use [`join_next`](Self::join_next).
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

    /// Aborts all tasks. They stay in the set: awaiting them gives cancelled
    /// errors, or outputs for those that were faster.
    pub fn abort_all(&mut self) {
        self.slots.abort_all();
    }

    /// Takes all tasks out of the set and lets them go on alone.
    pub fn detach_all(&mut self) {
        self.slots.detach_all();
    }

    /// Polls for the next task to end. `Pending` means that the waker of `cx`, the
    /// one of the last call counts, is woken when there may be one; `Ready(None)`
    /// that the set is empty.
    pub fn poll_join_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<T, JoinError>>> {
        self.poll_ended(cx).map(|ended| ended.map(|(_, output)| output))
    }

    /// As [`poll_join_next`](Self::poll_join_next), with the task's id.
    pub fn poll_join_next_with_id(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<(Id, T), JoinError>>> {
        self.poll_ended(cx).map(|ended| ended.map(with_id))
    }

    fn poll_ended(&mut self, cx: &mut Context<'_>) -> Poll<Option<Ended<T>>> {
        if self.is_empty() {
            return Poll::Ready(None);
        }
        // Before anything is taken out: a task without budget loses nothing.
        let progress = ready!(coop::poll_proceed(cx));
        match self.slots.take_ended_or_wait(cx.waker()) {
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
        let polled = set.poll_ended(cx);
        if polled.is_pending() {
            let (kind, target) = (WaitKind::Join, TargetWord::NONE);
            context::record_wait(|since_ms| Wait { kind, target, site, since_ms });
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

impl<T> Default for JoinSet<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T> fmt::Debug for JoinSet<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JoinSet").field("len", &self.len()).finish()
    }
}

/// Spawns every future on the current runtime.
impl<T, F> FromIterator<F> for JoinSet<T>
where
    F: Future<Output = T>,
    F: Send + 'static,
    T: Send + 'static,
{
    fn from_iter<I: IntoIterator<Item = F>>(iter: I) -> Self {
        let mut set = Self::new();
        set.extend(iter);
        set
    }
}

/// Spawns every future on the current runtime.
impl<T, F> Extend<F> for JoinSet<T>
where
    F: Future<Output = T>,
    F: Send + 'static,
    T: Send + 'static,
{
    fn extend<I: IntoIterator<Item = F>>(&mut self, iter: I) {
        for future in iter {
            self.spawn(future);
        }
    }
}
