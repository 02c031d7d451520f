//! [`Host`]: a machine of a simulation, which can be killed, restarted and paused.

use crate::sim::oracle::HostId;
use crate::sim::world::World;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// A machine of a simulation, with its own runtime and clocks; from [`Sim::host`](super::Sim::host).
///
/// The methods may be called from any host of the simulation. [`kill`](Self::kill),
/// [`restart`](Self::restart) and [`pause`](Self::pause) take effect after the poll that calls them.
///
/// # Examples
///
/// A host that is killed loses its tasks. A restart runs its program again:
///
/// ```
/// use std::sync::Arc;
/// use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
/// use std::time::Duration;
/// use wakeful::sim::Simulation;
/// use wakeful::time::sleep;
///
/// let outcome = Simulation::new(1).run(|sim| async move {
///     let starts = Arc::new(AtomicU32::new(0));
///     let counter = starts.clone();
///     let server = sim.host("server", move || {
///         let counter = counter.clone();
///         async move {
///             counter.fetch_add(1, SeqCst);
///             sleep(Duration::from_secs(10)).await;
///             unreachable!("it is killed before");
///         }
///     });
///     sleep(Duration::from_secs(5)).await;
///     server.restart();
///     sleep(Duration::from_secs(5)).await;
///     server.kill();
///     sleep(Duration::from_secs(60)).await;
///     assert_eq!(starts.load(SeqCst), 2);
///     assert!(!server.is_up());
/// });
/// outcome.unwrap();
/// ```
#[derive(Clone)]
pub struct Host {
    pub(super) world: Arc<World>,
    pub(super) id: HostId,
}

impl Host {
    /// Returns the name of the host.
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::sim::Simulation;
    ///
    /// let outcome = Simulation::new(1).run(|sim| async move {
    ///     assert_eq!(sim.host("a", || async {}).name(), "a");
    /// });
    /// outcome.unwrap();
    /// ```
    pub fn name(&self) -> String {
        self.world.host_name(self.id).to_string()
    }

    /// Returns whether the host is up. A host stays up after its program has returned.
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::sim::Simulation;
    ///
    /// let outcome = Simulation::new(1).run(|sim| async move {
    ///     let host = sim.host("a", || async {});
    ///     wakeful::task::yield_now().await;
    ///     assert!(host.is_up());
    /// });
    /// outcome.unwrap();
    /// ```
    pub fn is_up(&self) -> bool {
        self.world.is_up(self.id)
    }

    /// Takes the host down without notice, like `kill -9` on all of its processes.
    ///
    /// The host's futures are dropped. Tasks that their destructors spawn on the host never run, and calls
    /// to [`Sim`](super::Sim) and [`Host`] in destructors do nothing. A value that a destructor sends over
    /// an in-process channel does arrive, since other hosts share the channel. Does nothing if the host is
    /// down.
    ///
    /// # Examples
    ///
    /// See [`Host`].
    ///
    /// # Panics
    ///
    /// If the host is `main`, on which the test itself runs.
    #[track_caller]
    pub fn kill(&self) {
        let id = self.check_not_first("killed");
        self.world.defer(move |world| {
            world.stop_host(id);
            world.forget_chaos_kill(id);
        });
    }

    /// Kills the host if it is up, and starts its program again.
    ///
    /// The host's monotonic clock restarts. Its wall clock keeps running.
    ///
    /// # Examples
    ///
    /// See [`Host`].
    ///
    /// # Panics
    ///
    /// If the host is `main`, on which the test itself runs.
    #[track_caller]
    pub fn restart(&self) {
        let id = self.check_not_first("restarted");
        self.world.defer(move |world| {
            world.stop_host(id);
            world.start_host(id);
            world.forget_chaos_kill(id);
        });
    }

