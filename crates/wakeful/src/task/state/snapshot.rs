//! One value of the state word: its flags and counts, and queries on them.

use crate::task::duty::Release;

pub(crate) const RUNNING: u64 = 1 << 0;
pub(crate) const NOTIFIED: u64 = 1 << 1;
pub(crate) const COMPLETE: u64 = 1 << 2;
/// The future must be dropped instead of polled again.
pub(crate) const CANCELLED: u64 = 1 << 3;
pub(crate) const JOIN_INTEREST: u64 = 1 << 4;
pub(crate) const JOIN_WAKER: u64 = 1 << 5;
/// The cell holds a task, as opposed to free memory.
pub(crate) const LIVE: u64 = 1 << 6;
/// CANCELLED was set because the task is an orphan.
pub(crate) const ORPHANED: u64 = 1 << 7;
/// The task is a closure for the blocking pool: it is never idle and never rescheduled.
pub(crate) const BLOCKING: u64 = 1 << 8;
/// The last poll ended inside `may_wait_forever`, so the task is not an orphan.
pub(crate) const EXEMPT: u64 = 1 << 9;
/// The task was spawned with `task::Builder::forever` and is never an orphan.
pub(crate) const FOREVER: u64 = 1 << 10;
/// NOTIFIED belongs to the entry of a thread that is about to find the queues closed. That thread
/// clears both flags in `discard_wake`, `claim_refused_spawn` or `claim_refused_requeue`.
pub(crate) const FOREIGN_ENTRY: u64 = 1 << 11;

const WAKER_SHIFT: u32 = 12;
pub(super) const WAKER_ONE: u64 = 1 << WAKER_SHIFT;
const WAKER_BITS: u32 = 28;
const WAKER_MASK: u64 = ((1 << WAKER_BITS) - 1) << WAKER_SHIFT;
pub(super) const HANDLE_SHIFT: u32 = WAKER_SHIFT + WAKER_BITS;
pub(super) const HANDLE_ONE: u64 = 1 << HANDLE_SHIFT;
pub(super) const HANDLE_MASK: u64 = !((1 << HANDLE_SHIFT) - 1);

const _: () = assert!(FOREIGN_ENTRY < WAKER_ONE, "flags run into the waker count");
const _: () = assert!(WAKER_MASK & HANDLE_MASK == 0 && RUNNING == 1 && NOTIFIED == 2);

/// One value of the state word.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Snapshot(pub(crate) u64);

impl Snapshot {
    /// Computes the transition of a queue entry that finds the queues closed.
    ///
    /// If another thread has `claimed` the future, returns the word without the entry, and whether
    /// to free the cell. Otherwise returns no release, because the holder of the entry drops the
    /// future.
    pub(super) fn refuse_entry(self, claimed: bool) -> (Option<u64>, Option<Release>) {
        if !claimed {
            return (Some((self.0 & !NOTIFIED) | RUNNING | CANCELLED), None);
        }
        let less = Snapshot(self.0 & !(NOTIFIED | FOREIGN_ENTRY));
        let duty = if less.is_free() { Release::Free } else { Release::Nothing };
        (Some(less.0), Some(duty))
    }

    #[inline(always)]
    pub(crate) fn has(self, flag: u64) -> bool {
        self.0 & flag != 0
    }

    pub(crate) fn wakers(self) -> u64 {
        (self.0 & WAKER_MASK) >> WAKER_SHIFT
    }

    pub(crate) fn handles(self) -> u64 {
        (self.0 & HANDLE_MASK) >> HANDLE_SHIFT
    }

    /// Aborts the process if the waker count is about to overflow. `self` is the word before an
    /// increment.
    #[inline(always)]
    pub(super) fn check_wakers(self) {
        if self.wakers() > WAKER_MASK >> (WAKER_SHIFT + 1) {
            count_overflow("134 million wakers");
        }
    }

    /// Returns whether the task is complete and nothing refers to the cell.
    #[inline(always)]
    pub(super) fn is_free(self) -> bool {
        self.0 & (COMPLETE | RUNNING | NOTIFIED | WAKER_MASK | HANDLE_MASK) == COMPLETE
    }

    /// Returns whether the task waits, has no waker, and was not declared to wait forever.
    #[inline(always)]
    pub(super) fn is_orphan(self) -> bool {
        let none_of = RUNNING | NOTIFIED | COMPLETE | CANCELLED | EXEMPT | FOREVER | WAKER_MASK;
        self.0 & none_of == 0
    }
}

impl std::fmt::Debug for Snapshot {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        const NAMES: [(u64, &str); 12] = [
            (RUNNING, "running"),
            (NOTIFIED, "notified"),
            (COMPLETE, "complete"),
            (CANCELLED, "cancelled"),
            (JOIN_INTEREST, "join-interest"),
            (JOIN_WAKER, "join-waker"),
            (LIVE, "live"),
            (ORPHANED, "orphaned"),
            (BLOCKING, "blocking"),
            (EXEMPT, "exempt"),
            (FOREVER, "forever"),
            (FOREIGN_ENTRY, "foreign-entry"),
        ];
        for (_, name) in NAMES.iter().filter(|(flag, _)| self.has(*flag)) {
            write!(f, "{name} ")?;
        }
        write!(f, "wakers={} handles={}", self.wakers(), self.handles())
    }
}

#[cold]
pub(super) fn count_overflow(count: &str) -> ! {
    // As in `Arc`: only leaks can raise the count this far, and an overflow would free a cell in
    // use.
    eprintln!("wakeful: one task has more than {count}, so the program leaks them. Aborting.");
    std::process::abort();
}
