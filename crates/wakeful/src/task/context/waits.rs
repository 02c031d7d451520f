//! Leaf futures record here what the current task waits for.
//!
//! The record is that of the task that this thread polls, or of the `block_on` future if no task is
//! being polled. Outside of both, nothing is recorded.

use super::super::block_on::BlockOnRecord;
use super::super::header::Header;
use super::super::wait_kind::WaitKind;
use super::super::wait_record::{Wait, WaitRecord, WaitWriter};
use super::super::wait_target::TargetWord;
use super::super::waker;
use super::{CONTEXT, ThreadContext};
use std::panic::Location;
use std::ptr::NonNull;
use std::task::Waker;

impl ThreadContext {
    /// The writer of the wait record of the task or `block_on` future that is being polled.
    #[inline]
    pub(super) fn wait_writer(&self) -> Option<WaitWriter<'_>> {
        // SAFETY: the task that this thread polls is alive, and so is the record of the `block_on`
        // that this thread is in.
        unsafe {
            match self.current.get().as_ref() {
                Some(header) => Some(header.wait_writer()),
                None => self.block_on.get().as_ref().map(BlockOnRecord::wait_writer),
            }
        }
    }

    /// The writer of the current task's wait record, if `waker` is a waker of that task.
    #[inline]
    pub(super) fn wait_writer_of_task(&self, waker: &Waker) -> Option<WaitWriter<'_>> {
        let current = self.current.get();
        if !waker::is_waker_of(waker, current) {
            return None;
        }
        // SAFETY: the task that this thread polls is alive.
        unsafe { current.as_ref() }.map(Header::wait_writer)
    }

    /// The writer of the wait record of the `block_on` future that is being polled, if `waker` is
    /// its waker.
    pub(super) fn wait_writer_of_block_on(&self, waker: &Waker) -> Option<WaitWriter<'_>> {
        if !self.current.get().is_null() {
            return None;
        }
        // SAFETY: this thread is in the `block_on` that the record is of.
        let record = unsafe { self.block_on.get().as_ref() }?;
        record.is_waker(waker).then(|| record.wait_writer())
    }

    /// The wait for the end of a task. `target` is that task, perhaps linked.
    #[inline]
    fn join_wait(&self, target: TargetWord, task: &Header) -> Wait {
        Wait {
            kind: WaitKind::Join,
            target,
            site: task.origin.get().spawned_at(),
            since_ms: self.now_ms.get(),
        }
    }

    #[inline]
    fn record_linked(
        &self,
        writer: WaitWriter<'_>,
        target: TargetWord,
        kind: WaitKind,
        site: &'static Location<'static>,
    ) -> NonNull<WaitRecord> {
        let since_ms = self.now_ms.get();
        writer.record_linked(Wait { kind, target, site, since_ms });
        NonNull::from(writer.waiting)
    }
}

/// Records what the current task is about to wait for.
#[inline]
pub(crate) fn record_wait(wait: impl FnOnce(u32) -> Wait) {
    CONTEXT.with(|context| {
        if let Some(writer) = context.wait_writer() {
            writer.record(wait(context.now_ms.get()));
        }
    });
}

/// Records a wait of a future that knows only where its resource was made: the site of the wait.
#[inline]
pub(crate) fn record_wait_at_resource(wait: impl FnOnce(u32) -> Wait) {
    CONTEXT.with(|context| {
        if let Some(writer) = context.wait_writer() {
            writer.record_at_resource(wait(context.now_ms.get()));
        }
    });
}

/// Records a wait that usually only ends another one: a deadline, a notification.
///
/// It does not replace a wait of this poll that is linked to a resource record. A lock that the
/// task waits for as well explains more.
#[inline]
pub(crate) fn record_secondary_wait(wait: impl FnOnce(u32) -> Wait) {
    CONTEXT.with(|context| {
        if let Some(writer) = context.wait_writer().filter(|writer| !writer.is_linked_to_resource())
        {
            writer.record(wait(context.now_ms.get()));
        }
    });
}

