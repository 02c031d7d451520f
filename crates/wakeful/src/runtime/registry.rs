//! All runtimes of the process, by id.
//!
//! A future that stores the id of its runtime finds the runtime here. So it does not need to hold a
//! reference, whose count costs an atomic operation.

use super::{Handle, Id, RuntimeInner};
use crate::sys::sync::ignore_poison;
use std::sync::{Arc, Mutex, MutexGuard, Weak};

static RUNTIMES: Mutex<Vec<(Id, Weak<RuntimeInner>)>> = Mutex::new(Vec::new());

fn lock() -> MutexGuard<'static, Vec<(Id, Weak<RuntimeInner>)>> {
    ignore_poison(RUNTIMES.lock())
}

pub(crate) fn add(shared: &Arc<RuntimeInner>) {
    lock().push((shared.id, Arc::downgrade(shared)));
}

pub(crate) fn remove(id: Id) {
    let mut runtimes = lock();
    if let Some(at) = runtimes.iter().rposition(|(other, _)| *other == id) {
        runtimes.swap_remove(at);
    }
    drop(runtimes);
    let mut dumped = lock_dumped();
    if let Some(at) = dumped.iter().rposition(|other| *other == id) {
        dumped.swap_remove(at);
    }
}

/// Returns the runtime with this id, unless it and all handles to it are dropped.
pub(crate) fn find(id: Id) -> Option<Handle> {
    let runtimes = lock();
    let (_, shared) = runtimes.iter().find(|(other, _)| *other == id)?;
    shared.upgrade().map(Handle::from_shared)
}

/// The runtimes that are dumped on SIGQUIT.
static DUMPED: Mutex<Vec<Id>> = Mutex::new(Vec::new());

fn lock_dumped() -> MutexGuard<'static, Vec<Id>> {
    ignore_poison(DUMPED.lock())
}

pub(super) fn add_for_dumps(id: Id) {
    lock_dumped().push(id);
}

/// Returns the runtimes that are dumped on SIGQUIT, and forgets those that no longer exist.
pub(super) fn dumped_on_signal() -> Vec<Handle> {
    let ids = lock_dumped().clone();
    let handles: Vec<Handle> = ids.iter().filter_map(|id| find(*id)).collect();
    lock_dumped().retain(|id| handles.iter().any(|handle| handle.id() == *id));
    handles
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::{add_for_dumps, lock_dumped};
    use crate::runtime::Builder;

    #[test]
    fn dropped_runtime_is_removed_from_the_dump_list() {
        let runtime = Builder::new_current_thread().build().unwrap();
        let id = runtime.handle().id();
        add_for_dumps(id);
        assert!(lock_dumped().contains(&id));
        drop(runtime);
        assert!(
            !lock_dumped().contains(&id),
            "without a signal, no other code removes it from the list"
        );
    }
}
