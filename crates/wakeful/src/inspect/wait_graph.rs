//! The deadlock scan: finds cycles in the wait-for graph, and a `block_on` that can never return.
//!
//! # The graph
//!
//! The nodes are tasks and `block_on` futures that wait. A node has a [`WaitEdge`] if exactly one
//! live waker for it exists, and its wait record is linked to a resource (RECORD-1 in
//! [`resource_record`](crate::wait::ownership::resource_record)). Then that waker is queued at that
//! resource, so only the resource or an abort can wake the node. This is exact.
//!
//! A node is *stuck* if every owner of its resource is stuck, or if it has no waker at all. The scan
//! starts with all nodes that may be stuck and removes those that depend on a node outside of the
//! set, until the set no longer changes. A cycle in the rest is a deadlock. At the end the scan reads
//! every node of the cycle again. If one of them has changed, the scan reports nothing.
//!
//! # What is exact and what is assumed
//!
//! The owner of a resource is exact for a `JoinHandle`. For guards, permits and channel receivers it
//! is the task that acquired them, and an assumption: the program may have moved the guard, or the
//! future that holds it, to another task or thread. So a report has a
//! [`Certainty`](super::Certainty):
//!
//! - *Proven*: all edges of the cycle are `JoinHandle`s ([`Basis::OnlyJoins`]), or no code of the
//!   process can run, wherever the guards are ([`Basis::NothingRuns`]).
//! - *Suspected*: all other cycles ([`Basis::Acquisition`]). They end no `block_on`.
//!
//! Three assumptions are wrong too often, so the scan does not make them:
//!
//! - An owned guard or permit can be moved freely (RECORD-2). A task that waits for such a resource has
//!   no edge.
//! - Permits and receivers are often moved into a child task. A task that waits for them is stuck only
//!   if the children of their owner are stuck too.
//! - The owner of a receiver is the task that received last, unless that task itself waits for
//!   capacity.
//!
//! A `block_on` is ended only if it provably can never return (`proof_of`).

use super::Dump;
use super::dump::since;
use super::harness;
use super::report::{Basis, Deadlock, Edge, Futurelock, NoRescueReason, Report, StuckBlockOn};
use super::task_info::TaskInfo;
use crate::scheduler::block_on::BlockOnState;
use crate::sys::thread_registry;
use crate::sys::unwind::catch_and_forget;
use crate::task::block_on::is_block_on_id;
use crate::task::id;
use crate::task::runnable::TaskRef;
use crate::task::state::{BLOCKING, COMPLETE, EXEMPT, FOREVER, JOIN_WAKER, NOTIFIED, RUNNING};
use crate::task::wait_kind::WaitKind;
use crate::task::wait_record::{Wait, WaitRecord};
use crate::task::wait_target::WaitTarget;
use crate::wait::ownership::owner::Owner;
use crate::wait::ownership::resource_record::ResourceRecord;
use crate::watchdog;
use crate::watchdog::snapshot::{Inspectable, WorkerSnapshot};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

/// A task or a `block_on` future that waits.
enum Waiter {
    Task(TaskRef),
    BlockOn(Arc<BlockOnState>),
}

impl Waiter {
    fn number(&self) -> u64 {
        match self {
            Waiter::Task(task) => task.header().id.get(),
            Waiter::BlockOn(root) => root.record.id,
        }
    }

    fn record(&self) -> &WaitRecord {
        match self {
            Waiter::Task(task) => &task.header().waiting,
            Waiter::BlockOn(root) => &root.record.waiting,
        }
    }

    /// Returns the number of live wakers, or `None` if it does not wait.
    fn wakers(&self) -> Option<u64> {
        match self {
            Waiter::Task(task) => {
                let state = task.state();
                let waits = !state.has(RUNNING | NOTIFIED | COMPLETE | BLOCKING);
                waits.then(|| state.wakers())
            }
            Waiter::BlockOn(root) => {
                let waits = !root.record.is_polled() && !root.is_woken();
                waits.then(|| root.live_wakers() as u64)
            }
        }
    }

    fn wake(&self) {
        match self {
            Waiter::Task(task) => task.wake(),
            Waiter::BlockOn(root) => root.wake(),
        }
    }

    fn polls(&self) -> u32 {
        match self {
            Waiter::Task(task) => task.header().polls(),
            Waiter::BlockOn(root) => root.record.polls(),
        }
    }

