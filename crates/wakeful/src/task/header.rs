//! Station 2, the task cell: the part that is the same for every task. It comes
//! from `spawn` and goes to a queue; the future or its output lies behind it.

use super::arena::Chunk;
use super::state::State;
use super::wait_target::{TargetWord, WaitTarget};
use super::waker::join_waker::JoinWaker;
use crate::sys::IS_MODEL;
use crate::sys::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering, Ordering::*};
use std::cell::Cell;
use std::panic::Location;
use std::ptr::NonNull;

/// Rules R1 to R6 of `state` say who may touch which field when.
#[repr(C)]
pub(crate) struct Header {
    /// In front, so that to find it is to have the header: it is written with every wait.
    pub(crate) waiting: WaitRecord,
    pub(crate) state: State,
    /// The link of whichever list the cell is in: injector, queue or free list.
    /// Written by the list's owner.
    pub(crate) next: AtomicPtr<Header>,
    /// What depends on the future's type. Written at spawn (R5).
    pub(crate) vtable: Cell<&'static Vtable>,
    /// The piece of memory the cell was cut from; leads to heap and scheduler.
    /// Written when the memory is cut, then read-only for good.
    pub(crate) chunk: NonNull<Chunk>,
    /// Written at spawn (R5).
    pub(crate) id: Cell<u64>,
    /// Written at spawn (R5).
    pub(crate) origin: Cell<Origin>,
    /// Guarded by R2.
    pub(crate) join_waker: JoinWaker,
    /// In the lower half twice the number of polls, and in its lowest bit whether there is a
    /// spare waker (R6); in the upper half how many of the polls it was queued for, by its
    /// spawn or a wake-up. One word, as most polls write all of it. Written under R1; read by
    /// anybody, approximately.
    counts: AtomicU64,
    /// Low half of the spawning task's id, 0 for none. Written at spawn (R5).
    pub(crate) parent: Cell<u32>,
    /// Milliseconds since the runtime started. Written at spawn (R5).
    pub(crate) spawned_ms: Cell<u32>,
}

const SPARE: u64 = 1;
const ONE_POLL: u64 = 2;
const ONE_QUEUED: u64 = 1 << 32;

/// What a poll adds to the counts of its task: known where the poll starts, so that to
/// count it is one addition.
#[derive(Clone, Copy)]
pub(crate) struct PollCount(u64);

impl PollCount {
    /// Of a task that had queued itself.
    pub(crate) const AGAIN: Self = Self(ONE_POLL);
    /// Of one that somebody else had queued, which comes with a spare waker.
    pub(crate) const QUEUED: Self = Self(ONE_POLL + ONE_QUEUED + SPARE);
}

/// The header of an empty cell leaves room for a small future in 128 bytes.
const _: () = assert!(IS_MODEL || size_of::<Header>() == 104);

impl Header {
    /// What a freshly cut piece of memory starts as.
    pub(crate) fn vacant(chunk: NonNull<Chunk>) -> Self {
        Self {
            waiting: WaitRecord::nothing(),
            state: State::free(),
            next: AtomicPtr::new(std::ptr::null_mut()),
            vtable: Cell::new(&VACANT),
            chunk,
            id: Cell::new(0),
            origin: Cell::new(Origin::here()),
            join_waker: JoinWaker::empty(),
            counts: AtomicU64::new(0),
            parent: Cell::new(0),
            spawned_ms: Cell::new(0),
        }
    }

    pub(crate) fn id(&self) -> super::Id {
        super::Id::from_u64(self.id.get())
    }

    /// How often it was polled, wrapping at half of what fits.
    #[inline]
    pub(crate) fn polls(&self) -> u32 {
        self.counts.load(Relaxed) as u32 / ONE_POLL as u32
    }

    /// What tells this poll, or the last one, from those before; for records.
    #[inline]
    pub(crate) fn poll_stamp(&self) -> PollStamp {
        PollStamp::from_doubled(self.counts.load(Relaxed) as u32)
    }

