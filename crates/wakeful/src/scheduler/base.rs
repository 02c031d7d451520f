//! What every scheduler has besides its queues: its configuration, memory for
//! tasks spawned from outside, and the word that ends `block_on` early.

use crate::driver::clock::clock_ns::ClockNs;
use crate::scheduler::block_on::{self, BlockOnGuard, BlockOnState, ParkedBlockOn};
use crate::scheduler::config::{Config, OrphanPolicy, UnhandledPanic};
use crate::scheduler::local_set::LocalHome;
use crate::sys::sync::Mutex;
use crate::sys::unwind::catch_and_forget;
use crate::task::arena::{Allocator, Arena, Schedule};
use crate::task::block_on::BlockOnVia;
use crate::task::cell::{self, CellLayout, SpawnOptions};
use crate::task::header::Header;
use crate::task::id::IdSource;
use crate::task::runnable::{Runnable, TaskRef};
use crate::task::state::{BLOCKING, ORPHANED};
use crate::task::{JoinHandle, context};
use crate::telemetry::trace_buffer::{Entry, SharedTraceBuffer};
use std::any::Any;
use std::pin::pin;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering::*};
use std::sync::{Arc, OnceLock, Weak};
use std::task::{Context, Poll};

pub(crate) struct SchedulerBase {
    pub(crate) config: Arc<Config>,
    /// Memory for tasks spawned by threads that hold no allocator.
    outside_heap: Arena,
    outside: Mutex<Option<Allocator>>,
    /// No more tasks are taken.
    closing: AtomicBool,
    /// Why `block_on` must not go on. The scheduler closes itself once it is set.
    fatal: OnceLock<String>,
    /// Threads parked in `block_on`, to be told of `fatal`.
    parked: Mutex<Vec<ParkedBlockOn>>,
    /// Sets of local tasks that were polled in this runtime.
    locals: Mutex<Vec<Weak<LocalHome>>>,
    /// Milliseconds of the clock when some worker last read it: for tasks spawned
    /// from outside, whose threads do not read it.
    turn_ms: AtomicU32,
    /// Of all threads that are not at a worker's place.
    pub(crate) elsewhere: SharedTraceBuffer,
    /// How many `block_on`s there are on threads that run no tasks, and have to wait.
    beside: AtomicUsize,
}

impl SchedulerBase {
    pub(crate) fn new(config: Arc<Config>) -> Self {
        Self {
            config,
            outside_heap: Arena::new(),
            outside: Mutex::new(None),
            closing: AtomicBool::new(false),
            fatal: OnceLock::new(),
            parked: Mutex::new(Vec::new()),
            locals: Mutex::new(Vec::new()),
            turn_ms: AtomicU32::new(0),
            elsewhere: SharedTraceBuffer::new(),
            beside: AtomicUsize::new(0),
        }
    }

    /// Opens the outside heap.
    ///
    /// # Safety
    ///
    /// As [`Arena::open`]: once, before sharing; `home` holds this estate.
    pub(crate) unsafe fn open(&self, home: NonNull<dyn Schedule>) {
        // SAFETY: by contract.
        *self.outside.lock() = Some(unsafe { self.outside_heap.open(home) });
    }

    pub(crate) fn ids(&self) -> &IdSource {
        &self.config.seam.ids
    }

    pub(crate) fn is_closing(&self) -> bool {
        self.closing.load(Acquire)
    }

    /// True for the one who closes first.
    pub(crate) fn start_closing(&self) -> bool {
        !self.closing.swap(true, AcqRel)
    }

    /// A thread of the scheduler has read the clock.
    #[inline]
    pub(crate) fn turned(&self, now: ClockNs) {
        let now_ms = now.ms();
        // Not with every turn: others read what lies beside it with every poll.
        if self.turn_ms.load(Relaxed) != now_ms {
            self.turn_ms.store(now_ms, Relaxed);
        }
        context::set_now_ms(now_ms);
    }

