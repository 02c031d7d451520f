//! Nodes of the wait graph, with their edges and exits.

use super::streams::Streams;
use super::waiter::Waiter;
use crate::driver::clock::time_of;
use crate::inspect::dump::since;
use crate::inspect::report::{Exit, ExitReason};
use crate::task::runnable::TaskRef;
use crate::task::wait_kind::WaitKind;
use crate::task::wait_record::{Link, RecordedWait, Wait};
use crate::task::wait_target::{TargetWord, WaitTarget};
use crate::wait::ownership::owner::Owner;
use crate::wait::ownership::resource_record::ResourceRecord;
use std::sync::Arc;
use std::time::Duration;

/// How long a node with exits, or with a guard that may have moved, must wait to count as stuck.
const PATIENCE: Duration = Duration::from_secs(2);
/// How long a node with an unknown exit must wait to count as stuck.
const UNKNOWN_PATIENCE: Duration = Duration::from_secs(5);

/// A node of the graph, as observed by the scan.
pub(super) struct Node {
    pub(super) waiter: Waiter,
    pub(super) polls: u32,
    /// For a `block_on` future: its `BlockOnRecord::poll_number` in this wait. Otherwise 0.
    pub(super) poll_number: u32,
    pub(super) wakers: u64,
    /// The resources that the node waits for, any of which can wake it. Empty if one of them is
    /// unknown.
    pub(super) edges: Vec<WaitEdge>,
    /// The other events that can wake the node. If there are none, the node is exact.
    pub(super) exits: Vec<Exit>,
    /// How long the node has been in this wait.
    pub(super) waited: Duration,
    /// The streams of the simulation, if waits for them are edges.
    streams: Option<Arc<Streams>>,
}

/// A resource that a node waits for, and its owners.
pub(super) struct WaitEdge {
    pub(super) wait: Wait,
    /// Owners of the resource. Never empty.
    pub(super) holders: Vec<Owner>,
    /// A waiter that is queued ahead, and for which free permits are reserved.
    pub(super) queued_ahead: Option<Owner>,
    /// Whether the resource has given out owned guards or permits (RECORD-2).
    pub(super) may_have_moved: bool,
}

impl WaitEdge {
    /// Reads the owners of the resource of a linked wait. Returns `None` if they are unknown.
    fn read(wait: Wait, id: u64, is_only_wait: bool) -> Option<Self> {
        let (holders, queued_ahead, may_have_moved) = match wait.target.target() {
            WaitTarget::Number(_) => return None,
            WaitTarget::Task(id) => {
                (vec![Owner { task: id, site: None, granted_unpolled: false }], None, false)
            }
            WaitTarget::Record(index) => {
                let resource = ResourceRecord::at(index)?;
                // A node that waits once for the resource is not ahead of itself.
                let is_ahead = |ahead: &Owner| !is_only_wait || ahead.task != id;
                let ahead = resource.partial_waiter().filter(is_ahead);
                (resource.known_owners()?, ahead, resource.may_have_moved())
            }
        };
        let is_own = wait.kind == WaitKind::MpscSend && holders.iter().all(|h| h.task == id);
        (!is_own).then_some(Self { wait, holders, queued_ahead, may_have_moved })
    }

    /// Returns all tasks that the node depends on through this edge.
    pub(super) fn all(&self) -> impl Iterator<Item = &Owner> + Clone {
        self.queued_ahead.iter().chain(&self.holders)
    }

    /// Returns whether the resource is often moved into a child task, as permits and receivers are.
    pub(super) fn is_often_moved(&self) -> bool {
        self.may_have_moved || matches!(self.wait.kind, WaitKind::Semaphore | WaitKind::MpscSend)
    }

    pub(super) fn is_queued_ahead(&self, owner: &Owner) -> bool {
        self.queued_ahead.as_ref() == Some(owner)
    }

    /// Returns the task that the node joins.
    pub(super) fn joined_task(&self) -> Option<u64> {
        match self.wait.target.target() {
            WaitTarget::Task(id) if self.wait.kind == WaitKind::Join => Some(id),
            _ => None,
        }
    }
}

impl Node {
    /// Observes a waiter at the time `now` of the runtime's clock. Returns `None` if it does not
    /// wait.
    pub(super) fn observe(
        waiter: Waiter,
        now: Duration,
        streams: Option<&Arc<Streams>>,
    ) -> Option<Self> {
        let polls = waiter.polls();
        let poll_number = match &waiter {
            Waiter::BlockOn(block_on) => block_on.record.poll_number(),
            Waiter::Task(_) | Waiter::Queued(_) | Waiter::Inner { .. } => 0,
        };
        let wakers = waiter.wakers()?;
        let (edges, exits, waited) = (Vec::new(), Vec::new(), Duration::ZERO);
        let streams = streams.cloned();
        let mut node = Self { waiter, polls, poll_number, wakers, edges, exits, waited, streams };
        if let Some((edges, exits, waited)) = node.read_waits(now) {
            (node.edges, node.exits, node.waited) = (edges, exits, waited);
        }
        Some(node)
    }

