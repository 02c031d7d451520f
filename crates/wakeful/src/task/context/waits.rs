//! The functions with which leaf futures record what the current task waits for.
//!
//! The record belongs to the task that this thread polls, or to the `block_on` future if no task is
//! being polled. Outside both, nothing is recorded.

use super::super::block_on::BlockOnRecord;
use super::super::header::Header;
use super::super::poll_stamp::PollStamp;
use super::super::wait_kind::WaitKind;
use super::super::wait_record::{LinkWord, Wait, WaitRecord, WaitWriter};
use super::super::wait_target::TargetWord;
use super::super::waker;
use super::{CONTEXT, ThreadContext};
use std::panic::Location;
use std::ptr::NonNull;
use std::task::Waker;

impl ThreadContext {
    /// Returns the writer of the wait record of the task or `block_on` future that is being polled.
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

    /// Returns the writer of the current task's wait record, if `waker` is a waker of that task.
    #[inline]
    pub(super) fn wait_writer_of_task(&self, waker: &Waker) -> Option<WaitWriter<'_>> {
        let current = self.current.get();
        if !waker::is_waker_of(waker, current) {
            return None;
        }
        // SAFETY: the pointer is a waker's cell, so it is not null, and the task that this thread
        // polls is alive.
        Some(unsafe { &*current }.wait_writer())
    }

    /// Returns the writer of the wait record of the polled `block_on` future, if `waker` is its
    /// waker.
    pub(super) fn wait_writer_of_block_on(&self, waker: &Waker) -> Option<WaitWriter<'_>> {
        if !self.current.get().is_null() {
            return None;
        }
        // SAFETY: the record belongs to the `block_on` that this thread is in.
        let record = unsafe { self.block_on.get().as_ref() }?;
        record.is_waker(waker).then(|| record.wait_writer())
    }

    /// Returns the wait for the end of a task. `target` is that task, perhaps linked.
    #[inline]
    fn join_wait(&self, target: TargetWord, task: &Header) -> Wait {
        Wait {
            kind: WaitKind::Join,
            target,
            site: task.origin.get().spawned_at(),
            since_ms: self.now_ms.get(),
        }
    }
}

/// Returns whether this is a waker of the task or `block_on` future that is being polled.
///
/// A set of futures, such as `FuturesUnordered`, polls with its own wakers.
pub(crate) fn is_own_waker(waker: &Waker) -> bool {
    CONTEXT.with(|context| {
        waker::is_waker_of(waker, context.current.get())
            || context.wait_writer_of_block_on(waker).is_some()
    })
}

/// Records what the current task is about to wait for.
#[inline]
pub(crate) fn record_wait(wait: impl FnOnce(u32) -> Wait) {
    record_unlinked_wait(wait, false);
}

/// Records a wait of a future that knows only where its resource was created, and uses that site.
#[inline]
pub(crate) fn record_wait_at_resource(wait: impl FnOnce(u32) -> Wait) {
    record_unlinked_wait(wait, true);
}

#[inline]
fn record_unlinked_wait(wait: impl FnOnce(u32) -> Wait, at_resource: bool) {
    // The closure is small, so that it is inlined and the wait stays in registers.
    let (current, now_ms) = CONTEXT.with(|context| (context.current.get(), context.now_ms.get()));
    let wait = wait(now_ms);
    // SAFETY: the task that this thread polls is alive.
    match unsafe { current.as_ref() } {
        Some(header) => header.wait_writer().record_unlinked(wait, at_resource),
        None => {
            let Wait { kind, target, site, since_ms } = wait;
            record_wait_of_block_on(kind, target, site, since_ms, at_resource);
        }
    }
}

/// Records a wait of the `block_on` future that is being polled, if there is one.
///
/// Takes the fields of the wait, so that callers keep them in registers.
#[inline(never)]
fn record_wait_of_block_on(
    kind: WaitKind,
    target: TargetWord,
    site: &'static Location<'static>,
    since_ms: u32,
    at_resource: bool,
) {
    CONTEXT.with(|context| {
        if let Some(writer) = context.wait_writer() {
            writer.record_unlinked(Wait { kind, target, site, since_ms }, at_resource);
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
        Some(writer) => _ = writer.record_linked(context.join_wait(target.linked(), task)),
        None => record_join_wait_slow(task, waker),
    });
}

/// [`record_join_wait`] for a `block_on` future, or a future that is polled with another waker.
#[cold]
fn record_join_wait_slow(task: &Header, waker: &Waker) {
    let target = TargetWord::of_task(task.id.get());
    CONTEXT.with(|context| match context.wait_writer_of_block_on(waker) {
        Some(writer) => _ = writer.record_linked(context.join_wait(target.linked(), task)),
        None => record_wait(|_| context.join_wait(target, task)),
    });
}

/// Records a wait for a linked target. Returns the word of the link.
///
/// The link is direct if `waker` belongs to the task or `block_on` future being polled. Then the
/// record lives as long as the waker. Otherwise the link is indirect.
#[inline]
pub(crate) fn record_linked_wait(
    waker: &Waker,
    target: TargetWord,
    kind: WaitKind,
    site: &'static Location<'static>,
) -> Option<LinkWord> {
    // The closure is small, so that it is inlined and its captures stay in registers.
    let (current, since_ms) = CONTEXT.with(|context| (context.current.get(), context.now_ms.get()));
    if !waker::is_waker_of(waker, current) {
        return record_linked_wait_slow(waker, target, kind, site);
    }
    // SAFETY: the pointer is a waker's cell, so it is not null, and the task that this thread polls
    // is alive.
    let writer = unsafe { &*current }.wait_writer();
    writer.record_linked(Wait { kind, target, site, since_ms })
}

/// [`record_linked_wait`] for a `block_on` future, or a future that is polled with another waker.
#[cold]
fn record_linked_wait_slow(
    waker: &Waker,
    target: TargetWord,
    kind: WaitKind,
    site: &'static Location<'static>,
) -> Option<LinkWord> {
    CONTEXT.with(|context| {
        let wait = Wait { kind, target, site, since_ms: context.now_ms.get() };
        match context.wait_writer_of_block_on(waker) {
            Some(writer) => writer.record_linked(wait),
            None => context.wait_writer()?.record_indirect(wait),
        }
    })
}

/// Returns whether the polled task's or `block_on` future's record has this indirect link.
#[cold]
pub(crate) fn has_indirect_link(link: LinkWord) -> bool {
    CONTEXT.with(|context| {
        context.wait_writer().is_some_and(|writer| writer.waiting.has_indirect(link))
    })
}

/// Returns the wait record of the task or `block_on` future being polled, if `waker` is its waker.
///
/// The record lives as long as the waker.
#[inline]
pub(crate) fn wait_record_of(waker: &Waker) -> Option<NonNull<WaitRecord>> {
    CONTEXT.with(|context| {
        let writer =
            context.wait_writer_of_task(waker).or_else(|| context.wait_writer_of_block_on(waker));
        writer.map(|writer| NonNull::from(writer.waiting))
    })
}

/// Returns the stamp of the current poll of a task or `block_on` future.
pub(crate) fn current_poll() -> Option<PollStamp> {
    CONTEXT.with(|context| context.wait_writer().map(|writer| writer.stamp))
}

/// Replaces the site of the recorded wait with the site of the call.
///
/// Used by callers of leaf futures that know only where their resource was created.
#[inline]
pub(crate) fn set_wait_site(site: &'static Location<'static>) {
    CONTEXT.with(|context| {
        if let Some(writer) = context.wait_writer() {
            writer.set_site(site);
        }
    });
}
