//! Memory for task cells: one arena per worker, with size classes.
//!
//! An arena does not free memory while its runtime lives.
//!
//! An [`Arena`] belongs to one scheduler. Only the holder of its [`Allocator`], one thread at a
//! time, allocates from it. An arena grows by [`Chunk`]s, each divided into cells of one size
//! class. A cell that the holder of the allocator frees goes to a plain free list. Other threads
//! push freed cells to the arena's `returned` stack, which the holder drains when its free list is
//! empty.
//!
//! Cells stay mapped while the runtime lives. So any thread may walk all chunks and check the state
//! word of each cell for a task. Dumps and the shutdown enumerate tasks this way, so a spawn
//! maintains no list of tasks and takes no lock.
//!
//! # Rules
//!
//! - ARENA-1. Only the thread that holds the [`Allocator`], or whose context names this arena,
//!   accesses `local`.
//! - ARENA-2. The first `initialized` cells of a chunk have initialized headers, permanently. The
//!   count is stored with Release after the header is written.
//! - ARENA-3. The arena outlives its cells in use. `close` counts the cells that are still referred
//!   to. The thread that frees the last of them calls [`Schedule::last_cell_freed`]. Only then may
//!   the owner drop the arena.

use super::context;
use super::duty::Shutdown;
use super::header::Header;
use super::id::{IdBlock, IdSource};
use super::origin::Origin;
use super::poll_time::PollTime;
use super::runnable::TaskRef;
use super::schedule::Schedule;
use super::size_class::{CLASSES, class_bytes};
use super::spawn_counts::SpawnCounts;
use super::stack::Stack;
use crate::sys::sync::UnsafeCell;
use crate::sys::sync::atomic::{AtomicIsize, AtomicPtr, AtomicU32, Ordering::*};
use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::panic::Location;
use std::ptr::{self, NonNull};
use std::time::Duration;

const CHUNK_BYTES: usize = 64 * 1024;
const FIRST_CELLS: u32 = 8;

/// The header of a block of memory that is divided into cells of one class.
#[repr(C, align(16))]
pub(crate) struct Chunk {
    pub(crate) scheduler: NonNull<dyn Schedule>,
    arena: NonNull<Arena>,
    /// The previously allocated chunk. The list only grows.
    older: *mut Chunk,
    class: usize,
    cells: u32,
    /// The number of cells that have a header (ARENA-2).
    initialized: AtomicU32,
    /// The poll times of the tasks in this chunk's cells.
    poll_time: PollTime,
}

impl Chunk {
    fn layout(class: usize, cells: u32) -> Layout {
        let bytes = size_of::<Chunk>() + class_bytes(class) * cells as usize;
        Layout::from_size_align(bytes, align_of::<Chunk>()).expect("a chunk fits the address space")
    }

    /// Returns whether there are cells without a header. Called under ARENA-1.
    fn has_room(&self) -> bool {
        self.initialized.load(Relaxed) < self.cells
    }

    fn cell(this: NonNull<Chunk>, class: usize, index: u32) -> NonNull<Header> {
        let offset = size_of::<Chunk>() + class_bytes(class) * index as usize;
        // SAFETY: `index` is below `cells`, so this stays inside the layout.
        unsafe { this.cast::<u8>().add(offset).cast() }
    }
}

/// Adds to the poll time of the task `id` in `cell`.
///
/// The caller polled the task or saw it being polled. The cell may already hold another task.
///
/// # Safety
///
/// `cell` must be a cell of a live arena.
pub(crate) unsafe fn add_poll_time(cell: NonNull<Header>, id: u64, time: Duration) {
    // SAFETY: by contract.
    let (poll_time, cells, index) = unsafe { poll_time_entry(cell) };
    poll_time.add(cells, index, id, time);
}

/// Adds the part of a poll's duration that the watchdog has not added yet.
///
/// `before` is the task's [`poll_time_of`] when the poll started, and `time` is the poll's duration.
///
/// # Safety
///
/// `cell` must be a cell of a live arena.
pub(crate) unsafe fn add_remaining_poll_time(
    cell: NonNull<Header>,
    id: u64,
    before: Duration,
    time: Duration,
) {
    // SAFETY: by contract.
    unsafe {
        let added = poll_time_of(cell, id).saturating_sub(before);
        add_poll_time(cell, id, time.saturating_sub(added));
    }
}

