//! What the models of three rooms share: a home for real task cells, and queue
//! entries that tell whether they were handed over properly.

use crate::sys::sync::{Mutex, UnsafeCell, thread};
use crate::task::JoinHandle;
use crate::task::arena::{AllFreed, Allocator, Arena, Schedule};
use crate::task::cell::{self, CellLayout, SpawnOptions};
use crate::task::header::Header;
use crate::task::id::IdSource;
use crate::task::origin::Origin;
use crate::task::runnable::{Runnable, TaskRef};
use std::any::Any;
use std::cell::Cell;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

thread_local! {
    static OTHERS_FIRST: Cell<bool> = const { Cell::new(false) };
}

/// Explores `f` with at most `preemptions` forced switches per execution, and
/// says (with `--nocapture`) how many executions that were.
///
/// It does so twice, the second time with another thread than the main one
/// going first (see [`start`]): loom looks for other orders from the order it
/// has, and overlooks some if a thread loads what it then exchanges.
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

/// For the main thread of a model, once the others are there.
pub(crate) fn start() {
    if OTHERS_FIRST.get() {
        thread::yield_now();
    }
}

/// A scheduler with one heap and one queue. Its counters are std's, so that
/// they add no steps of their own to a model.
pub(crate) struct TestHome {
    heap: Arena,
    queue: Mutex<Vec<Runnable>>,
    pub(crate) orphans: AtomicUsize,
    pub(crate) heap_gone: AtomicUsize,
}

impl TestHome {
    pub(crate) fn open() -> (Arc<TestHome>, Allocator) {
        let home = Arc::new(TestHome {
            heap: Arena::new(),
            queue: Mutex::new(Vec::new()),
            orphans: AtomicUsize::new(0),
            heap_gone: AtomicUsize::new(0),
        });
        // SAFETY: not shared yet; the models keep the home until the end.
        let allocator = unsafe { home.heap.open(NonNull::from(&*home)) };
        (home, allocator)
    }

    pub(crate) fn heap(&self) -> &Arena {
        &self.heap
    }

    /// The task that was woken first, if any.
    pub(crate) fn pop(&self) -> Option<Runnable> {
        let mut queue = self.queue.lock();
        (!queue.is_empty()).then(|| queue.remove(0))
    }

    /// Runs what is queued until nothing is.
    pub(crate) fn run_all(&self) {
        while let Some(task) = self.pop() {
            task.run();
        }
    }

    pub(crate) fn orphans(&self) -> usize {
        self.orphans.load(Relaxed)
    }

    /// Closes the heap at the end of a model: every cell must be free.
    pub(crate) fn close(&self, allocator: Allocator) {
        assert!(matches!(allocator.close(), Some(AllFreed)), "a task cell leaked");
        assert_eq!(self.heap_gone.load(Relaxed), 0, "told twice that all cells are gone");
    }
}

impl Schedule for TestHome {
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

    // SAFETY: asks nothing of its caller.
    unsafe fn last_cell_freed(&self) -> Option<std::sync::Arc<dyn Any + Send + Sync>> {
        self.heap_gone.fetch_add(1, Relaxed);
        None
    }
}

/// Spawns a task without putting it into a queue.
pub(crate) fn spawn<F: Future>(
    allocator: &mut Allocator,
    future: F,
) -> (Runnable, JoinHandle<F::Output>) {
    let (cell, id) = allocator.allocate(CellLayout::<F>::CLASS, &IdSource::Process);
    let birth = SpawnOptions { origin: Origin::here(), flags: 0 };
    // SAFETY: freshly allocated; a model's threads are all one to the system.
    unsafe { cell::fill(cell, id, future, birth) }
}

/// Numbered queue entries, each with a mark that only the holder of the entry
/// may touch: loom reports an entry that two hold, or that was handed over
/// without synchronisation.
pub(crate) struct Entries {
    /// Keeps the cells.
    _home: Arc<TestHome>,
    cells: Vec<NonNull<Header>>,
    marks: Vec<UnsafeCell<u32>>,
}

// SAFETY: the cells live as long as the home, the marks are what is modelled.
unsafe impl Send for Entries {}
// SAFETY: as above.
unsafe impl Sync for Entries {}

impl Entries {
    pub(crate) fn new(count: usize) -> Arc<Entries> {
        let (home, mut allocator) = TestHome::open();
        let cells = (0..count).map(|_| {
            let (task, join) = spawn(&mut allocator, std::future::pending::<()>());
            std::mem::forget(join);
            task.into_cell()
        });
        let cells = cells.collect();
        let marks = (0..count).map(|_| UnsafeCell::new(0)).collect();
        Arc::new(Entries { _home: home, cells, marks })
    }

    /// Entry `number`, about to be pushed for the first time.
    pub(crate) fn make(&self, number: usize) -> Runnable {
        // SAFETY: whoever holds the entry; loom checks just that.
        self.marks[number].with_mut(|mark| unsafe { *mark += 1 });
        // SAFETY: each model makes each entry once.
        unsafe { Runnable::from_cell(self.cells[number]) }
    }

    /// The number of an entry that came out of a queue, for good.
    pub(crate) fn end(&self, task: Runnable) -> usize {
        let cell = task.into_cell();
        let number = self.cells.iter().position(|&own| own == cell).expect("not made here");
        self.marks[number].with_mut(|mark| {
            // SAFETY: as in `make`.
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
