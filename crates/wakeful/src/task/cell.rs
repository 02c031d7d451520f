//! Station 2, the task cell: the part that depends on the future's type. It is
//! filled by `spawn`, polled at station 5, and at station 9 its future gives way
//! to the output that the JoinHandle fetches.

use super::arena::{LARGEST, class_of};
use super::context;
use super::error::JoinError;
use super::header::{Header, Vtable};
use super::join::JoinHandle;
use super::origin::Origin;
use super::runnable::Runnable;
use super::waker;
use crate::sys::sync::UnsafeCell;
use std::any::Any;
use std::marker::PhantomData;
use std::mem::ManuallyDrop;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::ptr::NonNull;
use std::task::{Context, Poll};

/// How a task ended; kept in the header, written under TASK-1.
/// 0 is none of these: it has not ended.
pub(crate) mod outcome {
    pub(crate) const VALUE: u8 = 1;
    pub(crate) const CANCELLED: u8 = 2;
    pub(crate) const ORPHANED: u8 = 3;
    pub(crate) const PANIC: u8 = 4;
    pub(crate) const TAKEN: u8 = 5;
}

type Payload = Box<dyn Any + Send + 'static>;

/// The future, later its output or the panic's payload: which of them it is,
/// state word and outcome say.
union Stage<F: Future> {
    future: ManuallyDrop<F>,
    output: ManuallyDrop<F::Output>,
    /// Boxed twice, so that it is one word.
    panic: ManuallyDrop<Box<Payload>>,
}

/// Where the stage lies: in the cell, or, if it is large or oddly aligned, in a
/// box of its own, so that it is moved once and never again.
trait Store<F: Future> {
    fn new(future: F) -> Self;
    fn stage(this: *mut Self) -> *mut Stage<F>;
    /// Frees what the store owns besides the stage's content, which is gone.
    ///
    /// # Safety
    ///
    /// Once, when nothing in the stage is left.
    unsafe fn end(this: *mut Self);
}

struct Inline<F: Future>(Stage<F>);
struct Boxed<F: Future>(NonNull<Stage<F>>);

impl<F: Future> Store<F> for Inline<F> {
    fn new(future: F) -> Self {
        Self(Stage { future: ManuallyDrop::new(future) })
    }

    fn stage(this: *mut Self) -> *mut Stage<F> {
        this.cast()
    }

    // SAFETY: owns nothing else.
    unsafe fn end(_this: *mut Self) {}
}

impl<F: Future> Store<F> for Boxed<F> {
    fn new(future: F) -> Self {
        let stage = Box::new(Stage { future: ManuallyDrop::new(future) });
        Self(NonNull::from(Box::leak(stage)))
    }

    fn stage(this: *mut Self) -> *mut Stage<F> {
        // SAFETY: initialised in `new`, freed in `end`.
        unsafe { (*this).0.as_ptr() }
    }

    // SAFETY: by the trait's contract the box is given back once.
    unsafe fn end(this: *mut Self) {
        // SAFETY: `new` leaked this box; unions drop nothing by themselves.
        drop(unsafe { Box::from_raw((*this).0.as_ptr()) });
    }
}

#[repr(C)]
struct Cell<F: Future, S: Store<F>> {
    header: Header,
    store: UnsafeCell<ManuallyDrop<S>>,
    _future: PhantomData<F>,
}

/// How and by whom a task is spawned.
pub(crate) struct SpawnOptions {
    pub(crate) origin: Origin,
    /// Extra flags for the state word: BLOCKING, FOREVER.
    pub(crate) flags: u64,
}

