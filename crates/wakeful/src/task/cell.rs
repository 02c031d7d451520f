//! Station 2, the task cell: the part that depends on the future's type.
//!
//! `spawn` fills the cell. Station 5 polls the future in it. At station 9 the output takes the
//! future's place, and the JoinHandle takes the output.

use super::context;
use super::error::JoinError;
use super::header::{FutureMemory, Header, Vtable};
use super::join::JoinHandle;
use super::origin::Origin;
use super::runnable::Runnable;
use super::size_class::{LARGEST, class_of};
use super::waker;
use crate::sys::sync::UnsafeCell;
use crate::sys::unwind::catch_and_forget;
use std::any::Any;
use std::marker::PhantomData;
use std::mem::ManuallyDrop;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::ptr::NonNull;
use std::task::{Context, Poll};

/// The outcomes of a task, stored in the header's wait record under TASK-1. 0 means not ended.
pub(crate) mod outcome {
    pub(crate) const VALUE: u8 = 1;
    pub(crate) const CANCELLED: u8 = 2;
    pub(crate) const ORPHANED: u8 = 3;
    pub(crate) const PANIC: u8 = 4;
    pub(crate) const TAKEN: u8 = 5;
}

type Payload = Box<dyn Any + Send + 'static>;

/// The future, or later its output or the payload of its panic.
///
/// The state word and the outcome determine which of them is stored.
union Stage<F: Future> {
    future: ManuallyDrop<F>,
    output: ManuallyDrop<F::Output>,
    /// Boxed twice, to take only one word.
    panic: ManuallyDrop<Box<Payload>>,
}

/// The storage of the stage: the cell, or a box if the stage is large or needs more alignment.
///
/// The future is moved into the storage once.
trait Store<F: Future> {
    const IS_BOXED: bool;

    fn new(future: F) -> Self;
    fn stage(this: *mut Self) -> *mut Stage<F>;
    /// Frees the store's own memory, after the content of the stage was dropped.
    ///
    /// # Safety
    ///
    /// Must be called once, after the content of the stage was moved out or dropped.
    unsafe fn end(this: *mut Self);
}

struct Inline<F: Future>(Stage<F>);
struct Boxed<F: Future>(NonNull<Stage<F>>);

impl<F: Future> Store<F> for Inline<F> {
    const IS_BOXED: bool = false;

    fn new(future: F) -> Self {
        Self(Stage { future: ManuallyDrop::new(future) })
    }

    fn stage(this: *mut Self) -> *mut Stage<F> {
        this.cast()
    }

    // SAFETY: there is nothing to free, so the contract is not needed.
    unsafe fn end(_this: *mut Self) {}
}

impl<F: Future> Store<F> for Boxed<F> {
    const IS_BOXED: bool = true;

    fn new(future: F) -> Self {
        let stage = Box::new(Stage { future: ManuallyDrop::new(future) });
        Self(NonNull::from(Box::leak(stage)))
    }

    fn stage(this: *mut Self) -> *mut Stage<F> {
        // SAFETY: `new` created the box, and only `end` frees it.
        unsafe { (*this).0.as_ptr() }
    }

    // SAFETY: by the trait's contract the box is freed once.
    unsafe fn end(this: *mut Self) {
        // SAFETY: `new` leaked this box. A union drops none of its fields.
        drop(unsafe { Box::from_raw((*this).0.as_ptr()) });
    }
}

#[repr(C)]
struct Cell<F: Future, S: Store<F>> {
    header: Header,
    store: UnsafeCell<ManuallyDrop<S>>,
    _future: PhantomData<F>,
}

/// The options of a spawn.
pub(crate) struct SpawnOptions {
    pub(crate) origin: Origin,
    /// Extra flags of the state word: BLOCKING, FOREVER.
    pub(crate) flags: u64,
}

/// Computes the size class of the cell that a future needs, at compile time.
pub(crate) struct CellLayout<F>(PhantomData<F>);

