//! What the deadlock scan may claim of stuck nodes: the reports of cycles, and the proof that a
//! `block_on` never returns.

use super::graph::Graph;
use super::node::Node;
use super::waiter::Waiter;
use crate::inspect::dump::since;
use crate::inspect::report::{Basis, Deadlock, Edge, Futurelock, Report};
use crate::task::id;
use crate::wait::ownership::resource_record::ResourceRecord;
use crate::watchdog::snapshot::{Inspectable, WorkerSnapshot};
use std::collections::BTreeSet;

impl Graph {
    pub(super) fn edge(&self, number: u64) -> Option<Edge> {
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
    pub(super) fn report_cycle(&self, cycle: &[u64], nothing_runs: bool) -> Option<Report> {
        let edges = cycle.iter().map(|number| self.edge(*number)).collect::<Option<Vec<_>>>()?;
        let only_joins = edges.iter().all(Edge::is_exact);
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
    pub(super) fn cannot_progress(
        &self,
        scheduler: &dyn Inspectable,
        stuck: &BTreeSet<u64>,
    ) -> bool {
        let can_happen = |look: &WorkerSnapshot| look.timers + look.sources > 0;
        self.others == 0
            && self.nodes.len() == stuck.len()
            && scheduler.is_quiet()
            && !scheduler.base().config.env.clock.is_auto_advance_held()
            && !scheduler.workers().iter().any(can_happen)
    }

    pub(super) fn is_unchanged(&self, scheduler: &dyn Inspectable) -> bool {
        self.nodes.values().all(Node::is_unchanged) && scheduler.is_quiet()
    }

    /// Returns the `block_on` futures among the stuck nodes.
    ///
    /// A future without a waker may be meant to wait forever while other threads use the runtime. It
    /// counts only if the runtime was built to end such a `block_on`, as tests are.
    pub(super) fn stuck_block_ons(
        &self,
        scheduler: &dyn Inspectable,
        stuck: &BTreeSet<u64>,
    ) -> Vec<&Node> {
        let config = &scheduler.base().config;
        let counts = |number: &&u64| {
            matches!(self.nodes[*number].waiter, Waiter::BlockOn(_))
                && (self.nodes[*number].edge.is_some() || config.always_end_stuck_block_on)
        };
        stuck.iter().filter(counts).map(|root| &self.nodes[root]).collect()
    }
}
