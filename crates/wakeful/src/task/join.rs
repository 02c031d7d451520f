//! Station 9, seen from outside: the handle that awaits a task's end, and the
//! one that can only ask for it.

use super::arena::Arena;
use super::coop;
use super::header::Header;
use super::runnable::TaskRef;
use super::state::{COMPLETE, DropJoin, JOIN_WAKER, Release};
use super::{Id, JoinError, cell, context, waker};
use std::fmt;
use std::marker::PhantomData;
use std::mem::MaybeUninit;
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::pin::Pin;
use std::ptr::NonNull;
use std::task::{Context, Poll, Waker};

/// Awaits the end of a task and its output.
///
/// Dropping it detaches the task, which goes on. Awaiting it gives the output,
/// or a [`JoinError`] if the task panicked or was cancelled.
///
/// # Cancel safety
///
/// Awaiting `&mut JoinHandle` is cancel safe: if the future is dropped, the
/// output is still there for the next await.
///
/// # Panics
///
/// When it is polled again after it gave its output.
///
/// ```
/// # #[wakeful::main(flavor = "current_thread")]
/// # async fn main() {
/// let handle = wakeful::spawn(async { 6 * 7 });
/// assert_eq!(handle.await.unwrap(), 42);
/// # }
/// ```
pub struct JoinHandle<T> {
    cell: NonNull<Header>,
    _output: PhantomData<T>,
}

// SAFETY: through the handle one reaches the state word and, after COMPLETE,
// the output (TASK-1), which may move to this thread if it is Send.
unsafe impl<T: Send> Send for JoinHandle<T> {}
// SAFETY: `&JoinHandle` reaches only the state word and read-only fields.
unsafe impl<T: Send> Sync for JoinHandle<T> {}

impl<T> UnwindSafe for JoinHandle<T> {}
impl<T> RefUnwindSafe for JoinHandle<T> {}
impl<T> Unpin for JoinHandle<T> {}

impl<T> JoinHandle<T> {
    /// # Safety
    ///
    /// The caller owns JOIN_INTEREST and its handle count; the task's output is
    /// a `T`.
    pub(super) unsafe fn from_cell(cell: NonNull<Header>) -> Self {
        Self { cell, _output: PhantomData }
    }

    fn header(&self) -> &Header {
        // SAFETY: our handle count keeps the cell alive.
        unsafe { self.cell.as_ref() }
    }

    /// Asks the task to end: its future is dropped at the next opportunity, at
    /// once if it waits. Awaiting the handle then gives a cancelled
    /// [`JoinError`], unless the task was faster. Calling it again does nothing,
    /// and neither does it end a `spawn_blocking` closure that already runs.
    pub fn abort(&self) {
        // SAFETY: our handle count keeps the cell alive.
        unsafe { waker::act(self.cell, self.header().state.abort(0)) };
    }

    /// Whether the task has ended. After [`abort`](Self::abort) it may take a
    /// moment until it has.
    pub fn is_finished(&self) -> bool {
        self.header().state.load().has(COMPLETE)
    }

    /// A handle that can abort the task, and cannot await it.
    pub fn abort_handle(&self) -> AbortHandle {
        self.header().state.clone_handle();
        // SAFETY: the count just taken.
        AbortHandle { task: unsafe { TaskRef::from_cell(self.cell) } }
    }

    /// The task's id.
    pub fn id(&self) -> Id {
        self.header().id()
    }

    /// Registers `waker`, unless the task is done.
    fn register_unless_complete(&mut self, waker: &Waker) -> bool {
        let seen = self.header().state.load();
        !seen.has(COMPLETE) && self.register(waker, seen.has(JOIN_WAKER))
    }

    /// The output of a task that is done.
    fn take_output(&mut self) -> Result<T, JoinError> {
        let taken = self.header().waiting.outcome() == cell::outcome::TAKEN;
        assert!(!taken, "JoinHandle polled after completion");
        let mut output = MaybeUninit::<Result<T, JoinError>>::uninit();
        // SAFETY: TASK-1: complete, and JOIN_INTEREST is ours; `take_output` writes
        // a value of exactly this type.
        unsafe {
            (self.header().vtable.get().take_output)(self.cell, output.as_mut_ptr().cast());
            output.assume_init()
        }
    }

