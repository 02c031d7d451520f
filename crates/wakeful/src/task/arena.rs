//! Memory for task cells: one heap per worker, cut into size classes, never
//! given back to the allocator while the runtime lives.
//!
//! Nouns. A [`Arena`] belongs to one scheduler and is used by one thread at a
//! time, the holder of its [`Allocator`]. It grows by [`Chunk`]s; a chunk is cut
//! into cells of one size class. A cell freed by the thread that holds the
//! allocator goes to a plain free list; freed by any other thread it goes to the
//! heap's `returned` stack, which the holder empties when its list runs dry.
//!
//! Because cells are never unmapped while the runtime lives, anybody may walk
//! all chunks and ask each cell's state word whether it holds a task: that is
//! how tasks are enumerated for a dump and for shutdown, with no list of tasks
//! and no lock on the path of a spawn.
//!
//! Rules:
//!
//! - ARENA-1. `local` is touched only by the thread that holds the [`Allocator`], or
//!   for which the thread context names this heap as its own.
//! - ARENA-2. Cells below a chunk's `cut` mark are initialised headers for good;
//!   `cut` is stored with Release after the header was written.
//! - ARENA-3. The heap outlives its cells in use: `close` counts those that are still
//!   referred to from outside, and the last of them to be freed calls
//!   [`Schedule::last_cell_freed`]. Only then the owner may drop the heap.

use super::context;
use super::header::Header;
use super::id::{IdBlock, IdSource};
use super::poll_time::PollTime;
use super::runnable::{Runnable, TaskRef};
use super::stack::Stack;
use super::state::Shutdown;
use crate::sys::sync::UnsafeCell;
use crate::sys::sync::atomic::{AtomicIsize, AtomicPtr, AtomicU32, Ordering::*};
use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::any::Any;
use std::ptr::{self, NonNull};
use std::sync::Arc;
use std::time::Duration;

/// The scheduler that a task belongs to, as its task sees it.
pub(crate) trait Schedule: Send + Sync {
    /// The task was woken: put it into a queue.
    fn schedule(&self, task: Runnable);

    /// The task woke itself or its budget is spent: put it behind the others.
    fn requeue(&self, task: Runnable);

    /// Nothing can ever wake this task.
    fn orphaned(&self, task: &TaskRef);

    /// The task panicked with this payload, which is on its way to the
    /// JoinHandle, if there is one.
    fn panicked(&self, task: &Header, payload: &(dyn Any + Send));

    /// The task had panicked with this payload, and its JoinHandle is gone without
    /// having asked.
    fn unobserved_panic(&self, task: &Header, payload: &(dyn Any + Send));

    /// The last cell that was referred to from outside after the scheduler
    /// closed its heaps is gone. Gives back what kept the memory alive: the
    /// caller drops it when it refers to nothing in there any more, and not
    /// inside of a method of ours.
    ///
    /// # Safety
    ///
    /// Called once per heap, by the heap, after `close`.
    unsafe fn last_cell_freed(&self) -> Option<Arc<dyn Any + Send + Sync>>;
}

const SMALLEST: usize = size_of::<Header>().next_multiple_of(8);
/// Futures and outputs that would need more than this are boxed.
pub(crate) const LARGEST: usize = 2304;
const CLASSES: usize = class_of(LARGEST) + 1;
const CHUNK_BYTES: usize = 64 * 1024;
const FIRST_CELLS: u32 = 8;

/// The size class for a cell of `size` bytes. Sizes step by 8 up to 256, so an
/// empty task wastes nothing, then by 32, 64 and 256.
pub(crate) const fn class_of(size: usize) -> usize {
    let size = if size < SMALLEST { SMALLEST } else { size };
    let fine = (256 - SMALLEST) / 8;
    if size <= 256 {
        (size - SMALLEST).div_ceil(8)
    } else if size <= 512 {
        fine + (size - 256).div_ceil(32)
    } else if size <= 1024 {
        fine + 8 + (size - 512).div_ceil(64)
    } else {
        fine + 16 + (size - 1024).div_ceil(256)
    }
}

