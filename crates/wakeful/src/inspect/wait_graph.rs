//! Finds tasks that wait for each other, and a `block_on` that can never return.
//!
//! A task is *bound* if it waits, has one live waker, and its record is linked (wait N1): then that waker lies with
//! one thing, and nothing but this thing, or an abort, can wake the task. This is exact. A bound task is *stuck* if
//! every task that has the thing is stuck, or waits without a waker. The stuck tasks are found by taking away what is
//! not stuck, until nothing more goes. A circle in what is left is a deadlock. At the end every task of it is looked at
//! again: if one has moved since the first look, nothing is said.
//!
//! Which task has the thing is exact for a JoinHandle, and an assumption otherwise. Nothing shows that a guard that
//! borrows, a permit or a channel's receiver was moved to another task or thread, or the future that has it. So there
//! are two degrees ([`Certainty`](super::Certainty)):
//!
//! - *Proven*: all edges of the circle are JoinHandles ([`Basis::OnlyJoins`]), or no code of the process can run,
//!   wherever the guards are ([`Basis::NothingRuns`]).
//! - *Suspected*: everything else ([`Basis::Acquisition`]). It ends no `block_on`.
//!
//! Assumptions that are often wrong are not made. Guards and permits that own their share in the thing can go anywhere
//! (wait N2): a task that waits for such a thing is not bound. Permits and receivers often go to a task that was
//! spawned for them: a task that waits for those is stuck only if the children of their holder are. A receiver is
//! taken to be with the task that last received, if that is not the very task that waits for room.
//!
//! A `block_on` is ended only if it is proven that it can never return (`proof_of`).

use super::Dump;
use super::dump::since;
use super::harness;
use super::report::{Basis, Deadlock, Edge, Futurelock, NoRescueReason, Report, StuckBlockOn};
use super::task_info::TaskInfo;
use crate::scheduler::block_on::BlockOnState;
use crate::sys::thread_registry;
use crate::task::block_on::is_root;
use crate::task::header::{Wait, WaitKind, WaitingOn};
use crate::task::id;
use crate::task::runnable::TaskRef;
use crate::task::state::{BLOCKING, COMPLETE, EXEMPT, FOREVER, JOIN_WAKER, NOTIFIED, RUNNING};
use crate::task::wait_target::WaitTarget;
use crate::wait::ownership::owner::Owner;
use crate::wait::ownership::resource_record::ResourceRecord;
use crate::watchdog::snapshot::{Inspectable, WorkerSnapshot};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

/// Somebody who waits.
enum Waiter {
    Task(TaskRef),
    BlockOnState(Arc<BlockOnState>),
}

impl Waiter {
    fn number(&self) -> u64 {
        match self {
            Waiter::Task(task) => task.header().id.get(),
            Waiter::BlockOnState(root) => root.note.id,
        }
    }

    fn record(&self) -> &WaitingOn {
        match self {
            Waiter::Task(task) => &task.header().waiting,
            Waiter::BlockOnState(root) => &root.note.waiting,
        }
    }

    /// How many wakers could wake it, if it waits.
    fn wakers(&self) -> Option<u64> {
        match self {
            Waiter::Task(task) => {
                let state = task.state();
                let waits = !state.has(RUNNING | NOTIFIED | COMPLETE | BLOCKING);
                waits.then(|| state.wakers())
            }
            Waiter::BlockOnState(root) => {
                let waits = !root.note.is_polled() && !root.is_woken();
                waits.then(|| root.live_wakers() as u64)
            }
        }
    }

    fn polls(&self) -> u32 {
        match self {
            Waiter::Task(task) => task.header().polls(),
            Waiter::BlockOnState(root) => root.note.polls(),
        }
    }

    /// Whether somebody could ask for its end who is not known to be stuck. Among its
    /// handles is the one that this node has, and if it `is_awaited`, that of a node.
    fn may_be_aborted(&self, is_awaited: bool) -> bool {
        match self {
            Waiter::Task(task) => task.state().handles() > 1 + u64::from(is_awaited),
            Waiter::BlockOnState(_) => false,
        }
    }

    /// The lower half of the number of whoever spawned it.
    fn parent(&self) -> Option<u32> {
        match self {
            Waiter::Task(task) => Some(task.header().parent.get()).filter(|parent| *parent != 0),
            Waiter::BlockOnState(_) => None,
        }
    }

    fn is_awaited(&self) -> bool {
        matches!(self, Waiter::Task(task) if task.state().has(JOIN_WAKER))
    }

    /// Whether it was said that it may wait for ever.
    fn is_exempt(&self) -> bool {
        match self {
            Waiter::Task(task) => task.state().has(EXEMPT | FOREVER),
            Waiter::BlockOnState(_) => false,
        }
    }

