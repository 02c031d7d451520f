//! The home of local tasks, stations 3 and 4 of those that may not leave their
//! thread: they come in from `spawn_local` and from wakers, and leave to whoever
//! polls their set, on that set's thread.
//!
//! - [`LocalHome`] is what wakers and JoinHandles see, from any thread.
//! - [`LocalScheduler`] is the set itself, as its own thread sees it. It never leaves that
//!   thread, so having one is the right to touch what belongs to it.
//! - `inside` says which sets a thread is inside of, which is how `spawn_local`
//!   finds them.
//!
//! Rules. The futures are not `Send`, so these carry the whole weight:
//!
//! - L1. `bound` is touched only on the set's thread: through [`LocalScheduler`], or after
//!   [`LocalHome::bound_here`] has compared thread numbers.
//! - L2. A future is polled, cancelled or dropped only by [`LocalScheduler`]. All that
//!   another thread can do with a queue entry is to push it to the injector, from
//!   which only [`LocalScheduler`] takes; if the injector is closed, the entry is refused:
//!   the flag goes, the future stays for the one who closes.
//! - L3. The home outlives its cells: [`LocalScheduler`] holds it, and when that is gone,
//!   `keep` does until the last cell is free. A thread that gives a queue entry
//!   away gives away what kept the home for it; so it holds the home by a count
//!   of its own before.
//!
//! The protocol for waking whoever polls the set is in `pollers`.

pub(crate) mod context;
pub(crate) mod wakers;

use crate::queue::injector::Injector;
use crate::scheduler::base::SchedulerBase;
use crate::scheduler::config::{NextTask, UnhandledPanic};
use crate::scheduler::local_set::context::EnteredSet;
use crate::scheduler::local_set::wakers::{SetWaker, SetWakers};
use crate::sys::backtrace;
use crate::sys::sync::Mutex;
use crate::task::arena::{Allocator, Arena, Schedule};
use crate::task::cell::{self, CellLayout, SpawnOptions};
use crate::task::header::Header;
use crate::task::id::IdSource;
use crate::task::runnable::{Runnable, TaskRef};
use crate::task::{self, JoinHandle};
use std::any::Any;
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::marker::PhantomData;
use std::pin::Pin;
use std::ptr::{self, NonNull};
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, Ordering::*};
use std::sync::{Arc, Weak};
use std::task::{Context, Poll, Waker};

/// How many tasks run in one poll of a set before whoever polls it gets back
/// control.
const TASKS_PER_POLL: u32 = 61;
/// After how many tasks the injector is looked at although the queue has work.
const INJECTOR_INTERVAL: u32 = 31;

/// A number for the calling thread that no other thread ever has, not even after
/// its end.
fn thread_number() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    thread_local! {
        static NUMBER: Cell<u64> = const { Cell::new(0) };
    }
    NUMBER.with(|number| {
        if number.get() == 0 {
            number.set(NEXT.fetch_add(1, Relaxed));
        }
        number.get()
    })
}

/// The runtime that a set is polled in.
pub(crate) trait Host: Send + Sync {
    fn estate(&self) -> &SchedulerBase;
    /// A local task is an orphan.
    fn orphaned(&self, task: &TaskRef);
    /// It has local tasks, which a poll could keep waiting.
    fn be_watched(&self);
}

/// What wakers, JoinHandles and cells see of a set; see the rules above.
pub(crate) struct LocalHome {
    /// Itself, for whoever has to hold it while at work here (L3).
    this: Weak<LocalHome>,
    /// The thread that made the set.
    owner: u64,
    /// The system's number of it.
    thread: i32,
    bound: Bound,
    heap: Arena,
    /// Entries from other threads.
    injector: Injector,
    pollers: SetWakers,
    /// The task that is being polled, or null; for those who ask.
    running: AtomicPtr<Header>,
    /// The tasks are being dropped, or are gone.
    closing: AtomicBool,
    /// The runtime in which the set was last polled.
    host: Mutex<Option<Weak<dyn Host>>>,
    /// Reports an orphan when there is no host.
    report: fn(&TaskRef),
    /// The home itself, while cells outlive [`LocalScheduler`] (L3).
    keep: Mutex<Option<Arc<LocalHome>>>,
}

