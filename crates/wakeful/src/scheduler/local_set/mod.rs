//! Local tasks: stations 3 and 4 of tasks that may not leave their thread.
//!
//! Tasks come in from `spawn_local` and from wakers. They leave to the task or `block_on` that
//! polls their set, on the set's thread.
//!
//! - [`LocalScheduler`] is the set on its own thread. It never leaves that thread, so a reference
//!   to it proves that the caller may touch the thread's data.
//! - [`LocalShared`] is the part that wakers and JoinHandles refer to, from any thread.
//! - [`context`] lists the sets that a thread has entered, so that `spawn_local` finds them.
//! - [`wakers`] has the wakers of the tasks that poll the set, and the protocol for waking them.
//!
//! The futures are not `Send`, so soundness rests on these rules:
//!
//! - LOCAL-1. `LocalShared::local` is touched only on the set's thread: through [`LocalScheduler`],
//!   or after a comparison of thread ids (`LocalShared::local_if_owner`).
//! - LOCAL-2. Only [`LocalScheduler`] polls, cancels or drops a future. Another thread can only
//!   push a `Runnable` to the injector, from which only [`LocalScheduler`] takes. If the injector
//!   is closed, the `Runnable` is discarded: its flag is cleared, and the closing thread drops the
//!   future.
//! - LOCAL-3. [`LocalShared`] outlives its cells. [`LocalScheduler`] owns it. After the
//!   `LocalScheduler` is dropped, `LocalShared::kept_alive` owns it until the last cell is free. A
//!   thread that pushes a `Runnable` gives away the reference that kept [`LocalShared`] alive, so
//!   the thread first acquires another reference.

pub(crate) mod context;
pub(crate) mod shared;
pub(crate) mod wakers;

use crate::queue::injector::Injector;
use crate::scheduler::config::NextTask;
use crate::scheduler::local_set::context::EnteredSet;
pub(crate) use crate::scheduler::local_set::shared::{Host, LocalShared};
use crate::scheduler::local_set::shared::{LocalState, PanicText, local_thread_id};
use crate::scheduler::local_set::wakers::{SetPollerId, SetWakers};
use crate::scheduler::task_hooks::TaskHooks;
use crate::sys::backtrace;
use crate::sys::sync::Mutex;
use crate::task::arena::Arena;
use crate::task::cell::{self, CellLayout, SpawnOptions};
use crate::task::id::IdSource;
use crate::task::runnable::{Runnable, TaskRef};
use crate::task::schedule::Schedule;
use crate::task::{self, JoinHandle};
use std::cell::{Cell, OnceCell, RefCell};
use std::collections::VecDeque;
use std::marker::PhantomData;
use std::pin::Pin;
use std::ptr::{self, NonNull};
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering::*};
use std::sync::{Arc, Weak};
use std::task::{Context, Poll, Waker};

/// The largest number of tasks that run in one poll of a set.
const TASKS_PER_POLL: u32 = 61;
/// The number of tasks after which one is taken from the injector, even if the queue has tasks.
const INJECTOR_INTERVAL: u32 = 31;

/// Whether a set has ready tasks after a poll.
#[must_use]
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum AfterPoll {
    /// Tasks are ready: poll the set again soon.
    Ready,
    /// No task is ready: call [`LocalScheduler::wait`].
    Idle,
}

/// A local set on its own thread.
pub(crate) struct LocalScheduler {
    shared: Arc<LocalShared>,
    /// Returns how many runtimes the thread has entered.
    runtimes: fn() -> usize,
    _not_send: PhantomData<Rc<()>>,
}

impl LocalScheduler {
    /// Creates a set for the calling thread.
    ///
    /// `report` reports an orphan if no runtime polls the set. `runtimes` returns the number of
    /// runtimes that the thread has entered.
    pub(crate) fn new(report: fn(&TaskRef), runtimes: fn() -> usize) -> Rc<Self> {
        let shared = Arc::new_cyclic(|weak_self| LocalShared {
            weak_self: weak_self.clone(),
            owner: local_thread_id(),
            thread: backtrace::current_tid(),
            local: LocalState {
                queue: RefCell::new(VecDeque::new()),
                allocator: Cell::new(None),
                is_polled: Cell::new(false),
                unfinished: Cell::new(0),
                polls: Cell::new(0),
                last_poller: Cell::new(SetPollerId::OF_THE_SET.0),
                host_address: Cell::new(ptr::null()),
                on_panic: Cell::new(None),
                fatal_error: OnceCell::new(),
            },
            arena: Arena::new(),
            injector: Injector::new(),
            wakers: SetWakers::new(),
            running: AtomicPtr::new(ptr::null_mut()),
            closing: AtomicBool::new(false),
            host: Mutex::new(None),
            report,
            kept_alive: Mutex::new(None),
        });
        let scheduler: &dyn Schedule = &*shared;
        // SAFETY: not shared yet; the arena is inside its scheduler.
        shared.local.allocator.set(Some(unsafe { shared.arena.open(NonNull::from(scheduler)) }));
        Rc::new(Self { shared, runtimes, _not_send: PhantomData })
    }