    fn who(&self, root_name: Option<&str>) -> Option<TaskInfo> {
        match self {
            Waiter::Task(task) => Some(TaskInfo::of_task(task.header())),
            Waiter::BlockOnState(root) => TaskInfo::of_root(root, root_name),
        }
    }
}

/// One who waits, and what is known about that.
struct Node {
    waiter: Waiter,
    polls: u32,
    /// Which of its rests it is in, if it is a root.
    rest: u32,
    wakers: u64,
    bond: Option<WaitEdge>,
}

/// What a bound one waits for.
struct WaitEdge {
    wait: Wait,
    /// Who has it: at least one.
    holders: Vec<Owner>,
    /// Who stands before it in the queue with a part of it.
    ahead: Option<Owner>,
}

impl WaitEdge {
    /// Everybody who would have to do something.
    fn all(&self) -> impl Iterator<Item = &Owner> {
        self.ahead.iter().chain(&self.holders)
    }

    /// Permits and receivers often go to a task that was spawned for them, guards hardly ever.
    fn is_often_given_away(&self) -> bool {
        matches!(self.wait.kind, WaitKind::Semaphore | WaitKind::MpscSend)
    }

    fn is_ahead(&self, held: &Owner) -> bool {
        self.ahead.as_ref() == Some(held)
    }
}

impl Node {
    /// `None`: it does not wait.
    fn look(waiter: Waiter) -> Option<Self> {
        let polls = waiter.polls();
        let rest = match &waiter {
            Waiter::BlockOnState(root) => root.note.poll(),
            Waiter::Task(_) => 0,
        };
        let wakers = waiter.wakers()?;
        let mut node = Self { waiter, polls, rest, wakers, bond: None };
        if wakers == 1 {
            node.bond = node.read_bond();
        }
        Some(node)
    }

    fn read_bond(&self) -> Option<WaitEdge> {
        let (record, number) = (self.waiter.record(), self.waiter.number());
        let wait = record.read()?;
        let (holders, ahead) = match record.linked_target()? {
            WaitTarget::Number(_) => return None,
            WaitTarget::Task(id) => (vec![Owner { task: id, site: None, granted: false }], None),
            WaitTarget::Record(index) => {
                let plate = ResourceRecord::at(index)?;
                // With one waker, it is not also another who waits there.
                (plate.known_holders()?, plate.ahead().filter(|ahead| ahead.task != number))
            }
        };
        let is_own = wait.kind == WaitKind::MpscSend && holders.iter().all(|h| h.task == number);
        (!is_own).then_some(WaitEdge { wait, holders, ahead })
    }

    /// The task whose end it waits for.
    fn awaits(&self) -> Option<u64> {
        let WaitEdge { wait, holders, .. } = self.bond.as_ref()?;
        (wait.kind == WaitKind::Join).then(|| holders[0].task)
    }

    /// It has no waker, and was not said to need none; or it is bound.
    fn may_be_stuck(&self) -> bool {
        self.bond.is_some() || (self.wakers == 0 && !self.waiter.is_exempt())
    }

    /// Whether nothing has happened to it since.
    fn is_unmoved(&self) -> bool {
        let same_bond = || match (&self.bond, self.read_bond()) {
            (None, _) => true,
            (Some(then), Some(now)) => {
                then.wait.target == now.wait.target && then.all().eq(now.all())
            }
            (Some(_), None) => false,
        };
        self.waiter.wakers() == Some(self.wakers)
            && same_bond()
            && self.waiter.polls() == self.polls
            && self.waiter.wakers() == Some(self.wakers)
    }
}

/// Those who wait and may be stuck, by number.
struct Graph {
    nodes: BTreeMap<u64, Node>,
    /// How many others there are that are not done: they run, are ready, or wait for
    /// what is not known for certain.
    others: usize,
    /// Who has spawned those: the lower halves of their numbers.
    parents_of_others: BTreeSet<u32>,
    root_name: Option<String>,
    /// When it was taken, by the runtime's clock.
    taken_at: Duration,
}

impl Graph {
    fn take(looks: &dyn Inspectable) -> Self {
        let (mut nodes, mut others) = (BTreeMap::new(), 0);
        let mut parents_of_others = BTreeSet::new();
        let roots = looks.roots().into_iter().map(Waiter::BlockOnState);
        let mut add = |waiter: Waiter| {
            let parent = waiter.parent();
            match Node::look(waiter).filter(Node::may_be_stuck) {
                Some(node) => drop(nodes.insert(node.waiter.number(), node)),
                None => {
                    others += 1;
                    parents_of_others.extend(parent);
                }
            }
        };
        roots.for_each(&mut add);
        looks.each_task(&mut |task| {
            if !task.state().has(COMPLETE) {
                add(Waiter::Task(task));
            }
        });
        let config = &looks.estate().config;
        let (root_name, taken_at) = (config.root_name.clone(), config.seam.clock.elapsed());
        Self { nodes, others, parents_of_others, root_name, taken_at }
    }

