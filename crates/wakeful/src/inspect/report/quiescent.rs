//! A `block_on` that can never return.

use crate::inspect::Dump;
use crate::inspect::who::Who;
use std::fmt;

/// The future of a `block_on` waits for something that can never happen, and nothing
/// else in the runtime can happen either, nor could another thread help. The `block_on` ends
/// with a panic whose message is this report.
#[derive(Clone, Debug)]
pub struct Quiescent {
    root: Who,
    /// The rest of its future that it was found in.
    pub(crate) rest: u32,
    alone: Alone,
    dump: Dump,
}

/// Why nobody else could help.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Alone {
    /// All of them wait for the end of tasks, and nobody else has their handles.
    NoHandles,
    /// The process has no other threads.
    NoThreads,
    /// Nobody is known to, which is enough if it was said so: in a test.
    NobodyKnown,
}

impl Quiescent {
    pub(crate) fn new(root: Who, rest: u32, alone: Alone, dump: Dump) -> Self {
        Self { root, rest, alone, dump }
    }

    /// The future of the `block_on`.
    pub fn root(&self) -> &Who {
        &self.root
    }

    /// Everything that was there.
    pub fn dump(&self) -> &Dump {
        &self.dump
    }
}

impl fmt::Display for Quiescent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}, called at {}, can never return: everything waits, and nothing is left that could wake \
             any of it: no timer, no descriptor, no closure, {}.\n{}  Look for what the \
             first line above waits for: who was to provide it, and why is that one gone or waiting?",
            self.root,
            self.root.spawned_at(),
            match self.alone {
                Alone::NoHandles => "and nobody else has a handle of what it waits for",
                Alone::NoThreads => "and the process has no threads but those of this runtime",
                Alone::NobodyKnown => "and no thread is known to have anything of it",
            },
            self.dump
        )
    }
}
