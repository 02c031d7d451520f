//! `JoinSet`: a set of tasks whose outputs are awaited in the order in which the tasks end.

pub(crate) mod builder;
mod join;
mod slots;

pub use join::{JoinNext, JoinNextWithId};

use crate::runtime::Handle;
use crate::runtime::join_set::builder::Builder;
use crate::runtime::join_set::slots::Slots;
use crate::runtime::task_api::blocking::spawn_blocking;
use crate::runtime::task_api::local_set::{LocalSet, spawn_local};
use crate::runtime::task_api::spawn;
use crate::task::{AbortHandle, JoinHandle};
use std::fmt;

/// A set of tasks whose outputs are awaited in the order in which the tasks end.
///
/// All outputs have the same type. Awaiting the next output takes constant time, regardless of the
/// size of the set. Dropping the set aborts its tasks.
///
/// # Examples
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
    /// Set once `join_next` has returned `None`.
    has_returned_none: bool,
}

impl<T> JoinSet<T> {
    /// Creates an empty set.
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::task::JoinSet;
    ///
    /// let set: JoinSet<u32> = JoinSet::new();
    /// assert!(set.is_empty());
    /// ```
    pub fn new() -> Self {
        Self { slots: Slots::new(), has_returned_none: false }
    }

    /// Returns the number of tasks in the set.
    ///
    /// Ended tasks are counted until their outputs are removed.
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
    /// assert_eq!(set.len(), 2);
    /// set.join_next().await;
    /// assert_eq!(set.len(), 1);
    /// # }
    /// ```
    pub fn len(&self) -> usize {
        self.slots.len()
    }

    /// Returns whether the set has no tasks.
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::task::JoinSet;
    ///
    /// # #[wakeful::main]
    /// # async fn main() {
    /// let mut set = JoinSet::new();
    /// assert!(set.is_empty());
    /// set.spawn(async {});
    /// assert!(!set.is_empty());
    /// # }
    /// ```
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl<T: 'static> JoinSet<T> {
    /// Returns a builder that configures a task before it is spawned on the set.
    ///
    /// # Examples
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

    /// Adds a task to the set.
    pub(in crate::runtime) fn insert(&mut self, handle: JoinHandle<T>) -> AbortHandle {
        let abort = handle.abort_handle();
        self.slots.insert(handle);
        abort
    }

    /// Spawns a task on the current runtime and adds it to the set.
    ///
    /// # Panics
    ///
    /// If the thread has no current runtime.
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::task::JoinSet;
    ///
    /// # #[wakeful::main]
    /// # async fn main() {
    /// let mut set = JoinSet::new();
    /// let abort = set.spawn(async { 42 });
    /// assert_eq!(set.join_next().await.unwrap().unwrap(), 42);
    /// assert!(abort.is_finished());
    /// # }
    /// ```
    #[track_caller]
    pub fn spawn<F>(&mut self, task: F) -> AbortHandle
    where
        F: Future<Output = T>,
        F: Send + 'static,
        T: Send,
    {
        self.insert(spawn::spawn(task))
    }

    /// Spawns a task on the runtime of `handle` and adds it to the set.
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::runtime::Handle;
    /// use wakeful::task::JoinSet;
    ///
    /// # #[wakeful::main]
    /// # async fn main() {
    /// let mut set = JoinSet::new();
    /// set.spawn_on(async { 42 }, &Handle::current());
    /// assert_eq!(set.join_next().await.unwrap().unwrap(), 42);
    /// # }
    /// ```
    #[track_caller]
    pub fn spawn_on<F>(&mut self, task: F, handle: &Handle) -> AbortHandle
    where
        F: Future<Output = T>,
        F: Send + 'static,
        T: Send,
    {
        self.insert(handle.spawn(task))
    }

