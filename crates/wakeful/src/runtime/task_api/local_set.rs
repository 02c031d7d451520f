//! `LocalSet`: a set of tasks that stay on one thread.
//!
//! This is the public interface of `scheduler::local_set`.

mod host;

use crate::runtime::local_runtime::spawn_on_own_thread;
use crate::runtime::panic_policy::local_set_text;
use crate::runtime::task_api::spawn::options_here;
use crate::runtime::{Id, Runtime, UnhandledPanic, context};
use crate::scheduler::local_set::context::EnterGuard;
use crate::scheduler::local_set::wakers::SetPollerId;
use crate::scheduler::local_set::{AfterPoll, LocalScheduler};
use crate::scheduler::task_hooks::TaskHooks;
use crate::task::cell::SpawnOptions;
use crate::task::id::IdSource;
use crate::task::wait_kind::WaitKind;
use crate::task::wait_record::Wait;
use crate::task::wait_target::TargetWord;
use crate::task::{JoinHandle, enter_guard};
use std::fmt;
use std::marker::PhantomPinned;
use std::panic::Location;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

/// A set of tasks that need not be `Send`, because they run on the thread that created the set.
///
/// The tasks run only while the set is polled: inside [`run_until`](Self::run_until) or
/// [`block_on`](Self::block_on), or while a task awaits the set. Awaiting the set waits until all
/// its tasks have ended. Dropping the set drops its tasks.
///
/// A set needs no runtime of its own, only a thread that polls it. In a multi-thread runtime that
/// is the thread in `block_on`, because the set cannot move to a worker. [`spawn`](crate::spawn)
/// within a set still spawns on the runtime. If all tasks of a program are local, a
/// [`LocalRuntime`](crate::runtime::LocalRuntime) is simpler.
///
/// # Examples
///
/// ```
/// use std::rc::Rc;
/// use wakeful::task::{LocalSet, spawn_local};
///
/// # #[wakeful::main(flavor = "current_thread")]
/// # async fn main() {
/// let words = Rc::new(["stay", "here"]);
/// let set = LocalSet::new();
/// let length = set
///     .run_until(async {
///         let words = words.clone();
///         spawn_local(async move { words.concat().len() }).await.unwrap()
///     })
///     .await;
/// assert_eq!(length, 8);
/// # }
/// ```
pub struct LocalSet {
    local: Rc<LocalScheduler>,
    id: Id,
    created_at: &'static Location<'static>,
}

/// A guard that makes [`spawn_local`] spawn on a set; returned by [`LocalSet::enter`].
///
/// # Examples
///
/// ```
/// use wakeful::task::{LocalSet, spawn_local};
///
/// # #[wakeful::main(flavor = "current_thread")]
/// # async fn main() {
/// let set = LocalSet::new();
/// let guard = set.enter();
/// let task = spawn_local(async { 42 });
/// drop(guard);
/// set.await;
/// assert_eq!(task.await.unwrap(), 42);
/// # }
/// ```
#[must_use = "the set is left again when the guard is dropped"]
pub struct LocalEnterGuard {
    _entered: EnterGuard,
}

impl LocalSet {
    /// Creates an empty set on the calling thread.
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::task::LocalSet;
    ///
    /// # #[wakeful::main(flavor = "current_thread")]
    /// # async fn main() {
    /// let set = LocalSet::new();
    /// set.spawn_local(async { println!("local") });
    /// set.await;
    /// # }
    /// ```
    #[track_caller]
    pub fn new() -> LocalSet {
        let local = LocalScheduler::new(host::report_without_host, context::depth);
        LocalSet { local, id: Id::next(), created_at: Location::caller() }
    }

    /// Makes [`spawn_local`] spawn on this set until the guard is dropped.
    ///
    /// The tasks do not run until the set is polled. If the guard outlives the set, tasks spawned
    /// after the set is dropped are cancelled immediately.
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::task::{LocalSet, spawn_local};
    ///
    /// # #[wakeful::main(flavor = "current_thread")]
    /// # async fn main() {
    /// let set = LocalSet::new();
    /// let task = {
    ///     let _guard = set.enter();
    ///     spawn_local(async { 42 })
    /// };
    /// set.await;
    /// assert_eq!(task.await.unwrap(), 42);
    /// # }
    /// ```
    pub fn enter(&self) -> LocalEnterGuard {
        LocalEnterGuard { _entered: self.local.enter() }
    }

    /// Spawns a task on this set; the task runs when the set is polled.
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::task::LocalSet;
    ///
    /// # #[wakeful::main(flavor = "current_thread")]
    /// # async fn main() {
    /// let set = LocalSet::new();
    /// let task = set.spawn_local(async { "at last" });
    /// set.await;
    /// assert_eq!(task.await.unwrap(), "at last");
    /// # }
    /// ```
    #[track_caller]
    pub fn spawn_local<F>(&self, future: F) -> JoinHandle<F::Output>
    where
        F: Future + 'static,
        F::Output: 'static,
    {
        self.spawn(future, options_here())
    }

