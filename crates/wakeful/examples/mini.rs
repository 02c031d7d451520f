//! A complete async executor in one file, with nothing but std: `cargo run --example mini`.
//!
//! `docs/HOW_IT_WORKS.md` explains it part by part, and says what each part lacks at scale.

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::*};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::time::{Duration, Instant};
use std::{mem, pin::Pin, thread};

// ── 1. A future is a state machine ──────────────────────────────────────────────────────────────
/// Counts down, one number per poll: by hand, what the compiler writes for an `async fn`.
enum Countdown {
    At(u32),
    Done,
}

impl Future for Countdown {
    type Output = &'static str;
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        match *self {
            Countdown::At(0) => {
                *self = Countdown::Done;
                Poll::Ready("lift-off")
            }
            Countdown::At(n) => {
                *self = Countdown::At(n - 1);
                cx.waker().wake_by_ref(); // without this line, nothing polls it again
                Poll::Pending
            }
            Countdown::Done => panic!("Countdown was polled after completion"),
        }
    }
}

// ── 2. A task is a future that can be queued; its waker queues it ───────────────────────────────
struct Task {
    future: Mutex<Option<Pin<Box<dyn Future<Output = ()> + Send>>>>, // `None` after completion
    queued: AtomicBool, // true from a wake-up until the poll that follows it
    executor: Arc<Executor>,
}

impl Wake for Task {
    fn wake(self: Arc<Self>) {
        if !self.queued.swap(true, AcqRel) {
            self.executor.ready.lock().unwrap().push_back(self.clone());
            self.executor.thread.unpark();
        }
    }
}

impl Task {
    fn run(self: Arc<Self>) {
        // Before the poll: a wake-up during the poll queues the task again. A swap, not a store:
        // the poll has to see what the waker's caller wrote before the wake-up.
        self.queued.swap(false, AcqRel);
        let waker = Waker::from(self.clone());
        let mut slot = self.future.lock().unwrap();
        let Some(future) = &mut *slot else { return };
        if future.as_mut().poll(&mut Context::from_waker(&waker)).is_ready() {
            *slot = None;
        }
    }
}

// ── 3. The executor: a queue, a table of timers, and one thread that runs tasks or sleeps ───────
pub(crate) struct Executor {
    ready: Mutex<VecDeque<Arc<Task>>>,
    timers: Mutex<BTreeMap<(Instant, u64), Waker>>, // by deadline, then by number
    next_timer: AtomicU64,
    thread: thread::Thread, // runs the tasks; wakers unpark it
}

impl Executor {
    /// Makes an executor that runs its tasks on the current thread.
    pub(crate) fn new() -> Arc<Self> {
        let (ready, timers, next_timer) = Default::default();
        Arc::new(Self { ready, timers, next_timer, thread: thread::current() })
    }

    /// Runs tasks until the task of `main` completes, and returns its output.
    pub(crate) fn run_until<T>(&self, mut main: JoinHandle<T>) -> T {
        assert_eq!(thread::current().id(), self.thread.id(), "wakers unpark the thread of `new`");
        let mut cx = Context::from_waker(Waker::noop()); // this loop polls `main` again anyway
        loop {
            let next = self.ready.lock().unwrap().pop_front();
            if let Some(task) = next {
                task.run();
            } else if let Poll::Ready(output) = Pin::new(&mut main).poll(&mut cx) {
                return output;
            } else {
                self.park();
            }
        }
    }

    /// Sleeps until a waker unparks this thread or a deadline comes, then wakes what is due.
    fn park(&self) {
        let first = self.timers.lock().unwrap().keys().next().copied();
        match first {
            // If a waker was faster, `unpark` has left a token, and `park` returns at once.
            None => thread::park(),
            Some((deadline, _)) => thread::park_timeout(deadline - Instant::now()),
        }
        let mut timers = self.timers.lock().unwrap();
        let later = timers.split_off(&(Instant::now(), u64::MAX));
        let due = mem::replace(&mut *timers, later);
        drop(timers); // wakers may run any code, so they are called without the lock
        due.into_values().for_each(Waker::wake);
    }
}

// ── 4. A timer that keeps its waker up to date ──────────────────────────────────────────────────
pub(crate) struct Sleep {
    key: (Instant, u64),
    executor: Arc<Executor>,
}

impl Future for Sleep {
    type Output = ();
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        if Instant::now() >= self.key.0 {
            return Poll::Ready(());
        }
        // Every poll replaces the waker: the future may have moved to another task. The old waker
        // is dropped after the lock: it may be the last reference to a task, and drop a future.
        let _old = self.executor.timers.lock().unwrap().insert(self.key, cx.waker().clone());
        Poll::Pending
    }
}

pub(crate) fn sleep_until(executor: &Arc<Executor>, deadline: Instant) -> Sleep {
    let key = (deadline, executor.next_timer.fetch_add(1, Relaxed));
    Sleep { key, executor: executor.clone() }
}

// ── 5. Spawn and join ───────────────────────────────────────────────────────────────────────────
enum JoinState<T> {
    Running { joiner: Option<Waker> },
    Finished(T),
    Taken,
}

pub(crate) struct JoinHandle<T>(Arc<Mutex<JoinState<T>>>);

impl<T> Future for JoinHandle<T> {
    type Output = T;
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<T> {
        let mut state = self.0.lock().unwrap();
        match mem::replace(&mut *state, JoinState::Taken) {
            JoinState::Running { .. } => {
                *state = JoinState::Running { joiner: Some(cx.waker().clone()) };
                Poll::Pending
            }
            JoinState::Finished(output) => Poll::Ready(output),
            JoinState::Taken => panic!("JoinHandle was polled after completion"),
        }
    }
}

pub(crate) fn spawn<F>(executor: &Arc<Executor>, future: F) -> JoinHandle<F::Output>
where
    F: Future<Output: Send> + Send + 'static,
{
    let state = Arc::new(Mutex::new(JoinState::Running { joiner: None }));
    let handle = JoinHandle(state.clone());
    let wrapped = async move {
        let finished = JoinState::Finished(future.await);
        let before = mem::replace(&mut *state.lock().unwrap(), finished);
        if let JoinState::Running { joiner: Some(joiner) } = before {
            joiner.wake();
        }
    };
    let (future, queued) = (Mutex::new(Some(Box::pin(wrapped) as _)), AtomicBool::new(false));
    Arc::new(Task { future, queued, executor: executor.clone() }).wake();
    handle
}

pub(crate) fn main() {
    let executor = Executor::new();
    assert_eq!(executor.run_until(spawn(&executor, Countdown::At(3))), "lift-off");
    let start = Instant::now();
    let sleepers = [30, 10, 20].map(|ms| {
        let sleep = sleep_until(&executor, start + Duration::from_millis(ms));
        spawn(&executor, async move {
            sleep.await;
            println!("slept until {ms} ms after the start");
        })
    });
    let main = spawn(&executor, async move {
        for sleeper in sleepers {
            sleeper.await;
        }
        start.elapsed()
    });
    let took = executor.run_until(main);
    assert!(took >= Duration::from_millis(30));
    println!("three sleeps side by side, 60 ms in all, took {took:?}");
}
