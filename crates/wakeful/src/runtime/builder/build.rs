//! Turns the settings of a builder into a runtime.

use super::{Builder, Kind};
use crate::driver::clock::Clock;
use crate::inspect::Delivery;
use crate::runtime::file_backend::FileBackendState;
use crate::runtime::hooks::ReportingHooks;
use crate::runtime::inner::{Flavor, RuntimeInner};
use crate::runtime::panic_policy::PanicPolicy;
use crate::runtime::test_limit::{self, TestLimit, TestLimitSetting};
use crate::runtime::{
    FileBackend, Handle, Id, LocalOptions, LocalRuntime, Runtime, context, dump_signal,
    environment, registry, simulated,
};
use crate::scheduler::blocking_pool::BlockingPool;
use crate::scheduler::config::{Config, Environment, NextTask};
use crate::scheduler::current_thread::CurrentThread;
use crate::scheduler::multi_thread::MultiThread;
use crate::scheduler::schedule_times::ScheduleTimes;
use crate::scheduler::task_hooks::TaskHooks;
use crate::task::context as task_context;
use crate::task::ended::EndedWatch;
use crate::task::id::IdSource;
use crate::telemetry::worker_metrics::ExactBuckets;
use std::collections::hash_map::RandomState;
use std::fmt;
use std::hash::BuildHasher;
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

/// Creating the runtime.
impl Builder {
    /// Builds the runtime.
    ///
    /// # Errors
    ///
    /// Returns an error if the operating system can't create a thread.
    ///
    /// # Panics
    ///
    /// - If `start_paused` is set for a multi-thread runtime.
    /// - If `WAKEFUL_WORKER_THREADS`, `TOKIO_WORKER_THREADS`, `WAKEFUL_FILE_BACKEND`, `WAKEFUL_SIM`
    ///   or `WAKEFUL_TEST_TIMEOUT` is read and has an invalid value.
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::runtime::Builder;
    ///
    /// let runtime = Builder::new_multi_thread().enable_all().build()?;
    /// let task = runtime.spawn(async { 6 * 7 });
    /// assert_eq!(runtime.block_on(task).unwrap(), 42);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    #[track_caller]
    pub fn build(&mut self) -> io::Result<Runtime> {
        assert!(
            self.kind != Kind::MultiThread || !self.start_paused,
            "`time::pause()` requires the `current_thread` Tokio runtime, and so does \
             `start_paused(true)`: a multi-thread runtime cannot pause its clock. Use \
             Builder::new_current_thread, or leave out start_paused."
        );
        Ok(Runtime::from_handle(Handle::from_shared(self.build_shared(None)?)))
    }

    /// Builds a runtime that stays on this thread, for tasks that need not be `Send`.
    ///
    /// # Errors
    ///
    /// Currently none: a local runtime starts no thread.
    ///
    /// # Panics
    ///
    /// - If the builder is for a multi-thread runtime.
    /// - If `WAKEFUL_FILE_BACKEND`, `WAKEFUL_SIM` or `WAKEFUL_TEST_TIMEOUT` is read and has an
    ///   invalid value.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::rc::Rc;
    /// use wakeful::runtime::{Builder, LocalOptions};
    ///
    /// let runtime = Builder::new_current_thread().build_local(LocalOptions::default())?;
    /// let words = Rc::new(["stays", "here"]);
    /// let task = runtime.spawn_local(async move { words.len() });
    /// assert_eq!(runtime.block_on(task).unwrap(), 2);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    #[track_caller]
    pub fn build_local(&mut self, options: LocalOptions) -> io::Result<LocalRuntime> {
        assert!(
            self.kind != Kind::MultiThread,
            "multi_thread is not supported for LocalRuntime: use Builder::new_current_thread"
        );
        let shared = self.build_shared(Some(options))?;
        Ok(LocalRuntime::from_handle(Handle::from_shared(shared)))
    }

    /// Builds the shared state of a runtime. `local` has the options of a local runtime.
    #[track_caller]
    fn build_shared(&mut self, local: Option<LocalOptions>) -> io::Result<Arc<RuntimeInner>> {
        simulated::refuse_in_simulation("a runtime that a `Builder` builds")?;
        if self.kind == Kind::Simulated {
            return self.build_first_host(self.seed.unwrap_or_default(), local);
        }
        if let Some(seed) = environment::simulation_seed() {
            return self.build_first_host(seed, local);
        }
        self.build_with(local, self.environment())
    }

