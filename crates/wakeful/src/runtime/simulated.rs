//! The hosts of a simulation as runtimes: how the world starts, runs and stops them.
//!
//! [`RunningHost`] is the world's view of a runtime. [`HostTemplate`] starts the runtimes of the
//! hosts with the settings of the first host, on which `block_on` runs.
//!
//! This file also refuses operations that a simulation does not support, so that no code uses the
//! real world unnoticed.

use super::runtime::Runtime;
use super::{Builder, LocalOptions, context};
use crate::driver::clock::simulated::HostTime;
use crate::inspect::{self, Dump};
use crate::runtime::inner::{Flavor, RuntimeInner};
use crate::runtime::local_runtime::spawn_on_own_thread;
use crate::scheduler::current_thread::CurrentThread;
use crate::sim::network::StreamPeer;
use crate::sim::oracle::{ChoiceKind, HostId};
use crate::sim::world::{FailureKind, HostRunner, Program, SimulatedHost, World, WorldHooks};
use crate::sys::sync::ignore_poison;
use crate::task::cell::SpawnOptions;
use crate::task::context as task_context;
use crate::task::origin::Origin;
use std::collections::BTreeMap;
use std::io;
use std::panic::Location;
use std::sync::{Arc, Mutex, Weak};

/// A host that is up, in the form that the world holds.
pub(super) struct RunningHost {
    shared: Arc<RuntimeInner>,
    time: Arc<HostTime>,
    /// `None` for the first host, whose runtime the caller of `block_on` owns.
    runtime: Mutex<Option<Runtime>>,
}

impl RunningHost {
    fn new(shared: Arc<RuntimeInner>, runtime: Option<Runtime>) -> Arc<Self> {
        let host = shared.config().env.simulated.as_ref().expect("the runtime of a host");
        let time = host.time.clone();
        Arc::new(Self { shared, time, runtime: Mutex::new(runtime) })
    }

    fn scheduler(&self) -> &CurrentThread {
        match &self.shared.flavor {
            Flavor::Current(scheduler) => scheduler,
            Flavor::Multi(_) => unreachable!("a simulated runtime has one thread"),
        }
    }
}

impl HostRunner for RunningHost {
    fn ready(&self) -> usize {
        self.scheduler().ready_tasks()
    }

    fn task_id(&self, index: usize) -> u64 {
        self.scheduler().ready_task_id(index)
    }

    fn task_site(&self, index: usize) -> &'static Location<'static> {
        self.scheduler().ready_task_site(index)
    }

    fn poll(&self, index: usize, budget: Option<u8>) {
        let _entered = context::enter(&self.shared);
        self.scheduler().poll_ready_task(index, budget);
    }

    fn next_timer_ns(&self) -> Option<u64> {
        self.scheduler().next_timer().map(|elapsed| self.time.world_ns_at(elapsed))
    }

    fn fire_timers(&self) -> usize {
        let _entered = context::enter(&self.shared);
        self.scheduler().fire_simulated_timers()
    }

    fn shut_down(&self) {
        let runtime = ignore_poison(self.runtime.lock()).take();
        if let Some(runtime) = runtime {
            runtime.shutdown_background();
        }
    }
}

/// Starts the runtimes of the hosts of one world.
pub(super) struct HostTemplate {
    builder: Mutex<Builder>,
    /// The runtime of each host's latest start.
    runtimes: Mutex<BTreeMap<HostId, Weak<RuntimeInner>>>,
}

impl HostTemplate {
    /// Creates the template from a builder with the hosts' settings.
    pub(super) fn new(builder: Builder) -> Self {
        Self { builder: Mutex::new(builder), runtimes: Mutex::new(BTreeMap::new()) }
    }

    /// Returns the runtimes of the hosts that are up.
    fn up(&self, world: &World) -> Vec<Arc<RuntimeInner>> {
        let runtimes = ignore_poison(self.runtimes.lock());
        let up = runtimes.iter().filter(|(host, _)| world.is_up(**host));
        up.filter_map(|(_, shared)| shared.upgrade()).collect()
    }

    /// Returns the reports of deadlocks among these hosts, if any.
    ///
    /// With `peers`, the other ends of streams, waits for streams count.
    fn deadlocks(
        &self,
        runtimes: &[Arc<RuntimeInner>],
        nothing_runs: bool,
        peers: Option<&BTreeMap<u64, StreamPeer>>,
    ) -> Option<String> {
        let hosts: Vec<_> = runtimes.iter().map(|shared| shared.inspectable()).collect();
        let found = inspect::scan_hosts(&hosts, nothing_runs, peers);
        let texts: Vec<_> = found.iter().map(|report| report.to_string()).collect();
        (!texts.is_empty()).then(|| texts.join("\n  "))
    }

    fn add(&self, host: HostId, shared: &Arc<RuntimeInner>) {
        ignore_poison(self.runtimes.lock()).insert(host, Arc::downgrade(shared));
    }
}

