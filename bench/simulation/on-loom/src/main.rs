//! Bugs 1, 2 and 4 on loom, as tiny models with loom's types.
//!
//! loom has no seeds: it explores all orders, so its result is the same for each master seed. Its
//! `Mutex` and `Condvar` replace the async ones.

use loom::future::block_on;
use loom::sync::atomic::{AtomicBool, Ordering::SeqCst};
use loom::sync::{Arc, Condvar, Mutex};
use loom::thread;
use std::panic::{AssertUnwindSafe, catch_unwind, set_hook};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::task::{Poll, Waker};
use std::time::Instant;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Twin {
    Buggy,
    Fixed,
}

impl Twin {
    fn is_fixed(self) -> bool {
        self == Twin::Fixed
    }
}

/// Two visitors check a gate. The buggy ones check it outside of the lock, and may then wait for a
/// notification that was sent before.
fn lost_wakeup(twin: Twin) {
    let gate = Arc::new((AtomicBool::new(false), Mutex::new(()), Condvar::new()));
    let visitors = [0, 1].map(|_| {
        let gate = gate.clone();
        thread::spawn(move || {
            let (is_open, lock, opened) = &*gate;
            if twin.is_fixed() {
                let mut held = lock.lock().unwrap();
                while !is_open.load(SeqCst) {
                    held = opened.wait(held).unwrap();
                }
            } else if !is_open.load(SeqCst) {
                let held = lock.lock().unwrap();
                drop(opened.wait(held).unwrap());
            }
        })
    });
    let (is_open, lock, opened) = &*gate;
    {
        let _held = lock.lock().unwrap();
        is_open.store(true, SeqCst);
    }
    opened.notify_all();
    for visitor in visitors {
        visitor.join().unwrap();
    }
}

/// A future that is polled once on one thread and then waits on another one.
fn stale_waker(twin: Twin) {
    type State = Mutex<(bool, Option<Waker>)>;
    let parcel: Arc<State> = Arc::new(Mutex::new((false, None)));
    let poll = move |parcel: &State, waker: &Waker| {
        let mut state = parcel.lock().unwrap();
        if state.0 {
            return Poll::Ready(());
        }
        if state.1.is_none() || twin.is_fixed() {
            state.1 = Some(waker.clone());
        }
        Poll::Pending
    };
    let sender = parcel.clone();
    let sends = thread::spawn(move || {
        let waker = {
            let mut state = sender.lock().unwrap();
            state.0 = true;
            state.1.take()
        };
        if let Some(waker) = waker {
            waker.wake();
        }
    });
    let looked = parcel.clone();
    let looks = thread::spawn(move || {
        block_on(std::future::poll_fn(|cx| Poll::Ready(poll(&looked, cx.waker()))))
    });
    if looks.join().unwrap().is_pending() {
        block_on(std::future::poll_fn(|cx| poll(&parcel, cx.waker())));
    }
    sends.join().unwrap();
}

/// Two threads take two locks. The fixed twin takes them in the same order.
fn abba(twin: Twin) {
    let locks = Arc::new((Mutex::new(1), Mutex::new(2)));
    let other = locks.clone();
    let one = thread::spawn(move || {
        let a = locks.0.lock().unwrap();
        let b = locks.1.lock().unwrap();
        *a + *b
    });
    let two = thread::spawn(move || {
        let (first, second) =
            if twin.is_fixed() { (&other.0, &other.1) } else { (&other.1, &other.0) };
        let a = first.lock().unwrap();
        let b = second.lock().unwrap();
        *a + *b
    });
    assert_eq!((one.join().unwrap(), two.join().unwrap()), (3, 3));
}

/// The name of a bug, and its program.
type Model = (&'static str, fn(Twin));

const MODELS: &[Model] =
    &[("lost_wakeup", lost_wakeup), ("stale_waker", stale_waker), ("abba", abba)];

/// The number of runs of the current exploration.
static MADE: AtomicU64 = AtomicU64::new(0);

/// Explores the orders until a run fails. Returns whether one failed.
fn explore(model: fn(Twin), twin: Twin) -> bool {
    MADE.store(0, Relaxed);
    let run = move || {
        MADE.fetch_add(1, Relaxed);
        model(twin);
    };
    catch_unwind(AssertUnwindSafe(|| loom::model::Builder::new().check(run))).is_err()
}

/// Executes the commands of `programs/harness.rs`. A search is made once, whatever the number of
/// masters.
fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let model = || MODELS.iter().find(|model| model.0 == args[1]).expect("a bug").1;
    match args[0].as_str() {
        "list" => MODELS.iter().for_each(|model| println!("{}", model.0)),
        "search" => {
            // loom panics again and aborts while it unwinds from a deadlock, so the first panic
            // counts.
            set_hook(Box::new(|panic| {
                eprintln!("{panic}");
                println!("found {}", MADE.load(Relaxed));
                std::process::exit(0);
            }));
            if !explore(model(), Twin::Buggy) {
                println!("missed {}", MADE.load(Relaxed));
            }
        }
        "twins" => {
            let (start, runs) = (Instant::now(), args[3].parse::<u64>().expect("a number"));
            let (mut made, mut alarms) = (0, 0);
            // Explores all orders repeatedly.
            while made < runs {
                alarms += u64::from(explore(model(), Twin::Fixed));
                made += MADE.load(Relaxed);
            }
            println!("twins {made} {alarms} {}", start.elapsed().as_secs_f64());
        }
        other => panic!("{other:?} is no command"),
    }
}