    /// Spawns a task that need not be `Send` with [`spawn_local`], and adds it to the set.
    ///
    /// # Panics
    ///
    /// If called outside a `LocalSet` or `LocalRuntime`.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::rc::Rc;
    /// use wakeful::task::{JoinSet, LocalSet};
    ///
    /// # #[wakeful::main(flavor = "current_thread")]
    /// # async fn main() {
    /// let mut set = JoinSet::new();
    /// LocalSet::new()
    ///     .run_until(async {
    ///         let shared = Rc::new(42);
    ///         set.spawn_local(async move { *shared });
    ///         assert_eq!(set.join_next().await.unwrap().unwrap(), 42);
    ///     })
    ///     .await;
    /// # }
    /// ```
    #[track_caller]
    pub fn spawn_local<F>(&mut self, task: F) -> AbortHandle
    where
        F: Future<Output = T>,
        F: 'static,
    {
        self.insert(spawn_local(task))
    }

    /// Spawns a task on a [`LocalSet`] and adds it to this set.
    ///
    /// The task runs when the `LocalSet` is polled.
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::task::{JoinSet, LocalSet};
    ///
    /// # #[wakeful::main(flavor = "current_thread")]
    /// # async fn main() {
    /// let (local, mut set) = (LocalSet::new(), JoinSet::new());
    /// set.spawn_local_on(async { 42 }, &local);
    /// local.await;
    /// assert_eq!(set.join_next().await.unwrap().unwrap(), 42);
    /// # }
    /// ```
    #[track_caller]
    pub fn spawn_local_on<F>(&mut self, task: F, local_set: &LocalSet) -> AbortHandle
    where
        F: Future<Output = T>,
        F: 'static,
    {
        self.insert(local_set.spawn_local(task))
    }

    /// Runs a closure on the blocking pool of the current runtime, and adds it to the set.
    ///
    /// A closure that has started cannot be aborted.
    ///
    /// # Panics
    ///
    /// If the thread has no current runtime.
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::task::JoinSet;
    ///
    /// # #[wakeful::main]
    /// # async fn main() {
    /// let mut set = JoinSet::new();
    /// set.spawn_blocking(|| (1..=100u32).sum::<u32>());
    /// assert_eq!(set.join_next().await.unwrap().unwrap(), 5050);
    /// # }
    /// ```
    #[track_caller]
    pub fn spawn_blocking<F>(&mut self, f: F) -> AbortHandle
    where
        F: FnOnce() -> T,
        F: Send + 'static,
        T: Send,
    {
        self.insert(spawn_blocking(f))
    }

    /// Runs a closure on the blocking pool of the runtime of `handle`, and adds it to the set.
    ///
    /// A closure that has started cannot be aborted.
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::runtime::Handle;
    /// use wakeful::task::JoinSet;
    ///
    /// # #[wakeful::main]
    /// # async fn main() {
    /// let mut set = JoinSet::new();
    /// set.spawn_blocking_on(|| 42, &Handle::current());
    /// assert_eq!(set.join_next().await.unwrap().unwrap(), 42);
    /// # }
    /// ```
    #[track_caller]
    pub fn spawn_blocking_on<F>(&mut self, f: F, handle: &Handle) -> AbortHandle
    where
        F: FnOnce() -> T,
        F: Send + 'static,
        T: Send,
    {
        self.insert(handle.spawn_blocking(f))
    }

    /// Aborts all tasks, but leaves them in the set.
    ///
    /// Awaiting the aborted tasks returns errors for which
    /// [`JoinError::is_cancelled`](crate::task::JoinError::is_cancelled) is true. Tasks that ended
    /// before the abort still return their outputs.
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
    /// set.abort_all();
    /// assert!(set.join_next().await.unwrap().unwrap_err().is_cancelled());
    /// # }
    /// ```
    pub fn abort_all(&mut self) {
        self.slots.abort_all();
    }

    /// Removes all tasks from the set without aborting them.
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::task::JoinSet;
    ///
    /// # #[wakeful::main]
    /// # async fn main() {
    /// let (tx, rx) = wakeful::sync::oneshot::channel();
    /// let mut set = JoinSet::new();
    /// set.spawn(async move { tx.send(42).unwrap() });
    /// set.detach_all();
    /// assert!(set.is_empty());
    /// assert_eq!(rx.await.unwrap(), 42);
    /// # }
    /// ```
    pub fn detach_all(&mut self) {
        self.slots.detach_all();
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
