//! The history of a register, and whether it is linearizable.

use std::collections::BTreeSet;
use std::fmt;
use std::time::Duration;

/// A read or a write of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Operation {
    /// The value that it writes, or `None` if it reads.
    pub written: Option<u64>,
    /// The value that it has read.
    pub read: Option<u64>,
    pub began: Duration,
    /// `None` if the client does not know whether it has happened.
    pub ended: Option<Duration>,
}

/// What several clients have done.
#[derive(Clone, Debug, Default)]
pub struct History {
    operations: Vec<Operation>,
}

impl History {
    pub fn add(&mut self, operation: Operation) {
        // A read that has failed says nothing.
        if operation.written.is_some() || operation.ended.is_some() {
            self.operations.push(operation);
        }
    }

    /// Returns whether there is an order of the operations in which each read returns what was written
    /// last, at first 0, and in which none comes before one that had ended when it began.
    ///
    /// Tries all orders, one operation after the other. What can follow depends on the set of the
    /// operations done and on the value of the register only, so no such pair is tried twice.
    pub fn is_linearizable(&self) -> bool {
        let operations = self.relevant();
        let mut seen = BTreeSet::new();
        let mut states = vec![(vec![false; operations.len()], 0)];
        while let Some((done, value)) = states.pop() {
            let open = || operations.iter().enumerate().filter(|(at, _)| !done[*at]);
            let Some(deadline) = open().filter_map(|(_, it)| it.ended).min() else { return true };
            let is_possible = |it: &Operation| {
                it.began <= deadline && (it.written.is_some() || it.read == Some(value))
            };
            let possible = || open().filter(|(_, it)| is_possible(it));
            // A read that is possible changes nothing, so it comes first without loss.
            let read = possible().find(|(_, it)| it.written.is_none());
            let len = if read.is_some() { 1 } else { usize::MAX };
            for (at, next) in read.into_iter().chain(possible()).take(len) {
                let mut done = done.clone();
                done[at] = true;
                let state = (done, next.written.unwrap_or(value));
                if seen.insert(state.clone()) {
                    states.push(state);
                }
            }
        }
        false
    }

    /// Returns the operations by their beginning, without writes that may never have happened: the client
    /// does not know, and no other client has read the value.
    fn relevant(&self) -> Vec<Operation> {
        let is_read =
            |value| self.operations.iter().any(|it| it.written.is_none() && it.read == value);
        let mut operations = self.operations.clone();
        operations.retain(|it| it.ended.is_some() || is_read(it.written));
        operations.sort_by_key(|operation| operation.began);
        operations
    }
}

impl fmt::Display for History {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut operations = self.operations.clone();
        operations.sort_by_key(|operation| operation.began);
        for Operation { written, read, began, ended } in operations {
            let ended = ended.map_or("?".to_owned(), |at| format!("{at:.1?}"));
            let what = match (written, read) {
                (Some(value), _) => format!("write {value}"),
                (None, read) => format!("read {}", read.unwrap_or_default()),
            };
            writeln!(f, "{began:>8.1?} to {ended:>8}: {what}")?;
        }
        Ok(())
    }
}
