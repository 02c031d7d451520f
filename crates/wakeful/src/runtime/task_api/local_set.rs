//! Sets of tasks that stay on one thread: what the user sees of
//! `scheduler::local`.

use crate::inspect::{Orphan, Report, Reporter};
use crate::runtime::inner::{Flavor, Shared};
use crate::runtime::local_runtime::spawn_on_own_thread;
use crate::runtime::task_api::spawn::birth_here;
use crate::runtime::{Id, Runtime, UnhandledPanic, context};
use crate::scheduler::base::SchedulerBase;
use crate::scheduler::config::NextTask;
use crate::scheduler::local_set::context::Entered;
use crate::scheduler::local_set::wakers::SetWaker;
use crate::scheduler::local_set::{Host, Left, LocalScheduler};
use crate::task::arena::Schedule as _;
use crate::task::cell::SpawnOptions;
use crate::task::id::IdSource;
use crate::task::runnable::TaskRef;
use crate::task::wait_kind::WaitKind;
use crate::task::wait_record::Wait;
use crate::task::wait_target::TargetWord;
use crate::task::{JoinHandle, enter_guard};
use std::fmt;
use std::marker::PhantomPinned;
use std::panic::Location;
use std::pin::Pin;
use std::ptr;
use std::rc::Rc;
use std::sync::{Arc, Weak};
use std::task::{Context, Poll};
use std::time::Duration;

/// A set of tasks that all run on the thread that made the set, so that they
/// need not be `Send`.
///
/// The tasks run while the set is polled: inside [`run_until`](Self::run_until)
/// or [`block_on`](Self::block_on), or while the set itself is awaited, which
/// goes on until all its tasks are done. In between they wait. Dropping the set
/// drops them.
///
/// A set needs no runtime of its own, only somebody to poll it; inside a
/// multi-thread runtime, that has to be a thread in `block_on`, since the set
/// cannot be moved to a worker. [`spawn`](crate::spawn) from within a set still
/// spawns on the runtime.
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
///         let mine = words.clone();
///         spawn_local(async move { mine.concat().len() }).await.unwrap()
///     })
///     .await;
/// assert_eq!(length, 8);
/// # }
/// ```
pub struct LocalSet {
    local: Rc<LocalScheduler>,
    id: Id,
    made_at: &'static Location<'static>,
}

/// Makes a set the one that [`spawn_local`] spawns on, until it is dropped; from
/// [`LocalSet::enter`].
#[must_use = "the set is left again when the guard is dropped"]
pub struct LocalEnterGuard {
    _entered: Entered,
}

impl LocalSet {
    /// An empty set for the calling thread.
    #[track_caller]
    pub fn new() -> LocalSet {
        let local = LocalScheduler::new(report_alone, context::depth);
        LocalSet { local, id: Id::next(), made_at: Location::caller() }
    }

    /// Makes this set the one that [`spawn_local`] spawns on, without polling it:
    /// the tasks wait until somebody does. Tasks spawned through a guard that
    /// outlives the set are cancelled at once.
    pub fn enter(&self) -> LocalEnterGuard {
        LocalEnterGuard { _entered: self.local.enter() }
    }