    /// Where it says what it waits for.
    #[inline]
    pub(crate) fn slot(&self) -> Slot<'_> {
        Slot { waiting: &self.waiting, stamp: self.poll_stamp() }
    }

    /// How often it was polled because somebody else had woken it, wrapping. (One too many
    /// for each time that the polls begin anew.)
    pub(crate) fn wakes(&self) -> u32 {
        // The first time it was its spawn.
        ((self.counts.load(Relaxed) >> 32) as u32).saturating_sub(1)
    }

    /// A new task: it was never polled.
    #[inline]
    pub(crate) fn reset_counts(&self) {
        self.counts.store(0, Relaxed);
    }

    /// A poll starts, under R1.
    #[inline]
    pub(crate) fn count_poll(&self, count: PollCount) {
        let counts = self.counts.load(Relaxed);
        // It belongs to a poll, and to the entry that one made for itself.
        debug_assert!(counts & count.0 & SPARE == 0, "two spare wakers");
        self.counts.store(counts.wrapping_add(count.0), Relaxed);
    }

    /// Whether there is a spare waker.
    #[inline]
    pub(crate) fn has_spare_waker(&self) -> bool {
        self.counts.load(Relaxed) & SPARE != 0
    }

    /// Takes the spare waker, under R1; whether it was there.
    #[inline]
    pub(crate) fn take_spare_waker(&self) -> bool {
        let counts = self.counts.load(Relaxed);
        let is_there = counts & SPARE != 0;
        if is_there {
            self.counts.store(counts & !SPARE, Relaxed);
        }
        is_there
    }

    /// Makes a waker that is no longer needed the spare one, under R1. False: there is one.
    #[inline]
    pub(crate) fn try_keep_spare_waker(&self) -> bool {
        let counts = self.counts.load(Relaxed);
        let has_none = counts & SPARE == 0;
        if has_none {
            self.counts.store(counts | SPARE, Relaxed);
        }
        has_none
    }
}

/// What the runtime must know about a future it has forgotten the type of.
pub(crate) struct Vtable {
    /// Polls once, under R1. True: the outcome is stored, the future gone.
    pub(crate) poll: unsafe fn(NonNull<Header>) -> bool,
    /// Drops the future unpolled and stores "cancelled", under R1.
    pub(crate) cancel: unsafe fn(NonNull<Header>, orphaned: bool),
    /// Moves the outcome into `*mut Result<T, JoinError>`, under R1.
    pub(crate) take_output: unsafe fn(NonNull<Header>, *mut ()),
    /// Drops the stored outcome, under R1.
    pub(crate) drop_output: unsafe fn(NonNull<Header>),
    /// What the future's type is called, for people.
    pub(crate) future: fn() -> &'static str,
}

/// The table of a cell without a task; nobody calls it.
static VACANT: Vtable = {
    fn no(_: NonNull<Header>) {
        unreachable!("a vacant cell has no future")
    }
    Vtable {
        poll: |cell| {
            no(cell);
            false
        },
        cancel: |cell, _| no(cell),
        take_output: |cell, _| no(cell),
        drop_output: |cell| no(cell),
        future: || "",
    }
};

/// Where a task was spawned and what it is called: one word. Most tasks have no
/// name, so a name pays for its own memory; the lowest bit says which it is.
#[derive(Clone, Copy)]
pub(crate) struct Origin(NonNull<u8>);

struct Named {
    name: Box<str>,
    spawned_at: &'static Location<'static>,
}

