//! What a task in a dump waits for, and which tasks hold it.

use super::holder::{HolderDump, HolderKind};
use super::task::since;
use super::text::Short;
use crate::driver::clock::time_of;
use crate::inspect::task_info::TaskInfo;
use crate::sim::shown_numbers;
use crate::sys::descriptor;
use crate::task::block_on::BlockOnRecord;
use crate::task::poll_stamp::PollStamp;
use crate::task::wait_kind::WaitKind;
use crate::task::wait_record::{Link, RecordedWait, WaitRecord};
use crate::task::wait_target::WaitTarget;
use crate::wait::block_on::blocked_threads;
use crate::wait::ownership::resource_record::ResourceRecord;
use crate::watchdog::snapshot::Inspectable;
use std::panic::Location;
use std::time::Duration;

/// The resource that a task waits for, and the call in which it waits.
///
/// Returned by [`TaskDump::waiting_on`](super::TaskDump::waiting_on) and
/// [`TaskDump::waits`](super::TaskDump::waits).
///
/// # Examples
///
/// ```
/// # #[wakeful::main(flavor = "current_thread")]
/// # async fn main() {
/// use std::sync::Arc;
/// use wakeful::runtime::Handle;
/// use wakeful::sync::Mutex;
///
/// let lock = Arc::new(Mutex::new(()));
/// let guard = lock.lock().await;
/// let clone = lock.clone();
/// let task = wakeful::spawn(async move { drop(clone.lock().await) });
/// wakeful::task::yield_now().await;
///
/// let dump = Handle::current().dump();
/// let wait = dump.find(task.id()).unwrap().waiting_on().unwrap();
/// assert_eq!((wait.kind(), wait.phrase()), ("Mutex::lock", "a lock (Mutex::lock)"));
/// assert_eq!(wait.site_label(), "awaited at");
/// assert!(wait.site().file().ends_with(".rs"));
/// assert!(wait.is_certain() && !wait.is_earlier());
/// assert_eq!(wait.holders().len(), 1);
/// # drop(guard);
/// # task.await.unwrap();
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct WaitDump {
    kind: WaitKind,
    resource_id: u64,
    resource: String,
    site: &'static Location<'static>,
    site_label: &'static str,
    duration: Duration,
    earlier: bool,
    certain: bool,
    /// Whether the wait is certain and the queued waker is the task's own.
    direct: bool,
    pub(super) holders: Vec<HolderDump>,
    pub(super) others: bool,
}

impl WaitDump {
    /// Reads all waits of a record. `poll` returns the stamp of the task's last poll.
    ///
    /// If each of the task's `wakers` is known to be queued at a resource, the other waits are
    /// over. Their futures were dropped later in the poll that recorded them.
    pub(super) fn read_all(
        record: &WaitRecord,
        poll: impl Fn() -> PollStamp,
        wakers: u64,
        now: Duration,
    ) -> Vec<Self> {
        let last_poll = poll();
        let is_unchanged = |recorded: &RecordedWait| {
            let same = |own: &RecordedWait| {
                own.wait.target == recorded.wait.target && own.link == recorded.link
            };
            poll().same_poll(last_poll) && record.waits().0.iter().any(same)
        };
        // If the task is polled meanwhile, the record may belong to either poll.
        let is_earlier = !record.is_from_poll(last_poll) && poll().same_poll(last_poll);
        let waits = record.waits().0.into_iter();
        let mut waits: Vec<Self> =
            waits.map(|recorded| Self::read(&recorded, is_earlier, is_unchanged, now)).collect();
        let direct = waits.iter().filter(|wait| wait.direct).count() as u64;
        if direct > 0 && direct == wakers {
            waits.retain(|wait| wait.direct);
        }
        waits
    }

    /// Returns what a closure or poll waits for on its thread, in a `blocking_…` method or a
    /// `block_on` of `scheduler`.
    pub(crate) fn of_blocked(task: &TaskInfo, scheduler: &dyn Inspectable) -> Vec<Self> {
        let now = scheduler.base().config.env.clock.elapsed();
        let read = |record: &BlockOnRecord, wakers: usize| {
            Self::read_all(&record.waiting, || record.poll_stamp(), wakers as u64, now)
        };
        let is_inside = |record: &BlockOnRecord| record.outer() == task.id;
        let threads = blocked_threads().into_iter();
        let threads = threads.filter(|it| it.is_waiting() && is_inside(&it.record));
        let mut waits: Vec<Self> =
            threads.flat_map(|it| read(&it.record, it.live_wakers())).collect();
        let block_ons = scheduler.block_ons().into_iter();
        let block_ons = block_ons
            .filter(|it| is_inside(&it.record) && !it.record.is_polled() && !it.is_woken());
        waits.extend(block_ons.flat_map(|it| read(&it.record, it.live_wakers())));
        waits
    }

