//! [`Simulation`]: runs a program once, in an order that a seed decides.

use super::sim_handle::{ProgramOutput, Sim};
use super::{Outcome, sim_handle};
use crate::inspect::stack_text;
use crate::runtime::{Builder, LocalOptions, OrphanPolicy};
use crate::sim::oracle::{Choices, Fifo, Random, Replay, Strategy};
use crate::sim::world::{FailureKind, World, WorldSettings};
use crate::sys::backtrace::current_tid;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

/// How many events of a run are kept, to find the first one in which it differs from another run.
const KEPT_EVENTS: usize = 16_384;

/// One run of a program in a simulation.
///
/// The seed decides everything that could differ: the order of the tasks, where they give way, and
/// every random choice. [`run`](Self::run) returns an [`Outcome`], whose failure can be repeated with
/// the same seed.
///
/// The run fails if a task panics, if a task can never be woken again, or if nothing can happen any
/// more although the program has not returned. [`FailureKind`] lists all reasons.
///
/// # Examples
///
/// A lost update, which most orders of the tasks hide:
///
/// ```
/// use std::sync::Arc;
/// use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
/// use wakeful::sim::Simulation;
/// use wakeful::task::yield_now;
///
/// let failed = (0..100).find(|seed| {
///     let outcome = Simulation::new(*seed).run(|_| async {
///         let counter = Arc::new(AtomicU32::new(0));
///         let add = |counter: Arc<AtomicU32>| async move {
///             let before = counter.load(SeqCst);
///             yield_now().await;
///             counter.store(before + 1, SeqCst);
///         };
///         let one = wakeful::spawn(add(counter.clone()));
///         let other = wakeful::spawn(add(counter.clone()));
///         one.await.unwrap();
///         other.await.unwrap();
///         assert_eq!(counter.load(SeqCst), 2);
///     });
///     outcome.failure().is_some()
/// });
/// assert!(failed.is_some());
/// ```
pub struct Simulation {
    seed: u64,
    strategy: Box<dyn Strategy>,
    blocked_after: Duration,
}

impl Simulation {
    /// Creates a simulation with random choices that `seed` decides.
    ///
    /// # Examples
    ///
    /// See [`Simulation`].
    pub fn new(seed: u64) -> Self {
        Self { seed, strategy: Box::new(Random::default()), blocked_after: Duration::from_secs(10) }
    }

    /// Makes the usual choice each time: first come, first served, and no faults.
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::sim::Simulation;
    ///
    /// let outcome = Simulation::new(1).fifo().run(|_| async {});
    /// assert_eq!(outcome.choices(), "");
    /// ```
    pub fn fifo(mut self) -> Self {
        self.strategy = Box::new(Fifo);
        self
    }

    /// Repeats the choices of another run, as [`Outcome::choices`] has returned them. Choices that the
    /// text does not have are the usual ones.
    ///
    /// # Errors
    ///
    /// If a line of the text is not a choice.
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::sim::Simulation;
    ///
    /// async fn program() {
    ///     let tasks = (0..10).map(|_| wakeful::spawn(wakeful::task::yield_now()));
    ///     for task in tasks.collect::<Vec<_>>() {
    ///         task.await.unwrap();
    ///     }
    /// }
    /// let recorded = Simulation::new(17).run(|_| program());
    /// let repeated = Simulation::new(17).replay(&recorded.choices())?.run(|_| program());
    /// assert_eq!(repeated.hash(), recorded.hash());
    /// # Ok::<(), String>(())
    /// ```
    pub fn replay(mut self, choices: &str) -> Result<Self, String> {
        self.strategy = Box::new(Replay::new(&choices.parse::<Choices>()?));
        Ok(self)
    }