/// The cell size of a class.
const fn class_bytes(class: usize) -> usize {
    let fine = (256 - SMALLEST) / 8;
    if class <= fine {
        SMALLEST + class * 8
    } else if class <= fine + 8 {
        256 + (class - fine) * 32
    } else if class <= fine + 16 {
        512 + (class - fine - 8) * 64
    } else {
        1024 + (class - fine - 16) * 256
    }
}

const _: () = {
    let mut size = SMALLEST;
    while size <= LARGEST {
        let class = class_of(size);
        assert!(class_bytes(class) >= size && (class == 0 || class_bytes(class - 1) < size));
        size += 1;
    }
};

/// The head of a piece of memory that is cut into cells of one class.
#[repr(C, align(16))]
pub(crate) struct Chunk {
    pub(crate) home: NonNull<dyn Schedule>,
    heap: NonNull<Arena>,
    /// The chunk made before this one; a list that only grows.
    older: *mut Chunk,
    class: usize,
    cells: u32,
    /// How many cells were cut so far (ARENA-2).
    cut: AtomicU32,
    /// What the tasks of its cells have spent, once one of them has spent a while.
    spent: PollTime,
}

impl Chunk {
    fn layout(class: usize, cells: u32) -> Layout {
        let bytes = size_of::<Chunk>() + class_bytes(class) * cells as usize;
        Layout::from_size_align(bytes, align_of::<Chunk>()).expect("a chunk fits the address space")
    }

    fn cell(this: NonNull<Chunk>, class: usize, index: u32) -> NonNull<Header> {
        let offset = size_of::<Chunk>() + class_bytes(class) * index as usize;
        // SAFETY: `index` is below `cells`, so this stays inside the layout.
        unsafe { this.cast::<u8>().add(offset).cast() }
    }
}

/// The time that the task of that id, in that cell, has spent in polls: adds to it.
/// By whoever polled it or saw it polled; the cell may be another's by now.
///
/// # Safety
///
/// `cell` is a cell of a heap that is alive.
pub(crate) unsafe fn add_poll_time(cell: NonNull<Header>, id: u64, time: Duration) {
    // SAFETY: by contract; the field is written once, when the cell is cut.
    let (spent, cells, index) = unsafe { place_of(cell) };
    spent.add(cells, index, id, time);
}

/// As [`add_poll_time`], for a poll that took so long and was perhaps seen by another, who charged
/// for some of it: what is not `poll_time_of` since `before`.
///
/// # Safety
///
/// As [`add_poll_time`].
pub(crate) unsafe fn add_remaining_poll_time(
    cell: NonNull<Header>,
    id: u64,
    before: Duration,
    time: Duration,
) {
    // SAFETY: by contract.
    unsafe {
        let seen = poll_time_of(cell, id).saturating_sub(before);
        add_poll_time(cell, id, time.saturating_sub(seen));
    }
}

/// What was charged for the task of that id, in that cell, which may be another's by now.
///
/// # Safety
///
/// As [`add_poll_time`].
pub(crate) unsafe fn poll_time_of(cell: NonNull<Header>, id: u64) -> Duration {
    // SAFETY: by contract.
    let (spent, _, index) = unsafe { place_of(cell) };
    spent.get(index, id)
}

/// What was charged for the task.
pub(crate) fn spent(task: &TaskRef) -> Duration {
    // SAFETY: the reference keeps the cell, and the cell its heap (ARENA-3).
    let (spent, _, index) = unsafe { place_of(task.cell()) };
    spent.get(index, task.header().id.get())
}