    /// A thread that is not at a worker's place woke or spawned this task, and is about to
    /// inject it.
    #[inline]
    pub(crate) fn note_injected(&self, task: &Runnable) {
        if self.elsewhere.is_on() {
            self.elsewhere.note(Entry::woken(task, self.config.seam.clock.elapsed()));
        }
    }

    /// Makes a task in the outside heap. If nobody is at work, nobody has read the
    /// clock lately either.
    ///
    /// # Safety
    ///
    /// As [`cell::fill`].
    pub(crate) unsafe fn fill_outside<F: Future>(
        &self,
        future: F,
        birth: SpawnOptions,
        nobody_at_work: bool,
    ) -> (Runnable, JoinHandle<F::Output>) {
        if nobody_at_work {
            self.turn_ms.store(self.now_ms(), Relaxed);
        }
        // This thread may belong to another runtime, with a clock of its own.
        let _now = context::set_now_ms_scoped(self.turn_ms.load(Relaxed));
        let mut outside = self.outside.lock();
        let (cell, id) = match outside.as_mut() {
            Some(allocator) => allocator.allocate(CellLayout::<F>::CLASS, self.ids()),
            None => {
                drop(outside);
                // SAFETY: by contract.
                return unsafe { post_shutdown::fill(self.ids(), future, birth) };
            }
        };
        drop(outside);
        // SAFETY: freshly allocated; the rest by contract.
        unsafe { cell::fill(cell, id, future, birth) }
    }

    pub(crate) fn for_each_outside(&self, f: impl FnMut(TaskRef)) {
        self.outside_heap.for_each(f);
    }

    pub(crate) fn spawned_outside(&self) -> u64 {
        self.outside_heap.handed_out()
    }

    /// The tasks of local sets.
    pub(crate) fn for_each_local(&self, mut f: impl FnMut(TaskRef)) {
        for local in self.locals() {
            local.for_each_task(&mut f);
        }
    }

    /// The sets, held while they are looked at: they are let go of outside of the lock.
    fn locals(&self) -> Vec<Arc<LocalHome>> {
        self.locals.lock().iter().filter_map(Weak::upgrade).collect()
    }

    /// The one of them that this thread polls.
    pub(crate) fn running_local(&self, thread: i32) -> Option<TaskRef> {
        self.locals().iter().find_map(|local| local.running_on(thread))
    }

    /// The cells of those of them that are being polled.
    pub(crate) fn running_locals(&self) -> Vec<usize> {
        let locals = self.locals();
        locals.iter().filter_map(|local| local.running()).map(|cell| cell.addr().get()).collect()
    }

    /// A set of local tasks is polled in this runtime from now on.
    pub(crate) fn add_local(&self, home: Weak<LocalHome>) {
        let mut locals = self.locals.lock();
        locals.retain(|other| other.strong_count() > 0 && !other.ptr_eq(&home));
        locals.push(home);
    }

    /// Tells this scheduler from others.
    pub(crate) fn address(&self) -> *const () {
        std::ptr::from_ref(self).cast()
    }

    /// The futures of `block_on` on all threads.
    pub(crate) fn roots(&self) -> Vec<Arc<BlockOnState>> {
        block_on::roots_of(self.address())
    }

    /// Whether there is a `block_on` that has to wait on a thread that runs no tasks.
    #[inline]
    pub(crate) fn is_any_beside(&self) -> bool {
        self.beside.load(Relaxed) > 0
    }

    /// Which poll or rest each of them is in.
    pub(crate) fn rests(&self) -> BlockOnPolls {
        BlockOnPolls(
            self.roots().iter().map(|root| (root.note.id, root.note.poll_number())).collect(),
        )
    }

    /// Drops every future in the outside heap. After all queues are closed.
    pub(crate) fn cancel_outside(&self) {
        self.outside_heap.cancel_all();
    }

    /// Gives the outside heap's allocator up, to be closed.
    pub(crate) fn take_outside(&self) -> Option<Allocator> {
        self.outside.lock().take()
    }