impl<F: Future> CellLayout<F> {
    const INLINE: bool =
        size_of::<Cell<F, Inline<F>>>() <= LARGEST && align_of::<Cell<F, Inline<F>>>() <= 16;
    pub(crate) const CLASS: usize = class_of(if Self::INLINE {
        size_of::<Cell<F, Inline<F>>>()
    } else {
        size_of::<Cell<F, Boxed<F>>>()
    });
}

/// Fills a vacant cell of class [`CellLayout::CLASS`] and publishes the task.
///
/// # Safety
///
/// `cell` must be vacant, and only the caller may have access to it. Unless the future is `Send`,
/// the task must be polled, cancelled and joined only on the future's thread.
#[inline]
pub(crate) unsafe fn fill<F: Future>(
    cell: NonNull<Header>,
    id: u64,
    future: F,
    options: SpawnOptions,
) -> (Runnable, JoinHandle<F::Output>) {
    // SAFETY: the cell is vacant, only this thread has access to it, and its class fits this cell
    // type.
    unsafe {
        if CellLayout::<F>::INLINE {
            write_store::<F, Inline<F>>(cell, future);
        } else {
            write_store::<F, Boxed<F>>(cell, future);
        }
    }
    // SAFETY: no thread reads the plain fields of a vacant cell until LIVE is set (TASK-5).
    let header = unsafe { cell.as_ref() };
    header.vtable.set(if CellLayout::<F>::INLINE {
        Cell::<F, Inline<F>>::VTABLE
    } else {
        Cell::<F, Boxed<F>>::VTABLE
    });
    header.id.set(id);
    header.origin.set(options.origin);
    header.parent.set(context::current_id() as u32);
    header.spawned_ms.set(context::now_ms());
    header.reset_counts();
    header.waiting.clear_outcome();
    header.state.publish(options.flags);
    // SAFETY: `publish` counted one entry and one JoinHandle, which are created here.
    unsafe { (Runnable::from_cell(cell), JoinHandle::from_cell(cell)) }
}

/// Moves the future into the store of a vacant cell.
///
/// # Safety
///
/// The memory behind `cell` must be vacant and large enough for a `Cell<F, S>`.
#[inline(always)]
unsafe fn write_store<F: Future, S: Store<F>>(cell: NonNull<Header>, future: F) {
    let cell = cell.cast::<Cell<F, S>>().as_ptr();
    // SAFETY: by contract. The write does not read the old bytes.
    unsafe {
        std::ptr::addr_of_mut!((*cell).store)
            .write(UnsafeCell::new(ManuallyDrop::new(S::new(future))));
    }
}

