//! Models of whole task cells: a future is polled, woken, aborted and awaited by
//! real wakers and handles, on a home with one queue.

use crate::sys::park::Parker;
use crate::sys::sync::{Mutex, thread};
use crate::task::JoinHandle;
use crate::task::error::JoinError;
use crate::task::models::scheduler::{TestHome, model, spawn, start};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::task::{Context, Poll, Wake, Waker};

/// The waker of a thread that awaits a task, and how often it was woken.
struct Bell {
    parker: Parker,
    rung: AtomicUsize,
}

impl Bell {
    /// For the calling thread.
    fn new() -> Arc<Bell> {
        Arc::new(Bell { parker: Parker::for_current_thread(), rung: AtomicUsize::new(0) })
    }

    fn rung(&self) -> usize {
        self.rung.load(Relaxed)
    }
}

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.rung.fetch_add(1, Relaxed);
        self.parker.unpark();
    }
}

fn poll<T>(handle: &mut JoinHandle<T>, bell: &Arc<Bell>) -> Poll<Result<T, JoinError>> {
    let waker = Waker::from(bell.clone());
    Pin::new(handle).poll(&mut Context::from_waker(&waker))
}

/// Awaits the task's end on the calling thread. If it has to wait and is not
/// woken, loom finds every thread blocked.
fn wait<T>(mut handle: JoinHandle<T>) -> Result<T, JoinError> {
    let bell = Bell::new();
    let result = match poll(&mut handle, &bell) {
        Poll::Ready(result) => result,
        Poll::Pending => {
            bell.parker.park(None);
            assert_eq!(bell.rung(), 1);
            let Poll::Ready(result) = poll(&mut handle, &bell) else { panic!("woken for nothing") };
            result
        }
    };
    drop(handle);
    assert_eq!(Arc::strong_count(&bell), 1, "the task kept a waker");
    result
}

/// What a task waits for: whether it came, and the waker of whoever waits.
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

    /// Lets the waker go without firing; true if there was one.
    fn forget(&self) -> bool {
        let waker = self.0.lock().1.take();
        waker.is_some()
    }
}

/// Waits for an event, then gives the witness away.
struct Waiting {
    event: Arc<Event>,
    witness: Option<Arc<()>>,
}

impl Future for Waiting {
    type Output = Arc<()>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Arc<()>> {
        let mut event = self.event.0.lock();
        if event.0 {
            drop(event);
            return Poll::Ready(self.witness.take().expect("polled after its end"));
        }
        event.1 = Some(cx.waker().clone());
        Poll::Pending
    }
}

/// A task completes while its JoinHandle registers a waker and then another
/// one. Catches a joiner that is not woken, the wrong waker being woken, one
/// that stays behind in the cell, and an output read before it is written.
#[test]
fn a_joiner_changes_its_waker() {
    model(6, || {
        let (home, mut allocator) = TestHome::open();
        let witness = Arc::new(());
        let output = witness.clone();
        let (task, mut handle) = spawn(&mut allocator, async move { output });
        let joiner = thread::spawn(move || {
            let (first, second) = (Bell::new(), Bell::new());
            let mut polled = poll(&mut handle, &first);
            if polled.is_pending() {
                polled = poll(&mut handle, &second);
                if polled.is_pending() {
                    second.parker.park(None);
                    assert_eq!((first.rung(), second.rung()), (0, 1));
                    polled = poll(&mut handle, &second);
                } else {
                    assert_eq!(second.rung(), 0, "woken after it had the output");
                }
            } else {
                assert_eq!(first.rung(), 0, "woken after it had the output");
            }
            assert!(matches!(polled, Poll::Ready(Ok(_))));
            drop(handle);
            (first, second)
        });
        start();
        task.run();
        let (first, second) = joiner.join().unwrap();
        assert!(first.rung() + second.rung() <= 1);
        assert_eq!((Arc::strong_count(&first), Arc::strong_count(&second)), (1, 1));
        assert_eq!(Arc::strong_count(&witness), 1);
        home.close(allocator);
    });
}

/// A task completes while its JoinHandle, with a waker registered or about to
/// be, is dropped. Catches an output that both sides or none drop, and two
/// threads in the slot of the join waker at once.
#[test]
fn a_joiner_gives_up() {
    model(6, || {
        let (home, mut allocator) = TestHome::open();
        let witness = Arc::new(());
        let output = witness.clone();
        let (task, mut handle) = spawn(&mut allocator, async move { output });
        let joiner = thread::spawn(move || {
            let bell = Bell::new();
            let pending = poll(&mut handle, &bell).is_pending();
            drop(handle);
            (bell, pending)
        });
        start();
        task.run();
        let (bell, pending) = joiner.join().unwrap();
        assert!(bell.rung() <= usize::from(pending));
        assert_eq!(Arc::strong_count(&bell), 1);
        assert_eq!(Arc::strong_count(&witness), 1);
        home.close(allocator);
    });
}