    /// Who can never run again: bound to each other, or without a waker. Who waits for
    /// somebody else is taken away, and then who waits for those, and so on.
    fn stuck(&self) -> BTreeSet<u64> {
        let mut stuck: BTreeSet<u64> = self.nodes.keys().copied().collect();
        let mut waiters: BTreeMap<u64, Vec<u64>> = BTreeMap::new();
        // Who waits for a thing that one of the children of this one may have.
        let mut of_children: BTreeMap<u32, Vec<u64>> = BTreeMap::new();
        let mut goes = Vec::new();
        let mut awaited: BTreeMap<u64, usize> = BTreeMap::new();
        for id in self.nodes.values().filter_map(Node::awaits) {
            *awaited.entry(id).or_default() += 1;
        }
        for (number, node) in &self.nodes {
            let Some(bond) = &node.bond else { continue };
            // Only one can await a task. The root that did before is not told when its handle has
            // gone to another.
            if is_root(*number) && node.awaits().is_some_and(|id| awaited[&id] > 1) {
                goes.push(*number);
            }
            let awaits = bond.wait.kind == WaitKind::Join;
            for held in bond.all() {
                match self.nodes.get(&held.task) {
                    // If nobody awaits it, it is one of another runtime that is meant: those that
                    // are shuffled number their tasks alike.
                    Some(holder) if !awaits || holder.waiter.is_awaited() => {
                        waiters.entry(held.task).or_default().push(*number);
                    }
                    _ => goes.push(*number),
                }
            }
            for held in bond.holders.iter().filter(|_| bond.is_often_given_away()) {
                of_children.entry(held.task as u32).or_default().push(*number);
            }
        }
        let parents = self.parents_of_others.iter();
        goes.extend(parents.flat_map(|parent| of_children.remove(parent)).flatten());
        while let Some(number) = goes.pop() {
            if stuck.remove(&number) {
                goes.extend(waiters.remove(&number).into_iter().flatten());
                let parent = self.nodes[&number].waiter.parent();
                let children = parent.and_then(|parent| of_children.remove(&parent));
                goes.extend(children.into_iter().flatten());
            }
        }
        stuck
    }

