//! [`Sim`]: the program's handle to the simulation that it runs in.

use super::{Host, with_current_host};
use crate::sim::oracle::HostId;
use crate::sim::world::{FailureKind, Program, ProgramFuture, World};
use crate::sync::oneshot;
use std::fmt;
use std::panic::Location;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// A handle to the simulation that the calling code runs in.
///
/// [`Simulation::run`](super::Simulation::run) passes it to the program, and [`Sim::current`] returns it
/// anywhere inside the simulation. Clones refer to the same simulation.
///
/// # Examples
///
/// Two hosts that share a channel:
///
/// ```
/// use wakeful::sim::Simulation;
/// use wakeful::sync::mpsc;
///
/// let outcome = Simulation::new(7).run(|sim| async move {
///     let (tx, mut rx) = mpsc::channel(1);
///     sim.host("sender", move || {
///         let tx = tx.clone();
///         async move { tx.send("hello").await.unwrap() }
///     });
///     let received = sim.client("receiver", async move { rx.recv().await });
///     assert_eq!(received.await, Some("hello"));
/// });
/// outcome.unwrap();
/// ```
#[derive(Clone)]
pub struct Sim {
    pub(in crate::sim) world: Arc<World>,
}

/// A type that the program of a host may return: `()`, `!`, or a `Result` whose error fails the run.
pub trait ProgramOutput: sealed::Output {}

mod sealed {
    pub trait Output {
        /// Returns the text of the error for the failure, or `None` if the program succeeded.
        fn into_error(self) -> Option<String>;
    }

    impl Output for () {
        fn into_error(self) -> Option<String> {
            None
        }
    }

    /// Names the type `!`, which stable Rust accepts only as the return type of a function.
    pub trait Returns {
        type Type;
    }

    impl<R> Returns for fn() -> R {
        type Type = R;
    }

    /// The output of a program that loops forever.
    impl Output for <fn() -> ! as Returns>::Type {
        fn into_error(self) -> Option<String> {
            self
        }
    }

    impl<T, E: std::fmt::Debug> Output for Result<T, E> {
        fn into_error(self) -> Option<String> {
            self.err().map(|error| format!("{error:?}"))
        }
    }
}

impl<T: sealed::Output> ProgramOutput for T {}

/// Fails the run if the program of the current host has returned an error.
pub(super) fn fail_if_error(world: &World, output: impl ProgramOutput) {
    if let Some(error) = output.into_error() {
        let text = format!("the program of the host returned {error}");
        world.fail(FailureKind::HostError, world.current_host(), text);
    }
}

impl Sim {
    /// Returns the simulation that the calling code runs in.
    ///
    /// # Panics
    ///
    /// If called outside a simulation.
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::sim::{Sim, Simulation};
    ///
    /// assert!(Sim::try_current().is_none());
    /// let outcome = Simulation::new(4).run(|_| async { assert_eq!(Sim::current().seed(), 4) });
    /// outcome.unwrap();
    /// ```
    #[track_caller]
    pub fn current() -> Self {
        Self::try_current().expect(
            "`Sim::current` was called outside of a simulation: call it inside of \
             `Simulation::run`, or use `Sim::try_current`",
        )
    }

    /// Returns the simulation that the calling code runs in, or `None` outside a simulation.
    ///
    /// # Examples
    ///
    /// See [`current`](Self::current).
    pub fn try_current() -> Option<Self> {
        with_current_host(|host| Self { world: host.world.clone() })
    }

    /// Adds a host and starts `program` on it. Each restart of the host calls `program` again.
    ///
    /// The host starts after the poll that calls this. If the program returns an error, the run fails.
    ///
    /// # Panics
    ///
    /// If the name is blank, or the simulation already has a host of that name.
    ///
    /// # Examples
    ///
    /// See [`Sim`].
    #[track_caller]
    pub fn host<F, Fut>(&self, name: impl Into<String>, mut program: F) -> Host
    where
        F: FnMut() -> Fut + Send + 'static,
        Fut: Future<Output: ProgramOutput> + 'static,
    {
        let world = Arc::downgrade(&self.world);
        let start = move || -> ProgramFuture {
            let (world, future) = (world.clone(), program());
            Box::pin(async move {
                let output = future.await;
                if let Some(world) = world.upgrade() {
                    fail_if_error(&world, output);
                }
            })
        };
        let (start, site) = (Arc::new(Mutex::new(start)), Location::caller());
        self.add(name.into(), Program { start, site, is_restartable: true })
    }

