//! Station 9, many at once: the JoinHandles of a `JoinSet`, and the list of those
//! whose tasks have ended.
//!
//! Each handle lies in a slot. The slot has a waker of its own, left with the task
//! when it is spawned; when the task ends, that waker puts the slot's number on
//! the ready list and wakes whoever awaits the set. So only handles that are done
//! are looked at, in the order in which their tasks ended, however many there are.
//!
//! Slots and their wakers are used again: in steady state a spawn allocates
//! nothing here. A wake on its way from a task that was detached may hit the slot's
//! next tenant; that is looked at, found not to be done, and left alone.
//!
//! The ready list is behind one small lock. Foreign code (cloning, waking,
//! dropping the waker of whoever awaits the set) runs outside of it.

use crate::sys::sync::Mutex;
use crate::task::{Id, JoinError, JoinHandle, context};
use crate::wait::wake_batch::PanicSink;
use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::{Arc, Mutex as StdMutex};
use std::task::{Context, Poll, Wake, Waker};

/// A set that becomes empty gives its memory back if it has more slots than this.
const KEEP_SLOTS: usize = 256;

/// A task of the set that has ended, and how.
pub(in crate::runtime) type Ended<T> = (Id, Result<T, JoinError>);

pub(in crate::runtime) struct Slots<T> {
    slots: Vec<Slot<T>>,
    /// The first vacant slot.
    vacant: Option<u32>,
    /// How many slots are not vacant.
    len: usize,
    ready: Arc<Ready>,
}

struct Slot<T> {
    /// Puts this slot on the ready list.
    waker: Waker,
    tenant: SlotState<T>,
}

enum SlotState<T> {
    /// And the next vacant slot.
    Nobody(Option<u32>),
    Running(JoinHandle<T>),
    /// Ended before the waker could be left with it. Rare, so it costs a box
    /// rather than a slot of the output's size; the lock is never contended, it
    /// makes the set `Sync` for outputs that are not.
    Early(Box<StdMutex<Ended<T>>>),
}

/// The slots whose tasks have ended, in that order, and who is to be told.
struct Ready {
    state: Mutex<ReadyState>,
}

#[derive(Default)]
struct ReadyState {
    /// May name a slot that is vacant or whose tenant is not done: see above.
    ended: VecDeque<u32>,
    waker: Option<Waker>,
}

/// The far end of a slot's waker.
struct SlotWaker {
    slot: u32,
    ready: Arc<Ready>,
}

impl Wake for SlotWaker {
    fn wake(self: Arc<Self>) {
        self.ready.push(self.slot);
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.ready.push(self.slot);
    }
}

impl Ready {
    fn push(&self, slot: u32) {
        let waker = {
            let mut state = self.state.lock();
            state.ended.push_back(slot);
            state.waker.take()
        };
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    fn pop(&self) -> Option<u32> {
        self.state.lock().ended.pop_front()
    }

    /// The next slot that has ended; if there is none, `waker` is told of it.
    fn pop_or_wait(&self, waker: &Waker) -> Option<u32> {
        {
            let mut state = self.state.lock();
            if let Some(slot) = state.ended.pop_front() {
                return Some(slot);
            }
            if state.waker.as_ref().is_some_and(|own| own.will_wake(waker)) {
                return None;
            }
        }
        let mut waker = Some(waker.clone());
        let has_ended = {
            let mut state = self.state.lock();
            let has_ended = !state.ended.is_empty();
            if !has_ended {
                std::mem::swap(&mut state.waker, &mut waker);
            }
            has_ended
        };
        // If this panics, the slot that has ended is still on the list.
        drop(waker);
        if has_ended { self.pop() } else { None }
    }

    /// Takes the waker out, for the caller to drop: the slots' wakers keep this alive for
    /// longer than the set.
    fn take_waker(&self) -> Option<Waker> {
        self.state.lock().waker.take()
    }
}

impl<T> Slots<T> {
    pub(in crate::runtime) fn new() -> Self {
        let ready = Ready { state: Mutex::new(ReadyState::default()) };
        Self { slots: Vec::new(), vacant: None, len: 0, ready: Arc::new(ready) }
    }