    pub(crate) fn spawn<F>(&self, future: F, options: SpawnOptions) -> JoinHandle<F::Output>
    where
        F: Future + 'static,
        F::Output: 'static,
    {
        spawn_in(&self.local, future, options)
    }

    /// Runs a future to completion on this thread and on `rt`, together with the set's tasks.
    ///
    /// Tasks that have not ended by then run again when the set is next polled.
    ///
    /// # Panics
    ///
    /// See [`Runtime::block_on`].
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::runtime::Runtime;
    /// use wakeful::task::{LocalSet, spawn_local};
    ///
    /// let runtime = Runtime::new()?;
    /// let set = LocalSet::new();
    /// let answer = set.block_on(&runtime, async { spawn_local(async { 42 }).await.unwrap() });
    /// assert_eq!(answer, 42);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    #[track_caller]
    pub fn block_on<F>(&self, rt: &Runtime, future: F) -> F::Output
    where
        F: Future,
    {
        rt.block_on(self.run_until(future))
    }

    /// Runs a future together with the set's tasks.
    ///
    /// Inside the future, [`spawn_local`] spawns on this set. Tasks that have not ended when the
    /// future completes run again when the set is next polled.
    ///
    /// # Cancel safety
    ///
    /// As cancel safe as `future`. Dropping the returned future does not cancel the tasks. The set
    /// keeps the waker of the last poll, see [wakers](crate::sync#wakers).
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::task::{LocalSet, spawn_local};
    ///
    /// # #[wakeful::main(flavor = "current_thread")]
    /// # async fn main() {
    /// let set = LocalSet::new();
    /// let answer = set.run_until(async { spawn_local(async { 42 }).await.unwrap() }).await;
    /// assert_eq!(answer, 42);
    /// # }
    /// ```
    pub fn run_until<F>(&self, future: F) -> RunUntil<'_, F>
    where
        F: Future,
    {
        RunUntil { set: self, future, waker: None, _pinned: PhantomPinned }
    }

    /// Returns the id of the set, which is unique among the sets and runtimes of the process.
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::task::LocalSet;
    ///
    /// assert_ne!(LocalSet::new().id(), LocalSet::new().id());
    /// ```
    pub fn id(&self) -> Id {
        self.id
    }

    /// Sets what happens when a task of this set panics.
    ///
    /// With [`UnhandledPanic::ShutdownRuntime`], all tasks of the set are dropped, and the next
    /// poll of the set panics. With any other value, the setting of the runtime that polls the set
    /// applies to panics that no code observes.
    ///
    /// # Examples
    ///
    /// ```should_panic
    /// use wakeful::runtime::UnhandledPanic;
    /// use wakeful::task::LocalSet;
    ///
    /// # #[wakeful::main(flavor = "current_thread")]
    /// # async fn main() {
    /// let mut set = LocalSet::new();
    /// set.unhandled_panic(UnhandledPanic::ShutdownRuntime);
    /// set.spawn_local(async { panic!("this ends the set") });
    /// set.await;
    /// # }
    /// ```
    pub fn unhandled_panic(&mut self, behavior: UnhandledPanic) -> &mut Self {
        let shuts_down = matches!(behavior, UnhandledPanic::ShutdownRuntime);
        self.local.set_on_panic(shuts_down.then_some(local_set_text));
        self
    }

    /// Polls the set: calls `before`, and then polls the tasks unless `before` is ready.
    fn poll_tasks<R>(
        &self,
        waker: SetPollerId,
        cx: &mut Context<'_>,
        before: impl FnOnce(&mut Context<'_>) -> Poll<R>,
    ) -> Poll<R> {
        // The tasks must not move to another thread.
        let _no_blocking = enter_guard::forbid_block_in_place();
        let order = host::attach(&self.local);
        self.local.in_poll(|| {
            let ready = before(cx);
            if ready.is_ready() {
                return ready;
            }
            match self.local.run_tasks(order) {
                AfterPoll::Ready => {
                    crate::task::context::mark_block_on_worked();
                    cx.waker().wake_by_ref();
                }
                AfterPoll::Idle => self.local.wait(waker, cx.waker()),
            }
            Poll::Pending
        })
    }
}

impl Default for LocalSet {
    #[track_caller]
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for LocalSet {
    fn drop(&mut self) {
        let _no_blocking = enter_guard::forbid_block_in_place();
        self.local.close();
    }
}

/// Runs the tasks until all of them have ended.
impl Future for LocalSet {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let until_empty = |_: &mut Context<'_>| Poll::<()>::Pending;
        let _ = self.poll_tasks(SetPollerId::OF_THE_SET, cx, until_empty);
        if self.local.is_empty() {
            self.local.leave(SetPollerId::OF_THE_SET);
            return Poll::Ready(());
        }
        let site = self.created_at;
        crate::task::context::record_wait_at_resource(|since_ms| Wait {
            kind: WaitKind::Join,
            target: TargetWord::NONE,
            site,
            since_ms,
        });
        Poll::Pending
    }
}

pin_project_lite::pin_project! {
    /// The future of [`LocalSet::run_until`].
    #[must_use = "futures do nothing unless polled"]
    pub struct RunUntil<'a, F> {
        set: &'a LocalSet,
        #[pin]
        future: F,
        // This future's id in the set, from its first poll to its last.
        waker: Option<SetPollerId>,
        #[pin]
        _pinned: PhantomPinned,
    }