/// What belongs to the set's thread (L1).
struct Bound {
    queue: RefCell<VecDeque<Runnable>>,
    /// Taken out when [`LocalScheduler`] is dropped.
    allocator: Cell<Option<Allocator>>,
    /// The set is being polled: the queue will be looked at before that ends.
    polled: Cell<bool>,
    /// Tasks whose future is still there.
    unfinished: Cell<usize>,
    /// Polls of tasks so far, wrapping.
    tick: Cell<u32>,
    /// The pollers numbered so far.
    pollers: Cell<u64>,
    /// Which host is in `host`; only compared, never followed.
    host_address: Cell<*const ()>,
    on_panic: Cell<UnhandledPanic>,
    /// A task panicked and the set is to go down for it.
    fatal: Cell<bool>,
}

// SAFETY: L1. It may be dropped on another thread: the queue is empty by then
// (L2), and the rest has no destructor.
unsafe impl Send for Bound {}
// SAFETY: L1.
unsafe impl Sync for Bound {}

impl LocalHome {
    /// L1: what belongs to the set's thread, if this is it.
    #[inline]
    fn bound_here(&self) -> Option<&Bound> {
        (self.owner == thread_number()).then_some(&self.bound)
    }

    /// The cell of the task that is being polled.
    pub(crate) fn running(&self) -> Option<NonNull<Header>> {
        NonNull::new(self.running.load(Relaxed))
    }

    /// The task that is being polled, if that thread does it.
    pub(crate) fn running_on(&self, thread: i32) -> Option<TaskRef> {
        let is_there = self.thread == thread;
        self.running().filter(|_| is_there).and_then(TaskRef::try_from_cell)
    }

    /// Calls `f` with every task that has a cell, from any thread.
    pub(crate) fn for_each_task(&self, f: impl FnMut(TaskRef)) {
        self.heap.for_each(f);
    }

    fn is_closing(&self) -> bool {
        self.closing.load(Acquire)
    }
}

impl Schedule for LocalHome {
    fn schedule(&self, task: Runnable) {
        if let Some(bound) = self.bound_here() {
            if self.is_closing() {
                return task.discard();
            }
            bound.queue.borrow_mut().push_back(task);
            if !bound.polled.get() {
                self.pollers.wake();
            }
            return;
        }
        // L3: the push may be followed at once by the end of task and set.
        let Some(this) = self.this.upgrade() else { return task.discard() };
        match this.injector.push(task) {
            Ok(()) => this.pollers.wake(),
            Err(task) => task.discard(),
        }
    }

    fn requeue(&self, task: Runnable) {
        // The poll that just ended was one of `run_tasks`, so L1 and L2 hold.
        debug_assert_eq!(self.owner, thread_number());
        if self.is_closing() {
            return task.cancel();
        }
        self.bound.queue.borrow_mut().push_back(task);
    }

    fn orphaned(&self, task: &TaskRef) {
        if self.is_closing() {
            // Tasks go down in some order; the last to refer to another may
            // well leave it without a waker.
            return;
        }
        let host = self.host.lock().as_ref().and_then(Weak::upgrade);
        match host {
            Some(host) => host.orphaned(task),
            None => (self.report)(task),
        }
    }

    fn panicked(&self, _task: &Header, _payload: &(dyn Any + Send)) {
        // Elsewhere it can only be an output that panicked in its drop, which is
        // the business of whoever had the JoinHandle.
        if let Some(bound) = self.bound_here()
            && bound.on_panic.get() == UnhandledPanic::ShutdownRuntime
        {
            bound.fatal.set(true);
        }
    }

    fn unobserved_panic(&self, task: &Header, payload: &(dyn Any + Send)) {
        let host = self.host.lock().as_ref().and_then(Weak::upgrade);
        if let Some(host) = host.filter(|_| !self.is_closing()) {
            host.estate().unobserved_panic(task, payload);
        }
    }

    // SAFETY: asks nothing of its caller; without cells that outlive `LocalScheduler`,
    // there is nothing in `keep`.
    unsafe fn last_cell_freed(&self) -> Option<Arc<dyn Any + Send + Sync>> {
        let keep = self.keep.lock().take()?;
        Some(keep)
    }
}

/// What is left after a turn.
#[must_use]
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Left {
    /// Tasks are ready: poll the set again soon.
    Work,
    /// Nothing is ready: see [`LocalScheduler::wait`].
    Nothing,
}

/// A set of local tasks, on its own thread.
pub(crate) struct LocalScheduler {
    home: Arc<LocalHome>,
    /// How many runtimes the thread is in.
    runtimes: fn() -> usize,
    _not_send: PhantomData<Rc<()>>,
}

