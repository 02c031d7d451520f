//! The state that a runtime and its handles share.
//!
//! A [`RuntimeInner`] owns the scheduler, the blocking pool and the file backend. `Runtime`, each
//! `Handle` and each `RuntimeRef` refer to it. This file forwards requests to the scheduler of
//! either flavor.

use crate::driver::clock::Clock;
use crate::driver::poller::Poller;
use crate::driver::timers::Timers;
use crate::inspect::{self, Dump, ScanMode, ScanResult, TokioIntervals};
use crate::runtime::Id;
use crate::runtime::file_backend::FileBackendState;
use crate::runtime::hooks::ReportingHooks;
use crate::runtime::registry;
use crate::runtime::test_limit::TestLimit;
use crate::scheduler::base::SchedulerBase;
use crate::scheduler::blocking_pool::BlockingPool;
use crate::scheduler::config::Config;
use crate::scheduler::current_thread::CurrentThread;
use crate::scheduler::multi_thread::MultiThread;
use crate::task::runnable::TaskRef;
use crate::watchdog::snapshot::Inspectable;
use std::io;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex};
use std::thread::ThreadId;

/// The state of a runtime, shared by all handles to it.
pub(crate) struct RuntimeInner {
    pub(crate) id: Id,
    /// Whether timers are enabled. Placed next to `id` because `timeout` reads both.
    pub(crate) has_time: bool,
    /// Whether registered timers elapse instead of panicking when the runtime shuts down.
    pub(crate) timers_elapse_at_shutdown: bool,
    pub(crate) flavor: Flavor,
    pub(crate) pool: Arc<BlockingPool>,
    /// The thread of a `LocalRuntime`; `None` for other runtimes.
    pub(crate) local_to: Option<ThreadId>,
    pub(crate) hooks: Arc<ReportingHooks>,
    pub(crate) files: FileBackendState,
    /// The interval of the metrics under the names of tokio-metrics.
    pub(super) tokio_intervals: Mutex<TokioIntervals>,
    /// The time limit of a test.
    pub(super) test_limit: Option<TestLimit>,
    /// Whether this is the runtime of a test, with or without a time limit.
    pub(super) is_for_test: bool,
}

/// The scheduler of a runtime.
pub(crate) enum Flavor {
    Current(Arc<CurrentThread>),
    Multi(Arc<MultiThread>),
}

impl RuntimeInner {
    /// Returns the state that both scheduler flavors share.
    pub(crate) fn base(&self) -> &SchedulerBase {
        match &self.flavor {
            Flavor::Current(scheduler) => &scheduler.base,
            Flavor::Multi(scheduler) => &scheduler.base,
        }
    }

    /// Returns the name set with `Builder::name`.
    pub(crate) fn name(&self) -> Option<&str> {
        self.base().config.name.as_deref()
    }

    /// Returns the name for metrics: the runtime's name, or its `block_on` name, or its id.
    pub(crate) fn display_name(&self) -> String {
        let config = &self.base().config;
        let name = config.name.as_ref().or(config.block_on_name.as_ref());
        name.cloned().unwrap_or_else(|| self.id.to_string())
    }

    /// Returns how many tasks have panicked.
    pub(crate) fn panics(&self) -> u64 {
        self.hooks.panics.load(Relaxed)
    }

    /// Returns the read-only view of the scheduler, for diagnostics.
    pub(crate) fn inspectable(&self) -> &dyn Inspectable {
        match &self.flavor {
            Flavor::Current(scheduler) => &**scheduler,
            Flavor::Multi(scheduler) => &**scheduler,
        }
    }

    /// Scans this runtime for deadlocks, including cycles through other runtimes of the process.
    pub(crate) fn scan_for_deadlocks(&self, mode: ScanMode) -> ScanResult {
        inspect::scan(self, self.name(), || registry::peers_of(self.id), mode)
    }

    /// Takes a dump, including the findings of a scan.
    pub(crate) fn dump(&self) -> Dump {
        let (inspectable, name) = (self.inspectable(), self.name());
        let dump = Dump::take(inspectable, name);
        let found = self.scan_for_deadlocks(ScanMode::ReadOnly).reports;
        dump.with_findings(found, self.hooks.reporter.recent(self.clock().elapsed()))
    }

