//! A million idle tasks: the memory of one, and that none is lost.

use std::future::pending;
use std::pin::Pin;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::task::{Context, Poll, Waker};

use wakeful::runtime::{Builder, OrphanPolicy, Runtime};
use wakeful::task::{JoinHandle, may_wait_forever, yield_now};

mod support {
    pub mod counting;
    pub mod runtimes;
}
use support::counting::Counting;
use support::runtimes::watch;

#[global_allocator]
static MEMORY: Counting = Counting::new();

const MILLION: usize = 1_000_000;
/// Tasks to spawn before the spawner yields. Short queues keep the measurement about tasks.
const BATCH: usize = 200;
/// The most bytes of an idle task with an empty future.
const MOST_BYTES: usize = 128;

/// A future of size zero. It waits until the gate is open, and the gate keeps its waker.
struct AtTheGate;

static OPEN: AtomicBool = AtomicBool::new(false);
static GATE: Mutex<Vec<Waker>> = Mutex::new(Vec::new());

impl Future for AtTheGate {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        if OPEN.load(SeqCst) {
            return Poll::Ready(());
        }
        GATE.lock().unwrap().push(cx.waker().clone());
        Poll::Pending
    }
}

/// Spawns `count` tasks and waits until all of them wait. Returns the bytes that one task allocates.
async fn spawn_idle<F>(
    tasks: &mut Vec<JoinHandle<()>>,
    count: usize,
    mut idle: impl FnMut() -> F,
) -> usize
where
    F: Future<Output = ()> + Send + 'static,
{
    assert!(tasks.capacity() >= count, "room made beforehand is not counted");
    let before = MEMORY.bytes();
    while tasks.len() < count {
        tasks.extend((0..BATCH).map(|_| wakeful::spawn(idle())));
        yield_now().await;
    }
    // After this many yields, all tasks were polled.
    for _ in 0..2 * BATCH {
        yield_now().await;
    }
    // More may have been freed than allocated.
    MEMORY.bytes().saturating_sub(before).div_ceil(count)
}

/// A million tasks wait. Half of them are aborted, and the others are woken.
async fn million(mut tasks: Vec<JoinHandle<()>>) -> usize {
    OPEN.store(false, SeqCst);
    let bytes = spawn_idle(&mut tasks, MILLION, || AtTheGate).await;
    // Tasks arrive in order, except while a spare thread runs in place of this one. If one never arrives, the time
    // limit of the test binary ends the test.
    while GATE.lock().unwrap().len() < MILLION {
        yield_now().await;
    }
    let alive = wakeful::runtime::Handle::current().metrics().num_alive_tasks();
    assert_eq!(alive, MILLION + 1, "and the one that counts them");
    tasks.iter().step_by(2).for_each(JoinHandle::abort);
    OPEN.store(true, SeqCst);
    let mut wakers = std::mem::take(&mut *GATE.lock().unwrap());
    wakers.drain(..).for_each(Waker::wake);
    *GATE.lock().unwrap() = wakers;
    for (n, task) in tasks.into_iter().enumerate() {
        match task.await {
            Ok(()) => assert_eq!(n % 2, 1, "task {n} was aborted"),
            Err(error) => assert!(error.is_cancelled() && n % 2 == 0, "task {n}: {error}"),
        }
    }
    bytes
}

/// Spawns more tasks, in the memory that the million had.
async fn some_more(mut tasks: Vec<JoinHandle<()>>) -> usize {
    let bytes = spawn_idle(&mut tasks, MILLION / 10, || may_wait_forever(pending())).await;
    tasks.iter().for_each(JoinHandle::abort);
    for task in tasks {
        assert!(task.await.unwrap_err().is_cancelled());
    }
    bytes
}

fn measure(name: &str, runtime: &Runtime) {
    assert_eq!(size_of::<AtTheGate>(), 0);
    let room = || Vec::with_capacity(MILLION + BATCH);
    GATE.lock().unwrap().reserve(MILLION);
    let bytes = runtime.block_on(runtime.spawn(million(room()))).unwrap();
    assert_eq!(runtime.metrics().num_alive_tasks(), 0, "{name}");
    println!("{name}: {bytes} bytes per idle task");
    assert!(bytes <= MOST_BYTES, "{name}: {bytes} bytes");
    // Every worker has its own arena, and the spawning task may move to another worker. Then the other arena grows,
    // until it is large enough.
    let more = || {
        let more = runtime.block_on(runtime.spawn(some_more(room()))).unwrap();
        assert_eq!(runtime.metrics().num_alive_tasks(), 0, "{name}");
        more
    };
    assert!((0..20).any(|_| more() <= 1), "{name}: there is memory to reuse, and it is not reused");
}

#[test]
fn a_million_idle_tasks_cost_little_and_all_end() {
    let flavors = [
        ("current_thread", Builder::new_current_thread()),
        ("multi_thread", Builder::new_multi_thread()),
    ];
    for (name, mut builder) in flavors {
        // A poll that counts a million tasks is a long one.
        builder.worker_threads(1).on_orphan(OrphanPolicy::Panic).report_blocked_after(None);
        measure(name, &watch(name, &mut builder));
    }
}
