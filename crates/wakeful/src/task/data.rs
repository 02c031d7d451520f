//! Data that a spawn hook attaches to a task: a tag for diagnostics, and a wrapper of its polls.
//!
//! A task without data costs nothing: no code of a spawn, poll or end checks for data. A task with
//! data has its own vtable, stored with its name ([`Attached`]). The functions of that vtable call
//! the data and then the vtable of the future's type. So every scheduler, the blocking pool and the
//! shutdown support data without special code.
//!
//! The thread that drops the future or its outcome drops the data, which may run user code. A dump
//! takes a reference under a short lock, and user code runs outside the lock.

use super::cell::outcome;
use super::header::{Header, Vtable};
use super::runnable::Runnable;
use crate::sys::sync::Mutex;
use crate::sys::unwind::catch_and_forget;
use std::any::Any;
use std::fmt;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// Data of a task: a tag that dumps and reports show, and hooks around its polls.
///
/// A hook of [`Builder::on_spawn`](crate::runtime::Builder::on_spawn) attaches the data with
/// [`SpawnMeta::set_data`](crate::runtime::SpawnMeta::set_data). Its `Display` must be one line,
/// which dumps, reports and the live page show after the task's name. A dump or report captures the
/// text when it is created. An empty text is not shown.
/// [`TaskInfo::data`](crate::inspect::TaskInfo::data) returns the value itself.
///
/// To do more than tag a task, override [`enter`](Self::enter) and [`exit`](Self::exit), which are
/// called around each poll. A panic of any method is discarded after the program's panic hook has
/// printed it.
///
/// A task releases its data when it ends, or, after a panic, when its JoinHandle is awaited or
/// dropped. Dumps and reports may keep the data alive longer. Put code that must run at the end of
/// the task into [`end`](Self::end).
///
/// # Examples
///
/// ```
/// use std::fmt;
/// use std::sync::Arc;
/// use wakeful::runtime::{Builder, Handle, TaskData};
///
/// struct Tenant(u32);
///
/// impl fmt::Display for Tenant {
///     fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
///         write!(f, "tenant {}", self.0)
///     }
/// }
///
/// impl TaskData for Tenant {}
///
/// let runtime = Builder::new_current_thread()
///     .on_spawn(|task| task.set_data(Arc::new(Tenant(7))))
///     .build()?;
/// runtime.block_on(async {
///     let task = wakeful::spawn(async {});
///     let dump = Handle::current().dump();
///     let info = dump.find(task.id()).unwrap().info();
///     assert_eq!(info.data::<Tenant>().unwrap().0, 7);
///     assert_eq!(info.to_string(), format!("task {} [tenant 7]", task.id()));
/// });
/// # Ok::<(), std::io::Error>(())
/// ```
pub trait TaskData: Any + fmt::Display + Send + Sync {
    /// Called before each poll, and before the future is dropped unfinished, on the same thread.
    ///
    /// Each call is followed by a call of [`exit`](Self::exit) on this thread. Calls nest: if a
    /// task polls a [`LocalSet`](crate::task::LocalSet), the calls for the set's tasks are inside
    /// its own. For a closure of the blocking pool, `enter` is called before the closure.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::fmt;
    /// use std::sync::Arc;
    /// use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
    /// use wakeful::runtime::{Builder, TaskData};
    ///
    /// struct Polls(Arc<AtomicU32>);
    ///
    /// impl fmt::Display for Polls {
    ///     fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    ///         write!(f, "{} polls", self.0.load(Relaxed))
    ///     }
    /// }
    ///
    /// impl TaskData for Polls {
    ///     fn enter(&self) {
    ///         self.0.fetch_add(1, Relaxed);
    ///     }
    /// }
    ///
    /// let polls = Arc::new(AtomicU32::new(0));
    /// let counter = polls.clone();
    /// let runtime = Builder::new_current_thread()
    ///     .on_spawn(move |task| task.set_data(Arc::new(Polls(counter.clone()))))
    ///     .build()?;
    /// runtime.block_on(runtime.spawn(wakeful::task::yield_now())).unwrap();
    /// assert_eq!(polls.load(Relaxed), 2);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    fn enter(&self) {}

    /// Called after each poll, even if it panicked, and after the future was dropped unfinished.
    fn exit(&self) {}

    /// Called once when the task has ended, after the last [`exit`](Self::exit).
    ///
    /// Data that several tasks share gets one call for each task.
    fn end(&self) {}
}

/// The attachment of a task: its data, and the vtable that calls the data.
pub(crate) struct Attached {
    /// The vtable of the task while it has data.
    vtable: Vtable,
    /// The vtable of the future's type.
    inner: &'static Vtable,
    has_ended: AtomicBool,
    /// Taken when the task has ended.
    data: Mutex<Option<Arc<dyn TaskData>>>,
}

