//! Tasks that wait for the same thing, first come, first served.
//!
//! Actors: a *waiter* is a future that has a place in the list, a [`Waiter`]; a
//! *giver* is whoever has something for it: it takes the waiter off the list and
//! leaves an [`Grant`].
//!
//! ```text
//! diagram
//!                  push_back                      pop_front, pop_back
//!   IDLE ─────────────────────────► WAITING ──────────────────────► answered
//!     ▲                                │                                │
//!     └────────── cancel ◄─────────────┴──────────── reset ◄────────────┘
//! ```
//!
//! Rules:
//! - LIST-1. The list, the links of its waiters, their wakers and what they ask for
//!   are touched only under the list's lock.
//! - LIST-2. `standing` says without the lock where a waiter stands. Only the lock's
//!   holder moves it away from WAITING, as its last access to the waiter: from
//!   then on the waiter is its future's alone.
//! - LIST-3. A waiter in the list is pinned, and its future takes it off before it
//!   is dropped. A waiter that is dropped while it waits ends the process, so
//!   that a mistake here never becomes a pointer to nowhere.
//! - LIST-4. A waiter is in one list at a time; `home` says in which, and every
//!   method checks it.
//! - LIST-5. A waiter has an entry exactly while it is in a list: written on the way
//!   in, moved out on the way out. A waiter that never waits costs next to nothing.
//! - LIST-6. The waiter in front has whatever `prev` it came with, and nobody follows it.
//!   So taking the front off leaves the one behind it alone, whose memory may be
//!   another processor's just now.
//!
//! Orderings: the Release store of an answer pairs with the Acquire load in
//! [`Waiter::standing`]; what the giver did before is seen by the waiter. The
//! lock orders everything else.

use super::wake_batch::{PanicSink, PendingWake, WakeBatch};
use crate::sys::spin_lock::SpinLock;
use crate::sys::sync::atomic::{AtomicU32, Ordering::*};
use crate::sys::sync::{UnsafeCell, const_unless_model};
use crate::wait::ownership::resource_record::{RecordCell, ResourceRecord, WaitLink, WaitReason};
use std::marker::PhantomPinned;
use std::mem::MaybeUninit;
use std::pin::Pin;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32 as StdU32, AtomicUsize};
use std::task::Waker;

const IDLE: u32 = 0;
const WAITING: u32 = 1;

/// What a giver leaves with a waiter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub(crate) enum Grant {
    /// The one in front got what it asked for, and has to pass it on if its
    /// future is dropped without having looked.
    One = 2,
    /// The same for the one at the back.
    Last = 3,
    /// Everybody was told; nothing to pass on.
    All = 4,
    /// There will be nothing more.
    Closed = 5,
}

/// Where a waiter stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WaiterState {
    Idle,
    Waiting,
    Granted(Grant),
}

impl WaiterState {
    fn from_u32(word: u32) -> Self {
        match word {
            IDLE => WaiterState::Idle,
            WAITING => WaiterState::Waiting,
            2 => WaiterState::Granted(Grant::One),
            3 => WaiterState::Granted(Grant::Last),
            4 => WaiterState::Granted(Grant::All),
            5 => WaiterState::Granted(Grant::Closed),
            _ => unreachable!("not a standing: {word}"),
        }
    }
}

/// A place in a list; part of the future that waits. `T` is what it asks for.
pub(crate) struct Waiter<T> {
    /// Guarded by LIST-1, and there by LIST-5.
    entry: UnsafeCell<MaybeUninit<Entry<T>>>,
    /// See LIST-2.
    standing: AtomicU32,
    /// What a giver said beside its answer, before it.
    remark: StdU32,
    /// The address of the list it is in, or was in last (LIST-4). Written by the
    /// waiter's future.
    home: AtomicUsize,
    _pinned: PhantomPinned,
}

struct Entry<T> {
    prev: Option<NonNull<Waiter<T>>>,
    next: Option<NonNull<Waiter<T>>>,
    /// None before the future was polled.
    waker: Option<Waker>,
    /// Where the waker's task says that it lies here.
    link: WaitLink,
    ask: T,
}

