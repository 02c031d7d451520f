//! Scheduling order, the cooperative budget, and that no task starves another.

mod block_on;

use std::future::{poll_fn, ready};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::*};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};

use futures::stream::{FuturesUnordered, StreamExt};
use futures::task::{ArcWake, AtomicWaker};
use wakeful::io::{AsyncRead, AsyncWrite, AsyncWriteExt, ReadBuf};
use wakeful::net::unix::pipe;
use wakeful::net::{TcpListener, TcpStream};
use wakeful::runtime::{Builder, Handle};
use wakeful::sync::{self};
use wakeful::task::coop::{self, cooperative};
use wakeful::task::{consume_budget, unconstrained, yield_now};

#[path = "../support"]
mod support {
    pub mod runtimes;
    pub mod waker_store;
}
use support::runtimes::{
    TestRuntime, current_thread, multi_thread, runtimes, serial_builders, serial_runtimes, watch,
};
use support::waker_store::WakerStore;

/// Events, in order.
#[derive(Clone, Default)]
struct Trace(Arc<Mutex<Vec<String>>>);

impl Trace {
    fn note(&self, event: impl Into<String>) {
        self.0.lock().unwrap().push(event.into());
    }

    fn take(&self) -> Vec<String> {
        std::mem::take(&mut *self.0.lock().unwrap())
    }
}

/// Returns how many polls `future` needs.
async fn polls_of<F: Future>(future: F) -> usize {
    let mut future = std::pin::pin!(future);
    let mut polls = 0;
    poll_fn(|cx| {
        polls += 1;
        future.as_mut().poll(cx).map(|_| polls)
    })
    .await
}

#[test]
fn on_a_current_thread_runtime_spawn_order_is_run_order() {
    let (rt, trace) = (current_thread(), Trace::default());
    let spawn = |name: &'static str, yields: usize| {
        let trace = trace.clone();
        wakeful::spawn(async move {
            for turn in 0..yields {
                trace.note(format!("{name}{turn}"));
                yield_now().await;
            }
            trace.note(format!("{name} ends"));
        })
    };
    rt.block_on(async {
        let tasks = [spawn("a", 2), spawn("b", 0), spawn("c", 1)];
        trace.note("root waits");
        for task in tasks {
            task.await.unwrap();
        }
    });
    let expected = ["root waits", "a0", "b ends", "c0", "a1", "c ends", "a ends"];
    assert_eq!(trace.take(), expected);
}

#[test]
fn on_a_current_thread_runtime_wake_order_is_run_order() {
    let (rt, trace, store) = (current_thread(), Trace::default(), WakerStore::default());
    let tasks: Vec<_> = (0..5)
        .map(|n| {
            let (wait, trace) = (store.wait(), trace.clone());
            rt.spawn(async move {
                wait.await;
                trace.note(n.to_string());
            })
        })
        .collect();
    rt.settle();
    assert_eq!(store.len(), 5);
    let reversed: Vec<Waker> = store.take().into_iter().rev().collect();
    store.open();
    reversed.into_iter().for_each(Waker::wake);
    rt.block_on(async {
        for task in tasks {
            task.await.unwrap();
        }
    });
    assert_eq!(trace.take(), ["4", "3", "2", "1", "0"]);
}

#[test]
fn tasks_spawned_before_block_on_run_in_it_in_order() {
    let (rt, trace) = (current_thread(), Trace::default());
    for n in 0..100 {
        let trace = trace.clone();
        rt.spawn(async move { trace.note(n.to_string()) });
    }
    assert!(trace.take().is_empty(), "no thread drives the runtime yet");
    rt.settle();
    assert_eq!(trace.take(), Vec::from_iter((0..100).map(|n: u32| n.to_string())));
}

