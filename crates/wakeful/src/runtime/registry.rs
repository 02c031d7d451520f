//! The runtimes of this process, by id: for what knows which one it belongs to
//! but does not want to pay for a reference.

use super::{Handle, Id, Shared};
use crate::sys::sync::ignore_poison;
use std::sync::{Arc, Mutex, MutexGuard, Weak};

static RUNTIMES: Mutex<Vec<(Id, Weak<Shared>)>> = Mutex::new(Vec::new());

fn lock() -> MutexGuard<'static, Vec<(Id, Weak<Shared>)>> {
    ignore_poison(RUNTIMES.lock())
}

pub(crate) fn add(shared: &Arc<Shared>) {
    lock().push((shared.id, Arc::downgrade(shared)));
}

pub(crate) fn remove(id: Id) {
    let mut runtimes = lock();
    if let Some(at) = runtimes.iter().rposition(|(other, _)| *other == id) {
        runtimes.swap_remove(at);
    }
    drop(runtimes);
    let mut listed = lock_listed();
    if let Some(at) = listed.iter().rposition(|other| *other == id) {
        listed.swap_remove(at);
    }
}

/// The runtime of that id, unless it and all handles to it are gone.
pub(crate) fn find(id: Id) -> Option<Handle> {
    let runtimes = lock();
    let (_, shared) = runtimes.iter().find(|(other, _)| *other == id)?;
    shared.upgrade().map(Handle::from_shared)
}

/// Runtimes of which dumps are printed when the system asks for them.
static LISTED: Mutex<Vec<Id>> = Mutex::new(Vec::new());

fn lock_listed() -> MutexGuard<'static, Vec<Id>> {
    ignore_poison(LISTED.lock())
}

pub(super) fn list_for_dumps(id: Id) {
    lock_listed().push(id);
}

/// Those that are still there.
pub(super) fn listed_for_dumps() -> Vec<Handle> {
    let listed = lock_listed().clone();
    let there: Vec<Handle> = listed.iter().filter_map(|id| find(*id)).collect();
    lock_listed().retain(|id| there.iter().any(|handle| handle.id() == *id));
    there
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::{list_for_dumps, lock_listed};
    use crate::runtime::Builder;

    #[test]
    fn a_runtime_that_is_gone_is_not_listed_for_dumps() {
        let runtime = Builder::new_current_thread().build().unwrap();
        let id = runtime.handle().id();
        list_for_dumps(id);
        assert!(lock_listed().contains(&id));
        drop(runtime);
        assert!(
            !lock_listed().contains(&id),
            "without a signal, nothing else would take it off the list"
        );
    }
}
