//! Station 9, the user's side: the handle that awaits a task, and the handle that only aborts it.

use super::arena::Arena;
use super::coop;
use super::duty::{DropJoin, Release};
use super::header::Header;
use super::runnable::TaskRef;
use super::state::{COMPLETE, JOIN_WAKER};
use super::{Id, JoinError, cell, context, waker};
use std::fmt;
use std::marker::PhantomData;
use std::mem::MaybeUninit;
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::pin::Pin;
use std::ptr::NonNull;
use std::task::{Context, Poll, Waker};

/// A handle that awaits the output of a task.
///
/// Returned by [`spawn`](super::spawn). Awaiting the handle returns the output, or a [`JoinError`]
/// if the task panicked or was cancelled. Dropping the handle detaches the task, which keeps
/// running.
///
/// # Cancel safety
///
/// Awaiting `&mut JoinHandle` is cancel safe. If the await is dropped, the next one still returns
/// the output.
///
/// # Panics
///
/// If the handle is polled again after it returned the output.
///
/// # Examples
///
/// ```
/// # #[wakeful::main(flavor = "current_thread")]
/// # async fn main() {
/// let handle = wakeful::spawn(async { 6 * 7 });
/// assert_eq!(handle.await.unwrap(), 42);
///
/// let panicked = wakeful::spawn(async { panic!("no") });
/// assert!(panicked.await.unwrap_err().is_panic());
/// # }
/// ```
pub struct JoinHandle<T> {
    cell: NonNull<Header>,
    _output: PhantomData<T>,
}

// SAFETY: the handle accesses the state word and, after COMPLETE, the output (TASK-1). The output
// may move to this thread if it is Send.
unsafe impl<T: Send> Send for JoinHandle<T> {}
// SAFETY: `&JoinHandle` accesses only the state word and read-only fields.
unsafe impl<T: Send> Sync for JoinHandle<T> {}

impl<T> UnwindSafe for JoinHandle<T> {}
impl<T> RefUnwindSafe for JoinHandle<T> {}
impl<T> Unpin for JoinHandle<T> {}

impl<T> JoinHandle<T> {
    /// Creates the JoinHandle of the task in `cell`.
    ///
    /// # Safety
    ///
    /// The caller must own JOIN_INTEREST and its handle count, and the task's output must be a `T`.
    pub(super) unsafe fn from_cell(cell: NonNull<Header>) -> Self {
        Self { cell, _output: PhantomData }
    }

    fn header(&self) -> &Header {
        // SAFETY: this handle's count keeps the cell alive.
        unsafe { self.cell.as_ref() }
    }

    /// Cancels the task.
    ///
    /// A worker drops the future when the current poll ends, or soon if the task is waiting.
    /// Awaiting the handle then returns a [`JoinError`] for which
    /// [`is_cancelled`](JoinError::is_cancelled) is true, unless the task completed first.
    ///
    /// This has no effect on a task that has ended, or on a
    /// [`spawn_blocking`](super::spawn_blocking) closure that has started.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[wakeful::main(flavor = "current_thread")]
    /// # async fn main() {
    /// let handle = wakeful::spawn(wakeful::time::sleep(std::time::Duration::from_secs(3600)));
    /// handle.abort();
    /// assert!(handle.await.unwrap_err().is_cancelled());
    /// # }
    /// ```
    pub fn abort(&self) {
        // SAFETY: this handle's count keeps the cell alive.
        unsafe { waker::perform(self.cell, self.header().state.abort(0)) };
    }

    /// Returns whether the task has ended.
    ///
    /// This may return false right after [`abort`](Self::abort), because a worker must drop the
    /// future first.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[wakeful::main(flavor = "current_thread")]
    /// # async fn main() {
    /// let handle = wakeful::spawn(async {});
    /// wakeful::task::yield_now().await;
    /// assert!(handle.is_finished());
    /// # }
    /// ```
    pub fn is_finished(&self) -> bool {
        self.header().state.load().has(COMPLETE)
    }

    /// Returns a handle that can abort the task, but not await it.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[wakeful::main(flavor = "current_thread")]
    /// # async fn main() {
    /// let handle = wakeful::spawn(std::future::pending::<()>());
    /// let abort = handle.abort_handle();
    /// abort.abort();
    /// assert!(handle.await.unwrap_err().is_cancelled());
    /// # }
    /// ```
    pub fn abort_handle(&self) -> AbortHandle {
        self.header().state.clone_handle();
        // SAFETY: the previous line counted this handle.
        AbortHandle { task: unsafe { TaskRef::from_cell(self.cell) } }
    }

