//! What the builder decided for a scheduler, and the hooks through which the
//! rooms above hear of what happens here.

use crate::driver::clock::Clock;
use crate::driver::poller::EventLimits;
use crate::scheduler::block_on::BlockOnState;
use crate::sys::rng::Rng;
use crate::sys::thread_registry::RuntimeThread;
use crate::sys::unwind::catch_and_forget;
use crate::task::header::Header;
use crate::task::id::IdSource;
use crate::task::runnable::TaskRef;
use std::any::Any;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::thread;
use std::time::Duration;

/// A hook of the user's.
pub(crate) type Callback = Arc<dyn Fn() + Send + Sync>;

/// What the runtime does about a task that can never run again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum OrphanPolicy {
    /// Report it once and leave it as it is.
    #[default]
    Report,
    /// Report it and drop it: its JoinHandle resolves with an error for which
    /// [`is_orphaned`](crate::task::JoinError::is_orphaned) is true.
    Abort,
    /// Report it and shut the runtime down: all tasks are dropped, and every
    /// `block_on` panics with the report, also one whose future is done in the
    /// very poll that lost the waker. The default under `#[wakeful::test]`.
    Panic,
}

/// What the runtime does when a task panics.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum UnhandledPanic {
    /// The panic goes to the JoinHandle; everything else goes on.
    #[default]
    Ignore,
    /// The runtime shuts down at once: all tasks are dropped, and every `block_on`
    /// panics, now and later. (On a current-thread runtime that nobody drives,
    /// the next `block_on` is the one that drops them.) A closure of the blocking
    /// pool that panics ends nothing but itself.
    ShutdownRuntime,
}

/// Told of things that only a room above can put into words.
pub(crate) trait RuntimeHooks: Send + Sync {
    /// Reports the orphan and gives the report's text back.
    fn orphan(&self, task: &TaskRef) -> String;
    /// A task panicked.
    fn panicked(&self, task: &Header, payload: &(dyn Any + Send));
    /// A task had panicked, and nobody will ever ask.
    fn unobserved_panic(&self, task: &Header, payload: &(dyn Any + Send));
    /// A poll does not come to its end.
    fn blocked(&self, stall: &BlockedPoll);
    /// The task wakes itself all the time: so many polls in that time.
    fn spinning(&self, subject: &PolledEntity, polls: u32, within: Duration);
    /// The runtime has fallen quiet, or has worked for a while: time to look who
    /// waits for whom. Answers whether to look again after a while, though nothing happens.
    fn look_around(&self) -> bool;
    /// A poll, a closure or a `block_on` has ended on a thread that runs no tasks, or the future
    /// of one rests there: if somebody can never go on from here, it has to be found out.
    fn ended_elsewhere(&self);
    /// No worker turns a driver any more: completes what the rings have under way, without blocking
    /// the calling thread. A closure of `block_in_place` may wait for it.
    fn drivers_shut(&self);
    /// The last closure is done that kept a paused clock from moving by itself.
    fn time_may_pass(&self);
    /// Runs the whole life of a thread inside of the runtime's context.
    fn in_context(&self, role: Role, life: &mut dyn FnMut());
}

/// Whose poll something is said of.
pub(crate) enum PolledEntity {
    Task(TaskRef),
    /// The future of a `block_on`.
    BlockOnState(Arc<BlockOnState>),
}

/// A poll that does not come to its end.
pub(crate) struct BlockedPoll {
    pub(crate) subject: PolledEntity,
    /// None for a spare thread.
    pub(crate) worker: Option<usize>,
    /// There is no other thread for tasks.
    pub(crate) alone: bool,
    pub(crate) duration: Duration,
    /// The system's number of the thread, 0 if it is not known.
    pub(crate) thread: i32,
}

/// What a thread of the runtime is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// It drives tasks, so it must not block.
    Worker,
    /// It runs closures that may.
    Blocking,
}

