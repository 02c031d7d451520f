//! Models of the locks and the semaphore. No task waits for what is available, nothing is granted
//! twice, and an owner sees what earlier owners did.

use super::counting_waker::WakeCount;
use crate::sync::{Mutex, OwnedMutexGuard, OwnedSemaphorePermit, RwLock, Semaphore};
use crate::sys::sync::thread;
use crate::task::models::scheduler::{model, start};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

/// A future, and how often it was woken.
struct Pending<T> {
    future: Pin<Box<dyn Future<Output = T> + Send>>,
    count: Arc<WakeCount>,
    waker: Waker,
}

impl<T> Pending<T> {
    fn new(future: impl Future<Output = T> + Send + 'static) -> Self {
        let (count, waker) = WakeCount::new();
        Self { future: Box::pin(future), count, waker }
    }

    fn queued(future: impl Future<Output = T> + Send + 'static) -> Self {
        let mut pending = Self::new(future);
        assert!(pending.poll().is_pending(), "it must wait");
        pending
    }

    fn poll(&mut self) -> Poll<T> {
        self.future.as_mut().poll(&mut Context::from_waker(&self.waker))
    }

    /// Returns the result when the other threads are done, and asserts that it was woken.
    fn expect_ready(&mut self, first: Poll<T>) -> T {
        match first {
            Poll::Ready(output) => output,
            Poll::Pending => {
                assert_eq!(self.count.wakes(), 1, "it was not woken");
                match self.poll() {
                    Poll::Ready(output) => output,
                    Poll::Pending => panic!("it waits for what is available"),
                }
            }
        }
    }
}

fn lock(mutex: &Arc<Mutex<usize>>) -> impl Future<Output = OwnedMutexGuard<usize>> + use<> {
    mutex.clone().lock_owned()
}

/// Acquires permits of a semaphore that is not closed.
async fn acquire(semaphore: Arc<Semaphore>, permits: u32) -> OwnedSemaphorePermit {
    semaphore.acquire_many_owned(permits).await.expect("not closed")
}

/// A mutex is unlocked as another task enqueues itself. Catches an unlock that finds no waiter
/// while the other task finds the mutex locked, and a value that is read too early.
#[test]
fn mutex_is_unlocked_while_another_enqueues() {
    model(5, || {
        let mutex = Arc::new(Mutex::new(0));
        let holder = thread::spawn({
            let mutex = mutex.clone();
            move || {
                if let Ok(mut guard) = mutex.try_lock() {
                    *guard += 1;
                }
            }
        });
        start();
        let mut pending = Pending::new(lock(&mutex));
        let first = pending.poll();
        if let Poll::Ready(mut guard) = first {
            *guard += 1;
            drop(guard);
            holder.join().unwrap();
        } else {
            holder.join().unwrap();
            assert_eq!(*pending.expect_ready(first), 1);
        }
        assert!(mutex.try_lock().is_ok(), "it is unlocked");
    });
}

/// The first waiter is cancelled as the lock is handed to it, while another waits behind it.
/// Catches a lock that is lost.
#[test]
fn mutex_is_handed_to_cancelled_waiter() {
    model(4, || {
        let mutex = Arc::new(Mutex::new(0));
        let guard = mutex.clone().try_lock_owned().expect("free");
        let first = Pending::queued(lock(&mutex));
        let mut second = Pending::queued(lock(&mutex));
        let holder = thread::spawn(move || drop(guard));
        start();
        drop(first);
        holder.join().unwrap();
        *second.expect_ready(Poll::Pending) += 1;
        assert!(mutex.try_lock().is_ok(), "it is unlocked");
    });
}

/// Two tasks lock twice; they wait if they must, and are cancelled. Catches two owners, and a word
/// that is CONTENDED although no task waits.
#[test]
fn mutex_has_one_owner() {
    fn try_twice(mutex: &Arc<Mutex<usize>>) -> usize {
        let mut locked = 0;
        for _ in 0..2 {
            if let Poll::Ready(mut guard) = Pending::new(lock(mutex)).poll() {
                *guard += 1;
                locked += 1;
            }
        }
        locked
    }
    model(3, || {
        let mutex = Arc::new(Mutex::new(0));
        let other = thread::spawn({
            let mutex = mutex.clone();
            move || try_twice(&mutex)
        });
        start();
        let locked = try_twice(&mutex) + other.join().unwrap();
        assert!(locked > 0);
        let guard = mutex.try_lock().expect("it is unlocked");
        assert_eq!(*guard, locked);
        // The word agrees: enqueueing checks it.
        drop(Pending::queued(lock(&mutex)));
    });
}