    /// Spawns a task on this set. It runs when the set is polled, now or later.
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
        self.spawn(future, birth_here())
    }

    pub(crate) fn spawn<F>(&self, future: F, birth: SpawnOptions) -> JoinHandle<F::Output>
    where
        F: Future + 'static,
        F::Output: 'static,
    {
        spawn_in(&self.local, future, birth)
    }

    /// Runs a future on a runtime and on this thread, to its end, and the set's
    /// tasks meanwhile. Tasks that are not done by then wait for the next poll of
    /// the set.
    ///
    /// # Panics
    ///
    /// From within a runtime, or if the future panics.
    #[track_caller]
    pub fn block_on<F>(&self, rt: &Runtime, future: F) -> F::Output
    where
        F: Future,
    {
        rt.block_on(self.run_until(future))
    }

    /// Runs a future and, meanwhile, the set's tasks. Inside the future
    /// [`spawn_local`] spawns on this set. Tasks that are not done when the future
    /// is wait for the next poll of the set.
    ///
    /// # Cancel safety
    ///
    /// As cancel safe as `future`: the tasks are not cancelled when it is
    /// dropped. The set keeps the waker of the last poll: see
    /// [wakers](crate::sync#wakers).
    pub fn run_until<F>(&self, future: F) -> RunUntil<'_, F>
    where
        F: Future,
    {
        RunUntil { set: self, future, poller: None, _pinned: PhantomPinned }
    }

    /// The set's id, unique among sets and runtimes of the process.
    pub fn id(&self) -> Id {
        self.id
    }

    /// What happens when a task of this set panics. With
    /// [`UnhandledPanic::ShutdownRuntime`] all tasks are dropped and whoever polls
    /// the set panics.
    pub fn unhandled_panic(&mut self, behavior: UnhandledPanic) -> &mut Self {
        self.local.set_on_panic(behavior);
        self
    }

    /// One poll of the set: `before` first, and the tasks unless that is ready.
    fn poll_tasks<R>(
        &self,
        poller: SetWaker,
        cx: &mut Context<'_>,
        before: impl FnOnce(&mut Context<'_>) -> Poll<R>,
    ) -> Poll<R> {
        // What is polled here may not leave the thread.
        let _no_blocking = enter_guard::forbid_block_in_place();
        let order = settle_in(&self.local);
        self.local.in_poll(|| {
            let ready = before(cx);
            if ready.is_ready() {
                return ready;
            }
            match self.local.run_tasks(order) {
                Left::Work => {
                    crate::task::context::mark_block_on_worked();
                    cx.waker().wake_by_ref();
                }
                Left::Nothing => self.local.wait(poller, cx.waker()),
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

/// Runs the tasks until all of them are done.
impl Future for LocalSet {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let until_empty = |_: &mut Context<'_>| Poll::<()>::Pending;
        let _ = self.poll_tasks(SetWaker::OF_THE_SET, cx, until_empty);
        if self.local.is_empty() {
            self.local.leave(SetWaker::OF_THE_SET);
            return Poll::Ready(());
        }
        let site = self.made_at;
        crate::task::context::record_wait(|since_ms| Wait {
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
        // Who we are to the set, from the first poll to the last.
        poller: Option<SetWaker>,
        #[pin]
        _pinned: PhantomPinned,
    }

    impl<F> PinnedDrop for RunUntil<'_, F> {
        fn drop(this: Pin<&mut Self>) {
            if let Some(poller) = this.poller {
                this.set.local.leave_waker(poller);
            }
        }
    }
}

impl<F: Future> Future for RunUntil<'_, F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        let this = self.project();
        let local = &this.set.local;
        let poller = *this.poller.get_or_insert_with(|| local.new_poller());
        let polled = this.set.poll_tasks(poller, cx, |cx| this.future.poll(cx));
        if polled.is_ready() {
            *this.poller = None;
            local.leave(poller);
        }
        polled
    }
}

/// Spawns a task that stays on this thread: on the [`LocalSet`] that the calling
/// code runs in, or on the [`LocalRuntime`](crate::runtime::LocalRuntime). If there
/// are several, the one that was entered last counts: within a set that is polled
/// inside a `LocalRuntime`, that is the set.
///
/// # Panics
///
/// Outside of both, and on a thread that has entered the `LocalRuntime` of
/// another.
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
///         let mine = count.clone();
///         spawn_local(async move { mine.set(mine.get() + 1) }).await.unwrap();
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
    let birth = birth_here();
    spawn_local_born(future, || birth)
}

/// As [`spawn_local`]; the task is born only if there is a place for it.
#[track_caller]
pub(crate) fn spawn_local_born<F>(
    future: F,
    birth: impl FnOnce() -> SpawnOptions,
) -> JoinHandle<F::Output>
where
    F: Future + 'static,
    F::Output: 'static,
{
    let runtime = context::with_current(|shared| shared.local_to);
    if let Some((local, runtimes)) = LocalScheduler::current() {
        let entered_later = context::depth() > runtimes;
        if !(entered_later && matches!(runtime, Some(Some(_)))) {
            return spawn_in(&local, future, birth());
        }
    }
    match runtime {
        Some(Some(thread)) if thread == std::thread::current().id() => {
            let birth = birth();
            let spawned = context::with_current(|shared| {
                // SAFETY: a local runtime, and this is its thread.
                unsafe { spawn_on_own_thread(shared, future, birth) }
            });
            spawned.expect("asked a moment ago")
        }
        Some(Some(_)) => panic!(
            "LocalScheduler tasks can only be spawned on a LocalRuntime from the thread the runtime was \
             created on"
        ),
        Some(None) | None => panic!(
            "`spawn_local` called from outside of a `task::LocalSet` or `runtime::LocalRuntime`"
        ),
    }
}

/// Spawns on a set, with an id from the runtime around it.
fn spawn_in<F>(local: &LocalScheduler, future: F, birth: SpawnOptions) -> JoinHandle<F::Output>
where
    F: Future + 'static,
    F::Output: 'static,
{
    static PROCESS: IdSource = IdSource::Process;
    let mut born = Some((future, birth));
    let mut spawn = |ids: &IdSource| {
        let (future, birth) = born.take().expect("spawned once");
        local.spawn(future, birth, ids)
    };
    match context::with_current(|shared| spawn(shared.estate().ids())) {
        Some(join) => join,
        None => spawn(&PROCESS),
    }
}

/// Tells the set which runtime polls it, and gives back in which order that
/// runtime wants tasks to run.
fn settle_in(local: &LocalScheduler) -> NextTask {
    let around = context::with_current(|shared| {
        (ptr::from_ref(shared).cast::<()>(), shared.estate().config.seam.next_task)
    });
    let (address, order) = around.unwrap_or((ptr::null(), NextTask::InOrder));
    if !local.is_hosted_by(address) {
        let host = context::try_current().ok();
        let host = host.map(|host| -> Weak<dyn Host> {
            let shared: Arc<Shared> = host.shared;
            Arc::<Shared>::downgrade(&shared)
        });
        local.set_host(address, host);
    }
    order
}

impl Host for Shared {
    fn estate(&self) -> &SchedulerBase {
        Shared::estate(self)
    }

    fn orphaned(&self, task: &TaskRef) {
        match &self.flavor {
            Flavor::Current(scheduler) => scheduler.orphaned(task),
            Flavor::Multi(scheduler) => scheduler.orphaned(task),
        }
    }

    fn be_watched(&self) {
        // The workers of the other kind always are.
        if let Flavor::Current(scheduler) = &self.flavor {
            scheduler.be_listed();
        }
    }
}

/// Reports an orphan of a set that is polled in no runtime: to the runtime of the
/// thread that noticed, or to stderr.
fn report_alone(task: &TaskRef) {
    if context::with_current(|shared| shared.estate().orphaned(task)).is_none() {
        Reporter::new(None).report(&Report::Orphan(Orphan::new(task)), Duration::ZERO);
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
