//! Bugs of tasks that wait forever.

use super::Twin;
use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::pin::pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;
use wakeful::sim::{self, Sim};
use wakeful::sync::{Mutex, Notify, mpsc};
use wakeful::task::{spawn_local, yield_now};
use wakeful::time::{sleep, timeout};

/// A gate that opens once.
#[derive(Default)]
struct Gate {
    is_open: Cell<bool>,
    opened: Notify,
}

/// Each visitor checks the gate, writes a line, and waits. The gate may open while the line is written.
///
/// The fixed twin creates `notified()` before the check, so it sees every later `notify_waiters`.
pub async fn lost_wakeup(_sim: Sim, twin: Twin) {
    let gate = Rc::new(Gate::default());
    let (log, mut lines) = mpsc::channel(10);
    let visit = |log: mpsc::Sender<&'static str>| {
        let gate = gate.clone();
        async move {
            if twin.is_fixed() {
                let opened = gate.opened.notified();
                if !gate.is_open.get() {
                    log.send("the gate is closed").await.unwrap();
                    opened.await;
                }
            } else if !gate.is_open.get() {
                log.send("the gate is closed").await.unwrap();
                gate.opened.notified().await;
            }
        }
    };
    let visitors = [spawn_local(visit(log.clone())), spawn_local(visit(log))];
    let open = spawn_local({
        let gate = gate.clone();
        async move {
            gate.is_open.set(true);
            gate.opened.notify_waiters();
        }
    });
    open.await.unwrap();
    for visitor in visitors {
        visitor.await.unwrap();
    }
    while lines.recv().await.is_some() {}
}

/// A value that arrives once.
#[derive(Default)]
struct Parcel {
    content: Cell<Option<u32>>,
    waker: RefCell<Option<Waker>>,
}

impl Parcel {
    fn deliver(&self, content: u32) {
        self.content.set(Some(content));
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }

    /// Keeps the waker of the first poll. The fixed twin keeps the waker of the last poll.
    fn poll(&self, cx: &mut Context<'_>, twin: Twin) -> Poll<u32> {
        if let Some(content) = self.content.take() {
            return Poll::Ready(content);
        }
        let mut waker = self.waker.borrow_mut();
        if waker.is_none() || twin.is_fixed() {
            *waker = Some(cx.waker().clone());
        }
        Poll::Pending
    }
}

/// One task polls for a parcel once, and then spawns another task that waits for it.
pub async fn stale_waker(_sim: Sim, twin: Twin) {
    let parcel = Rc::new(Parcel::default());
    let receive = |parcel: Rc<Parcel>| poll_fn(move |cx| parcel.poll(cx, twin));
    let sender = parcel.clone();
    spawn_local(async move {
        yield_now().await;
        sender.deliver(5);
    });
    let mut receiver = receive(parcel);
    let looks = spawn_local(async move {
        let first = poll_fn(|cx| Poll::Ready(pin!(&mut receiver).poll(cx))).await;
        match first {
            Poll::Ready(content) => content,
            Poll::Pending => spawn_local(receiver).await.unwrap(),
        }
    });
    assert_eq!(looks.await.unwrap(), 5);
}

/// Two tasks take two locks. The fixed twin takes them in the same order.
pub async fn abba(_sim: Sim, twin: Twin) {
    let locks = Rc::new((Mutex::new(1), Mutex::new(2)));
    let other = locks.clone();
    let one = spawn_local(async move {
        let a = locks.0.lock().await;
        let b = locks.1.lock().await;
        *a + *b
    });
    let two = spawn_local(async move {
        let (first, second) =
            if twin.is_fixed() { (&other.0, &other.1) } else { (&other.1, &other.0) };
        let a = first.lock().await;
        let b = second.lock().await;
        *a + *b
    });
    assert_eq!((one.await.unwrap(), two.await.unwrap()), (3, 3));
}

/// A task waits for a lock with a time limit. After the limit it locks again, while its first future is
/// still in the queue. The lock is granted to that future, which no task polls.
///
/// The fixed twin drops the first future.
pub async fn futurelock(_sim: Sim, twin: Twin) {
    let lock = Rc::new(Mutex::new(0));
    let other = lock.clone();
    let holder = spawn_local(async move {
        let mut value = other.lock().await;
        sleep(Duration::from_millis(5 * sim::choose(4))).await;
        *value += 1;
    });
    let waits = spawn_local(async move {
        yield_now().await;
        let mut first = Box::pin(async { *lock.lock().await += 1 });
        if timeout(Duration::from_millis(8), &mut first).await.is_ok() {
            return;
        }
        if twin.is_fixed() {
            drop(first);
        }
        *lock.lock().await += 1;
    });
    holder.await.unwrap();
    waits.await.unwrap();
}
