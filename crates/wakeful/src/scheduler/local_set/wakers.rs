//! Station 7 for a set of local tasks: the wakers of those who poll the set, woken
//! when one of its tasks is woken from outside of such a poll.
//!
//! Usually there is one poller. There may be several (two `run_until` futures of
//! one set); then all of them are woken, since any of them may be stuck or about
//! to go, and each that is polled lists itself again. A poller has at most one
//! waker here, the one of its last poll, and takes it along when it is ready.
//! A `run_until` that is dropped before leaves its waker, until the next one is
//! listed: the task may make a new future for each of its polls.
//!
//! Protocol, all SeqCst. Whoever hands a task over pushes it first and then looks
//! at `any`. The poller lists itself, which sets `any`, and then looks at the
//! queues once more before it returns `Pending`. At least one sees the other.
//!
//! Wakers are foreign code: they are cloned, woken and dropped outside of the
//! lock.

use crate::sys::sync::Mutex;
use crate::sys::sync::atomic::{AtomicBool, Ordering::SeqCst};
use crate::wait::wake_batch::{drop_all, wake_all};
use std::task::Waker;

/// Tells the pollers of one set apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SetWaker(pub(crate) u64);

impl SetWaker {
    /// Whoever awaits the set itself.
    pub(crate) const OF_THE_SET: SetWaker = SetWaker(0);

    /// A future that was dropped before it was ready.
    const DROPPED: SetWaker = SetWaker(u64::MAX);
}

pub(crate) struct SetWakers {
    list: Mutex<List>,
    /// The list is not empty; written under its lock.
    any: AtomicBool,
}

/// Room for the usual one without an allocation.
#[derive(Default)]
struct List {
    first: Option<Entry>,
    others: Vec<Entry>,
}

struct Entry {
    poller: SetWaker,
    waker: Waker,
}

impl List {
    fn get(&self, poller: SetWaker) -> Option<&Entry> {
        self.first.iter().chain(&self.others).find(|entry| entry.poller == poller)
    }

    /// Whether this waker of the poller is listed, and none that a dropped future has left.
    fn is_up_to_date(&self, poller: SetWaker, waker: &Waker) -> bool {
        self.get(poller).is_some_and(|entry| entry.waker.will_wake(waker))
            && self.get(SetWaker::DROPPED).is_none()
    }

    fn remove(&mut self, poller: SetWaker) -> Option<Entry> {
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

    /// Lists a poller with its present waker. Only the thread of the set does
    /// this.
    pub(crate) fn add(&self, poller: SetWaker, waker: &Waker) {
        // Only this thread ever sets `any`, so a "no" is not out of date.
        if self.any.load(SeqCst) && self.list.lock().is_up_to_date(poller, waker) {
            return;
        }
        let entry = Entry { poller, waker: waker.clone() };
        let mut list = self.list.lock();
        let old = [list.remove(poller), list.remove(SetWaker::DROPPED)];
        list.insert(entry);
        self.any.store(true, SeqCst);
        drop(list);
        drop_all(old.into_iter().flatten().map(|entry| entry.waker));
    }

    /// The future of a poller is dropped before it was ready: its waker stays.
    pub(crate) fn leave_waker(&self, poller: SetWaker) {
        let mut list = self.list.lock();
        // None if it was woken since.
        let Some(entry) = list.remove(poller) else { return };
        let old = list.remove(SetWaker::DROPPED);
        list.insert(Entry { poller: SetWaker::DROPPED, ..entry });
        drop(list);
        drop(old);
    }

    /// Takes a poller off the list, if it is there.
    pub(crate) fn remove(&self, poller: SetWaker) {
        if !self.any.load(SeqCst) {
            return;
        }
        let mut list = self.list.lock();
        let old = list.remove(poller);
        self.any.store(list.first.is_some(), SeqCst);
        drop(list);
        drop(old);
    }

    /// Wakes everybody on the list and empties it.
    ///
    /// Touches nothing of the set after the first waker was woken: that may be
    /// the end of the set.
    pub(crate) fn wake(&self) {
        if !self.any.load(SeqCst) {
            return;
        }
        let List { first, others } = self.take();
        wake_all(first.into_iter().chain(others).map(|entry| entry.waker));
    }

    /// Empties the list and wakes nobody.
    pub(crate) fn clear(&self) {
        let List { first, others } = self.take();
        drop_all(first.into_iter().chain(others).map(|entry| entry.waker));
    }

    fn take(&self) -> List {
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
    fn a_poller_has_one_waker_however_often_it_changes() {
        let pollers = SetWakers::new();
        let stable = Arc::new(Counter::default());
        pollers.add(SetWaker(1), &Waker::from(stable.clone()));
        let fleeting: Vec<Arc<Counter>> = (0..100).map(|_| Arc::default()).collect();
        for counter in &fleeting {
            pollers.add(SetWaker(2), &Waker::from(counter.clone()));
        }
        let kept = fleeting.iter().map(|counter| Arc::strong_count(counter) - 1);
        assert_eq!(kept.collect::<Vec<_>>(), [vec![0; 99], vec![1]].concat());
        pollers.wake();
        pollers.wake();
        assert_eq!(stable.0.load(SeqCst), 1);
        let woken = fleeting.iter().map(|counter| counter.0.load(SeqCst));
        assert_eq!(woken.collect::<Vec<_>>(), [vec![0; 99], vec![1]].concat());
    }

    #[test]
    fn pollers_leave_in_any_order() {
        for order in [[0, 1, 2], [2, 1, 0], [1, 0, 2]] {
            let pollers = SetWakers::new();
            let counters: [Arc<Counter>; 3] = Default::default();
            for (number, counter) in counters.iter().enumerate() {
                pollers.add(SetWaker(number as u64), &Waker::from(counter.clone()));
            }
            for &number in &order[..2] {
                pollers.remove(SetWaker(number));
                pollers.remove(SetWaker(number));
            }
            pollers.wake();
            for (number, counter) in counters.iter().enumerate() {
                let left = usize::from(number as u64 == order[2]);
                assert_eq!(counter.0.load(SeqCst), left, "left in the order {order:?}");
                assert_eq!(Arc::strong_count(counter), 1);
            }
        }
    }
    /// Two wakers are replaced at once. Both panic, and neither panic meets the other.
    #[test]
    fn wakers_that_panic_when_they_are_dropped_are_dropped_one_by_one() {
        struct OnDrop;
        impl Wake for OnDrop {
            fn wake(self: Arc<Self>) {}
        }
        impl Drop for OnDrop {
            fn drop(&mut self) {
                panic!("a foreign waker that is dropped");
            }
        }
        let pollers = SetWakers::new();
        let fill = |poller| pollers.add(poller, &Waker::from(Arc::new(OnDrop)));
        let panics = |action: &dyn Fn()| catch_unwind(AssertUnwindSafe(action)).is_err();
        fill(SetWaker(1));
        pollers.leave_waker(SetWaker(1));
        pollers.list.lock().insert(Entry { poller: SetWaker(2), waker: Arc::new(OnDrop).into() });
        assert!(panics(&|| pollers.add(SetWaker(2), Waker::noop())));
        pollers.remove(SetWaker(2));
        pollers.list.lock().insert(Entry { poller: SetWaker(1), waker: Arc::new(OnDrop).into() });
        pollers.list.lock().insert(Entry { poller: SetWaker(2), waker: Arc::new(OnDrop).into() });
        assert!(panics(&|| pollers.clear()));
        assert!(pollers.list.lock().first.is_none());
    }
}