    pub(crate) fn runtimes_entered(&self) -> usize {
        (self.runtimes)()
    }

    #[inline]
    fn local(&self) -> &LocalState {
        // LOCAL-1: a `LocalScheduler` never leaves its thread.
        &self.shared.local
    }

    /// Spawns a task, with an id from `ids`. If the set is closed, drops the task at once.
    ///
    /// `hooks` are the current runtime's, if any.
    pub(crate) fn spawn<F>(
        &self,
        future: F,
        options: SpawnOptions,
        ids: &IdSource,
        hooks: Option<&TaskHooks>,
    ) -> JoinHandle<F::Output>
    where
        F: Future + 'static,
        F::Output: 'static,
    {
        let shared = &*self.shared;
        let local = self.local();
        local.unfinished.set(local.unfinished.get() + 1);
        let member = Member { future, _count: TaskCount(NonNull::from(shared)) };
        // SAFETY: the calling thread is the set's thread, which owns the allocator until `self` is
        // dropped, as the arena's rule for allocations requires. The cell is freshly allocated, and
        // LOCAL-2 keeps the future on this thread.
        let (task, join) = unsafe {
            let (cell, id) = {
                let class = CellLayout::<Member<F>>::CLASS;
                shared.arena.allocate(class, ids, options.origin)
            };
            cell::fill(cell, id, member, options)
        };
        let task = match hooks {
            Some(hooks) => hooks.attach_unqueued(task),
            None => task,
        };
        if shared.is_closing() {
            task.cancel_spawn();
        } else {
            shared.schedule(task);
        }
        join
    }

    /// Returns whether all tasks have ended.
    pub(crate) fn is_empty(&self) -> bool {
        self.unfinished() == 0
    }

    /// Returns how many tasks have not ended.
    pub(crate) fn unfinished(&self) -> usize {
        self.local().unfinished.get()
    }

    /// Sets whether the set shuts down when a task panics, and the function that formats its error.
    pub(crate) fn set_on_panic(&self, error: Option<PanicText>) {
        self.local().on_panic.set(error);
    }

    /// Returns whether the runtime at `address` is the host.
    pub(crate) fn is_hosted_by(&self, address: *const ()) -> bool {
        self.local().host_address.get() == address
    }

    /// Sets the host: the runtime that is about to poll the set.
    ///
    /// `address` identifies the runtime. The weak reference keeps that address from being reused.
    pub(crate) fn set_host(&self, address: *const (), host: Option<Weak<dyn Host>>) {
        self.local().host_address.set(address);
        if let Some(host) = host.as_ref().and_then(Weak::upgrade) {
            host.base().add_local(Arc::downgrade(&self.shared));
            host.ensure_watched();
        }
        let old = std::mem::replace(&mut *self.shared.host.lock(), host);
        drop(old);
    }