    /// Builds the shared state of a runtime whose time, ids and randomness come from `env`.
    #[track_caller]
    pub(super) fn build_with(
        &mut self,
        local: Option<LocalOptions>,
        env: Environment,
    ) -> io::Result<Arc<RuntimeInner>> {
        let is_local = local.is_some();
        let is_simulated = env.simulated.is_some();
        let mut task_hooks = self.task_hooks.clone();
        if let Some(options) = local {
            task_hooks.override_with(options.task_hooks);
        }
        let delivery = Delivery::new(self.report_filter, self.report_format);
        let panic_policy = PanicPolicy::new(self.on_panic.clone());
        let hooks = ReportingHooks::new(self.on_report.clone(), delivery, panic_policy);
        let config = Arc::new(self.config(hooks.clone(), task_hooks, env));
        // Must precede the start of threads: `from_env` panics if the value is unknown.
        let backend = self.file_backend.unwrap_or_else(FileBackend::from_env);
        let files = FileBackendState::new(backend);
        let test_limit = TestLimit::start(self.test_limit);
        let pool = Arc::new(BlockingPool::new(config.clone()));
        let flavor = match self.kind {
            Kind::MultiThread if !is_simulated => Flavor::Multi(MultiThread::new(config)),
            _ => Flavor::Current(CurrentThread::start(config)),
        };
        let shared = Arc::new(RuntimeInner {
            id: Id::next(),
            has_time: self.has_time,
            timers_elapse_at_shutdown: self.timers_elapse_at_shutdown,
            flavor,
            pool,
            local_to: is_local.then(|| std::thread::current().id()),
            hooks: hooks.clone(),
            files,
            tokio_intervals: Default::default(),
            test_limit,
            is_for_test: !matches!(self.test_limit, TestLimitSetting::Unlimited),
        });
        task_context::set_budget_yield_counter(|| {
            context::with_current(|shared| shared.base().budget_yields.fetch_add(1, Relaxed));
        });
        hooks.set_runtime(&shared);
        if let Flavor::Multi(scheduler) = &shared.flavor {
            scheduler.start()?;
        }
        registry::add(&shared);
        if is_simulated {
            return Ok(shared);
        }
        dump_signal::print_later(&shared);
        if self.dump_on_signal {
            dump_signal::print_on_signal();
        }
        test_limit::watch(&shared);
        #[cfg(feature = "page")]
        crate::inspect::page::start_of_process(self.page.as_deref());
        Ok(shared)
    }

    fn config(
        &self,
        hooks: Arc<ReportingHooks>,
        task_hooks: TaskHooks,
        env: Environment,
    ) -> Config {
        let observes_ends = task_hooks.on_terminate.is_some() || self.tracks_latencies;
        Config {
            worker_threads: match (self.kind, self.worker_threads) {
                _ if env.simulated.is_some() => 1,
                (Kind::CurrentThread | Kind::Simulated, _) => 1,
                (Kind::MultiThread, Some(count)) => count,
                (Kind::MultiThread, None) => default_workers(),
            },
            thread_name: self.thread_name.clone(),
            thread_stack_size: self.thread_stack_size,
            max_blocking_threads: self.max_blocking_threads,
            thread_keep_alive: self.thread_keep_alive,
            on_thread_start: self.on_thread_start.clone(),
            on_thread_stop: self.on_thread_stop.clone(),
            on_thread_park: self.on_thread_park.clone(),
            on_thread_unpark: self.on_thread_unpark.clone(),
            injector_interval: self.global_queue_interval.unwrap_or(31),
            event_interval: self.event_interval,
            lifo_slot_enabled: self.lifo_slot_enabled,
            has_io: self.has_io,
            io_batch: self.io_batch,
            name: self.name.clone(),
            block_on_name: self.block_on_name.clone(),
            on_orphan: self.on_orphan,
            rescue_after: self.rescue_after,
            report_blocked_after: self.report_blocked_after,
            report_lasting_after: self.report_lasting_after,
            max_spare_threads: self.max_spare_threads,
            always_end_stuck_block_on: self.always_end_stuck_block_on,
            exact: ExactBuckets {
                poll_times: self.poll_histogram.buckets(),
                schedule_latencies: self.latency_histogram.buckets(),
            },
            schedule_times: self.tracks_latencies.then(ScheduleTimes::default),
            _ended_watch: observes_ends.then(EndedWatch::new),
            task_hooks,
            hooks,
            env,
        }
    }

    /// Returns the sources of time, task ids and random numbers, which make two runs differ.
    fn environment(&self) -> Environment {
        let clock = Clock::new(self.start_paused);
        let seed = self.seed.unwrap_or_else(|| RandomState::new().hash_one(0));
        if self.shuffle {
            Environment::new(clock, IdSource::per_runtime(), seed, NextTask::Shuffled)
        } else {
            Environment::new(clock, IdSource::Process, seed, NextTask::InOrder)
        }
    }
}

/// Returns the default number of workers: from the environment, or else the number of CPUs.
fn default_workers() -> usize {
    for name in ["WAKEFUL_WORKER_THREADS", "TOKIO_WORKER_THREADS"] {
        let Ok(value) = std::env::var(name) else { continue };
        match value.parse::<usize>() {
            Ok(count) if count > 0 => return count,
            _ => panic!("\"{name}\" must be a positive number of threads, but it is {value:?}"),
        }
    }
    std::thread::available_parallelism().map_or(1, |count| count.get())
}

impl fmt::Debug for Builder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Builder")
            .field("kind", &self.kind)
            .field("worker_threads", &self.worker_threads)
            .field("max_blocking_threads", &self.max_blocking_threads)
            .field("thread_keep_alive", &self.thread_keep_alive)
            .field("on_orphan", &self.on_orphan)
            .field("on_panic", &self.on_panic)
            .finish_non_exhaustive()
    }
}