impl WorldHooks for HostTemplate {
    fn first_host(&self) -> Arc<dyn HostRunner> {
        let shared =
            ignore_poison(self.runtimes.lock()).get(&HostId::FIRST).and_then(Weak::upgrade);
        let shared = shared.expect("the caller of `block_on` owns it");
        RunningHost::new(shared, None)
    }

    fn start_host(
        &self,
        host: SimulatedHost,
        name: &str,
        program: &Program,
    ) -> Arc<dyn HostRunner> {
        let (id, world) = (host.id, host.world.clone());
        let runtime = ignore_poison(self.builder.lock()).name(name).build_host(host);
        let runtime = runtime.expect("a simulated runtime starts no thread");
        let shared = runtime.handle().shared.clone();
        self.add(id, &shared);
        {
            let _entered = context::enter(&shared);
            let future = world.call_program(id, || ignore_poison(program.start.lock())());
            let options = SpawnOptions { origin: Origin::at(program.site, None), flags: 0 };
            if let Some(future) = future {
                // SAFETY: the world starts hosts, polls their tasks and shuts them down on one
                // thread. It is the thread of the `block_on` during which a host is up
                // (`World::start_running`).
                drop(unsafe { spawn_on_own_thread(&shared, future, options) });
            }
        }
        RunningHost::new(shared, Some(runtime))
    }

    fn find_deadlock(&self, world: &World) -> Option<String> {
        self.deadlocks(&self.up(world), false, None)
    }

    fn describe_waits(&self, world: &World) -> String {
        let mut text = String::new();
        let runtimes = self.up(world);
        if let Some(deadlocks) = self.deadlocks(&runtimes, true, None) {
            text += &format!("\n  {deadlocks}");
        }
        for shared in &runtimes {
            text += &format!("\n{}", Dump::take(shared.inspectable(), shared.name()));
        }
        text
    }

    fn explain_stuck(&self, world: &World) -> (FailureKind, String) {
        let peers = world.stream_peers();
        if let Some(text) = self.deadlocks(&self.up(world), true, Some(&peers)) {
            return (FailureKind::Deadlock, text);
        }
        let text = "no task is ready, and there is no timer and no message that could make one \
                    ready: the simulation can never end. Threads outside the simulation cannot wake it.";
        (FailureKind::Stuck, text.to_owned() + &self.describe_waits(world))
    }
}

impl Builder {
    /// Builds the runtime of a host.
    fn build_host(&mut self, host: SimulatedHost) -> io::Result<Runtime> {
        let shared = self.build_simulated(host, Some(LocalOptions::default()))?;
        Ok(Runtime::from_handle(super::Handle::from_shared(shared)))
    }
}

/// Connects the runtime of a host with its world. The builder calls it once per runtime.
///
/// Hosts that the program adds later use the settings of `template`.
pub(super) fn connect(
    shared: &Arc<RuntimeInner>,
    host: &SimulatedHost,
    template: impl FnOnce() -> Builder,
) {
    if let Flavor::Current(scheduler) = &shared.flavor {
        scheduler.hold_core();
    }
    task_context::set_simulated_choice(choose);
    if host.id == HostId::FIRST {
        let hooks = HostTemplate::new(template());
        hooks.add(host.id, shared);
        let is_first = host.world.hooks.set(Arc::new(hooks)).is_ok();
        assert!(is_first, "a world has one first host");
    }
}

/// Lets the oracle choose a number below `n`, if the current runtime is simulated.
fn choose(n: u32) -> Option<u32> {
    let choose = |shared: &RuntimeInner| {
        let host = shared.config().env.simulated.as_ref()?;
        Some(host.world.choose(ChoiceKind::Pick, host.id, u64::from(n), None) as u32)
    };
    context::with_current(choose).flatten()
}

impl RuntimeInner {
    /// Refuses `what` if the runtime is simulated, because it would use the real world.
    pub(crate) fn refuse_in_simulation(&self, what: &str) -> io::Result<()> {
        if self.config().env.simulated.is_none() {
            return Ok(());
        }
        Err(refused(what))
    }
}

/// Refuses `what` if the thread's current runtime is simulated.
pub(crate) fn refuse_in_simulation(what: &str) -> io::Result<()> {
    context::with_current(|shared| shared.refuse_in_simulation(what)).unwrap_or(Ok(()))
}

/// Calls `f` with the simulated host that the calling code runs on, if any.
#[inline]
pub(crate) fn with_host<R>(f: impl FnOnce(&SimulatedHost) -> R) -> Option<R> {
    context::with_current(|shared| shared.config().env.simulated.as_ref().map(f)).flatten()
}

#[cold]
pub(crate) fn refused(what: &str) -> io::Error {
    let text = format!(
        "{what} is not available in a simulation: it would use the real world, which the seed does \
         not decide"
    );
    io::Error::new(io::ErrorKind::Unsupported, text)
}