#[test]
fn a_poll_has_a_budget_of_128() {
    for rt in runtimes() {
        let count = async {
            let spend = |n| async move {
                for _ in 0..n {
                    consume_budget().await;
                }
            };
            let mut polls = Vec::new();
            for n in [0, 1, 128, 129, 1_280, 1_281] {
                yield_now().await; // a fresh budget
                polls.push(polls_of(spend(n)).await);
            }
            yield_now().await;
            assert_eq!(polls_of(unconstrained(spend(1_000))).await, 1);
            assert!(coop::has_budget_remaining());
            polls
        };
        let expected = [1, 1, 1, 2, 10, 11];
        assert_eq!(rt.block_on(rt.spawn(count)).unwrap(), expected, "{}", rt.name);
    }
}

#[test]
fn a_loop_over_what_is_always_ready_lets_others_run() {
    for rt in serial_runtimes() {
        let stop = Arc::new(AtomicBool::new(false));
        let seen = stop.clone();
        let looping = rt.spawn(async move {
            let mut rounds = 0u64;
            while !seen.load(SeqCst) {
                cooperative(ready(())).await;
                rounds += 1;
            }
            rounds
        });
        let other = rt.spawn(async move { stop.store(true, SeqCst) });
        rt.block_on(other).unwrap();
        // The store came while the loop waited in the operation that exceeded its budget.
        assert_eq!(rt.block_on(looping).unwrap() % 128, 1, "{}", rt.name);
    }
}

/// Returns how many steps run before a task that is spawned now is polled.
async fn steps_before_another(mut step: impl FnMut(&mut Context<'_>) -> Poll<()>) -> usize {
    poll_fn(&mut step).await; // the resource is known to be ready from here on
    yield_now().await; // a fresh budget
    let other = wakeful::spawn(async {});
    let mut steps = 0;
    while !other.is_finished() {
        poll_fn(&mut step).await;
        steps += 1;
        assert!(steps < 1_000, "it keeps all others waiting");
    }
    steps
}

#[test]
fn a_loop_over_a_socket_or_a_pipe_that_never_has_to_wait_lets_others_run() {
    /// More bytes than the loop reads, and fewer than one write of the kernel accepts.
    const SENT: [u8; 4_000] = [0; 4_000];
    async fn both(mut from: impl AsyncRead + Unpin, mut to: impl AsyncWrite + Unpin) -> [usize; 2] {
        to.write_all(&SENT).await.unwrap();
        let read = |cx: &mut Context<'_>| {
            let mut byte = [0];
            Pin::new(&mut from).poll_read(cx, &mut ReadBuf::new(&mut byte)).map(Result::unwrap)
        };
        let reads = steps_before_another(read).await;
        let write = |cx: &mut Context<'_>| {
            Pin::new(&mut to).poll_write(cx, &[1]).map(|count| assert_eq!(count.unwrap(), 1))
        };
        [reads, steps_before_another(write).await]
    }
    for (name, mut builder) in serial_builders() {
        let rt = watch(name, builder.enable_all());
        let steps = rt.spawn(async {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let near = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
            let (far, _) = listener.accept().await.unwrap();
            let (sender, receiver) = pipe::pipe().unwrap();
            [both(far, near).await, both(receiver, sender).await]
        });
        // The loop yields in the step that exceeds its budget.
        let steps = rt.block_on(steps).unwrap();
        assert!(steps.as_flattened().iter().all(|steps| steps % 128 == 1), "{name}: {steps:?}");
    }
}

#[test]
fn a_loop_over_finished_tasks_lets_others_run() {
    for rt in serial_runtimes() {
        let trace = Trace::default();
        let (in_loop, beside) = (trace.clone(), trace.clone());
        let handles: Vec<_> = (0..1_000).map(|_| rt.spawn(async {})).collect();
        rt.settle();
        assert!(handles.iter().all(|handle| handle.is_finished()), "{}", rt.name);
        let looping = rt.spawn(async move {
            let neighbour = wakeful::spawn(async move { beside.note("the neighbour ran") });
            for handle in handles {
                handle.await.unwrap();
            }
            in_loop.note("the loop ended");
            neighbour.await.unwrap();
        });
        rt.block_on(looping).unwrap();
        assert_eq!(trace.take(), ["the neighbour ran", "the loop ended"], "{}", rt.name);
    }
}