    /// Reports an orphan and does what the policy says.
    pub(crate) fn orphaned(&self, task: &TaskRef) {
        if self.is_closing() {
            // Tasks go down in some order; the last to refer to another may
            // well leave it without a waker.
            return;
        }
        // The report goes through a hook of the user's; if that panics, the
        // thread that dropped a waker or polled a task is not to blame.
        let told = catch_and_forget(|| self.config.witness.orphan(task));
        let text = told.unwrap_or_else(|| "the hook for reports panicked".to_owned());
        match self.config.on_orphan {
            OrphanPolicy::Report => {}
            OrphanPolicy::Abort => task.abort(ORPHANED),
            OrphanPolicy::Panic => {
                task.abort(ORPHANED);
                self.end_block_on(text);
            }
        }
    }

    pub(crate) fn panicked(&self, task: &Header, payload: &(dyn Any + Send)) {
        self.config.witness.panicked(task, payload);
        if task.state.load().has(BLOCKING) {
            // A closure of the pool has its caller to tell, as ever.
            return;
        }
        if self.config.on_panic == UnhandledPanic::ShutdownRuntime {
            self.end_block_on(
                "a spawned task panicked and the runtime is configured to shut down on unhandled panic"
                    .to_owned(),
            );
        }
    }

    /// A task had panicked, and nobody will ever ask.
    pub(crate) fn unobserved_panic(&self, task: &Header, payload: &(dyn Any + Send)) {
        // One that has ended the runtime is not lost.
        if !self.is_closing() && !self.is_fatal() {
            self.config.witness.unobserved_panic(task, payload);
        }
    }

    /// Makes every `block_on` of this runtime panic with `why`.
    pub(crate) fn end_block_on(&self, why: String) {
        // The first reason is the one that is told.
        let _ = self.fatal.set(why);
        self.unpark_block_ons();
    }

    /// # Panics
    ///
    /// If the runtime has given up.
    #[inline]
    #[track_caller]
    pub(crate) fn check_fatal(&self) {
        if let Some(why) = self.fatal.get() {
            panic!("{why}");
        }
    }

    pub(crate) fn is_fatal(&self) -> bool {
        self.fatal.get().is_some()
    }

    /// Makes every thread that is parked in `block_on` look again whether it has to do
    /// something.
    pub(crate) fn unpark_block_ons(&self) {
        for parked in self.parked.lock().iter() {
            parked.unpark();
        }
    }

    /// Polls a future on the calling thread until it is done. `park` waits until it is woken,
    /// and may return earlier.
    ///
    /// # Panics
    ///
    /// If the future does, or the runtime has given up.
    #[track_caller]
    pub(crate) fn block_on<F: Future>(
        &self,
        future: F,
        through: BlockOnVia,
        park: impl Fn(&BlockOnGuard),
    ) -> F::Output {
        // Dropped after all else.
        let mut end = (through == BlockOnVia::Handle).then(|| ExternalBlockOnGuard::new(self));
        let mut future = pin!(future);
        let held = BlockOnGuard::new(self.address(), through);
        let mut cx = Context::from_waker(held.waker());
        let mut listed = None;
        loop {
            self.check_fatal();
            let polled = held.poll_if_woken(|| future.as_mut().poll(&mut cx));
            if let Some(Poll::Ready(output)) = polled {
                // It may be this last poll that has lost a waker.
                self.check_fatal();
                return output;
            }
            // Listed first, then looked, then parked: whoever gives up sets the
            // reason first and looks at the list then.
            listed.get_or_insert_with(|| ParkedGuard::new(self, &held));
            held.note().waiting.set_since_ms(self.now_ms());
            end.get_or_insert_with(|| ExternalBlockOnGuard::new(self));
            if polled.is_some() {
                self.config.witness.ended_elsewhere();
            }
            if !held.is_woken() && !self.is_fatal() {
                park(&held);
            }
        }
    }

    /// Lists a thread that is about to park in `block_on`.
    pub(crate) fn list_parked(&self, parked: ParkedBlockOn) {
        parked.root().note.record_first_wait(self.now_ms());
        self.parked.lock().push(parked);
    }

