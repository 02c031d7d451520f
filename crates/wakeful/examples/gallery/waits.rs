//! Bugs of waiting: tasks that wait for each other, and tasks that no event can wake.
//!
//! Each function plants its bug in the current runtime and returns the lines where it happens. With
//! `Twin::Fixed` it runs the fixed version to its end.

use std::future::{pending, poll_fn};
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex as StdMutex};
use std::task::{Context, Poll, Waker};

use wakeful::inspect::TaskState;
use wakeful::sync::{Mutex, Notify, RwLock, Semaphore, mpsc, oneshot};
use wakeful::task::{JoinHandle, yield_now};

use super::{Twin, named};

/// A future that returns `Pending` and keeps no waker.
pub async fn pending_without_a_waker(twin: Twin) -> Vec<u32> {
    let bell = Arc::new(Notify::new());
    let heard = bell.clone();
    let task = named("forgetful", async move {
        match twin {
            Twin::Buggy => poll_fn(|_| Poll::Pending).await,
            Twin::Fixed => heard.notified().await,
        }
    });
    let lines = vec![line!() - 6];
    bell.notify_one();
    finish(twin, [task]).await;
    lines
}

/// A future that completes when it is rung. The buggy twin keeps only the waker of its first poll.
struct Bell {
    shared: Arc<StdMutex<(bool, Option<Waker>)>>,
    twin: Twin,
}

impl Future for Bell {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let mut shared = self.shared.lock().unwrap();
        if shared.0 {
            return Poll::Ready(());
        }
        if shared.1.is_none() || self.twin == Twin::Fixed {
            shared.1 = Some(cx.waker().clone());
        }
        Poll::Pending
    }
}

/// A future is polled by one task, and then passed to another.
pub async fn a_future_that_moves(twin: Twin) -> Vec<u32> {
    let shared = Arc::new(StdMutex::new((false, None::<Waker>)));
    let (give, given) = oneshot::channel();
    let mut bell = Bell { shared: shared.clone(), twin };
    let first = named("first", async move {
        poll_fn(|cx| {
            let _ = Pin::new(&mut bell).poll(cx);
            Poll::Ready(())
        })
        .await;
        let _ = give.send(bell);
    });
    let (has_it, got) = (Arc::new(AtomicBool::new(false)), shared.clone());
    let says = has_it.clone();
    let second = named("second", async move {
        let bell = given.await.unwrap();
        assert!(!got.lock().unwrap().0, "not rung yet");
        says.store(true, Relaxed);
        bell.await;
    });
    let lines = vec![line!() - 6];
    first.await.unwrap();
    while !has_it.load(Relaxed) || is_running(&second) {
        yield_now().await;
    }
    let waker = {
        let mut shared = shared.lock().unwrap();
        shared.0 = true;
        shared.1.take()
    };
    waker.into_iter().for_each(Waker::wake);
    finish(twin, [second]).await;
    lines
}

/// The sender of a hand-written channel. In the buggy twin, its drop does not wake the receiver.
struct BuggySender {
    waker: Arc<StdMutex<Option<Waker>>>,
    twin: Twin,
}

impl Drop for BuggySender {
    fn drop(&mut self) {
        let waker = self.waker.lock().unwrap().take();
        if self.twin == Twin::Fixed {
            waker.into_iter().for_each(Waker::wake);
        }
    }
}

/// A sender is dropped without waking the receiver.
pub async fn a_sender_dropped_without_waking(twin: Twin) -> Vec<u32> {
    let waker = Arc::new(StdMutex::new(None));
    let sender = BuggySender { waker: waker.clone(), twin };
    let listens = Arc::new(Notify::new());
    let ready = listens.clone();
    let task = named("listener", async move {
        let mut polled = false;
        poll_fn(|cx| {
            if std::mem::replace(&mut polled, true) {
                return Poll::Ready(());
            }
            *waker.lock().unwrap() = Some(cx.waker().clone());
            ready.notify_one();
            Poll::Pending
        })
        .await;
    });
    let lines = vec![line!() - 12];
    listens.notified().await;
    drop(sender);
    finish(twin, [task]).await;
    lines
}

/// Two tasks take two locks, in opposite orders.
pub async fn abba(twin: Twin) -> Vec<u32> {
    let (a, b) = (Arc::new(Mutex::new("a")), Arc::new(Mutex::new("b")));
    let step = Arc::new(Semaphore::new(0));
    let (a1, b1, step1) = (a.clone(), b.clone(), step.clone());
    let first = named("first", async move {
        let _a = a1.lock().await;
        step1.add_permits(1);
        meet(twin, &step1).await;
        let _b = b1.lock().await;
    });
    let lines = [line!() - 5, line!() - 2];
    let second = named("second", async move {
        if twin == Twin::Fixed {
            let _a = a.lock().await;
            let _b = b.lock().await;
            return;
        }
        let _b = b.lock().await;
        step.add_permits(1);
        meet(twin, &step).await;
        let _a = a.lock().await;
    });
    let lines = [lines[0], lines[1], line!() - 5, line!() - 2];
    finish(twin, [first, second]).await;
    lines.to_vec()
}