    /// Returns whether a handle exists that can abort the task and is held by no node of the graph.
    ///
    /// This node holds one handle. If the task is awaited, the awaiting node holds another.
    fn may_be_aborted(&self, is_awaited: bool) -> bool {
        match self {
            Waiter::Task(task) => task.state().handles() > 1 + u64::from(is_awaited),
            Waiter::BlockOn(_) => false,
        }
    }

    /// Returns the lower half of its parent's number.
    fn parent(&self) -> Option<u32> {
        match self {
            Waiter::Task(task) => Some(task.header().parent.get()).filter(|parent| *parent != 0),
            Waiter::BlockOn(_) => None,
        }
    }

    fn is_awaited(&self) -> bool {
        matches!(self, Waiter::Task(task) if task.state().has(JOIN_WAKER))
    }

    /// Returns whether the program declared that the task may wait forever.
    fn is_exempt(&self) -> bool {
        match self {
            Waiter::Task(task) => task.state().has(EXEMPT | FOREVER),
            Waiter::BlockOn(_) => false,
        }
    }

    fn info(&self, block_on_name: Option<&str>) -> Option<TaskInfo> {
        match self {
            Waiter::Task(task) => Some(TaskInfo::of_task(task.header())),
            Waiter::BlockOn(root) => TaskInfo::of_block_on(root, block_on_name),
        }
    }
}

/// A node of the graph, as it was observed.
struct Node {
    waiter: Waiter,
    polls: u32,
    /// For a `block_on` future: the number of its current wait.
    rest: u32,
    wakers: u64,
    edge: Option<WaitEdge>,
}

/// The resource that a node waits for, and its owners.
struct WaitEdge {
    wait: Wait,
    /// Owners of the resource. Never empty.
    holders: Vec<Owner>,
    /// A waiter that is queued ahead, and for which free permits are kept.
    queued_ahead: Option<Owner>,
}

impl WaitEdge {
    /// Iterates over all tasks that the node depends on.
    fn all(&self) -> impl Iterator<Item = &Owner> {
        self.queued_ahead.iter().chain(&self.holders)
    }

    /// Returns whether the resource is often moved into a child task, as permits and receivers are.
    fn is_often_moved(&self) -> bool {
        matches!(self.wait.kind, WaitKind::Semaphore | WaitKind::MpscSend)
    }

    fn is_queued_ahead(&self, owner: &Owner) -> bool {
        self.queued_ahead.as_ref() == Some(owner)
    }
}

impl Node {
    /// Observes a waiter. Returns `None` if it does not wait.
    fn observe(waiter: Waiter) -> Option<Self> {
        let polls = waiter.polls();
        let rest = match &waiter {
            Waiter::BlockOn(root) => root.record.poll_number(),
            Waiter::Task(_) => 0,
        };
        let wakers = waiter.wakers()?;
        let mut node = Self { waiter, polls, rest, wakers, edge: None };
        if wakers == 1 {
            node.edge = node.read_edge();
        }
        Some(node)
    }

    fn read_edge(&self) -> Option<WaitEdge> {
        let (record, number) = (self.waiter.record(), self.waiter.number());
        let wait = record.read()?;
        let (holders, queued_ahead) = match record.linked_target()? {
            WaitTarget::Number(_) => return None,
            WaitTarget::Task(id) => {
                (vec![Owner { task: id, site: None, granted_unpolled: false }], None)
            }
            WaitTarget::Record(index) => {
                let resource = ResourceRecord::at(index)?;
                // A node with one waker is not queued twice, so it is not ahead of itself.
                (
                    resource.certain_owners()?,
                    resource.partial_waiter().filter(|ahead| ahead.task != number),
                )
            }
        };
        let is_own = wait.kind == WaitKind::MpscSend && holders.iter().all(|h| h.task == number);
        (!is_own).then_some(WaitEdge { wait, holders, queued_ahead })
    }

    /// Returns the task that it joins.
    fn joined_task(&self) -> Option<u64> {
        let WaitEdge { wait, holders, .. } = self.edge.as_ref()?;
        (wait.kind == WaitKind::Join).then(|| holders[0].task)
    }