impl<F: Future, S: Store<F>> Cell<F, S> {
    const VTABLE: &'static Vtable = &Vtable {
        poll: Self::poll,
        cancel: Self::cancel,
        take_output: Self::take_output,
        drop_output: Self::drop_output,
        future: std::any::type_name::<F>,
        memory: FutureMemory {
            address: std::mem::offset_of!(Self, store),
            len: size_of::<F>(),
            is_boxed: S::IS_BOXED,
        },
    };

    /// Returns the address of the stage.
    fn stage(cell: NonNull<Header>) -> *mut Stage<F> {
        // SAFETY: the header is the first field of a `Cell<F, S>` (repr(C)).
        let cell = unsafe { cell.cast::<Self>().as_ref() };
        cell.store.with_mut(|store| S::stage(store.cast::<S>()))
    }

    /// Frees the store after the content of the stage was moved out or dropped, under TASK-1.
    fn end(cell: NonNull<Header>) {
        // SAFETY: the header is the first field of a `Cell<F, S>`, and each caller has emptied the
        // stage, which happens once.
        unsafe {
            let cell = cell.cast::<Self>().as_ref();
            cell.store.with_mut(|store| S::end(store.cast::<S>()));
        }
    }

    /// Polls the future once. Returns true if the future is ready or has panicked.
    ///
    /// In both cases the future is dropped and the outcome stored.
    ///
    /// # Safety
    ///
    /// TASK-1, and the future is not dropped yet.
    unsafe fn poll(cell: NonNull<Header>) -> bool {
        let stage = Self::stage(cell);
        let result = catch_unwind(AssertUnwindSafe(|| {
            let unwinding = DropFuture::<F, S>(cell, PhantomData);
            let waker = waker::borrowed(cell);
            let mut cx = Context::from_waker(&waker);
            // SAFETY: TASK-1, and the cell does not move until the future is dropped.
            let poll = unsafe { Pin::new_unchecked(&mut *(*stage).future) }.poll(&mut cx);
            std::mem::forget(unwinding);
            poll
        }));
        match result {
            Ok(Poll::Pending) => false,
            Ok(Poll::Ready(output)) => {
                // SAFETY: TASK-1, and the future is not dropped yet.
                unsafe { Self::finish(cell, output) };
                true
            }
            Err(payload) => {
                // SAFETY: TASK-1, and `DropFuture` has dropped the future.
                unsafe {
                    report_panic(cell, &payload);
                    Self::store_panic(cell, payload);
                }
                true
            }
        }
    }

    /// Drops the future and stores its output. A panic of the future's destructor is discarded.
    ///
    /// # Safety
    ///
    /// TASK-1, and the future is not dropped yet.
    unsafe fn finish(cell: NonNull<Header>, output: F::Output) {
        // SAFETY: by contract.
        let dropped = unsafe { Self::drop_future(cell) };
        let stage = Self::stage(cell);
        // SAFETY: TASK-1, and the stage is empty now.
        unsafe {
            (*stage).output = ManuallyDrop::new(output);
            set_outcome(cell, outcome::VALUE);
        }
        discard_panic(dropped);
    }

    /// Drops the future. Returns the payload if its destructor panics.
    ///
    /// # Safety
    ///
    /// TASK-1, and the future is not dropped yet.
    unsafe fn drop_future(cell: NonNull<Header>) -> Result<(), Payload> {
        let stage = Self::stage(cell);
        // SAFETY: by contract. The future is not accessed again.
        catch_unwind(AssertUnwindSafe(|| unsafe { ManuallyDrop::drop(&mut (*stage).future) }))
    }

    /// Stores the payload of a panic as the outcome.
    ///
    /// # Safety
    ///
    /// TASK-1, and the stage is empty.
    unsafe fn store_panic(cell: NonNull<Header>, payload: Payload) {
        // SAFETY: by contract.
        unsafe {
            (*Self::stage(cell)).panic = ManuallyDrop::new(Box::new(payload));
            set_outcome(cell, outcome::PANIC);
        }
    }

    /// Drops the future and stores the outcome: cancelled, orphaned, or the panic of the drop.
    ///
    /// # Safety
    ///
    /// TASK-1, and the future is not dropped yet.
    unsafe fn cancel(cell: NonNull<Header>, orphaned: bool) {
        let kind = if orphaned { outcome::ORPHANED } else { outcome::CANCELLED };
        // SAFETY: by contract.
        unsafe {
            match Self::drop_future(cell) {
                Ok(()) => {
                    set_outcome(cell, kind);
                    Self::end(cell);
                }
                Err(payload) => Self::store_panic(cell, payload),
            }
        }
    }

    /// Moves the outcome to `dst`.
    ///
    /// # Safety
    ///
    /// TASK-1 after COMPLETE; `dst` is a `*mut Result<F::Output, JoinError>`.
    unsafe fn take_output(cell: NonNull<Header>, dst: *mut ()) {
        // SAFETY: by contract.
        unsafe {
            let result = Self::take(cell);
            dst.cast::<Result<F::Output, JoinError>>().write(result);
        }
    }

    /// Takes the outcome, leaving `outcome::TAKEN`.
    ///
    /// # Safety
    ///
    /// TASK-1 after COMPLETE.
    unsafe fn take(cell: NonNull<Header>) -> Result<F::Output, JoinError> {
        // SAFETY: by contract, and the outcome says what the stage stores.
        unsafe {
            match swap_outcome(cell, outcome::TAKEN) {
                outcome::VALUE => {
                    let output = ManuallyDrop::take(&mut (*Self::stage(cell)).output);
                    Self::end(cell);
                    Ok(output)
                }
                other => Err(Self::take_error(cell, other)),
            }
        }
    }

    /// Takes the outcome of a task that has no output.
    ///
    /// # Safety
    ///
    /// TASK-1 after COMPLETE, and `outcome` says what the stage stores.
    #[cold]
    unsafe fn take_error(cell: NonNull<Header>, outcome: u8) -> JoinError {
        // SAFETY: by contract.
        unsafe {
            let id = cell.as_ref().id();
            match outcome {
                outcome::PANIC => {
                    let payload = ManuallyDrop::take(&mut (*Self::stage(cell)).panic);
                    Self::end(cell);
                    JoinError::panic(id, *payload)
                }
                outcome::CANCELLED => JoinError::cancelled(id),
                outcome::ORPHANED => JoinError::orphaned(id),
                other => unreachable!(
                    "an output is taken once, after the task has ended (outcome {other})"
                ),
            }
        }
    }

    /// Drops an outcome that no JoinHandle takes. Reports a panic as unobserved.
    ///
    /// # Safety
    ///
    /// TASK-1 after COMPLETE.
    unsafe fn drop_output(cell: NonNull<Header>) {
        // SAFETY: by contract, and the outcome says that the stage stores a payload.
        unsafe {
            let header = cell.as_ref();
            if header.waiting.outcome() == outcome::PANIC {
                let payload: &Payload = &(*Self::stage(cell)).panic;
                header.chunk.as_ref().scheduler.as_ref().unobserved_panic(header, &**payload);
            }
        }
        // SAFETY: by contract.
        catch_and_forget(|| drop(unsafe { Self::take(cell) }));
    }
}

