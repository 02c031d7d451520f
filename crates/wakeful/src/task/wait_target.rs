//! The target of a wait: [`WaitTarget`], and its one-word form [`TargetWord`].
//!
//! Other threads read a wait record while its task writes it. So kind, link and value share one
//! atomic word, and a reader cannot combine the kind of one write with the value of another.
//!
//! ```text
//! bits 63 to 3      2 to 0
//! value, 61 bits    000 number    010 record    100 task
//!                                 011 linked    110 linked
//! ```
//!
//! Bit 0 alone marks a linked record, because every wait tests it.
//!
//! The value is shifted past kind and link, so a large value cannot overwrite them, but loses its
//! upper bits. No value becomes an address: a resource record is identified by its index in a table
//! (`wait::ownership::resource_record`), which checks the index.

use std::ptr;

/// The target of a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WaitTarget {
    /// A number, or 0 for none. The kind of the wait defines its meaning: a timer tick, a file
    /// descriptor, a process id, a signal, an address.
    Number(u64),
    /// The resource whose record has this index.
    Record(RecordIndex),
    /// The end of the task with this id.
    Task(u64),
}

/// The index of a resource record in the table of `wait::ownership::resource_record`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RecordIndex(pub(crate) u64);

/// A [`WaitTarget`] and its link flag, in one word.
///
/// Linked means that the waker of the waiting task is known to be queued at the target (RECORD-1).
/// A number is never linked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TargetWord(u64);

const NUMBER: u64 = 0b000;
const RECORD: u64 = 0b010;
const LINKED_RECORD: u64 = 0b011;
const TASK: u64 = 0b100;
const LINKED_TASK: u64 = 0b110;
const KIND_AND_LINK: u64 = 0b111;
/// The bit that only a linked record has.
const RECORD_LINK: u64 = LINKED_RECORD & !RECORD;
const TASK_LINK: u64 = LINKED_TASK & !TASK;
const SHIFT: u32 = 3;

impl TargetWord {
    /// No target.
    pub(crate) const NONE: Self = Self(NUMBER);
    /// The largest number that fits.
    pub(crate) const MAX_NUMBER: u64 = u64::MAX >> SHIFT;

    /// A number of 32 bits: a file descriptor, a process id, a signal.
    #[inline]
    pub(crate) const fn of_u32(number: u32) -> Self {
        Self((number as u64) << SHIFT | NUMBER)
    }

    /// A tick of a timer. No tick is larger than [`MAX_NUMBER`](Self::MAX_NUMBER)
    /// (`driver::timers`). Larger values mark a timer that no longer waits; they lose their three
    /// upper bits here, and become ticks in the far future.
    #[inline]
    pub(crate) const fn of_tick(tick: u64) -> Self {
        Self(tick << SHIFT | NUMBER)
    }

    /// The address of a resource, which is only compared and printed. The three upper bits are
    /// dropped, which only the pointer tags of a sanitizer use in a Linux process.
    #[inline]
    pub(crate) fn of_address<T: ?Sized>(resource: &T) -> Self {
        Self((ptr::from_ref(resource).cast::<()>().addr() as u64) << SHIFT | NUMBER)
    }

    /// An unlinked resource record.
    pub(crate) const fn of_record(index: RecordIndex) -> Self {
        assert!(index.0 <= Self::MAX_NUMBER, "the index of a record fits into 61 bits");
        Self(index.0 << SHIFT | RECORD)
    }

    /// The end of a task, unlinked. Ids count from 1, so they fit (`task::id`).
    #[inline]
    pub(crate) const fn of_task(id: u64) -> Self {
        Self(id << SHIFT | TASK)
    }

    /// Returns this target with a link. A number stays unlinked.
    #[inline]
    pub(crate) const fn linked(self) -> Self {
        match self.0 & KIND_AND_LINK {
            RECORD => Self(self.0 | RECORD_LINK),
            TASK => Self(self.0 | TASK_LINK),
            _ => self,
        }
    }