    /// Sets after how much real time a run fails in which no step ends. 10 seconds by default.
    ///
    /// A poll that blocks its thread cannot be ended, so the thread of the run is left behind.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// use wakeful::sim::Simulation;
    ///
    /// Simulation::new(1).blocked_after(Duration::from_secs(60)).run(|_| async {}).unwrap();
    /// ```
    pub fn blocked_after(mut self, limit: Duration) -> Self {
        self.blocked_after = limit;
        self
    }

    /// Runs the program on a thread of its own, and waits for its end.
    ///
    /// `program` is called on a host with the name `main`. When its future has returned, all other hosts
    /// are killed. If it returns an error, the run fails.
    ///
    /// # Panics
    ///
    /// If the operating system refuses a thread.
    ///
    /// # Examples
    ///
    /// See [`Simulation`].
    #[track_caller]
    pub fn run<F, Fut>(self, program: F) -> Outcome
    where
        F: FnOnce(Sim) -> Fut + Send + 'static,
        Fut: Future<Output: ProgramOutput> + 'static,
    {
        let settings = WorldSettings {
            is_supervised: true,
            window: Some((0, KEPT_EVENTS)),
            ..WorldSettings::new(self.seed, self.strategy)
        };
        let world = World::new(settings);
        let (ended, end) = mpsc::channel();
        let (sim, seed) = (Sim { world: world.clone() }, self.seed);
        let run = move || {
            let _ = ended.send(Message::Thread(current_tid()));
            run_here(seed, sim, program);
            let _ = ended.send(Message::Ended);
        };
        let thread = thread::Builder::new().name("wakeful-sim".to_owned()).spawn(run);
        let thread = thread.expect("the operating system refuses a thread for the simulation");
        if supervise(&world, &end, self.blocked_after) {
            // The program has panicked outside of a task: in a destructor, after the run.
            drop(thread.join());
        }
        Outcome { text: world.failure_text(), result: world.result() }
    }
}

/// What the thread of a run tells its supervisor.
enum Message {
    /// The kernel's id of the thread.
    Thread(i32),
    Ended,
}

/// Runs the program on the calling thread. The world has the failure, if there is one.
fn run_here<F, Fut>(seed: u64, sim: Sim, program: F)
where
    F: FnOnce(Sim) -> Fut + 'static,
    Fut: Future<Output: ProgramOutput> + 'static,
{
    let world = sim.world.clone();
    let runtime = Builder::new_simulated(seed)
        .in_world(world.clone())
        .enable_all()
        .on_orphan(OrphanPolicy::Panic)
        // What is wrong is the failure of the run.
        .on_report(|_| {})
        .build_local(LocalOptions::default())
        .expect("a simulated runtime starts no thread");
    // A task, because a task can be preempted.
    let main = runtime.spawn_local(async move {
        let output = program(sim).await;
        sim_handle::fail_if_error(&world, output);
    });
    // A panic of the task, and one of `block_on`, is the failure of the world.
    let _ = catch_unwind(AssertUnwindSafe(|| runtime.block_on(main)));
}

/// Waits for the end of a run. Fails it if a step of it does not end. Returns whether it has ended.
fn supervise(world: &Arc<World>, end: &mpsc::Receiver<Message>, blocked_after: Duration) -> bool {
    let (mut steps, mut thread) = (world.steps(), 0);
    loop {
        match end.recv_timeout(blocked_after) {
            Ok(Message::Thread(id)) => thread = id,
            Ok(Message::Ended) | Err(RecvTimeoutError::Disconnected) => return true,
            Err(RecvTimeoutError::Timeout) => {
                let now = world.steps();
                if std::mem::replace(&mut steps, now) == now {
                    let (host, task) = world.running();
                    let stack = stack_text(thread).join("\n    ");
                    let text = format!(
                        "a poll of task {task} has not returned for {blocked_after:?} of real time: \
                         it blocks the thread of the simulation, or it computes without an end\n    \
                         {stack}"
                    );
                    world.fail(FailureKind::BlockedPoll, host, text);
                    return false;
                }
            }
        }
    }
}
