//! A naive model of everything that is given to whoever waits first: permits of a semaphore, shares of a lock. And a
//! random walk that compares the real thing with it after every step.
#![allow(dead_code, reason = "each test binary uses its own part of this")]

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::pin::Pin;

use super::manual_poll::Hand;
use super::rng::TestRng;

/// A future that waits for a guard; None if there never will be one.
pub type Wait<'a, G> = Pin<Box<dyn Future<Output = Option<G>> + 'a>>;

/// How many walks make a test; Miri is slow.
pub const WALKS: usize = if cfg!(miri) { 1 } else { 50 };

/// What a poll finds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    Got,
    Closed,
    Waits,
}

struct Place {
    key: usize,
    wanted: usize,
    has: usize,
}

/// The model: one line, one thread, no cleverness.
#[derive(Default)]
pub struct Line {
    pub available: usize,
    pub closed: bool,
    line: VecDeque<Place>,
    /// Those who got what they asked for, and have not seen it.
    answered: BTreeMap<usize, usize>,
    /// Those who are to be woken.
    rung: BTreeSet<usize>,
}

impl Line {
    pub fn new(available: usize) -> Self {
        Self { available, ..Self::default() }
    }

    pub fn give(&mut self, permits: usize) {
        self.available += permits;
        while let Some(front) = self.line.front_mut() {
            let given = self.available.min(front.wanted - front.has);
            front.has += given;
            self.available -= given;
            if front.has < front.wanted {
                return;
            }
            let front = self.line.pop_front().expect("it is in front");
            self.answered.insert(front.key, front.wanted);
            self.rung.insert(front.key);
        }
    }

    pub fn close(&mut self) {
        self.closed = true;
        for place in self.line.drain(..) {
            self.available += place.has;
            self.rung.insert(place.key);
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
        self.line.iter().any(|place| place.key == key)
    }

    fn poll(&mut self, key: usize, wanted: usize) -> Found {
        if let Some(wanted) = self.answered.remove(&key) {
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
            self.line.push_back(Place { key, wanted, has });
        }
        found
    }

    fn drop(&mut self, key: usize) {
        let mut back = self.answered.remove(&key).unwrap_or(0);
        if let Some(at) = self.line.iter().position(|place| place.key == key) {
            back += self.line.remove(at).expect("it is there").has;
        }
        self.give(back);
    }
}

/// The real thing beside the model.
pub struct Walk<'a, G> {
    pub model: Line,
    waits: BTreeMap<usize, (Hand<Wait<'a, G>>, usize)>,
    held: Vec<(G, usize)>,
    next: usize,
}

impl<'a, G> Walk<'a, G> {
    pub fn new(available: usize) -> Self {
        Self { model: Line::new(available), waits: BTreeMap::new(), held: Vec::new(), next: 0 }
    }

    /// One random step: ask, ask again, give up, give back, or try.
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
                self.waits.insert(key, (Hand::new(acquire(size)), size));
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
                    self.model.rung.remove(&key);
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
        (count > 0).then(|| *self.waits.keys().nth(rng.below(count)).expect("there are so many"))
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
            self.model.rung.remove(&key);
        }
    }

    /// Everybody who is to be woken was, nobody else, and no waker lies about.
    pub fn check(&mut self) {
        for (key, (wait, _)) in &self.waits {
            assert_eq!(wait.rings(), usize::from(self.model.rung.remove(key)), "rings of {key}");
            assert_eq!(wait.wakers(), usize::from(self.model.waits(*key)), "wakers of {key}");
        }
    }

    pub fn held(&mut self) -> impl Iterator<Item = &mut G> {
        self.held.iter_mut().map(|(guard, _)| guard)
    }

    /// Lets go of everything, in any order.
    pub fn end(mut self, rng: &mut TestRng) {
        while let Some(key) = self.random_wait(rng) {
            self.waits.remove(&key);
            if !self.held.is_empty() {
                self.held.swap_remove(rng.below(self.held.len()));
            }
        }
    }
}