/// A waiting task is woken by one thread and aborted by another, which then
/// awaits its end; both run what is queued. Catches a task queued twice or not
/// at all, and an end that reaches the joiner twice or not at all.
#[test]
fn an_abort_races_with_the_wake() {
    model(4, || {
        let (home, mut allocator) = TestHome::open();
        let (event, witness) = (Event::new(), Arc::new(()));
        let waiting = Waiting { event: event.clone(), witness: Some(witness.clone()) };
        let (task, handle) = spawn(&mut allocator, waiting);
        task.run();
        let joiner = thread::spawn({
            let home = home.clone();
            move || {
                handle.abort();
                home.run_all();
                match wait(handle) {
                    Ok(output) => drop(output),
                    Err(error) => assert!(error.is_cancelled() && !error.is_orphaned()),
                }
            }
        });
        start();
        event.fire().expect("the task waits").wake();
        home.run_all();
        joiner.join().unwrap();
        assert_eq!((Arc::strong_count(&witness), home.orphans()), (1, 0));
        home.close(allocator);
    });
}

/// A task is polled, awaited and woken by three threads. Catches a wake-up that
/// is lost between the task and the joiner behind it.
#[test]
fn a_wake_reaches_the_joiner() {
    model(3, || {
        let (home, mut allocator) = TestHome::open();
        let (event, witness) = (Event::new(), Arc::new(()));
        let waiting = Waiting { event: event.clone(), witness: Some(witness.clone()) };
        let (task, handle) = spawn(&mut allocator, waiting);
        let joiner = thread::spawn(move || drop(wait(handle).expect("nobody aborts it")));
        let waker = thread::spawn({
            let home = home.clone();
            move || {
                if let Some(waker) = event.fire() {
                    waker.wake();
                }
                home.run_all();
            }
        });
        start();
        task.run();
        home.run_all();
        joiner.join().unwrap();
        waker.join().unwrap();
        assert_eq!((Arc::strong_count(&witness), home.orphans()), (1, 0));
        home.close(allocator);
    });
}

/// The event that a task waits for is dropped together with the task's waker,
/// while the poll that left it there ends. Catches an orphan that is not
/// reported, or twice; then the JoinHandle is told the reason.
#[test]
fn an_event_that_never_comes() {
    model(6, || {
        let (home, mut allocator) = TestHome::open();
        let (event, witness) = (Event::new(), Arc::new(()));
        let waiting = Waiting { event: event.clone(), witness: Some(witness.clone()) };
        let (task, handle) = spawn(&mut allocator, waiting);
        let dropper = thread::spawn({
            let event = event.clone();
            move || event.forget()
        });
        start();
        task.run();
        let forgotten = dropper.join().unwrap();
        assert_eq!(home.orphans(), usize::from(forgotten));
        assert_ne!(forgotten, event.forget(), "the poll left its waker there once");
        assert_eq!(home.orphans(), 1);
        handle.abort();
        home.run_all();
        assert!(wait(handle).unwrap_err().is_cancelled());
        drop(event);
        assert_eq!(Arc::strong_count(&witness), 1);
        home.close(allocator);
    });
}

/// A waker outlives its task: it wakes, by value, a task that completes, while
/// the JoinHandle goes. Catches a cell that is freed twice, leaked, or read
/// after it was freed.
#[test]
fn a_waker_outlives_its_task() {
    model(4, || {
        let (home, mut allocator) = TestHome::open();
        let (event, witness) = (Event::new(), Arc::new(()));
        let waiting = Waiting { event: event.clone(), witness: Some(witness.clone()) };
        let (task, handle) = spawn(&mut allocator, waiting);
        task.run();
        let waker = event.fire().expect("the task waits");
        waker.wake_by_ref();
        let waker = thread::spawn(move || waker.wake());
        let joiner = thread::spawn(move || drop(handle));
        start();
        home.run_all();
        waker.join().unwrap();
        joiner.join().unwrap();
        home.run_all();
        assert_eq!((Arc::strong_count(&witness), home.orphans()), (1, 0));
        home.close(allocator);
    });
}