    /// Returns the task's id.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[wakeful::main(flavor = "current_thread")]
    /// # async fn main() {
    /// let (a, b) = (wakeful::spawn(async {}), wakeful::spawn(async {}));
    /// assert_ne!(a.id(), b.id());
    /// # }
    /// ```
    pub fn id(&self) -> Id {
        self.header().id()
    }

    /// Registers `waker` with the task. Returns false if the task is complete.
    fn register_unless_complete(&mut self, waker: &Waker) -> bool {
        let seen = self.header().state.load();
        !seen.has(COMPLETE) && self.register(waker, seen.has(JOIN_WAKER))
    }

    /// Polls the handle, for a future that records the wait itself.
    pub(crate) fn poll_unrecorded(&mut self, cx: &mut Context<'_>) -> Poll<Result<T, JoinError>> {
        self.poll_with(cx, |_, _| ())
    }

    #[inline]
    fn poll_with(
        &mut self,
        cx: &mut Context<'_>,
        record_wait: impl FnOnce(&Header, &Waker),
    ) -> Poll<Result<T, JoinError>> {
        let progress = std::task::ready!(coop::poll_proceed(cx));
        if self.register_unless_complete(cx.waker()) {
            record_wait(self.header(), cx.waker());
            return Poll::Pending;
        }
        progress.made_progress();
        Poll::Ready(self.take_output())
    }

    /// Takes the output of a complete task.
    fn take_output(&mut self) -> Result<T, JoinError> {
        let taken = self.header().waiting.outcome() == cell::outcome::TAKEN;
        assert!(!taken, "JoinHandle polled after completion");
        let mut output = MaybeUninit::<Result<T, JoinError>>::uninit();
        // SAFETY: TASK-1: the task is complete and this handle owns JOIN_INTEREST. `take_output`
        // writes a value of exactly this type.
        unsafe {
            (self.header().vtable.get().take_output)(self.cell, output.as_mut_ptr().cast());
            output.assume_init()
        }
    }

    /// Stores and publishes `waker`. Returns false if the task is complete.
    fn register(&mut self, waker: &Waker, registered: bool) -> bool {
        if registered {
            return self.replace_waker(waker);
        }
        let header = self.header();
        // SAFETY: TASK-2: the flag is clear and the caller is the JoinHandle. The cell is empty,
        // because the step that clears the flag also takes the waker out.
        unsafe { header.join_waker.put(waker.clone()) };
        if header.state.set_join_waker() {
            return true;
        }
        // SAFETY: TASK-2: the waker was never published.
        drop(unsafe { header.join_waker.take() });
        false
    }

    /// Replaces the published waker. Returns false if the task is complete.
    #[inline(never)]
    fn replace_waker(&mut self, waker: &Waker) -> bool {
        let header = self.header();
        if !header.state.unset_join_waker() {
            return false;
        }
        let unpublished = Unpublished(header);
        // SAFETY: TASK-2: the flag is clear and the caller is the JoinHandle.
        let replaced = unsafe { header.join_waker.replace(waker) };
        let is_published = header.state.set_join_waker();
        if is_published {
            std::mem::forget(unpublished);
        }
        if let Some(replaced) = replaced {
            // Dropped after the flag is set: if this drop panics, the new waker is already
            // published or dropped.
            waker::detach_and_drop(replaced, self.header().id.get());
        }
        is_published
    }
}

/// A guard that drops the unpublished join waker, even if the clone of the new waker panics.
///
/// JOIN_WAKER is clear, and no later step drops a waker that is not published.
struct Unpublished<'a>(&'a Header);

impl Drop for Unpublished<'_> {
    fn drop(&mut self) {
        // SAFETY: TASK-2: the flag is clear and the caller is the JoinHandle.
        drop(unsafe { self.0.join_waker.take() });
    }
}

impl<T> Future for JoinHandle<T> {
    type Output = Result<T, JoinError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        self.poll_with(cx, context::record_join_wait)
    }
}