const NAMED: usize = 1;
const _: () = assert!(align_of::<Location<'static>>() > NAMED && align_of::<Named>() > NAMED);

impl Origin {
    #[track_caller]
    pub(crate) fn here() -> Self {
        Self::at(Location::caller(), None)
    }

    pub(crate) fn at(spawned_at: &'static Location<'static>, name: Option<&str>) -> Self {
        match name {
            None => Self(NonNull::from(spawned_at).cast()),
            Some(name) => {
                let named = Box::new(Named { name: name.into(), spawned_at });
                let ptr = NonNull::from(Box::leak(named)).cast::<u8>();
                Self(ptr.map_addr(|addr| addr | NAMED))
            }
        }
    }

    fn named(&self) -> Option<&Named> {
        if self.0.addr().get() & NAMED == 0 {
            return None;
        }
        // SAFETY: the bit says that `at` leaked a `Named` here; it lives until
        // `release`, which ends this origin.
        Some(unsafe { &*self.0.as_ptr().map_addr(|addr| addr & !NAMED).cast::<Named>() })
    }

    pub(crate) fn name(&self) -> Option<&str> {
        self.named().map(|named| &*named.name)
    }

    pub(crate) fn spawned_at(&self) -> &'static Location<'static> {
        match self.named() {
            Some(named) => named.spawned_at,
            // SAFETY: without the bit, `at` stored a `&'static Location`.
            None => unsafe { self.0.cast().as_ref() },
        }
    }

    /// Frees the name, when the cell is freed.
    pub(crate) fn release(self) {
        if self.0.addr().get() & NAMED != 0 {
            let ptr = self.0.as_ptr().map_addr(|addr| addr & !NAMED).cast::<Named>();
            // SAFETY: leaked in `at`, released once: the cell is being freed.
            drop(unsafe { Box::from_raw(ptr) });
        }
    }
}

/// What the task was last seen waiting for: written by the leaf future that
/// returns `Pending`, a few plain stores, read by whoever asks why the task is
/// not running.
pub(crate) struct WaitRecord {
    /// A [`TargetWord`]: kind, link and value in one word, so that readers see all or none of a
    /// write. Only `set_target` stores here.
    target: AtomicU64,
    site: AtomicPtr<Location<'static>>,
    /// Milliseconds since when.
    since_ms: AtomicU32,
    /// The kind in the lowest byte, NOTHING before the first record, in the one above it how the
    /// task ended, which is not about waiting and sits here because there is room, and in the
    /// upper half in which poll. One store
    /// per record: no task that ended waits, and none that waits has ended. The outcome is
    /// written under R1 before COMPLETE.
    about: AtomicU32,
}

/// Which poll something was recorded in: 15 bits of its number, at the upper end. The bit below
/// means nothing.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PollStamp(u32);

impl PollStamp {
    const MASK: u32 = 0x7fff << 17;

    /// Of a number that is given twice, and perhaps one more.
    #[inline]
    pub(crate) const fn from_doubled(polls: u32) -> Self {
        Self(polls << 16)
    }

    #[inline]
    pub(crate) fn same_poll(self, other: PollStamp) -> bool {
        (self.0 ^ other.0) & Self::MASK == 0
    }
}

/// A record, and the poll that it is written in.
#[derive(Clone, Copy)]
pub(crate) struct Slot<'a> {
    pub(crate) waiting: &'a WaitRecord,
    pub(crate) stamp: PollStamp,
}

/// No kind: nothing is recorded, or the task has ended.
const NOTHING: u8 = 0;
const OUTCOME_SHIFT: u32 = 8;

/// The kinds of things a task waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum WaitKind {
    /// Another task's end.
    Join = 1,
    /// Its turn, after a yield.
    Yield = 2,
    /// A moment.
    Sleep = 3,
    /// A notification.
    Notified = 4,
    /// A mutex that another holds.
    Mutex = 5,
    /// Shared access that a writer keeps away.
    RwLockRead = 6,
    /// Exclusive access that others keep away.
    RwLockWrite = 7,
    /// Permits that others hold.
    Semaphore = 8,
    /// The others at a barrier.
    Barrier = 9,
    /// A value that another task computes.
    OnceCell = 10,
    /// A value that another task is to set.
    SetOnce = 11,
    /// The value of a oneshot channel.
    OneshotRecv = 12,
    /// The end of a oneshot's receiver.
    OneshotClosed = 13,
    /// A message from any of a channel's senders.
    MpscRecv = 14,
    /// Room for a message.
    MpscSend = 15,
    /// The end of a channel's receiver.
    MpscClosed = 16,
    /// A message for everybody.
    BroadcastRecv = 17,
    /// The end of all receivers of a broadcast.
    BroadcastClosed = 18,
    /// A new value of a watched one.
    WatchChanged = 19,
    /// The end of all who watch.
    WatchClosed = 20,
    /// Data from a descriptor.
    IoRead = 21,
    /// Room in a descriptor's buffer.
    IoWrite = 22,
    /// Whatever a descriptor is to become ready for.
    IoReady = 23,
    /// Somebody to connect.
    Accept = 24,
    /// The other side of a connection.
    Connect = 25,
    /// Data in a pipe in memory.
    MemoryRead = 26,
    /// Room in a pipe in memory.
    MemoryWrite = 27,
    /// Data from a file.
    FileRead = 30,
    /// Data on its way to a file.
    FileWrite = 31,
    /// Anything else that is done with files.
    FileOp = 32,
    /// A child process's end.
    ChildExit = 40,
    /// A signal from the system.
    Signal = 41,
    /// Standard input.
    Stdin = 42,
    /// Standard output or error, to take what was written.
    Stdout = 43,
    /// A future that is not ours; only the place is known.
    Unknown = 255,
}

impl WaitKind {
    /// Whether the target's number is that of a descriptor.
    pub(crate) fn is_for_descriptor(self) -> bool {
        (WaitKind::IoRead as u8..=WaitKind::Connect as u8).contains(&(self as u8))
    }

