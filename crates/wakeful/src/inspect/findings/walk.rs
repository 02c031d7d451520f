//! A walk over all tasks that collects candidates for findings.

use super::Key;
use super::growth::{Growth, SiteCount};
use super::stalls::{StallCandidate, Waiter};
use crate::inspect::dump::since;
use crate::inspect::report::{CommonWait, OldestWaiter};
use crate::inspect::task_info::TaskInfo;
use crate::sys::sort::sort_by_key;
use crate::task::cell::outcome;
use crate::task::header::Header;
use crate::task::state::{
    BLOCKING, CANCELLED, COMPLETE, EXEMPT, FOREVER, JOIN_INTEREST, NOTIFIED, RUNNING, Snapshot,
};
use crate::task::wait_kind::WaitKind;
use crate::task::wait_record::{Link, RecordedWait, Wait};
use crate::task::wait_target::{RecordIndex, WaitTarget};
use crate::wait::ownership::owner::Owner;
use crate::wait::ownership::resource_record::ResourceRecord;
use crate::watchdog::snapshot::Inspectable;
use std::collections::{BTreeMap, HashMap};
use std::panic::Location;
use std::time::Duration;

/// The candidates that one walk over the tasks of a runtime has collected.
pub(super) struct Walk {
    contended: BTreeMap<u64, Contended>,
    /// Tasks that panicked and whose handles are kept, each with whether it is a closure.
    pub(super) panicked: Vec<(TaskInfo, bool)>,
    /// Closures that were aborted and still run.
    pub(super) aborted: Vec<TaskInfo>,
    /// Waits that may never end.
    pub(super) stalls: Vec<StallCandidate>,
    /// Tasks that are alive, by spawn site.
    pub(super) sites: HashMap<&'static Location<'static>, SiteCount>,
}

/// A lock or semaphore that tasks wait for.
pub(super) struct Contended {
    pub(super) record: &'static ResourceRecord,
    pub(super) wait: WaitKind,
    pub(super) waiters: usize,
    /// The task that has waited longest.
    pub(super) oldest: OldestWaiter,
}

/// The tasks that acquired a lock or permits.
#[derive(PartialEq, Eq)]
pub(super) struct Owners {
    /// By task.
    pub(super) named: Vec<Owner>,
    /// Whether there are owners that are not named.
    pub(super) has_others: bool,
}

impl Owners {
    /// Returns the key of the situation in which these tasks own the resource.
    pub(super) fn key(&self, resource: u64) -> Key {
        Key::Held(resource, self.named.iter().map(|owner| owner.task).collect())
    }
}

/// Returns whether waits of this kind are for a lock or for permits.
pub(super) fn is_for_lock(kind: WaitKind) -> bool {
    use WaitKind::{Mutex, RwLockRead, RwLockWrite, Semaphore};
    matches!(kind, Mutex | RwLockRead | RwLockWrite | Semaphore)
}

/// Returns the locks and semaphores among the waits of a task, if a waker for it is queued there.
fn lock_waits(waits: Vec<RecordedWait>) -> impl Iterator<Item = (RecordIndex, Wait)> {
    waits.into_iter().filter_map(|recorded| match recorded.wait.target.target() {
        WaitTarget::Record(index) => (recorded.link != Link::None
            && is_for_lock(recorded.wait.kind))
        .then_some((index, recorded.wait)),
        _ => None,
    })
}

fn waits(state: Snapshot) -> bool {
    !state.has(RUNNING | NOTIFIED | COMPLETE | BLOCKING)
}

impl Walk {
    pub(super) fn take(scheduler: &dyn Inspectable, now: Duration, growth: &Growth) -> Self {
        let mut walk = Self {
            contended: BTreeMap::new(),
            panicked: Vec::new(),
            aborted: Vec::new(),
            stalls: Vec::new(),
            sites: HashMap::new(),
        };
        let name = scheduler.base().config.block_on_name.as_deref();
        for block_on in scheduler.block_ons() {
            let waits = || !block_on.record.is_polled() && !block_on.is_woken();
            if waits() {
                let (info, wakers) =
                    (|| TaskInfo::of_block_on(&block_on, name), block_on.live_wakers());
                let poll = block_on.record.poll_stamp();
                let is_same = || waits() && block_on.record.poll_stamp().same_poll(poll);
                let record = &block_on.record.waiting;
                let (wakers, is_exempt) = (wakers as u64, false);
                let waiter = Waiter { record, wakers, poll, is_exempt, is_same: &is_same };
                walk.add_waits(&waiter, now, info);
            }
        }
        // Neighbours often have the same site, and a look-up costs more than the rest.
        let mut run = SiteRun::default();
        scheduler.each_task(&mut |task| {
            let (header, state) = (task.header(), task.state());
            let is_closure = state.has(BLOCKING);
            let is_alive = !state.has(COMPLETE);
            if !is_alive && state.has(JOIN_INTEREST) && header.waiting.outcome() == outcome::PANIC {
                walk.panicked.push((TaskInfo::of_task(header), is_closure));
            }
            if is_alive && is_closure && state.has(RUNNING) && state.has(CANCELLED) {
                walk.aborted.push(TaskInfo::of_task(header));
            }
            let (poll, waits_now) = (header.poll_stamp(), waits(state));
            let is_same = || waits(task.state()) && header.poll_stamp().same_poll(poll);
            let (record, wakers) = (&header.waiting, state.wakers());
            let is_exempt = state.has(EXEMPT | FOREVER);
            let waiter = Waiter { record, wakers, poll, is_exempt, is_same: &is_same };
            let is_for_descriptor =
                waits_now && walk.add_waits(&waiter, now, || Some(TaskInfo::of_task(header)));
            if is_alive && !is_closure && !is_exempt {
                run.add(&mut walk.sites, growth, header, waits_now, now);
                run.count.for_descriptors += usize::from(is_for_descriptor);
            }
        });
        run.end(&mut walk.sites);
        walk
    }

