//! Station 7, where wakers wait: the building blocks of every primitive in `sync`.
//!
//! - [`list`]: [`Waiters`](list::Waiters), a FIFO wait list behind a spin lock that also guards the
//!   state of the primitive. A [`Waiter`](list::Waiter) is a node of the list, inside the waiting
//!   future.
//! - [`atomic_waker`]: [`AtomicWaker`](atomic_waker::AtomicWaker), a cell for the waker of one
//!   task.
//! - [`wait_counter`]: [`WaitCounter`](wait_counter::WaitCounter), a counter that tasks wait on.
//! - [`wake_batch`]: wakers that are collected under a lock and woken after its release.
//! - [`ownership`]: which task owns a resource, for deadlock detection and dumps.
//! - [`block_on`]: blocks a thread, instead of a task, on a future.
//! - [`describe`]: details of a wait, requested by the deadlock scanner.
//! - [`rerun_gate`]: runs work on one thread at a time, and again on request.
//!
//! A [`Waiter`](list::Waiter) belongs to its future, which leaves the list when it is dropped. An
//! [`AtomicWaker`](atomic_waker::AtomicWaker), or a waiter that is part of the resource, keeps the
//! last waker. The documentation of `sync` lists which primitives do so.
//!
//! Control enters when a pending future is polled. It leaves through a waker when another task
//! grants the future's request. Wakers are foreign code: they are cloned before a lock is acquired,
//! and woken and dropped after it is released.
#![allow(unsafe_code)]

pub(crate) mod atomic_waker;
pub(crate) mod block_on;
pub(crate) mod describe;
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

/// Records what the current task is about to wait for, by the address of the resource.
///
/// A leaf future calls this before it returns `Pending`.
#[inline]
pub(crate) fn record_wait<T: ?Sized>(
    kind: WaitKind,
    resource: &T,
    site: &'static Location<'static>,
) {
    record_wait_for_target(kind, TargetWord::of_address(resource), site);
}

/// Records what the current task is about to wait for, by its target, such as a file descriptor.
#[inline]
pub(crate) fn record_wait_for_target(
    kind: WaitKind,
    target: TargetWord,
    site: &'static Location<'static>,
) {
    context::record_wait(|since_ms| Wait { kind, target, site, since_ms });
}

/// Records a wait of a future that knows only `site`, where its resource was created.
///
/// The methods of the extension traits replace that site with the site of the call.
#[inline]
pub(crate) fn record_wait_at_resource(
    kind: WaitKind,
    target: TargetWord,
    site: &'static Location<'static>,
) {
    context::record_wait_at_resource(|since_ms| Wait { kind, target, site, since_ms });
}

/// Records a wait for a resource whose list links its waiters' wait records, and keeps a link.
///
/// `target` comes from [`RecordCell::target`](ownership::resource_record::RecordCell::target).
#[inline]
pub(crate) fn record_wait_keeping_link(
    kind: WaitKind,
    target: TargetWord,
    site: &'static Location<'static>,
) {
    context::record_wait_keeping_link(|since_ms| Wait { kind, target, site, since_ms });
}
