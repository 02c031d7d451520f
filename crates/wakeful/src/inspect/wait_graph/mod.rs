//! The deadlock scan: finds cycles in the wait-for graph, and a `block_on` that can never return.
//!
//! # The graph
//!
//! The nodes are tasks and `block_on` futures that wait. A node has a [`WaitEdge`](node::WaitEdge) if exactly one
//! live waker for it exists, and its wait record is linked to a resource (RECORD-1 in
//! [`resource_record`](crate::wait::ownership::resource_record)). Then that waker is queued at that
//! resource, so only the resource or an abort can wake the node. This is exact.
//!
//! A task in `block_in_place`, and a closure of the blocking pool, is a node while its thread waits
//! inside of it: in a `blocking_…` method, or in a nested `block_on` ([`inner_waits`]).
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
//! [`Certainty`](crate::inspect::Certainty):
//!
//! - *Proven*: all edges of the cycle are `JoinHandle`s (`Basis::OnlyJoins`), or no code of the
//!   process can run, wherever the guards are (`Basis::NothingRuns`).
//! - *Suspected*: all other cycles (`Basis::Acquisition`). They end no `block_on`.
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

mod graph;
mod inner_waits;
mod node;
mod verdict;
mod waiter;

use super::Dump;
use super::report::{Report, StuckBlockOn};
use crate::sys::unwind::catch_and_forget;
use crate::watchdog;
use crate::watchdog::snapshot::Inspectable;
use graph::Graph;

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
