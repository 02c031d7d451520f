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
    Ended(Option<RootCause>),
    /// The waiter at the root was asked for details, and woken. The next scan has the result.
    Asked,
}

/// Follows the waits from a stuck `block_on` future to their root cause.
///
/// There is no root cause if the future depends on a cycle, which has a report of its own.
pub(super) fn find_root_cause(
    block_on: &Waiter,
    graph: &Graph,
    quiet: &Quiescence,
) -> RootCauseSearch {
    let mut chain = vec![block_on];
    while let Some(next) = graph.next_of(chain[chain.len() - 1].id()) {
        match quiet.find(next) {
            Some(waiter) if chain.iter().all(|it| it.id() != next) => chain.push(waiter),
            _ => return RootCauseSearch::Ended(None),
        }
    }
    let Some(last) = chain.pop() else { return RootCauseSearch::Ended(None) };
    let Some(wait) = last.record().read() else { return RootCauseSearch::Ended(None) };
    let (details, since_ms) = match last.wakers() {
        // An orphan is not asked: a poll without a wake-up would change what it waits for.
        None | Some(0) => (None, wait.since_ms),
        // Runtimes with `shuffle_tasks` share ids, and run tasks in the order of their seeds.
        Some(_) if !id::are_unique() => (None, wait.since_ms),
        Some(_) => match describe::ask(&last.observed(wait)) {
            Some(Answer { details, since_ms }) => (details, since_ms),
            None => {
                // The waker of a `LocalSet` may be user code.
                watchdog::hand_off();
                catch_and_forget(|| last.wake());
                return RootCauseSearch::Asked;
            }
        },
    };
    let step = |waiter: &Waiter| {
        let wait = waiter.record().read()?;
        Some(WaitStep {
            task: waiter.info(graph.block_on_name(waiter.id()))?,
            wait: wait.kind,
            site: wait.site,
        })
    };
    let Some(cause) = step(last) else { return RootCauseSearch::Ended(None) };
    RootCauseSearch::Ended(Some(RootCause {
        cause,
        waited: since(graph.taken_at(last.id()), since_ms),
        has_wakers: last.wakers().is_some_and(|wakers| wakers > 0),
        details,
        held_up: chain.into_iter().rev().filter_map(step).collect(),
    }))
}
