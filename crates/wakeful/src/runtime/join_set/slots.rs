//! Station 9 for many tasks: the slots of a `JoinSet`, and its list of ended tasks.
//!
//! Each slot has the `JoinHandle` of one task and a slot-specific waker, which is registered with
//! the task when it is spawned. When the task ends, that waker pushes the slot's index to the
//! [`ReadyList`] and wakes the task that awaits the set. So the set polls only handles of ended
//! tasks, in the order in which they ended, regardless of its size.
//!
//! Slots and their wakers are reused: in steady state a spawn allocates nothing here. A late
//! wake-up for a detached task may reach the slot's next task. The set then polls that task's
//! handle, finds that the task has not ended, and leaves it in place.
//!
//! One mutex protects the ready list. Foreign code runs outside the lock: cloning, waking or
//! dropping the waker of the task that awaits the set.

use crate::sys::sync::Mutex;
use crate::task::wait_kind::WaitKind;
use crate::task::wait_target::TargetWord;
use crate::task::{Id, JoinError, JoinHandle, context};
use crate::wait;
use crate::wait::ownership::resource_record::{RecordCell, WaitLink, member_requests};
use crate::wait::wake_batch::PanicSink;
use std::collections::VecDeque;
use std::panic::Location;
use std::pin::Pin;
use std::sync::{Arc, Mutex as StdMutex};
use std::task::{Context, Poll, Wake, Waker};

/// The number of slots above which a set frees its memory when it becomes empty.
const KEEP_SLOTS: usize = 256;

/// The id and the result of a task that has ended.
pub(in crate::runtime) type Ended<T> = (Id, Result<T, JoinError>);

pub(in crate::runtime) struct Slots<T> {
    slots: Vec<Slot<T>>,
    /// The first slot of the free list.
    first_free: Option<u32>,
    /// The number of slots that have a task.
    len: usize,
    ready: Arc<ReadyList>,
    /// The value of [`member_requests`] when this set last listed its tasks for a deadlock scan.
    requests: u32,
}

struct Slot<T> {
    /// Pushes this slot to the ready list.
    waker: Waker,
    state: SlotState<T>,
}

enum SlotState<T> {
    /// The slot has no task. The value is the next slot of the free list.
    Free(Option<u32>),
    Running(JoinHandle<T>),
    /// The task ended before the slot's waker was registered with it.
    ///
    /// This is rare, so the output is boxed to keep slots small. The lock is never contended. It
    /// only makes the set `Sync` for outputs that are not `Sync`.
    EndedEarly(Box<StdMutex<Ended<T>>>),
}

/// The slots of ended tasks, in order of their ends, and the waker of the task that awaits the set.
struct ReadyList {
    state: Mutex<ReadyState>,
    /// The resource record of the set, once a deadlock scan has asked for its tasks.
    record: RecordCell,
}

#[derive(Default)]
struct ReadyState {
    /// After a late wake-up, this may contain a slot that is free or whose task has not ended.
    ended: VecDeque<u32>,
    waker: Option<Waker>,
    /// The link of the task that awaits the set, while `waker` is its waker (RECORD-1).
    link: WaitLink,
}

/// The data behind the waker of a slot.
struct SlotWaker {
    slot: u32,
    ready: Arc<ReadyList>,
}

impl Wake for SlotWaker {
    fn wake(self: Arc<Self>) {
        self.ready.push(self.slot);
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.ready.push(self.slot);
    }
}

impl ReadyList {
    fn new() -> Self {
        Self { state: Mutex::new(ReadyState::default()), record: RecordCell::none() }
    }

    fn push(&self, slot: u32) {
        let waker = {
            let mut state = self.state.lock();
            state.ended.push_back(slot);
            self.detach(&mut state);
            state.waker.take()
        };
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// Removes the link of the task that awaits the set.
    #[inline]
    fn detach(&self, state: &mut ReadyState) {
        std::mem::replace(&mut state.link, WaitLink::NONE).detach(&self.record);
    }

    /// Links the task that awaits the set and lists `tasks`, if `waker` is still registered.
    #[cold]
    fn attach(&self, waker: &Waker, tasks: Vec<u64>, site: &'static Location<'static>) {
        let mut state = self.state.lock();
        let is_own = |own: &Waker| own.will_wake(waker);
        if state.ended.is_empty() && state.waker.as_ref().is_some_and(is_own) {
            self.detach(&mut state);
            let record = self.record.obtain();
            record.set_members(tasks);
            state.link = WaitLink::attach_with(record, waker, (WaitKind::Join, site));
        }
    }

    fn pop(&self) -> Option<u32> {
        self.state.lock().ended.pop_front()
    }

    /// Pops the next slot. If there is none, registers `waker` to be woken by the next push.
    fn pop_or_register(&self, waker: &Waker) -> Option<u32> {
        {
            let mut state = self.state.lock();
            if let Some(slot) = state.ended.pop_front() {
                return Some(slot);
            }
            if state.waker.as_ref().is_some_and(|current| current.will_wake(waker)) {
                return None;
            }
        }
        let mut waker = Some(waker.clone());
        let has_ended = {
            let mut state = self.state.lock();
            let has_ended = !state.ended.is_empty();
            if !has_ended {
                self.detach(&mut state);
                std::mem::swap(&mut state.waker, &mut waker);
            }
            has_ended
        };
        // If this drop panics, the slot is still on the list.
        drop(waker);
        if has_ended { self.pop() } else { None }
    }

    /// Removes the registered waker, and returns it for the caller to drop.
    ///
    /// The slots' wakers keep the list alive longer than the set.
    fn take_waker(&self) -> Option<Waker> {
        let mut state = self.state.lock();
        self.detach(&mut state);
        state.waker.take()
    }
}

impl<T> Slots<T> {
    pub(in crate::runtime) fn new() -> Self {
        let requests = member_requests();
        let ready = Arc::new(ReadyList::new());
        Self { slots: Vec::new(), first_free: None, len: 0, ready, requests }
    }