    /// Returns this target without its link.
    #[inline]
    pub(crate) const fn unlinked(self) -> Self {
        match self.0 & KIND_AND_LINK {
            LINKED_TASK => Self(self.0 & !TASK_LINK),
            _ => Self(self.0 & !RECORD_LINK),
        }
    }

    /// Returns this target without its link, if it is a linked resource record.
    #[inline]
    pub(super) const fn unlinked_record(self) -> Option<Self> {
        if self.is_linked_record() { Some(Self(self.0 & !RECORD_LINK)) } else { None }
    }

    #[inline]
    pub(crate) const fn is_linked(self) -> bool {
        self.is_linked_record() || self.0 & KIND_AND_LINK == LINKED_TASK
    }

    /// Returns whether this is a linked resource record.
    #[inline]
    pub(crate) const fn is_linked_record(self) -> bool {
        self.0 & RECORD_LINK != 0
    }

    pub(crate) const fn target(self) -> WaitTarget {
        let value = self.0 >> SHIFT;
        match self.0 & KIND_AND_LINK {
            RECORD | LINKED_RECORD => WaitTarget::Record(RecordIndex(value)),
            TASK | LINKED_TASK => WaitTarget::Task(value),
            _ => WaitTarget::Number(value),
        }
    }

    /// Returns the bits for the atomic field of a wait record.
    #[inline]
    pub(super) const fn to_bits(self) -> u64 {
        self.0
    }

    /// Creates a word from the atomic field of a wait record, which only stores results of
    /// `to_bits`.
    ///
    /// Other bits would give a target that does not exist, but no undefined behaviour.
    #[inline]
    pub(super) const fn from_bits(bits: u64) -> Self {
        Self(bits)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn is_linked_task(word: TargetWord) -> bool {
        word.is_linked() && matches!(word.target(), WaitTarget::Task(_))
    }

    /// Every number with one bit set, with all bits below it set, or with all bits above it set.
    fn numbers() -> impl Iterator<Item = u64> {
        (0..64).flat_map(|bit| [1 << bit, (1 << bit) - 1, u64::MAX << bit])
    }

    #[test]
    fn numbers_are_never_records_or_tasks() {
        for number in numbers() {
            let word = TargetWord::of_tick(number);
            let fitting = number & TargetWord::MAX_NUMBER;
            assert_eq!(word.target(), WaitTarget::Number(fitting), "{number:#x}");
            let linked = word.linked();
            assert!(!linked.is_linked(), "{number:#x}: a number is never linked");
            assert!(!linked.is_linked_record() && !is_linked_task(linked), "{number:#x}");
        }
        for number in [0, 1, i32::MAX as u32, i32::MIN as u32, u32::MAX] {
            let word = TargetWord::of_u32(number);
            assert_eq!(word.target(), WaitTarget::Number(number.into()));
        }
        let value = 7_u64;
        let address = ptr::from_ref(&value).addr() as u64;
        assert_eq!(TargetWord::of_address(&value).target(), WaitTarget::Number(address));
        assert_eq!(TargetWord::NONE.target(), WaitTarget::Number(0));
    }

    #[test]
    fn records_and_tasks_round_trip() {
        for value in numbers().filter(|number| *number <= TargetWord::MAX_NUMBER) {
            let record = TargetWord::of_record(RecordIndex(value));
            let task = TargetWord::of_task(value);
            for (word, target) in
                [(record, WaitTarget::Record(RecordIndex(value))), (task, WaitTarget::Task(value))]
            {
                assert!(!word.is_linked());
                let linked = word.linked();
                assert!(linked.is_linked() && linked.unlinked() == word);
                assert_eq!((word.target(), linked.target()), (target, target));
                assert_eq!(TargetWord::from_bits(linked.to_bits()), linked);
            }
            assert!(record.linked().is_linked_record() && !is_linked_task(record.linked()));
            assert_eq!(record.linked().unlinked_record(), Some(record));
            assert!(record.unlinked_record().is_none());
            assert!(task.unlinked_record().is_none() && task.linked().unlinked_record().is_none());
            assert!(is_linked_task(task.linked()) && !task.linked().is_linked_record());
            assert!(!record.is_linked_record() && !is_linked_task(task));
        }
    }
}