/// # Safety
///
/// `cell` is a cell of a heap that stays alive for as long as the result is used.
unsafe fn place_of<'a>(cell: NonNull<Header>) -> (&'a PollTime, usize, usize) {
    // SAFETY: by contract; chunks live as long as their heap.
    unsafe {
        let chunk = (&raw const (*cell.as_ptr()).chunk).read();
        let head: &'a Chunk = &*chunk.as_ptr();
        let offset = cell.addr().get() - chunk.addr().get() - size_of::<Chunk>();
        (&head.spent, head.cells as usize, offset / class_bytes(head.class))
    }
}

struct Class {
    free: *mut Header,
    /// The chunk that still has uncut cells.
    chunk: Option<NonNull<Chunk>>,
    next_cells: u32,
}

struct Local {
    classes: [Class; CLASSES],
    /// Cells that came back, as far as this side knows.
    came_back: u64,
    ids: IdBlock,
}

/// Apart from its neighbours by two cache lines: one per worker.
#[repr(align(128))]
pub(crate) struct Arena {
    home: UnsafeCell<Option<NonNull<dyn Schedule>>>,
    local: UnsafeCell<Local>,
    newest: AtomicPtr<Chunk>,
    returned: Stack,
    /// Counts as `close` says; zero means the last one is gone.
    outstanding: AtomicIsize,
    /// Cells ever handed out. Written under ARENA-1; std's also in models.
    handed_out: std::sync::atomic::AtomicU64,
}

// SAFETY: `local` is guarded by ARENA-1, `home` is written once before the heap is
// shared, the rest is atomic.
unsafe impl Send for Arena {}
// SAFETY: as above.
unsafe impl Sync for Arena {}

/// The right to allocate from a heap (ARENA-1).
#[derive(Debug)]
pub(crate) struct Allocator {
    heap: NonNull<Arena>,
}

// SAFETY: the right may move to another thread; it is not shared.
unsafe impl Send for Allocator {}

impl Arena {
    pub(crate) fn new() -> Self {
        const EMPTY: Class = Class { free: ptr::null_mut(), chunk: None, next_cells: FIRST_CELLS };
        Self {
            home: UnsafeCell::new(None),
            local: UnsafeCell::new(Local {
                classes: [EMPTY; CLASSES],
                came_back: 0,
                ids: IdBlock::default(),
            }),
            newest: AtomicPtr::new(ptr::null_mut()),
            returned: Stack::new(),
            outstanding: AtomicIsize::new(0),
            handed_out: std::sync::atomic::AtomicU64::new(0),
        }
    }

    /// Ties the heap to its scheduler and gives out the one right to allocate.
    ///
    /// # Safety
    ///
    /// Called once, before the heap is shared; the heap does not move any more
    /// and `home` outlives it.
    pub(crate) unsafe fn open(&self, home: NonNull<dyn Schedule>) -> Allocator {
        // SAFETY: not shared yet, by contract.
        self.home.with_mut(|slot| unsafe { *slot = Some(home) });
        Allocator { heap: NonNull::from(self) }
    }

    /// How many tasks were ever spawned here.
    #[inline]
    pub(crate) fn handed_out(&self) -> u64 {
        self.handed_out.load(Relaxed)
    }

    /// Whether this is a heap of that scheduler.
    pub(crate) fn is_of(&self, home: NonNull<dyn Schedule>) -> bool {
        // SAFETY: written once, before the heap was shared.
        let own = self.home.with(|own| unsafe { *own });
        own.is_some_and(|own| ptr::addr_eq(own.as_ptr(), home.as_ptr()))
    }

    /// Calls `f` with every task in the heap that is alive at that moment, from
    /// any thread.
    pub(crate) fn for_each(&self, mut f: impl FnMut(TaskRef)) {
        self.each_cell(|cell| {
            if let Some(task) = TaskRef::try_from_cell(cell) {
                f(task);
            }
        });
    }

    fn each_cell(&self, mut f: impl FnMut(NonNull<Header>)) {
        let mut next = self.newest.load(Acquire);
        while let Some(chunk) = NonNull::new(next) {
            // SAFETY: chunks live as long as the heap.
            let head = unsafe { chunk.as_ref() };
            for index in 0..head.cut.load(Acquire) {
                f(Chunk::cell(chunk, head.class, index));
            }
            next = head.older;
        }
    }

