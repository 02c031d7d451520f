//! Loom models of whole task cells: real wakers and handles poll, wake, abort and await a future.

use crate::sys::park::Parker;
use crate::sys::sync::{Mutex, thread};
use crate::task::JoinHandle;
use crate::task::error::JoinError;
use crate::task::models::scheduler::{ModelScheduler, model, spawn, start};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::task::{Context, Poll, Wake, Waker};

/// The waker of a thread that awaits a task, with a count of its wakes.
struct CountingWaker {
    parker: Parker,
    wakes: AtomicUsize,
}

impl CountingWaker {
    /// Creates a waker for the calling thread.
    fn new() -> Arc<CountingWaker> {
        Arc::new(CountingWaker { parker: Parker::for_current_thread(), wakes: AtomicUsize::new(0) })
    }

    fn wakes(&self) -> usize {
        self.wakes.load(Relaxed)
    }
}

impl Wake for CountingWaker {
    fn wake(self: Arc<Self>) {
        self.wakes.fetch_add(1, Relaxed);
        self.parker.unpark();
    }
}

fn poll<T>(
    handle: &mut JoinHandle<T>,
    counting: &Arc<CountingWaker>,
) -> Poll<Result<T, JoinError>> {
    let waker = Waker::from(counting.clone());
    Pin::new(handle).poll(&mut Context::from_waker(&waker))
}

/// Awaits the task on the calling thread. If it is not woken, loom finds all threads blocked.
fn wait<T>(mut handle: JoinHandle<T>) -> Result<T, JoinError> {
    let counting = CountingWaker::new();
    let result = match poll(&mut handle, &counting) {
        Poll::Ready(result) => result,
        Poll::Pending => {
            counting.parker.park(None);
            assert_eq!(counting.wakes(), 1);
            let Poll::Ready(result) = poll(&mut handle, &counting) else {
                panic!("woken although the task is not complete")
            };
            result
        }
    };
    drop(handle);
    assert_eq!(Arc::strong_count(&counting), 1, "the task kept a waker");
    result
}

/// An event that a task waits for: whether it fired, and the waker of the task.
struct Event(Mutex<(bool, Option<Waker>)>);

impl Event {
    fn new() -> Arc<Event> {
        Arc::new(Event(Mutex::new((false, None))))
    }

    fn fire(&self) -> Option<Waker> {
        let mut event = self.0.lock();
        event.0 = true;
        event.1.take()
    }

    /// Drops the waker without firing, and returns whether there was one.
    fn forget(&self) -> bool {
        let waker = self.0.lock().1.take();
        waker.is_some()
    }
}

/// Waits for an event, then returns the token.
struct Waiting {
    event: Arc<Event>,
    token: Option<Arc<()>>,
}

impl Future for Waiting {
    type Output = Arc<()>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Arc<()>> {
        let mut event = self.event.0.lock();
        if event.0 {
            drop(event);
            return Poll::Ready(self.token.take().expect("polled after completion"));
        }
        event.1 = Some(cx.waker().clone());
        Poll::Pending
    }
}

/// A task completes while its JoinHandle registers a waker, and then another one.
///
/// Detects a joiner that is not woken, a wake of the wrong waker, a waker that stays in the cell,
/// and an output read early.
#[test]
fn joiner_replaces_its_waker() {
    model(6, || {
        let (scheduler, mut allocator) = ModelScheduler::open();
        let token = Arc::new(());
        let output = token.clone();
        let (task, mut handle) = spawn(&mut allocator, async move { output });
        let joiner = thread::spawn(move || {
            let (first, second) = (CountingWaker::new(), CountingWaker::new());
            let mut polled = poll(&mut handle, &first);
            if polled.is_pending() {
                polled = poll(&mut handle, &second);
                if polled.is_pending() {
                    second.parker.park(None);
                    assert_eq!((first.wakes(), second.wakes()), (0, 1));
                    polled = poll(&mut handle, &second);
                } else {
                    assert_eq!(second.wakes(), 0, "woken after it had the output");
                }
            } else {
                assert_eq!(first.wakes(), 0, "woken after it had the output");
            }
            assert!(matches!(polled, Poll::Ready(Ok(_))));
            drop(handle);
            (first, second)
        });
        start();
        task.run();
        let (first, second) = joiner.join().unwrap();
        assert!(first.wakes() + second.wakes() <= 1);
        assert_eq!((Arc::strong_count(&first), Arc::strong_count(&second)), (1, 1));
        assert_eq!(Arc::strong_count(&token), 1);
        scheduler.close(allocator);
    });
}