    /// Observes a closure that waits for a thread of its pool, which `holders` occupy.
    pub(super) fn queued(task: TaskRef, holders: Vec<Owner>, now: Duration) -> Option<Self> {
        let header = task.header();
        let (site, since_ms) = (header.origin.get().spawned_at(), header.spawned_ms.get());
        let wait = Wait { kind: WaitKind::PoolThread, target: TargetWord::NONE, site, since_ms };
        let waiter = Waiter::Queued(task);
        let (polls, wakers) = (waiter.polls(), waiter.wakers()?);
        let edge = WaitEdge { wait, holders, queued_ahead: None, may_have_moved: false };
        let waited = since(now, since_ms);
        Some(Self {
            waiter,
            polls,
            poll_number: 0,
            wakers,
            edges: vec![edge],
            exits: Vec::new(),
            waited,
            streams: None,
        })
    }

    /// Reads what the node waits for. Returns `None` if there is no resource with known owners, or
    /// a wait that is neither such a resource nor an exit.
    ///
    /// The links are exact (RECORD-1). If there are as many as live wakers, nothing but these
    /// resources can wake the node. Otherwise, the waits of the last poll that are not linked are
    /// exits, and account for the other wakers.
    fn read_waits(&self, now: Duration) -> Option<(Vec<WaitEdge>, Vec<Exit>, Duration)> {
        let (mut recorded, is_complete) = self.waiter.record().waits();
        let of_streams = self.take_stream_edges(&mut recorded);
        let direct = recorded.iter().filter(|it| it.link == Link::Direct).count() as u64;
        // Each stream has a waker of the task.
        let known = direct + of_streams.len() as u64;
        let is_exact = known == self.wakers;
        if self.wakers < known || self.wakers == 0 || !(is_exact || is_complete) {
            return None;
        }
        let id = self.waiter.id();
        let counts =
            |it: &&RecordedWait| it.link == Link::Direct || (!is_exact && it.link != Link::None);
        let linked = recorded.iter().filter(counts);
        let mut edges: Vec<_> = linked
            .map(|it| {
                let is_same = |other: &&RecordedWait| {
                    other.link != Link::None && other.wait.target == it.wait.target
                };
                WaitEdge::read(it.wait, id, recorded.iter().filter(is_same).count() == 1)
            })
            .collect::<Option<_>>()?;
        let waits = recorded.iter().map(|it| &it.wait).chain(of_streams.iter().map(|it| &it.wait));
        let waited = waits.map(|wait| since(now, wait.since_ms)).min()?;
        edges.extend(of_streams);
        if is_exact {
            return Some((edges, Vec::new(), waited));
        }
        let exits = self.read_exits(&recorded, self.wakers - known, now)?;
        // Another branch of the same task probably holds the resource and waits for such an exit.
        // The resource is a permit, or a lock that it acquired at the site at which this branch
        // waits.
        let is_exit_of_holder = |edge: &WaitEdge| {
            edge.all().filter(|owner| owner.task == id).any(|owner| {
                edge.wait.kind == WaitKind::Semaphore || owner.site == Some(edge.wait.site)
            })
        };
        let may_pass =
            edges.iter().any(is_exit_of_holder) && !exits.iter().all(Exit::is_cancellation);
        (!edges.is_empty() && !may_pass).then_some((edges, exits, waited))
    }

    /// Removes the waits of the last poll for streams, and returns them as edges.
    fn take_stream_edges(&self, recorded: &mut Vec<RecordedWait>) -> Vec<WaitEdge> {
        let Some(streams) = &self.streams else { return Vec::new() };
        let (poll, mut edges) = (self.waiter.poll_stamp(), Vec::new());
        recorded.retain(|it| {
            let is_current = it.link == Link::None && it.poll.same_poll(poll);
            let edge = if is_current { streams.edge(it) } else { None };
            let is_other = edge.is_none();
            edges.extend(edge);
            is_other
        });
        edges
    }

    /// Returns the exits, which account for the wakers that are in no wait list of a resource.
    /// Returns `None` if the node waits for a resource that is not linked, or for a timer that has
    /// fired.
    fn read_exits(&self, waits: &[RecordedWait], wakers: u64, now: Duration) -> Option<Vec<Exit>> {
        let poll = self.waiter.poll_stamp();
        let is_current = |it: &&RecordedWait| it.link == Link::None && it.poll.same_poll(poll);
        let mut exits = Vec::new();
        for RecordedWait { wait, at_resource, .. } in waits.iter().filter(is_current) {
            let remaining = match wait.target.target() {
                WaitTarget::Number(tick) if wait.kind.is_for_timer() => {
                    Some(time_of(tick).checked_sub(now).filter(|left| !left.is_zero())?)
                }
                _ => None,
            };
            if !wait.kind.is_exit() {
                return None;
            }
            exits.push(Exit::new(wait, *at_resource, remaining));
        }
        let mut unnamed = wakers.saturating_sub(exits.len() as u64);
        if waits.iter().any(|it| it.link == Link::Indirect) {
            exits.push(Exit::unnamed(ExitReason::Collection));
            unnamed = unnamed.saturating_sub(1);
        }
        if unnamed > 0 {
            exits.push(Exit::unnamed(ExitReason::Unknown(unnamed)));
        }
        Some(exits)
    }