    /// Freezes the host for `duration`, like a machine that swaps or a virtual machine that is migrated.
    ///
    /// The host's clocks keep running, so its timers fire late. If the host is paused already, the later
    /// call decides when it resumes. A restart ends the pause.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// use wakeful::sim::Simulation;
    /// use wakeful::time::{Instant, sleep};
    ///
    /// let outcome = Simulation::new(1).run(|sim| async move {
    ///     let (done_tx, done_rx) = wakeful::sync::oneshot::channel();
    ///     let mut done_tx = Some(done_tx);
    ///     let host = sim.host("a", move || {
    ///         let done_tx = done_tx.take();
    ///         async move {
    ///             sleep(Duration::from_secs(1)).await;
    ///             done_tx.unwrap().send(()).unwrap();
    ///         }
    ///     });
    ///     let began = Instant::now();
    ///     sleep(Duration::from_millis(500)).await;
    ///     host.pause(Duration::from_secs(5));
    ///     done_rx.await.unwrap();
    ///     assert_eq!(began.elapsed(), Duration::from_millis(5_500));
    /// });
    /// outcome.unwrap();
    /// ```
    pub fn pause(&self, duration: Duration) {
        let id = self.id;
        self.world.defer(move |world| world.pause_for(id, duration));
    }

    #[track_caller]
    fn check_not_first(&self, what: &str) -> HostId {
        assert!(
            self.id != HostId::FIRST,
            "the host {:?} cannot be {what}: the test itself runs on it. Put the program on a host of \
             its own with `Sim::host`.",
            self.name()
        );
        self.id
    }

    /// Returns the clocks of the host, to step them or to make them drift.
    ///
    /// # Examples
    ///
    /// See [`HostClock`].
    pub fn clock(&self) -> HostClock {
        HostClock { world: self.world.clone(), id: self.id }
    }
}

impl fmt::Debug for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Host").field("name", &self.name()).field("is_up", &self.is_up()).finish()
    }
}

/// Controls the clocks of a [`Host`]: steps of the wall clock, and drift.
///
/// # Examples
///
/// The timers of a host whose clock runs 10 % fast fire early:
///
/// ```
/// use std::time::Duration;
/// use wakeful::sim::Simulation;
/// use wakeful::time::{Instant, sleep};
///
/// let outcome = Simulation::new(1).run(|sim| async move {
///     let (done_tx, done_rx) = wakeful::sync::oneshot::channel();
///     let mut done_tx = Some(done_tx);
///     let host = sim.host("fast", move || {
///         let done_tx = done_tx.take();
///         async move {
///             sleep(Duration::from_secs(110)).await;
///             done_tx.unwrap().send(()).unwrap();
///         }
///     });
///     host.clock().drift_ppm(100_000);
///     let began = Instant::now();
///     done_rx.await.unwrap();
///     assert_eq!(began.elapsed().as_secs(), 100);
/// });
/// outcome.unwrap();
/// ```
pub struct HostClock {
    world: Arc<World>,
    id: HostId,
}

impl HostClock {
    /// Moves the wall clock forward. The monotonic clock does not change.
    ///
    /// [`system_time`](super::system_time) reads the wall clock.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// use wakeful::sim::{self, Simulation};
    ///
    /// let outcome = Simulation::new(1).run(|sim| async move {
    ///     let before = sim::system_time();
    ///     sim.current_host().clock().step(Duration::from_secs(5));
    ///     assert_eq!(sim::system_time(), before + Duration::from_secs(5));
    ///     sim.current_host().clock().step_back(Duration::from_secs(6));
    ///     assert_eq!(sim::system_time(), before - Duration::from_secs(1));
    /// });
    /// outcome.unwrap();
    /// ```
    pub fn step(&self, by: Duration) {
        self.step_ns(i64::try_from(by.as_nanos()).unwrap_or(i64::MAX));
    }

    /// Moves the wall clock back. The monotonic clock does not change.
    ///
    /// # Examples
    ///
    /// See [`step`](Self::step).
    pub fn step_back(&self, by: Duration) {
        self.step_ns(-i64::try_from(by.as_nanos()).unwrap_or(i64::MAX));
    }

    fn step_ns(&self, ns: i64) {
        self.world.step_wall(self.id, ns);
    }

    /// Speeds up both clocks by `ppm` millionths from now on, or slows them down if `ppm` is negative.
    ///
    /// # Panics
    ///
    /// If `ppm` is -1,000,000 or less, since the clock would stop.
    ///
    /// # Examples
    ///
    /// See [`HostClock`].
    #[track_caller]
    pub fn drift_ppm(&self, ppm: i32) {
        assert!(ppm > -1_000_000, "a clock with a drift of {ppm} ppm would stand still");
        self.world.set_drift(self.id, ppm);
    }
}

impl fmt::Debug for HostClock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HostClock").field("host", &self.world.host_name(self.id)).finish()
    }
}
