//! Bugs of tasks that wait forever: bugs 1, 2, 4 and 5.

use crate::programs::{System, Twin};
use crate::rt::{Mutex, Notify, choose, mpsc, sleep, spawn, timeout, yield_now};
use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

/// A gate that opens once.
struct Gate {
    is_open: AtomicBool,
    opened: Notify,
}

async fn visit(gate: Arc<Gate>, log: mpsc::Sender<&'static str>, twin: Twin) {
    if twin.is_fixed() {
        let opened = gate.opened.notified();
        if !gate.is_open.load(SeqCst) {
            log.send("the gate is closed").await.unwrap();
            opened.await;
        }
    } else if !gate.is_open.load(SeqCst) {
        log.send("the gate is closed").await.unwrap();
        gate.opened.notified().await;
    }
}

/// Each visitor checks the gate, writes a line, and waits. The gate may open while the line is written.
///
/// The twin creates `notified()` before the check, so it sees every later notification.
pub fn lost_wakeup(twin: Twin) -> System {
    System::local(async move {
        let gate = Arc::new(Gate { is_open: AtomicBool::new(false), opened: Notify::new() });
        let (log, mut lines) = mpsc::channel(10);
        let visitors =
            [spawn(visit(gate.clone(), log.clone(), twin)), spawn(visit(gate.clone(), log, twin))];
        let open = spawn(async move {
            gate.is_open.store(true, SeqCst);
            gate.opened.notify_waiters();
        });
        open.await.unwrap();
        for visitor in visitors {
            visitor.await.unwrap();
        }
        while lines.recv().await.is_some() {}
    })
}

/// A value that arrives once.
#[derive(Default)]
struct Parcel {
    state: std::sync::Mutex<(Option<u32>, Option<Waker>)>,
}

impl Parcel {
    fn deliver(&self, content: u32) {
        let waker = {
            let mut state = self.state.lock().unwrap();
            state.0 = Some(content);
            state.1.take()
        };
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// Keeps the waker of the first poll. The twin keeps the waker of the last poll.
    fn poll(&self, cx: &mut Context<'_>, twin: Twin) -> Poll<u32> {
        let mut state = self.state.lock().unwrap();
        if let Some(content) = state.0.take() {
            return Poll::Ready(content);
        }
        if state.1.is_none() || twin.is_fixed() {
            state.1 = Some(cx.waker().clone());
        }
        Poll::Pending
    }
}

/// One task polls for a parcel once, and then spawns another task that waits for it.
pub fn stale_waker(twin: Twin) -> System {
    System::local(async move {
        let parcel = Arc::new(Parcel::default());
        let sender = parcel.clone();
        spawn(async move {
            yield_now().await;
            sender.deliver(5);
        });
        let mut receiver = poll_fn(move |cx| parcel.poll(cx, twin));
        let looks = spawn(async move {
            let first = poll_fn(|cx| Poll::Ready(pin!(&mut receiver).poll(cx))).await;
            match first {
                Poll::Ready(content) => content,
                Poll::Pending => spawn(receiver).await.unwrap(),
            }
        });
        assert_eq!(looks.await.unwrap(), 5);
    })
}

/// Two tasks take two locks. The twin takes them in the same order.
pub fn abba(twin: Twin) -> System {
    System::local(async move {
        let locks = Arc::new((Mutex::new(1), Mutex::new(2)));
        let other = locks.clone();
        let one = spawn(async move {
            let a = locks.0.lock().await;
            let b = locks.1.lock().await;
            *a + *b
        });
        let two = spawn(async move {
            let (first, second) =
                if twin.is_fixed() { (&other.0, &other.1) } else { (&other.1, &other.0) };
            let a = first.lock().await;
            let b = second.lock().await;
            *a + *b
        });
        assert_eq!((one.await.unwrap(), two.await.unwrap()), (3, 3));
    })
}

/// A task waits for a lock with a time limit. After the limit it locks again, while its first future is
/// still in the queue.
///
/// The twin drops the first future.
pub fn futurelock(twin: Twin) -> System {
    System::local(async move {
        let lock = Arc::new(Mutex::new(0));
        let other = lock.clone();
        let holder = spawn(async move {
            let mut value = other.lock().await;
            sleep(Duration::from_millis(5 * choose(4))).await;
            *value += 1;
        });
        let waits = spawn(async move {
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
    })
}
