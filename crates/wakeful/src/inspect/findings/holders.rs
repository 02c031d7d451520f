//! Finds locks and permits that are not released.

use super::walk::{Contended, Owners, is_for_lock};
use crate::inspect::dump::{TaskDump, TaskState, WaitDump};
use crate::inspect::report::{LastingHolder, SlowHolder};
use crate::task::block_on::is_block_on_id;
use crate::task::runnable::TaskRef;
use crate::task::state::COMPLETE;
use crate::task::wait_kind::WaitKind;
use crate::wait::ownership::owner::Owner;
use crate::watchdog::snapshot::{Inspectable, WorkerSnapshot};
use std::cell::OnceCell;
use std::collections::HashMap;
use std::time::Duration;

/// The maximum length of the chain of waits followed from a holder.
const MAX_STEPS: usize = 8;

/// The tasks of a runtime by their ids, collected at the first lookup.
pub(super) struct Tasks<'a> {
    scheduler: &'a dyn Inspectable,
    collected: OnceCell<Collected>,
}

struct Collected {
    by_id: HashMap<u64, TaskRef>,
    workers: Vec<WorkerSnapshot>,
    off_workers: Vec<usize>,
}

impl<'a> Tasks<'a> {
    pub(super) fn new(scheduler: &'a dyn Inspectable) -> Self {
        Self { scheduler, collected: OnceCell::new() }
    }

    fn collect(&self) -> Collected {
        let mut by_id = HashMap::new();
        self.scheduler.each_task(&mut |task| {
            by_id.insert(task.header().id.get(), task);
        });
        let (workers, off_workers) =
            (self.scheduler.workers(), self.scheduler.running_off_workers());
        Collected { by_id, workers, off_workers }
    }

    /// Finds a task or `block_on` future of the runtime by its id.
    pub(super) fn find(&self, id: u64) -> Option<TaskDump> {
        let config = &self.scheduler.base().config;
        let now = config.env.clock.elapsed();
        if is_block_on_id(id) {
            let block_ons = self.scheduler.block_ons();
            let block_on = block_ons.iter().find(|block_on| block_on.record.id == id)?;
            return TaskDump::of_block_on(block_on, config.block_on_name.as_deref(), now);
        }
        let all = self.collected.get_or_init(|| self.collect());
        Some(TaskDump::of_task(all.by_id.get(&id)?, &all.workers, &all.off_workers, now))
    }

    /// Finds the `block_on` future that a task or closure with this id has called in its poll.
    fn find_inside(&self, outer: u64) -> Option<TaskDump> {
        let config = &self.scheduler.base().config;
        let block_ons = self.scheduler.block_ons();
        let inner = block_ons.iter().find(|block_on| block_on.record.outer() == outer)?;
        TaskDump::of_block_on(inner, None, config.env.clock.elapsed())
    }

    /// Returns whether a task or `block_on` future has spawned a living task, other than `except`.
    pub(super) fn has_other_child(&self, id: u64, except: u64) -> bool {
        let all = self.collected.get_or_init(|| self.collect());
        // The header stores the lower half of the parent's id.
        all.by_id.iter().any(|(child, task)| {
            *child != except
                && task.header().parent.get() == id as u32
                && !task.state().has(COMPLETE)
        })
    }
}

/// Returns the report of `contended`, whose `owners` have not released it for `held`.
///
/// Returns `None` if a holder runs, or waits for a lock itself: the holder of that lock is to blame, or
/// a deadlock is reported. Also returns `None` if a holder waits for messages or events: tasks may share
/// a receiver behind a lock, and each holds the lock until there is work.
///
/// If there are more owners than are named, no deadlock can be found. The resource is then reported if
/// all named owners wait for it again.
pub(super) fn slow_holder(
    tasks: &Tasks<'_>,
    contended: &Contended,
    owners: &Owners,
    held: Duration,
) -> Option<SlowHolder> {
    let holder = |owner: &Owner| {
        let task = tasks.find(owner.task)?;
        let is_slow = match task.state() {
            TaskState::Waiting if owners.has_others => waits_again(&task, contended.resource_id()),
            TaskState::Waiting => !is_excused(tasks, &task),
            TaskState::Running(_) => {
                task.is_closure() && !owners.has_others && !is_excused(tasks, &task)
            }
            _ => false,
        };
        is_slow.then(|| LastingHolder {
            task: task.info().clone(),
            acquired_at: owner.site,
            may_have_moved: contended.record.may_have_moved(),
            is_unpolled: owner.granted_unpolled,
            waiting: task.waiting_on().cloned(),
        })
    };
    let holders = owners.named.iter().map(holder).collect::<Option<Vec<_>>>()?;
    // The record may have been reused since the walk, and then has other owners.
    let owners_now = contended.owned_by()?;
    let resource = (contended.wait, contended.resource_id());
    let waiters = (contended.waiters, contended.oldest.clone());
    let holders = (holders, owners.has_others);
    (owners_now == *owners).then(|| SlowHolder::new(resource, holders, held, waiters))
}

/// Returns whether the task waits for this resource, and apart from it only for time-outs and shutdown
/// signals.
fn waits_again(task: &TaskDump, resource: u64) -> bool {
    let waits = || task.waits().iter().filter(|wait| !wait.is_earlier());
    let is_again =
        |wait: &WaitDump| is_for_lock(wait.wait_kind()) && wait.resource_id() == resource;
    waits().any(is_again) && waits().all(|it| is_again(it) || it.wait_kind().is_cancellation())
}

/// Returns whether the task waits for a lock, a message or an event, directly or through other tasks.
fn is_excused(tasks: &Tasks<'_>, task: &TaskDump) -> bool {
    let mut at = task.clone();
    for _ in 0..MAX_STEPS {
        let Some(wait) = at.waiting_on() else {
            let Some(inside) = tasks.find_inside(at.info().id) else { return false };
            at = inside;
            continue;
        };
        if is_for_lock(wait.wait_kind()) || listens(&at) {
            return true;
        }
        let Some(next) = wait.holders().first() else { return false };
        match tasks.find(next.id()) {
            Some(next) => at = next,
            None => return false,
        }
    }
    true
}

/// Returns whether the task waits for messages or events.
///
/// A wait that is usually for a shutdown signal counts only if there is no other wait.
fn listens(task: &TaskDump) -> bool {
    let is_event = |kind| {
        use WaitKind::{Accept, BroadcastRecv, MpscRecv, Notified, Signal, WatchChanged};
        // Not a oneshot: it delivers one reply, and the lock need not be held to wait for that.
        let is_message = matches!(kind, MpscRecv | BroadcastRecv | WatchChanged);
        is_message || matches!(kind, Notified | Accept | Signal)
    };
    let mut kinds = task.waits().iter().map(|wait| wait.wait_kind()).enumerate();
    kinds.any(|(nth, kind)| is_event(kind) && (nth == 0 || !kind.is_cancellation()))
}
