//! Station 2, the task cell: the part that is the same for every future type.
//!
//! `spawn` writes a [`Header`] and pushes its task to a queue. The future, later its output,
//! follows the header in the same allocation (`cell`).

use super::arena::Chunk;
use super::data::Attached;
use super::origin::{Origin, OriginCell};
use super::poll_stamp::PollStamp;
use super::state::State;
use super::wait_record::{WaitRecord, WaitWriter};
use super::waker::join_waker::JoinWaker;
use crate::sys::IS_MODEL;
use crate::sys::sync::atomic::{AtomicPtr, AtomicU64, Ordering::*};
use std::cell::Cell;
use std::ptr::NonNull;
use std::sync::atomic::AtomicPtr as StdAtomicPtr;

/// The fixed part of a task cell.
///
/// The rules TASK-1 to TASK-6 of `state` define which thread may access which field, and when.
#[repr(C)]
pub(crate) struct Header {
    /// At offset 0, so that the record has the header's address: it is written with every wait.
    pub(crate) waiting: WaitRecord,
    pub(crate) state: State,
    /// The link of the list that contains the cell: injector, return stack or free list. Written by
    /// the owner of that list.
    pub(crate) next: AtomicPtr<Header>,
    /// The functions that depend on the future's type. Written at spawn, and once more before the
    /// first poll if a hook attaches data (TASK-5).
    pub(crate) vtable: VtableCell,
    /// The chunk of memory that contains the cell; leads to the arena and the scheduler. Written
    /// once, when the cell is created, and read-only afterwards.
    pub(crate) chunk: NonNull<Chunk>,
    /// Written at spawn (TASK-5).
    pub(crate) id: Cell<u64>,
    /// Written at spawn, and once more before the first poll if a hook attaches data (TASK-5).
    pub(crate) origin: OriginCell,
    /// Guarded by TASK-2.
    pub(crate) join_waker: JoinWaker,
    /// Three values in one word, because most polls write all of them:
    ///
    /// - bit 0: whether there is a spare waker (TASK-6),
    /// - bits 1 to 31: the number of polls,
    /// - the upper half: the number of these polls that followed a spawn or a wake-up by others.
    ///
    /// Written under TASK-1. Any thread may read the word; the values are then approximate.
    counts: AtomicU64,
    /// The lower half of the spawning task's id, 0 for none. Written at spawn (TASK-5).
    pub(crate) parent: Cell<u32>,
    /// Milliseconds of the runtime's clock at spawn (TASK-5).
    pub(crate) spawned_ms: Cell<u32>,
}

const SPARE_WAKER: u64 = 1;
const ONE_POLL: u64 = 2;
const ONE_WAKE: u64 = 1 << 32;

/// The value that a poll adds to `Header::counts`. A constant at each start of a poll, so counting
/// is one addition.
#[derive(Clone, Copy)]
pub(crate) struct PollCount(u64);

impl PollCount {
    /// The poll of a task that woke itself.
    pub(crate) const SELF_WOKEN: Self = Self(ONE_POLL);
    /// The poll of a task that was spawned or woken by others, with a spare waker.
    pub(crate) const QUEUED: Self = Self(ONE_POLL + ONE_WAKE + SPARE_WAKER);
}

/// 104 bytes leave 24 for a small future in a cell of 128.
const _: () = assert!(IS_MODEL || size_of::<Header>() == 104);

impl Header {
    /// Creates the header of a new cell that holds no task.
    pub(crate) fn vacant(chunk: NonNull<Chunk>) -> Self {
        Self {
            waiting: WaitRecord::nothing(),
            state: State::free(),
            next: AtomicPtr::new(std::ptr::null_mut()),
            vtable: VtableCell(StdAtomicPtr::new(std::ptr::from_ref(&VACANT).cast_mut())),
            chunk,
            id: Cell::new(0),
            origin: OriginCell::new(Origin::here()),
            join_waker: JoinWaker::empty(),
            counts: AtomicU64::new(0),
            parent: Cell::new(0),
            spawned_ms: Cell::new(0),
        }
    }

    /// Returns the memory of the task's future, while the future exists.
    pub(crate) fn future_memory(&self) -> FutureMemory {
        let memory = self.vtable.get().memory;
        FutureMemory { address: std::ptr::from_ref(self).addr() + memory.address, ..memory }
    }

    /// Returns the attachment of the task, if a hook has set data.
    pub(crate) fn attached(&self) -> Option<&Attached> {
        // SAFETY: a reference to the header keeps the cell alive, and the origin is released with
        // the cell.
        unsafe { self.origin.get().attached() }
    }

    pub(crate) fn id(&self) -> super::Id {
        super::Id::from_u64(self.id.get())
    }

    /// Returns the number of polls, modulo 2³¹.
    #[inline]
    pub(crate) fn polls(&self) -> u32 {
        self.counts.load(Relaxed) as u32 / ONE_POLL as u32
    }

    /// Returns whether the task was never polled.
    ///
    /// Checks the whole word, because a poll count that wraps leaves a carry in the upper half.
    pub(crate) fn was_never_polled(&self) -> bool {
        self.counts.load(Relaxed) <= SPARE_WAKER
    }

    /// Returns the stamp that identifies the current or last poll in wait records.
    #[inline]
    pub(crate) fn poll_stamp(&self) -> PollStamp {
        PollStamp::from_doubled(self.counts.load(Relaxed) as u32)
    }