    pub(in crate::runtime) fn len(&self) -> usize {
        self.len
    }

    /// Takes a handle in and leaves the slot's waker with its task.
    pub(in crate::runtime) fn insert(&mut self, mut handle: JoinHandle<T>) {
        let index = self.vacant_slot();
        let slot = &mut self.slots[index as usize];
        let SlotState::Nobody(next) = &slot.tenant else { unreachable!("a slot has one tenant") };
        self.vacant = *next;
        self.len += 1;
        match poll_unattributed(&mut handle, &slot.waker) {
            Poll::Pending => slot.tenant = SlotState::Running(handle),
            Poll::Ready(output) => {
                slot.tenant = SlotState::Early(Box::new(StdMutex::new((handle.id(), output))));
                self.ready.push(index);
            }
        }
    }

    /// The number of a vacant slot, made if there is none.
    fn vacant_slot(&mut self) -> u32 {
        if let Some(index) = self.vacant {
            return index;
        }
        let index = u32::try_from(self.slots.len()).expect("a set has fewer than 2^32 tasks");
        let bell = Arc::new(SlotWaker { slot: index, ready: self.ready.clone() });
        self.slots.push(Slot { waker: Waker::from(bell), tenant: SlotState::Nobody(None) });
        self.vacant = Some(index);
        index
    }

    /// The next task that has ended, in the order of their ends; if there is none,
    /// `waker` is woken when there is.
    pub(in crate::runtime) fn take_ended_or_wait(&mut self, waker: &Waker) -> Option<Ended<T>> {
        loop {
            let index = self.ready.pop_or_wait(waker)?;
            if let Some(ended) = self.take(index) {
                return Some(ended);
            }
        }
    }

    /// The next task that has ended, if there is one.
    pub(in crate::runtime) fn take_ended(&mut self) -> Option<Ended<T>> {
        loop {
            let index = self.ready.pop()?;
            if let Some(ended) = self.take(index) {
                return Some(ended);
            }
        }
    }

    /// Empties a slot, if its tenant has ended.
    fn take(&mut self, index: u32) -> Option<Ended<T>> {
        let slot = self.slots.get_mut(index as usize)?;
        let ended = match &mut slot.tenant {
            SlotState::Nobody(_) => return None,
            SlotState::Early(_) => None,
            SlotState::Running(handle) => match poll_unattributed(handle, &slot.waker) {
                Poll::Pending => return None,
                Poll::Ready(output) => Some((handle.id(), output)),
            },
        };
        let tenant = std::mem::replace(&mut slot.tenant, SlotState::Nobody(self.vacant));
        self.vacant = Some(index);
        self.len -= 1;
        if self.len == 0 {
            self.shrink();
        }
        ended.or_else(|| match tenant {
            SlotState::Early(early) => Some(early.into_inner().unwrap_or_else(|e| e.into_inner())),
            SlotState::Nobody(_) | SlotState::Running(_) => None,
        })
    }

    /// The set is empty: gives back what a burst of tasks has left. The slots that
    /// go were all used since the last time, so this costs each task a constant.
    fn shrink(&mut self) {
        if self.slots.len() > KEEP_SLOTS {
            self.slots = Vec::new();
            self.vacant = None;
            self.ready.state.lock().ended.shrink_to(KEEP_SLOTS);
        }
    }

    pub(in crate::runtime) fn abort_all(&self) {
        for slot in &self.slots {
            if let SlotState::Running(handle) = &slot.tenant {
                handle.abort();
            }
        }
    }

