//! The wait graph of one runtime or of all: finds stuck nodes, and the cycles among them.

use super::inner_waits::InnerWaits;
use super::node::{Node, WaitEdge};
use super::streams::Streams;
use super::waiter::Waiter;
use crate::inspect::report::RuntimeName;
use crate::task::block_on::is_block_on_id;
use crate::task::runnable::TaskRef;
use crate::task::state::{BLOCKING, COMPLETE, RUNNING};
use crate::wait::ownership::owner::Owner;
use crate::wait::ownership::resource_record::ResourceRecord;
use crate::watchdog::snapshot::Inspectable;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

/// The maximum number of edges from queued to running closures in one runtime.
const MAX_POOL_EDGES: usize = 100_000;

/// A runtime of the graph.
struct ObservedRuntime {
    name: Option<String>,
    /// Whether it is a host of a simulation.
    is_host: bool,
    /// The name of its `block_on` futures.
    block_on_name: Option<String>,
    /// The time of the observation on its clock.
    taken_at: Duration,
}

/// The wait graph of one runtime or of all, keyed by the ids of tasks and `block_on` futures.
#[derive(Default)]
pub(super) struct Graph {
    pub(super) nodes: BTreeMap<u64, Node>,
    /// The number of incomplete tasks that are not nodes: they run, are queued, or wait for something
    /// unknown.
    pub(super) others: usize,
    /// The lower halves of the ids of the parents of `others`.
    pub(super) parents_of_others: BTreeSet<u64>,
    /// Other waiters that must be polled once more to learn the owners of their resource.
    pub(super) unnamed: Vec<(Waiter, Vec<&'static ResourceRecord>)>,
    /// Other waiters that must be polled once more to list the tasks of a `JoinSet`.
    pub(super) sets: Vec<Waiter>,
    /// The observed runtimes. The first is the scanned one.
    runtimes: Vec<ObservedRuntime>,
    /// The index of the runtime, for nodes that do not belong to the first runtime.
    runtime_of: BTreeMap<u64, usize>,
}

impl Graph {
    /// Observes these runtimes. The first is the scanned one.
    pub(super) fn take(runtimes: &[&dyn Inspectable]) -> Self {
        Self::take_with(runtimes, None)
    }

    /// Observes these hosts of a simulation, with the waits for `streams` as edges.
    pub(super) fn take_with(runtimes: &[&dyn Inspectable], streams: Option<&Arc<Streams>>) -> Self {
        let mut graph = Self::default();
        let inner_waits = InnerWaits::read();
        for (nth, runtime) in runtimes.iter().enumerate() {
            let config = &runtime.base().config;
            let taken_at = config.env.clock.elapsed();
            let (name, block_on_name) = (config.name.clone(), config.block_on_name.clone());
            let is_host = config.env.simulated.is_some();
            graph.runtimes.push(ObservedRuntime { name, is_host, block_on_name, taken_at });
            let (mut queued, mut closures) = (Vec::new(), Vec::new());
            let mut add = |waiter: Waiter| {
                let waiter = inner_waits.wrap(waiter);
                let parent = waiter.parent();
                graph.add(Node::observe(waiter, taken_at, streams), parent, nth);
            };
            runtime.block_ons().into_iter().map(Waiter::BlockOn).for_each(&mut add);
            runtime.each_task(&mut |task| {
                let state = task.state();
                if state.has(BLOCKING) && !state.has(RUNNING | COMPLETE) {
                    queued.push(task);
                } else if !state.has(COMPLETE) {
                    closures.extend(state.has(BLOCKING).then(|| task.header().id.get()));
                    add(Waiter::Task(task));
                }
            });
            let is_full = closures.len() >= config.max_blocking_threads;
            graph.add_queued(queued, if is_full { closures } else { Vec::new() }, nth, taken_at);
        }
        graph
    }