/// Returns the poll time of the task `id` in `cell`, or zero if the cell already holds another
/// task.
///
/// # Safety
///
/// `cell` must be a cell of a live arena.
pub(crate) unsafe fn poll_time_of(cell: NonNull<Header>, id: u64) -> Duration {
    // SAFETY: by contract.
    let (poll_time, _, index) = unsafe { poll_time_entry(cell) };
    poll_time.get(index, id)
}

/// Returns the poll time of a task.
pub(crate) fn poll_time(task: &TaskRef) -> Duration {
    // SAFETY: the reference keeps the cell alive, and the cell its arena (ARENA-3).
    let (poll_time, _, index) = unsafe { poll_time_entry(task.cell()) };
    poll_time.get(index, task.header().id.get())
}

/// Returns the table of `cell`'s chunk, its number of cells, and the index of `cell`.
///
/// # Safety
///
/// `cell` must be a cell of an arena that stays alive while the result is used.
unsafe fn poll_time_entry<'a>(cell: NonNull<Header>) -> (&'a PollTime, usize, usize) {
    // SAFETY: by contract. Chunks live as long as their arena, and `chunk` is written once, with
    // the header.
    unsafe {
        let chunk = (&raw const (*cell.as_ptr()).chunk).read();
        let head: &'a Chunk = &*chunk.as_ptr();
        let offset = cell.addr().get() - chunk.addr().get() - size_of::<Chunk>();
        (&head.poll_time, head.cells as usize, offset / class_bytes(head.class))
    }
}

struct Class {
    free: *mut Header,
    /// The newest chunk of the class. Only it can have cells without a header.
    newest: Option<NonNull<Chunk>>,
}

struct Local {
    classes: [Class; CLASSES],
    /// The number of freed cells that were put into a free list.
    reclaimed: u64,
    ids: IdBlock,
}

/// The memory of one worker's tasks, aligned to two cache lines against false sharing.
#[repr(align(128))]
pub(crate) struct Arena {
    scheduler: UnsafeCell<Option<NonNull<dyn Schedule>>>,
    local: UnsafeCell<Local>,
    newest: AtomicPtr<Chunk>,
    returned: Stack,
    /// The number of cells in use, counted from `close` on. `close` adds the number at that time.
    ///
    /// Threads that free a cell after the return stack was closed subtract one, possibly before
    /// `close` adds. Once `close` has added, zero means that all cells are free.
    outstanding: AtomicIsize,
    /// The number of cells ever allocated, by spawn site. Written under ARENA-1.
    spawns: SpawnCounts,
}

// SAFETY: ARENA-1 guards `local`, `scheduler` is written once before the arena is shared, and the
// other fields are atomic.
unsafe impl Send for Arena {}
// SAFETY: the reason for `Send` covers `Sync`.
unsafe impl Sync for Arena {}

/// The right to allocate from an arena (ARENA-1).
#[derive(Debug)]
pub(crate) struct Allocator {
    arena: NonNull<Arena>,
}

// SAFETY: the right may move to another thread, but it is never shared.
unsafe impl Send for Allocator {}

impl Arena {
    #[inline] // lets the caller build it in place
    pub(crate) fn new() -> Self {
        const EMPTY: Class = Class { free: ptr::null_mut(), newest: None };
        Self {
            scheduler: UnsafeCell::new(None),
            local: UnsafeCell::new(Local {
                classes: [EMPTY; CLASSES],
                reclaimed: 0,
                ids: IdBlock::default(),
            }),
            newest: AtomicPtr::new(ptr::null_mut()),
            returned: Stack::new(),
            outstanding: AtomicIsize::new(0),
            spawns: SpawnCounts::new(),
        }
    }

    /// Binds the arena to its scheduler, and returns the one right to allocate.
    ///
    /// # Safety
    ///
    /// Must be called once, before the arena is shared. The arena must not move afterwards, and
    /// `scheduler` must outlive it.
    pub(crate) unsafe fn open(&self, scheduler: NonNull<dyn Schedule>) -> Allocator {
        // SAFETY: not shared yet, by contract.
        self.scheduler.with_mut(|own| unsafe { *own = Some(scheduler) });
        Allocator { arena: NonNull::from(self) }
    }

    /// Returns the number of cells ever allocated: one for each task spawned in this arena.
    pub(crate) fn handed_out(&self) -> u64 {
        self.spawns.total()
    }

    /// Calls `f` with each site where tasks of this arena were spawned, and their number.
    pub(crate) fn spawns_by_site(&self, f: impl FnMut(&'static Location<'static>, u64)) {
        self.spawns.read(f);
    }

