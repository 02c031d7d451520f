//! Watches a multi-thread runtime, and rescues the tasks, timers and I/O of blocked workers.
//!
//! A worker that stays in the same poll for long is *stuck*. The watchdog moves the tasks of its LIFO
//! slot and its ring to the injector, where any other worker finds them. It also polls the stuck
//! worker's driver. If all workers are stuck, spare workers run the tasks of the injector
//! (`spare_workers`).
//!
//! The watchdog polls the driver of a worker that has *lost* its thread as well (`lost_workers`).
//!
//! Between two visits the watchdog waits in the poller of a stuck or lost worker. So tasks that become
//! ready there run at once.
//!
//! While it reads tasks, the watchdog is attached to the scheduler (SHUTDOWN-2 in `shutdown`). It
//! is active only while it moves tasks, so that the closing thread finds them in the injector
//! (SHUTDOWN-1). It is not active while it calls a report hook. The hook may wait for tasks that
//! are dropped only after the last thread is inactive (SHUTDOWN-4).

use super::observe::PollObservation;
use super::target::{Observations, Served, Watched};
use super::{earlier, local_drivers};
use crate::scheduler::base::SchedulerBase;
use crate::scheduler::config::Config;
use crate::scheduler::hooks::PollingThread;
use crate::scheduler::multi_thread::{MultiThread, WorkerShared};
use crate::sys::park::Parker;
use crate::task::arena;
use crate::telemetry::poll_watch::PollWatch;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering::*;
use std::time::Duration;

/// The interval between observations while a worker is in a poll or has tasks in its ring.
const BUSY_TICK: Duration = Duration::from_millis(10);
/// The interval between observations otherwise. A worker that gets stuck after such a visit is found by
/// the next, and rescued by the one after that.
const IDLE_TICK: Duration = super::MAX_TICK;
/// How long the watchdog waits if another thread occupies the poller.
const CONTENDED: Duration = Duration::from_millis(1);

impl Watched for MultiThread {
    fn base(&self) -> &SchedulerBase {
        &self.base
    }

    fn is_idle(&self) -> bool {
        self.idle.all_asleep()
    }

    fn are_all_parked(&self) -> bool {
        MultiThread::are_all_parked(self)
    }

    fn activity(&self) -> u64 {
        self.workers.iter().map(|remote| remote.metrics.sleep_transitions()).sum()
    }

    fn observe(&self, observations: &mut Observations) -> Duration {
        if self.try_attach() {
            // The waker of another crate may panic.
            ignore_panic(|| {
                observe_workers(self, observations);
                local_drivers::observe(&self.base, observations, None);
            });
            self.detach();
        }
        let is_busy = is_any_busy(self) || observations.has_open_local_poll();
        if is_busy { BUSY_TICK } else { IDLE_TICK }
    }

    fn serve_lost_workers(&self) -> Option<Duration> {
        if !self.lost.is_any() || !self.try_attach() {
            return None;
        }
        // The watchdog itself waits for the sources of lost workers.
        let next = ignore_panic(|| self.poll_lost(false)).unwrap_or(Some(BUSY_TICK));
        self.detach();
        next.filter(|_| !self.has_helper())
    }

    fn unserved_pollers(&self) -> usize {
        unserved(self).count()
    }

    fn wait_in_poller(&self, parker: &Parker, limit: Option<Duration>) -> Served {
        let found = unserved(self).find_map(|worker| Some((worker, worker.poller.get()?)));
        let Some((worker, poller)) = found else {
            parker.park(limit);
            return Served::default();
        };
        if !self.try_attach() {
            return Served::default();
        }
        let clock = &self.base.config.env.clock;
        let timer = worker.timers.next().map(|tick| clock.until(tick));
        let limit = earlier(limit, timer);
        let mut turned = None;
        drop(parker.set_interrupt(Some(poller.clone())));
        parker.park_in(|| {
            turned = ignore_panic(|| {
                let events = poller.try_poll_unless(limit, || parker.has_token())?;
                Some(events + worker.timers.fire_due(clock.tick()))
            });
        });
        drop(parker.set_interrupt(None));
        self.detach();
        let Some(events) = turned.flatten() else {
            // The worker is back, or another thread polls its driver.
            parker.park(earlier(limit, Some(CONTENDED)));
            return Served::default();
        };
        // A visit starts the spare workers that have to run what has become ready.
        let needs_visit = self.is_all_stuck() && !self.injector.is_empty();
        Served { events, needs_visit }
    }

    fn propagate_fatal_error(&self) {
        MultiThread::propagate_fatal_error(self);
    }
}

