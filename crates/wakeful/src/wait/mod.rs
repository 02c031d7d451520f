//! Station 7, the waker holders: where a task's waker lies while the task waits
//! for another. Every primitive of `sync` is built on what is in here.
//!
//! - [`list`]: [`Waiters`](list::Waiters), a first-come-first-served list behind
//!   one small lock, together with whatever else the primitive keeps there; a
//!   [`Waiter`](list::Waiter) is one place in it, part of the future that waits.
//! - [`atomic_waker`]: [`AtomicWaker`](atomic_waker::AtomicWaker), the same for one waiter at a time.
//! - [`wait_counter`]: [`WaitCounter`](wait_counter::WaitCounter), a number and those who wait until it is
//!   another one.
//! - [`wake_batch`]: wakers on their way out of a lock.
//! - [`owner`]: who has what others wait for, for those who ask why; [`owner_slots`]: the
//!   same where anybody may read it; [`resource_record`]: how these find it, from the task that
//!   waits.
//! - [`block_on`]: waiting with a thread instead of a task.
//! - [`rerun_gate`]: what wakers of ours do that are no task's.
//!
//! Who takes a waker back when its future is dropped: `sync`'s documentation has the rule.
//! A [`Waiter`](list::Waiter) in a future belongs to that future, which leaves the list when
//! it is dropped; a waker cell, or a waiter in the resource, keeps the last waker.
//!
//! Control enters by the poll of a future that cannot go on, and leaves through
//! a waker when somebody gives it what it waits for. Wakers are foreign code:
//! they are cloned before a lock is taken, and woken and dropped after it.
#![allow(unsafe_code)]

pub(crate) mod atomic_waker;
pub(crate) mod block_on;
pub(crate) mod list;
pub(crate) mod ownership;
pub(crate) mod rerun_gate;
pub(crate) mod wait_counter;
pub(crate) mod wake_batch;

#[cfg(all(test, loom))]
mod models;

use crate::task::context;
use crate::task::wait_kind::WaitKind;
use crate::task::wait_record::Wait;
use crate::task::wait_target::TargetWord;
use std::panic::Location;

/// Notes what the current task is about to wait for: call it when a leaf future
/// returns `Pending`. `resource` is the address of the thing waited for.
#[inline]
pub(crate) fn record_wait<T: ?Sized>(
    kind: WaitKind,
    resource: &T,
    site: &'static Location<'static>,
) {
    record_wait_for_target(kind, TargetWord::of_address(resource), site);
}

/// As [`record_wait`], for what is most often waited for beside something else.
#[inline]
pub(crate) fn record_secondary_wait<T: ?Sized>(
    kind: WaitKind,
    resource: &T,
    site: &'static Location<'static>,
) {
    let target = TargetWord::of_address(resource);
    context::record_secondary_wait(|since_ms| Wait { kind, target, site, since_ms });
}

/// Notes what the current task is about to wait for, by its target: a descriptor, say.
#[inline]
pub(crate) fn record_wait_for_target(
    kind: WaitKind,
    target: TargetWord,
    site: &'static Location<'static>,
) {
    context::record_wait(|since_ms| Wait { kind, target, site, since_ms });
}

/// As [`record_wait_for_target`], for a resource whose list links the records of its waiters;
/// `target` comes from [`RecordCell::target`](resource_record::RecordCell::target). A link stays.
#[inline]
pub(crate) fn record_wait_keeping_link(
    kind: WaitKind,
    target: TargetWord,
    site: &'static Location<'static>,
) {
    context::record_wait_keeping_link(|since_ms| Wait { kind, target, site, since_ms });
}