// SAFETY: LIST-1 and LIST-2 say who touches what when; wakers are Send and Sync.
unsafe impl<T: Send> Send for Waiter<T> {}
// SAFETY: as above.
unsafe impl<T: Send> Sync for Waiter<T> {}

impl<T> Waiter<T> {
    pub(crate) fn new() -> Self {
        Self {
            entry: UnsafeCell::new(MaybeUninit::uninit()),
            standing: AtomicU32::new(IDLE),
            remark: StdU32::new(0),
            home: AtomicUsize::new(0),
            _pinned: PhantomPinned,
        }
    }

    #[inline]
    pub(crate) fn state(&self) -> WaiterState {
        WaiterState::from_u32(self.standing.load(Acquire))
    }

    /// What came with the answer, if it came from
    /// [`pop_front_with`](Locked::pop_front_with).
    /// It is told once.
    pub(crate) fn take_payload(&self) -> u32 {
        // LIST-2: answered, so it is the future's alone.
        let remark = self.remark.load(Relaxed);
        self.remark.store(0, Relaxed);
        remark
    }

    /// Forgets the answer, to wait once more.
    ///
    /// # Panics
    ///
    /// While it waits.
    pub(crate) fn reset(&self) {
        assert!(self.standing.load(Acquire) != WAITING, "LIST-3: still in a list");
        self.standing.store(IDLE, Relaxed);
    }
}

impl<T> Drop for Waiter<T> {
    fn drop(&mut self) {
        if self.state() == WaiterState::Waiting {
            lost_waiter();
        }
    }
}

/// LIST-3 was broken: other tasks hold pointers to memory that is about to go.
#[cold]
fn lost_waiter() -> ! {
    eprintln!("wakeful: a waiter was dropped while it is in a list; this is a bug of wakeful");
    std::process::abort()
}

/// A list of waiters and, behind the same lock, the state `S` of whatever they
/// wait for.
pub(crate) struct Waiters<S, T> {
    queue: SpinLock<Queue<S, T>>,
    /// Only in lists whose waiters link their tasks' wait records.
    pub(crate) record: RecordCell,
}

/// What the lock guards.
pub(crate) struct Queue<S, T> {
    pub(crate) state: S,
    front: Option<NonNull<Waiter<T>>>,
    back: Option<NonNull<Waiter<T>>>,
}

// SAFETY: the waiters in it are Send and Sync, and LIST-1 guards them.
unsafe impl<S: Send, T: Send> Send for Queue<S, T> {}

impl<S, T> Waiters<S, T> {
    const_unless_model! {
        pub(crate) fn new(state: S) -> Self {
            Self {
                queue: SpinLock::new(Queue { state, front: None, back: None }),
                record: RecordCell::none(),
            }
        }
    }

