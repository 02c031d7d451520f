//! The conclusions of the deadlock scan: reports of cycles, and the proof that a `block_on` never
//! returns.

use super::graph::{Graph, Scope, Step};
use super::node::Node;
use super::waiter::Waiter;
use crate::inspect::dump::since;
use crate::inspect::report::{Basis, Deadlock, Edge, Futurelock, Report};
use crate::task::id;
use crate::wait::ownership::resource_record::ResourceRecord;
use crate::watchdog::snapshot::{Inspectable, WorkerSnapshot};
use std::collections::BTreeSet;
use std::time::Duration;

impl Graph {
    /// Describes one step of a cycle.
    fn edge(&self, step: &Step<'_>) -> Option<Edge> {
        let (node, wait) = (&self.nodes[&step.id], &step.edge.wait);
        Some(Edge {
            task: node.waiter.info(self.block_on_name(step.id))?,
            runtime: self.runtime_name(step.id),
            wait: wait.kind,
            resource_id: ResourceRecord::display_number(wait.target.target()),
            site: wait.site,
            waited: since(self.taken_at(step.id), wait.since_ms),
            holder: self
                .nodes
                .get(&step.owner.task)?
                .waiter
                .info(self.block_on_name(step.owner.task))?,
            acquired_at: step.owner.site,
            unpolled: step.owner.granted_unpolled,
            queued_ahead: step.edge.is_queued_ahead(step.owner),
            may_have_moved: step.edge.may_have_moved,
            may_be_aborted: node.waiter.may_be_aborted(node.waiter.is_awaited()),
            exits: node.exits.clone(),
        })
    }

    /// Builds the report of a cycle, or `None` if one of its nodes has changed.
    ///
    /// `nothing_runs` says that no code of the process can run.
    pub(super) fn report_cycle(&self, cycle: &[Step<'_>], nothing_runs: bool) -> Option<Report> {
        let edges = cycle.iter().map(|step| self.edge(step)).collect::<Option<Vec<_>>>()?;
        let nodes = || cycle.iter().map(|step| &self.nodes[&step.id]);
        let basis = match () {
            () if nodes().all(Node::only_joins) && id::are_unique() => Basis::OnlyJoins,
            () if nothing_runs => Basis::NothingRuns,
            () if !nodes().all(Node::is_exact) => Basis::Exits,
            () => Basis::Acquisition,
        };
        if !nodes().all(Node::is_unchanged) {
            return None;
        }
        let is_futurelock = edges.iter().any(|edge| edge.unpolled);
        Some(if is_futurelock {
            Report::Futurelock(Futurelock::new(edges, basis))
        } else {
            Report::Deadlock(Deadlock::new(edges, basis))
        })
    }

    /// Returns the reports of cycles that only exits can end. If a cycle is younger than its
    /// patience, also returns the time until the next scan.
    ///
    /// `nothing_runs` says that no code of the process can run, so no exit can end a cycle.
    pub(super) fn report_cycles_with_exits(
        &self,
        nothing_runs: bool,
    ) -> (Vec<Report>, Option<Duration>) {
        let (mut reports, mut again_in) = (Vec::new(), None);
        if self.nodes.values().all(Node::is_settled) {
            return (reports, again_in);
        }
        for cycle in self.cycles(&self.stuck(Scope::WithExits)) {
            let nodes = || cycle.iter().map(|step| &self.nodes[&step.id]);
            let patience = nodes().map(Node::patience_left).max().unwrap_or_default();
            match () {
                // Reported from `Scope::Exact`, or by the scan of another runtime.
                () if nodes().all(Node::is_settled) || !self.is_own(&cycle) => {}
                () if nothing_runs || patience.is_zero() => {
                    reports.extend(self.report_cycle(&cycle, nothing_runs));
                }
                () => again_in = Some(again_in.map_or(patience, |other| patience.min(other))),
            }
        }
        (reports, again_in)
    }

    /// Returns whether the runtime can make no progress by itself.
    ///
    /// This holds if every task is stuck, and there is no timer, I/O source or blocking closure.
    pub(super) fn cannot_progress(
        &self,
        scheduler: &dyn Inspectable,
        stuck: &BTreeSet<u64>,
    ) -> bool {
        let can_happen = |worker: &WorkerSnapshot| worker.timers + worker.sources > 0;
        self.others == 0
            && self.nodes.len() == stuck.len() // so no node has exits
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
        let counts = |id: &&u64| {
            matches!(self.nodes[*id].waiter, Waiter::BlockOn(_))
                && (!self.nodes[*id].edges.is_empty() || config.always_end_stuck_block_on)
        };
        stuck.iter().filter(counts).map(|id| &self.nodes[id]).collect()
    }
}
