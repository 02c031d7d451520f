//! The story of a `block_on` that can never return: the wait at the root of it, and what it holds up.

use super::graph::Graph;
use super::quiescence::Quiescence;
use super::waiter::Waiter;
use crate::inspect::dump::since;
use crate::inspect::report::{RootCause, StoryStep};
use crate::sys::unwind::catch_and_forget;
use crate::wait::describe::{self, Answer};
use crate::watchdog;

/// What is known of a stuck `block_on`.
pub(super) enum Story {
    Told(Option<RootCause>),
    /// The waiter at the root was asked for details. The next scan tells the story.
    Asked,
}

/// Tells what the `block_on` future waits for, and what that waits for, up to the root.
///
/// There is no root if it depends on a cycle, which has a report of its own.
pub(super) fn story_of(root: &Waiter, graph: &Graph, quiet: &Quiescence) -> Story {
    let mut chain = vec![root];
    while let Some(next) = graph.next_of(chain[chain.len() - 1].number()) {
        match quiet.find(next) {
            Some(waiter) if chain.iter().all(|it| it.number() != next) => chain.push(waiter),
            _ => return Story::Told(None),
        }
    }
    let Some(last) = chain.pop() else { return Story::Told(None) };
    let Some(wait) = last.record().read() else { return Story::Told(None) };
    let (details, since_ms) = match last.wakers() {
        // An orphan: a poll that no waker asked for would not be a wait any more.
        None | Some(0) => (None, wait.since_ms),
        Some(_) => match describe::ask(last.number(), last.polls(), wait.since_ms) {
            Some(Answer { details, since_ms }) => (details, since_ms),
            None => {
                // The waker of a local set may be the user's.
                watchdog::hand_off();
                catch_and_forget(|| last.wake());
                return Story::Asked;
            }
        },
    };
    let step = |waiter: &Waiter| {
        let wait = waiter.record().read()?;
        Some(StoryStep {
            task: waiter.info(graph.block_on_name(waiter.number()))?,
            wait: wait.kind,
            site: wait.site,
        })
    };
    let Some(cause) = step(last) else { return Story::Told(None) };
    Story::Told(Some(RootCause {
        cause,
        waited: since(graph.taken_at(last.number()), since_ms),
        has_wakers: last.wakers().is_some_and(|wakers| wakers > 0),
        details,
        held_up: chain.into_iter().rev().filter_map(step).collect(),
    }))
}