    /// The circles among those, each once, as the numbers along it.
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
            // Ended on this very path: a circle, and perhaps a way that led there.
            if let Some(begin) = path.iter().position(|number| *number == at)
                && self.next(path[path.len() - 1]) == Some(at)
            {
                cycles.push(path.split_off(begin));
            }
        }
        cycles
    }

    /// Whom a bound one waits for.
    fn next(&self, number: u64) -> Option<u64> {
        self.held(number).map(|held| held.task)
    }

    /// Of several, the first that is bound itself, and is another.
    fn held(&self, number: u64) -> Option<Owner> {
        let bond = self.nodes[&number].bond.as_ref()?;
        let bound = |held: &&Owner| self.nodes.get(&held.task).is_some_and(|n| n.bond.is_some());
        let other = bond.all().filter(bound).find(|held| held.task != number);
        other.or(bond.all().find(bound)).or(bond.holders.first()).copied()
    }

    fn edge(&self, number: u64) -> Option<Edge> {
        let node = &self.nodes[&number];
        let bond = node.bond.as_ref()?;
        let (wait, held) = (&bond.wait, self.held(number)?);
        Some(Edge {
            task: node.waiter.who(self.root_name.as_deref())?,
            wait: wait.kind,
            resource_id: ResourceRecord::number_of(wait.target.target()),
            site: wait.site,
            waited: since(self.taken_at, wait.since_ms),
            holder: self.nodes.get(&held.task)?.waiter.who(self.root_name.as_deref())?,
            acquired_at: held.site,
            unpolled: held.granted,
            ahead: bond.is_ahead(&held),
            may_be_aborted: node.waiter.may_be_aborted(node.waiter.is_awaited()),
        })
    }

    /// `nothing_runs`: no code of the process can run.
    fn report_cycle(&self, cycle: &[u64], nothing_runs: bool) -> Option<Report> {
        let edges = cycle.iter().map(|number| self.edge(*number)).collect::<Option<Vec<_>>>()?;
        let only_joins = cycle.iter().all(|number| self.nodes[number].awaits().is_some());
        let basis = match () {
            () if only_joins && id::are_unique() => Basis::OnlyJoins,
            () if nothing_runs => Basis::NothingRuns,
            () => Basis::Acquisition,
        };
        let unmoved = cycle.iter().all(|number| self.nodes[number].is_unmoved());
        if !unmoved {
            return None;
        }
        let is_futurelock = edges.iter().any(|edge| edge.unpolled);
        Some(if is_futurelock {
            Report::Futurelock(Futurelock::new(edges, basis))
        } else {
            Report::Deadlock(Deadlock::new(edges, basis))
        })
    }

    /// Whether nothing can happen in the runtime, unless another thread does it: every task is stuck, and there is no
    /// timer, descriptor or closure.
    fn is_still(&self, looks: &dyn Inspectable, stuck: &BTreeSet<u64>) -> bool {
        let can_happen = |look: &WorkerSnapshot| look.timers + look.sources > 0;
        self.others == 0
            && self.nodes.len() == stuck.len()
            && looks.is_quiet()
            && !looks.estate().config.seam.clock.is_auto_advance_held()
            && !looks.workers().iter().any(can_happen)
    }

    fn is_unmoved(&self, looks: &dyn Inspectable) -> bool {
        self.nodes.values().all(Node::is_unmoved) && looks.is_quiet()
    }

    /// The futures of `block_on` among the stuck. One without a waker may be meant to wait for ever, while others
    /// bring the runtime work: it counts only where that was ruled out.
    fn stuck_roots(&self, looks: &dyn Inspectable, stuck: &BTreeSet<u64>) -> Vec<&Node> {
        let config = &looks.estate().config;
        let counts = |number: &&u64| {
            is_root(**number) && (self.nodes[*number].bond.is_some() || config.always_end_quiescent)
        };
        stuck.iter().filter(counts).map(|root| &self.nodes[root]).collect()
    }

    /// Why this `block_on` can never return, if that is proven. `threads`: why no other thread can do anything, if
    /// that is so.
    ///
    /// A chain of JoinHandles proves nothing by itself, not even if each task has one handle. The handle may have been
    /// moved to another thread after it was polled, and that thread may abort the task.
    fn proof_of(root: &Node, threads: Option<NoRescueReason>) -> Option<NoRescueReason> {
        if root.wakers == 0 { Some(NoRescueReason::WakersGone) } else { threads }
    }

    /// Why no thread of the process but the runtime's own can do anything, if that is so.
    fn why_no_threads(looks: &dyn Inspectable) -> Option<NoRescueReason> {
        let config = &looks.estate().config;
        let roots: Vec<i32> = looks.roots().iter().map(|root| root.thread).collect();
        let others = || thread_registry::others(config.address(), &roots);
        match *others()? {
            [] => Some(NoRescueReason::OwnThreadsOnly),
            // A test that the harness has started since the first look may have ended as well, but the harness does
            // not wait while it starts one.
            [main] if config.always_end_quiescent && harness::is_waiting_for_tests(main) => {
                (*others()? == [main]).then_some(NoRescueReason::OwnThreadsAndHarness)
            }
            _ => None,
        }
    }
}

/// What is found wrong, at this moment.
#[derive(Default)]
pub(crate) struct Found {
    pub(crate) reports: Vec<Report>,
    /// A `block_on` is stuck, unless a thread of which nothing is known helps. That may be gone
    /// one day, and nobody hears of it.
    pub(crate) is_up_to_others: bool,
}

pub(crate) fn detect(looks: &dyn Inspectable, runtime: Option<&str>) -> Found {
    let graph = Graph::take(looks);
    let stuck = graph.stuck();
    if stuck.is_empty() {
        return Found::default();
    }
    let roots = graph.stuck_roots(looks, &stuck);
    let is_still = !roots.is_empty() && graph.is_still(looks, &stuck);
    let threads = is_still.then(|| Graph::why_no_threads(looks)).flatten();
    // After all of the above was found, or it was not so at any one moment.
    let is_still = is_still && graph.is_unmoved(looks);
    let threads = threads.filter(|_| is_still);
    let cycles = graph.cycles(&stuck);
    let cycles = cycles.iter().filter_map(|cycle| graph.report_cycle(cycle, threads.is_some()));
    let mut reports: Vec<Report> = cycles.collect();
    let mut is_up_to_others = false;
    for node in roots.into_iter().filter(|_| is_still) {
        let Some(reason) = Graph::proof_of(node, threads) else {
            is_up_to_others = true;
            continue;
        };
        let Some(who) = node.waiter.who(graph.root_name.as_deref()) else { continue };
        let quiescent = StuckBlockOn::new(who, node.rest, reason, Dump::take(looks, runtime));
        reports.push(Report::StuckBlockOn(quiescent));
    }
    Found { reports, is_up_to_others }
}
