//! The root cause of a `block_on` that can never return, and the chain of waits from there up to it.

use super::graph::Graph;
use super::quiescence::Quiescence;
use super::waiter::Waiter;
use crate::inspect::dump::since;
use crate::inspect::report::{RootCause, WaitStep};
use crate::sys::unwind::catch_and_forget;
use crate::task::id;
use crate::wait::describe::{self, Answer};
use crate::watchdog;

/// The result of [`find_root_cause`].
pub(super) enum RootCauseSearch {
    /// The root cause, if there is one.
    Ended(Option<Box<RootCause>>),
    /// The waiter at the root was asked for details, and woken. The next scan has the result.
    Asked,
}

/// Follows the waits from a stuck `block_on` future to their root cause.
///
/// `is_in_runtime` returns whether a runtime of the process has the task with this id. There is no root
/// cause if the future depends on a cycle, which has a report of its own.
pub(super) fn find_root_cause(
    block_on: &Waiter,
    graph: &Graph,
    quiet: &Quiescence,
    is_in_runtime: impl Fn(u64) -> bool,
) -> RootCauseSearch {
    let mut chain = vec![block_on];
    let mut unrun = None;
    while let Some(next) = graph.next_of(chain[chain.len() - 1].number()) {
        match quiet.find(next) {
            Some(waiter) if chain.iter().all(|it| it.number() != next) => chain.push(waiter),
            // Runtimes with `shuffle_tasks` use the same ids.
            None if id::are_unique()
                && graph.joins(chain[chain.len() - 1].number(), next)
                && !is_in_runtime(next) =>
            {
                unrun = Some(next);
                break;
            }
            _ => return RootCauseSearch::Ended(None),
        }
    }
    let Some(last) = chain.pop() else { return RootCauseSearch::Ended(None) };
    let Some(wait) = last.record().read() else { return RootCauseSearch::Ended(None) };
    let (details, since_ms) = match (unrun, last.wakers()) {
        // It has not ended, and no runtime has it: it is of a set that no runtime polls.
        (Some(task), _) => {
            let text = format!(
                "task {task} can never run: no thread runs its LocalSet. Await inside of LocalSet::run_until"
            );
            (Some(text), wait.since_ms)
        }
        // An orphan is not asked: a poll without a wake-up would change what it waits for.
        (_, None | Some(0)) => (None, wait.since_ms),
        // Runtimes with `shuffle_tasks` use the same ids, and run tasks in the order of their seeds.
        (_, Some(_)) if !id::are_unique() => (None, wait.since_ms),
        (_, Some(_)) => match describe::ask(&last.observed(wait)) {
            Some(Answer { details, since_ms }) => (details, since_ms),
            None => {
                // The waker of a local set may be the user's.
                watchdog::hand_off();
                catch_and_forget(|| last.wake());
                return RootCauseSearch::Asked;
            }
        },
    };
    let step = |waiter: &Waiter| {
        let wait = waiter.record().read()?;
        Some(WaitStep {
            task: waiter.info(graph.block_on_name(waiter.number()))?,
            wait: wait.kind,
            site: wait.site,
        })
    };
    let Some(cause) = step(last) else { return RootCauseSearch::Ended(None) };
    let is_told = |waiter: &&Waiter| {
        let told = chain.iter().copied().chain([last]);
        told.map(Waiter::number).any(|number| number == waiter.number())
    };
    let replies = quiet.awaiting_replies().filter(|waiter| !is_told(waiter)).collect::<Vec<_>>();
    // The last of them to begin has asked no task that goes on.
    let since_ms_of = |waiter: &&&Waiter| waiter.record().read().map(|wait| wait.since_ms);
    let asks = replies
        .iter()
        .filter(|_| unrun.is_none())
        .max_by_key(since_ms_of)
        .and_then(|waiter| step(waiter));
    RootCauseSearch::Ended(Some(Box::new(RootCause {
        asks,
        other_asks: replies.len().saturating_sub(1),
        cause,
        waited: since(graph.taken_at(last.number()), since_ms),
        has_wakers: last.wakers().is_some_and(|wakers| wakers > 0),
        details,
        held_up: chain.into_iter().rev().filter_map(step).collect(),
    })))
}