    /// Lets go of all tasks.
    pub(in crate::runtime) fn detach_all(&mut self) {
        // Out of the set before they are dropped: an output's drop is foreign
        // code, and may panic.
        let slots = std::mem::take(&mut self.slots);
        self.vacant = None;
        self.len = 0;
        let ended = std::mem::take(&mut self.ready.state.lock().ended);
        drop(ended);
        drop(slots);
    }
}

impl<T> Drop for Slots<T> {
    /// The set ends: it wakes no task from here on, and aborts its own.
    fn drop(&mut self) {
        // First: an abort must not wake the task that awaited the set.
        let waker = self.ready.take_waker();
        let mut panics = PanicSink::default();
        panics.catch(|| drop(waker));
        self.abort_all();
        panics.catch(|| self.detach_all());
        panics.resume();
    }
}

/// Polls a handle with the slot's waker: apart from the task that this thread is
/// in, which neither pays for it from its budget nor waits for this one handle.
fn poll_unattributed<T>(handle: &mut JoinHandle<T>, waker: &Waker) -> Poll<Result<T, JoinError>> {
    #[cfg(test)]
    LOOKS.set(LOOKS.get() + 1);
    context::poll_unattributed(|| Pin::new(handle).poll(&mut Context::from_waker(waker)))
}

#[cfg(test)]
thread_local! {
    /// How many handles this thread has looked at.
    static LOOKS: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::{LOOKS, Ready, ReadyState, Slots};
    use crate::runtime::{Builder, OrphanPolicy};
    use crate::sys::sync::Mutex;
    use futures::channel::oneshot;
    use std::future::poll_fn;
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::ptr;
    use std::sync::LazyLock;
    use std::task::{Poll, RawWaker, RawWakerVTable, Waker};

    /// A task ends while the waker is cloned, and the clone is dropped with a panic. The
    /// next poll finds the task.
    #[test]
    fn a_waker_whose_drop_panics_loses_no_ended_task() {
        static READY: LazyLock<Ready> =
            LazyLock::new(|| Ready { state: Mutex::new(ReadyState::default()) });
        static CLONE: RawWakerVTable =
            RawWakerVTable::new(|_| unreachable!(), |_| (), |_| (), |_| panic!("dropped"));
        static ORIGINAL: RawWakerVTable = RawWakerVTable::new(
            |_| {
                READY.push(7);
                RawWaker::new(ptr::null(), &CLONE)
            },
            |_| (),
            |_| (),
            |_| (),
        );
        // SAFETY: there is nothing behind it, and its functions look at nothing.
        let waker = unsafe { Waker::new(ptr::null(), &ORIGINAL) };
        let polls = || _ = READY.pop_or_wait(&waker);
        assert!(catch_unwind(AssertUnwindSafe(polls)).is_err());
        assert_eq!(READY.pop(), Some(7));
    }

    /// Fills slots and has the tasks end one by one, the last first, where a
    /// search from the front would be at its worst. Every handle is looked at
    /// when it comes and when its task has ended, and never in between.
    #[test]
    fn each_handle_is_looked_at_twice_however_many_there_are() {
        let mut builder = Builder::new_current_thread();
        let runtime = builder.on_orphan(OrphanPolicy::Panic).build().unwrap();
        for tasks in [1, 10, 3_000] {
            let mut slots = Slots::new();
            runtime.block_on(async {
                let before = LOOKS.get();
                let mut senders = Vec::new();
                for n in 0..tasks {
                    let (tx, rx) = oneshot::channel::<()>();
                    senders.push(tx);
                    slots.insert(crate::spawn(async move { rx.await.map(|()| n) }));
                }
                assert_eq!(LOOKS.get() - before, tasks);
                for (n, tx) in senders.into_iter().enumerate().rev() {
                    let before = LOOKS.get();
                    tx.send(()).unwrap();
                    let (_, output) = poll_fn(|cx| match slots.take_ended_or_wait(cx.waker()) {
                        Some(ended) => Poll::Ready(ended),
                        None => Poll::Pending,
                    })
                    .await;
                    assert_eq!(output.unwrap(), Ok(n));
                    assert_eq!(LOOKS.get() - before, 1, "{n} of {tasks} are left");
                }
                assert_eq!(slots.len(), 0);
            });
        }
    }
}
