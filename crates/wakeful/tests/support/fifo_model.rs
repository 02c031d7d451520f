//! A naive model of a FIFO resource: permits of a semaphore, shares of a lock. A random walk compares the real
//! primitive with the model after every step.
#![allow(dead_code, reason = "each test binary uses its own part of this")]

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::pin::Pin;

use super::manual_poll::ManualPoll;
use super::rng::TestRng;

/// A future that waits for a guard. It returns `None` if the primitive is closed.
pub type Wait<'a, G> = Pin<Box<dyn Future<Output = Option<G>> + 'a>>;

/// The number of walks of a test; Miri is slow.
pub const WALKS: usize = if cfg!(miri) { 1 } else { 50 };

/// The outcome of a poll.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    Got,
    Closed,
    Waits,
}

struct Waiter {
    key: usize,
    wanted: usize,
    has: usize,
}

/// The model: one queue, one thread.
#[derive(Default)]
pub struct FifoModel {
    pub available: usize,
    pub closed: bool,
    queue: VecDeque<Waiter>,
    /// Granted requests whose future has not been polled since, with their permits.
    granted: BTreeMap<usize, usize>,
    /// Waiters that the primitive must have woken.
    woken: BTreeSet<usize>,
}

impl FifoModel {
    pub fn new(available: usize) -> Self {
        Self { available, ..Self::default() }
    }

    pub fn give(&mut self, permits: usize) {
        self.available += permits;
        while let Some(front) = self.queue.front_mut() {
            let given = self.available.min(front.wanted - front.has);
            front.has += given;
            self.available -= given;
            if front.has < front.wanted {
                return;
            }
            let front = self.queue.pop_front().expect("it is in front");
            self.granted.insert(front.key, front.wanted);
            self.woken.insert(front.key);
        }
    }

    pub fn close(&mut self) {
        self.closed = true;
        for waiter in self.queue.drain(..) {
            self.available += waiter.has;
            self.woken.insert(waiter.key);
        }
    }

    pub fn try_take(&mut self, wanted: usize) -> Found {
        if self.closed {
            Found::Closed
        } else if self.available >= wanted {
            self.available -= wanted;
            Found::Got
        } else {
            Found::Waits
        }
    }

    fn waits(&self, key: usize) -> bool {
        self.queue.iter().any(|waiter| waiter.key == key)
    }

    fn poll(&mut self, key: usize, wanted: usize) -> Found {
        if let Some(wanted) = self.granted.remove(&key) {
            if self.closed {
                self.give(wanted);
                return Found::Closed;
            }
            return Found::Got;
        }
        if self.waits(key) {
            return Found::Waits;
        }
        let found = self.try_take(wanted);
        if found == Found::Waits {
            let has = std::mem::take(&mut self.available);
            self.queue.push_back(Waiter { key, wanted, has });
        }
        found
    }

    fn drop(&mut self, key: usize) {
        let mut back = self.granted.remove(&key).unwrap_or(0);
        if let Some(at) = self.queue.iter().position(|waiter| waiter.key == key) {
            back += self.queue.remove(at).expect("it is there").has;
        }
        self.give(back);
    }
}

/// The real primitive, next to the model.
pub struct Walk<'a, G> {
    pub model: FifoModel,
    waits: BTreeMap<usize, (ManualPoll<Wait<'a, G>>, usize)>,
    held: Vec<(G, usize)>,
    next: usize,
}

impl<'a, G> Walk<'a, G> {
    pub fn new(available: usize) -> Self {
        Self { model: FifoModel::new(available), waits: BTreeMap::new(), held: Vec::new(), next: 0 }
    }

    /// Takes one random step: start a wait, poll one, drop one, release a guard, or try to acquire.
    pub fn step(
        &mut self,
        rng: &mut TestRng,
        sizes: &[usize],
        acquire: impl Fn(usize) -> Wait<'a, G>,
        try_acquire: impl Fn(usize) -> Option<G>,
    ) {
        let size = sizes[rng.below(sizes.len())];
        match rng.below(8) {
            0 | 1 => {
                let key = self.next;
                self.next += 1;
                self.waits.insert(key, (ManualPoll::new(acquire(size)), size));
                self.poll(key);
            }
            2 | 3 => {
                if let Some(key) = self.random_wait(rng) {
                    self.poll(key);
                }
            }
            4 => {
                if let Some(key) = self.random_wait(rng) {
                    let wait = self.waits.remove(&key).expect("it waits");
                    drop(wait);
                    self.model.drop(key);
                    self.model.woken.remove(&key);
                }
            }
            5 | 6 => {
                if !self.held.is_empty() {
                    let (guard, size) = self.held.swap_remove(rng.below(self.held.len()));
                    drop(guard);
                    self.model.give(size);
                }
            }
            _ => {
                let got = try_acquire(size);
                assert_eq!(got.is_some(), self.model.try_take(size) == Found::Got, "trying {size}");
                self.held.extend(got.map(|guard| (guard, size)));
            }
        }
        self.check();
    }

    fn random_wait(&self, rng: &mut TestRng) -> Option<usize> {
        let count = self.waits.len();
        (count > 0)
            .then(|| *self.waits.keys().nth(rng.below(count)).expect("the index is in range"))
    }

    fn poll(&mut self, key: usize) {
        let (wait, size) = self.waits.get_mut(&key).expect("it waits");
        let found = match wait.poll() {
            std::task::Poll::Ready(Some(guard)) => {
                self.held.push((guard, *size));
                Found::Got
            }
            std::task::Poll::Ready(None) => Found::Closed,
            std::task::Poll::Pending => Found::Waits,
        };
        assert_eq!(found, self.model.poll(key, *size), "poll of {key}, which wants {size}");
        if found != Found::Waits {
            self.waits.remove(&key);
            self.model.woken.remove(&key);
        }
    }

    /// Asserts that exactly the expected waiters were woken, and that no other waker is stored.
    pub fn check(&mut self) {
        for (key, (wait, _)) in &self.waits {
            assert_eq!(
                wait.take_wakes(),
                usize::from(self.model.woken.remove(key)),
                "wakes of {key}"
            );
            assert_eq!(wait.wakers(), usize::from(self.model.waits(*key)), "wakers of {key}");
        }
    }

    pub fn held(&mut self) -> impl Iterator<Item = &mut G> {
        self.held.iter_mut().map(|(guard, _)| guard)
    }

    /// Drops all waits and guards in a random order.
    pub fn end(mut self, rng: &mut TestRng) {
        while let Some(key) = self.random_wait(rng) {
            self.waits.remove(&key);
            if !self.held.is_empty() {
                self.held.swap_remove(rng.below(self.held.len()));
            }
        }
    }
}
