//! All runtimes of the process, for diagnostics that look at more than one.
//!
//! The list itself is `runtime::registry`. This module may not use that one, so the registry passes
//! a function that returns the list.

use super::dump::Dump;
use crate::watchdog::snapshot::Inspectable;
use std::sync::{Arc, OnceLock};

/// A runtime, as diagnostics see it.
pub(crate) trait InspectedRuntime: Send + Sync {
    /// Returns its id, which is unique in the process.
    fn id(&self) -> u64;
    fn inspectable(&self) -> &dyn Inspectable;
    /// Takes a dump, and scans the runtime for what is wrong.
    fn dump(&self) -> Dump;
}

type List = fn() -> Vec<Arc<dyn InspectedRuntime>>;

static LIST: OnceLock<List> = OnceLock::new();

/// Sets the function that lists the runtimes. Only the first call has an effect.
pub(crate) fn set_list(list: List) {
    let _ = LIST.set(list);
}

/// Returns the runtimes that exist, in the order in which they were built.
pub(crate) fn all() -> Vec<Arc<dyn InspectedRuntime>> {
    let mut runtimes = LIST.get().map_or(Vec::new(), |list| list());
    runtimes.sort_by_key(|runtime| runtime.id());
    runtimes
}
