//! The part of a local set that other threads use: the target of wakers and JoinHandles.

use crate::queue::injector::Injector;
use crate::scheduler::base::SchedulerBase;
use crate::scheduler::local_set::wakers::SetWakers;
use crate::sys::sync::Mutex;
use crate::task::arena::{Allocator, Arena};
use crate::task::header::Header;
use crate::task::runnable::{Runnable, TaskRef};
use crate::task::schedule::Schedule;
use std::any::Any;
use std::cell::{Cell, OnceCell, RefCell};
use std::collections::VecDeque;
use std::panic::Location;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, Ordering::*};
use std::sync::{Arc, Weak};

/// Returns an id of the calling thread that is never reused, even after the thread has exited.
pub(super) fn local_thread_id() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    thread_local! {
        static ID: Cell<u64> = const { Cell::new(0) };
    }
    ID.with(|id| {
        if id.get() == 0 {
            id.set(NEXT.fetch_add(1, Relaxed));
        }
        id.get()
    })
}

/// The runtime in which a set is polled.
pub(crate) trait Host: Send + Sync {
    fn base(&self) -> &SchedulerBase;
    /// Handles an orphan among the local tasks.
    fn orphaned(&self, task: &TaskRef);
    /// Handles the panic of a local task whose JoinHandle was dropped.
    fn unobserved_panic(&self, task: &Header, payload: &(dyn Any + Send));
    /// Makes the watchdog visit the runtime, because a poll may keep local tasks waiting.
    fn ensure_watched(&self);
}

/// The part of a set that wakers, JoinHandles and cells refer to, from any thread. See the rules in
/// [`local_set`](super).
pub(crate) struct LocalShared {
    /// A weak reference to this, for a thread that must keep it alive during a push (LOCAL-3).
    pub(super) weak_self: Weak<LocalShared>,
    /// The number of the set's thread.
    pub(super) owner: u64,
    /// The kernel's id of the set's thread.
    pub(super) thread: i32,
    pub(super) local: LocalState,
    pub(super) arena: Arena,
    /// Tasks that other threads have woken.
    pub(super) injector: Injector,
    pub(super) wakers: SetWakers,
    /// The task that is being polled, or null. Read by diagnostics.
    pub(super) running: AtomicPtr<Header>,
    /// Whether the tasks are being dropped, or were dropped.
    pub(super) closing: AtomicBool,
    /// The runtime in which the set was last polled.
    pub(super) host: Mutex<Option<Weak<dyn Host>>>,
    /// Reports an orphan if there is no host.
    pub(super) report: fn(&TaskRef),
    /// A strong reference to this, while cells outlive [`LocalScheduler`](super::LocalScheduler)
    /// (LOCAL-3).
    pub(super) kept_alive: Mutex<Option<Arc<LocalShared>>>,
}

/// Formats the error of a set from the task that panicked and the payload of the panic.
pub(crate) type PanicText = fn(&Header, &(dyn Any + Send)) -> String;

/// The part of a set that only the set's thread touches (LOCAL-1).
pub(super) struct LocalState {
    pub(super) queue: RefCell<VecDeque<Runnable>>,
    /// Taken out when [`LocalScheduler`](super::LocalScheduler) is dropped.
    pub(super) allocator: Cell<Option<Allocator>>,
    /// Whether the set is being polled. The queue is checked before that poll ends.
    pub(super) is_polled: Cell<bool>,
    /// The number of tasks whose future has not been dropped yet.
    pub(super) unfinished: Cell<usize>,
    /// The number of task polls so far, wrapping.
    pub(super) polls: Cell<u32>,
    /// The last id assigned to a poller.
    pub(super) last_poller: Cell<u64>,
    /// The address of the host; only compared, never dereferenced.
    pub(super) host_address: Cell<*const ()>,
    /// Formats the error if the set shuts down when a task panics; `None` if it does not shut down.
    pub(super) on_panic: Cell<Option<PanicText>>,
    /// The error with which the set must be closed, because a task panicked.
    pub(super) fatal_error: OnceCell<String>,
}

