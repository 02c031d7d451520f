//! The runtimes of this process, by id: for what knows which one it belongs to
//! but does not want to pay for a reference.

use super::{Handle, Id, Shared};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

static RUNTIMES: Mutex<Vec<(Id, Weak<Shared>)>> = Mutex::new(Vec::new());

fn lock() -> MutexGuard<'static, Vec<(Id, Weak<Shared>)>> {
    RUNTIMES.lock().unwrap_or_else(PoisonError::into_inner)
}

pub(crate) fn add(shared: &Arc<Shared>) {
    lock().push((shared.id, Arc::downgrade(shared)));
}

pub(crate) fn remove(id: Id) {
    let mut runtimes = lock();
    if let Some(at) = runtimes.iter().rposition(|(other, _)| *other == id) {
        runtimes.swap_remove(at);
    }
}

/// The runtime of that id, unless it and all handles to it are gone.
pub(crate) fn find(id: Id) -> Option<Handle> {
    let runtimes = lock();
    let (_, shared) = runtimes.iter().find(|(other, _)| *other == id)?;
    shared.upgrade().map(Handle::from_shared)
}
