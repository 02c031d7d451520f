//! [`Host`]: a machine of a simulation, which can be killed, restarted and paused.

use crate::sim::oracle::HostId;
use crate::sim::world::World;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// A host of a simulation; from [`Sim::host`](super::Sim::host).
///
/// It has its own runtime, with tasks, timers and a clock. The methods may be called from any host of the
/// simulation. [`kill`](Self::kill), [`restart`](Self::restart) and [`pause`](Self::pause) take effect
/// after the poll that calls them.
///
/// # Examples
///
/// A host that is killed loses its tasks, and starts its program again at a restart:
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

    /// Returns whether the host is up. It stays up when its program has returned.
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

    /// Takes the host down without notice, as `kill -9` does with all of its processes.
    ///
    /// Its futures are dropped. What their destructors spawn on the host never runs, and calls of
    /// [`Sim`](super::Sim) and [`Host`] in them do nothing. A value that they put into a channel of this
    /// process does arrive, since other hosts share it. Does nothing if the host is down.
    ///
    /// # Examples
    ///
    /// See [`Host`].
    ///
    /// # Panics
    ///
    /// If it is the host `main`, on which the test itself runs.
    #[track_caller]
    pub fn kill(&self) {
        let id = self.check_not_first("killed");
        self.world.defer(move |world| world.stop_host(id));
    }

    /// Kills the host if it is up, and starts its program again.
    ///
    /// Its clock starts again as well. Its wall clock goes on.
    ///
    /// # Examples
    ///
    /// See [`Host`].
    ///
    /// # Panics
    ///
    /// If it is the host `main`, on which the test itself runs.
    #[track_caller]
    pub fn restart(&self) {
        let id = self.check_not_first("restarted");
        self.world.defer(move |world| {
            world.stop_host(id);
            world.start_host(id);
        });
    }

    /// Stops the host for this time, as a machine that swaps or a virtual machine that is moved.
    ///
    /// Its clock goes on, so its timers fire late. If it is paused already, the later call decides when it
    /// goes on. A restart ends the pause.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// use wakeful::sim::Simulation;
    /// use wakeful::time::{Instant, sleep};
    ///
    /// let outcome = Simulation::new(1).run(|sim| async move {
    ///     let (done, is_done) = wakeful::sync::oneshot::channel();
    ///     let mut done = Some(done);
    ///     let host = sim.host("a", move || {
    ///         let done = done.take();
    ///         async move {
    ///             sleep(Duration::from_secs(1)).await;
    ///             done.unwrap().send(()).unwrap();
    ///         }
    ///     });
    ///     let began = Instant::now();
    ///     sleep(Duration::from_millis(500)).await;
    ///     host.pause(Duration::from_secs(5));
    ///     is_done.await.unwrap();
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

    /// Returns the host's clock.
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

/// The clock of a [`Host`], which can be wrong.
///
/// # Examples
///
/// A host whose clock runs 10 % fast sees its timers fire early:
///
/// ```
/// use std::time::Duration;
/// use wakeful::sim::Simulation;
/// use wakeful::time::{Instant, sleep};
///
/// let outcome = Simulation::new(1).run(|sim| async move {
///     let (done, is_done) = wakeful::sync::oneshot::channel();
///     let mut done = Some(done);
///     let host = sim.host("fast", move || {
///         let done = done.take();
///         async move {
///             sleep(Duration::from_secs(110)).await;
///             done.unwrap().send(()).unwrap();
///         }
///     });
///     host.clock().drift_ppm(100_000);
///     let began = Instant::now();
///     is_done.await.unwrap();
///     assert_eq!(began.elapsed().as_secs(), 100);
/// });
/// outcome.unwrap();
/// ```
pub struct HostClock {
    world: Arc<World>,
    id: HostId,
}

impl HostClock {
    /// Moves the wall clock forward, and no other clock. [`system_time`](super::system_time) reads it.
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

    /// Moves the wall clock back, and no other clock.
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

    /// Lets both clocks run faster by this many millionths from now on, or slower if it is negative.
    ///
    /// # Panics
    ///
    /// If it is -1,000,000 or less: a clock does not stand still.
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
