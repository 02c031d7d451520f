//! Destructors of thread-locals use runtimes, tasks, timers, channels and local sets, before and after the
//! destruction of wakeful's own thread-locals. Oracle: each destructor completes, and its spawned tasks are dropped
//! once.

use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::task::{Context, Waker};
use std::thread;
use std::time::Duration;

use wakeful::runtime::{Handle, Runtime, RuntimeFlavor};
use wakeful::sync::{Mutex, mpsc};
use wakeful::task::{JoinHandle, LocalSet, yield_now};
use wakeful::time::sleep;

use super::rng::TestRng;
use super::round::{Drops, Round, WakerStore, returns, use_handle};

/// The values that a destructor uses.
struct LateDestructor {
    rng: TestRng,
    drops: Drops,
    handle: Handle,
    wakers: WakerStore,
    sender: mpsc::Sender<u8>,
    mutex: Arc<Mutex<()>>,
    runtime: Option<Runtime>,
    join: Option<JoinHandle<()>>,
    ran: Arc<AtomicUsize>,
}

impl Drop for LateDestructor {
    fn drop(&mut self) {
        for _ in 0..1 + self.rng.below(4) {
            let choice = self.rng.below(12);
            // A call without its thread-locals may panic with a message. A panic that leaves the destructor would
            // abort the process.
            returns(|| self.act(choice));
        }
        returns(|| drop(self.runtime.take()));
        self.ran.fetch_add(1, SeqCst);
    }
}

impl LateDestructor {
    fn act(&mut self, choice: usize) {
        let mut cx = Context::from_waker(Waker::noop());
        match choice {
            0 => use_handle(&self.handle, &mut self.rng, &self.drops),
            1 => self.handle.block_on(yield_now()),
            2 => {
                let _entered = self.handle.enter();
                _ = Box::pin(sleep(Duration::from_micros(50))).as_mut().poll(&mut cx);
            }
            3 => self.wakers.wake_all(),
            4 => drop(Handle::try_current()),
            5 => _ = self.sender.try_send(1),
            6 => drop(Box::pin(self.mutex.lock()).as_mut().poll(&mut cx)),
            7 => {
                let set = LocalSet::new();
                let guard = self.drops.guard();
                set.spawn_local(async move {
                    yield_now().await;
                    drop(guard);
                });
                _ = Box::pin(set.run_until(yield_now())).as_mut().poll(&mut cx);
            }
            8 => drop(self.join.take()),
            9 => drop(LocalSet::new().spawn_local(yield_now())),
            10 => drop(self.runtime.take()),
            _ if self.handle.runtime_flavor() == RuntimeFlavor::MultiThread => {
                let guard = self.drops.guard();
                _ = self.handle.block_on(self.handle.spawn(async move { drop(guard) }));
            }
            // No thread may run the tasks of a current-thread runtime now.
            _ => {}
        }
    }
}

thread_local! {
    /// Sets that hold a task which was never polled.
    static SETS: RefCell<Vec<LocalSet>> = const { RefCell::new(Vec::new()) };
    static FIRST: RefCell<Vec<LateDestructor>> = const { RefCell::new(Vec::new()) };
    static SECOND: RefCell<Vec<LateDestructor>> = const { RefCell::new(Vec::new()) };
}

/// Fills the thread-locals, and uses wakeful's own before, between or after them. The last one used is destroyed
/// first.
fn fill(destructors: [LateDestructor; 2], order: usize) {
    let [first, second] = destructors;
    let touch = |handle: &Handle| {
        handle.block_on(yield_now());
        drop(LocalSet::new());
    };
    let handle = first.handle.clone();
    if order == 0 {
        touch(&handle);
    }
    FIRST.with_borrow_mut(|list| list.push(first));
    if order == 1 {
        touch(&handle);
    }
    SECOND.with_borrow_mut(|list| list.push(second));
    if order == 2 {
        touch(&handle);
    }
}

pub fn round(round: &mut Round) {
    let runtime = round.runtime();
    let mut rng = round.rng.branch();
    let (sender, mut receiver) = mpsc::channel(64);
    let (wakers, mutex) = (WakerStore::default(), Arc::new(Mutex::new(())));
    let ran = Arc::new(AtomicUsize::new(0));
    let mut threads = Vec::new();
    let count = 1 + rng.below(4);
    for _ in 0..count {
        let waits = wakers.clone();
        let guard = round.drops.guard();
        let join = runtime.spawn(async move {
            waits.wait().await;
            drop(guard);
        });
        let mut destructor = |rng: &mut TestRng, join: Option<JoinHandle<()>>| LateDestructor {
            rng: rng.branch(),
            drops: round.drops.clone(),
            handle: runtime.handle().clone(),
            wakers: wakers.clone(),
            sender: sender.clone(),
            mutex: mutex.clone(),
            runtime: rng.one_in(4).then(|| round.builder().build().unwrap()),
            join,
            ran: ran.clone(),
        };
        let (destructors, order) =
            ([destructor(&mut rng, Some(join)), destructor(&mut rng, None)], rng.below(4));
        let (has_set, in_set) = (rng.one_in(2), round.drops.guard());
        let thread = move || {
            if has_set {
                let set = LocalSet::new();
                drop(set.spawn_local(async move { drop(in_set) }));
                SETS.with_borrow_mut(|sets| sets.push(set));
            }
            fill(destructors, order);
        };
        // A plain thread, or a thread of the runtime's pool, which ends with the runtime.
        match rng.below(3) {
            0 => drop(runtime.spawn_blocking(thread)),
            _ => threads.push(thread::spawn(thread)),
        }
    }
    round.count("destructors", 2 * count);
    if rng.one_in(2) {
        round.end(runtime);
        threads.into_iter().for_each(|thread| thread.join().unwrap());
    } else {
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        round.end(runtime);
    }
    while ran.load(SeqCst) < 2 * count {
        thread::yield_now();
    }
    while receiver.try_recv().is_ok() {}
}
