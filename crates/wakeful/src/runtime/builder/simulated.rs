//! Builds simulated runtimes: the first host of a world, and the hosts that join it.

use super::{Builder, Kind};
use crate::runtime::RuntimeInner;
use crate::runtime::local_runtime::LocalOptions;
use crate::runtime::simulated;
use crate::scheduler::config::Environment;
use crate::sim::oracle::{HostId, Random};
use crate::sim::world::{SimulatedHost, World, WorldSettings};
use std::io;
use std::sync::Arc;

/// The default name of the host that `block_on` runs on.
const FIRST_HOST: &str = "main";

impl Builder {
    /// Creates a builder for a runtime whose order of events is decided by a seed.
    ///
    /// Everything runs on the thread that calls `block_on`: tasks, timers and closures of
    /// [`spawn_blocking`](crate::task::spawn_blocking). Time is virtual, and moves to the next
    /// timer when no task can run. The seed decides which ready task is polled next, after how many
    /// operations a task yields, and with which branch `select!` begins. So equal seeds give equal
    /// runs. See [`sim`](mod@crate::sim) for several hosts, and for many seeds.
    ///
    /// Settings of threads, of the watchdog and of the order of tasks have no effect. Neither does
    /// `start_paused`. The runtime has the name of its host.
    ///
    /// `block_on` panics if nothing can happen any more, or if tasks are polled very often while
    /// the time does not advance. [`unhandled_panic`](Self::unhandled_panic) and
    /// [`on_orphan`](Self::on_orphan) act as on other runtimes.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// use wakeful::runtime::Builder;
    /// use wakeful::time::{Instant, sleep};
    ///
    /// let elapsed = |seed| {
    ///     let runtime = Builder::new_simulated(seed).enable_all().build().unwrap();
    ///     runtime.block_on(async {
    ///         let start = Instant::now();
    ///         sleep(Duration::from_secs(3600)).await;
    ///         start.elapsed()
    ///     })
    /// };
    /// assert_eq!(elapsed(1), Duration::from_secs(3600));
    /// ```
    pub fn new_simulated(seed: u64) -> Self {
        let mut builder = Self::new(Kind::Simulated);
        builder.seed = Some(seed);
        builder
    }

    /// Makes the built runtime the first host of `world`.
    pub(crate) fn in_world(&mut self, world: Arc<World>) -> &mut Self {
        self.world = Some(world);
        self
    }

    /// Builds the runtime of the first host of a world.
    #[track_caller]
    pub(super) fn build_first_host(
        &mut self,
        seed: u64,
        local: Option<LocalOptions>,
    ) -> io::Result<Arc<RuntimeInner>> {
        let world = self
            .world
            .take()
            .unwrap_or_else(|| World::new(WorldSettings::new(seed, Box::new(Random::default()))));
        let name = self.name.clone().unwrap_or_else(|| FIRST_HOST.to_owned());
        let id = world.add_host(&name, None);
        assert_eq!(id, HostId::FIRST, "the first host of a world is built first");
        self.build_simulated(world.simulated_host(id), local)
    }

    /// Builds the runtime of a host.
    #[track_caller]
    pub(crate) fn build_simulated(
        &mut self,
        host: SimulatedHost,
        local: Option<LocalOptions>,
    ) -> io::Result<Arc<RuntimeInner>> {
        let shared = self.build_with(local, Environment::simulated(host.clone()))?;
        simulated::connect(&shared, &host, || self.host_template());
        Ok(shared)
    }

    /// Returns a builder for the other hosts, with the settings that concern them.
    fn host_template(&self) -> Builder {
        let mut builder = Self::new(Kind::Simulated);
        builder.task_hooks = self.task_hooks.clone();
        builder.has_time = self.has_time;
        builder.timers_elapse_at_shutdown = self.timers_elapse_at_shutdown;
        builder.has_io = self.has_io;
        builder.on_orphan = self.on_orphan;
        builder.on_panic = self.on_panic.clone();
        builder.on_report = self.on_report.clone();
        builder.report_filter = self.report_filter;
        builder.report_format = self.report_format;
        builder
    }
}
