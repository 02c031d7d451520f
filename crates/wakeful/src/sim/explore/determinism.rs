//! Compares two runs of one seed.

use crate::sim::api::Outcome;
use crate::sim::hash::{BLOCK, Difference, Event, first_difference};

/// Repeats a run, and keeps the events of a window.
type Rerun<'a> = &'a dyn Fn(Option<(u64, usize)>) -> Outcome;

/// Runs the seed once more. Describes the first difference between the runs, or returns `None` if
/// they are equal.
pub(super) fn compare(outcome: &Outcome, rerun: Rerun<'_>) -> Option<String> {
    let again = rerun(None);
    let first = match first_difference(&outcome.result.hash, &again.result.hash)? {
        Difference::Block(first) => first,
        Difference::Event(..) => 0,
    };
    let window = Some((first, BLOCK as usize));
    // These two runs may be equal, or differ in another event than the runs before.
    let (one, other) = (rerun(window), rerun(window));
    Some(match first_difference(&one.result.hash, &other.result.hash) {
        Some(Difference::Event(one, other)) => {
            let text = |event: Option<Event>| {
                event.map_or("the end of the run".to_owned(), |it| it.to_string())
            };
            format!(
                "the first event that differs:\n    one run:   {}\n    the other: {}",
                text(one),
                text(other)
            )
        }
        _ => format!(
            "the runs are equal up to event {first}, and two more runs were equal after it as well: \
             the difference is rare"
        ),
    })
}