    /// Adds the locks that a task waits for, and its wait that may never end. Returns whether the
    /// task waits for a descriptor.
    fn add_waits(
        &mut self,
        waiter: &Waiter<'_>,
        now: Duration,
        info: impl Fn() -> Option<TaskInfo>,
    ) -> bool {
        let (waits, is_complete) = waiter.record.waits();
        if is_complete {
            self.stalls.extend(StallCandidate::find(waiter, &waits, now, &info));
        }
        let is_for_descriptor = waits.iter().any(|it| it.wait.kind.is_for_descriptor());
        for (index, wait) in lock_waits(waits) {
            let waited = since(now, wait.since_ms);
            let known = self.contended.get_mut(&index.0);
            let waiters = 1 + known.as_ref().map_or(0, |known| known.waiters);
            if let Some(known) = known.filter(|known| known.oldest.waited >= waited) {
                known.waiters = waiters;
                continue;
            }
            let (Some(task), Some(record)) = (info(), ResourceRecord::at(index)) else { continue };
            let oldest = OldestWaiter { task, site: wait.site, waited };
            let contended = Contended { record, wait: wait.kind, waiters, oldest };
            self.contended.insert(index.0, contended);
        }
        is_for_descriptor
    }

    /// Returns how many tasks wait for the lock or semaphore of this record.
    pub(super) fn waiters(&self, index: RecordIndex) -> usize {
        self.contended.get(&index.0).map_or(0, |contended| contended.waiters)
    }

    pub(super) fn take_contended(&mut self) -> Vec<Contended> {
        std::mem::take(&mut self.contended).into_values().collect()
    }
}

impl Contended {
    /// Returns the id that dumps show for the resource.
    pub(super) fn resource_id(&self) -> u64 {
        ResourceRecord::display_number(self.record.target().target())
    }

    /// Returns the named owners, or `None` if there are none or one is not a task.
    pub(super) fn owned_by(&self) -> Option<Owners> {
        let mut named = self.record.owners();
        let has_others = self.record.has_unlisted();
        if named.is_empty() || named.iter().any(|owner| owner.task == 0) {
            return None;
        }
        sort_by_key(&mut named, |owner| owner.task);
        Some(Owners { named, has_others })
    }
}

/// Counts consecutive tasks of one spawn site.
#[derive(Default)]
struct SiteRun {
    site: Option<&'static Location<'static>>,
    /// The start of the watch of this site.
    watched_ms: Option<u32>,
    count: SiteCount,
}

impl SiteRun {
    fn add(
        &mut self,
        sites: &mut HashMap<&'static Location<'static>, SiteCount>,
        growth: &Growth,
        header: &Header,
        waits: bool,
        now: Duration,
    ) {
        let site = header.origin.get().spawned_at();
        if !self.site.is_some_and(|other| std::ptr::eq(other, site)) {
            self.end(sites);
            (self.site, self.watched_ms) = (Some(site), growth.watched_ms(site));
        }
        self.count.alive += 1;
        // A task that was spawned and began to wait before the watch has not run since.
        let is_unmoved = waits
            && self.watched_ms.is_some_and(|watched_ms| {
                let watched = since(now, watched_ms);
                since(now, header.spawned_ms.get()) >= watched
                    && header.waiting.read().is_some_and(|it| since(now, it.since_ms) >= watched)
            });
        self.count.unmoved += usize::from(is_unmoved);
    }

    fn end(&mut self, sites: &mut HashMap<&'static Location<'static>, SiteCount>) {
        let count = std::mem::take(&mut self.count);
        if let Some(site) = self.site.take() {
            let sum = sites.entry(site).or_default();
            sum.alive += count.alive;
            sum.unmoved += count.unmoved;
            sum.for_descriptors += count.for_descriptors;
        }
    }
}

/// Returns what most tasks of a spawn site wait for.
pub(super) fn common_wait(
    scheduler: &dyn Inspectable,
    site: &'static Location<'static>,
) -> Option<CommonWait> {
    let mut waits_by_site: HashMap<(u8, &'static Location<'static>), CommonWait> = HashMap::new();
    scheduler.each_task(&mut |task| {
        let header = task.header();
        if waits(task.state())
            && header.origin.get().spawned_at() == site
            && let Some(recorded) = header.waiting.waits().0.first()
        {
            let (wait, at_resource) = (recorded.wait, recorded.at_resource);
            let site_label = wait.kind.site_label(wait.target.target(), at_resource);
            let new = CommonWait { kind: wait.kind, site: wait.site, site_label, tasks: 0 };
            waits_by_site.entry((wait.kind as u8, wait.site)).or_insert(new).tasks += 1;
        }
    });
    waits_by_site.into_values().max_by_key(|wait| wait.tasks)
}