/// A task completes while its JoinHandle is dropped, with or without a registered waker.
///
/// Detects an output that both sides or none drop, and two threads in the join waker at once.
#[test]
fn join_handle_is_dropped_at_completion() {
    model(6, || {
        let (scheduler, mut allocator) = ModelScheduler::open();
        let token = Arc::new(());
        let output = token.clone();
        let (task, mut handle) = spawn(&mut allocator, async move { output });
        let joiner = thread::spawn(move || {
            let counting = CountingWaker::new();
            let pending = poll(&mut handle, &counting).is_pending();
            drop(handle);
            (counting, pending)
        });
        start();
        task.run();
        let (counting, pending) = joiner.join().unwrap();
        assert!(counting.wakes() <= usize::from(pending));
        assert_eq!(Arc::strong_count(&counting), 1);
        assert_eq!(Arc::strong_count(&token), 1);
        scheduler.close(allocator);
    });
}

/// One thread wakes a waiting task, another aborts and awaits it. Both run queued tasks.
///
/// Detects a task that is queued twice or never, and an end that reaches the joiner twice or never.
#[test]
fn abort_races_with_wake() {
    model(4, || {
        let (scheduler, mut allocator) = ModelScheduler::open();
        let (event, token) = (Event::new(), Arc::new(()));
        let waiting = Waiting { event: event.clone(), token: Some(token.clone()) };
        let (task, handle) = spawn(&mut allocator, waiting);
        task.run();
        let joiner = thread::spawn({
            let scheduler = scheduler.clone();
            move || {
                handle.abort();
                scheduler.run_all();
                match wait(handle) {
                    Ok(output) => drop(output),
                    Err(error) => assert!(error.is_cancelled() && !error.is_orphaned()),
                }
            }
        });
        start();
        event.fire().expect("the task waits").wake();
        scheduler.run_all();
        joiner.join().unwrap();
        assert_eq!((Arc::strong_count(&token), scheduler.orphans()), (1, 0));
        scheduler.close(allocator);
    });
}

/// Three threads poll, await and wake a task.
///
/// Detects a wake-up that is lost between the task and its joiner.
#[test]
fn wake_reaches_the_joiner() {
    model(3, || {
        let (scheduler, mut allocator) = ModelScheduler::open();
        let (event, token) = (Event::new(), Arc::new(()));
        let waiting = Waiting { event: event.clone(), token: Some(token.clone()) };
        let (task, handle) = spawn(&mut allocator, waiting);
        let joiner = thread::spawn(move || drop(wait(handle).expect("it is not aborted")));
        let waker = thread::spawn({
            let scheduler = scheduler.clone();
            move || {
                if let Some(waker) = event.fire() {
                    waker.wake();
                }
                scheduler.run_all();
            }
        });
        start();
        task.run();
        scheduler.run_all();
        joiner.join().unwrap();
        waker.join().unwrap();
        assert_eq!((Arc::strong_count(&token), scheduler.orphans()), (1, 0));
        scheduler.close(allocator);
    });
}

/// An event drops the waker of a task while the poll that stored it ends.
///
/// Detects an orphan that is reported twice or never.
#[test]
fn dropped_event_makes_one_orphan() {
    model(6, || {
        let (scheduler, mut allocator) = ModelScheduler::open();
        let (event, token) = (Event::new(), Arc::new(()));
        let waiting = Waiting { event: event.clone(), token: Some(token.clone()) };
        let (task, handle) = spawn(&mut allocator, waiting);
        let dropper = thread::spawn({
            let event = event.clone();
            move || event.forget()
        });
        start();
        task.run();
        let forgotten = dropper.join().unwrap();
        assert_eq!(scheduler.orphans(), usize::from(forgotten));
        assert_ne!(forgotten, event.forget(), "the poll stored its waker once");
        assert_eq!(scheduler.orphans(), 1);
        handle.abort();
        scheduler.run_all();
        assert!(wait(handle).unwrap_err().is_cancelled());
        drop(event);
        assert_eq!(Arc::strong_count(&token), 1);
        scheduler.close(allocator);
    });
}

/// A waker outlives its task: it wakes, by value, a task that completes, while the JoinHandle is
/// dropped.
///
/// Detects a cell that is freed twice, leaked, or read after it was freed.
#[test]
fn waker_outlives_its_task() {
    model(4, || {
        let (scheduler, mut allocator) = ModelScheduler::open();
        let (event, token) = (Event::new(), Arc::new(()));
        let waiting = Waiting { event: event.clone(), token: Some(token.clone()) };
        let (task, handle) = spawn(&mut allocator, waiting);
        task.run();
        let waker = event.fire().expect("the task waits");
        waker.wake_by_ref();
        let waker = thread::spawn(move || waker.wake());
        let joiner = thread::spawn(move || drop(handle));
        start();
        scheduler.run_all();
        waker.join().unwrap();
        joiner.join().unwrap();
        scheduler.run_all();
        assert_eq!((Arc::strong_count(&token), scheduler.orphans()), (1, 0));
        scheduler.close(allocator);
    });
}