/// If the set polled all futures again with each budget of 128, the polls would grow with the square of their number.
#[test]
fn a_set_of_futures_ends_its_turn_when_there_is_no_budget_left() {
    const FUTURES: usize = 10_000;
    for rt in runtimes() {
        let polls = Arc::new(AtomicUsize::new(0));
        let counted = polls.clone();
        let all = async move {
            let mutex = sync::Mutex::new(0);
            let add = || async { *mutex.lock().await += 1 };
            let add = || {
                let mut add = Box::pin(add());
                let polls = &counted;
                poll_fn(move |cx| {
                    polls.fetch_add(1, Relaxed);
                    add.as_mut().poll(cx)
                })
            };
            let set = FuturesUnordered::from_iter(std::iter::repeat_with(add).take(FUTURES));
            assert_eq!(set.count().await, FUTURES);
            *mutex.lock().await
        };
        assert_eq!(rt.block_on(rt.spawn(all)).unwrap(), FUTURES);
        // Each 128 polls with a result cost two polls without one.
        assert!(polls.load(Relaxed) < FUTURES * 11 / 10, "{}: {polls:?} polls", rt.name);
    }
}

/// Polls the inner future again as long as it was woken during its poll.
struct PolledWhileWoken<F> {
    inner: Pin<Box<F>>,
    woken: Arc<WokenFlag>,
}

#[derive(Default)]
struct WokenFlag {
    is_woken: AtomicBool,
    outer: AtomicWaker,
}

impl ArcWake for WokenFlag {
    fn wake_by_ref(flag: &Arc<Self>) {
        flag.is_woken.store(true, SeqCst);
        flag.outer.wake();
    }
}

impl<F: Future> Future for PolledWhileWoken<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        let waker = futures::task::waker(self.woken.clone());
        for _ in 0..1_000 {
            self.woken.outer.register(cx.waker());
            self.woken.is_woken.store(false, SeqCst);
            let poll = self.inner.as_mut().poll(&mut Context::from_waker(&waker));
            if poll.is_ready() || !self.woken.is_woken.load(SeqCst) {
                return poll;
            }
        }
        panic!("it would go on forever");
    }
}

#[test]
fn a_future_that_polls_while_woken_ends_when_the_budget_is_spent() {
    for rt in runtimes() {
        let spends = async {
            for _ in 0..1_000 {
                consume_budget().await;
            }
        };
        let spends = PolledWhileWoken { inner: Box::pin(spends), woken: Arc::default() };
        rt.block_on(rt.spawn(spends)).unwrap();
    }
}

#[test]
fn the_root_of_block_on_cannot_starve_the_tasks() {
    let rt = current_thread();
    let stop = Arc::new(AtomicBool::new(false));
    let seen = stop.clone();
    rt.spawn(async move { stop.store(true, SeqCst) });
    rt.block_on(async {
        while !seen.load(SeqCst) {
            consume_budget().await;
        }
    });
}

/// Two tasks that wake each other on every poll, until they are stopped.
fn start_ping_pong(rt: &TestRuntime) -> (Arc<AtomicBool>, Arc<AtomicUsize>) {
    let stop = Arc::new(AtomicBool::new(false));
    let turns = Arc::new(AtomicUsize::new(0));
    let wakers = Arc::new(Mutex::new([const { None::<Waker> }; 2]));
    for own in 0..2 {
        let (stop, turns, wakers) = (stop.clone(), turns.clone(), wakers.clone());
        rt.spawn(poll_fn(move |cx| {
            turns.fetch_add(1, SeqCst);
            let mut wakers = wakers.lock().unwrap();
            let other = wakers[1 - own].take();
            if !stop.load(SeqCst) {
                wakers[own] = Some(cx.waker().clone());
            }
            drop(wakers);
            if let Some(other) = other {
                other.wake();
            }
            if stop.load(SeqCst) { Poll::Ready(()) } else { Poll::Pending }
        }));
    }
    (stop, turns)
}