    /// Leaves `waker` with the task. False: the task is complete.
    fn register(&mut self, waker: &Waker, registered: bool) -> bool {
        if registered {
            return self.replace_waker(waker);
        }
        let header = self.header();
        // SAFETY: TASK-2, the flag is clear and we are the JoinHandle. What clears the flag takes the
        // waker out, so the slot is empty.
        unsafe { header.join_waker.put(waker.clone()) };
        if header.state.set_join_waker() {
            return true;
        }
        // SAFETY: TASK-2, it was never published.
        drop(unsafe { header.join_waker.take() });
        false
    }

    /// As `register`, for a handle whose waker lies with the task.
    #[inline(never)]
    fn replace_waker(&mut self, waker: &Waker) -> bool {
        let header = self.header();
        if !header.state.unset_join_waker() {
            return false;
        }
        let unpublished = Unpublished(header);
        // SAFETY: TASK-2, the flag is clear and we are the JoinHandle.
        let replaced = unsafe { header.join_waker.keep(waker) };
        let is_published = header.state.set_join_waker();
        if is_published {
            std::mem::forget(unpublished);
        }
        if let Some(replaced) = replaced {
            // After the flag: if its drop panics, the new waker is registered, or taken out.
            waker::detach_and_drop(replaced);
        }
        is_published
    }
}

/// JOIN_WAKER is clear, and a waker may be in the slot. Dropped, it takes that waker out, also if
/// the clone of another waker panics: while the flag is clear, no later step does.
struct Unpublished<'a>(&'a Header);

impl Drop for Unpublished<'_> {
    fn drop(&mut self) {
        // SAFETY: TASK-2: the flag is clear and the JoinHandle is the caller.
        drop(unsafe { self.0.join_waker.take() });
    }
}

impl<T> Future for JoinHandle<T> {
    type Output = Result<T, JoinError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let progress = std::task::ready!(coop::poll_proceed(cx));
        if self.register_unless_complete(cx.waker()) {
            context::record_join_wait(self.header(), cx.waker());
            return Poll::Pending;
        }
        progress.made_progress();
        Poll::Ready(self.take_output())
    }
}

impl<T> Drop for JoinHandle<T> {
    fn drop(&mut self) {
        /// The handle goes, also if what is dropped before it panics.
        struct Last(NonNull<Header>);
        impl Drop for Last {
            fn drop(&mut self) {
                // SAFETY: the handle keeps the cell until the state word says otherwise.
                unsafe {
                    if self.0.as_ref().state.drop_handle() == Release::Free {
                        Arena::free(self.0);
                    }
                }
            }
        }
        let header = self.header();
        let taken = header.waiting.outcome() == cell::outcome::TAKEN;
        match header.state.drop_join(taken) {
            DropJoin::Nothing => {}
            // SAFETY: told so by the state word.
            DropJoin::Free => unsafe { Arena::free(self.cell) },
            DropJoin::DropWaker => {
                let _last = Last(self.cell);
                // SAFETY: TASK-2, `drop_join` cleared the flag.
                if let Some(waker) = unsafe { header.join_waker.take() } {
                    waker::detach_and_drop(waker);
                }
            }
            DropJoin::DropOutput => {
                let _last = Last(self.cell);
                let _id = context::enter_id(header.id.get());
                // SAFETY: TASK-1, complete and JOIN_INTEREST is ours.
                unsafe { (header.vtable.get().drop_output)(self.cell) };
            }
        }
    }
}

impl<T> fmt::Debug for JoinHandle<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JoinHandle").field("id", &self.id()).finish()
    }
}

/// Asks a task to end; made by [`JoinHandle::abort_handle`] and
/// [`JoinSet`](super::JoinSet).
#[derive(Clone)]
pub struct AbortHandle {
    task: TaskRef,
}

impl AbortHandle {
    /// As [`JoinHandle::abort`].
    pub fn abort(&self) {
        self.task.abort(0);
    }

    /// Whether the task has ended.
    pub fn is_finished(&self) -> bool {
        self.task.state().has(COMPLETE)
    }

    /// The task's id.
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