    /// Claims and drops every future that is still in the heap. For the thread
    /// that shuts the scheduler down, after all queues are closed and drained.
    pub(crate) fn cancel_all(&self) {
        self.each_cell(|cell| {
            // SAFETY: below `cut` cells are initialised headers (ARENA-2).
            let duty = unsafe { cell.as_ref() }.state.claim_for_shutdown();
            if duty == Shutdown::DropFuture {
                // SAFETY: claimed: TASK-1 is ours.
                unsafe { super::runnable::finish_cancelled(cell) };
            }
        });
    }

    /// Frees a cell that nothing refers to any more, from any thread.
    ///
    /// # Safety
    ///
    /// The state word said `Free` to the caller, and only to it.
    pub(crate) unsafe fn free(cell: NonNull<Header>) {
        // SAFETY: ours alone, by contract; chunks outlive their cells (ARENA-3).
        let header = unsafe { cell.as_ref() };
        header.origin.get().release();
        header.state.retire();
        // SAFETY: as above.
        let chunk = unsafe { header.chunk.as_ref() };
        if context::owns_arena(chunk.heap.as_ptr()) {
            // SAFETY: ARENA-1, this thread holds the allocator.
            unsafe { chunk.heap.as_ref() }.local.with_mut(|local| {
                // SAFETY: as above.
                let local = unsafe { &mut *local };
                local.came_back += 1;
                push_free(&mut local.classes[chunk.class], cell);
            });
            return;
        }
        // SAFETY: ARENA-3 keeps the heap until this cell is accounted for.
        let heap = unsafe { chunk.heap.as_ref() };
        // SAFETY: the cell is in no list.
        if unsafe { heap.returned.push(cell) }.is_err()
            && heap.outstanding.fetch_sub(1, AcqRel) == 1
        {
            // SAFETY: closed, and the count reached zero: we are the last.
            let keep = unsafe { chunk.home.as_ref().last_cell_freed() };
            // `header`, `chunk` and `heap` may be gone after this.
            drop(keep);
        }
    }
}

impl Drop for Arena {
    fn drop(&mut self) {
        let mut next = self.newest.load(Acquire);
        while let Some(chunk) = NonNull::new(next) {
            // SAFETY: ARENA-3: no cell is in use, so nobody reads the chunk.
            let (older, layout) = unsafe {
                let chunk = chunk.as_ref();
                chunk.spent.free(chunk.cells as usize);
                (chunk.older, Chunk::layout(chunk.class, chunk.cells))
            };
            next = older;
            // SAFETY: allocated in `grow` with the same layout.
            unsafe { dealloc(chunk.as_ptr().cast(), layout) };
        }
    }
}

impl Allocator {
    pub(crate) fn arena(&self) -> *const Arena {
        self.heap.as_ptr()
    }

    /// A vacant cell of the class, and a fresh id.
    #[inline]
    pub(crate) fn allocate(&mut self, class: usize, ids: &IdSource) -> (NonNull<Header>, u64) {
        // SAFETY: the allocator is the right of ARENA-1; the heap outlives it.
        unsafe { self.heap.as_ref().allocate(class, ids) }
    }

    /// Closes the heap: from here on every free is counted. `None`: cells are
    /// still referred to, and the last of them will call
    /// [`Schedule::last_cell_freed`]; otherwise all are gone already.
    pub(crate) fn close(self) -> Option<AllFreed> {
        // SAFETY: ARENA-1, by owning the allocator.
        let heap = unsafe { self.heap.as_ref() };
        let returned = heap.returned.close().count() as isize;
        // SAFETY: as above.
        let came_back = heap.local.with_mut(|local| unsafe { (*local).came_back });
        let in_use = heap.handed_out().wrapping_sub(came_back) as isize - returned;
        debug_assert!(in_use >= 0, "more cells freed than handed out");
        // Frees since `close` have each subtracted one, so the count was at or
        // below zero and reaches it exactly when the last is gone.
        (heap.outstanding.fetch_add(in_use, AcqRel) + in_use == 0).then_some(AllFreed)
    }
}

