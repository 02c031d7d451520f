//! `block_in_place`: a worker's thread may block, because another thread takes over its core.
//!
//! The blocking thread gives its [`WorkerToken`] to a new thread and stays in its poll without a
//! core. When the poll ends, the blocking thread exits. If no thread can be started, the worker is
//! *lost* ([`lost_workers`](super::lost_workers)), and the blocking thread takes it back after its
//! closure, unless another thread already has.

use crate::scheduler::multi_thread::core::WorkerToken;
use crate::scheduler::multi_thread::lost_workers::Reclaimed;
use crate::scheduler::multi_thread::spare_workers;
use crate::scheduler::multi_thread::worker::Worker;
use crate::task::context;
use crate::task::header::Header;
use std::ptr::{self, NonNull};

/// Runs `f`, which may block, while another thread takes over the worker's core.
///
/// If the calling thread holds no core, or is not in a poll, this just runs `f`. Outside a poll, in
/// a user callback, the worker needs its core afterwards.
///
/// The thread is not active during `f` (SHUTDOWN-4): if the runtime closes, the waits of `f` end.
pub(crate) fn block_in_place<R>(f: impl FnOnce() -> R) -> R {
    /// Restores whether this thread's scheduler wakes deferred wakers.
    struct Restore(bool);
    impl Drop for Restore {
        fn drop(&mut self) {
            context::set_drains_deferred(self.0);
        }
    }
    let mut _lost = None;
    if let Some(worker) = Worker::current()
        && worker.is_in_poll()
        && let Some(token) = worker.take_token()
    {
        _lost = hand_off_core(worker, token);
    } else {
        spare_workers::deactivate_spare();
    }
    // A waker that `f` waits for must not be deferred until the surrounding poll ends.
    let _restore = Restore(context::set_drains_deferred(false));
    context::without_budget(f)
}

/// A worker that was lost while its thread blocks in place.
///
/// On drop, the thread takes the worker back, unless another thread has.
struct LostCore<'a> {
    worker: &'a Worker,
    index: usize,
    running: Option<NonNull<Header>>,
}

impl Drop for LostCore<'_> {
    fn drop(&mut self) {
        let Self { worker, index, running } = *self;
        if let Reclaimed::Yes(token) = worker.scheduler.reclaim(index, &worker.parker) {
            let poll_watch = &worker.scheduler.workers[index].poll_watch;
            worker.end_in_place_poll();
            poll_watch.bind_thread();
            poll_watch.set_running(running.map_or(ptr::null_mut(), NonNull::as_ptr));
            worker.set_token(token);
            worker.scheduler.detach();
            // Needed as for a worker that wakes up, because this poll may block again.
            worker.scheduler.base.wake_watchdog_if_asleep();
        }
    }
}

/// Starts a thread that takes over the core. If that fails, the worker is lost.
fn hand_off_core(worker: &Worker, token: WorkerToken) -> Option<LostCore<'_>> {
    let index = token.0;
    let poll_watch = &worker.scheduler.workers[index].poll_watch;
    worker.scheduler.attach_again();
    // The other thread starts with a new round.
    worker.scheduler.cores[index].next_round(&worker.scheduler);
    let running = poll_watch.running();
    worker.in_place_poll.set(running);
    worker.scheduler.in_place_polls.lock().extend(running.map(|cell| cell.addr().get()));
    poll_watch.clear_running();
    let (_, token) = worker.scheduler.launch(token).err()?;
    // The thread could not be started, or the runtime closes.
    worker.scheduler.lose_thread(token);
    Some(LostCore { worker, index, running })
}
