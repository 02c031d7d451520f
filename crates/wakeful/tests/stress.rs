//! Random operations on one runtime: tasks yield, wait, spawn, block and panic; other threads spawn, wake, abort and
//! forget tasks; the runtime shuts down meanwhile.
//!
//! In the end every task is accounted for.

use std::collections::BTreeSet;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::atomic::{AtomicU8, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Waker};
use std::thread;
use std::time::Duration;

use futures::executor;
use wakeful::runtime::{Builder, Handle, OrphanPolicy, Runtime, RuntimeFlavor};
use wakeful::task::{AbortHandle, JoinHandle, block_in_place, yield_now};

mod support {
    pub mod rng;
    pub mod runtimes;
}
use support::rng::{TestRng, seed};
use support::runtimes::{TestRuntime, watch};

const ROUNDS: usize = 250;
const FOREIGN_THREADS: usize = 3;
const ACTIONS: usize = 400;
/// More tasks than one round ever spawns.
const SLOTS: usize = 20_000;

const OPEN: u8 = 0;
const COMPLETED: u8 = 1;
const PANICKED: u8 = 2;
const CANCELLED: u8 = 3;

/// The outcome of every task, written by its future, to be compared with the outcome that the runtime reports.
struct Ledger {
    slots: Box<[Slot]>,
    spawned: AtomicUsize,
}

#[derive(Default)]
struct Slot {
    drops: AtomicU8,
    fate: AtomicU8,
}

/// Lives in the task's future, and is dropped with it.
struct Entry {
    ledger: Arc<Ledger>,
    index: usize,
}

impl Ledger {
    fn new() -> Arc<Self> {
        let slots = (0..SLOTS).map(|_| Slot::default()).collect();
        Arc::new(Self { slots, spawned: AtomicUsize::new(0) })
    }

    fn open(self: &Arc<Self>) -> Entry {
        let index = self.spawned.fetch_add(1, SeqCst);
        assert!(index < SLOTS, "more tasks than the ledger has room for");
        Entry { ledger: self.clone(), index }
    }

    fn fate(&self, index: usize) -> u8 {
        self.slots[index].fate.load(SeqCst)
    }

    fn all_dropped(&self) -> bool {
        let spawned = self.spawned.load(SeqCst);
        self.slots[..spawned].iter().all(|slot| slot.drops.load(SeqCst) > 0)
    }

    /// Asserts that every spawned task has ended in one way, and that its future was dropped once.
    fn close(&self) {
        let spawned = self.spawned.load(SeqCst);
        let mut fates = [0; 4];
        for (index, slot) in self.slots[..spawned].iter().enumerate() {
            assert_eq!(slot.drops.load(SeqCst), 1, "drops of task {index} of {spawned}");
            fates[usize::from(slot.fate.load(SeqCst))] += 1;
        }
        let [open, completed, panicked, cancelled] = fates;
        assert_eq!(open, 0, "a dropped task has some fate");
        assert_eq!(completed + panicked + cancelled, spawned);
    }
}

impl Entry {
    fn end(&self, fate: u8) {
        let before = self.ledger.slots[self.index].fate.swap(fate, SeqCst);
        assert_eq!(before, OPEN, "a task ends once");
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        let slot = &self.ledger.slots[self.index];
        let _ = slot.fate.compare_exchange(OPEN, CANCELLED, SeqCst, SeqCst);
        slot.drops.fetch_add(1, SeqCst);
    }
}