impl Attached {
    /// Returns the data, unless the task has ended.
    pub(crate) fn data(&self) -> Option<Arc<dyn TaskData>> {
        self.data.lock().clone()
    }

    /// Notifies the data that the task has ended.
    fn end(&self) {
        if let Some(data) = self.data()
            && !self.has_ended.swap(true, Relaxed)
        {
            catch_and_forget(|| data.end());
            forget_panic_of_drop(Some(data));
        }
    }

    /// Drops the data, outside its lock.
    fn release(&self) {
        self.end();
        let data = self.data.lock().take();
        forget_panic_of_drop(data);
    }
}

/// Drops a reference to data, and discards a panic of the data's destructor.
fn forget_panic_of_drop(data: Option<Arc<dyn TaskData>>) {
    catch_and_forget(|| drop(data));
}

/// A guard that enters the data, and exits it on drop.
struct Entered(Option<Arc<dyn TaskData>>);

impl Entered {
    fn new(attached: &Attached) -> Self {
        let data = attached.data();
        if let Some(data) = &data {
            catch_and_forget(|| data.enter());
        }
        Self(data)
    }
}

impl Drop for Entered {
    fn drop(&mut self) {
        if let Some(data) = &self.0 {
            catch_and_forget(|| data.exit());
        }
        forget_panic_of_drop(self.0.take());
    }
}

impl Runnable {
    /// Attaches data to a task that was just spawned and has no data yet.
    pub(super) fn attach(&self, data: Arc<dyn TaskData>) {
        // SAFETY: the entry keeps the cell alive.
        let header = unsafe { NonNull::new_unchecked(self.cell()).as_ref() };
        debug_assert!(header.was_never_polled() && header.attached().is_none());
        // SAFETY: nothing was attached before.
        let inner = unsafe { header.vtable.plain() };
        let vtable = Vtable { poll, cancel, take_output, drop_output, ..*inner };
        header.origin.attach(Attached {
            vtable,
            inner,
            has_ended: AtomicBool::new(false),
            data: Mutex::new(Some(data)),
        });
        if let Some(attached) = header.attached() {
            // SAFETY: the origin owns the vtable, and is released with the cell.
            unsafe { header.vtable.attach(&attached.vtable) };
        }
    }
}

/// Returns the attachment of the task in `cell`, which has the vtable of its data.
///
/// # Safety
///
/// The caller must keep the cell alive while it uses the result.
unsafe fn attached<'a>(cell: NonNull<Header>) -> &'a Attached {
    // SAFETY: by contract.
    let attached = unsafe { cell.as_ref() }.attached();
    attached.expect("the origin is stored before the vtable that leads here")
}

/// Polls the future once, with the data entered.
///
/// # Safety
///
/// The contract of [`Vtable::poll`].
unsafe fn poll(cell: NonNull<Header>) -> bool {
    // SAFETY: by contract; RUNNING keeps the cell alive.
    unsafe {
        let attached = attached(cell);
        let entered = Entered::new(attached);
        let is_done = (attached.inner.poll)(cell);
        drop(entered);
        if is_done {
            finish(cell, attached);
        }
        is_done
    }
}

/// Drops the future, with the data entered.
///
/// # Safety
///
/// The contract of [`Vtable::cancel`].
unsafe fn cancel(cell: NonNull<Header>, orphaned: bool) {
    // SAFETY: by contract; RUNNING keeps the cell alive.
    unsafe {
        let attached = attached(cell);
        let entered = Entered::new(attached);
        (attached.inner.cancel)(cell, orphaned);
        drop(entered);
        finish(cell, attached);
    }
}

/// Ends the data with the task, unless it panicked: reports of the panic still need the data.
///
/// # Safety
///
/// TASK-1, and the outcome is stored.
unsafe fn finish(cell: NonNull<Header>, attached: &Attached) {
    attached.end();
    // SAFETY: by contract; RUNNING keeps the cell alive.
    if unsafe { cell.as_ref() }.waiting.outcome() != outcome::PANIC {
        attached.release();
    }
}

/// Moves the outcome to the JoinHandle, and ends the data of a task that panicked.
///
/// # Safety
///
/// The contract of [`Vtable::take_output`].
unsafe fn take_output(cell: NonNull<Header>, dst: *mut ()) {
    // SAFETY: by contract; the JoinHandle keeps the cell alive.
    unsafe {
        let attached = attached(cell);
        (attached.inner.take_output)(cell, dst);
        attached.release();
    }
}

/// Drops the outcome, and the data of a task that panicked.
///
/// # Safety
///
/// The contract of [`Vtable::drop_output`].
unsafe fn drop_output(cell: NonNull<Header>) {
    // SAFETY: by contract; the caller keeps the cell alive.
    unsafe {
        let attached = attached(cell);
        (attached.inner.drop_output)(cell);
        attached.release();
    }
}
