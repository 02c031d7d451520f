//! `block_on` on a thread that runs no tasks: on a multi-thread runtime, or through a `Handle`.
//!
//! The thread polls its future, and parks while the future waits. Two guards register the thread
//! with the runtime. [`ParkedGuard`] lets the runtime unpark the thread after a fatal error.
//! [`ExternalBlockOnGuard`] notifies the watchdog when the `block_on` ends, because this may leave
//! a task stuck.

use crate::scheduler::base::SchedulerBase;
use crate::scheduler::block_on::{self, BlockOnGuard, BlockOnState, ParkedBlockOn};
use crate::task::block_on::BlockOnVia;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering::*;
use std::task::{Context, Poll};

impl SchedulerBase {
    /// Returns the `block_on` states of all threads that are in a `block_on` of this scheduler.
    pub(crate) fn block_ons(&self) -> Vec<Arc<BlockOnState>> {
        block_on::states_of(self.address())
    }

    /// Returns whether a `block_on` waits on a thread that runs no tasks.
    #[inline]
    pub(crate) fn has_external_block_on(&self) -> bool {
        self.external_block_ons.load(Relaxed) > 0
    }

    /// Reads the poll counters of all `block_on` futures.
    pub(crate) fn block_on_polls(&self) -> BlockOnPolls {
        let block_ons = self.block_ons();
        BlockOnPolls(block_ons.iter().map(|it| (it.record.id, it.record.poll_number())).collect())
    }

    /// Makes every `block_on` of this runtime panic with `error`, now and later.
    ///
    /// If several errors are set, the first one is kept.
    pub(crate) fn fail_block_ons(&self, error: String) {
        let _ = self.fatal_error.set(error);
        self.unpark_block_ons();
    }

    /// Panics with the fatal error, if any.
    ///
    /// # Panics
    ///
    /// If a fatal error has been set.
    #[inline]
    #[track_caller]
    pub(crate) fn panic_if_fatal(&self) {
        if let Some(error) = self.fatal_error.get() {
            panic!("{error}");
        }
    }

    pub(crate) fn has_fatal_error(&self) -> bool {
        self.fatal_error.get().is_some()
    }

    /// Unparks every thread that is parked in `block_on`, so that it checks for a fatal error,
    /// shutdown and lost workers.
    pub(crate) fn unpark_block_ons(&self) {
        for parked in self.parked.lock().iter() {
            parked.unpark();
        }
    }

    /// Polls a future on the calling thread until it is ready.
    ///
    /// `park` waits until the future is woken, and may return earlier.
    ///
    /// # Panics
    ///
    /// If the future panics, or a fatal error has been set.
    #[track_caller]
    pub(crate) fn block_on<F: Future>(
        &self,
        future: F,
        via: BlockOnVia,
        park: impl Fn(&BlockOnGuard),
    ) -> F::Output {
        // Declared first, so that it is dropped after everything else.
        let mut external = (via == BlockOnVia::Handle).then(|| ExternalBlockOnGuard::new(self));
        let mut future = pin!(future);
        let block_on = BlockOnGuard::new(self.address(), via);
        let mut cx = Context::from_waker(block_on.waker());
        let mut parked = None;
        loop {
            self.panic_if_fatal();
            let polled = block_on.poll_if_woken(|| future.as_mut().poll(&mut cx));
            if let Some(Poll::Ready(output)) = polled {
                // This last poll may have dropped the waker of an orphan.
                self.panic_if_fatal();
                return output;
            }
            // This thread adds itself to the list, then checks for an error, then parks. A thread
            // that raises a fatal error stores the error, then reads the list.
            parked.get_or_insert_with(|| ParkedGuard::new(self, &block_on));
            block_on.record().waiting.set_since_ms(self.now_ms());
            external.get_or_insert_with(|| ExternalBlockOnGuard::new(self));
            if polled.is_some() {
                self.notify_progress();
            }
            if !block_on.is_woken() && !self.has_fatal_error() {
                park(&block_on);
            }
        }
    }

    /// Adds a thread that is about to park in `block_on` to the list.
    pub(crate) fn list_parked(&self, parked: ParkedBlockOn) {
        parked.state().record.record_first_wait(self.now_ms());
        self.parked.lock().push(parked);
    }

    pub(crate) fn unlist_parked(&self, parked: &ParkedBlockOn) {
        let mut list = self.parked.lock();
        if let Some(at) = list.iter().rposition(|other| other.is(parked)) {
            list.swap_remove(at);
        }
    }
}

/// Poll counters of all `block_on` futures. Two equal snapshots mean that none was polled in
/// between.
#[derive(Default, PartialEq)]
pub(crate) struct BlockOnPolls(Vec<(u64, u32)>);

impl BlockOnPolls {
    /// Returns whether one of the futures was being polled.
    pub(crate) fn is_any_polled(&self) -> bool {
        self.0.iter().any(|(_, poll)| poll.is_multiple_of(2))
    }
}

/// Counts a `block_on` on a thread that runs no tasks.
///
/// The drop notifies the watchdog, because the end of the `block_on` may leave a task stuck. Not
/// every `block_on` creates this guard, because many end before the watchdog could see them.
pub(crate) struct ExternalBlockOnGuard<'a>(&'a SchedulerBase);

impl<'a> ExternalBlockOnGuard<'a> {
    #[cold]
    pub(crate) fn new(base: &'a SchedulerBase) -> Self {
        base.external_block_ons.fetch_add(1, SeqCst);
        Self(base)
    }
}

impl Drop for ExternalBlockOnGuard<'_> {
    fn drop(&mut self) {
        self.0.external_block_ons.fetch_sub(1, SeqCst);
        self.0.notify_progress();
    }
}

/// Keeps a thread on the list of parked threads until the guard is dropped.
struct ParkedGuard<'a> {
    base: &'a SchedulerBase,
    parked: ParkedBlockOn,
}

impl<'a> ParkedGuard<'a> {
    fn new(base: &'a SchedulerBase, block_on: &BlockOnGuard) -> Self {
        base.list_parked(block_on.parked());
        Self { base, parked: block_on.parked() }
    }
}

impl Drop for ParkedGuard<'_> {
    fn drop(&mut self) {
        self.base.unlist_parked(&self.parked);
    }
}
