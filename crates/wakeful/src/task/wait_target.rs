//! What a task waits for: the enum [`WaitTarget`], and [`TargetWord`], its form in a wait record.
//!
//! A wait record is read by other threads while its task writes it. So kind, link and value share
//! one atomic word: a reader cannot combine the kind of one write with the value of another.
//!
//! ```text
//! bits 63 to 3          2 to 1                           0
//! value, 61 bits        kind: 0 number, 1 record, 2 task  linked
//! ```
//!
//! The value is shifted past the kind and the link. So no value, however large, reaches them: what
//! does not fit loses its upper bits. No value is ever turned into an address: a resource record is
//! named by its index in a table (`wait::resource_record`), which checks it.

use std::ptr;

/// What a task waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WaitTarget {
    /// A number that means something only together with the kind of the wait: a tick, a
    /// descriptor, a process, a signal, an address; 0 for nothing in particular.
    Number(u64),
    /// The resource with the record of this index.
    Record(RecordIndex),
    /// The end of the task with this id.
    Task(u64),
}

/// The index of a resource record in the table of all of them (`wait::resource_record`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RecordIndex(pub(crate) u64);

/// A [`WaitTarget`] and whether it is linked, in one word.
///
/// Linked means: the waker of the waiting task is known to lie with the target (`wait::resource_record` RECORD-1).
/// A number is never linked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TargetWord(u64);

const LINKED: u64 = 1;
const KIND: u64 = 0b110;
const NUMBER: u64 = 0 << 1;
const RECORD: u64 = 1 << 1;
const TASK: u64 = 2 << 1;
const SHIFT: u32 = 3;

impl TargetWord {
    /// Nothing in particular.
    pub(crate) const NONE: Self = Self(NUMBER);
    /// The largest number that a word holds.
    pub(crate) const MAX_NUMBER: u64 = u64::MAX >> SHIFT;

    /// A number that always fits: a descriptor, a process, a signal.
    #[inline]
    pub(crate) const fn of_u32(number: u32) -> Self {
        Self((number as u64) << SHIFT | NUMBER)
    }

    /// A tick of a timer. None is larger than [`MAX_NUMBER`](Self::MAX_NUMBER) (`driver::timers`).
    /// The numbers beyond, which stand for a timer that no longer waits, lose their three upper
    /// bits and become far ticks.
    #[inline]
    pub(crate) const fn of_tick(tick: u64) -> Self {
        Self(tick << SHIFT | NUMBER)
    }

    /// The address of a resource, as a name that is only compared and printed. Its three upper
    /// bits are dropped; no address of a Linux process has them, but for the tags of a sanitizer.
    #[inline]
    pub(crate) fn of_address<T: ?Sized>(resource: &T) -> Self {
        Self((ptr::from_ref(resource).cast::<()>().addr() as u64) << SHIFT | NUMBER)
    }

    /// A resource record, not linked.
    pub(crate) const fn of_record(index: RecordIndex) -> Self {
        assert!(index.0 <= Self::MAX_NUMBER, "as many records do not fit into memory");
        Self(index.0 << SHIFT | RECORD)
    }

    /// The end of a task, not linked. Ids count from 1, so they fit (`task::id`).
    #[inline]
    pub(crate) const fn of_task(id: u64) -> Self {
        Self(id << SHIFT | TASK)
    }

    /// Returns this target as a linked one. A number stays unlinked.
    #[inline]
    pub(crate) const fn linked(self) -> Self {
        if self.0 & KIND == NUMBER { self } else { Self(self.0 | LINKED) }
    }

    /// Returns this target without its link.
    #[inline]
    pub(crate) const fn unlinked(self) -> Self {
        Self(self.0 & !LINKED)
    }

    #[inline]
    pub(crate) const fn is_linked(self) -> bool {
        self.0 & LINKED != 0
    }

    /// Whether it is a linked resource record.
    #[inline]
    pub(crate) const fn is_linked_record(self) -> bool {
        self.0 & (KIND | LINKED) == RECORD | LINKED
    }

    /// Whether it is a linked task.
    #[inline]
    pub(crate) const fn is_linked_task(self) -> bool {
        self.0 & (KIND | LINKED) == TASK | LINKED
    }

    pub(crate) const fn target(self) -> WaitTarget {
        let value = self.0 >> SHIFT;
        match self.0 & KIND {
            RECORD => WaitTarget::Record(RecordIndex(value)),
            TASK => WaitTarget::Task(value),
            _ => WaitTarget::Number(value),
        }
    }

    /// For the atomic field of a wait record.
    #[inline]
    pub(super) const fn to_bits(self) -> u64 {
        self.0
    }

    /// From the atomic field of a wait record, into which only `to_bits` goes. Of other bits it
    /// would make a target that does not exist, and nothing worse.
    #[inline]
    pub(super) const fn from_bits(bits: u64) -> Self {
        Self(bits)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    /// Every number that has one bit set, all below it, or all above it.
    fn numbers() -> impl Iterator<Item = u64> {
        (0..64).flat_map(|bit| [1 << bit, (1 << bit) - 1, u64::MAX << bit])
    }

    #[test]
    fn no_number_is_taken_for_a_record_or_a_task() {
        for number in numbers() {
            let word = TargetWord::of_tick(number);
            let fitting = number & TargetWord::MAX_NUMBER;
            assert_eq!(word.target(), WaitTarget::Number(fitting), "{number:#x}");
            let linked = word.linked();
            assert!(!linked.is_linked(), "{number:#x}: a number is never linked");
            assert!(!linked.is_linked_record() && !linked.is_linked_task(), "{number:#x}");
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
    fn records_and_tasks_come_back_as_they_were() {
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
            assert!(record.linked().is_linked_record() && !record.linked().is_linked_task());
            assert!(task.linked().is_linked_task() && !task.linked().is_linked_record());
            assert!(!record.is_linked_record() && !task.is_linked_task());
        }
    }
}