    fn from_u8(kind: u8) -> Self {
        match kind {
            1 => WaitKind::Join,
            2 => WaitKind::Yield,
            3 => WaitKind::Sleep,
            4 => WaitKind::Notified,
            5 => WaitKind::Mutex,
            6 => WaitKind::RwLockRead,
            7 => WaitKind::RwLockWrite,
            8 => WaitKind::Semaphore,
            9 => WaitKind::Barrier,
            10 => WaitKind::OnceCell,
            11 => WaitKind::SetOnce,
            12 => WaitKind::OneshotRecv,
            13 => WaitKind::OneshotClosed,
            14 => WaitKind::MpscRecv,
            15 => WaitKind::MpscSend,
            16 => WaitKind::MpscClosed,
            17 => WaitKind::BroadcastRecv,
            18 => WaitKind::BroadcastClosed,
            19 => WaitKind::WatchChanged,
            20 => WaitKind::WatchClosed,
            21 => WaitKind::IoRead,
            22 => WaitKind::IoWrite,
            23 => WaitKind::IoReady,
            24 => WaitKind::Accept,
            25 => WaitKind::Connect,
            26 => WaitKind::MemoryRead,
            27 => WaitKind::MemoryWrite,
            30 => WaitKind::FileRead,
            31 => WaitKind::FileWrite,
            32 => WaitKind::FileOp,
            40 => WaitKind::ChildExit,
            41 => WaitKind::Signal,
            42 => WaitKind::Stdin,
            43 => WaitKind::Stdout,
            _ => WaitKind::Unknown,
        }
    }

    /// The name of the call that waits.
    pub(crate) fn name(self) -> &'static str {
        match self {
            WaitKind::Unknown => "unknown",
            WaitKind::Join => "JoinHandle",
            WaitKind::Yield => "yield_now",
            WaitKind::Sleep => "sleep",
            WaitKind::Notified => "Notify::notified",
            WaitKind::Mutex => "Mutex::lock",
            WaitKind::RwLockRead => "RwLock::read",
            WaitKind::RwLockWrite => "RwLock::write",
            WaitKind::Semaphore => "Semaphore::acquire",
            WaitKind::Barrier => "Barrier::wait",
            WaitKind::OnceCell => "OnceCell::get_or_init",
            WaitKind::SetOnce => "SetOnce::wait",
            WaitKind::OneshotRecv => "oneshot::Receiver",
            WaitKind::OneshotClosed => "oneshot::Sender::closed",
            WaitKind::MpscRecv => "mpsc::Receiver::recv",
            WaitKind::MpscSend => "mpsc::Sender::send",
            WaitKind::MpscClosed => "mpsc::Sender::closed",
            WaitKind::BroadcastRecv => "broadcast::Receiver::recv",
            WaitKind::BroadcastClosed => "broadcast::Sender::closed",
            WaitKind::WatchChanged => "watch::Receiver::changed",
            WaitKind::WatchClosed => "watch::Sender::closed",
            WaitKind::IoRead => "read",
            WaitKind::IoWrite => "write",
            WaitKind::IoReady => "ready",
            WaitKind::Accept => "accept",
            WaitKind::Connect => "connect",
            WaitKind::FileRead => "File::read",
            WaitKind::FileWrite => "File::write",
            WaitKind::FileOp => "fs",
            WaitKind::ChildExit => "Child::wait",
            WaitKind::Signal => "Signal::recv",
            WaitKind::Stdin => "Stdin::read",
            WaitKind::Stdout => "Stdout::write",
            WaitKind::MemoryRead => "read in memory",
            WaitKind::MemoryWrite => "write in memory",
        }
    }

    /// A phrase that follows "waiting for".
    pub(crate) fn phrase(self) -> &'static str {
        match self {
            WaitKind::Unknown => "a future that is not wakeful's own",
            WaitKind::Join => "a task to end (JoinHandle)",
            WaitKind::Yield => "its turn (yield_now)",
            WaitKind::Sleep => "a moment (sleep, interval or timeout)",
            WaitKind::Notified => "a notification (Notify)",
            WaitKind::Mutex => "a lock (Mutex::lock)",
            WaitKind::RwLockRead => "a shared lock (RwLock::read)",
            WaitKind::RwLockWrite => "an exclusive lock (RwLock::write)",
            WaitKind::Semaphore => "permits (Semaphore::acquire)",
            WaitKind::Barrier => "the others to arrive (Barrier::wait)",
            WaitKind::OnceCell => "a value that another task computes (OnceCell)",
            WaitKind::SetOnce => "a value to be set (SetOnce)",
            WaitKind::OneshotRecv => "a value (oneshot::Receiver)",
            WaitKind::OneshotClosed => "a receiver to go away (oneshot::Sender::closed)",
            WaitKind::MpscRecv => "a message (mpsc::Receiver)",
            WaitKind::MpscSend => "room in a channel (mpsc::Sender)",
            WaitKind::MpscClosed => "a receiver to go away (mpsc::Sender::closed)",
            WaitKind::BroadcastRecv => "a message (broadcast::Receiver)",
            WaitKind::BroadcastClosed => "the receivers to go away (broadcast::Sender::closed)",
            WaitKind::WatchChanged => "a change (watch::Receiver)",
            WaitKind::WatchClosed => "the receivers to go away (watch::Sender::closed)",
            WaitKind::IoRead | WaitKind::MemoryRead => "data to read",
            WaitKind::IoWrite | WaitKind::MemoryWrite => "room to write",
            WaitKind::IoReady => "a descriptor to become ready",
            WaitKind::Accept => "a connection (accept)",
            WaitKind::Connect => "a connection to be made (connect)",
            WaitKind::FileRead => "data from a file",
            WaitKind::FileWrite => "data to be written to a file",
            WaitKind::FileOp => "an operation on a file or folder",
            WaitKind::ChildExit => "a child process to end (Child::wait)",
            WaitKind::Signal => "a signal",
            WaitKind::Stdin => "standard input",
            WaitKind::Stdout => "standard output or error to take what was written",
        }
    }
}