/// Records a wait, unless this poll has already recorded one.
#[inline]
pub(crate) fn record_wait_if_none(wait: impl FnOnce(u32) -> Wait) {
    CONTEXT.with(|context| {
        if let Some(writer) = context.wait_writer() {
            writer.record_if_none(|| wait(context.now_ms.get()));
        }
    });
}

/// Records a wait, and keeps the link if the record is already linked to the same target.
#[inline]
pub(crate) fn record_wait_keeping_link(wait: impl FnOnce(u32) -> Wait) {
    CONTEXT.with(|context| {
        if let Some(writer) = context.wait_writer() {
            writer.record_keeping_link(wait(context.now_ms.get()));
        }
    });
}

/// Records that the current task waits for the end of `task`, which holds `waker`.
///
/// The record is linked if `waker` belongs to the task or `block_on` future being polled.
#[inline]
pub(in crate::task) fn record_join_wait(task: &Header, waker: &Waker) {
    let target = TargetWord::of_task(task.id.get());
    CONTEXT.with(|context| match context.wait_writer_of_task(waker) {
        Some(writer) => writer.record_linked(context.join_wait(target.linked(), task)),
        None => record_join_wait_slow(task, waker),
    });
}

/// [`record_join_wait`] for a `block_on` future, or a future that is polled with another waker.
#[cold]
fn record_join_wait_slow(task: &Header, waker: &Waker) {
    let target = TargetWord::of_task(task.id.get());
    CONTEXT.with(|context| match context.wait_writer_of_block_on(waker) {
        Some(writer) => writer.record_linked(context.join_wait(target.linked(), task)),
        None => record_wait(|_| context.join_wait(target, task)),
    });
}

/// Records a wait for a linked target, if `waker` belongs to the task being polled.
///
/// Returns the record in that case. Otherwise the wait is recorded unlinked. The record is alive as
/// long as the waker is.
#[inline]
pub(crate) fn record_linked_wait(
    waker: &Waker,
    target: TargetWord,
    kind: WaitKind,
    site: &'static Location<'static>,
) -> Option<NonNull<WaitRecord>> {
    CONTEXT.with(|context| match context.wait_writer_of_task(waker) {
        Some(writer) => Some(context.record_linked(writer, target, kind, site)),
        None => record_linked_wait_slow(waker, target, kind, site),
    })
}

/// [`record_linked_wait`] for a `block_on` future, or a future that is polled with another waker.
#[cold]
fn record_linked_wait_slow(
    waker: &Waker,
    target: TargetWord,
    kind: WaitKind,
    site: &'static Location<'static>,
) -> Option<NonNull<WaitRecord>> {
    CONTEXT.with(|context| {
        if let Some(writer) = context.wait_writer_of_block_on(waker) {
            return Some(context.record_linked(writer, target, kind, site));
        }
        record_wait(|since_ms| Wait { kind, target: target.unlinked(), site, since_ms });
        None
    })
}

/// Returns the wait record of the task or `block_on` future being polled, if `waker` is its waker.
///
/// The record is alive as long as the waker is.
#[inline]
pub(crate) fn wait_record_of(waker: &Waker) -> Option<NonNull<WaitRecord>> {
    CONTEXT.with(|context| {
        let writer =
            context.wait_writer_of_task(waker).or_else(|| context.wait_writer_of_block_on(waker));
        writer.map(|writer| NonNull::from(writer.waiting))
    })
}

/// Replaces the site of the recorded wait by that of the call.
///
/// For callers of leaf futures that know only where their resource was made.
#[inline]
pub(crate) fn set_wait_site(site: &'static Location<'static>) {
    CONTEXT.with(|context| {
        if let Some(writer) = context.wait_writer() {
            writer.set_site(site);
        }
    });
}
