//! All runtimes of the process, by id.
//!
//! A future that stores the id of its runtime finds the runtime here. So the future needs no
//! counted reference, which would cost an atomic operation.
//!
//! A deadlock scan of one runtime, or a snapshot of all, also reads other runtimes, its [`Peer`]s:
//!
//! - PEER-1. A runtime that shuts down waits until no scan on another thread refers to it as a peer
//!   ([`close`]). After that, no new scan refers to it.
//! - PEER-2. A scan runs no user code while it has peers, except to wake one waiter in a process in
//!   which no other thread can run. The scan takes short locks of its peers. One of these locks is
//!   held while a thread-name function of the program runs. If that function blocks, it delays the
//!   scan, and thereby a shutdown.

use super::{Handle, Id, RuntimeInner};
use crate::inspect::runtimes::{self, InspectedRuntime};
use crate::sys::real_time;
use crate::sys::sync::ignore_poison;
use std::cell::Cell;
use std::ops::Deref;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Instant;

static RUNTIMES: Mutex<Vec<Entry>> = Mutex::new(Vec::new());

/// Signals that a scan has dropped a peer.
static PEER_DROPPED: Condvar = Condvar::new();

thread_local! {
    /// The number of peers that the current thread holds.
    static OWN_PEERS: Cell<usize> = const { Cell::new(0) };
}

struct Entry {
    id: Id,
    shared: Weak<RuntimeInner>,
    /// The number of scans that refer to this runtime as a peer.
    scans: usize,
    /// Whether the runtime is shutting down, and accepts no new scan as a peer.
    is_closed: bool,
}

fn lock() -> MutexGuard<'static, Vec<Entry>> {
    ignore_poison(RUNTIMES.lock())
}

pub(crate) fn add(shared: &Arc<RuntimeInner>) {
    runtimes::set_list(list);
    let (id, shared) = (shared.id, Arc::downgrade(shared));
    lock().push(Entry { id, shared, scans: 0, is_closed: false });
}

/// Returns every runtime that has an owner or a handle, and is not shutting down.
///
/// The runtimes count as peers, so a shutdown also waits for snapshots and for the live page
/// (PEER-1). The caller must drop them on the thread that got them.
fn list() -> Vec<Arc<dyn InspectedRuntime>> {
    let inspected = |peer| Arc::new(peer) as Arc<dyn InspectedRuntime>;
    peers(|_| true).into_iter().map(inspected).collect()
}

pub(crate) fn remove(id: Id) {
    let mut runtimes = lock();
    if let Some(at) = runtimes.iter().rposition(|other| other.id == id) {
        runtimes.remove(at);
    }
}

/// A runtime that a scan of another runtime refers to (PEER-1).
pub(crate) struct Peer {
    id: Id,
    /// `None` while the reference is being dropped.
    shared: Option<Arc<RuntimeInner>>,
}

impl Peer {
    pub(super) fn handle(&self) -> Handle {
        Handle::from_shared(self.shared.clone().expect("there until it is dropped"))
    }
}

impl Deref for Peer {
    type Target = RuntimeInner;

    fn deref(&self) -> &RuntimeInner {
        self.shared.as_ref().expect("there until it is dropped")
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        /// Decrements the peer count, even if a destructor of the program panics.
        struct CountOut(Id);
        impl Drop for CountOut {
            fn drop(&mut self) {
                OWN_PEERS.set(OWN_PEERS.get() - 1);
                if let Some(entry) = lock().iter_mut().find(|entry| entry.id == self.0) {
                    entry.scans -= 1;
                    PEER_DROPPED.notify_all();
                }
            }
        }
        let _count_out = CountOut(self.id);
        // Dropped first and without the lock, because this may be the last reference.
        self.shared = None;
    }
}

/// Returns all runtimes except the one with this id and those that are shutting down.
pub(crate) fn peers_of(id: Id) -> Vec<Peer> {
    peers(|other| other != id)
}

fn peers(is_wanted: impl Fn(Id) -> bool) -> Vec<Peer> {
    let peer = |entry: &mut Entry| {
        let shared = entry.shared.upgrade();
        shared.as_ref()?;
        entry.scans += 1;
        OWN_PEERS.set(OWN_PEERS.get() + 1);
        Some(Peer { id: entry.id, shared })
    };
    let mut runtimes = lock();
    runtimes.iter_mut().filter(|it| is_wanted(it.id) && !it.is_closed).filter_map(peer).collect()
}

/// Closes a runtime for scans of other runtimes, and waits for current ones until `deadline`
/// (PEER-1).
pub(super) fn close(id: Id, deadline: Option<Instant>) {
    let mut runtimes = lock();
    loop {
        let Some(entry) = runtimes.iter_mut().find(|entry| entry.id == id) else { return };
        entry.is_closed = true;
        // A thread that is in a scan itself would deadlock here.
        if entry.scans == 0 || OWN_PEERS.get() > 0 {
            return;
        }
        runtimes = match deadline {
            None => ignore_poison(PEER_DROPPED.wait(runtimes)),
            Some(deadline) => {
                let left = deadline.saturating_duration_since(real_time::now());
                if left.is_zero() {
                    return;
                }
                let waited = PEER_DROPPED.wait_timeout(runtimes, left);
                waited.unwrap_or_else(PoisonError::into_inner).0
            }
        };
    }
}

/// Returns the runtime with this id, unless it and all handles to it are dropped.
pub(crate) fn find(id: Id) -> Option<Handle> {
    let runtimes = lock();
    let entry = runtimes.iter().find(|other| other.id == id)?;
    entry.shared.upgrade().map(Handle::from_shared)
}

/// Returns all runtimes of the process that are not dropped, oldest first.
pub(super) fn all() -> Vec<Handle> {
    // Collected first, because dropping the last reference under the lock would lock it again.
    let shared: Vec<_> = lock().iter().filter_map(|entry| entry.shared.upgrade()).collect();
    shared.into_iter().map(Handle::from_shared).collect()
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::runtime::Builder;
    use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
    use std::thread;

    #[test]
    fn a_shutdown_waits_for_the_scan_of_another_runtime() {
        let build = || Builder::new_current_thread().build().unwrap();
        let (one, other) = (build(), build());
        let id = other.handle().id();
        let peer = peers_of(one.handle().id()).into_iter().find(|peer| peer.id == id).unwrap();
        let is_scanned = AtomicBool::new(true);
        thread::scope(|scope| {
            let shutdown = scope.spawn(|| {
                drop(other);
                assert!(!is_scanned.load(SeqCst), "its shutdown ended before the scan");
            });
            while !peer.is_closing() {
                thread::yield_now();
            }
            // A shutdown that does not wait would end meanwhile.
            for _ in 0..1000 {
                thread::yield_now();
            }
            is_scanned.store(false, SeqCst);
            drop(peer);
            shutdown.join().unwrap();
        });
        assert!(peers_of(one.handle().id()).iter().all(|peer| peer.id != id));
    }

    #[test]
    fn a_scan_that_ends_a_peer_does_not_wait_for_itself() {
        let build = || Builder::new_current_thread().build().unwrap();
        let (one, other) = (build(), build());
        let peers = peers_of(one.handle().id());
        drop(other);
        drop(peers);
    }
}