/// Returns the stuck and lost workers that have sources. Returns none if there are spare workers, which
/// wait for these sources.
fn unserved(scheduler: &MultiThread) -> impl Iterator<Item = &WorkerShared> {
    let has_spares = scheduler.spares.len() > 0;
    scheduler.workers.iter().filter(move |remote| {
        let is_stuck = || remote.poll_watch.is_stuck() || remote.is_lost.load(SeqCst);
        let has_sources = || remote.poller.get().is_some_and(|poller| poller.needs_poll());
        !has_spares && is_stuck() && has_sources()
    })
}

/// Compares every worker with the last visit, and rescues those that are stuck.
fn observe_workers(scheduler: &MultiThread, observations: &mut Observations) {
    let config = &scheduler.base.config;
    let now = config.env.clock.elapsed();
    let since = now.saturating_sub(std::mem::replace(&mut observations.at, now));
    let Observations { spin_detector, probe, .. } = observations;
    // `alone` means one worker and no spare workers.
    let has_spares = config.rescue_after.is_some() && config.max_spare_threads > 0;
    let alone = scheduler.workers.len() == 1 && !has_spares;
    for (index, remote) in scheduler.workers.iter().enumerate() {
        let Some(stuck) = remote.poll_watch.observe(now) else { continue };
        let watched = &remote.poll_watch;
        let role = if alone { PollingThread::OnlyWorker } else { PollingThread::Worker(index) };
        let observation = PollObservation { config, watched, role, stuck, now };
        if let Some(task) = observation.observe(spin_detector, probe) {
            // SAFETY: a cell of this scheduler, whose arenas are open while this thread is attached
            // (SHUTDOWN-2).
            unsafe { arena::add_poll_time(task.cell(), task.header().id.get(), since.min(stuck)) };
            remote.metrics.poll_times.raise_max(stuck);
        }
        if is_stuck(config, stuck) {
            remote.poll_watch.set_stuck(true);
            observations.events += rescue(scheduler, index);
        }
    }
    for spare in scheduler.spares.all() {
        if let Some(stuck) = spare.observe(now) {
            spare.set_stuck(is_stuck(config, stuck));
            let (watched, role) = (&*spare, PollingThread::SpareWorker);
            let observation = PollObservation { config, watched, role, stuck, now };
            if let Some(task) = observation.observe(spin_detector, probe) {
                // SAFETY: a cell of this scheduler, whose arenas are open while this thread is attached
                // (SHUTDOWN-2).
                unsafe {
                    arena::add_poll_time(task.cell(), task.header().id.get(), since.min(stuck))
                };
            }
        }
    }
    // A worker does not wake another one for a backlog that it expects to be short, but the backlog
    // may be long.
    if scheduler.idle.may_wake() && scheduler.is_work_anywhere() {
        scheduler.notify();
    }
    if scheduler.is_all_stuck() && !scheduler.injector.is_empty() {
        scheduler.spares.start_more(scheduler);
    }
}

/// Returns whether a thread is in a poll, which may become long, or a ring has tasks.
fn is_any_busy(scheduler: &MultiThread) -> bool {
    let is_busy =
        |remote: &WorkerShared| remote.poll_watch.running().is_some() || !remote.ring.is_empty();
    let is_polling = |spare: &Arc<PollWatch>| spare.running().is_some();
    scheduler.workers.iter().any(is_busy) || scheduler.spares.all().iter().any(is_polling)
}

/// Returns whether a thread that was observed in one poll for this time counts as stuck.
fn is_stuck(config: &Config, stuck: Duration) -> bool {
    !stuck.is_zero() && config.rescue_after.is_some_and(|after| stuck + BUSY_TICK >= after)
}

/// Polls the driver of a stuck worker, and moves its tasks to the injector. Returns the number of events
/// and fired timers.
fn rescue(scheduler: &MultiThread, worker: usize) -> usize {
    let events = scheduler.poll_driver(worker);
    let remote = &scheduler.workers[worker];
    scheduler.while_active(|| {
        let mut moved = Vec::new();
        moved.extend(remote.lifo_slot.take());
        remote.ring.drain(|task| moved.push(task));
        if !moved.is_empty() {
            remote.metrics.add_moved_out(moved.len());
            scheduler.injector.push_batch(moved);
            scheduler.notify();
        }
    });
    events
}

/// Calls `f`. Returns `None` if `f` panics, so that the visit continues.
fn ignore_panic<R>(f: impl FnOnce() -> R) -> Option<R> {
    catch_unwind(AssertUnwindSafe(f)).map_err(std::mem::forget).ok() // its drop might panic again
}
