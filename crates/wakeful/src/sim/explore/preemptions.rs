//! Records where the polls of one run were cut short: the line of the operation that was not made.
//!
//! Only the run whose failure is printed is observed. Its stacks are resolved to lines when the
//! failure is printed.

use crate::inspect::Stack;
use crate::sim::api::Sim;
use crate::sys::backtrace::current_tid;
use crate::sys::sync::ignore_poison;
use crate::task::context::set_budget_end_hook;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

/// The most polls that are observed.
const OBSERVED: usize = 64;

/// The stack of each poll that was cut short, by step.
#[derive(Clone, Default)]
pub(super) struct Preemptions(Arc<Mutex<BTreeMap<u64, Stack>>>);

impl Preemptions {
    /// Observes the polls of the calling thread from now on.
    pub(super) fn observe(&self) {
        OBSERVED_RUN.set(Some(self.clone()));
        set_budget_end_hook(note);
    }

    /// Returns the line at which the poll of this step was cut short, if it is known.
    pub(super) fn at_step(&self, step: u64) -> Option<String> {
        let stacks = ignore_poison(self.0.lock());
        stacks.get(&step).and_then(place)
    }
}

thread_local! {
    static OBSERVED_RUN: RefCell<Option<Preemptions>> = const { RefCell::new(None) };
}

/// Captures the stack of the current poll. Only its first call counts: the task may hold several
/// futures.
fn note() {
    let run = OBSERVED_RUN.with_borrow(Clone::clone);
    let (Some(Preemptions(stacks)), Some(sim)) = (run, Sim::try_current()) else { return };
    let mut stacks = ignore_poison(stacks.lock());
    if stacks.len() < OBSERVED {
        let capture = || Stack::capture(current_tid(), None);
        stacks.entry(sim.world.steps()).or_insert_with(capture);
    }
}

/// Returns the file and line of the innermost frame that is not in a library.
fn place(stack: &Stack) -> Option<String> {
    let frame = stack.frames().find(|frame| frame.library().is_none() && frame.file().is_some())?;
    Some(format!("{}:{}", frame.file()?, frame.line()?))
}