#[test]
fn two_tasks_that_wake_each_other_cannot_starve_a_third() {
    for rt in serial_runtimes() {
        let (stop, turns) = start_ping_pong(&rt);
        // A task that is spawned now, a task from another thread, and a task that yields all run.
        rt.block_on(rt.spawn(async {})).unwrap();
        let handle = rt.handle().clone();
        let from_outside = rt.spawn_blocking(move || handle.block_on(handle.spawn(async {})));
        rt.block_on(from_outside).unwrap().unwrap();
        let yielding = rt.spawn(async {
            for _ in 0..100 {
                yield_now().await;
            }
        });
        rt.block_on(yielding).unwrap();
        assert!(turns.load(SeqCst) > 0, "the game went on meanwhile, {}", rt.name);
        stop.store(true, SeqCst);
        rt.settle();
    }
}

#[test]
fn a_task_that_yields_for_ever_starves_no_other() {
    for rt in serial_runtimes() {
        let stop = Arc::new(AtomicBool::new(false));
        let seen = stop.clone();
        let yielding = rt.spawn(async move {
            while !seen.load(SeqCst) {
                yield_now().await;
            }
        });
        for _ in 0..10 {
            rt.block_on(rt.spawn(async {})).unwrap();
        }
        let handle = rt.handle().clone();
        let closure =
            rt.spawn_blocking(move || handle.block_on(handle.spawn(async { 3 })).unwrap());
        assert_eq!(rt.block_on(closure).unwrap(), 3, "{}", rt.name);
        stop.store(true, SeqCst);
        rt.block_on(yielding).unwrap();
    }
}

#[test]
fn tasks_are_spread_over_all_workers() {
    for workers in [2, 4] {
        let rt = multi_thread(workers);
        // Each task blocks its worker until all tasks have met, so each task needs a worker of its own.
        let meeting = Arc::new(std::sync::Barrier::new(workers));
        let tasks: Vec<_> = (0..workers)
            .map(|_| {
                let meeting = meeting.clone();
                rt.spawn(async move {
                    meeting.wait();
                    wakeful::runtime::worker_index().expect("on a worker")
                })
            })
            .collect();
        let mut met: Vec<usize> =
            tasks.into_iter().map(|task| rt.block_on(task).unwrap()).collect();
        met.sort_unstable();
        assert_eq!(met, Vec::from_iter(0..workers));
    }
}

#[test]
fn the_run_next_slot_can_be_switched_off() {
    for (name, mut builder) in serial_builders() {
        let (rt, trace) = (watch(name, builder.disable_lifo_slot()), Trace::default());
        let also = trace.clone();
        let outer = rt.spawn(async move {
            let tasks: Vec<_> = (0..5)
                .map(|n| {
                    let trace = also.clone();
                    wakeful::spawn(async move { trace.note(n.to_string()) })
                })
                .collect();
            for task in tasks {
                task.await.unwrap();
            }
        });
        rt.block_on(outer).unwrap();
        assert_eq!(trace.take(), ["0", "1", "2", "3", "4"], "{name}");
    }
}

#[test]
fn queues_that_overflow_lose_nothing() {
    let slow = watch(
        "slow to share",
        Builder::new_multi_thread().worker_threads(2).global_queue_interval(1_000),
    );
    for rt in serial_runtimes().into_iter().chain([multi_thread(2), slow]) {
        let done = Arc::new(AtomicUsize::new(0));
        let also = done.clone();
        let spawner = rt.spawn(async move {
            let handle = Handle::current();
            for _ in 0..5_000 {
                let done = also.clone();
                handle.spawn(async move {
                    yield_now().await;
                    done.fetch_add(1, SeqCst);
                });
            }
        });
        rt.block_on(spawner).unwrap();
        rt.block_on(async {
            // The last tasks may have counted themselves and not ended yet.
            while done.load(SeqCst) < 5_000 || rt.metrics().num_alive_tasks() > 0 {
                yield_now().await;
            }
        });
        assert_eq!(done.load(SeqCst), 5_000, "{}", rt.name);
    }
}