    /// Adds closures that wait for a thread of their pool.
    ///
    /// `ahead` lists the closures that occupy all threads of the pool. If the pool may start another
    /// thread, `ahead` is empty and a queued closure is not a node.
    fn add_queued(&mut self, queued: Vec<TaskRef>, ahead: Vec<u64>, runtime: usize, now: Duration) {
        let owner = |task| Owner { task, site: None, granted_unpolled: false };
        let ahead: Vec<Owner> = ahead.into_iter().map(owner).collect();
        // The closures behind the first ones wait for the same threads.
        let counts = MAX_POOL_EDGES.checked_div(ahead.len()).unwrap_or(0);
        for (nth, task) in queued.into_iter().enumerate() {
            let parent = Some(task.header().parent.get()).filter(|parent| *parent != 0);
            let node = (nth < counts).then(|| Node::queued(task, ahead.clone(), now)).flatten();
            self.add(node, parent, runtime);
        }
    }

    /// Adds an observed waiter, as a node or as one of `others`.
    fn add(&mut self, node: Option<Node>, parent: Option<u32>, runtime: usize) {
        match node {
            Some(node) if node.may_be_stuck() => {
                let id = node.waiter.id();
                if runtime > 0 {
                    self.runtime_of.insert(id, runtime);
                }
                drop(self.nodes.insert(id, node));
            }
            node => {
                self.others += 1;
                self.parents_of_others.extend(parent.map(u64::from));
                if let Some(node) = node {
                    if node.has_unlisted_set() {
                        self.sets.push(node.waiter);
                        return;
                    }
                    let records = node.unnamed_records();
                    self.unnamed.extend((!records.is_empty()).then_some((node.waiter, records)));
                }
            }
        }
    }

    /// Returns the runtime of this node.
    fn runtime_of(&self, id: u64) -> &ObservedRuntime {
        &self.runtimes[self.runtime_of.get(&id).copied().unwrap_or(0)]
    }

    /// Returns the time of the observation, on the clock of this node's runtime.
    pub(super) fn taken_at(&self, id: u64) -> Duration {
        self.runtime_of(id).taken_at
    }

    /// Returns the name of `block_on` futures in the runtime of this node.
    pub(super) fn block_on_name(&self, id: u64) -> Option<&str> {
        self.runtime_of(id).block_on_name.as_deref()
    }

    /// Returns this node's runtime, if it has a name and the graph covers several runtimes.
    pub(super) fn runtime_name(&self, id: u64) -> Option<RuntimeName> {
        let runtime = self.runtime_of(id);
        let name = runtime.name.clone().filter(|_| self.runtimes.len() > 1)?;
        Some(if runtime.is_host { RuntimeName::Host(name) } else { RuntimeName::Runtime(name) })
    }