/// Which class of cell a future needs, known at compile time.
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
/// `cell` is vacant and the caller's own. Unless the future is `Send`, the task
/// is polled, cancelled and joined only on the thread that may touch it.
#[inline]
pub(crate) unsafe fn fill<F: Future>(
    cell: NonNull<Header>,
    id: u64,
    future: F,
    birth: SpawnOptions,
) -> (Runnable, JoinHandle<F::Output>) {
    // SAFETY: the class has room for this cell type; vacant, ours.
    unsafe {
        if CellLayout::<F>::INLINE {
            write_store::<F, Inline<F>>(cell, future);
        } else {
            write_store::<F, Boxed<F>>(cell, future);
        }
    }
    // SAFETY: vacant, ours: nobody reads the plain fields until LIVE (TASK-5).
    let header = unsafe { cell.as_ref() };
    header.vtable.set(if CellLayout::<F>::INLINE {
        Cell::<F, Inline<F>>::VTABLE
    } else {
        Cell::<F, Boxed<F>>::VTABLE
    });
    header.id.set(id);
    header.origin.set(birth.origin);
    header.parent.set(context::current_id() as u32);
    header.spawned_ms.set(context::now_ms());
    header.reset_counts();
    header.waiting.clear();
    header.state.publish(birth.flags);
    // SAFETY: published with one entry and one JoinHandle; these are they.
    unsafe { (Runnable::from_cell(cell), JoinHandle::from_cell(cell)) }
}

/// # Safety
///
/// The memory behind `cell` is vacant and has room for a `Cell<F, S>`.
#[inline(always)]
unsafe fn write_store<F: Future, S: Store<F>>(cell: NonNull<Header>, future: F) {
    let cell = cell.cast::<Cell<F, S>>().as_ptr();
    // SAFETY: by contract; the field is written without reading the old bytes.
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
    };

    fn stage(cell: NonNull<Header>) -> *mut Stage<F> {
        // SAFETY: the header is the first field of a `Cell<F, S>` (repr(C)).
        let cell = unsafe { cell.cast::<Self>().as_ref() };
        cell.store.with_mut(|store| S::stage(store.cast::<S>()))
    }

    /// The stage's content is gone for good, under TASK-1.
    fn end(cell: NonNull<Header>) {
        // SAFETY: as in `stage`; the callers empty the stage once.
        unsafe {
            let cell = cell.cast::<Self>().as_ref();
            cell.store.with_mut(|store| S::end(store.cast::<S>()));
        }
    }

    /// # Safety
    ///
    /// TASK-1, and the future is still there.
    unsafe fn poll(cell: NonNull<Header>) -> bool {
        let stage = Self::stage(cell);
        let result = catch_unwind(AssertUnwindSafe(|| {
            let unwinding = DropFuture::<F, S>(cell, PhantomData);
            let waker = waker::borrowed(cell);
            let mut cx = Context::from_waker(&waker);
            // SAFETY: TASK-1; the cell does not move until the future is dropped.
            let poll = unsafe { Pin::new_unchecked(&mut *(*stage).future) }.poll(&mut cx);
            std::mem::forget(unwinding);
            poll
        }));
        match result {
            Ok(Poll::Pending) => false,
            Ok(Poll::Ready(output)) => {
                // SAFETY: TASK-1 and the future is done.
                unsafe { Self::finish(cell, output) };
                true
            }
            Err(payload) => {
                // SAFETY: TASK-1; the future is gone, see `DropFuture`.
                unsafe {
                    tell_home(cell, &payload);
                    Self::store_panic(cell, payload);
                }
                true
            }
        }
    }

    /// # Safety
    ///
    /// TASK-1, and the future is still there.
    unsafe fn finish(cell: NonNull<Header>, output: F::Output) {
        // SAFETY: by contract.
        let dropped = unsafe { Self::drop_future(cell) };
        let stage = Self::stage(cell);
        // SAFETY: TASK-1; the stage is empty now.
        unsafe {
            (*stage).output = ManuallyDrop::new(output);
            set_outcome(cell, outcome::VALUE);
        }
        end_second_panic(dropped);
    }

    /// # Safety
    ///
    /// TASK-1, and the future is still there.
    unsafe fn drop_future(cell: NonNull<Header>) -> Result<(), Payload> {
        let stage = Self::stage(cell);
        // SAFETY: by contract; it is not touched again.
        catch_unwind(AssertUnwindSafe(|| unsafe { ManuallyDrop::drop(&mut (*stage).future) }))
    }

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

    /// # Safety
    ///
    /// TASK-1, and the future is still there.
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

    /// # Safety
    ///
    /// TASK-1 after COMPLETE.
    unsafe fn take(cell: NonNull<Header>) -> Result<F::Output, JoinError> {
        // SAFETY: by contract, and the outcome says what the stage holds.
        unsafe {
            let stage = Self::stage(cell);
            let id = cell.as_ref().id();
            match swap_outcome(cell, outcome::TAKEN) {
                outcome::VALUE => {
                    let output = ManuallyDrop::take(&mut (*stage).output);
                    Self::end(cell);
                    Ok(output)
                }
                outcome::PANIC => {
                    let payload = ManuallyDrop::take(&mut (*stage).panic);
                    Self::end(cell);
                    Err(JoinError::panic(id, *payload))
                }
                outcome::CANCELLED => Err(JoinError::cancelled(id)),
                outcome::ORPHANED => Err(JoinError::orphaned(id)),
                other => unreachable!("an output is taken once, after the end (outcome {other})"),
            }
        }
    }

    /// # Safety
    ///
    /// TASK-1 after COMPLETE.
    unsafe fn drop_output(cell: NonNull<Header>) {
        // SAFETY: by contract; the outcome says that it is a panic's payload.
        unsafe {
            let header = cell.as_ref();
            if header.waiting.outcome() == outcome::PANIC {
                let payload: &Payload = &(*Self::stage(cell)).panic;
                header.chunk.as_ref().home.as_ref().unobserved_panic(header, &**payload);
            }
        }
        // SAFETY: by contract.
        let dropped = catch_unwind(AssertUnwindSafe(|| drop(unsafe { Self::take(cell) })));
        end_second_panic(dropped);
    }
}

