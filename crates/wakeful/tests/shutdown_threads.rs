//! Threads of a runtime end before its drop returns, with the destructors of their thread-local values.

use std::cell::RefCell;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use wakeful::runtime::{Builder, Runtime};
use wakeful::task::block_in_place;

/// How long a destructor waits for the drop of the runtime. A drop that does not wait for the destructor returns much
/// sooner.
const LONG: Duration = Duration::from_millis(300);

/// A value whose destructor lasts longer than a drop of the runtime that does not wait for it.
struct Slow {
    has_begun: mpsc::Sender<()>,
    is_dropping: Arc<AtomicBool>,
    is_dropped: Arc<AtomicBool>,
    /// Whether the drop had returned when the destructor ended.
    outcome: mpsc::Sender<bool>,
}

impl Drop for Slow {
    fn drop(&mut self) {
        self.has_begun.send(()).unwrap();
        while !self.is_dropping.load(SeqCst) {
            std::thread::yield_now();
        }
        let begun = Instant::now();
        while !self.is_dropped.load(SeqCst) && begun.elapsed() < LONG {
            std::thread::yield_now();
        }
        _ = self.outcome.send(self.is_dropped.load(SeqCst));
    }
}

thread_local! {
    static SLOW: RefCell<Option<Slow>> = const { RefCell::new(None) };
}

/// Drops a runtime while one of its ended threads is still in a thread-local destructor. `end_a_thread` makes a thread
/// of the runtime call the closure and end. `start_a_thread` makes the runtime start another.
fn waits_for_destructors(
    runtime: Runtime,
    end_a_thread: impl FnOnce(&Runtime, Box<dyn FnOnce() + Send>),
    start_a_thread: impl FnOnce(&Runtime),
) {
    let ((has_begun, begun), (outcome, outcomes)) = (mpsc::channel(), mpsc::channel());
    let (is_dropping, is_dropped) = (Arc::<AtomicBool>::default(), Arc::<AtomicBool>::default());
    let slow = Slow {
        has_begun,
        is_dropping: is_dropping.clone(),
        is_dropped: is_dropped.clone(),
        outcome,
    };
    end_a_thread(&runtime, Box::new(move || SLOW.set(Some(slow))));
    begun.recv().unwrap();
    start_a_thread(&runtime);
    is_dropping.store(true, SeqCst);
    drop(runtime);
    is_dropped.store(true, SeqCst);
    assert!(!outcomes.recv().unwrap(), "the drop has returned before the destructor");
}

/// The pool forgets threads that have ended when it starts another.
#[test]
fn a_drop_waits_for_destructors_of_pool_threads() {
    let runtime = Builder::new_current_thread().thread_keep_alive(Duration::ZERO).build().unwrap();
    let start = |runtime: &Runtime| runtime.block_on(runtime.spawn_blocking(|| ())).unwrap();
    waits_for_destructors(runtime, |runtime, set| drop(runtime.spawn_blocking(set)), start);
}

/// A thread that has blocked in place ends with its poll: another thread has its core.
#[test]
fn a_drop_waits_for_destructors_of_worker_threads() {
    let runtime = Builder::new_multi_thread().worker_threads(1).build().unwrap();
    waits_for_destructors(
        runtime,
        |runtime, set| {
            let blocks = runtime.spawn(async move { block_in_place(set) });
            runtime.block_on(blocks).unwrap();
        },
        |runtime| {
            let blocks = runtime.spawn(async { block_in_place(|| ()) });
            runtime.block_on(blocks).unwrap();
        },
    );
}