/// In the buggy twin, waits until both tasks hold their first lock.
async fn meet(twin: Twin, step: &Semaphore) {
    while twin == Twin::Buggy && step.available_permits() < 2 {
        yield_now().await;
    }
}

/// A task locks a mutex that it already holds.
pub async fn locking_twice(twin: Twin) -> Vec<u32> {
    let lock = Arc::new(Mutex::new(0));
    let task = named("twice", async move {
        let guard = lock.lock().await;
        if twin == Twin::Fixed {
            drop(guard);
        }
        *lock.lock().await += 1;
    });
    let lines = vec![line!() - 6, line!() - 2];
    finish(twin, [task]).await;
    lines
}

/// A task that reads from a read-write lock locks it for writing.
pub async fn reading_and_writing(twin: Twin) -> Vec<u32> {
    let lock = Arc::new(RwLock::new(0));
    let task = named("upgrader", async move {
        let guard = lock.read().await;
        if twin == Twin::Fixed {
            drop(guard);
        }
        *lock.write().await += 1;
    });
    let lines = vec![line!() - 6, line!() - 2];
    finish(twin, [task]).await;
    lines
}

/// A lock held across the await of a task that needs it.
pub async fn a_lock_held_across_a_join(twin: Twin) -> Vec<u32> {
    let lock = Arc::new(Mutex::new(0));
    let outer = named("outer", async move {
        let guard = lock.lock().await;
        let needs = lock.clone();
        let inner = named("inner", async move { *needs.lock().await += 1 });
        if twin == Twin::Fixed {
            drop(guard);
        }
        inner.await.unwrap();
    });
    let lines = vec![line!() - 8, line!() - 6];
    finish(twin, [outer]).await;
    lines
}

/// Three tasks in a ring of channels with a capacity of one. Each task sends two messages for each
/// one that it receives.
pub async fn a_ring_of_channels(twin: Twin) -> Vec<u32> {
    let (mut senders, mut receivers) = (Vec::new(), Vec::new());
    for _ in 0..3 {
        let (tx, rx) = mpsc::channel::<u32>(1);
        senders.push(tx);
        receivers.push(rx);
    }
    let first = senders[0].clone();
    senders.rotate_left(1);
    let copies = if twin == Twin::Buggy { 2 } else { 1 };
    let ring = senders.into_iter().zip(receivers).zip(["north", "east", "south"]);
    let tasks = ring.map(|((tx, mut rx), name)| {
        named(name, async move {
            while let Some(left) = rx.recv().await {
                if left == 0 && twin == Twin::Fixed {
                    return;
                }
                for _ in 0..copies {
                    tx.send(left.saturating_sub(1)).await.unwrap();
                }
            }
        })
    });
    let lines = vec![line!() - 5];
    let tasks: Vec<_> = tasks.collect();
    while tasks.iter().any(is_running) {
        yield_now().await;
    }
    first.send(9).await.unwrap();
    drop(first);
    finish(twin, <[_; 3]>::try_from(tasks).expect("there are three")).await;
    lines
}

/// `select!` polls a reference to a lock's future, and its other branch locks again.
pub async fn futurelock(twin: Twin) -> Vec<u32> {
    let lock = Arc::new(Mutex::new(0));
    let (held, release) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let (has_it, lets_go, theirs) = (held.clone(), release.clone(), lock.clone());
    let holder = named("holder", async move {
        let _guard = theirs.lock().await;
        has_it.notify_one();
        lets_go.notified().await;
    });
    held.notified().await;
    let task = named("impatient", async move {
        let mut first = pin!(Some(lock.lock()));
        wakeful::select! {
            biased;
            _ = first.as_mut().as_pin_mut().unwrap() => return,
            () = yield_now() => {}
        }
        if twin == Twin::Fixed {
            first.set(None);
        }
        release.notify_one();
        *lock.lock().await += 1;
    });
    let lines = vec![line!() - 12, line!() - 2];
    holder.await.unwrap();
    finish(twin, [task]).await;
    lines
}

/// The future of `block_on` awaits a task that waits for nothing.
pub async fn everything_asleep(twin: Twin) -> Vec<u32> {
    let task = named("sleeper", async move {
        if twin == Twin::Buggy {
            pending::<()>().await;
        }
    });
    task.await.unwrap();
    vec![]
}

/// A task that panics after its JoinHandle was dropped.
pub async fn an_unobserved_panic(twin: Twin) -> Vec<u32> {
    let task = named("unlucky", async move { panic!("the price is not a number") });
    let lines = vec![line!() - 1];
    match twin {
        Twin::Buggy => detach(task),
        Twin::Fixed => assert!(task.await.unwrap_err().is_panic()),
    }
    lines
}

fn is_running(task: &JoinHandle<()>) -> bool {
    let dump = wakeful::runtime::Handle::current().dump();
    dump.find(task.id()).is_none_or(|task| task.state() != TaskState::Waiting)
}

/// Detaches the tasks of a buggy twin, and awaits the tasks of a fixed one.
async fn finish<const N: usize>(twin: Twin, tasks: [JoinHandle<()>; N]) {
    for task in tasks {
        match twin {
            Twin::Buggy => detach(task),
            Twin::Fixed => task.await.unwrap(),
        }
    }
}

fn detach<T>(task: JoinHandle<T>) {
    drop(task);
}
