//! The tutorial programs: small hand-written futures that teach futures, wakers and executors.
//!
//! The tour shows them. `tests/tutorial.rs` tests them on every kind of runtime.

use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Waker};
use std::thread;

use futures::channel::mpsc;
use futures::future::BoxFuture;
use futures::stream::StreamExt;

/// A future is a state machine. This one takes two steps: it wakes itself, and then completes.
#[derive(Debug, PartialEq, Eq)]
pub enum TwoStep {
    /// Not polled yet.
    Start,
    /// Polled once, and woken.
    Halfway,
    /// Returned its output.
    Done,
}

impl Future for TwoStep {
    type Output = &'static str;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        match *self {
            TwoStep::Start => {
                *self = TwoStep::Halfway;
                // Without this line the task would never be polled again.
                cx.waker().wake_by_ref();
                Poll::Pending
            }
            TwoStep::Halfway => {
                *self = TwoStep::Done;
                Poll::Ready("arrived in two steps")
            }
            TwoStep::Done => panic!("TwoStep was polled after it had given its output"),
        }
    }
}

/// Counts down by waking itself: one poll per number, and one for zero.
#[derive(Debug)]
pub struct Countdown(pub u32);

impl Future for Countdown {
    type Output = &'static str;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        if self.0 == 0 {
            return Poll::Ready("lift-off");
        }
        self.0 -= 1;
        cx.waker().wake_by_ref();
        Poll::Pending
    }
}

/// Counts the polls of the future that it wraps.
pub struct PollCounter<F> {
    inner: Pin<Box<F>>,
    polls: usize,
}

/// Wraps a future. The output comes with the number of polls.
pub fn count_polls<F: Future>(future: F) -> PollCounter<F> {
    PollCounter { inner: Box::pin(future), polls: 0 }
}

impl<F: Future> Future for PollCounter<F> {
    type Output = (F::Output, usize);

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        self.polls += 1;
        let polls = self.polls;
        self.inner.as_mut().poll(cx).map(|output| (output, polls))
    }
}

/// A one-shot event for one listener: a flag and the listener's waker.
///
/// Every poll stores the waker of the polling task, so that the waker is up to date.
#[derive(Default)]
pub struct Bell {
    state: Mutex<BellState>,
}

#[derive(Default)]
struct BellState {
    rung: bool,
    listener: Option<Waker>,
}

impl Bell {
    /// Rings the bell: wakes the listener. A later [`poll_rung`](Self::poll_rung) is ready at once.
    pub fn ring(&self) {
        let listener = {
            let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
            state.rung = true;
            state.listener.take()
        };
        // Wakes outside of the lock, because the woken task may take the lock at once.
        if let Some(listener) = listener {
            listener.wake();
        }
    }

    /// Ready if the bell was rung. If not, `ring` wakes the calling task.
    pub fn poll_rung(&self, cx: &mut Context<'_>) -> Poll<()> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if state.rung {
            return Poll::Ready(());
        }
        match &mut state.listener {
            Some(waker) => waker.clone_from(cx.waker()), // clones only if the waker belongs to another task
            empty => *empty = Some(cx.waker().clone()),
        }
        Poll::Pending
    }
}

/// A future that is ready when another thread rings its bell. It may move between tasks.
pub struct Delay {
    bell: Arc<Bell>,
}

impl Delay {
    /// Starts a thread that calls `until`, which may block, and then wakes the future.
    pub fn new(until: impl FnOnce() + Send + 'static) -> Self {
        let bell = Arc::new(Bell::default());
        let theirs = bell.clone();
        thread::spawn(move || {
            until();
            theirs.ring();
        });
        Self { bell }
    }
}

impl Future for Delay {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        self.bell.poll_rung(cx)
    }
}

/// A one-time event for which any number of tasks can wait.
#[derive(Clone, Default)]
pub struct Event {
    shared: Arc<Mutex<EventState>>,
}

#[derive(Default)]
struct EventState {
    fired: bool,
    waiting: Vec<Waker>,
}

impl Event {
    /// Fires the event: wakes all waiting tasks. A later [`wait`](Self::wait) returns at once.
    pub fn fire(&self) {
        let waiting = {
            let mut state = self.shared.lock().unwrap_or_else(PoisonError::into_inner);
            state.fired = true;
            std::mem::take(&mut state.waiting)
        };
        waiting.into_iter().for_each(Waker::wake);
    }

    /// Waits until the event has happened.
    pub async fn wait(&self) {
        std::future::poll_fn(|cx| {
            let mut state = self.shared.lock().unwrap_or_else(PoisonError::into_inner);
            if state.fired {
                return Poll::Ready(());
            }
            if !state.waiting.iter().any(|waker| waker.will_wake(cx.waker())) {
                state.waiting.push(cx.waker().clone());
            }
            Poll::Pending
        })
        .await;
    }
}

/// A race of two futures. The first to be ready wins; the other one is dropped, and thereby cancelled.
pub struct Race<A, B> {
    /// `None` after the race has ended.
    racers: Option<Racers<A, B>>,
}

type Racers<A, B> = (Pin<Box<A>>, Pin<Box<B>>);

/// Lets two futures race.
pub fn race<T, A, B>(a: A, b: B) -> Race<A, B>
where
    A: Future<Output = T>,
    B: Future<Output = T>,
{
    Race { racers: Some((Box::pin(a), Box::pin(b))) }
}

impl<T, A, B> Future for Race<A, B>
where
    A: Future<Output = T>,
    B: Future<Output = T>,
{
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<T> {
        let (a, b) = self.racers.as_mut().expect("a race is over when it has a winner");
        let winner = match a.as_mut().poll(cx) {
            Poll::Ready(output) => Poll::Ready(output),
            Poll::Pending => b.as_mut().poll(cx),
        };
        if winner.is_ready() {
            self.racers = None;
        }
        winner
    }
}

/// The mini-executor: runs the futures that its spawners send, until all spawners and tasks are gone.
pub struct Executor {
    incoming: mpsc::UnboundedReceiver<BoxFuture<'static, ()>>,
}

/// Sends futures to an [`Executor`].
#[derive(Clone)]
pub struct Spawner {
    outgoing: mpsc::UnboundedSender<BoxFuture<'static, ()>>,
}

/// Creates the two ends of a mini-executor.
pub fn new_executor_and_spawner() -> (Executor, Spawner) {
    let (outgoing, incoming) = mpsc::unbounded();
    (Executor { incoming }, Spawner { outgoing })
}

impl Spawner {
    /// Spawns `future` on the executor.
    pub fn spawn(&self, future: impl Future<Output = ()> + Send + 'static) {
        self.outgoing.unbounded_send(Box::pin(future)).expect("the executor is still there");
    }
}

impl Executor {
    /// Runs until all tasks have ended, and returns their number.
    pub async fn run(mut self) -> usize {
        let mut tasks = Vec::new();
        // Ends when the last spawner is dropped.
        while let Some(future) = self.incoming.next().await {
            tasks.push(wakeful::spawn(future));
        }
        let count = tasks.len();
        for task in tasks {
            task.await.expect("the tasks of this executor do not panic");
        }
        count
    }
}
