//! The story of a lock or permit that is not released.

use super::walk::{Contended, is_for_lock};
use crate::inspect::dump::{TaskDump, TaskState};
use crate::inspect::report::{LastingHolder, SlowHolder};
use crate::task::block_on::is_block_on_id;
use crate::wait::ownership::owner::Owner;
use crate::watchdog::snapshot::Inspectable;
use std::time::Duration;

/// How far the waits of a holder are followed.
const MAX_STEPS: usize = 8;

/// Returns the story of `contended`, whose `owners` have not released it for `held`.
///
/// `None` if a holder runs, or waits in the end for a lock itself: then the holder of that one is to
/// blame, or the deadlock is reported.
pub(super) fn slow_holder(
    scheduler: &dyn Inspectable,
    contended: &Contended,
    owners: &[Owner],
    held: Duration,
) -> Option<SlowHolder> {
    let holder = |owner: &Owner| {
        let task = find(scheduler, owner.task)?;
        let is_slow = match task.state() {
            TaskState::Waiting => !waits_for_lock(scheduler, &task),
            TaskState::Running(_) => task.is_closure(),
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
    let holders = owners.iter().map(holder).collect::<Option<Vec<_>>>()?;
    // The record may have been reused since the walk. Then it has other owners.
    let (_, owners_now) = contended.owned_by()?;
    let resource = (contended.wait, contended.resource_id());
    let waiters = (contended.waiters, contended.oldest.clone());
    (owners_now == owners).then(|| SlowHolder::new(resource, holders, held, waiters))
}

/// Returns whether the task waits for a lock, itself or through the tasks that it waits for.
fn waits_for_lock(scheduler: &dyn Inspectable, task: &TaskDump) -> bool {
    let mut at = task.clone();
    for _ in 0..MAX_STEPS {
        let Some(wait) = at.waiting_on() else { return false };
        if is_for_lock(wait.wait_kind()) {
            return true;
        }
        let Some(next) = wait.holders().first() else { return false };
        match find(scheduler, next.number()) {
            Some(next) => at = next,
            None => return false,
        }
    }
    true
}

/// Finds a task or `block_on` future of the runtime by its number.
fn find(scheduler: &dyn Inspectable, number: u64) -> Option<TaskDump> {
    let config = &scheduler.base().config;
    let now = config.env.clock.elapsed();
    if is_block_on_id(number) {
        let roots = scheduler.block_ons();
        let root = roots.iter().find(|root| root.record.id == number)?;
        return TaskDump::of_block_on(root, config.block_on_name.as_deref(), now);
    }
    let mut found = None;
    scheduler.each_task(&mut |task| {
        if task.header().id.get() == number {
            found = Some(task);
        }
    });
    let (workers, elsewhere) = (scheduler.workers(), scheduler.running_elsewhere());
    Some(TaskDump::of_task(&found?, &workers, &elsewhere, now))
}
