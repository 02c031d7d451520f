//! A node of the wait-for graph, and what it waits for.

use super::waiter::Waiter;
use crate::task::wait_kind::WaitKind;
use crate::task::wait_record::Wait;
use crate::task::wait_target::WaitTarget;
use crate::wait::ownership::owner::Owner;
use crate::wait::ownership::resource_record::ResourceRecord;

/// A node of the graph, as it was observed.
pub(super) struct Node {
    pub(super) waiter: Waiter,
    pub(super) polls: u32,
    /// For a `block_on` future: the number of its current wait.
    pub(super) rest: u32,
    pub(super) wakers: u64,
    pub(super) edge: Option<WaitEdge>,
}

/// The resource that a node waits for, and its owners.
pub(super) struct WaitEdge {
    pub(super) wait: Wait,
    /// Owners of the resource. Never empty.
    pub(super) holders: Vec<Owner>,
    /// A waiter that is queued ahead, and for which free permits are kept.
    pub(super) queued_ahead: Option<Owner>,
}

impl WaitEdge {
    /// Iterates over all tasks that the node depends on.
    pub(super) fn all(&self) -> impl Iterator<Item = &Owner> {
        self.queued_ahead.iter().chain(&self.holders)
    }

    /// Returns whether the resource is often moved into a child task, as permits and receivers are.
    pub(super) fn is_often_moved(&self) -> bool {
        matches!(self.wait.kind, WaitKind::Semaphore | WaitKind::MpscSend)
    }

    pub(super) fn is_queued_ahead(&self, owner: &Owner) -> bool {
        self.queued_ahead.as_ref() == Some(owner)
    }
}

impl Node {
    /// Observes a waiter. Returns `None` if it does not wait.
    pub(super) fn observe(waiter: Waiter) -> Option<Self> {
        let polls = waiter.polls();
        let rest = match &waiter {
            Waiter::BlockOn(root) => root.record.poll_number(),
            Waiter::Task(_) | Waiter::Inner { .. } => 0,
        };
        let wakers = waiter.wakers()?;
        let mut node = Self { waiter, polls, rest, wakers, edge: None };
        if wakers == 1 {
            node.edge = node.read_edge();
        }
        Some(node)
    }

    pub(super) fn read_edge(&self) -> Option<WaitEdge> {
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
    pub(super) fn joined_task(&self) -> Option<u64> {
        let WaitEdge { wait, holders, .. } = self.edge.as_ref()?;
        (wait.kind == WaitKind::Join).then(|| holders[0].task)
    }

    /// Returns the record of its resource if the node has no edge only because an owner is not named.
    ///
    /// Its next poll copies the names to the record.
    pub(super) fn unnamed_record(&self) -> Option<&'static ResourceRecord> {
        match self.waiter.record().linked_target()? {
            WaitTarget::Record(index) if self.wakers == 1 => {
                ResourceRecord::at(index).filter(|record| record.owner_table.has_unnamed())
            }
            _ => None,
        }
    }

    /// Returns whether it has an edge, or has no waker and was not declared to need none.
    pub(super) fn may_be_stuck(&self) -> bool {
        self.edge.is_some() || (self.wakers == 0 && !self.waiter.is_exempt())
    }

    /// Returns whether it is in the same wait as when it was observed.
    pub(super) fn is_unchanged(&self) -> bool {
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