    fn read(
        recorded: &RecordedWait,
        earlier: bool,
        is_unchanged: impl Fn(&RecordedWait) -> bool,
        now: Duration,
    ) -> Self {
        let (wait, target) = (&recorded.wait, recorded.wait.target.target());
        let linked = Some(target).filter(|_| recorded.link != Link::None);
        let resource = match linked {
            Some(WaitTarget::Record(index)) => ResourceRecord::at(index),
            _ => None,
        };
        let mut holders = match linked.unwrap_or(target) {
            WaitTarget::Task(id) => vec![HolderDump::running(id)],
            WaitTarget::Record(_) | WaitTarget::Number(_) => {
                resource.map_or(Vec::new(), |resource| {
                    let kind = match wait.kind {
                        WaitKind::Join => HolderKind::Joined,
                        WaitKind::MpscSend => HolderKind::LastReceiver,
                        _ if resource.may_have_moved() => HolderKind::MayHaveMoved,
                        _ => HolderKind::Holds,
                    };
                    let owners = resource.owners().into_iter();
                    owners
                        .map(|owner| HolderDump {
                            id: owner.task,
                            task: None,
                            site: owner.site,
                            granted: owner.granted_unpolled,
                            kind,
                        })
                        .collect()
                })
            }
        };
        let mut others = resource.is_some_and(ResourceRecord::has_unlisted);
        // The second read. If the task no longer waits there, another resource may have taken over
        // the record, and the owners belong to that one. Those owners were written with Release after
        // the link was detached, so a reader that has seen them sees the detached link too.
        let certain = linked.is_some() && is_unchanged(recorded);
        if !certain && resource.is_some() {
            holders.clear();
            others = false;
        }
        Self {
            kind: wait.kind,
            resource_id: ResourceRecord::display_number(target),
            resource: describe(wait.kind, target, now),
            site: wait.site,
            site_label: wait.kind.site_label(target, recorded.at_resource),
            duration: since(now, wait.since_ms),
            earlier,
            certain,
            direct: certain && recorded.link == Link::Direct,
            holders,
            others,
        }
    }

