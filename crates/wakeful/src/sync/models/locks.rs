//! Models of the locks and the semaphore: nobody waits for what is there, nothing is
//! given to two, and whoever has a lock sees what was done before it.

use crate::sync::{Mutex, OwnedMutexGuard, OwnedSemaphorePermit, RwLock, Semaphore};
use crate::sys::sync::thread;
use crate::task::models::scheduler::{model, start};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::*};
use std::task::{Context, Poll, Wake, Waker};

/// Counts how often it was woken; not part of the model.
struct Count(AtomicUsize);

impl Wake for Count {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, SeqCst);
    }
}

/// A future that waits for something, and how often it was woken.
struct Waits<T> {
    future: Pin<Box<dyn Future<Output = T> + Send>>,
    count: Arc<Count>,
}

impl<T> Waits<T> {
    fn new(future: impl Future<Output = T> + Send + 'static) -> Self {
        Self { future: Box::pin(future), count: Arc::new(Count(AtomicUsize::new(0))) }
    }

    fn queued(future: impl Future<Output = T> + Send + 'static) -> Self {
        let mut waits = Self::new(future);
        assert!(waits.poll().is_pending(), "it has to wait");
        waits
    }

    fn poll(&mut self) -> Poll<T> {
        let waker = Waker::from(self.count.clone());
        self.future.as_mut().poll(&mut Context::from_waker(&waker))
    }

    /// Once the others are done: it got what it waits for, and was woken for it.
    fn got(&mut self, first: Poll<T>) -> T {
        match first {
            Poll::Ready(got) => got,
            Poll::Pending => {
                assert_eq!(self.count.0.load(SeqCst), 1, "nobody woke it");
                match self.poll() {
                    Poll::Ready(got) => got,
                    Poll::Pending => panic!("it waits for what is there"),
                }
            }
        }
    }
}

fn lock(mutex: &Arc<Mutex<usize>>) -> impl Future<Output = OwnedMutexGuard<usize>> + use<> {
    mutex.clone().lock_owned()
}

/// Permits of a semaphore that is not closed.
async fn acquire(semaphore: Arc<Semaphore>, permits: u32) -> OwnedSemaphorePermit {
    semaphore.acquire_many_owned(permits).await.expect("not closed")
}

/// A lock is released while another queues up for it. Catches a release that finds
/// nobody while the other finds it locked, and a value that is seen too early.
#[test]
fn a_mutex_is_released_as_another_queues_up() {
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
        let mut waits = Waits::new(lock(&mutex));
        let first = waits.poll();
        if let Poll::Ready(mut guard) = first {
            *guard += 1;
            drop(guard);
            holder.join().unwrap();
        } else {
            holder.join().unwrap();
            assert_eq!(*waits.got(first), 1);
        }
        assert!(mutex.try_lock().is_ok(), "nobody has it any more");
    });
}

/// The one in front gives up while the lock is handed to it; another waits behind it.
/// Catches a lock that is handed to nobody.
#[test]
fn a_mutex_is_handed_to_one_that_gives_up() {
    model(4, || {
        let mutex = Arc::new(Mutex::new(0));
        let guard = mutex.clone().try_lock_owned().expect("free");
        let first = Waits::queued(lock(&mutex));
        let mut second = Waits::queued(lock(&mutex));
        let holder = thread::spawn(move || drop(guard));
        start();
        drop(first);
        holder.join().unwrap();
        *second.got(Poll::Pending) += 1;
        assert!(mutex.try_lock().is_ok(), "nobody has it any more");
    });
}

