//! The holder of a resource that another task waits for.

use crate::inspect::task_info::TaskInfo;
use std::panic::Location;

/// A task that holds a resource for which another task waits.
///
/// Returned by [`WaitDump::holders`](super::WaitDump::holders).
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
/// let holder = &dump.find(task.id()).unwrap().waiting_on().unwrap().holders()[0];
/// assert_eq!(holder.task().unwrap().name(), Some("main"));
/// assert!(holder.acquired_at().is_some());
/// assert!(!holder.may_have_moved() && !holder.is_unpolled());
/// # drop(guard);
/// # task.await.unwrap();
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct HolderDump {
    pub(super) id: u64,
    pub(super) task: Option<TaskInfo>,
    pub(super) site: Option<&'static Location<'static>>,
    pub(super) granted: bool,
    pub(super) kind: HolderKind,
}

/// Why a task is named as the holder of a resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HolderKind {
    /// The task is joined.
    Joined,
    /// The task acquired the resource with a guard that borrows it.
    Holds,
    /// The task acquired the resource with a guard or permit that can be moved freely.
    MayHaveMoved,
    /// The task was the last to receive from the channel.
    LastReceiver,
}

impl HolderDump {
    pub(super) fn running(id: u64) -> Self {
        Self { id, task: None, site: None, granted: false, kind: HolderKind::Joined }
    }

    pub(in crate::inspect) fn id(&self) -> u64 {
        self.id
    }

    /// Returns the task, or `None` if it has ended or the holder is not a task.
    pub fn task(&self) -> Option<&TaskInfo> {
        self.task.as_ref()
    }

    /// Returns where the task acquired the resource.
    ///
    /// Returns `None` for a joined task, and if the resource was acquired while the waiter was
    /// queued.
    pub fn acquired_at(&self) -> Option<&'static Location<'static>> {
        self.site
    }

    /// Returns whether another task or thread may hold the resource now.
    ///
    /// True for owned guards and permits, which can be moved freely, and for a channel's receiver.
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
    /// let guard = lock.clone().lock_owned().await;
    /// let task = wakeful::spawn(async move { drop(lock.lock().await) });
    /// wakeful::task::yield_now().await;
    /// let dump = Handle::current().dump();
    /// let wait = dump.find(task.id()).unwrap().waiting_on().unwrap();
    /// assert!(wait.holders()[0].may_have_moved());
    /// # drop(guard);
    /// # task.await.unwrap();
    /// # }
    /// ```
    pub fn may_have_moved(&self) -> bool {
        !matches!(self.kind, HolderKind::Holds | HolderKind::Joined)
    }

    /// Returns whether the resource was granted to a future that has not been polled since.
    pub fn is_unpolled(&self) -> bool {
        self.granted
    }
}