/// Everything a scheduler is told when it is made.
pub(crate) struct Config {
    pub(crate) worker_threads: usize,
    pub(crate) thread_name: Arc<dyn Fn() -> String + Send + Sync>,
    pub(crate) thread_stack_size: Option<usize>,
    pub(crate) max_blocking_threads: usize,
    pub(crate) thread_keep_alive: Duration,
    pub(crate) on_thread_start: Option<Callback>,
    pub(crate) on_thread_stop: Option<Callback>,
    pub(crate) on_thread_park: Option<Callback>,
    pub(crate) on_thread_unpark: Option<Callback>,
    /// How many tasks may run before the injector is looked at.
    pub(crate) injector_interval: u32,
    /// How many tasks may run before clock and driver are looked at.
    pub(crate) turn_interval: u32,
    pub(crate) run_next_slot: bool,
    pub(crate) has_io: bool,
    pub(crate) io_batch: EventLimits,
    /// What the future of `block_on` is called.
    pub(crate) root_name: Option<String>,
    pub(crate) on_orphan: OrphanPolicy,
    pub(crate) on_panic: UnhandledPanic,
    /// After how long a worker that is inside one poll has its work taken from it;
    /// None: never.
    pub(crate) rescue_after: Option<Duration>,
    /// After how long a poll is reported; None: never.
    pub(crate) report_blocked_after: Option<Duration>,
    /// How many threads may stand in for workers that are stuck.
    pub(crate) max_spare_threads: usize,
    /// A test runs here: a `block_on` without a waker counts as stuck, and the main thread of the test harness as one
    /// that can't help.
    pub(crate) always_end_quiescent: bool,
    pub(crate) witness: Arc<dyn RuntimeHooks>,
    pub(crate) seam: Environment,
}

impl Config {
    /// Tells this runtime from others.
    pub(crate) fn address(&self) -> usize {
        std::ptr::from_ref(self).addr()
    }

    /// Starts a named thread that lives inside of the runtime's context.
    pub(crate) fn spawn_thread(
        &self,
        role: Role,
        life: impl FnOnce() + Send + 'static,
    ) -> std::io::Result<thread::JoinHandle<()>> {
        // A user's function, called where locks are held and somebody is counted on: its panic is
        // one more reason why there is no thread.
        let name = catch_and_forget(|| (self.thread_name)()).ok_or_else(|| {
            std::io::Error::other("the function for the names of threads has panicked")
        })?;
        let mut builder = thread::Builder::new().name(name);
        if let Some(bytes) = self.thread_stack_size {
            builder = builder.stack_size(bytes);
        }
        let (witness, whose) = (self.witness.clone(), self.address());
        builder.spawn(move || {
            let _own = RuntimeThread::new(whose);
            let mut life = Some(life);
            witness.in_context(role, &mut || {
                if let Some(life) = life.take() {
                    life();
                }
            });
        })
    }
}

/// The seam for simulation: whatever would make two runs differ is drawn from
/// here, never from a global.
pub(crate) struct Environment {
    pub(crate) clock: Clock,
    pub(crate) ids: IdSource,
    seeds: SeedSource,
    pub(crate) next_task: NextTask,
}

/// How the current-thread scheduler chooses among its ready tasks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NextTask {
    /// In the order in which they became ready.
    InOrder,
    /// At random, from the runtime's seed.
    Shuffled,
}

impl Environment {
    pub(crate) fn new(clock: Clock, ids: IdSource, seed: u64, next_task: NextTask) -> Self {
        Self { clock, ids, seeds: SeedSource(AtomicU64::new(seed)), next_task }
    }

    /// A generator for one thread or one structure of this runtime.
    pub(crate) fn rng(&self) -> Rng {
        self.seeds.draw()
    }
}

/// Gives out generators in a fixed order, starting from the runtime's seed.
struct SeedSource(AtomicU64);

impl SeedSource {
    fn draw(&self) -> Rng {
        Rng::from_seed(self.0.fetch_add(1, Relaxed))
    }
}