    /// Runs `future` on a new host, and returns its output.
    ///
    /// The returned future need not be awaited. An error that `future` returns does not fail the run; the
    /// caller receives it. The returned future panics if the host is killed before `future` has returned.
    /// A restart does not run the program of a client again.
    ///
    /// # Panics
    ///
    /// If the name is blank, or the simulation already has a host of that name.
    ///
    /// # Examples
    ///
    /// See [`Sim`].
    #[track_caller]
    pub fn client<N, F>(
        &self,
        name: N,
        future: F,
    ) -> impl Future<Output = F::Output> + Send + use<N, F>
    where
        N: Into<String>,
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        let (name, (done_tx, done_rx)) = (name.into(), oneshot::channel());
        let killed = format!("the client {name:?} was killed before its future returned");
        let mut once = Some((future, done_tx));
        let start = move || -> ProgramFuture {
            let Some((future, done_tx)) = once.take() else { return Box::pin(async {}) };
            // The caller may have dropped the receiver.
            Box::pin(async move { drop(done_tx.send(future.await)) })
        };
        let (start, site) = (Arc::new(Mutex::new(start)), Location::caller());
        self.add(name, Program { start, site, is_restartable: false });
        async move { done_rx.await.expect(&killed) }
    }

    #[track_caller]
    fn add(&self, name: String, program: Program) -> Host {
        assert!(!name.trim().is_empty(), "a host needs a name");
        let is_free = self.world.host_named(&name).is_none();
        assert!(is_free, "the simulation already has a host named {name:?}");
        let id = self.world.add_host(&name, Some(program));
        self.world.defer(move |world| world.start_host(id));
        Host { world: self.world.clone(), id }
    }

    /// Returns the host that the calling code runs on.
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::sim::{Sim, Simulation};
    ///
    /// let outcome = Simulation::new(1).run(|sim| async move {
    ///     assert_eq!(sim.current_host().name(), "main");
    ///     sim.client("c", async { assert_eq!(Sim::current().current_host().name(), "c") }).await;
    /// });
    /// outcome.unwrap();
    /// ```
    pub fn current_host(&self) -> Host {
        let id = with_current_host(|host| host.id).unwrap_or(HostId::FIRST);
        Host { world: self.world.clone(), id }
    }

    /// Returns the host with this name, or `None` if there is none.
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::sim::Simulation;
    ///
    /// let outcome = Simulation::new(1).run(|sim| async move {
    ///     sim.host("a", || async {});
    ///     assert_eq!(sim.host_named("a").unwrap().name(), "a");
    ///     assert!(sim.host_named("b").is_none());
    /// });
    /// outcome.unwrap();
    /// ```
    pub fn host_named(&self, name: &str) -> Option<Host> {
        let id = self.world.host_named(name)?;
        Some(Host { world: self.world.clone(), id })
    }

    /// Returns the network between the hosts.
    ///
    /// # Examples
    ///
    /// See [`Network`](super::Network).
    #[cfg(feature = "net")]
    pub fn network(&self) -> super::Network {
        super::Network { world: self.world.clone() }
    }

    /// Returns the seed of the run.
    ///
    /// # Examples
    ///
    /// See [`current`](Self::current).
    pub fn seed(&self) -> u64 {
        self.world.seed
    }

    /// Returns the simulated time since the start of the run. Clock drift does not affect it.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// use wakeful::sim::Simulation;
    ///
    /// let outcome = Simulation::new(1).run(|sim| async move {
    ///     wakeful::time::sleep(Duration::from_secs(2)).await;
    ///     assert_eq!(sim.elapsed(), Duration::from_secs(2));
    /// });
    /// outcome.unwrap();
    /// ```
    pub fn elapsed(&self) -> Duration {
        self.world.elapsed()
    }

    /// Lets faults strike at random times from now on, until the chaos ends and all is healed.
    ///
    /// The seed draws the kinds of faults, their rates, and when and where each strikes, within the limits
    /// of `chaos`. A failure prints the kinds that were drawn. The chaos ends after
    /// [`Chaos::until`](super::Chaos::until), or when the program of
    /// [`Simulation::run`](super::Simulation::run) returns: routes open, killed hosts restart, paused
    /// hosts resume, clock steps are undone, and drift ends. The time of an [`eventually`](Self::eventually)
    /// starts then. A second call ends the chaos of the first.
    ///
    /// # Examples
    ///
    /// See [`Chaos`](super::Chaos).
    pub fn chaos(&self, chaos: super::Chaos) {
        self.world.start_chaos(chaos.limits);
    }

    /// Fails the run if `condition` is false or panics after any poll from now on, on any host.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::sync::Arc;
    /// use std::sync::atomic::{AtomicI32, Ordering::SeqCst};
    /// use wakeful::sim::{FailureKind, Simulation};
    ///
    /// let outcome = Simulation::new(1).run(|sim| async move {
    ///     let balance = Arc::new(AtomicI32::new(10));
    ///     let seen = balance.clone();
    ///     sim.always("never in debt", move || seen.load(SeqCst) >= 0);
    ///     balance.fetch_sub(20, SeqCst);
    ///     wakeful::task::yield_now().await;
    ///     balance.fetch_add(20, SeqCst);
    /// });
    /// assert_eq!(outcome.failure(), Some(FailureKind::Always));
    /// ```
    #[track_caller]
    pub fn always(&self, name: &str, condition: impl FnMut() -> bool + Send + 'static) {
        self.world.always(name, Box::new(condition), Location::caller());
    }

    /// Fails the run unless `condition` returns true after some poll `within` this simulated time.
    ///
    /// The time starts when no partition, hold or [`chaos`](Self::chaos) is in progress. The run also
    /// fails if `condition` panics. If the program of
    /// [`Simulation::run`](super::Simulation::run) returns earlier, the run continues until the condition
    /// was true or the time is over.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// use wakeful::sim::{FailureKind, Simulation};
    ///
    /// let outcome = Simulation::new(1).run(|sim| async move {
    ///     sim.eventually(Duration::from_secs(30), "pigs fly", || false);
    ///     wakeful::time::sleep(Duration::from_secs(60)).await;
    /// });
    /// assert_eq!(outcome.failure(), Some(FailureKind::Eventually));
    /// ```
    #[track_caller]
    pub fn eventually(
        &self,
        within: Duration,
        name: &str,
        condition: impl FnMut() -> bool + Send + 'static,
    ) {
        self.world.eventually(within, name, Box::new(condition), Location::caller());
    }
}

impl fmt::Debug for Sim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sim").field("seed", &self.seed()).field("elapsed", &self.elapsed()).finish()
    }
}