impl LocalScheduler {
    /// A set for the calling thread. `report` is told of orphans when no runtime
    /// polls the set; `runtimes` knows how many runtimes the thread has entered.
    pub(crate) fn new(report: fn(&TaskRef), runtimes: fn() -> usize) -> Rc<Self> {
        let home = Arc::new_cyclic(|this| LocalHome {
            this: this.clone(),
            owner: thread_number(),
            thread: backtrace::current_tid(),
            bound: Bound {
                queue: RefCell::new(VecDeque::new()),
                allocator: Cell::new(None),
                polled: Cell::new(false),
                unfinished: Cell::new(0),
                tick: Cell::new(0),
                pollers: Cell::new(SetWaker::OF_THE_SET.0),
                host_address: Cell::new(ptr::null()),
                on_panic: Cell::new(UnhandledPanic::Ignore),
                fatal: Cell::new(false),
            },
            heap: Arena::new(),
            injector: Injector::new(),
            pollers: SetWakers::new(),
            running: AtomicPtr::new(ptr::null_mut()),
            closing: AtomicBool::new(false),
            host: Mutex::new(None),
            report,
            keep: Mutex::new(None),
        });
        let as_home: &dyn Schedule = &*home;
        // SAFETY: not shared yet; the heap lies inside of its home.
        home.bound.allocator.set(Some(unsafe { home.heap.open(NonNull::from(as_home)) }));
        Rc::new(Self { home, runtimes, _not_send: PhantomData })
    }

    pub(crate) fn runtimes_entered(&self) -> usize {
        (self.runtimes)()
    }

    #[inline]
    fn bound(&self) -> &Bound {
        // L1: a Local never leaves its thread.
        &self.home.bound
    }

    /// Spawns a task, with an id from `ids`. On a closed set it is dropped at
    /// once.
    pub(crate) fn spawn<F>(
        &self,
        future: F,
        birth: SpawnOptions,
        ids: &IdSource,
    ) -> JoinHandle<F::Output>
    where
        F: Future + 'static,
        F::Output: 'static,
    {
        let home = &*self.home;
        let bound = self.bound();
        bound.unfinished.set(bound.unfinished.get() + 1);
        let member = Member { future, _count: Count(NonNull::from(home)) };
        // SAFETY: ARENA-1: this is the set's thread, whose heap it is until
        // `self` is dropped. The cell is fresh, and L2 keeps the future here.
        let (task, join) = unsafe {
            let (cell, id) = home.heap.allocate(CellLayout::<Member<F>>::CLASS, ids);
            cell::fill(cell, id, member, birth)
        };
        if home.is_closing() {
            task.cancel_spawn();
        } else {
            home.schedule(task);
        }
        join
    }

    /// Whether all tasks are done.
    pub(crate) fn is_empty(&self) -> bool {
        self.unfinished() == 0
    }

    /// How many tasks are not done yet.
    pub(crate) fn unfinished(&self) -> usize {
        self.bound().unfinished.get()
    }

    pub(crate) fn set_on_panic(&self, behavior: UnhandledPanic) {
        self.bound().on_panic.set(behavior);
    }

    /// Whether the host at `address` is the one to be set.
    pub(crate) fn is_hosted_by(&self, address: *const ()) -> bool {
        self.bound().host_address.get() == address
    }

    /// Names the runtime that polls the set from now on; `address` tells it from
    /// others (the weak reference keeps the address from being used again).
    pub(crate) fn set_host(&self, address: *const (), host: Option<Weak<dyn Host>>) {
        self.bound().host_address.set(address);
        if let Some(host) = host.as_ref().and_then(Weak::upgrade) {
            host.estate().add_local(Arc::downgrade(&self.home));
            host.be_watched();
        }
        let old = std::mem::replace(&mut *self.home.host.lock(), host);
        drop(old);
    }