/// A copy of a [`WaitRecord`] slot.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wait {
    pub(crate) kind: WaitKind,
    pub(crate) target: TargetWord,
    pub(crate) site: &'static Location<'static>,
    pub(crate) since_ms: u32,
}

impl WaitRecord {
    pub(crate) fn nothing() -> Self {
        Self {
            target: AtomicU64::new(TargetWord::NONE.to_bits()),
            site: AtomicPtr::new(std::ptr::null_mut()),
            since_ms: AtomicU32::new(0),
            about: AtomicU32::new(0),
        }
    }

    /// Nothing is recorded, and no outcome.
    #[inline]
    pub(crate) fn clear(&self) {
        self.about.store(0, Relaxed);
    }

    /// How the task ended; 0 if it did not.
    #[inline]
    pub(crate) fn outcome(&self) -> u8 {
        (self.about.load(Relaxed) >> OUTCOME_SHIFT) as u8
    }

    /// Nothing is to be said of what a task waited for that has ended.
    #[inline]
    pub(crate) fn set_outcome(&self, outcome: u8) {
        self.about.store(u32::from(outcome) << OUTCOME_SHIFT, Relaxed);
    }

    #[inline]
    fn target(&self, ordering: Ordering) -> TargetWord {
        TargetWord::from_bits(self.target.load(ordering))
    }

    #[inline]
    fn set_target(&self, target: TargetWord, ordering: Ordering) {
        self.target.store(target.to_bits(), ordering);
    }

    /// The task's waker lies with this target, a linked one, from now on.
    #[inline]
    pub(crate) fn attach(&self, target: TargetWord) {
        debug_assert!(target.is_linked(), "{target:?} is no record and no task");
        // Release: pairs with the Acquire load of `linked_target`.
        self.set_target(target, Release);
    }

    /// The task's waker no longer lies with the target, whichever it is. May run on another
    /// thread beside a write of the task: then one of the two is lost, and no link is made.
    #[inline]
    pub(crate) fn detach(&self) {
        let target = self.target(Relaxed);
        if target.is_linked() {
            self.set_target(target.unlinked(), Relaxed);
        }
    }

    /// With what the task's waker lies, if that is known for certain.
    pub(crate) fn linked_target(&self) -> Option<WaitTarget> {
        let target = self.target(Acquire);
        const TURN: u8 = WaitKind::Yield as u8;
        if let NOTHING | TURN = self.about.load(Relaxed) as u8 {
            return None; // what it waits for has been written over, or was another task's
        }
        target.is_linked().then(|| target.target())
    }

    /// Whether the record is of that poll, and not of a yield: who waits has had its turn.
    #[inline]
    pub(crate) fn is_from_poll(&self, poll: PollStamp) -> bool {
        let about = self.about.load(Relaxed);
        const TURN: u8 = WaitKind::Yield as u8;
        !matches!(about as u8, NOTHING | TURN) && PollStamp(about).same_poll(poll)
    }