/// Drops a future whose poll panics while the thread still is panicking, as what
/// the future had on its stack is: both may want to know (`thread::panicking`).
struct DropFuture<F: Future, S: Store<F>>(NonNull<Header>, PhantomData<(F, S)>);

impl<F: Future, S: Store<F>> Drop for DropFuture<F, S> {
    fn drop(&mut self) {
        // SAFETY: made under TASK-1; the poll has not come back, so the future is there.
        let dropped = unsafe { Cell::<F, S>::drop_future(self.0) };
        end_second_panic(dropped);
    }
}

/// Tells the scheduler that the task's future panicked in its poll.
///
/// # Safety
///
/// `cell` is a live cell.
unsafe fn tell_home(cell: NonNull<Header>, payload: &Payload) {
    // SAFETY: the home lives while its tasks do.
    unsafe {
        let header = cell.as_ref();
        header.chunk.as_ref().home.as_ref().panicked(header, &**payload);
    }
}

/// A panic of a destructor that has no JoinHandle to go to: it was printed when it
/// happened, and that is its end.
fn end_second_panic(dropped: Result<(), Payload>) {
    if let Err(payload) = dropped {
        // The payload's own drop may panic once more: let it leak instead.
        std::mem::forget(payload);
    }
}

/// # Safety
///
/// TASK-1.
unsafe fn set_outcome(cell: NonNull<Header>, kind: u8) {
    // SAFETY: `cell` is live, by the callers' contracts.
    unsafe { cell.as_ref() }.waiting.set_outcome(kind);
}

/// # Safety
///
/// TASK-1.
unsafe fn swap_outcome(cell: NonNull<Header>, kind: u8) -> u8 {
    // SAFETY: as above; a load and a store will do under TASK-1.
    let waiting = &unsafe { cell.as_ref() }.waiting;
    let old = waiting.outcome();
    waiting.set_outcome(kind);
    old
}