    /// Runs `f` under the lock: a few instructions, nothing foreign; calls are
    /// woken after it.
    #[inline]
    pub(crate) fn with<R>(&self, f: impl FnOnce(&mut Locked<'_, S, T>) -> R) -> R {
        let home = self.address();
        self.queue.with(|queue| f(&mut Locked { queue, home, record: &self.record }))
    }

    fn address(&self) -> usize {
        (&raw const *self).addr()
    }

    /// Lets go of a waiter's place. Answers where it stood: a waiter that was
    /// `Answered` may have something to pass on.
    pub(crate) fn cancel(&self, waiter: Pin<&Waiter<T>>) -> WaiterState {
        match waiter.state() {
            WaiterState::Waiting => {}
            other => return other,
        }
        let (standing, unneeded) = self.with(|list| {
            let standing = waiter.state();
            let unneeded = if standing == WaiterState::Waiting {
                list.remove(waiter)
            } else {
                PendingWake::NONE
            };
            (standing, unneeded)
        });
        // Dropped here, after the lock, and not woken.
        drop(unneeded);
        standing
    }

    /// Answers and wakes the waiters in front for as long as `due` says yes to
    /// what they ask for: a batch under one hold of the lock, then the next. A
    /// waker that panics does so at the end, when all are answered.
    pub(crate) fn grant_while(&self, answer: Grant, mut due: impl FnMut(&S, &T) -> bool) {
        let mut panics = PanicSink::default();
        let mut more = true;
        while more {
            let mut calls = WakeBatch::new();
            more = self.with(|list| list.grant_batch(answer, &mut calls, &mut due));
            panics.catch(|| calls.wake());
        }
        panics.resume();
    }

    /// The waiter is polled again, perhaps by another task: `waker` is the one
    /// to wake. Answers where it stands.
    pub(crate) fn update_waker(&self, waiter: Pin<&Waiter<T>>, waker: &Waker) -> WaiterState {
        self.update_waker_with(waiter, waker, |_| {})
    }

    /// The same; if it is another waker, what it asks for may change with it.
    pub(crate) fn update_waker_with(
        &self,
        waiter: Pin<&Waiter<T>>,
        waker: &Waker,
        change: impl FnOnce(&mut T),
    ) -> WaiterState {
        match waiter.state() {
            WaiterState::Waiting => {}
            other => return other,
        }
        let (standing, same) = self.with(|list| match waiter.state() {
            WaiterState::Waiting => (WaiterState::Waiting, list.wakes(waiter, waker)),
            other => (other, false),
        });
        if standing != WaiterState::Waiting || same {
            return standing;
        }
        let new = waker.clone();
        // What is left over is dropped after the lock.
        let (standing, _unneeded) = self.with(|list| match waiter.state() {
            WaiterState::Waiting => {
                list.request_of(waiter).map(change);
                (WaiterState::Waiting, list.replace_waker(waiter, new))
            }
            standing => (standing, Some(new)),
        });
        standing
    }
}

impl<S, T> Drop for Waiters<S, T> {
    fn drop(&mut self) {
        // Only futures that were leaked can be left: everybody else borrows us.
        if self.queue.get_mut().front.is_none() {
            return;
        }
        while let Some(call) = self.with(|list| list.pop_front(Grant::Closed)) {
            drop(call);
        }
    }
}

/// A list whose lock is held.
pub(crate) struct Locked<'a, S, T> {
    queue: &'a mut Queue<S, T>,
    /// The list's address (LIST-4).
    home: usize,
    pub(crate) record: &'a RecordCell,
}

impl<S, T> std::ops::Deref for Locked<'_, S, T> {
    type Target = S;

    fn deref(&self) -> &S {
        &self.queue.state
    }
}

impl<S, T> std::ops::DerefMut for Locked<'_, S, T> {
    fn deref_mut(&mut self) -> &mut S {
        &mut self.queue.state
    }
}

