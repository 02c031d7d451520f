//! The deadlock scan: finds cycles in the wait graph, and a `block_on` that can never return.
//!
//! # The graph
//!
//! The nodes are the waiting tasks and `block_on` futures of the scanned runtime. If one of them
//! depends on a task of another runtime, the graph covers all runtimes of the process.
//!
//! A node has a [`WaitEdge`](node::WaitEdge) for each wait that is linked to a resource (RECORD-1 in
//! [`resource_record`](crate::wait::ownership::resource_record)), if the owners of these resources are
//! known. If the node has as many live wakers as direct links, each of its wakers is queued at one of
//! these resources. So only these resources or an abort can wake the node: it is *exact*. Otherwise the
//! other wakers belong to its [exits](crate::inspect::Exit): a timer, a signal, a message.
//!
//! A task in `block_in_place`, or a closure of the blocking pool, is a node while its thread waits in a
//! `blocking_…` method or in a nested `block_on` ([`inner_waits`]). A closure that is queued for a full
//! pool is a node too. It depends on the running closures.
//!
//! In a simulation that is stuck, a wait for a stream is an edge too ([`streams`]).
//!
//! A node is *stuck* if every owner of each of its resources is stuck, or if it has no waker at all.
//! The scan starts with all nodes that may be stuck. It removes nodes that depend on a task outside of
//! the set, until the set no longer changes. A cycle in the remaining set is a deadlock. Cycles of
//! nodes with exits are searched for separately ([`Scope`]). They are reported only after all of their
//! nodes have waited for some seconds.
//!
//! At the end the scan reads every node of the cycle again. If one of them has changed, the scan does
//! not report the cycle.
//!
//! # What is exact and what is assumed
//!
//! The owner of a resource is exact for a `JoinHandle`. For guards, permits and channel receivers the
//! scan assumes that the owner is the task that acquired them. The program may have moved the guard, or
//! the future that holds it, to another task or thread. So a report has a
//! [`Certainty`](crate::inspect::Certainty):
//!
//! - *Proven*: all edges of the cycle are `JoinHandle`s (`Basis::OnlyJoins`), or no code of the
//!   process can run, wherever the guards are (`Basis::NothingRuns`).
//! - *Suspected*: all other cycles, without exits (`Basis::Acquisition`) or with exits
//!   (`Basis::Exits`). They end no `block_on`.
//!
//! Some assumptions are wrong too often, so the scan does not make them:
//!
//! - Owned guards and permits (RECORD-2) are often sent along with jobs. A wait for them counts only
//!   after some seconds.
//! - All permits, owned guards, and receivers are often moved into a child task. A task that waits for
//!   one of these is stuck only if the children of the owner are stuck too.
//! - The owner of a receiver is the task that received last, unless that task itself waits for
//!   capacity.
//!
//! A `block_on` is ended only if it provably can never return. One proof is that no code of the process
//! can run ([`quiescence`]). The other is that its future has no waker and the runtime can make no
//! progress. It counts only if the runtime was built to end such a `block_on`, as the runtimes of tests
//! are.

mod graph;
mod inner_waits;
mod node;
mod quiescence;
mod root_cause;
mod streams;
mod verdict;
mod waiter;

use super::Dump;
use super::harness;
use super::report::{Edge, NoRescueReason, Report, StuckBlockOn};
use super::runtimes::InspectedRuntime;
use crate::sim::network::StreamPeer;
use crate::sys::sync::ignore_poison;
use crate::sys::unwind::catch_and_forget;
use crate::task::id;
use crate::wait::ownership::resource_record::{self, ResourceRecord};
use crate::watchdog;
use crate::watchdog::snapshot::Inspectable;
use graph::{Graph, Scope};
use quiescence::Quiescence;
use root_cause::{RootCauseSearch, find_root_cause};
use std::collections::{BTreeMap, HashMap};
use std::ops::Deref;
use std::sync::{Arc, LazyLock, Mutex};
use std::time::Duration;
use streams::Streams;
use waiter::Waiter;

