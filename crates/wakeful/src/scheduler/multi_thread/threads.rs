//! The threads of the work-stealing scheduler: starting, waking and joining them.
//!
//! A worker's thread is started when there is work for it. A worker without a thread is on the list
//! of sleepers ([`idle`](super::idle)), and waking it starts its thread. The first worker's thread
//! starts with the runtime, so that a failure to create threads is noticed at once. If the user has
//! set an `on_thread_start` callback, all threads start with the runtime.

use crate::scheduler::config::Role;
use crate::scheduler::multi_thread::core::WorkerToken;
use crate::scheduler::multi_thread::idle::BeforeParking;
use crate::scheduler::multi_thread::{MultiThread, worker};
use crate::sys::join::join_ended;
use crate::sys::park::Parker;
use crate::sys::real_time;
use std::io;
use std::sync::{Arc, MutexGuard};
use std::thread;
use std::time::Instant;

/// The threads that were started: workers and spare workers.
#[derive(Default)]
pub(super) struct Threads {
    pub(super) handles: Vec<thread::JoinHandle<()>>,
    /// The number of threads that have not exited yet.
    pub(super) alive: usize,
    /// Whether no more threads are started.
    pub(super) closed: bool,
}

/// The thread of one worker.
pub(crate) enum WorkerThread {
    /// No thread was started for the worker, or it has lost its thread.
    NotStarted(WorkerToken),
    /// A thread was started and has not reached its loop yet.
    Starting,
    /// A thread that can be unparked.
    Running(Arc<Parker>),
}

impl MultiThread {
    /// Starts the threads of all workers but the first, for the user's `on_thread_start` callback.
    pub(super) fn start_all(&self) {
        for worker in 1..self.workers.len() {
            // A worker that is not on the list of sleepers counts as awake; its thread parks if
            // there is no work.
            if self.idle.cancel_sleep(worker) && self.start_thread(worker, false, drop).is_err() {
                // The worker stays without a thread until there is work.
                if self.idle.sleep(worker, false) == BeforeParking::SearchAgain {
                    self.notify();
                }
                return;
            }
        }
    }

    /// Unparks a worker, or starts its thread.
    ///
    /// If no thread can be started, returns the result of `refused`, which is called under the
    /// worker's thread lock.
    pub(super) fn wake_worker<R>(
        &self,
        worker: usize,
        refused: impl FnOnce(io::Error) -> R,
    ) -> Result<(), R> {
        let thread = self.workers[worker].thread.lock();
        match &*thread {
            WorkerThread::Running(parker) => {
                let parker = parker.clone();
                drop(thread);
                parker.unpark();
                Ok(())
            }
            WorkerThread::Starting => Ok(()),
            WorkerThread::NotStarted(_) => {
                drop(thread);
                self.start_thread(worker, true, refused)
            }
        }
    }

    /// Starts the thread of a worker that was removed from the list of sleepers, unless another
    /// thread did.
    ///
    /// `refused` is as in [`wake_worker`](Self::wake_worker).
    fn start_thread<R>(
        &self,
        worker: usize,
        searching: bool,
        refused: impl FnOnce(io::Error) -> R,
    ) -> Result<(), R> {
        let mut thread = self.workers[worker].thread.lock();
        let token = match std::mem::replace(&mut *thread, WorkerThread::Starting) {
            WorkerThread::NotStarted(token) => token,
            other => {
                if let WorkerThread::Running(parker) = &other {
                    parker.unpark();
                }
                *thread = other;
                return Ok(());
            }
        };
        let core = &self.cores[token.0];
        if core.retry_at.get() > self.base.config.env.clock.elapsed() {
            *thread = WorkerThread::NotStarted(token);
            return Err(refused(io::Error::other(
                "the last threads of this worker panicked in `on_thread_start`",
            )));
        }
        core.searching.set(searching);
        // Launched under the lock: a thread that closes the scheduler meanwhile finds either a
        // thread that will leave, or a token whose counts it releases
        // (`release_unstarted_workers`).
        self.launch(token).map_err(|(error, token)| {
            *thread = WorkerThread::NotStarted(token);
            // Called under the lock: a thread that reclaims its worker finds the worker either on
            // the list of sleepers, or not available.
            refused(error)
        })
    }