    /// Returns the call in which the task waits, for example `"Mutex::lock"`.
    pub fn kind(&self) -> &'static str {
        self.kind.name()
    }

    pub(in crate::inspect) fn wait_kind(&self) -> WaitKind {
        self.kind
    }

    /// Returns the resource as a phrase that follows "waiting for", for example `"a lock
    /// (Mutex::lock)"`.
    pub fn phrase(&self) -> &'static str {
        self.kind.phrase()
    }

    /// Returns an id that is equal for all tasks that wait for the same resource.
    ///
    /// The id is that of a task or process, a file descriptor, or an address.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[wakeful::main(flavor = "current_thread")]
    /// # async fn main() {
    /// use std::sync::Arc;
    /// use wakeful::runtime::Handle;
    /// use wakeful::sync::Notify;
    ///
    /// let notify = Arc::new(Notify::new());
    /// for _ in 0..2 {
    ///     let notify = notify.clone();
    ///     wakeful::spawn(async move { notify.notified().await });
    /// }
    /// wakeful::task::yield_now().await;
    /// let dump = Handle::current().dump();
    /// let id = |nth: usize| dump.tasks()[nth].waiting_on().unwrap().resource_id();
    /// assert_eq!(id(1), id(2));
    /// # notify.notify_waiters();
    /// # }
    /// ```
    pub fn resource_id(&self) -> u64 {
        self.resource_id
    }

    /// Describes the resource, for example `"task 3"`, `"process 42"` or `"in 60 s"`.
    ///
    /// The text names a task, a descriptor with its addresses, a process, a signal, or the time
    /// until a timer fires. A resource without a name is shown as `#` and its address. The text is
    /// empty if there is no resource, as for `yield_now`.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[wakeful::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() {
    /// use std::time::Duration;
    /// use wakeful::runtime::Handle;
    ///
    /// let task = wakeful::spawn(wakeful::time::sleep(Duration::from_secs(60)));
    /// wakeful::task::yield_now().await;
    /// let dump = Handle::current().dump();
    /// let wait = dump.find(task.id()).unwrap().waiting_on().unwrap();
    /// assert_eq!(wait.resource(), "in 60 s");
    /// # }
    /// ```
    pub fn resource(&self) -> &str {
        &self.resource
    }

    /// Returns a site in the program; [`site_label`](Self::site_label) says what it is the site of.
    pub fn site(&self) -> &'static Location<'static> {
        self.site
    }

    /// Returns the words that precede the [`site`](Self::site) and say what it is.
    ///
    /// | words | the site is |
    /// | --- | --- |
    /// | `"awaited at"` | the call whose future is awaited, for example of `lock` |
    /// | `"spawned at"` | where the joined task was spawned: a `JoinHandle` does not know where it is awaited |
    /// | `"created at"` | where the timer, socket or stream was created, for the same reason |
    /// | `"channel created at"` | where the channel of a `oneshot::Receiver` was created |
    ///
    /// # Examples
    ///
    /// ```
    /// # #[wakeful::main(flavor = "current_thread")]
    /// # async fn main() {
    /// use std::time::Duration;
    /// use wakeful::runtime::Handle;
    ///
    /// let joined = wakeful::spawn(wakeful::time::sleep(Duration::from_secs(60)));
    /// let joining = wakeful::spawn(async move { joined.await });
    /// wakeful::task::yield_now().await;
    /// let dump = Handle::current().dump();
    /// let wait = dump.find(joining.id()).unwrap().waiting_on().unwrap();
    /// let text = format!("{} {}", wait.site_label(), wait.site());
    /// assert!(text.starts_with("spawned at "), "{text}");
    /// # }
    /// ```
    pub fn site_label(&self) -> &'static str {
        self.site_label
    }

    /// Returns whether the task waits for a point in time, which no other task shares.
    #[cfg(feature = "page")]
    pub(in crate::inspect) fn is_timer(&self) -> bool {
        matches!(self.kind, WaitKind::Sleep | WaitKind::Timeout)
    }

    /// Returns whether the resource has an identity that several tasks can share.
    pub(super) fn has_shared_resource(&self) -> bool {
        self.resource_id != 0 && self.kind != WaitKind::Sleep
    }

    /// Returns the time since the task last returned `Pending` there.
    pub fn duration(&self) -> Duration {
        self.duration
    }

    /// Returns whether the task last returned `Pending` there in a poll before its last one.
    ///
    /// The task then waits in a future that is not wakeful's own, or in one that was not polled
    /// again, for example in a `FuturesUnordered`.
    ///
    /// # Examples
    ///
    /// A task that slept and then waits in a future of another crate:
    ///
    /// ```
    /// # #[wakeful::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() {
    /// use std::time::Duration;
    /// use wakeful::runtime::Handle;
    /// use wakeful::time::sleep;
    ///
    /// let (tx, rx) = futures::channel::oneshot::channel::<()>();
    /// let task = wakeful::spawn(async {
    ///     sleep(Duration::from_secs(1)).await;
    ///     rx.await
    /// });
    /// sleep(Duration::from_secs(2)).await;
    /// let dump = Handle::current().dump();
    /// let wait = dump.find(task.id()).unwrap().waiting_on().unwrap();
    /// assert_eq!((wait.kind(), wait.is_earlier()), ("sleep", true));
    /// # drop(tx);
    /// # task.await.unwrap().unwrap_err();
    /// # }
    /// ```
    pub fn is_earlier(&self) -> bool {
        self.earlier
    }

    /// Returns whether a waker of the task is known to be queued at this resource.
    ///
    /// If the task has no other [wakers](super::TaskDump::wakers), nothing else can wake it.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[wakeful::main(flavor = "current_thread")]
    /// # async fn main() {
    /// use std::sync::Arc;
    /// use wakeful::runtime::Handle;
    /// use wakeful::sync::Semaphore;
    ///
    /// let permits = Arc::new(Semaphore::new(0));
    /// let clone = permits.clone();
    /// let task = wakeful::spawn(async move { clone.acquire().await.map(drop) });
    /// wakeful::task::yield_now().await;
    /// let dump = Handle::current().dump();
    /// let found = dump.find(task.id()).unwrap();
    /// assert!(found.waiting_on().unwrap().is_certain() && found.wakers() == 1);
    /// # permits.add_permits(1);
    /// # task.await.unwrap().unwrap();
    /// # }
    /// ```
    pub fn is_certain(&self) -> bool {
        self.certain
    }

    /// Returns up to four tasks that hold the resource, as far as they are known.
    ///
    /// For a lock or semaphore: the tasks that acquired it. For a `JoinHandle`: the joined task. For a
    /// full channel: the task that received last. For a `OnceCell`: the task that computes the value.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[wakeful::main(flavor = "current_thread")]
    /// # async fn main() {
    /// use std::time::Duration;
    /// use wakeful::runtime::Handle;
    ///
    /// let joined = wakeful::spawn(wakeful::time::sleep(Duration::from_secs(60)));
    /// let id = joined.id();
    /// let joining = wakeful::spawn(async move { joined.await });
    /// wakeful::task::yield_now().await;
    /// let dump = Handle::current().dump();
    /// let wait = dump.find(joining.id()).unwrap().waiting_on().unwrap();
    /// assert_eq!(wait.holders()[0].task().unwrap().id(), Some(id));
    /// # }
    /// ```
    pub fn holders(&self) -> &[HolderDump] {
        &self.holders
    }

    /// Returns whether more tasks hold the resource than [`holders`](Self::holders) lists.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[wakeful::main(flavor = "current_thread")]
    /// # async fn main() {
    /// use std::sync::Arc;
    /// use wakeful::runtime::Handle;
    /// use wakeful::sync::RwLock;
    ///
    /// let lock = Arc::new(RwLock::new(()));
    /// let reader = lock.read().await;
    /// let clone = lock.clone();
    /// let writer = wakeful::spawn(async move { drop(clone.write().await) });
    /// wakeful::task::yield_now().await;
    /// let dump = Handle::current().dump();
    /// let wait = dump.find(writer.id()).unwrap().waiting_on().unwrap();
    /// assert!(wait.holders().len() == 1 && !wait.has_other_holders());
    /// # drop(reader);
    /// # writer.await.unwrap();
    /// # }
    /// ```
    pub fn has_other_holders(&self) -> bool {
        self.others
    }
}