    #[inline]
    fn describe(&self, about: u32, since_ms: u32, site: &'static Location<'static>) {
        self.since_ms.store(since_ms, Relaxed);
        self.site.store(std::ptr::from_ref(site).cast_mut(), Relaxed);
        // Release: who sees that something is recorded does not see the place of the
        // task before, in whose cell this one is.
        self.about.store(about, Release);
    }

    /// Replaces the time only.
    pub(crate) fn set_since_ms(&self, since_ms: u32) {
        self.since_ms.store(since_ms, Relaxed);
    }

    /// What was last recorded, if anything. The fields are read one by one: a
    /// reader who races with the task may mix two records, never tear one.
    pub(crate) fn read(&self) -> Option<Wait> {
        let kind = match self.about.load(Acquire) as u8 {
            NOTHING => return None,
            kind => WaitKind::from_u8(kind),
        };
        let site = NonNull::new(self.site.load(Relaxed))?;
        let target = match kind {
            WaitKind::Yield => TargetWord::NONE,
            _ => self.target(Relaxed).unlinked(),
        };
        // SAFETY: `describe` and `set_site` store here, both a `&'static`; null was ruled out.
        let site = unsafe { site.as_ref() };
        Some(Wait { kind, target, site, since_ms: self.since_ms.load(Relaxed) })
    }
}

impl Slot<'_> {
    /// Records a wait whose target is a linked one.
    #[inline]
    pub(crate) fn record_linked(self, wait: Wait) {
        self.describe(wait.kind, wait.since_ms, wait.site);
        self.waiting.attach(wait.target);
    }

    /// Records a wait whose target may be linked already: then it stays so.
    #[inline]
    pub(crate) fn record_keeping_link(self, wait: Wait) {
        if self.waiting.target(Relaxed).unlinked() != wait.target {
            self.waiting.set_target(wait.target, Relaxed);
        }
        self.describe(wait.kind, wait.since_ms, wait.site);
    }

    #[inline]
    pub(crate) fn record(self, wait: Wait) {
        self.waiting.set_target(wait.target, Relaxed);
        self.describe(wait.kind, wait.since_ms, wait.site);
    }

    /// Whether it was recorded in this poll that the task waits, and the waker lies there still. Not
    /// for the end of a task: where a root's waker goes with a handle, its record is not told.
    #[inline]
    pub(crate) fn is_at_plate(self) -> bool {
        self.waiting.target(Relaxed).is_linked_record() && self.waiting.is_from_poll(self.stamp)
    }

    /// As `record`, unless something was recorded in this poll. It waits beside that for something
    /// else, so nothing is certain.
    #[inline]
    pub(crate) fn record_if_nothing(self, wait: impl FnOnce() -> Wait) {
        let about = self.waiting.about.load(Relaxed);
        if about as u8 == NOTHING || !PollStamp(about).same_poll(self.stamp) {
            return self.record(wait());
        }
        if self.waiting.target(Relaxed).is_linked_task() {
            self.waiting.detach();
        }
    }

    /// It gives way for want of budget, polled by somebody within the task.
    pub(crate) fn record_gave_way(self, site: &'static Location<'static>, since_ms: u32) {
        self.describe(WaitKind::Yield, since_ms, site);
    }

    /// It waits for its turn: for nothing that could have its waker, so what is linked
    /// stays so.
    #[inline]
    pub(crate) fn record_turn(self, site: &'static Location<'static>, since_ms: u32) {
        self.waiting.describe(WaitKind::Yield as u32, since_ms, site);
    }

    #[inline]
    fn describe(self, kind: WaitKind, since_ms: u32, site: &'static Location<'static>) {
        self.waiting.describe(kind as u32 | self.stamp.0, since_ms, site);
    }

    /// Replaces the place only, of what was recorded in this poll.
    #[inline]
    pub(crate) fn set_site(self, site: &'static Location<'static>) {
        self.waiting.site.store(std::ptr::from_ref(site).cast_mut(), Relaxed);
        let about = self.waiting.about.load(Relaxed);
        if about as u8 == NOTHING || !PollStamp(about).same_poll(self.stamp) {
            self.waiting.set_target(TargetWord::NONE, Relaxed);
            self.waiting.about.store(WaitKind::Unknown as u32 | self.stamp.0, Release);
        }
    }
}