    pub(in crate::runtime) fn len(&self) -> usize {
        self.len
    }

    /// Adds a task to the set, and registers the slot's waker with it.
    pub(in crate::runtime) fn insert(&mut self, mut handle: JoinHandle<T>) {
        let index = self.free_slot();
        let slot = &mut self.slots[index as usize];
        let SlotState::Free(next) = &slot.state else { unreachable!("the free list has it") };
        self.first_free = *next;
        self.len += 1;
        if self.ready.record.get().is_some() {
            // The list of tasks is no longer complete.
            self.ready.detach(&mut self.ready.state.lock());
        }
        match poll_unattributed(&mut handle, &slot.waker) {
            Poll::Pending => slot.state = SlotState::Running(handle),
            Poll::Ready(output) => {
                slot.state = SlotState::EndedEarly(Box::new(StdMutex::new((handle.id(), output))));
                self.ready.push(index);
            }
        }
    }

    /// Returns the index of a free slot. Creates one if there is none.
    fn free_slot(&mut self) -> u32 {
        if let Some(index) = self.first_free {
            return index;
        }
        let index = u32::try_from(self.slots.len()).expect("a set has fewer than 2^32 tasks");
        let waker = Arc::new(SlotWaker { slot: index, ready: self.ready.clone() });
        self.slots.push(Slot { waker: Waker::from(waker), state: SlotState::Free(None) });
        self.first_free = Some(index);
        index
    }

    /// Removes the task that ended first. If there is none, registers `waker` for the next one.
    pub(in crate::runtime) fn take_ended_or_register(&mut self, waker: &Waker) -> Option<Ended<T>> {
        loop {
            let index = self.ready.pop_or_register(waker)?;
            if let Some(ended) = self.take(index) {
                return Some(ended);
            }
        }
    }

    /// Records that the current task, whose waker is registered, waits for any task of the set.
    ///
    /// If a deadlock scan has requested it, first lists the tasks of the set in the resource record.
    pub(in crate::runtime) fn record_wait(
        &mut self,
        waker: &Waker,
        site: &'static Location<'static>,
    ) {
        let requests = member_requests();
        if requests != self.requests {
            self.requests = requests;
            let id = |slot: &Slot<T>| match &slot.state {
                SlotState::Running(handle) => Some(handle.id().as_u64()),
                SlotState::Free(_) | SlotState::EndedEarly(_) => None,
            };
            self.ready.attach(waker, self.slots.iter().filter_map(id).collect(), site);
        }
        let is_linked = || self.ready.state.lock().link.is_some();
        let target = match self.ready.record.get() {
            Some(record) if is_linked() => record.target(),
            _ => TargetWord::NONE,
        };
        wait::record_wait_keeping_link(WaitKind::Join, target, site);
    }

    /// Removes the task that ended first, if there is one.
    pub(in crate::runtime) fn take_ended(&mut self) -> Option<Ended<T>> {
        loop {
            let index = self.ready.pop()?;
            if let Some(ended) = self.take(index) {
                return Some(ended);
            }
        }
    }

    /// Frees a slot if its task has ended, and returns the output.
    fn take(&mut self, index: u32) -> Option<Ended<T>> {
        let slot = self.slots.get_mut(index as usize)?;
        let ended = match &mut slot.state {
            SlotState::Free(_) => return None,
            SlotState::EndedEarly(_) => None,
            SlotState::Running(handle) => match poll_unattributed(handle, &slot.waker) {
                Poll::Pending => return None,
                Poll::Ready(output) => Some((handle.id(), output)),
            },
        };
        let state = std::mem::replace(&mut slot.state, SlotState::Free(self.first_free));
        self.first_free = Some(index);
        self.len -= 1;
        if self.len == 0 {
            self.shrink();
        }
        ended.or_else(|| match state {
            SlotState::EndedEarly(early) => {
                Some(early.into_inner().unwrap_or_else(|e| e.into_inner()))
            }
            SlotState::Free(_) | SlotState::Running(_) => None,
        })
    }

