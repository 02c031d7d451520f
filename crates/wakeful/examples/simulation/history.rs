//! Checks that the history of a register is linearizable.

use std::collections::BTreeSet;
use std::fmt;
use std::time::Duration;

/// A read or a write of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Operation {
    /// The value that the operation writes, or `None` if it reads.
    pub written: Option<u64>,
    /// The value that the operation read.
    pub read: Option<u64>,
    pub began: Duration,
    /// `None` if the client does not know whether the operation took effect.
    pub ended: Option<Duration>,
}

/// The operations of several clients.
#[derive(Clone, Debug, Default)]
pub struct History {
    operations: Vec<Operation>,
}

impl History {
    pub fn add(&mut self, operation: Operation) {
        // A failed read has no result to check.
        if operation.written.is_some() || operation.ended.is_some() {
            self.operations.push(operation);
        }
    }

    /// Returns whether some order of the operations explains all results. Each read returns the value of the
    /// last write, at first 0, and no operation precedes one that had ended when it began.
    ///
    /// Tries all orders, one operation at a time. The possible continuations depend only on the set of
    /// operations done and on the register's value, so no such pair is tried twice.
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
            // A possible read changes nothing, so it is enough to try it first.
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

    /// Returns the operations ordered by start, except for writes that may never have happened: the
    /// client does not know, and no client has read the value.
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
