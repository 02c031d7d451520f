//! Helpers shared by the models of several modules: a scheduler for task cells, and queue entries
//! that detect a wrong hand-over.

use crate::sys::sync::{Mutex, UnsafeCell, thread};
use crate::task::JoinHandle;
use crate::task::arena::{AllFreed, Allocator, Arena};
use crate::task::cell::{self, CellLayout, SpawnOptions};
use crate::task::header::Header;
use crate::task::id::IdSource;
use crate::task::origin::Origin;
use crate::task::runnable::{Runnable, TaskRef};
use crate::task::schedule::Schedule;
use std::any::Any;
use std::cell::Cell;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

thread_local! {
    static OTHERS_FIRST: Cell<bool> = const { Cell::new(false) };
}

/// Explores `f` with at most `preemptions` preemptions per execution. Prints the number of
/// executions.
///
/// Explores twice; the second time, a thread other than the main one goes first (see [`start`]).
/// loom derives new orders from the current one, and misses some if a thread loads a word that it
/// then exchanges.
pub(crate) fn model(preemptions: usize, f: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions);
    let executions = Arc::new(AtomicUsize::new(0));
    let f = Arc::new(f);
    for others_first in [false, true] {
        OTHERS_FIRST.set(others_first);
        let (counter, f) = (executions.clone(), f.clone());
        builder.check(move || {
            counter.fetch_add(1, Relaxed);
            f();
        });
    }
    println!("{} executions with up to {preemptions} preemptions", executions.load(Relaxed));
}

/// Lets the other threads go first in every second exploration. A model's main thread calls this
/// after it has started the others.
pub(crate) fn start() {
    if OTHERS_FIRST.get() {
        thread::yield_now();
    }
}

/// A scheduler with one arena and one queue, whose std counters add no steps to a model.
pub(crate) struct ModelScheduler {
    arena: Arena,
    queue: Mutex<Vec<Runnable>>,
    pub(crate) orphans: AtomicUsize,
    pub(crate) arena_ends: AtomicUsize,
}

impl ModelScheduler {
    pub(crate) fn open() -> (Arc<ModelScheduler>, Allocator) {
        let scheduler = Arc::new(ModelScheduler {
            arena: Arena::new(),
            queue: Mutex::new(Vec::new()),
            orphans: AtomicUsize::new(0),
            arena_ends: AtomicUsize::new(0),
        });
        // SAFETY: not shared yet, and the models keep the scheduler until their end.
        let allocator = unsafe { scheduler.arena.open(NonNull::from(&*scheduler)) };
        (scheduler, allocator)
    }

    pub(crate) fn arena(&self) -> &Arena {
        &self.arena
    }

    /// Takes the task that was woken first.
    pub(crate) fn pop(&self) -> Option<Runnable> {
        let mut queue = self.queue.lock();
        (!queue.is_empty()).then(|| queue.remove(0))
    }

    /// Runs queued tasks until the queue is empty.
    pub(crate) fn run_all(&self) {
        while let Some(task) = self.pop() {
            task.run();
        }
    }

    pub(crate) fn orphans(&self) -> usize {
        self.orphans.load(Relaxed)
    }

    /// Closes the arena at the end of a model: every cell must be free.
    pub(crate) fn close(&self, allocator: Allocator) {
        assert!(matches!(allocator.close(), Some(AllFreed)), "a task cell leaked");
        assert_eq!(self.arena_ends.load(Relaxed), 0, "the end of the arena was reported twice");
    }
}

impl Schedule for ModelScheduler {
    fn schedule(&self, task: Runnable) {
        self.queue.lock().push(task);
    }

    fn requeue(&self, task: Runnable) {
        self.queue.lock().push(task);
    }

    fn orphaned(&self, _task: &TaskRef) {
        self.orphans.fetch_add(1, Relaxed);
    }

    fn unobserved_panic(&self, _task: &Header, _payload: &(dyn Any + Send)) {}

    fn panicked(&self, _task: &Header, _payload: &(dyn Any + Send)) {}

    fn terminated(&self, _task: &Header) {}

    // SAFETY: no requirements.
    unsafe fn last_cell_freed(&self) -> Option<std::sync::Arc<dyn Any + Send + Sync>> {
        self.arena_ends.fetch_add(1, Relaxed);
        None
    }
}

/// Spawns a task without putting it into a queue.
pub(crate) fn spawn<F: Future>(
    allocator: &mut Allocator,
    future: F,
) -> (Runnable, JoinHandle<F::Output>) {
    let options = SpawnOptions { origin: Origin::here(), flags: 0 };
    let (cell, id) = allocator.allocate(CellLayout::<F>::CLASS, &IdSource::Process, options.origin);
    // SAFETY: the cell was just allocated, and all threads of a model run on one OS thread.
    unsafe { cell::fill(cell, id, future, options) }
}

/// Numbered queue entries, each with a mark that only the holder of the entry accesses.
///
/// loom reports an entry with two holders, or one that was handed over without synchronization.
pub(crate) struct Entries {
    /// Keeps the cells alive.
    _scheduler: Arc<ModelScheduler>,
    cells: Vec<NonNull<Header>>,
    marks: Vec<UnsafeCell<u32>>,
}

// SAFETY: the cells live as long as the scheduler. loom checks the accesses to the marks.
unsafe impl Send for Entries {}
// SAFETY: the reason for `Send` covers `Sync`.
unsafe impl Sync for Entries {}

impl Entries {
    pub(crate) fn new(count: usize) -> Arc<Entries> {
        let (scheduler, mut allocator) = ModelScheduler::open();
        let cells = (0..count).map(|_| {
            let (task, join) = spawn(&mut allocator, std::future::pending::<()>());
            std::mem::forget(join);
            task.into_cell()
        });
        let cells = cells.collect();
        let marks = (0..count).map(|_| UnsafeCell::new(0)).collect();
        Arc::new(Entries { _scheduler: scheduler, cells, marks })
    }

    /// Creates entry `number`, to be pushed for the first time.
    pub(crate) fn make(&self, number: usize) -> Runnable {
        // SAFETY: the caller holds the entry, which loom checks.
        self.marks[number].with_mut(|mark| unsafe { *mark += 1 });
        // SAFETY: each model creates each entry once.
        unsafe { Runnable::from_cell(self.cells[number]) }
    }

    /// Ends an entry that came out of a queue, and returns its number.
    pub(crate) fn end(&self, task: Runnable) -> usize {
        let cell = task.into_cell();
        let number = self.cells.iter().position(|&own| own == cell).expect("made by `make`");
        self.marks[number].with_mut(|mark| {
            // SAFETY: the caller holds the entry, which loom checks.
            let mark = unsafe { &mut *mark };
            assert_eq!(*mark, 1, "entry {number} came out twice");
            *mark += 1;
        });
        number
    }

    /// Checks that exactly these entries came out, each once.
    pub(crate) fn assert_ended(&self, ended: impl IntoIterator<Item = usize>) {
        let mut ended: Vec<usize> = ended.into_iter().collect();
        ended.sort_unstable();
        assert_eq!(ended, (0..self.cells.len()).collect::<Vec<_>>(), "an entry was lost");
    }
}