// SAFETY: LOCAL-1. The state may be dropped on another thread, but then the queue is empty
// (LOCAL-2), and the other fields may be dropped on any thread.
unsafe impl Send for LocalState {}
// SAFETY: LOCAL-1.
unsafe impl Sync for LocalState {}

impl LocalShared {
    /// Returns the thread-local part, if the calling thread is the set's thread (LOCAL-1).
    #[inline]
    fn local_if_owner(&self) -> Option<&LocalState> {
        (self.owner == local_thread_id()).then_some(&self.local)
    }

    /// Returns the kernel's id of the set's thread.
    pub(crate) fn thread(&self) -> i32 {
        self.thread
    }

    /// Returns the cell of the task that is being polled.
    pub(crate) fn running(&self) -> Option<NonNull<Header>> {
        NonNull::new(self.running.load(Relaxed))
    }

    /// Returns the task that is being polled, if the thread with this id is polling it.
    pub(crate) fn running_on(&self, thread: i32) -> Option<TaskRef> {
        let is_thread = self.thread == thread;
        self.running().filter(|_| is_thread).and_then(TaskRef::try_from_cell)
    }

    /// Calls `f` with every task that has a cell, from any thread.
    pub(crate) fn for_each_task(&self, f: impl FnMut(TaskRef)) {
        self.arena.for_each(f);
    }

    /// Calls `f` with each site where tasks of this set were spawned, and with their number.
    pub(crate) fn spawns_by_site(&self, f: impl FnMut(&'static Location<'static>, u64)) {
        self.arena.spawns_by_site(f);
    }

    pub(super) fn is_closing(&self) -> bool {
        self.closing.load(Acquire)
    }
}

impl Schedule for LocalShared {
    fn schedule(&self, task: Runnable) {
        if let Some(local) = self.local_if_owner() {
            if self.is_closing() {
                return task.discard();
            }
            local.queue.borrow_mut().push_back(task);
            if !local.is_polled.get() {
                self.wakers.wake();
            }
            return;
        }
        // LOCAL-3: right after the push, the task and the set may be dropped.
        let Some(this) = self.weak_self.upgrade() else { return task.discard() };
        match this.injector.push(task) {
            Ok(()) => this.wakers.wake(),
            Err(task) => task.discard(),
        }
    }

    fn requeue(&self, task: Runnable) {
        // The poll that has just ended was one of `run_tasks`, so LOCAL-1 and LOCAL-2 hold.
        debug_assert_eq!(self.owner, local_thread_id());
        if self.is_closing() {
            return task.cancel();
        }
        self.local.queue.borrow_mut().push_back(task);
    }

    fn orphaned(&self, task: &TaskRef) {
        if self.is_closing() {
            // The tasks are being dropped, and a dropped task may have held the last waker of
            // another.
            return;
        }
        let host = self.host.lock().as_ref().and_then(Weak::upgrade);
        match host {
            Some(host) => host.orphaned(task),
            None => (self.report)(task),
        }
    }

    fn panicked(&self, task: &Header, payload: &(dyn Any + Send)) {
        // On another thread, only the destructor of an output can panic, and the owner of the
        // JoinHandle handles that panic.
        if let Some(local) = self.local_if_owner()
            && let Some(error) = local.on_panic.get()
        {
            local.fatal_error.get_or_init(|| error(task, payload));
        }
    }

    fn unobserved_panic(&self, task: &Header, payload: &(dyn Any + Send)) {
        let host = self.host.lock().as_ref().and_then(Weak::upgrade);
        if let Some(host) = host.filter(|_| !self.is_closing()) {
            host.unobserved_panic(task, payload);
        }
    }

    /// The hooks of a runtime do not see the tasks of local sets, which may outlive it.
    fn terminated(&self, _task: &Header) {}

    // SAFETY: has no requirement on its caller; `kept_alive` is empty unless cells outlive
    // `LocalScheduler`.
    unsafe fn last_cell_freed(&self) -> Option<Arc<dyn Any + Send + Sync>> {
        let reference = self.kept_alive.lock().take()?;
        Some(reference)
    }
}