/// No cell of the heap is referred to any more.
#[must_use]
pub(crate) struct AllFreed;

impl Arena {
    /// # Safety
    ///
    /// ARENA-1: the calling thread holds the allocator.
    #[inline]
    pub(crate) unsafe fn allocate(&self, class: usize, ids: &IdSource) -> (NonNull<Header>, u64) {
        self.local.with_mut(|local| {
            // SAFETY: ARENA-1, by contract.
            let local = unsafe { &mut *local };
            self.handed_out.store(self.handed_out() + 1, Relaxed);
            let id = local.ids.draw(ids);
            let free = local.classes[class].free;
            if let Some(cell) = NonNull::new(free) {
                // SAFETY: cells of the free list are ours.
                local.classes[class].free = unsafe { cell.as_ref() }.next.load(Relaxed);
                return (cell, id);
            }
            (self.allocate_slow(local, class), id)
        })
    }

    #[cold]
    fn allocate_slow(&self, local: &mut Local, class: usize) -> NonNull<Header> {
        for cell in self.returned.take_all() {
            // SAFETY: returned cells are ours, their chunk is alive.
            let from = unsafe { cell.as_ref().chunk.as_ref() }.class;
            local.came_back += 1;
            push_free(&mut local.classes[from], cell);
        }
        let wanted = &mut local.classes[class];
        if let Some(cell) = NonNull::new(wanted.free) {
            // SAFETY: as above.
            wanted.free = unsafe { cell.as_ref() }.next.load(Relaxed);
            return cell;
        }
        let chunk = match wanted.chunk {
            Some(chunk) => chunk,
            None => self.grow(wanted, class),
        };
        // SAFETY: chunks live as long as the heap.
        let head = unsafe { chunk.as_ref() };
        let index = head.cut.load(Relaxed);
        debug_assert!(index < head.cells);
        let cell = Chunk::cell(chunk, class, index);
        // SAFETY: uncut memory of our chunk, aligned by construction.
        unsafe { cell.write(Header::vacant(chunk)) };
        head.cut.store(index + 1, Release);
        if index + 1 == head.cells {
            wanted.chunk = None;
        }
        cell
    }

    fn grow(&self, wanted: &mut Class, class: usize) -> NonNull<Chunk> {
        let cells = wanted.next_cells;
        let most = ((CHUNK_BYTES - size_of::<Chunk>()) / class_bytes(class)) as u32;
        wanted.next_cells = (cells * 4).min(most);
        let layout = Chunk::layout(class, cells);
        // SAFETY: the layout is not empty.
        let memory = unsafe { alloc(layout) }.cast::<Chunk>();
        let Some(chunk) = NonNull::new(memory) else { handle_alloc_error(layout) };
        let home = self.home.with(|home| {
            // SAFETY: written once, before the heap was shared.
            unsafe { *home }.expect("the heap is opened before it is used")
        });
        let head = Chunk {
            home,
            heap: NonNull::from(self),
            older: self.newest.load(Relaxed),
            class,
            cells,
            cut: AtomicU32::new(0),
            spent: PollTime::nothing(),
        };
        // SAFETY: freshly allocated for a Chunk.
        unsafe { chunk.write(head) };
        self.newest.store(chunk.as_ptr(), Release);
        wanted.chunk = Some(chunk);
        chunk
    }
}

fn push_free(class: &mut Class, cell: NonNull<Header>) {
    // SAFETY: the cell is free and ours.
    unsafe { cell.as_ref() }.next.store(class.free, Relaxed);
    class.free = cell.as_ptr();
}