/// The result of one deadlock scan.
#[derive(Default)]
pub(crate) struct ScanResult {
    pub(crate) reports: Vec<Report>,
    /// If set, the watchdog has to scan again, but not before this time has passed.
    ///
    /// Set if a `block_on` is stuck unless a thread outside the runtime helps, since that thread may
    /// end without notice. Also set if a cycle with exits is too young to be reported.
    pub(crate) again_in: Option<Duration>,
}

/// Whether a scan may wake tasks, so that their next poll records more.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum ScanMode {
    MayWake,
    /// For a dump, which shows cycles and leaves out reports of a stuck `block_on`.
    ReadOnly,
}

/// The time after which a quiet runtime is scanned again if its idle pool threads are about to end.
const POOL_ENDS: Duration = Duration::from_secs(1);

/// Scans one runtime, whose name is `name`. `peers` returns the other runtimes of the process.
///
/// Nothing is proven while a blocking pool has an idle thread.
pub(crate) fn scan<P>(
    runtime: &dyn InspectedRuntime,
    name: Option<&str>,
    peers: impl FnOnce() -> Vec<P>,
    mode: ScanMode,
) -> ScanResult
where
    P: Deref<Target: InspectedRuntime>,
{
    let scheduler = runtime.inspectable();
    let own = Graph::take(&[scheduler]);
    if mode == ScanMode::MayWake {
        wake_unnamed(&own);
        wake_awaiters_of_sets(&own);
    }
    // Runtimes with `shuffle_tasks` share ids.
    let is_wide = id::are_unique() && own.depends_on_others_than(scheduler);
    let has_cycle = |scope| !own.cycles(&own.stuck(scope)).is_empty();
    if mode == ScanMode::ReadOnly
        && !is_wide
        && !has_cycle(Scope::Exact)
        && !has_cycle(Scope::WithExits)
    {
        // A proof matters only to a cycle, and there is none, or to a stuck `block_on`, which a dump does
        // not show.
        return ScanResult::default();
    }
    let has_block_on = || !scheduler.block_ons().is_empty();
    let is_quiet = has_block_on() && Quiescence::observe(&[scheduler]).is_some();
    // After the wake-ups, which may run user code: a shutdown of a peer waits for this scan. Most scans
    // need no other runtime, and a process may have many.
    let peers = if is_wide || is_quiet { peers() } else { Vec::new() };
    // An idle pool thread ends after a while and runs the destructors of its thread-locals, which may
    // wake any task.
    let has_idle_threads =
        runtime.pool_counts().idle > 0 || peers.iter().any(|peer| peer.pool_counts().idle > 0);
    let peers: &[&dyn Inspectable] = &peers.iter().map(|it| it.inspectable()).collect::<Vec<_>>();
    let is_wide = is_wide && !peers.is_empty();
    let wide = is_wide.then(|| Graph::take(&with_peers(scheduler, peers)));
    let graph = wide.as_ref().unwrap_or(&own);
    let may_be_proven = is_quiet && !has_idle_threads;
    let proof = may_be_proven.then(|| prove_quiescence(scheduler, peers)).flatten();
    let cycles = graph.cycles(&graph.stuck(Scope::Exact));
    let cycles = cycles.iter().filter(|cycle| graph.is_own(cycle));
    let cycles = cycles.filter_map(|cycle| graph.report_cycle(cycle, proof.is_some()));
    let mut reports: Vec<Report> = cycles.collect();
    let (with_exits, again_in) = graph.report_cycles_with_exits(proof.is_some());
    reports.extend(with_exits);
    let mut found = ScanResult { reports, again_in };
    match proof {
        Some((quiet, reason)) => {
            report_stuck(scheduler, name, graph, &quiet, reason, &mut found);
        }
        None => {
            report_without_wakers(scheduler, name, &own, &mut found);
            // The last of the other threads may end without notice. The scan that sees this ends a test.
            let is_test =
                scheduler.base().config.always_end_stuck_block_on || harness::is_test_program();
            if is_quiet && is_test {
                found.again_in = Some(Duration::ZERO);
            } else if is_quiet && has_idle_threads {
                found.again_in = Some(found.again_in.map_or(POOL_ENDS, |it| it.min(POOL_ENDS)));
            }
        }
    }
    found
}