    /// Returns the record of its resource if the node has no edge only because an owner is not named.
    ///
    /// Its next poll copies the names to the record.
    fn unnamed_record(&self) -> Option<&'static ResourceRecord> {
        match self.waiter.record().linked_target()? {
            WaitTarget::Record(index) if self.wakers == 1 => {
                ResourceRecord::at(index).filter(|record| record.owner_table.has_unnamed())
            }
            _ => None,
        }
    }

    /// Returns whether it has an edge, or has no waker and was not declared to need none.
    fn may_be_stuck(&self) -> bool {
        self.edge.is_some() || (self.wakers == 0 && !self.waiter.is_exempt())
    }

    /// Returns whether it is in the same wait as when it was observed.
    fn is_unchanged(&self) -> bool {
        let same_edge = || match (&self.edge, self.read_edge()) {
            (None, _) => true,
            (Some(then), Some(now)) => {
                then.wait.target == now.wait.target && then.all().eq(now.all())
            }
            (Some(_), None) => false,
        };
        self.waiter.wakers() == Some(self.wakers)
            && same_edge()
            && self.waiter.polls() == self.polls
            && self.waiter.wakers() == Some(self.wakers)
    }
}

/// The wait-for graph of one runtime, by task number.
struct Graph {
    nodes: BTreeMap<u64, Node>,
    /// Number of other tasks that are not complete: they run, are queued, or wait for something
    /// that is not known.
    others: usize,
    /// Lower halves of the numbers of their parents.
    parents_of_others: BTreeSet<u32>,
    /// Other tasks that must be polled once more to learn the owners of their resource.
    unnamed: Vec<(Waiter, &'static ResourceRecord)>,
    block_on_name: Option<String>,
    /// Time of the observation, on the runtime's clock.
    taken_at: Duration,
}

impl Graph {
    fn take(scheduler: &dyn Inspectable) -> Self {
        let (mut nodes, mut others) = (BTreeMap::new(), 0);
        let (mut parents_of_others, mut unnamed) = (BTreeSet::new(), Vec::new());
        let roots = scheduler.block_ons().into_iter().map(Waiter::BlockOn);
        let mut add = |waiter: Waiter| {
            let parent = waiter.parent();
            match Node::observe(waiter) {
                Some(node) if node.may_be_stuck() => {
                    drop(nodes.insert(node.waiter.number(), node));
                }
                node => {
                    others += 1;
                    parents_of_others.extend(parent);
                    let record = node.as_ref().and_then(Node::unnamed_record);
                    unnamed.extend(node.map(|node| node.waiter).zip(record));
                }
            }
        };
        roots.for_each(&mut add);
        scheduler.each_task(&mut |task| {
            if !task.state().has(COMPLETE) {
                add(Waiter::Task(task));
            }
        });
        let config = &scheduler.base().config;
        let (block_on_name, taken_at) = (config.block_on_name.clone(), config.env.clock.elapsed());
        Self { nodes, others, parents_of_others, unnamed, block_on_name, taken_at }
    }

    /// Returns the nodes that depend only on each other, or have no waker.
    ///
    /// A worklist: a node that depends on a task outside of the graph is removed, then the nodes that
    /// depend on it, and so on. Linear in nodes and edges.
    fn stuck(&self) -> BTreeSet<u64> {
        let mut stuck: BTreeSet<u64> = self.nodes.keys().copied().collect();
        let mut waiters: BTreeMap<u64, Vec<u64>> = BTreeMap::new();
        // By parent: nodes whose resource may be held by one of that parent's children.
        let mut child_waiters: BTreeMap<u32, Vec<u64>> = BTreeMap::new();
        let mut not_stuck = Vec::new();
        let mut awaited: BTreeMap<u64, usize> = BTreeMap::new();
        for id in self.nodes.values().filter_map(Node::joined_task) {
            *awaited.entry(id).or_default() += 1;
        }
        for (number, node) in &self.nodes {
            let Some(edge) = &node.edge else { continue };
            // A task is joined by one waiter. A `block_on` future whose handle has moved to another
            // task keeps a stale wait record, so its edge does not count.
            if is_block_on_id(*number) && node.joined_task().is_some_and(|id| awaited[&id] > 1) {
                not_stuck.push(*number);
            }
            let awaits = edge.wait.kind == WaitKind::Join;
            for owner in edge.all() {
                match self.nodes.get(&owner.task) {
                    // Shuffled runtimes give out the same task ids. If no waiter joins this task,
                    // the joined task belongs to another runtime.
                    Some(holder) if !awaits || holder.waiter.is_awaited() => {
                        waiters.entry(owner.task).or_default().push(*number);
                    }
                    _ => not_stuck.push(*number),
                }
            }
            for owner in edge.holders.iter().filter(|_| edge.is_often_moved()) {
                child_waiters.entry(owner.task as u32).or_default().push(*number);
            }
        }
        let parents = self.parents_of_others.iter();
        not_stuck.extend(parents.flat_map(|parent| child_waiters.remove(parent)).flatten());
        while let Some(number) = not_stuck.pop() {
            if stuck.remove(&number) {
                not_stuck.extend(waiters.remove(&number).into_iter().flatten());
                let parent = self.nodes[&number].waiter.parent();
                let children = parent.and_then(|parent| child_waiters.remove(&parent));
                not_stuck.extend(children.into_iter().flatten());
            }
        }
        stuck
    }