    impl<F> PinnedDrop for RunUntil<'_, F> {
        fn drop(this: Pin<&mut Self>) {
            if let Some(waker) = this.waker {
                this.set.local.leave_waker(waker);
            }
        }
    }
}

impl<F: Future> Future for RunUntil<'_, F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        let this = self.project();
        let local = &this.set.local;
        let waker = *this.waker.get_or_insert_with(|| local.new_poller());
        let polled = this.set.poll_tasks(waker, cx, |cx| this.future.poll(cx));
        if polled.is_ready() {
            *this.waker = None;
            local.leave(waker);
        }
        polled
    }
}

/// Spawns a task that stays on this thread and need not be `Send`.
///
/// The task belongs to the innermost [`LocalSet`] or [`LocalRuntime`](crate::runtime::LocalRuntime)
/// that the calling code runs in. For a set that is polled inside a `LocalRuntime`, that is the
/// set.
///
/// # Panics
///
/// - If called outside a `LocalSet` or `LocalRuntime`.
/// - If the thread has entered a `LocalRuntime` of another thread.
///
/// # Examples
///
/// ```
/// use std::cell::Cell;
/// use std::rc::Rc;
/// use wakeful::task::{LocalSet, spawn_local};
///
/// # #[wakeful::main(flavor = "current_thread")]
/// # async fn main() {
/// LocalSet::new()
///     .run_until(async {
///         let count = Rc::new(Cell::new(0));
///         let shared = count.clone();
///         spawn_local(async move { shared.set(shared.get() + 1) }).await.unwrap();
///         assert_eq!(count.get(), 1);
///     })
///     .await;
/// # }
/// ```
#[track_caller]
pub fn spawn_local<F>(future: F) -> JoinHandle<F::Output>
where
    F: Future + 'static,
    F::Output: 'static,
{
    let options = options_here();
    spawn_local_with(future, || options)
}

/// Spawns like [`spawn_local`]. Calls `options` only if there is a set or runtime to spawn on.
#[track_caller]
pub(crate) fn spawn_local_with<F>(
    future: F,
    options: impl FnOnce() -> SpawnOptions,
) -> JoinHandle<F::Output>
where
    F: Future + 'static,
    F::Output: 'static,
{
    let runtime = context::with_current(|shared| shared.local_to);
    if let Some((local, runtimes)) = LocalScheduler::current() {
        let entered_later = context::depth() > runtimes;
        if !(entered_later && matches!(runtime, Some(Some(_)))) {
            return spawn_in(&local, future, options());
        }
    }
    match runtime {
        Some(Some(thread)) if thread == std::thread::current().id() => {
            let options = options();
            let spawned = context::with_current(|shared| {
                // SAFETY: `local_to` says that this is a local runtime, and this is its thread.
                unsafe { spawn_on_own_thread(shared, future, options) }
            });
            spawned.expect("the thread has a current runtime: `local_to` was read from it")
        }
        Some(Some(_)) => panic!(
            "Local tasks can only be spawned on a LocalRuntime from the thread the runtime was \
             created on"
        ),
        Some(None) | None => panic!(
            "`spawn_local` called from outside of a `task::LocalSet` or `runtime::LocalRuntime`"
        ),
    }
}

/// Spawns a task on a set, with an id from the current runtime if there is one.
fn spawn_in<F>(local: &LocalScheduler, future: F, options: SpawnOptions) -> JoinHandle<F::Output>
where
    F: Future + 'static,
    F::Output: 'static,
{
    static PROCESS: IdSource = IdSource::Process;
    let mut task = Some((future, options));
    let mut spawn = |ids: &IdSource, hooks: Option<&TaskHooks>| {
        let (future, options) = task.take().expect("spawned once");
        local.spawn(future, options, ids, hooks)
    };
    let join = context::with_current(|shared| {
        let base = shared.base();
        spawn(base.ids(), Some(&base.config.task_hooks))
    });
    match join {
        Some(join) => join,
        None => spawn(&PROCESS, None),
    }
}

impl fmt::Debug for LocalSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LocalSet")
            .field("id", &self.id)
            .field("tasks", &self.local.unfinished())
            .finish()
    }
}

impl fmt::Debug for LocalEnterGuard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LocalEnterGuard").finish()
    }
}

impl<F> fmt::Debug for RunUntil<'_, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RunUntil").field("set", self.set).finish_non_exhaustive()
    }
}