impl<T> Drop for JoinHandle<T> {
    fn drop(&mut self) {
        let header = self.header();
        let taken = header.waiting.outcome() == cell::outcome::TAKEN;
        match header.state.drop_join(taken) {
            DropJoin::Nothing => {}
            // SAFETY: the state word returned `Free` to this caller.
            DropJoin::Free => unsafe { Arena::free(self.cell) },
            // SAFETY: the state word returned `DropWaker` to this caller, which owns the handle's
            // count.
            DropJoin::DropWaker => unsafe { drop_join_waker(self.cell) },
            // SAFETY: the state word returned `DropOutput` to this caller, which owns the handle's
            // count.
            DropJoin::DropOutput => unsafe { drop_output(self.cell) },
        }
    }
}

/// A guard that subtracts a handle count, even if the preceding drop panics.
struct DropHandle(NonNull<Header>);

impl Drop for DropHandle {
    fn drop(&mut self) {
        // SAFETY: the handle's count keeps the cell alive until the state word returns `Free`.
        unsafe {
            if self.0.as_ref().state.drop_handle() == Release::Free {
                Arena::free(self.0);
            }
        }
    }
}

/// Drops the waker and the handle count of a JoinHandle that is being dropped.
///
/// # Safety
///
/// `drop_join` must have returned `DropWaker` to the caller, which owns the handle count.
#[cold]
#[inline(never)]
unsafe fn drop_join_waker(cell: NonNull<Header>) {
    let _drop_handle = DropHandle(cell);
    // SAFETY: the handle's count keeps the cell alive.
    let header = unsafe { cell.as_ref() };
    // SAFETY: TASK-2: the caller cleared the flag in `drop_join`.
    if let Some(waker) = unsafe { header.join_waker.take() } {
        waker::detach_and_drop(waker, header.id.get());
    }
}

/// Drops the untaken output and the handle count of a JoinHandle that is being dropped.
///
/// # Safety
///
/// `drop_join` must have returned `DropOutput` to the caller, which owns the handle count.
#[inline(never)]
unsafe fn drop_output(cell: NonNull<Header>) {
    let _drop_handle = DropHandle(cell);
    // SAFETY: the handle's count keeps the cell alive.
    let header = unsafe { cell.as_ref() };
    let _id = context::enter_id(header.id.get());
    // SAFETY: TASK-1: the task is complete and the JoinHandle owned JOIN_INTEREST.
    unsafe { (header.vtable.get().drop_output)(cell) };
}

impl<T> fmt::Debug for JoinHandle<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JoinHandle").field("id", &self.id()).finish()
    }
}

/// A handle that can abort a task, but not await it.
///
/// Returned by [`JoinHandle::abort_handle`] and the spawn methods of [`JoinSet`](super::JoinSet).
/// Dropping the handle has no effect on the task.
///
/// # Examples
///
/// ```
/// # #[wakeful::main(flavor = "current_thread")]
/// # async fn main() {
/// let mut set = wakeful::task::JoinSet::new();
/// let abort = set.spawn(std::future::pending::<()>());
/// abort.abort();
/// assert!(set.join_next().await.unwrap().unwrap_err().is_cancelled());
/// # }
/// ```
#[derive(Clone)]
pub struct AbortHandle {
    task: TaskRef,
}

impl AbortHandle {
    /// Cancels the task; see [`JoinHandle::abort`].
    ///
    /// # Examples
    ///
    /// ```
    /// # #[wakeful::main(flavor = "current_thread")]
    /// # async fn main() {
    /// let task = wakeful::spawn(std::future::pending::<()>());
    /// let handle = task.abort_handle();
    /// handle.abort();
    /// assert!(task.await.unwrap_err().is_cancelled());
    /// # }
    /// ```
    pub fn abort(&self) {
        self.task.abort(0);
    }

    /// Returns whether the task has ended.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[wakeful::main(flavor = "current_thread")]
    /// # async fn main() {
    /// let task = wakeful::spawn(async {});
    /// let handle = task.abort_handle();
    /// assert!(!handle.is_finished());
    /// task.await.unwrap();
    /// assert!(handle.is_finished());
    /// # }
    /// ```
    pub fn is_finished(&self) -> bool {
        self.task.state().has(COMPLETE)
    }

    /// Returns the task's id.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[wakeful::main(flavor = "current_thread")]
    /// # async fn main() {
    /// let task = wakeful::spawn(async {});
    /// assert_eq!(task.abort_handle().id(), task.id());
    /// # }
    /// ```
    pub fn id(&self) -> Id {
        self.task.header().id()
    }
}

impl UnwindSafe for AbortHandle {}
impl RefUnwindSafe for AbortHandle {}

impl fmt::Debug for AbortHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AbortHandle").field("id", &self.id()).finish()
    }
}