/// Returns the deadlocks among the hosts of a simulation in which no host has a ready task.
///
/// `nothing_runs` says that there is no timer and no message either, so nothing ends a cycle.
/// Otherwise a cycle counts only if no abort can end it and none of its guards may have moved to
/// another task. `peers` has the other ends of streams, whose waits then count as edges.
pub(crate) fn scan_hosts(
    hosts: &[&dyn Inspectable],
    nothing_runs: bool,
    peers: Option<&BTreeMap<u64, StreamPeer>>,
) -> Vec<Report> {
    let streams = peers.map(|peers| Arc::new(Streams::read(hosts, peers)));
    let graph = Graph::take_with(hosts, streams.as_ref());
    let cycles = graph.cycles(&graph.stuck(Scope::Exact));
    let mut reports: Vec<Report> =
        cycles.iter().filter_map(|cycle| graph.report_cycle(cycle, nothing_runs)).collect();
    if nothing_runs {
        reports.extend(graph.report_cycles_with_exits(true).0);
        return reports;
    }
    let may_end = |edge: &Edge| edge.may_be_aborted || edge.may_have_moved;
    reports.retain(|report| match report {
        Report::Deadlock(found) => !found.edges().iter().any(may_end),
        Report::Futurelock(found) => !found.edges().iter().any(may_end),
        _ => false,
    });
    reports
}

/// Wakes one waiter of each resource with an unnamed owner.
///
/// The owner had not yet written its name when the first waiter copied the names. After another poll
/// of a waiter, the next scan finds the name.
fn wake_unnamed(graph: &Graph) {
    // One wake-up per resource: a waiter whose poll skips the wait would be woken forever.
    for (waiter, records) in &graph.unnamed {
        let claims = |record: &&ResourceRecord| record.owner_table.claim_scan_wake();
        if records.iter().filter(|record| claims(record)).count() > 0 {
            // The waker of a `LocalSet` may be user code.
            watchdog::hand_off();
            catch_and_forget(|| waiter.wake());
        }
    }
}

/// The maximum number of wake-ups in a row for a task that does not list the tasks of its set.
const MAX_REQUESTS: u32 = 3;
/// The maximum number of such tasks remembered.
const MAX_REMEMBERED: usize = 4096;

/// Asks tasks that await a `JoinSet` to list the tasks of the set, and wakes them to do so.
///
/// The next scan finds the list. The set withdraws the list when its tasks change. A task that skips
/// the set in its poll lists nothing, and is asked at most [`MAX_REQUESTS`] times in a row.
fn wake_awaiters_of_sets(graph: &Graph) {
    // By id: the polls before the last request, and the requests in a row.
    static REQUESTS: LazyLock<Mutex<HashMap<u64, (u32, u32)>>> = LazyLock::new(Mutex::default);
    // A runtime with `shuffle_tasks` runs its tasks in the order of its seed, so the scan wakes none.
    if !id::are_unique() {
        return;
    }
    let is_remembered = |id: &u64| graph.sets.iter().any(|waiter| waiter.id() == *id);
    let asked: Vec<&Waiter> = {
        let mut requests = ignore_poison(REQUESTS.lock());
        // A node has listed the tasks of its set.
        requests.retain(|id, _| !graph.nodes.contains_key(id));
        if requests.len() > MAX_REMEMBERED {
            requests.retain(|id, _| is_remembered(id));
        }
        let claims = |waiter: &&Waiter| {
            let (polls, count) = requests.entry(waiter.id()).or_default();
            let now = waiter.polls();
            // The request caused one poll. Further polls had other causes.
            *count = if now.wrapping_sub(*polls) > 1 { 1 } else { *count + 1 };
            *polls = now;
            *count <= MAX_REQUESTS
        };
        graph.sets.iter().filter(claims).collect()
    };
    if asked.is_empty() {
        return;
    }
    resource_record::request_members();
    watchdog::hand_off();
    for waiter in asked {
        catch_and_forget(|| waiter.wake());
    }
}

