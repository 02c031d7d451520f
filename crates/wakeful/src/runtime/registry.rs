//! All runtimes of the process, by id.
//!
//! A future that stores the id of its runtime finds the runtime here. So it does not need to hold a
//! reference, whose count costs an atomic operation.

use super::{Handle, Id, RuntimeInner};
use crate::inspect::runtimes::{self, InspectedRuntime};
use crate::sys::sync::ignore_poison;
use std::sync::{Arc, Mutex, MutexGuard, Weak};

static RUNTIMES: Mutex<Vec<(Id, Weak<RuntimeInner>)>> = Mutex::new(Vec::new());

fn lock() -> MutexGuard<'static, Vec<(Id, Weak<RuntimeInner>)>> {
    ignore_poison(RUNTIMES.lock())
}

pub(crate) fn add(shared: &Arc<RuntimeInner>) {
    runtimes::set_list(list);
    lock().push((shared.id, Arc::downgrade(shared)));
}

/// Returns every runtime that has an owner or a handle.
fn list() -> Vec<Arc<dyn InspectedRuntime>> {
    let upgrade =
        |shared: &Weak<RuntimeInner>| Some(shared.upgrade()? as Arc<dyn InspectedRuntime>);
    lock().iter().filter_map(|(_, shared)| upgrade(shared)).collect()
}

pub(crate) fn remove(id: Id) {
    let mut runtimes = lock();
    if let Some(at) = runtimes.iter().rposition(|(other, _)| *other == id) {
        runtimes.remove(at);
    }
}

/// Returns all runtimes but the one with this id.
pub(crate) fn all_but(id: Id) -> Vec<Arc<RuntimeInner>> {
    let others = |(other, shared): &(Id, Weak<RuntimeInner>)| {
        if *other == id { None } else { shared.upgrade() }
    };
    lock().iter().filter_map(others).collect()
}

/// Returns the runtime with this id, unless it and all handles to it are dropped.
pub(crate) fn find(id: Id) -> Option<Handle> {
    let runtimes = lock();
    let (_, shared) = runtimes.iter().find(|(other, _)| *other == id)?;
    shared.upgrade().map(Handle::from_shared)
}

/// Returns all runtimes of the process that are not dropped, oldest first.
pub(super) fn all() -> Vec<Handle> {
    // Collected first: to drop a last reference under the lock would lock it again.
    let shared: Vec<_> = lock().iter().filter_map(|(_, shared)| shared.upgrade()).collect();
    shared.into_iter().map(Handle::from_shared).collect()
}