    /// Returns each cycle among the stuck nodes once, as the node numbers along it.
    fn cycles(&self, stuck: &BTreeSet<u64>) -> Vec<Vec<u64>> {
        let (mut cycles, mut seen) = (Vec::new(), BTreeSet::new());
        for &start in stuck {
            let mut path = Vec::new();
            let mut at = start;
            while seen.insert(at) {
                path.push(at);
                match self.next(at) {
                    Some(next) => at = next,
                    None => break,
                }
            }
            // The path has run into itself: its tail is a cycle, its head a way that leads there.
            if let Some(begin) = path.iter().position(|number| *number == at)
                && self.next(path[path.len() - 1]) == Some(at)
            {
                cycles.push(path.split_off(begin));
            }
        }
        cycles
    }

    /// Returns the task that a node waits for.
    fn next(&self, number: u64) -> Option<u64> {
        self.owner(number).map(|owner| owner.task)
    }

    /// Returns the owner to follow: the first that has an edge itself and is another task.
    fn owner(&self, number: u64) -> Option<Owner> {
        let edge = self.nodes[&number].edge.as_ref()?;
        let bound = |owner: &&Owner| self.nodes.get(&owner.task).is_some_and(|n| n.edge.is_some());
        let other = edge.all().filter(bound).find(|owner| owner.task != number);
        other.or(edge.all().find(bound)).or(edge.holders.first()).copied()
    }

    fn edge(&self, number: u64) -> Option<Edge> {
        let node = &self.nodes[&number];
        let edge = node.edge.as_ref()?;
        let (wait, owner) = (&edge.wait, self.owner(number)?);
        Some(Edge {
            task: node.waiter.info(self.block_on_name.as_deref())?,
            wait: wait.kind,
            resource_id: ResourceRecord::display_number(wait.target.target()),
            site: wait.site,
            waited: since(self.taken_at, wait.since_ms),
            holder: self.nodes.get(&owner.task)?.waiter.info(self.block_on_name.as_deref())?,
            acquired_at: owner.site,
            unpolled: owner.granted_unpolled,
            queued_ahead: edge.is_queued_ahead(&owner),
            may_be_aborted: node.waiter.may_be_aborted(node.waiter.is_awaited()),
        })
    }

    /// Builds the report of a cycle, or `None` if one of its nodes has changed.
    ///
    /// `nothing_runs` says that no code of the process can run.
    fn report_cycle(&self, cycle: &[u64], nothing_runs: bool) -> Option<Report> {
        let edges = cycle.iter().map(|number| self.edge(*number)).collect::<Option<Vec<_>>>()?;
        let only_joins = cycle.iter().all(|number| self.nodes[number].joined_task().is_some());
        let basis = match () {
            () if only_joins && id::are_unique() => Basis::OnlyJoins,
            () if nothing_runs => Basis::NothingRuns,
            () => Basis::Acquisition,
        };
        let unchanged = cycle.iter().all(|number| self.nodes[number].is_unchanged());
        if !unchanged {
            return None;
        }
        let is_futurelock = edges.iter().any(|edge| edge.unpolled);
        Some(if is_futurelock {
            Report::Futurelock(Futurelock::new(edges, basis))
        } else {
            Report::Deadlock(Deadlock::new(edges, basis))
        })
    }

    /// Returns whether the runtime can make no progress by itself: every task is stuck, and there
    /// is no timer, I/O source or blocking closure.
    fn cannot_progress(&self, scheduler: &dyn Inspectable, stuck: &BTreeSet<u64>) -> bool {
        let can_happen = |look: &WorkerSnapshot| look.timers + look.sources > 0;
        self.others == 0
            && self.nodes.len() == stuck.len()
            && scheduler.is_quiet()
            && !scheduler.base().config.env.clock.is_auto_advance_held()
            && !scheduler.workers().iter().any(can_happen)
    }

