//! Support for the rounds of every kind: random choices, runtimes, drop guards and counts.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::panic::{self, AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex, MutexGuard, Once, PoisonError};
use std::task::{Poll, Waker};
use std::thread;
use std::time::Duration;

use wakeful::runtime::{Builder, Handle, OrphanPolicy, Runtime};

use super::rng::TestRng;

/// The state of one round.
pub struct Round {
    pub rng: TestRng,
    pub drops: Drops,
    counts: BTreeMap<&'static str, u64>,
}

impl Round {
    pub fn new(seed: u64) -> Self {
        Self { rng: TestRng::new(seed), drops: Drops::default(), counts: BTreeMap::new() }
    }

    /// Adds to a count of the closing summary.
    pub fn count(&mut self, what: &'static str, number: usize) {
        *self.counts.entry(what).or_default() += number as u64;
    }

    pub fn into_parts(self) -> (Drops, BTreeMap<&'static str, u64>) {
        (self.drops, self.counts)
    }

    /// Returns a builder of either flavor with random settings. Its reports are dropped, because lost wakers and
    /// panics are part of the stress.
    pub fn builder(&mut self) -> Builder {
        let mut builder = if self.rng.one_in(3) {
            Builder::new_current_thread()
        } else {
            let mut builder = Builder::new_multi_thread();
            builder.worker_threads(1 + self.rng.below(3));
            builder
        };
        builder
            .enable_all()
            .dump_on_signal(true)
            .on_orphan(OrphanPolicy::Report)
            .on_report(|_| ())
            .report_blocked_after(None)
            .max_blocking_threads(1 + self.rng.below(4))
            .event_interval(1 + self.rng.below(61) as u32);
        if self.rng.one_in(2) {
            builder.thread_keep_alive(Duration::ZERO);
        }
        builder
    }

    pub fn runtime(&mut self) -> Runtime {
        self.count("runtimes", 1);
        self.builder().build().expect("the system has threads and descriptors to give")
    }

    /// Ends a runtime in one of seven ways. After some of them, threads are still exiting.
    pub fn end(&mut self, runtime: Runtime) {
        match self.rng.below(7) {
            0 => drop(runtime),
            1 => runtime.shutdown_timeout(Duration::from_secs(3_600)),
            2 => runtime.shutdown_background(),
            3 => thread::spawn(move || drop(runtime)).join().expect("the drop does not panic"),
            4 => {
                let unwind = move || {
                    let _runtime = runtime;
                    quiet_panic();
                };
                catch_unwind(AssertUnwindSafe(unwind)).expect_err("it panics");
            }
            5 => {
                let handle = runtime.handle().clone();
                // A closure on the runtime's own pool drops the runtime, unless the pool refuses the closure.
                drop(handle.spawn_blocking(move || drop(runtime)));
            }
            _ => {
                let other = self.runtime();
                other.block_on(async move { runtime.shutdown_background() });
            }
        }
    }
}

/// The payload of [`quiet_panic`]. The runtime forgets the payloads of foreign panics, whose drop might panic too.
/// This payload has no size and no allocation, so the leak detector does not report it.
struct QuietPanic;

/// Panics without a message on stderr.
pub fn quiet_panic() {
    resume_unwind(Box::new(QuietPanic));
}

thread_local! {
    /// Whether panics of this thread are part of the stress.
    static EXPECTS_PANIC: Cell<bool> = const { Cell::new(false) };
}

/// Keeps panics that [`returns`] expects off stderr.
pub fn hide_expected_panics() {
    static HIDDEN: Once = Once::new();
    HIDDEN.call_once(|| {
        let print = panic::take_hook();
        panic::set_hook(Box::new(move |panic| {
            if !EXPECTS_PANIC.get() {
                print(panic);
            }
        }));
    });
}

/// Runs `action` and drops its panic. Returns true if `action` returned.
pub fn returns(action: impl FnOnce()) -> bool {
    let outer = EXPECTS_PANIC.replace(true);
    let returned = catch_unwind(AssertUnwindSafe(action)).is_ok();
    EXPECTS_PANIC.set(outer);
    returned
}

pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Counts the guards that were created and dropped.
#[derive(Clone, Default)]
pub struct Drops {
    counts: Arc<(AtomicUsize, AtomicUsize)>,
}

impl Drops {
    pub fn guard(&self) -> Guard {
        self.counts.0.fetch_add(1, SeqCst);
        Guard { drops: self.clone(), is_alive: AtomicBool::new(true) }
    }

    /// Records that the stress program leaks one guard on purpose.
    pub fn forget_one(&self) {
        self.counts.0.fetch_sub(1, SeqCst);
    }

    pub fn made(&self) -> usize {
        self.counts.0.load(SeqCst)
    }

    pub fn dropped(&self) -> usize {
        self.counts.1.load(SeqCst)
    }
}

/// A value in a future or a closure that records its drop.
pub struct Guard {
    drops: Drops,
    is_alive: AtomicBool,
}

impl Drop for Guard {
    fn drop(&mut self) {
        if !self.is_alive.swap(false, SeqCst) {
            eprintln!("a guard was dropped twice");
            std::process::abort();
        }
        self.drops.counts.1.fetch_add(1, SeqCst);
    }
}

/// A guard whose drop runs code that may panic.
pub struct RunsOnDrop<F: FnMut()> {
    act: F,
    _guard: Guard,
}

impl<F: FnMut()> RunsOnDrop<F> {
    pub fn new(guard: Guard, act: F) -> Self {
        Self { act, _guard: guard }
    }
}

impl<F: FnMut()> Drop for RunsOnDrop<F> {
    fn drop(&mut self) {
        // A second panic during unwinding would abort the process.
        if thread::panicking() { _ = returns(&mut self.act) } else { (self.act)() }
    }
}

/// Wakers that tasks have stored, for any thread to wake, drop or keep.
#[derive(Clone, Default)]
pub struct WakerStore {
    wakers: Arc<Mutex<Vec<Waker>>>,
}

impl WakerStore {
    /// Stores its waker, and stays pending until it is polled a second time.
    pub async fn wait(&self) {
        let mut waited = false;
        std::future::poll_fn(|cx| {
            if std::mem::replace(&mut waited, true) {
                return Poll::Ready(());
            }
            lock(&self.wakers).push(cx.waker().clone());
            Poll::Pending
        })
        .await;
    }

    pub fn take(&self) -> Vec<Waker> {
        std::mem::take(&mut lock(&self.wakers))
    }

    pub fn wake_all(&self) {
        self.take().into_iter().for_each(Waker::wake);
    }
}

/// Uses a handle whose runtime may be gone. Every call must return or panic with a message, and none may hang.
pub fn use_handle(handle: &Handle, rng: &mut TestRng, drops: &Drops) {
    match rng.below(5) {
        0 => {
            let guard = drops.guard();
            drop(handle.spawn(async move { drop(guard) }));
        }
        1 => {
            let guard = drops.guard();
            drop(handle.spawn_blocking(move || drop(guard)));
        }
        2 => drop(handle.dump().to_string()),
        3 => drop(handle.metrics().prometheus()),
        _ => {
            let _entered = handle.enter();
            drop(wakeful::spawn(wakeful::task::yield_now()));
        }
    }
}