    /// Starts a thread that becomes the worker of this token.
    pub(crate) fn launch(&self, token: WorkerToken) -> Result<(), (io::Error, WorkerToken)> {
        let index = token.0;
        let started = self.begin_thread(|this| {
            let config = this.base.config.clone();
            config.spawn_thread(Role::Worker, move || {
                let exit_guard = ThreadExitGuard(this.clone());
                worker::run(this, token);
                drop(exit_guard);
            })
        });
        // On error the closure was dropped with its token, so the new token is the only one.
        started.map_err(|error| (error, WorkerToken(index)))
    }

    /// Starts a thread and registers it, unless the scheduler is closed.
    ///
    /// The thread must drop a [`ThreadExitGuard`] when it exits.
    pub(crate) fn begin_thread(
        &self,
        start: impl FnOnce(Arc<Self>) -> io::Result<thread::JoinHandle<()>>,
    ) -> io::Result<()> {
        let this = self.to_arc();
        let mut threads = self.lock_threads();
        if threads.closed {
            drop(threads);
            return Err(io::Error::other("the runtime is shutting down"));
        }
        let handle = start(this)?;
        join_ended(&mut threads.handles);
        threads.handles.push(handle);
        threads.alive += 1;
        Ok(())
    }

    /// Starts a new thread for a worker whose thread exits early. If that fails, the worker is
    /// lost.
    pub(crate) fn replace_thread(&self, token: WorkerToken) {
        if let Err((_, token)) = self.launch(token) {
            self.lose_thread(token);
        }
    }

    /// Returns whether the worker has a thread.
    pub(crate) fn has_thread(&self, worker: usize) -> bool {
        !matches!(&*self.workers[worker].thread.lock(), WorkerThread::NotStarted(_))
    }

    /// Registers the calling thread as the thread of this worker.
    pub(crate) fn mark_thread_running(&self, token: &WorkerToken, parker: Arc<Parker>) {
        self.workers[token.0].poll_watch.bind_thread();
        *self.workers[token.0].thread.lock() = WorkerThread::Running(parker);
    }

    pub(super) fn lock_threads(&self) -> MutexGuard<'_, Threads> {
        self.threads.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Unparks every worker, so that it checks for a fatal error, shutdown and lost workers.
    pub(crate) fn unpark_all(&self) {
        for worker in &self.workers {
            if let WorkerThread::Running(parker) = &*worker.thread.lock() {
                parker.unpark();
            }
        }
    }

    /// Waits after `close` until all threads have exited and run their thread-local destructors.
    pub(crate) fn join_threads(&self) {
        loop {
            let handles = std::mem::take(&mut self.lock_threads().handles);
            if handles.is_empty() {
                return;
            }
            for handle in handles {
                if handle.thread().id() != thread::current().id() {
                    // A worker catches the panics of its tasks. A panic here is from a user's
                    // callback, and has been printed.
                    let _ = handle.join();
                }
            }
        }
    }

    /// Waits after `close` until all threads have exited, or until `deadline`.
    ///
    /// Returns whether all threads have exited.
    pub(crate) fn join_threads_until(&self, deadline: Instant) -> bool {
        let mut threads = self.lock_threads();
        // A report hook may shut the runtime down on one of its threads.
        let is_own =
            |handle: &thread::JoinHandle<()>| handle.thread().id() == thread::current().id();
        let own = usize::from(threads.handles.iter().any(is_own));
        while threads.alive > own {
            let left = deadline.saturating_duration_since(real_time::now());
            if left.is_zero() {
                return false;
            }
            let waited = self.thread_exited.wait_timeout(threads, left);
            threads = waited.unwrap_or_else(|e| e.into_inner()).0;
        }
        drop(threads);
        self.join_threads();
        true
    }
}

/// A guard that counts a thread of the scheduler as exited when it is dropped.
pub(crate) struct ThreadExitGuard(pub(crate) Arc<MultiThread>);

impl Drop for ThreadExitGuard {
    fn drop(&mut self) {
        self.0.lock_threads().alive -= 1;
        self.0.thread_exited.notify_all();
    }
}