/// Two want the lock twice; they wait if they must, and give up. Catches two holders, and
/// a word that says CONTENDED when nobody waits.
#[test]
fn a_mutex_has_one_holder() {
    fn try_twice(mutex: &Arc<Mutex<usize>>) -> usize {
        let mut locked = 0;
        for _ in 0..2 {
            if let Poll::Ready(mut guard) = Waits::new(lock(mutex)).poll() {
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
        let guard = mutex.try_lock().expect("nobody has it any more");
        assert_eq!(*guard, locked);
        // The word says so as well: whoever queues up checks it.
        drop(Waits::queued(lock(&mutex)));
    });
}

/// A permit comes back while a task takes what is there and queues up for the rest.
/// Catches a permit that lies in the word while somebody waits for it.
#[test]
fn a_permit_comes_back_as_another_queues_up() {
    model(5, || {
        let semaphore = Arc::new(Semaphore::new(2));
        let permit = semaphore.clone().try_acquire_owned().expect("there");
        let giver = thread::spawn(move || drop(permit));
        start();
        let mut waits = Waits::new(acquire(semaphore.clone(), 2));
        let first = waits.poll();
        giver.join().unwrap();
        assert_eq!(waits.got(first).num_permits(), 2);
        assert_eq!(semaphore.available_permits(), 2);
    });
}

/// The one in front, which has a part of what it asks for, gives up while the rest
/// comes. Catches permits that are lost with it, or that pass those behind.
#[test]
fn the_one_in_front_gives_up_as_permits_come() {
    model(4, || {
        let semaphore = Arc::new(Semaphore::new(1));
        let front = Waits::queued(acquire(semaphore.clone(), 2));
        let mut behind = Waits::queued(acquire(semaphore.clone(), 2));
        let giver = thread::spawn({
            let semaphore = semaphore.clone();
            move || semaphore.add_permits(1)
        });
        start();
        drop(front);
        giver.join().unwrap();
        drop(behind.got(Poll::Pending));
        assert_eq!(semaphore.available_permits(), 2);
    });
}

/// More come to those who wait than are woken under one hold of the lock, while one of
/// them gives up and another queues up. Catches permits that stay in hand.
#[test]
fn permits_for_many() {
    model(2, || {
        let semaphore = Arc::new(Semaphore::new(0));
        let mut waits = [0; 3].map(|_| Waits::queued(acquire(semaphore.clone(), 1)));
        let giver = thread::spawn({
            let semaphore = semaphore.clone();
            move || semaphore.add_permits(4)
        });
        start();
        let mut late = Waits::new(acquire(semaphore.clone(), 2));
        let first = late.poll();
        let [one, two, three] = &mut waits;
        three.future = Box::pin(std::future::pending());
        giver.join().unwrap();
        let got = (one.got(Poll::Pending), two.got(Poll::Pending), late.got(first));
        assert_eq!(semaphore.available_permits(), 0);
        drop(got);
        assert_eq!(semaphore.available_permits(), 4);
        // The word says so as well: whoever queues up checks it.
        drop(Waits::queued(acquire(semaphore.clone(), 5)));
    });
}

/// A semaphore is closed while a permit comes back and one waits. Catches a waiter that
/// nobody tells, and permits that are lost.
#[test]
fn a_semaphore_is_closed_as_permits_come_back() {
    model(4, || {
        let semaphore = Arc::new(Semaphore::new(3));
        let permit = semaphore.clone().try_acquire_owned().expect("there");
        let mut waits = Waits::queued(semaphore.clone().acquire_many_owned(3));
        let closer = thread::spawn({
            let semaphore = semaphore.clone();
            move || semaphore.close()
        });
        start();
        drop(permit);
        let early = waits.poll().is_ready();
        closer.join().unwrap();
        assert!(early || waits.got(Poll::Pending).is_err(), "closed before it was polled");
        assert_eq!(semaphore.available_permits(), 3);
    });
}

/// A reader comes and goes while a writer queues up. Catches a value that is written while
/// it is read, and a writer that waits for nobody.
#[test]
fn a_reader_leaves_as_a_writer_queues_up() {
    model(5, || {
        let lock = Arc::new(RwLock::with_max_readers(0, 2));
        let reader = thread::spawn({
            let lock = lock.clone();
            move || lock.try_read().map_or(0, |value| *value)
        });
        start();
        let mut waits = Waits::new(lock.clone().write_owned());
        let first = waits.poll();
        let early = first.is_ready();
        let _ = first.map(|mut value| *value = 1);
        assert!(reader.join().unwrap() <= usize::from(early));
        if !early {
            *waits.got(Poll::Pending) = 1;
        }
        assert_eq!(*lock.try_read().expect("nobody writes any more"), 1);
    });
}

/// A writer becomes a reader while a reader queues up. Catches a reader that is not let
/// in, and a writer that gets in between.
#[test]
fn a_writer_becomes_a_reader() {
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
        let mut waits = Waits::new(lock.clone().read_owned());
        let first = waits.poll();
        assert_eq!(writer.join().unwrap(), 1);
        assert_eq!(*waits.got(first), 1);
        assert!(lock.try_write().is_ok(), "nobody has it any more");
    });
}