/// A permit is released as a task takes the available one and enqueues itself for the rest. Catches
/// a permit that stays in the word while a task waits for it.
#[test]
fn permit_is_released_while_another_enqueues() {
    model(5, || {
        let semaphore = Arc::new(Semaphore::new(2));
        let permit = semaphore.clone().try_acquire_owned().expect("available");
        let releaser = thread::spawn(move || drop(permit));
        start();
        let mut pending = Pending::new(acquire(semaphore.clone(), 2));
        let first = pending.poll();
        releaser.join().unwrap();
        assert_eq!(pending.expect_ready(first).num_permits(), 2);
        assert_eq!(semaphore.available_permits(), 2);
    });
}

/// The first waiter, which has a part of its permits, is cancelled as the rest is added. Catches
/// permits that are lost with it, or that skip the next waiter.
#[test]
fn first_waiter_is_cancelled_while_permits_are_added() {
    model(4, || {
        let semaphore = Arc::new(Semaphore::new(1));
        let front = Pending::queued(acquire(semaphore.clone(), 2));
        let mut behind = Pending::queued(acquire(semaphore.clone(), 2));
        let adder = thread::spawn({
            let semaphore = semaphore.clone();
            move || semaphore.add_permits(1)
        });
        start();
        drop(front);
        adder.join().unwrap();
        drop(behind.expect_ready(Poll::Pending));
        assert_eq!(semaphore.available_permits(), 2);
    });
}

/// More waiters are granted permits than are woken in one critical section, while one of them is
/// cancelled and another enqueues itself. Catches permits that are not granted.
#[test]
fn permits_for_many_waiters() {
    model(2, || {
        let semaphore = Arc::new(Semaphore::new(0));
        let mut pending = [0; 3].map(|_| Pending::queued(acquire(semaphore.clone(), 1)));
        let adder = thread::spawn({
            let semaphore = semaphore.clone();
            move || semaphore.add_permits(4)
        });
        start();
        let mut late = Pending::new(acquire(semaphore.clone(), 2));
        let first = late.poll();
        let [one, two, three] = &mut pending;
        three.future = Box::pin(std::future::pending());
        adder.join().unwrap();
        let acquired = (
            one.expect_ready(Poll::Pending),
            two.expect_ready(Poll::Pending),
            late.expect_ready(first),
        );
        assert_eq!(semaphore.available_permits(), 0);
        drop(acquired);
        assert_eq!(semaphore.available_permits(), 4);
        // The word agrees: enqueueing checks it.
        drop(Pending::queued(acquire(semaphore.clone(), 5)));
    });
}

/// A semaphore is closed as a permit is released and a task waits. Catches a waiter that is not
/// notified, and permits that are lost.
#[test]
fn semaphore_is_closed_while_permits_are_released() {
    model(4, || {
        let semaphore = Arc::new(Semaphore::new(3));
        let permit = semaphore.clone().try_acquire_owned().expect("available");
        let mut pending = Pending::queued(semaphore.clone().acquire_many_owned(3));
        let closer = thread::spawn({
            let semaphore = semaphore.clone();
            move || semaphore.close()
        });
        start();
        drop(permit);
        let early = pending.poll().is_ready();
        closer.join().unwrap();
        assert!(
            early || pending.expect_ready(Poll::Pending).is_err(),
            "closed before it was polled"
        );
        assert_eq!(semaphore.available_permits(), 3);
    });
}

/// A reader comes and goes as a writer enqueues itself. Catches a value that is written while it is
/// read, and a writer that is not woken.
#[test]
fn reader_unlocks_while_writer_enqueues() {
    model(5, || {
        let lock = Arc::new(RwLock::with_max_readers(0, 2));
        let reader = thread::spawn({
            let lock = lock.clone();
            move || lock.try_read().map_or(0, |value| *value)
        });
        start();
        let mut pending = Pending::new(lock.clone().write_owned());
        let first = pending.poll();
        let early = first.is_ready();
        let _ = first.map(|mut value| *value = 1);
        assert!(reader.join().unwrap() <= usize::from(early));
        if !early {
            *pending.expect_ready(Poll::Pending) = 1;
        }
        assert_eq!(*lock.try_read().expect("the writer is done"), 1);
    });
}

/// A writer downgrades as a reader enqueues itself. Catches a reader that is not granted access,
/// and a writer that overtakes.
#[test]
fn writer_downgrades_while_reader_enqueues() {
    model(4, || {
        let lock = Arc::new(RwLock::with_max_readers(0, 2));
        let mut guard = lock.clone().try_write_owned().expect("free");
        let writer = thread::spawn({
            let lock = lock.clone();
            move || {
                *guard = 1;
                let guard = guard.downgrade();
                assert!(lock.try_write().is_err());
                *guard
            }
        });
        start();
        let mut pending = Pending::new(lock.clone().read_owned());
        let first = pending.poll();
        assert_eq!(writer.join().unwrap(), 1);
        assert_eq!(*pending.expect_ready(first), 1);
        assert!(lock.try_write().is_ok(), "it is unlocked");
    });
}
