//! Station 7 for a local set: the wakers of the futures that poll the set, its *pollers*.
//!
//! The wakers are woken when a task of the set is woken outside a poll of the set. Usually one
//! future polls a set, but there may be several, for example two `run_until` futures. Then all of
//! them are woken, because any of them may be stuck or about to be dropped. Each future that is
//! polled then registers again.
//!
//! A poller has at most one waker here, the waker of its last poll. It removes the waker when it is
//! ready. A `run_until` future that is dropped before it is ready leaves its waker here until the
//! next poller registers. The reason is that the task may create a new future for each of its
//! polls.
//!
//! # Protocol
//!
//! All accesses are SeqCst. A thread that wakes a task pushes it, then reads `any`. The poller
//! registers, which sets `any`, then checks the queues once more before it returns `Pending`. So at
//! least one of the two sees the other's write.
//!
//! Wakers are foreign code. They are cloned, woken and dropped outside the lock.

use crate::sys::sync::Mutex;
use crate::sys::sync::atomic::{AtomicBool, Ordering::SeqCst};
use crate::wait::wake_batch::{drop_all, wake_all};
use std::task::Waker;

/// Identifies a poller of a set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SetPollerId(pub(crate) u64);

impl SetPollerId {
    /// The poller that awaits the set itself.
    pub(crate) const OF_THE_SET: SetPollerId = SetPollerId(0);

    /// A poller whose future was dropped before it was ready.
    const DROPPED: SetPollerId = SetPollerId(u64::MAX);
}

/// The wakers of the pollers of one set.
pub(crate) struct SetWakers {
    list: Mutex<List>,
    /// Whether the list is not empty. Written under the list's lock.
    any: AtomicBool,
}

/// A list of pollers, whose first and usually only entry needs no allocation.
#[derive(Default)]
struct List {
    first: Option<Entry>,
    others: Vec<Entry>,
}

struct Entry {
    poller: SetPollerId,
    waker: Waker,
}

impl List {
    fn get(&self, poller: SetPollerId) -> Option<&Entry> {
        self.first.iter().chain(&self.others).find(|entry| entry.poller == poller)
    }

    /// Returns whether the poller is listed with this waker, and no dropped future has left a waker.
    fn is_up_to_date(&self, poller: SetPollerId, waker: &Waker) -> bool {
        self.get(poller).is_some_and(|entry| entry.waker.will_wake(waker))
            && self.get(SetPollerId::DROPPED).is_none()
    }

    fn remove(&mut self, poller: SetPollerId) -> Option<Entry> {
        if self.first.as_ref().is_some_and(|entry| entry.poller == poller) {
            return std::mem::replace(&mut self.first, self.others.pop());
        }
        let at = self.others.iter().position(|entry| entry.poller == poller)?;
        Some(self.others.swap_remove(at))
    }

    fn insert(&mut self, entry: Entry) {
        match &self.first {
            None => self.first = Some(entry),
            Some(_) => self.others.push(entry),
        }
    }
}

impl SetWakers {
    pub(crate) fn new() -> Self {
        Self { list: Mutex::new(List::default()), any: AtomicBool::new(false) }
    }

    /// Registers a poller with its current waker. Only the set's thread calls this.
    pub(crate) fn add(&self, poller: SetPollerId, waker: &Waker) {
        // Only this thread sets `any`, so `false` is not outdated.
        if self.any.load(SeqCst) && self.list.lock().is_up_to_date(poller, waker) {
            return;
        }
        let entry = Entry { poller, waker: waker.clone() };
        let mut list = self.list.lock();
        let old = [list.remove(poller), list.remove(SetPollerId::DROPPED)];
        list.insert(entry);
        self.any.store(true, SeqCst);
        drop(list);
        drop_all(old.into_iter().flatten().map(|entry| entry.waker));
    }

    /// Removes a poller whose future is dropped before it is ready, but keeps its waker.
    pub(crate) fn leave_waker(&self, poller: SetPollerId) {
        let mut list = self.list.lock();
        // `None` if the poller was woken meanwhile.
        let Some(entry) = list.remove(poller) else { return };
        let old = list.remove(SetPollerId::DROPPED);
        list.insert(Entry { poller: SetPollerId::DROPPED, ..entry });
        drop(list);
        drop(old);
    }