fn with_peers<'a>(
    scheduler: &'a dyn Inspectable,
    peers: &[&'a dyn Inspectable],
) -> Vec<&'a dyn Inspectable> {
    [&[scheduler], peers].concat()
}

/// Returns all waits of the process with the reason why no code can run, or `None` if code can run.
fn prove_quiescence(
    scheduler: &dyn Inspectable,
    peers: &[&dyn Inspectable],
) -> Option<(Quiescence, NoRescueReason)> {
    let runtimes = with_peers(scheduler, peers);
    let quiet = Quiescence::observe(&runtimes)?;
    let reason = quiet.no_rescue_reason(&runtimes)?;
    // Read last, which proves that all of the above held at one point in time.
    quiet.is_unchanged(&runtimes).then_some((quiet, reason))
}

/// Reports each `block_on` of the runtime, while no code of the process can run.
///
/// A future without a waker may be meant to wait forever. It counts only if the runtime was built to
/// end such a `block_on`, as tests are.
fn report_stuck(
    scheduler: &dyn Inspectable,
    runtime: Option<&str>,
    graph: &Graph,
    quiet: &Quiescence,
    reason: NoRescueReason,
    found: &mut ScanResult,
) {
    let config = &scheduler.base().config;
    let counts = |waiter: &Waiter| {
        config.always_end_stuck_block_on || waiter.wakers().is_some_and(|wakers| wakers > 0)
    };
    for (waiter, poll_number) in quiet.own_block_ons().filter(|(waiter, _)| counts(waiter)) {
        let root_cause = match find_root_cause(waiter, graph, quiet) {
            RootCauseSearch::Ended(root_cause) => root_cause,
            RootCauseSearch::Asked => {
                found.again_in = Some(Duration::ZERO);
                return;
            }
        };
        let Some(info) = waiter.info(graph.block_on_name(waiter.id())) else { continue };
        let reason = if waiter.wakers() == Some(0) { NoRescueReason::WakersGone } else { reason };
        let dump = Dump::take(scheduler, runtime);
        let stuck = StuckBlockOn::new(info, poll_number, reason, dump)
            .with_root_cause(root_cause)
            .with_blocked_threads(quiet.blocked_threads());
        found.reports.push(Report::StuckBlockOn(stuck));
    }
}

/// Reports `block_on` futures without a waker, if they count and the runtime can make no progress.
///
/// A chain of `JoinHandle`s proves nothing while there are other threads, not even if each task has
/// one handle. The program may have moved a polled handle to another thread, which may abort the task.
fn report_without_wakers(
    scheduler: &dyn Inspectable,
    runtime: Option<&str>,
    graph: &Graph,
    found: &mut ScanResult,
) {
    let stuck = graph.stuck(Scope::Exact);
    let block_ons = graph.stuck_block_ons(scheduler, &stuck);
    let cannot_progress = !block_ons.is_empty()
        && graph.cannot_progress(scheduler, &stuck)
        && graph.is_unchanged(scheduler);
    for node in block_ons.into_iter().filter(|_| cannot_progress) {
        if node.wakers > 0 {
            found.again_in = Some(Duration::ZERO);
            continue;
        }
        let Some(info) = node.waiter.info(graph.block_on_name(node.waiter.id())) else {
            continue;
        };
        let dump = Dump::take(scheduler, runtime);
        let stuck = StuckBlockOn::new(info, node.poll_number, NoRescueReason::WakersGone, dump);
        found.reports.push(Report::StuckBlockOn(stuck));
    }
}