impl<S, T> Locked<'_, S, T> {
    pub(crate) fn is_empty(&self) -> bool {
        self.queue.front.is_none()
    }

    /// # Safety
    ///
    /// LIST-1: `waiter` is in this list.
    #[inline]
    unsafe fn entry<R>(waiter: NonNull<Waiter<T>>, f: impl FnOnce(&mut Entry<T>) -> R) -> R {
        // SAFETY: in the list, so alive (LIST-3) and with an entry (LIST-5); LIST-1, by
        // contract and as we hold the lock.
        unsafe { waiter.as_ref() }.entry.with_mut(|entry| f(unsafe { (*entry).assume_init_mut() }))
    }

    #[track_caller]
    fn check_home(&self, waiter: &Waiter<T>) {
        assert_eq!(waiter.home.load(Relaxed), self.home, "LIST-4: the waiter is in another list");
    }

    #[track_caller]
    fn enter(&self, waiter: Pin<&Waiter<T>>) -> NonNull<Waiter<T>> {
        assert!(waiter.standing.load(Acquire) == IDLE, "LIST-4: a waiter waits once at a time");
        waiter.home.store(self.home, Relaxed);
        waiter.standing.store(WAITING, Relaxed);
        NonNull::from(waiter.get_ref())
    }

    /// Queues up. Without a waker, the waiter is asked again when it is polled.
    #[inline]
    pub(crate) fn push_back(&mut self, waiter: Pin<&Waiter<T>>, ask: T, waker: Option<Waker>) {
        self.push(waiter, ask, waker, WaitLink::NONE);
    }

    /// The same; `note` tells on the thing's plate who has it, and the task being polled
    /// records that it waits there, and is linked (`plate`).
    #[inline]
    pub(crate) fn push_linked(
        &mut self,
        waiter: Pin<&Waiter<T>>,
        ask: T,
        waker: Waker,
        reason: WaitReason,
        note: impl FnOnce(&ResourceRecord),
    ) {
        let plate = self.record.obtain();
        note(plate);
        let link = WaitLink::attach_with(plate, &waker, reason);
        self.push(waiter, ask, Some(waker), link);
    }

    #[inline]
    fn push(&mut self, waiter: Pin<&Waiter<T>>, ask: T, waker: Option<Waker>, link: WaitLink) {
        let new = self.enter(waiter);
        let prev = self.queue.back.replace(new);
        waiter.entry.with_mut(|entry| {
            // SAFETY: LIST-1 and LIST-5: about to enter the list, so there is none yet.
            unsafe { (*entry).write(Entry { prev, next: None, waker, link, ask }) };
        });
        match prev {
            // SAFETY: LIST-1: in the list.
            Some(prev) => unsafe { Self::entry(prev, |entry| entry.next = Some(new)) },
            None => self.queue.front = Some(new),
        }
    }

    /// Takes what is asked for by the waiter in front, for a change of mind.
    #[inline]
    pub(crate) fn front(&mut self) -> Option<&mut T> {
        let front = self.queue.front?;
        // SAFETY: in the list, so alive (LIST-3) and with an entry (LIST-5); LIST-1. The
        // borrow of `self` keeps the lock and everybody else away.
        Some(unsafe { front.as_ref().entry.with_mut(|entry| &mut (*entry).assume_init_mut().ask) })
    }

    /// Whether there is one waiter and no more.
    #[inline]
    pub(crate) fn is_single(&self) -> bool {
        self.queue.front.is_some() && self.queue.front == self.queue.back
    }

    /// What is asked for by the waiter that came last.
    #[inline]
    pub(crate) fn back(&self) -> Option<&T> {
        let back = self.queue.back?;
        // SAFETY: as in `front`.
        Some(unsafe { back.as_ref().entry.with(|entry| &(*entry).assume_init_ref().ask) })
    }

    /// Answers the waiters in front until one is not due, or `calls` is full: then
    /// there may be more.
    fn grant_batch(
        &mut self,
        answer: Grant,
        calls: &mut WakeBatch,
        due: &mut impl FnMut(&S, &T) -> bool,
    ) -> bool {
        while let Some(front) = self.queue.front {
            // SAFETY: LIST-1: in this list.
            let is_due = unsafe { Self::entry(front, |entry| due(&self.queue.state, &entry.ask)) };
            if !is_due {
                return false;
            }
            if calls.is_full() {
                return true;
            }
            calls.push(self.answer(front, answer));
        }
        false
    }

    /// Answers all waiters that are `concerned`, wherever they stand, until `calls`
    /// is full: then there may be more.
    pub(crate) fn grant_matching(
        &mut self,
        answer: Grant,
        calls: &mut WakeBatch,
        mut concerned: impl FnMut(&T) -> bool,
    ) -> bool {
        let mut next = self.queue.front;
        while let Some(waiter) = next {
            // SAFETY: LIST-1: in this list.
            let is_concerned = unsafe {
                Self::entry(waiter, |entry| {
                    next = entry.next;
                    concerned(&entry.ask)
                })
            };
            if !is_concerned {
                continue;
            }
            if calls.is_full() {
                return true;
            }
            calls.push(self.answer(waiter, answer));
        }
        false
    }

    /// What a waiter of this list asks for, if it still waits.
    pub(crate) fn request_of(&mut self, waiter: Pin<&Waiter<T>>) -> Option<&mut T> {
        if waiter.state() != WaiterState::Waiting {
            return None;
        }
        self.check_home(&waiter);
        let waiter = waiter.get_ref();
        // SAFETY: in this list; otherwise as in `front`.
        Some(unsafe { waiter.entry.with_mut(|entry| &mut (*entry).assume_init_mut().ask) })
    }

    /// Answers the waiter in front, if there is one.
    #[inline]
    pub(crate) fn pop_front(&mut self, answer: Grant) -> Option<PendingWake> {
        let front = self.queue.front?;
        Some(self.answer(front, answer))
    }

    /// The same; after it was taken off the list, and before it learns of that, `hand` notes
    /// that the thing is its, and gives a remark to go with the answer. So nobody who looks
    /// sees it wait for what it has.
    #[inline]
    pub(crate) fn pop_front_with(
        &mut self,
        answer: Grant,
        hand: impl FnOnce(&mut Self) -> u32,
    ) -> Option<PendingWake> {
        let front = self.queue.front?;
        let call = self.unlink(front);
        let remark = hand(self);
        // SAFETY: in the list until a moment ago, so alive (LIST-3). LIST-2: the last access.
        unsafe {
            front.as_ref().remark.store(remark, Relaxed);
            front.as_ref().standing.store(answer as u32, Release);
        }
        Some(call)
    }

    /// Answers the waiter that came last, if there is one.
    pub(crate) fn pop_back(&mut self, answer: Grant) -> Option<PendingWake> {
        let back = self.queue.back?;
        Some(self.answer(back, answer))
    }

    fn answer(&mut self, waiter: NonNull<Waiter<T>>, answer: Grant) -> PendingWake {
        let call = self.unlink(waiter);
        // LIST-2: the last access.
        // SAFETY: in the list until a moment ago, so alive (LIST-3).
        unsafe { waiter.as_ref() }.standing.store(answer as u32, Release);
        call
    }

    /// Takes a waiter off the list; nobody answers it any more.
    ///
    /// # Panics
    ///
    /// If it is not in this list.
    pub(crate) fn remove(&mut self, waiter: Pin<&Waiter<T>>) -> PendingWake {
        self.check_home(&waiter);
        assert_eq!(waiter.state(), WaiterState::Waiting, "LIST-4: not in the list");
        let call = self.unlink(NonNull::from(waiter.get_ref()));
        waiter.standing.store(IDLE, Relaxed);
        call
    }

    fn unlink(&mut self, waiter: NonNull<Waiter<T>>) -> PendingWake {
        // SAFETY: LIST-1: in this list, and about to leave it (LIST-5).
        let Entry { prev, next, waker, link, ask: _ } =
            unsafe { waiter.as_ref().entry.with_mut(|entry| (*entry).assume_init_read()) };
        link.detach();
        if self.queue.front == Some(waiter) {
            // LIST-6.
            self.queue.front = next;
            if next.is_none() {
                self.queue.back = None;
            }
            return PendingWake(waker);
        }
        let prev = prev.expect("one that is not in front came behind another");
        // SAFETY: LIST-1: neighbours are in the list.
        unsafe { Self::entry(prev, |entry| entry.next = next) };
        match next {
            // SAFETY: as above.
            Some(next) => unsafe { Self::entry(next, |entry| entry.prev = Some(prev)) },
            None => self.queue.back = Some(prev),
        }
        PendingWake(waker)
    }

    /// Whether a waiter that is in this list is to be woken by what `waker` wakes;
    /// then its task's record is linked anew, if it is in this list at all.
    fn wakes(&self, waiter: Pin<&Waiter<T>>, waker: &Waker) -> bool {
        self.check_home(&waiter);
        let waiter = NonNull::from(waiter.get_ref());
        // SAFETY: LIST-1: in this list, whose lock we hold.
        unsafe {
            Self::entry(waiter, |entry| {
                let same = entry.waker.as_ref().is_some_and(|own| own.will_wake(waker));
                if same && let Some(plate) = self.record.get() {
                    entry.link.attach_again(plate, waker);
                }
                same
            })
        }
    }

    fn replace_waker(&mut self, waiter: Pin<&Waiter<T>>, waker: Waker) -> Option<Waker> {
        let plate = self.record.get();
        // SAFETY: as above.
        unsafe {
            Self::entry(NonNull::from(waiter.get_ref()), |entry| {
                entry.link.detach();
                entry.link = plate.map_or(WaitLink::NONE, |plate| WaitLink::attach(plate, &waker));
                entry.waker.replace(waker)
            })
        }
    }
}