/// State that tasks and foreign threads share.
struct Board {
    ledger: Arc<Ledger>,
    wakers: Mutex<Vec<Waker>>,
    handles: Mutex<Vec<(usize, JoinHandle<()>)>>,
    aborts: Mutex<Vec<AbortHandle>>,
    /// Whether some wakers are dropped, so that tasks become orphans.
    lossy: bool,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Takes a random element out.
fn draw<T>(list: &Mutex<Vec<T>>, rng: &mut TestRng) -> Option<T> {
    let mut list = lock(list);
    let len = list.len();
    if len == 0 { None } else { Some(list.swap_remove(rng.below(len))) }
}

/// Pending until it is polled a second time; the waker goes to the board.
async fn wait_on(board: &Board) {
    let mut waited = false;
    poll_fn(|cx| {
        if waited {
            return Poll::Ready(());
        }
        waited = true;
        lock(&board.wakers).push(cx.waker().clone());
        Poll::Pending
    })
    .await;
}

async fn life(board: Arc<Board>, entry: Entry, mut rng: TestRng, depth: usize) {
    for _ in 0..rng.below(5) {
        match rng.below(8) {
            0..3 => yield_now().await,
            3..6 => wait_on(&board).await,
            6 if depth < 3 => {
                let (index, child) = spawn(&Handle::current(), &board, &mut rng, depth + 1);
                match rng.below(3) {
                    0 => drop(child.await),
                    1 => drop(child),
                    _ => lock(&board.handles).push((index, child)),
                }
            }
            7 if rng.one_in(4) && on_many_threads() => block_in_place(thread::yield_now),
            _ => {
                let closure = spawn_closure(&Handle::current(), &board, &mut rng);
                if rng.one_in(2) {
                    drop(closure.1.await);
                }
            }
        }
    }
    if rng.one_in(12) {
        entry.end(PANICKED);
        // As a panic, without the noise of the panic hook.
        std::panic::resume_unwind(Box::new("at random"));
    }
    entry.end(COMPLETED);
}

fn on_many_threads() -> bool {
    Handle::current().runtime_flavor() == RuntimeFlavor::MultiThread
}

/// Makes the future `N` bytes larger.
async fn padded<const N: usize>(future: impl Future<Output = ()>) {
    let padding = [7u8; N];
    future.await;
    assert!(padding.iter().all(|&byte| byte == 7), "the future's memory was overwritten");
}

/// A task of some size.
fn spawn(
    handle: &Handle,
    board: &Arc<Board>,
    rng: &mut TestRng,
    depth: usize,
) -> (usize, JoinHandle<()>) {
    let entry = board.ledger.open();
    let index = entry.index;
    let size = rng.below(8);
    let life = life(board.clone(), entry, rng.branch(), depth);
    let boxed: Pin<Box<dyn Future<Output = ()> + Send>> = Box::pin(life);
    let task = match size {
        0 => handle.spawn(padded::<5_000>(boxed)),
        1 => handle.spawn(padded::<700>(boxed)),
        2 | 3 => handle.spawn(padded::<60>(boxed)),
        _ => handle.spawn(boxed),
    };
    (index, task)
}

fn spawn_closure(handle: &Handle, board: &Board, rng: &mut TestRng) -> (usize, JoinHandle<()>) {
    let entry = board.ledger.open();
    let (index, panics) = (entry.index, rng.one_in(10));
    let closure = move || {
        if panics {
            entry.end(PANICKED);
            std::panic::resume_unwind(Box::new("at random"));
        }
        entry.end(COMPLETED);
    };
    (index, handle.spawn_blocking(closure))
}

/// Does one random action on the runtime from a thread outside it.
fn act(handle: &Handle, board: &Arc<Board>, rng: &mut TestRng) {
    match rng.below(16) {
        0..4 => {
            let (index, task) = spawn(handle, board, rng, 0);
            if rng.one_in(4) {
                lock(&board.aborts).push(task.abort_handle());
            }
            if !rng.one_in(8) {
                lock(&board.handles).push((index, task));
            }
        }
        4 => {
            let closure = spawn_closure(handle, board, rng);
            lock(&board.handles).push(closure);
        }
        5..12 => {
            let Some(waker) = draw(&board.wakers, rng) else { return };
            match rng.below(4) {
                0 => waker.wake_by_ref(),
                1 => {
                    let clone = waker.clone();
                    drop(waker);
                    clone.wake();
                }
                2 if board.lossy => drop(waker),
                _ => waker.wake(),
            }
        }
        12 => {
            if let Some(abort) = draw(&board.aborts, rng) {
                abort.abort();
            }
        }
        13 => {
            if let Some((_, task)) = draw(&board.handles, rng) {
                task.abort();
            }
        }
        14 => drop(draw(&board.handles, rng)),
        _ => {
            // A finished task has recorded its outcome, and its future was dropped.
            for (index, task) in lock(&board.handles).iter() {
                if task.is_finished() {
                    let slot = &board.ledger.slots[*index];
                    let (fate, drops) = (slot.fate.load(SeqCst), slot.drops.load(SeqCst));
                    assert!(fate != OPEN && drops == 1, "task {index}: {fate}, {drops} drops");
                }
            }
        }
    }
}

/// Compares the results of the handles with the ledger. Returns the ids of orphans.
fn settle_handles(board: &Board) -> BTreeSet<String> {
    let mut orphans = BTreeSet::new();
    for (index, task) in std::mem::take(&mut *lock(&board.handles)) {
        let fate = match executor::block_on(task) {
            Ok(()) => COMPLETED,
            Err(error) if error.is_panic() => PANICKED,
            Err(error) => {
                assert!(error.is_cancelled());
                if error.is_orphaned() {
                    orphans.insert(error.id().to_string());
                }
                CANCELLED
            }
        };
        assert_eq!(fate, board.ledger.fate(index), "task {index}: its handle against its own word");
    }
    orphans
}

fn shut_down(runtime: Runtime, rng: &mut TestRng, ledger: &Ledger) {
    match rng.below(3) {
        0 => drop(runtime),
        1 => runtime.shutdown_timeout(Duration::from_secs(3_600)),
        _ => {
            runtime.shutdown_background();
            while !ledger.all_dropped() {
                thread::yield_now();
            }
        }
    }
}

fn round(builder: &mut Builder, rng: &mut TestRng) {
    let board = Arc::new(Board {
        ledger: Ledger::new(),
        wakers: Mutex::default(),
        handles: Mutex::default(),
        aborts: Mutex::default(),
        lossy: rng.one_in(3),
    });
    let TestRuntime { runtime, reports, .. } =
        watch("stressed", builder.on_orphan(OrphanPolicy::Abort));
    let runtime = Arc::new(runtime);
    let drains = rng.one_in(2);
    let (stop, stopped) = futures::channel::oneshot::channel::<()>();
    let driver = {
        let runtime = runtime.clone();
        thread::spawn(move || runtime.block_on(stopped).unwrap())
    };
    let foreign: Vec<_> = (0..FOREIGN_THREADS)
        .map(|_| {
            let (handle, board, mut rng) = (runtime.handle().clone(), board.clone(), rng.branch());
            thread::spawn(move || (0..ACTIONS).for_each(|_| act(&handle, &board, &mut rng)))
        })
        .collect();
    let join_foreign = || foreign.into_iter().for_each(|thread| thread.join().unwrap());
    if drains {
        // Every task ends if every waiting task is woken.
        join_foreign();
        while !board.ledger.all_dropped() {
            std::mem::take(&mut *lock(&board.wakers)).into_iter().for_each(Waker::wake);
            thread::yield_now();
        }
        stop.send(()).unwrap();
        driver.join().unwrap();
        shut_down(Arc::into_inner(runtime).unwrap(), rng, &board.ledger);
    } else {
        // Shuts down while the foreign threads still act.
        for _ in 0..rng.below(ACTIONS) {
            act(runtime.handle(), &board, rng);
        }
        stop.send(()).unwrap();
        driver.join().unwrap();
        shut_down(Arc::into_inner(runtime).unwrap(), rng, &board.ledger);
        join_foreign();
    }
    let orphans = settle_handles(&board);
    let reported: Vec<String> =
        reports.take().iter().map(|orphan| orphan.id().to_string()).collect();
    let distinct: BTreeSet<String> = reported.iter().cloned().collect();
    assert_eq!(distinct.len(), reported.len(), "an orphan is reported once");
    assert!(orphans.is_subset(&distinct), "an orphan that was not reported");
    assert!(board.lossy || reported.is_empty(), "no waker was lost, and yet: {reported:?}");
    board.ledger.close();
    // Wakers and handles that are left on the board outlive the runtime.
    let wakers = std::mem::take(&mut *lock(&board.wakers));
    wakers.iter().step_by(2).for_each(Waker::wake_by_ref);
    lock(&board.aborts).iter().for_each(AbortHandle::abort);
}

fn stress(name: &str, mut builder: impl FnMut(&mut TestRng) -> Builder) {
    let seed = seed();
    let mut rng = TestRng::new(seed);
    for number in 0..ROUNDS {
        println!("{name}: round {number}");
        let mut builder = builder(&mut rng);
        builder.max_blocking_threads(1 + rng.below(4));
        if rng.one_in(2) {
            builder.thread_keep_alive(Duration::ZERO);
        }
        round(&mut builder, &mut rng);
    }
}

#[test]
fn current_thread() {
    stress("current_thread", |_| Builder::new_current_thread());
}

#[test]
fn one_worker() {
    stress("one worker", |_| {
        let mut builder = Builder::new_multi_thread();
        builder.worker_threads(1);
        builder
    });
}

#[test]
fn two_to_four_workers() {
    stress("two to four workers", |rng| {
        let mut builder = Builder::new_multi_thread();
        builder.worker_threads(2 + rng.below(3)).event_interval(1 + rng.below(61) as u32);
        if rng.one_in(4) {
            builder.disable_lifo_slot();
        }
        builder
    });
}