    /// Returns whether only an abort or the node's resources can wake it.
    pub(super) fn is_exact(&self) -> bool {
        self.exits.is_empty()
    }

    /// Returns whether one of the node's resources has given out owned guards or permits.
    ///
    /// They are often sent along with a job, to a task that drops them soon.
    fn has_movable_guard(&self) -> bool {
        self.edges.iter().any(|edge| edge.may_have_moved)
    }

    /// Returns whether only the node's resources can wake it, which is not expected to happen soon.
    pub(super) fn is_settled(&self) -> bool {
        self.is_exact() && self.patience_left().is_zero()
    }

    /// Returns how long the node must still wait before it counts as stuck.
    ///
    /// After that it is unlikely that an exit wakes it, or that a guard which was moved is dropped.
    pub(super) fn patience_left(&self) -> Duration {
        let is_unnamed = |exit: &Exit| exit.site().is_none();
        let patience = match () {
            () if self.is_exact() && !self.has_movable_guard() => Duration::ZERO,
            () if self.exits.iter().any(is_unnamed) => UNKNOWN_PATIENCE,
            () => PATIENCE,
        };
        patience.saturating_sub(self.waited)
    }

    /// Returns the tasks that the node joins.
    pub(super) fn joined_tasks(&self) -> impl Iterator<Item = u64> {
        self.edges.iter().filter_map(WaitEdge::joined_task)
    }

    /// Returns whether the node joins one task and waits for nothing else.
    ///
    /// False for a `block_on` future: if another thread takes over its `JoinHandle`, the link stays.
    pub(super) fn only_joins(&self) -> bool {
        match &*self.edges {
            _ if matches!(self.waiter, Waiter::BlockOn(_)) => false,
            [edge] if self.is_exact() => matches!(edge.wait.target.target(), WaitTarget::Task(_)),
            _ => false,
        }
    }

    /// Returns all tasks that the node depends on.
    pub(super) fn owners(&self) -> impl Iterator<Item = (&WaitEdge, &Owner)> + Clone {
        self.edges.iter().flat_map(|edge| edge.all().map(move |owner| (edge, owner)))
    }

    /// Returns the records of the node's resources that have an unnamed owner.
    ///
    /// The node's next poll copies the names to the record.
    pub(super) fn unnamed_records(&self) -> Vec<&'static ResourceRecord> {
        let record = |it: &RecordedWait| match it.wait.target.target() {
            WaitTarget::Record(index) if it.link != Link::None => {
                ResourceRecord::at(index).filter(|record| record.owner_table.has_unnamed())
            }
            _ => None,
        };
        self.waiter.record().waits().0.iter().filter_map(record).collect()
    }

    /// Returns whether the node waits for a `JoinSet` that has not listed its tasks.
    ///
    /// The node's next poll lists them.
    pub(super) fn has_unlisted_set(&self) -> bool {
        let poll = self.waiter.poll_stamp();
        let is_set = |it: &RecordedWait| {
            let is_number = matches!(it.wait.target.target(), WaitTarget::Number(_));
            it.wait.kind == WaitKind::Join && is_number && it.poll.same_poll(poll)
        };
        self.wakers > 0 && self.waiter.record().waits().0.iter().any(is_set)
    }

    /// Returns whether the node has edges, or has no waker and was not declared to need none.
    pub(super) fn may_be_stuck(&self) -> bool {
        !self.edges.is_empty() || (self.wakers == 0 && !self.waiter.is_exempt())
    }

    /// Returns whether the node is in the same wait as when it was observed.
    pub(super) fn is_unchanged(&self) -> bool {
        let same_edges = || {
            // The closures ahead of a queued one are nodes of the cycle too.
            self.edges.is_empty()
                || matches!(self.waiter, Waiter::Queued(_))
                || self.read_waits(Duration::ZERO).is_some_and(|(now, ..)| {
                    let same = |(then, now): (&WaitEdge, &WaitEdge)| {
                        then.wait.target == now.wait.target && then.all().eq(now.all())
                    };
                    self.edges.len() == now.len() && self.edges.iter().zip(&now).all(same)
                })
        };
        self.waiter.wakers() == Some(self.wakers)
            && same_edges()
            && self.waiter.polls() == self.polls
            && self.waiter.wakers() == Some(self.wakers)
    }
}