    /// Frees the excess memory of a set that is empty after a burst of tasks.
    ///
    /// All slots were used since the last call, so the amortized cost per task is constant.
    fn shrink(&mut self) {
        if self.slots.len() > KEEP_SLOTS {
            self.slots = Vec::new();
            self.first_free = None;
            self.ready.state.lock().ended.shrink_to(KEEP_SLOTS);
        }
    }

    pub(in crate::runtime) fn abort_all(&self) {
        for slot in &self.slots {
            if let SlotState::Running(handle) = &slot.state {
                handle.abort();
            }
        }
    }

    /// Removes all tasks without aborting them.
    pub(in crate::runtime) fn detach_all(&mut self) {
        // The set is emptied before the slots are dropped: the drop of an output is foreign code
        // and may panic.
        let slots = std::mem::take(&mut self.slots);
        self.first_free = None;
        self.len = 0;
        let ended = std::mem::take(&mut self.ready.state.lock().ended);
        drop(ended);
        drop(slots);
    }
}

impl<T> Drop for Slots<T> {
    /// Aborts the tasks of the set. After that, the set wakes no task.
    fn drop(&mut self) {
        // Taken before the aborts, which must not wake the task that awaited the set.
        let waker = self.ready.take_waker();
        let mut panics = PanicSink::default();
        panics.catch(|| drop(waker));
        self.abort_all();
        panics.catch(|| self.detach_all());
        panics.resume();
    }
}

/// Polls a handle with the slot's waker, outside of the current task's accounting.
///
/// The poll uses no budget of the current task, and is not recorded as a wait of that task.
fn poll_unattributed<T>(handle: &mut JoinHandle<T>, waker: &Waker) -> Poll<Result<T, JoinError>> {
    #[cfg(test)]
    HANDLE_POLLS.set(HANDLE_POLLS.get() + 1);
    context::poll_unattributed(|| Pin::new(handle).poll(&mut Context::from_waker(waker)))
}

#[cfg(test)]
thread_local! {
    /// How often this thread has polled a handle.
    static HANDLE_POLLS: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::{HANDLE_POLLS, ReadyList, Slots};
    use crate::runtime::{Builder, OrphanPolicy};
    use futures::channel::oneshot;
    use std::future::poll_fn;
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::ptr;
    use std::sync::LazyLock;
    use std::task::{Poll, RawWaker, RawWakerVTable, Waker};

    /// A task ends while the waker is being cloned, and dropping the clone panics. The next poll
    /// must find the task.
    #[test]
    fn panic_in_waker_drop_loses_no_ended_task() {
        static READY: LazyLock<ReadyList> = LazyLock::new(ReadyList::new);
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
        // SAFETY: the functions of the vtables do not use the data pointer.
        let waker = unsafe { Waker::new(ptr::null(), &ORIGINAL) };
        let polls = || _ = READY.pop_or_register(&waker);
        assert!(catch_unwind(AssertUnwindSafe(polls)).is_err());
        assert_eq!(READY.pop(), Some(7));
    }

    /// The tasks end one by one in reverse order, the worst order for a search from the front. Each
    /// handle is polled when it is inserted and when its task has ended, and never in between.
    #[test]
    fn each_handle_is_polled_twice_whatever_their_number() {
        let mut builder = Builder::new_current_thread();
        let runtime = builder.on_orphan(OrphanPolicy::Panic).build().unwrap();
        for tasks in [1, 10, 3_000] {
            let mut slots = Slots::new();
            runtime.block_on(async {
                let before = HANDLE_POLLS.get();
                let mut senders = Vec::new();
                for n in 0..tasks {
                    let (tx, rx) = oneshot::channel::<()>();
                    senders.push(tx);
                    slots.insert(crate::spawn(async move { rx.await.map(|()| n) }));
                }
                assert_eq!(HANDLE_POLLS.get() - before, tasks);
                for (n, tx) in senders.into_iter().enumerate().rev() {
                    let before = HANDLE_POLLS.get();
                    tx.send(()).unwrap();
                    let (_, output) =
                        poll_fn(|cx| match slots.take_ended_or_register(cx.waker()) {
                            Some(ended) => Poll::Ready(ended),
                            None => Poll::Pending,
                        })
                        .await;
                    assert_eq!(output.unwrap(), Ok(n));
                    assert_eq!(HANDLE_POLLS.get() - before, 1, "{n} of {tasks} are left");
                }
                assert_eq!(slots.len(), 0);
            });
        }
    }
}