    /// Runs `poll` as a poll of the set, inside its context.
    ///
    /// A task that becomes ready on this thread during `poll` wakes no poller. So `poll` must then
    /// call [`run_tasks`](Self::run_tasks), or the caller must call [`leave`](Self::leave).
    pub(crate) fn in_poll<R>(self: &Rc<Self>, poll: impl FnOnce() -> R) -> R {
        struct Restore<'a>(&'a Cell<bool>, bool);
        impl Drop for Restore<'_> {
            fn drop(&mut self) {
                self.0.set(self.1);
            }
        }
        let is_polled = &self.local().is_polled;
        let _restore = Restore(is_polled, is_polled.replace(true));
        self.inside(poll)
    }

    /// Runs `f` with this set as the thread's innermost one and its arena as the thread's own.
    fn inside<R>(self: &Rc<Self>, f: impl FnOnce() -> R) -> R {
        struct Restore {
            own: *const Arena,
            outer: *const Arena,
        }
        impl Drop for Restore {
            fn drop(&mut self) {
                task::context::restore_arena(self.own, self.outer);
            }
        }
        let entered = EnteredSet::new(self.clone());
        let _listed = entered.list();
        // This thread owns the allocator until `self` is dropped, and `entered` holds `self`.
        let own = &raw const self.shared.arena;
        let _restore = Restore { own, outer: task::context::set_arena(own) };
        f()
    }

    /// Station 4: runs a bounded number of tasks. Called inside [`in_poll`](Self::in_poll).
    ///
    /// # Panics
    ///
    /// If a task panicked and the set is configured to shut down on panics.
    pub(crate) fn run_tasks(self: &Rc<Self>, order: NextTask) -> AfterPoll {
        self.panic_if_fatal();
        for _ in 0..TASKS_PER_POLL {
            let Some(task) = self.next_task(order) else { return AfterPoll::Idle };
            let outer = self.shared.running.load(Relaxed);
            self.shared.running.store(task.cell(), Relaxed);
            task.run();
            self.shared.running.store(outer, Relaxed);
            self.panic_if_fatal();
        }
        if self.has_work() { AfterPoll::Ready } else { AfterPoll::Idle }
    }

    fn next_task(&self, order: NextTask) -> Option<Runnable> {
        let (local, injector) = (self.local(), &self.shared.injector);
        let polls = local.polls.get().wrapping_add(1);
        local.polls.set(polls);
        if polls.is_multiple_of(INJECTOR_INTERVAL)
            && let Some(task) = injector.pop()
        {
            return Some(task);
        }
        let mut queue = local.queue.borrow_mut();
        if queue.is_empty() {
            let first = injector.take(|ready| ready, |task| queue.push_back(task))?;
            queue.push_front(first);
        }
        if order == NextTask::Shuffled {
            let chosen = task::context::random_below(queue.len() as u32) as usize;
            queue.swap(0, chosen);
        }
        queue.pop_front()
    }

    fn panic_if_fatal(self: &Rc<Self>) {
        if let Some(error) = self.local().fatal_error.get() {
            self.close();
            panic!("{error}");
        }
    }

    /// Returns an id for a future that will poll the set.
    pub(crate) fn new_poller(&self) -> SetPollerId {
        let last = &self.local().last_poller;
        last.set(last.get() + 1);
        SetPollerId(last.get())
    }

    /// Registers the waker of a poller, to be woken when a task is ready.
    pub(crate) fn wait(&self, poller: SetPollerId, waker: &Waker) {
        self.shared.wakers.add(poller, waker);
        // The protocol in `wakers` requires the check of the injector. The queue is checked because
        // cloning a waker is foreign code, which may wake tasks.
        if self.has_work() {
            self.shared.wakers.wake();
        }
    }

    /// Removes a poller that is ready, and wakes the other pollers if tasks are ready.
    ///
    /// Tasks that became ready in this poller's polls have woken no other poller.
    pub(crate) fn leave(&self, poller: SetPollerId) {
        self.shared.wakers.remove(poller);
        self.wake_if_ready();
    }

    /// Removes a poller whose future is dropped before it is ready, but keeps its waker.
    ///
    /// The waker is woken with the others when tasks are ready.
    pub(crate) fn leave_waker(&self, poller: SetPollerId) {
        self.shared.wakers.leave_waker(poller);
        self.wake_if_ready();
    }

    fn wake_if_ready(&self) {
        if self.has_work() {
            self.shared.wakers.wake();
        }
    }

    fn has_work(&self) -> bool {
        !self.local().queue.borrow().is_empty() || !self.shared.injector.is_empty()
    }

    /// Drops every task; a task that is being polled is dropped when its poll ends.
    pub(crate) fn close(self: &Rc<Self>) {
        let shared = &*self.shared;
        // After this store, wake-ups and spawns on this thread are refused.
        shared.closing.store(true, Release);
        self.inside(|| {
            loop {
                let task = self.local().queue.borrow_mut().pop_front();
                let Some(task) = task else { break };
                task.cancel();
            }
            // After this call, wake-ups on other threads are refused.
            for task in shared.injector.close() {
                task.cancel();
            }
            shared.arena.cancel_all();
        });
        shared.wakers.clear();
    }
}

impl Drop for LocalScheduler {
    fn drop(&mut self) {
        debug_assert!(self.shared.is_closing() && self.is_empty(), "dropped with tasks in it");
        let Some(allocator) = self.local().allocator.take() else { return };
        // Set before the arena is closed, because the last cell may be freed right after the close.
        *self.shared.kept_alive.lock() = Some(self.shared.clone());
        if allocator.close().is_some() {
            drop(self.shared.kept_alive.lock().take());
        }
    }
}

pin_project_lite::pin_project! {
    /// The future of a local task, counted as unfinished until it is dropped.
    struct Member<F> {
        #[pin]
        future: F,
        // Declared after the future, whose destructor may ask whether the set is empty.
        _count: TaskCount,
    }
}

impl<F: Future> Future for Member<F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        self.project().future.poll(cx)
    }
}

/// Counts one unfinished task.
struct TaskCount(NonNull<LocalShared>);

impl Drop for TaskCount {
    fn drop(&mut self) {
        // SAFETY: the count is in a cell of this set, which outlives its cells (LOCAL-3). It is
        // dropped on the set's thread (LOCAL-2), so `local` may be touched (LOCAL-1).
        let unfinished = unsafe { &self.0.as_ref().local.unfinished };
        unfinished.set(unfinished.get() - 1);
    }
}