    /// Returns whether this is an arena of `scheduler`.
    pub(crate) fn belongs_to(&self, scheduler: NonNull<dyn Schedule>) -> bool {
        // SAFETY: `scheduler` is written once, before the arena is shared.
        let own = self.scheduler.with(|own| unsafe { *own });
        own.is_some_and(|own| ptr::addr_eq(own.as_ptr(), scheduler.as_ptr()))
    }

    /// Calls `f` with every live task in the arena. Any thread may call this.
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
            // SAFETY: chunks live as long as the arena.
            let head = unsafe { chunk.as_ref() };
            for index in 0..head.initialized.load(Acquire) {
                f(Chunk::cell(chunk, head.class, index));
            }
            next = head.older;
        }
    }

    /// Claims and drops every future that is still in the arena.
    ///
    /// The thread that shuts the scheduler down calls this after it has closed and drained all
    /// queues.
    pub(crate) fn cancel_all(&self) {
        self.each_cell(|cell| {
            // SAFETY: the cells of a walk have initialized headers (ARENA-2).
            let duty = unsafe { cell.as_ref() }.state.claim_for_shutdown();
            if duty == Shutdown::DropFuture {
                // SAFETY: the claim gives the right of TASK-1.
                unsafe { super::runnable::finish_cancelled(cell) };
            }
        });
    }

    /// Frees a cell that nothing refers to. Any thread may call this.
    ///
    /// # Safety
    ///
    /// The state word must have returned `Free` to the caller, and to no other thread.
    pub(crate) unsafe fn free(cell: NonNull<Header>) {
        // SAFETY: the caller owns the cell, by contract. Chunks outlive their cells (ARENA-3).
        let header = unsafe { cell.as_ref() };
        header.origin.get().release();
        header.state.retire();
        // SAFETY: chunks outlive their cells (ARENA-3).
        let chunk = unsafe { header.chunk.as_ref() };
        if context::owns_arena(chunk.arena.as_ptr()) {
            // SAFETY: this thread holds the allocator, so the arena is alive.
            unsafe { chunk.arena.as_ref() }.local.with_mut(|local| {
                // SAFETY: ARENA-1, this thread holds the allocator.
                let local = unsafe { &mut *local };
                local.reclaimed += 1;
                push_free(&mut local.classes[chunk.class], cell);
            });
            return;
        }
        // SAFETY: ARENA-3 keeps the arena until this cell is counted as free.
        let arena = unsafe { chunk.arena.as_ref() };
        // SAFETY: the cell is in no list.
        if unsafe { arena.returned.push(cell) }.is_err()
            && arena.outstanding.fetch_sub(1, AcqRel) == 1
        {
            // SAFETY: the arena is closed, and this thread took the count to zero.
            let keep_alive = unsafe { chunk.scheduler.as_ref().last_cell_freed() };
            // This may free `header`, `chunk` and `arena`.
            drop(keep_alive);
        }
    }
}

impl Drop for Arena {
    fn drop(&mut self) {
        let mut next = self.newest.load(Acquire);
        while let Some(chunk) = NonNull::new(next) {
            // SAFETY: ARENA-3: no cell is in use, so no thread reads the chunk.
            let (older, layout) = unsafe {
                let chunk = chunk.as_ref();
                chunk.poll_time.free(chunk.cells as usize);
                (chunk.older, Chunk::layout(chunk.class, chunk.cells))
            };
            next = older;
            // SAFETY: `grow` allocated it with this layout.
            unsafe { dealloc(chunk.as_ptr().cast(), layout) };
        }
    }
}

impl Allocator {
    pub(crate) fn arena(&self) -> *const Arena {
        self.arena.as_ptr()
    }

    /// Returns a vacant cell of the class and a new task id, and counts a spawn at `origin`.
    #[inline]
    pub(crate) fn allocate(
        &mut self,
        class: usize,
        ids: &IdSource,
        origin: Origin,
    ) -> (NonNull<Header>, u64) {
        // SAFETY: the allocator is the right of ARENA-1, and the arena outlives it.
        unsafe { self.arena.as_ref().allocate(class, ids, origin) }
    }