    pub(crate) fn config(&self) -> &Config {
        &self.base().config
    }

    pub(crate) fn clock(&self) -> &Clock {
        &self.config().env.clock
    }

    /// Returns whether the builder enabled I/O.
    pub(crate) fn has_io(&self) -> bool {
        self.config().has_io
    }

    /// Returns whether the scheduler is shutting down or has shut down.
    pub(crate) fn is_closing(&self) -> bool {
        match &self.flavor {
            Flavor::Current(scheduler) => scheduler.base.is_closing(),
            Flavor::Multi(scheduler) => scheduler.base.is_closing(),
        }
    }

    /// Makes the workers exit after a fatal error.
    pub(super) fn propagate_fatal_error(&self) {
        if let Flavor::Multi(scheduler) = &self.flavor {
            scheduler.propagate_fatal_error();
        }
    }

    /// Returns the poller for descriptors registered on this thread, and the index of its worker.
    ///
    /// Creates the poller if it does not exist yet.
    pub(crate) fn poller(&self) -> io::Result<(&Arc<Poller>, usize)> {
        let (slot, owner) = match &self.flavor {
            Flavor::Current(scheduler) => (&scheduler.poller, 0),
            Flavor::Multi(scheduler) => {
                let owner = scheduler.driver_owner();
                (&scheduler.workers[owner].poller, owner)
            }
        };
        if let Some(poller) = slot.get() {
            return Ok((poller, owner));
        }
        // If two threads create one at the same time, the second one is dropped.
        let created = Arc::new(Poller::new(self.config().io_batch)?);
        Ok((slot.get_or_init(|| created), owner))
    }

    /// Returns all pollers that exist.
    pub(super) fn existing_pollers(&self) -> Vec<&Arc<Poller>> {
        match &self.flavor {
            Flavor::Current(scheduler) => scheduler.poller.get().into_iter().collect(),
            Flavor::Multi(scheduler) => {
                scheduler.workers.iter().filter_map(|worker| worker.poller.get()).collect()
            }
        }
    }

    /// Wakes worker `owner` after a registration with its poller.
    ///
    /// The worker may be parked outside its poller, because the poller had no sources before.
    pub(crate) fn wake_poller(&self, owner: usize) {
        match &self.flavor {
            Flavor::Current(scheduler) => scheduler.wake_holder(),
            Flavor::Multi(scheduler) => scheduler.notify_driver(owner),
        }
    }

    /// Returns the timers for a future that is polled on this thread.
    pub(crate) fn timers(&self) -> &Timers {
        match &self.flavor {
            Flavor::Current(scheduler) => &scheduler.timers,
            Flavor::Multi(scheduler) => scheduler.timers(),
        }
    }

    /// Returns the timers of worker `owner`.
    pub(crate) fn timers_of(&self, owner: usize) -> &Timers {
        match &self.flavor {
            Flavor::Current(scheduler) => &scheduler.timers,
            Flavor::Multi(scheduler) => &scheduler.workers[owner].timers,
        }
    }

    /// Wakes the worker that owns `timers`, after a new earliest deadline was registered there.
    pub(crate) fn wake_timers(&self, timers: &Timers) {
        match &self.flavor {
            Flavor::Current(scheduler) => scheduler.wake_holder(),
            Flavor::Multi(scheduler) => scheduler.notify_driver(timers.owner),
        }
    }

    /// Fires the expired timers of a current-thread runtime, after its clock was advanced.
    pub(crate) fn fire_due_timers(&self) {
        if let Flavor::Current(scheduler) = &self.flavor {
            scheduler.timers.advance_to(self.clock().tick());
        }
    }

    pub(crate) fn for_each_task(&self, f: impl FnMut(TaskRef)) {
        match &self.flavor {
            Flavor::Current(scheduler) => scheduler.for_each_task(f),
            Flavor::Multi(scheduler) => scheduler.for_each_task(f),
        }
    }
}

impl Drop for RuntimeInner {
    fn drop(&mut self) {
        registry::remove(self.id);
    }
}
