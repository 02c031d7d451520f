//! The wait-for graph of one runtime: which nodes are stuck, and which of them form cycles.

use super::inner_waits::InnerWaits;
use super::node::Node;
use super::waiter::Waiter;
use crate::task::block_on::is_block_on_id;
use crate::task::state::COMPLETE;
use crate::task::wait_kind::WaitKind;
use crate::wait::ownership::owner::Owner;
use crate::wait::ownership::resource_record::ResourceRecord;
use crate::watchdog::snapshot::Inspectable;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// The wait-for graph of one runtime, by task number.
pub(super) struct Graph {
    pub(super) nodes: BTreeMap<u64, Node>,
    /// Number of other tasks that are not complete: they run, are queued, or wait for something
    /// that is not known.
    pub(super) others: usize,
    /// Lower halves of the numbers of their parents.
    pub(super) parents_of_others: BTreeSet<u32>,
    /// Other tasks that must be polled once more to learn the owners of their resource.
    pub(super) unnamed: Vec<(Waiter, &'static ResourceRecord)>,
    pub(super) block_on_name: Option<String>,
    /// Time of the observation, on the runtime's clock.
    pub(super) taken_at: Duration,
}

impl Graph {
    pub(super) fn take(scheduler: &dyn Inspectable) -> Self {
        let (mut nodes, mut others) = (BTreeMap::new(), 0);
        let (mut parents_of_others, mut unnamed) = (BTreeSet::new(), Vec::new());
        let roots = scheduler.block_ons().into_iter().map(Waiter::BlockOn);
        let inner_waits = InnerWaits::read();
        let mut add = |waiter: Waiter| {
            let waiter = inner_waits.wrap(waiter);
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
    pub(super) fn stuck(&self) -> BTreeSet<u64> {
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
    pub(super) fn cycles(&self, stuck: &BTreeSet<u64>) -> Vec<Vec<u64>> {
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

    /// Returns the task that this one waits for, if that is known.
    pub(super) fn next_of(&self, number: u64) -> Option<u64> {
        self.nodes.contains_key(&number).then(|| self.next(number)).flatten()
    }

    /// Returns the task that a node waits for.
    pub(super) fn next(&self, number: u64) -> Option<u64> {
        self.owner(number).map(|owner| owner.task)
    }

    /// Returns the owner to follow: the first that has an edge itself and is another task.
    pub(super) fn owner(&self, number: u64) -> Option<Owner> {
        let edge = self.nodes[&number].edge.as_ref()?;
        let bound = |owner: &&Owner| self.nodes.get(&owner.task).is_some_and(|n| n.edge.is_some());
        let other = edge.all().filter(bound).find(|owner| owner.task != number);
        other.or(edge.all().find(bound)).or(edge.holders.first()).copied()
    }
}