    fn is_unchanged(&self, scheduler: &dyn Inspectable) -> bool {
        self.nodes.values().all(Node::is_unchanged) && scheduler.is_quiet()
    }

    /// Returns the `block_on` futures among the stuck nodes.
    ///
    /// A future without a waker may be meant to wait forever while other threads use the runtime. It
    /// counts only if the runtime was built to end such a `block_on`, as tests are.
    fn stuck_block_ons(&self, scheduler: &dyn Inspectable, stuck: &BTreeSet<u64>) -> Vec<&Node> {
        let config = &scheduler.base().config;
        let counts = |number: &&u64| {
            is_block_on_id(**number)
                && (self.nodes[*number].edge.is_some() || config.always_end_stuck_block_on)
        };
        stuck.iter().filter(counts).map(|root| &self.nodes[root]).collect()
    }

    /// Returns why this `block_on` can never return, if that is proven.
    ///
    /// `threads` is the reason why no other thread can help, if there is one. A chain of `JoinHandle`s
    /// proves nothing by itself, not even if each task has one handle: the program may have moved a
    /// polled handle to another thread, and that thread may abort the task.
    fn proof_of(root: &Node, threads: Option<NoRescueReason>) -> Option<NoRescueReason> {
        if root.wakers == 0 { Some(NoRescueReason::WakersGone) } else { threads }
    }

    /// Returns why only the runtime's own threads can run code, if that is the case.
    fn no_rescue_reason(scheduler: &dyn Inspectable) -> Option<NoRescueReason> {
        let config = &scheduler.base().config;
        let roots: Vec<i32> = scheduler.block_ons().iter().map(|root| root.thread).collect();
        let others = || thread_registry::foreign_threads(config.address(), &roots);
        match *others()? {
            [] => Some(NoRescueReason::RuntimeThreadsOnly),
            // The harness may have started a test since the list was read, and the test may have
            // ended. While it starts one it does not wait, so the second list shows that.
            [main] if config.always_end_stuck_block_on && harness::is_waiting_for_tests(main) => {
                (*others()? == [main]).then_some(NoRescueReason::RuntimeThreadsAndHarness)
            }
            _ => None,
        }
    }
}

/// The result of one deadlock scan.
#[derive(Default)]
pub(crate) struct ScanResult {
    pub(crate) reports: Vec<Report>,
    /// A `block_on` is stuck unless a thread outside of the runtime helps. The watchdog has to scan
    /// again later: that thread may end without notice.
    pub(crate) needs_other_threads: bool,
}

/// Scans one runtime.
pub(crate) fn scan(scheduler: &dyn Inspectable, runtime: Option<&str>) -> ScanResult {
    let graph = Graph::take(scheduler);
    // An owner had not written its name yet when the first waiter copied the names. After another
    // poll of that waiter, the next scan finds it.
    // One wake-up per resource: a waiter whose poll skips the wait would be woken for ever.
    for (waiter, record) in &graph.unnamed {
        if record.owner_table.claim_scan_wake() {
            // The waker of a local set may be the user's.
            watchdog::hand_off();
            catch_and_forget(|| waiter.wake());
        }
    }
    let stuck = graph.stuck();
    if stuck.is_empty() {
        return ScanResult::default();
    }
    let roots = graph.stuck_block_ons(scheduler, &stuck);
    let cannot_progress = !roots.is_empty() && graph.cannot_progress(scheduler, &stuck);
    let threads = cannot_progress.then(|| Graph::no_rescue_reason(scheduler)).flatten();
    // Read last: only then did all of the above hold at one point in time.
    let cannot_progress = cannot_progress && graph.is_unchanged(scheduler);
    let threads = threads.filter(|_| cannot_progress);
    let cycles = graph.cycles(&stuck);
    let cycles = cycles.iter().filter_map(|cycle| graph.report_cycle(cycle, threads.is_some()));
    let mut reports: Vec<Report> = cycles.collect();
    let mut needs_other_threads = false;
    for node in roots.into_iter().filter(|_| cannot_progress) {
        let Some(reason) = Graph::proof_of(node, threads) else {
            needs_other_threads = true;
            continue;
        };
        let Some(who) = node.waiter.info(graph.block_on_name.as_deref()) else { continue };
        let stuck = StuckBlockOn::new(who, node.rest, reason, Dump::take(scheduler, runtime));
        reports.push(Report::StuckBlockOn(stuck));
    }
    ScanResult { reports, needs_other_threads }
}