    pub(crate) fn now_ms(&self) -> u32 {
        self.config.seam.clock.elapsed().as_millis() as u32
    }

    pub(crate) fn unlist_parked(&self, parked: &ParkedBlockOn) {
        let mut list = self.parked.lock();
        if let Some(at) = list.iter().rposition(|other| other.is(parked)) {
            list.swap_remove(at);
        }
    }
}

/// Which poll or rest each future of `block_on` is in: whoever has looked at them and finds the
/// same afterwards has missed nothing of theirs.
#[derive(PartialEq)]
pub(crate) struct BlockOnPolls(Vec<(u64, u32)>);

impl BlockOnPolls {
    pub(crate) fn is_any_polled(&self) -> bool {
        self.0.iter().any(|(_, rest)| rest.is_multiple_of(2))
    }
}

/// The end of a `block_on` on a thread that runs no tasks: another may be stuck from then on. Many
/// a `block_on` ends before anybody could have looked at it, so not all have one.
pub(crate) struct ExternalBlockOnGuard<'a>(&'a SchedulerBase);

impl<'a> ExternalBlockOnGuard<'a> {
    #[cold]
    pub(crate) fn new(estate: &'a SchedulerBase) -> Self {
        estate.beside.fetch_add(1, SeqCst);
        Self(estate)
    }
}

impl Drop for ExternalBlockOnGuard<'_> {
    fn drop(&mut self) {
        self.0.beside.fetch_sub(1, SeqCst);
        self.0.config.witness.ended_elsewhere();
    }
}

/// Keeps a thread on the list of those parked in `block_on`, however it leaves.
struct ParkedGuard<'a> {
    estate: &'a SchedulerBase,
    parked: ParkedBlockOn,
}

impl<'a> ParkedGuard<'a> {
    fn new(estate: &'a SchedulerBase, held: &BlockOnGuard) -> Self {
        estate.list_parked(held.parked());
        Self { estate, parked: held.parked() }
    }
}

impl Drop for ParkedGuard<'_> {
    fn drop(&mut self) {
        self.estate.unlist_parked(&self.parked);
    }
}

/// Where tasks go that are spawned on a runtime that is gone: they are cancelled
/// at once, but their JoinHandles need a cell to look at.
mod post_shutdown {
    use super::*;

    struct PostShutdown;

    impl Schedule for PostShutdown {
        fn schedule(&self, task: Runnable) {
            task.discard();
        }
        fn requeue(&self, task: Runnable) {
            task.cancel();
        }
        fn orphaned(&self, _task: &TaskRef) {}
        fn panicked(&self, _task: &Header, _payload: &(dyn Any + Send)) {}
        fn unobserved_panic(&self, _task: &Header, _payload: &(dyn Any + Send)) {}
        // SAFETY: never called.
        unsafe fn last_cell_freed(&self) -> Option<Arc<dyn Any + Send + Sync>> {
            unreachable!("post_shutdown is never closed")
        }
    }

    static POST_SHUTDOWN: PostShutdown = PostShutdown;

    /// # Safety
    ///
    /// As [`cell::fill`].
    pub(crate) unsafe fn fill<F: Future>(
        ids: &IdSource,
        future: F,
        birth: SpawnOptions,
    ) -> (Runnable, JoinHandle<F::Output>) {
        static ALLOCATOR: OnceLock<Mutex<Allocator>> = OnceLock::new();
        let allocator = ALLOCATOR.get_or_init(|| {
            let heap: &'static Arena = Box::leak(Box::new(Arena::new()));
            // SAFETY: not shared yet; both live for ever.
            Mutex::new(unsafe { heap.open(NonNull::from(&POST_SHUTDOWN)) })
        });
        let (cell, id) = allocator.lock().allocate(CellLayout::<F>::CLASS, ids);
        // SAFETY: freshly allocated; the rest by contract.
        unsafe { cell::fill(cell, id, future, birth) }
    }
}