    /// Removes a poller, if it is registered.
    pub(crate) fn remove(&self, poller: SetPollerId) {
        if !self.any.load(SeqCst) {
            return;
        }
        let mut list = self.list.lock();
        let old = list.remove(poller);
        self.any.store(list.first.is_some(), SeqCst);
        drop(list);
        drop(old);
    }

    /// Removes all wakers and wakes them.
    ///
    /// After the first wake, this function does not touch the set, because waking may drop the set.
    pub(crate) fn wake(&self) {
        if !self.any.load(SeqCst) {
            return;
        }
        let List { first, others } = self.take_all();
        wake_all(first.into_iter().chain(others).map(|entry| entry.waker));
    }

    /// Removes all wakers without waking them.
    pub(crate) fn clear(&self) {
        let List { first, others } = self.take_all();
        drop_all(first.into_iter().chain(others).map(|entry| entry.waker));
    }

    fn take_all(&self) -> List {
        let mut list = self.list.lock();
        self.any.store(false, SeqCst);
        std::mem::take(&mut *list)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::sync::Arc;
    use std::sync::atomic::AtomicUsize;
    use std::task::Wake;

    #[derive(Default)]
    struct Counter(AtomicUsize);

    impl Wake for Counter {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, SeqCst);
        }
    }

    #[test]
    fn a_poller_has_one_waker() {
        let wakers = SetWakers::new();
        let stable = Arc::new(Counter::default());
        wakers.add(SetPollerId(1), &Waker::from(stable.clone()));
        let replaced: Vec<Arc<Counter>> = (0..100).map(|_| Arc::default()).collect();
        for counter in &replaced {
            wakers.add(SetPollerId(2), &Waker::from(counter.clone()));
        }
        let kept = replaced.iter().map(|counter| Arc::strong_count(counter) - 1);
        assert_eq!(kept.collect::<Vec<_>>(), [vec![0; 99], vec![1]].concat());
        wakers.wake();
        wakers.wake();
        assert_eq!(stable.0.load(SeqCst), 1);
        let woken = replaced.iter().map(|counter| counter.0.load(SeqCst));
        assert_eq!(woken.collect::<Vec<_>>(), [vec![0; 99], vec![1]].concat());
    }

    #[test]
    fn pollers_leave_in_any_order() {
        for order in [[0, 1, 2], [2, 1, 0], [1, 0, 2]] {
            let wakers = SetWakers::new();
            let counters: [Arc<Counter>; 3] = Default::default();
            for (number, counter) in counters.iter().enumerate() {
                wakers.add(SetPollerId(number as u64), &Waker::from(counter.clone()));
            }
            for &number in &order[..2] {
                wakers.remove(SetPollerId(number));
                wakers.remove(SetPollerId(number));
            }
            wakers.wake();
            for (number, counter) in counters.iter().enumerate() {
                let left = usize::from(number as u64 == order[2]);
                assert_eq!(counter.0.load(SeqCst), left, "left in the order {order:?}");
                assert_eq!(Arc::strong_count(counter), 1);
            }
        }
    }

    /// Two wakers are replaced at once, and the drops of both panic, one after the other.
    #[test]
    fn panics_of_dropped_wakers_do_not_overlap() {
        struct OnDrop;
        impl Wake for OnDrop {
            fn wake(self: Arc<Self>) {}
        }
        impl Drop for OnDrop {
            fn drop(&mut self) {
                panic!("a foreign waker that is dropped");
            }
        }
        let wakers = SetWakers::new();
        let fill = |poller| wakers.add(poller, &Waker::from(Arc::new(OnDrop)));
        let panics = |action: &dyn Fn()| catch_unwind(AssertUnwindSafe(action)).is_err();
        fill(SetPollerId(1));
        wakers.leave_waker(SetPollerId(1));
        wakers.list.lock().insert(Entry { poller: SetPollerId(2), waker: Arc::new(OnDrop).into() });
        assert!(panics(&|| wakers.add(SetPollerId(2), Waker::noop())));
        wakers.remove(SetPollerId(2));
        wakers.list.lock().insert(Entry { poller: SetPollerId(1), waker: Arc::new(OnDrop).into() });
        wakers.list.lock().insert(Entry { poller: SetPollerId(2), waker: Arc::new(OnDrop).into() });
        assert!(panics(&|| wakers.clear()));
        assert!(wakers.list.lock().first.is_none());
    }
}