/// A guard that drops a future whose poll panics, while the thread is still panicking.
///
/// The poll's local variables are also dropped during the panic, so `thread::panicking` returns the
/// same value in all these destructors.
struct DropFuture<F: Future, S: Store<F>>(NonNull<Header>, PhantomData<(F, S)>);

impl<F: Future, S: Store<F>> Drop for DropFuture<F, S> {
    fn drop(&mut self) {
        // SAFETY: the guard is created under TASK-1. The poll has not returned, so the future is
        // not dropped yet.
        let dropped = unsafe { Cell::<F, S>::drop_future(self.0) };
        discard_panic(dropped);
    }
}

/// Reports to the scheduler that the future panicked in its poll.
///
/// # Safety
///
/// `cell` is a live cell.
unsafe fn report_panic(cell: NonNull<Header>, payload: &Payload) {
    // SAFETY: the cell is live by contract, and the scheduler outlives its tasks.
    unsafe {
        let header = cell.as_ref();
        header.chunk.as_ref().scheduler.as_ref().panicked(header, &**payload);
    }
}

/// Discards the panic of a destructor, which no JoinHandle takes and the panic hook has printed.
fn discard_panic(dropped: Result<(), Payload>) {
    if let Err(payload) = dropped {
        // Dropping the payload may panic again, so it is leaked.
        std::mem::forget(payload);
    }
}

/// Stores the task's outcome, and removes its waits.
///
/// # Safety
///
/// TASK-1.
unsafe fn set_outcome(cell: NonNull<Header>, kind: u8) {
    // SAFETY: the holder of TASK-1 keeps the cell alive.
    unsafe { cell.as_ref() }.waiting.set_outcome(kind);
}

/// Replaces the outcome, and returns the previous one.
///
/// # Safety
///
/// TASK-1.
unsafe fn swap_outcome(cell: NonNull<Header>, kind: u8) -> u8 {
    // SAFETY: the holder of TASK-1 keeps the cell alive, and is the only writer.
    let waiting = &unsafe { cell.as_ref() }.waiting;
    let old = waiting.outcome();
    waiting.store_outcome(kind);
    old
}