    /// Returns whether a node of the cycle belongs to the scanned runtime.
    pub(super) fn is_own(&self, cycle: &[Step<'_>]) -> bool {
        cycle.iter().any(|step| !self.runtime_of.contains_key(&step.id))
    }

    /// Returns whether a node depends on a task of another runtime.
    pub(super) fn depends_on_others_than(&self, runtime: &dyn Inspectable) -> bool {
        let owners = self.nodes.values().flat_map(Node::owners).map(|(_, owner)| owner.task);
        let mut missing: BTreeSet<u64> =
            owners.filter(|task| *task != 0 && !self.nodes.contains_key(task)).collect();
        if !missing.is_empty() {
            for block_on in runtime.block_ons() {
                missing.remove(&block_on.record.id);
            }
            runtime.each_task(&mut |task| {
                missing.remove(&task.header().id.get());
            });
        }
        !missing.is_empty()
    }

    /// Returns the nodes that depend only on each other, or have no waker.
    ///
    /// With [`Scope::Exact`], a node is not stuck if it has exits, or if it waits for a guard that may
    /// have been moved recently.
    ///
    /// A worklist removes the nodes that depend on a task outside the graph, then the nodes that depend on
    /// these, and so on. Linear in nodes and edges.
    pub(super) fn stuck(&self, scope: Scope) -> BTreeSet<u64> {
        let mut stuck: BTreeSet<u64> = self.nodes.keys().copied().collect();
        let mut waiters: BTreeMap<u64, Vec<u64>> = BTreeMap::new();
        // By parent: nodes whose resource may be held by one of that parent's children.
        let mut child_waiters: BTreeMap<u64, Vec<u64>> = BTreeMap::new();
        let mut not_stuck = Vec::new();
        let mut awaited: BTreeMap<u64, usize> = BTreeMap::new();
        for id in self.nodes.values().flat_map(Node::joined_tasks) {
            *awaited.entry(id).or_default() += 1;
        }
        for (id, node) in &self.nodes {
            // A task is joined by one waiter. A `block_on` future whose handle has moved to another
            // task keeps a stale wait record, so its edge does not count.
            let is_stale = is_block_on_id(*id) && node.joined_tasks().any(|id| awaited[&id] > 1);
            if is_stale || !(scope == Scope::WithExits || node.is_settled()) {
                not_stuck.push(*id);
            }
            for (edge, owner) in node.owners() {
                match self.nodes.get(&owner.task) {
                    // Runtimes with `shuffle_tasks` share task ids. If no waiter joins the task with
                    // this id, the joined task belongs to another runtime.
                    Some(holder) if edge.joined_task().is_none() || holder.waiter.is_awaited() => {
                        waiters.entry(owner.task).or_default().push(*id);
                    }
                    _ => not_stuck.push(*id),
                }
            }
            for edge in node.edges.iter().filter(|edge| edge.is_often_moved()) {
                for owner in &edge.holders {
                    child_waiters.entry(u64::from(owner.task as u32)).or_default().push(*id);
                }
            }
        }
        let parents = self.parents_of_others.iter();
        not_stuck.extend(parents.flat_map(|parent| child_waiters.remove(parent)).flatten());
        while let Some(id) = not_stuck.pop() {
            if stuck.remove(&id) {
                not_stuck.extend(waiters.remove(&id).into_iter().flatten());
                let parent = self.nodes[&id].waiter.parent();
                let children = parent.and_then(|parent| child_waiters.remove(&u64::from(parent)));
                not_stuck.extend(children.into_iter().flatten());
            }
        }
        stuck
    }

    /// Returns the cycles among the stuck nodes, each once, as the edges along it.
    ///
    /// If a node waits for several resources whose owners are in the cycle, it has a step for each of
    /// them, one after the other.
    pub(super) fn cycles<'a>(&'a self, stuck: &BTreeSet<u64>) -> Vec<Vec<Step<'a>>> {
        let on_path = self.nodes_leading_to_cycles(stuck);
        let (mut cycles, mut seen) = (Vec::new(), BTreeSet::new());
        for &start in &on_path {
            let mut path: Vec<Step<'a>> = Vec::new();
            let mut at = start;
            while seen.insert(at) {
                let Some(step) = self.step(at, &on_path) else { break };
                path.push(step);
                at = step.owner.task;
            }
            // The path has met itself: its tail is a cycle, and its head leads to the cycle.
            if let Some(begin) = path.iter().position(|step| step.id == at) {
                let mut cycle = path.split_off(begin);
                self.widen(&mut cycle, &on_path);
                seen.extend(cycle.iter().map(|step| step.id));
                cycles.push(self.with_other_waits(cycle));
            }
        }
        cycles
    }