fn describe(kind: WaitKind, target: WaitTarget, now: Duration) -> String {
    match (kind, target) {
        (_, WaitTarget::Task(id)) => format!("task {id}"),
        (WaitKind::Join, WaitTarget::Record(_)) => "any of several".to_owned(),
        (_, WaitTarget::Record(_)) => {
            shown_numbers::text_of(ResourceRecord::display_number(target))
        }
        (WaitKind::Join, WaitTarget::Number(_)) => "any of several".to_owned(),
        (WaitKind::ChildExit, WaitTarget::Number(process)) => format!("process {process}"),
        (WaitKind::Signal, WaitTarget::Number(signal)) => format!("signal {signal}"),
        (WaitKind::Sleep | WaitKind::Timeout, WaitTarget::Number(tick)) => {
            match time_of(tick).checked_sub(now) {
                Some(left) => format!("in {}", Short(left)),
                None => format!("{} ago", Short(now.saturating_sub(time_of(tick)))),
            }
        }
        (kind, WaitTarget::Number(number)) if kind.is_for_descriptor() => {
            descriptor::describe(number).unwrap_or_else(|| format!("descriptor {number}"))
        }
        (_, WaitTarget::Number(0)) => String::new(),
        (_, WaitTarget::Number(number)) => shown_numbers::text_of(number),
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::task::wait_record::{Wait, WaitWriter};
    use crate::wait::ownership::owner::Owner;
    use crate::wait::ownership::resource_record::RecordCell;
    use std::cell::Cell;

    /// The task leaves the wait list during the dump, so another resource may take over the record
    /// that was read.
    #[test]
    fn owners_are_not_shown_if_the_task_leaves_while_they_are_read() {
        let (waiting, record, stamp) =
            (WaitRecord::nothing(), RecordCell::none(), PollStamp::from_doubled(2));
        let site = Location::caller();
        record.obtain().set_owner(Owner { task: 5, site: Some(site), granted_unpolled: false });
        let target = record.target(&waiting).linked();
        let wait = Wait { kind: WaitKind::Mutex, target, site, since_ms: 0 };
        WaitWriter { waiting: &waiting, stamp }.record_linked(wait);
        let calls = Cell::new(0);
        let read = |on_call: &dyn Fn(u32)| {
            calls.set(0);
            let poll = || {
                calls.set(calls.get() + 1);
                on_call(calls.get());
                stamp
            };
            WaitDump::read_all(&waiting, poll, 1, Duration::ZERO).remove(0)
        };
        let stays = read(&|_| ());
        assert!(stays.is_certain());
        assert_eq!(stays.holders.iter().map(|holder| holder.id).collect::<Vec<_>>(), [5]);
        // `read` asks for the stamp before the first read and before the second.
        const SECOND_READ: u32 = 2;
        let leaves = read(&|call| {
            if call == SECOND_READ {
                waiting.detach();
            }
        });
        assert!(!leaves.is_certain() && leaves.holders().is_empty(), "{leaves:?}");
    }
}