    /// Closes the arena: from then on, every free is counted.
    ///
    /// `None` means that cells are still referred to. The thread that frees the last of them calls
    /// [`Schedule::last_cell_freed`].
    pub(crate) fn close(self) -> Option<AllFreed> {
        // SAFETY: the arena outlives its allocator.
        let arena = unsafe { self.arena.as_ref() };
        let returned = arena.returned.close().count() as isize;
        // SAFETY: ARENA-1, by owning the allocator.
        let reclaimed = arena.local.with_mut(|local| unsafe { (*local).reclaimed });
        let in_use = arena.handed_out().wrapping_sub(reclaimed) as isize - returned;
        debug_assert!(in_use >= 0, "more cells freed than allocated");
        // Each free since `returned.close()` has subtracted one, so the count is zero or below
        // before this addition. After it, the count reaches zero exactly when the last cell is
        // freed.
        (arena.outstanding.fetch_add(in_use, AcqRel) + in_use == 0).then_some(AllFreed)
    }
}

/// Proof that every cell of the arena is free.
#[must_use]
pub(crate) struct AllFreed;

impl Arena {
    /// Returns a vacant cell of the class and a new task id, and counts a spawn at `origin`.
    ///
    /// # Safety
    ///
    /// ARENA-1: the calling thread must hold the allocator.
    #[inline]
    pub(crate) unsafe fn allocate(
        &self,
        class: usize,
        ids: &IdSource,
        origin: Origin,
    ) -> (NonNull<Header>, u64) {
        self.local.with_mut(|local| {
            // SAFETY: ARENA-1, by contract.
            let local = unsafe { &mut *local };
            self.spawns.add(origin);
            let id = local.ids.draw(ids);
            let free = local.classes[class].free;
            if let Some(cell) = NonNull::new(free) {
                // SAFETY: the allocator's holder owns the cells of the free list.
                local.classes[class].free = unsafe { cell.as_ref() }.next.load(Relaxed);
                return (cell, id);
            }
            (self.allocate_slow(local, class), id)
        })
    }

    #[cold]
    fn allocate_slow(&self, local: &mut Local, class: usize) -> NonNull<Header> {
        for cell in self.returned.take_all() {
            // SAFETY: the cells of a taken chain belong to the caller, and their chunk is alive.
            let from = unsafe { cell.as_ref().chunk.as_ref() }.class;
            local.reclaimed += 1;
            push_free(&mut local.classes[from], cell);
        }
        let wanted = &mut local.classes[class];
        if let Some(cell) = NonNull::new(wanted.free) {
            // SAFETY: the allocator's holder owns the cells of the free list.
            wanted.free = unsafe { cell.as_ref() }.next.load(Relaxed);
            return cell;
        }
        let chunk = match wanted.newest {
            // SAFETY: chunks live as long as the arena.
            Some(chunk) if unsafe { chunk.as_ref() }.has_room() => chunk,
            _ => self.grow(wanted, class),
        };
        // SAFETY: chunks live as long as the arena.
        let head = unsafe { chunk.as_ref() };
        let index = head.initialized.load(Relaxed);
        debug_assert!(index < head.cells);
        let cell = Chunk::cell(chunk, class, index);
        // SAFETY: unused memory of this chunk, aligned by construction.
        unsafe { cell.write(Header::vacant(chunk)) };
        head.initialized.store(index + 1, Release); // ARENA-2
        cell
    }

    fn grow(&self, wanted: &mut Class, class: usize) -> NonNull<Chunk> {
        let most = ((CHUNK_BYTES - size_of::<Chunk>()) / class_bytes(class)) as u32;
        let cells = match wanted.newest {
            // SAFETY: chunks live as long as the arena.
            Some(chunk) => (unsafe { chunk.as_ref() }.cells * 4).min(most),
            None => FIRST_CELLS,
        };
        let layout = Chunk::layout(class, cells);
        // SAFETY: the layout is not empty.
        let memory = unsafe { alloc(layout) }.cast::<Chunk>();
        let Some(chunk) = NonNull::new(memory) else { handle_alloc_error(layout) };
        let scheduler = self.scheduler.with(|scheduler| {
            // SAFETY: `scheduler` is written once, before the arena is shared.
            unsafe { *scheduler }.expect("the arena is opened before it is used")
        });
        let head = Chunk {
            scheduler,
            arena: NonNull::from(self),
            older: self.newest.load(Relaxed),
            class,
            cells,
            initialized: AtomicU32::new(0),
            poll_time: PollTime::empty(),
        };
        // SAFETY: the memory was just allocated for a Chunk.
        unsafe { chunk.write(head) };
        self.newest.store(chunk.as_ptr(), Release);
        wanted.newest = Some(chunk);
        chunk
    }
}

fn push_free(class: &mut Class, cell: NonNull<Header>) {
    // SAFETY: the cell is free, and the caller owns it.
    unsafe { cell.as_ref() }.next.store(class.free, Relaxed);
    class.free = cell.as_ptr();
}