    /// Inserts nodes on longer paths between two nodes of the cycle: a resource with several owners has
    /// several paths.
    ///
    /// For example, each of four tasks holds a permit and waits for the permits of all. Two of them
    /// already form a cycle, and none of the four can proceed.
    fn widen<'a>(&'a self, cycle: &mut Vec<Step<'a>>, on_path: &BTreeSet<u64>) {
        let mut at = 0;
        while at < cycle.len() {
            let Step { id, edge, owner } = cycle[at];
            let is_new = |it: &u64| on_path.contains(it) && cycle.iter().all(|step| step.id != *it);
            let between = edge.all().filter(|it| is_new(&it.task)).find_map(|it| {
                let next = self.nodes[&it.task].owners().find(|(_, to)| to.task == owner.task);
                next.map(|(edge, owner)| (it, Step { id: it.task, edge, owner }))
            });
            match between {
                Some((via, step)) => {
                    cycle[at] = Step { id, edge, owner: via };
                    cycle.insert(at + 1, step);
                }
                None => at += 1,
            }
        }
    }

    /// Adds the other waits of each node, if an owner of the resource is in the cycle.
    fn with_other_waits<'a>(&'a self, cycle: Vec<Step<'a>>) -> Vec<Step<'a>> {
        let mut all: Vec<Step<'a>> = Vec::with_capacity(cycle.len());
        for step in &cycle {
            let begin = all.len();
            all.push(*step);
            for edge in &self.nodes[&step.id].edges {
                let is_listed = |step: &Step<'_>| step.edge.wait.target == edge.wait.target;
                let is_in_cycle = |owner: &&Owner| cycle.iter().any(|it| it.id == owner.task);
                if let Some(owner) = edge.all().find(is_in_cycle)
                    && !all[begin..].iter().any(is_listed)
                {
                    all.push(Step { id: step.id, edge, owner });
                }
            }
        }
        all
    }

    /// Returns the task that the given task waits for, if known.
    pub(super) fn next_of(&self, id: u64) -> Option<u64> {
        self.nodes.get(&id).and_then(|node| {
            let owners = || node.owners().map(|(_, owner)| owner.task);
            owners().find(|owner| *owner != id).or_else(|| owners().next())
        })
    }

    /// Returns the stuck nodes from which a path leads to a cycle, not only to nodes without a waker.
    fn nodes_leading_to_cycles(&self, stuck: &BTreeSet<u64>) -> BTreeSet<u64> {
        let mut on_path = stuck.clone();
        let mut steps: BTreeMap<u64, usize> = BTreeMap::new();
        let mut waiters: BTreeMap<u64, Vec<u64>> = BTreeMap::new();
        for &id in stuck {
            let owners = self.nodes[&id].owners().filter(|(_, it)| stuck.contains(&it.task));
            steps.insert(id, owners.clone().count());
            owners.for_each(|(_, owner)| waiters.entry(owner.task).or_default().push(id));
        }
        let mut ends: Vec<u64> = stuck.iter().copied().filter(|it| steps[it] == 0).collect();
        while let Some(end) = ends.pop() {
            on_path.remove(&end);
            for waiter in waiters.remove(&end).into_iter().flatten() {
                if let Some(steps) = steps.get_mut(&waiter) {
                    *steps -= 1;
                    ends.extend((*steps == 0).then_some(waiter));
                }
            }
        }
        on_path
    }

    /// Returns the edge to follow: the first whose owner is another task, or else the first.
    fn step(&self, id: u64, on_path: &BTreeSet<u64>) -> Option<Step<'_>> {
        let owners = || self.nodes[&id].owners().filter(|(_, owner)| on_path.contains(&owner.task));
        let other = owners().find(|(_, owner)| owner.task != id);
        let (edge, owner) = other.or_else(|| owners().next())?;
        Some(Step { id, edge, owner })
    }
}

/// Which nodes count as stuck.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Scope {
    /// Nodes that only the resources of their edges can wake, and that have waited long enough.
    Exact,
    /// The nodes of [`Exact`](Self::Exact), and all others with edges.
    WithExits,
}

/// One step along a cycle: a node, one of its edges, and the owner that the step leads to.
#[derive(Clone, Copy)]
pub(super) struct Step<'a> {
    pub(super) id: u64,
    pub(super) edge: &'a WaitEdge,
    pub(super) owner: &'a Owner,
}