    /// Returns the writer of the task's wait record, for the current poll.
    #[inline]
    pub(crate) fn wait_writer(&self) -> WaitWriter<'_> {
        WaitWriter { waiting: &self.waiting, stamp: self.poll_stamp() }
    }

    /// Returns the number of polls that followed a wake-up by others, modulo 2³². The number is one
    /// too high for each wrap of the poll count.
    pub(crate) fn wakes(&self) -> u32 {
        // The first of these polls followed the spawn.
        ((self.counts.load(Relaxed) >> 32) as u32).saturating_sub(1)
    }

    /// Resets the counts for a new task in this cell.
    #[inline]
    pub(crate) fn reset_counts(&self) {
        self.counts.store(0, Relaxed);
    }

    /// Counts a poll that starts, under TASK-1.
    #[inline]
    pub(crate) fn count_poll(&self, count: PollCount) {
        let counts = self.counts.load(Relaxed);
        // A spare waker belongs to one poll, and to the queue entry of a task that woke itself.
        debug_assert!(counts & count.0 & SPARE_WAKER == 0, "two spare wakers");
        self.counts.store(counts.wrapping_add(count.0), Relaxed);
    }

    #[inline]
    pub(crate) fn has_spare_waker(&self) -> bool {
        self.counts.load(Relaxed) & SPARE_WAKER != 0
    }

    /// Takes the spare waker, under TASK-1, and returns whether there was one.
    #[inline]
    pub(crate) fn take_spare_waker(&self) -> bool {
        let counts = self.counts.load(Relaxed);
        let has_spare = counts & SPARE_WAKER != 0;
        if has_spare {
            self.counts.store(counts & !SPARE_WAKER, Relaxed);
        }
        has_spare
    }

    /// Keeps a dropped waker as the spare waker, under TASK-1. Returns false if there already is
    /// one.
    #[inline]
    pub(crate) fn try_keep_spare_waker(&self) -> bool {
        let counts = self.counts.load(Relaxed);
        let has_none = counts & SPARE_WAKER == 0;
        if has_none {
            self.counts.store(counts | SPARE_WAKER, Relaxed);
        }
        has_none
    }
}

/// The vtable of a task.
///
/// A std atomic even in models, because models attach no data.
pub(crate) struct VtableCell(StdAtomicPtr<Vtable>);

impl VtableCell {
    /// Returns the vtable.
    ///
    /// Pairs with `attach`: the thread that shuts the runtime down may cancel a task whose spawn hook
    /// is still running.
    #[inline]
    pub(crate) fn get(&self) -> &Vtable {
        // SAFETY: `set` stored a static, or `attach` a vtable that lives as long as the task.
        unsafe { &*self.0.load(Acquire) }
    }

    /// Writes the vtable of a new task. The state word publishes it.
    #[inline]
    pub(crate) fn set(&self, vtable: &'static Vtable) {
        self.0.store(std::ptr::from_ref(vtable).cast_mut(), Relaxed);
    }

    /// Returns the vtable that `set` wrote.
    ///
    /// # Safety
    ///
    /// `attach` must not have been called for this task.
    pub(super) unsafe fn plain(&self) -> &'static Vtable {
        // SAFETY: by contract it is the static that `set` stored.
        unsafe { &*self.0.load(Relaxed) }
    }

    /// Replaces the vtable of a task that was not polled yet.
    ///
    /// # Safety
    ///
    /// `vtable` must live until the cell is freed.
    pub(super) unsafe fn attach(&self, vtable: &Vtable) {
        self.0.store(std::ptr::from_ref(vtable).cast_mut(), Release);
    }
}

/// The operations on a future whose type is erased.
pub(crate) struct Vtable {
    /// Polls once, under TASK-1. Returns true if the outcome is stored and the future dropped.
    pub(crate) poll: unsafe fn(NonNull<Header>) -> bool,
    /// Drops the future unpolled and stores "cancelled", under TASK-1.
    pub(crate) cancel: unsafe fn(NonNull<Header>, orphaned: bool),
    /// Moves the outcome into a `*mut Result<T, JoinError>`, under TASK-1.
    pub(crate) take_output: unsafe fn(NonNull<Header>, *mut ()),
    /// Drops the stored outcome, under TASK-1.
    pub(crate) drop_output: unsafe fn(NonNull<Header>),
    /// The name of the future's type, for dumps and reports.
    pub(crate) future: fn() -> &'static str,
    /// The future's memory, with its offset from the header in place of the address.
    pub(crate) memory: FutureMemory,
}

/// The memory location of a future, for diagnostics.
#[derive(Clone, Copy)]
pub(crate) struct FutureMemory {
    pub(crate) address: usize,
    pub(crate) len: usize,
    /// Whether the address holds a pointer to the future.
    pub(crate) is_boxed: bool,
}

/// The vtable of a cell without a task, whose operations are never called.
static VACANT: Vtable = {
    fn no_future(_: NonNull<Header>) {
        unreachable!("a vacant cell has no future")
    }
    Vtable {
        poll: |cell| {
            no_future(cell);
            false
        },
        cancel: |cell, _| no_future(cell),
        take_output: |cell, _| no_future(cell),
        drop_output: |cell| no_future(cell),
        future: || "",
        memory: FutureMemory { address: 0, len: 0, is_boxed: false },
    }
};