    /// Runs `poll` as a poll of the set: inside of its context, and with nobody
    /// woken for what becomes ready meanwhile on this thread, since `poll` goes on
    /// to [`run_tasks`](Self::run_tasks), or the caller to [`leave`](Self::leave).
    pub(crate) fn in_poll<R>(self: &Rc<Self>, poll: impl FnOnce() -> R) -> R {
        struct Restore<'a>(&'a Cell<bool>, bool);
        impl Drop for Restore<'_> {
            fn drop(&mut self) {
                self.0.set(self.1);
            }
        }
        let polled = &self.bound().polled;
        let _restore = Restore(polled, polled.replace(true));
        self.inside(poll)
    }

    /// Runs `f` with this set as the thread's innermost one and its heap as the
    /// thread's own.
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
        let frame = EnteredSet::new(self.clone());
        let _listed = frame.list();
        // By ARENA-1: the allocator is this thread's until `self` is dropped, and
        // the frame holds it.
        let own = &raw const self.home.heap;
        let _restore = Restore { own, outer: task::context::set_arena(own) };
        f()
    }

    /// Station 4: runs a bounded number of tasks, inside of [`in_poll`](Self::in_poll).
    ///
    /// # Panics
    ///
    /// If a task panicked and the set is to go down for it.
    pub(crate) fn run_tasks(self: &Rc<Self>, order: NextTask) -> Left {
        self.check_fatal();
        for _ in 0..TASKS_PER_POLL {
            let Some(task) = self.next_task(order) else { return Left::Nothing };
            let outer = self.home.running.load(Relaxed);
            self.home.running.store(task.cell(), Relaxed);
            task.run();
            self.home.running.store(outer, Relaxed);
            self.check_fatal();
        }
        if self.has_work() { Left::Work } else { Left::Nothing }
    }

    fn next_task(&self, order: NextTask) -> Option<Runnable> {
        let (bound, injector) = (self.bound(), &self.home.injector);
        let tick = bound.tick.get().wrapping_add(1);
        bound.tick.set(tick);
        if tick.is_multiple_of(INJECTOR_INTERVAL)
            && let Some(task) = injector.pop()
        {
            return Some(task);
        }
        let mut queue = bound.queue.borrow_mut();
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

    fn check_fatal(self: &Rc<Self>) {
        if self.bound().fatal.get() {
            self.close();
            panic!(
                "a spawned task panicked and the LocalSet is configured to shutdown on unhandled \
                 panic"
            );
        }
    }

    /// A number for one who will poll the set.
    pub(crate) fn new_poller(&self) -> SetWaker {
        let last = &self.bound().pollers;
        last.set(last.get() + 1);
        SetWaker(last.get())
    }

    /// There is nothing to run: `waker` is woken when there is again.
    pub(crate) fn wait(&self, poller: SetWaker, waker: &Waker) {
        self.home.pollers.add(poller, waker);
        // The injector: see `pollers`. The queue: cloning a foreign waker is
        // foreign code, which may wake tasks.
        if self.has_work() {
            self.home.pollers.wake();
        }
    }

    /// One who polled the set is done; if it leaves work behind, the others are
    /// told, since no thread was woken for what became ready in its polls.
    pub(crate) fn leave(&self, poller: SetWaker) {
        self.home.pollers.remove(poller);
        self.pass_on_work();
    }

    /// The future of a poller is dropped before it was ready: its waker stays, and
    /// is woken with the others if there is work left.
    pub(crate) fn leave_waker(&self, poller: SetWaker) {
        self.home.pollers.leave_waker(poller);
        self.pass_on_work();
    }

    fn pass_on_work(&self) {
        if self.has_work() {
            self.home.pollers.wake();
        }
    }

    fn has_work(&self) -> bool {
        !self.bound().queue.borrow().is_empty() || !self.home.injector.is_empty()
    }

    /// Drops every task. Those that are inside a poll right now go when it ends.
    pub(crate) fn close(self: &Rc<Self>) {
        let home = &*self.home;
        // From here on wakes on this thread are refused, and spawns too.
        home.closing.store(true, Release);
        self.inside(|| {
            loop {
                let task = self.bound().queue.borrow_mut().pop_front();
                let Some(task) = task else { break };
                task.cancel();
            }
            // From here on wakes on other threads are refused.
            for task in home.injector.close() {
                task.cancel();
            }
            home.heap.cancel_all();
        });
        home.pollers.clear();
    }
}

impl Drop for LocalScheduler {
    fn drop(&mut self) {
        debug_assert!(self.home.is_closing() && self.is_empty(), "dropped with tasks in it");
        let Some(allocator) = self.bound().allocator.take() else { return };
        // Before the heap is closed: the last cell may go right after.
        *self.home.keep.lock() = Some(self.home.clone());
        if allocator.close().is_some() {
            drop(self.home.keep.lock().take());
        }
    }
}

pin_project_lite::pin_project! {
    /// The future of a local task, counted while it is there.
    struct Member<F> {
        #[pin]
        future: F,
        // After the future: dropping that may ask whether the set is empty.
        _count: Count,
    }
}

impl<F: Future> Future for Member<F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        self.project().future.poll(cx)
    }
}

/// One unfinished task of a home.
struct Count(NonNull<LocalHome>);

impl Drop for Count {
    fn drop(&mut self) {
        // SAFETY: it lies in a cell of this home (L3) and is dropped on the set's
        // thread (L2), so `bound` may be touched (L1).
        let unfinished = unsafe { &self.0.as_ref().bound.unfinished };
        unfinished.set(unfinished.get() - 1);
    }
}
