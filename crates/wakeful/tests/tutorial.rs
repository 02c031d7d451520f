//! The tutorial programs of the tour, on every kind of runtime.

use std::future::{poll_fn, ready};
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, mpsc as std_mpsc};
use std::task::{Context, Poll};

use futures::channel::{mpsc, oneshot};
use futures::future::{FutureExt, join_all, select_all};
use futures::stream::{FuturesUnordered, StreamExt};
use futures::{SinkExt, executor};

use wakeful::task::{self, JoinHandle, yield_now};

#[path = "../examples/tour/programs.rs"]
mod programs;
mod support {
    pub mod not_send;
    pub mod runtimes;
}
use programs::*;
use support::not_send::CountingWaker;
use support::runtimes::runtimes;

#[test]
fn a_state_machine_of_two_steps_is_polled_twice() {
    for rt in runtimes() {
        let (output, polls) = rt.block_on(count_polls(TwoStep::Start));
        assert_eq!((output, polls), ("arrived in two steps", 2), "as the root, {}", rt.name);
        let (output, polls) = rt.block_on(rt.spawn(count_polls(TwoStep::Start))).unwrap();
        assert_eq!((output, polls), ("arrived in two steps", 2), "as a task, {}", rt.name);
    }
}

#[test]
fn a_future_polled_after_its_end_is_the_futures_own_affair() {
    for rt in runtimes() {
        let mut future = TwoStep::Start;
        let task = rt.spawn(async move {
            (&mut future).await;
            future.await
        });
        let error = rt.block_on(task).unwrap_err();
        assert!(error.is_panic(), "{}", rt.name);
        assert!(error.to_string().contains("polled after it had given its output"), "{error}");
    }
}

#[test]
fn a_countdown_is_polled_once_per_number_and_once_for_zero() {
    for rt in runtimes() {
        for n in [0, 1, 10, 1_000] {
            let expected = ("lift-off", n as usize + 1);
            assert_eq!(rt.block_on(count_polls(Countdown(n))), expected, "root, {}", rt.name);
            let task = rt.spawn(count_polls(Countdown(n)));
            assert_eq!(rt.block_on(task).unwrap(), expected, "task, {}", rt.name);
        }
    }
}

#[test]
fn a_poll_counter_counts_around_any_future() {
    for rt in runtimes() {
        rt.block_on(async {
            assert_eq!(count_polls(ready(7)).await, (7, 1));
            assert_eq!(count_polls(yield_now()).await, ((), 2));
            assert_eq!(count_polls(count_polls(yield_now())).await, (((), 2), 2));
            let three_yields = async {
                for _ in 0..3 {
                    yield_now().await;
                }
            };
            assert_eq!(count_polls(three_yields).await, ((), 4));
            // The end of a task wakes the waiting task at most once.
            let (answer, polls) = count_polls(wakeful::spawn(async { 42 })).await;
            assert_eq!(answer.unwrap(), 42);
            assert!(polls <= 2, "{polls} polls of a JoinHandle");
        });
    }
}

#[test]
fn poll_fn_makes_a_future_of_a_closure() {
    for rt in runtimes() {
        let mut turns = Vec::new();
        let sum = rt.block_on(poll_fn(|cx| {
            turns.push(turns.len());
            if turns.len() == 4 {
                return Poll::Ready(turns.iter().sum::<usize>());
            }
            cx.waker().wake_by_ref();
            Poll::Pending
        }));
        assert_eq!(sum, 6, "{}", rt.name);
    }
}

/// Reports every poll to the test, with the id of the task.
async fn observed(mut delay: Pin<Box<Delay>>, polled: mpsc::UnboundedSender<task::Id>) {
    poll_fn(|cx| {
        let polling = delay.as_mut().poll(cx);
        polled.unbounded_send(task::id()).unwrap();
        polling
    })
    .await;
}

#[test]
fn a_delay_wakes_the_task_that_polled_it_last() {
    for rt in runtimes() {
        rt.block_on(async {
            let (ring, rung) = std_mpsc::channel::<()>();
            let (polled, mut polls) = mpsc::unbounded();
            let mut delay = Some(Box::pin(observed(
                Box::pin(Delay::new(move || rung.recv().unwrap())),
                polled,
            )));
            let (hand_on, taken) = oneshot::channel();
            let (finished, all_done) = oneshot::channel();

            // The first task polls the delay once, sends it to the second, and waits for something else.
            let first = wakeful::spawn(count_polls(async move {
                let pending = poll_fn(|cx| {
                    Poll::Ready(delay.as_mut().unwrap().as_mut().poll(cx).is_pending())
                });
                assert!(pending.await);
                assert!(hand_on.send(delay.take().unwrap()).is_ok());
                all_done.await.unwrap();
            }));
            let first_id = first.id();
            let second = wakeful::spawn(async move {
                taken.await.unwrap().await;
                finished.send(()).unwrap();
            });
            let second_id = second.id();

            assert_eq!(polls.next().await, Some(first_id));
            assert_eq!(polls.next().await, Some(second_id));
            ring.send(()).unwrap();
            second.await.unwrap();
            let ((), first_polls) = first.await.unwrap();
            assert!(first_polls <= 2, "the first task was woken for a future it had given away");
            assert_eq!(polls.next().await, Some(second_id), "the poll that finds it ready");
            assert_eq!(polls.next().await, None);
        });
    }
}

#[test]
fn a_delay_that_rings_before_it_is_polled_is_ready_at_once() {
    for rt in runtimes() {
        let (rung, wait) = std_mpsc::channel();
        let delay = Delay::new(move || rung.send(()).unwrap());
        wait.recv().unwrap();
        // The event fires right after. Any poll that sees it ends the delay.
        rt.block_on(delay);
    }
}

#[test]
fn a_bell_keeps_the_waker_of_the_last_poll_and_that_it_was_rung() {
    let bell = Bell::default();
    let ((first, first_waker), (second, second_waker)) =
        (CountingWaker::new(), CountingWaker::new());
    let poll = |waker| bell.poll_rung(&mut Context::from_waker(waker));
    for waker in [&first_waker, &first_waker, &second_waker, &second_waker] {
        assert!(poll(waker).is_pending());
    }
    assert_eq!((first.other_clones(), second.other_clones()), (0, 1));
    bell.ring();
    bell.ring();
    assert_eq!((first.take(), second.take()), (0, 1));
    assert!(poll(&first_waker).is_ready() && poll(&second_waker).is_ready(), "it stays rung");
    assert_eq!((first.other_clones(), second.other_clones()), (0, 0));
}

#[test]
fn the_mini_executor_runs_until_its_spawners_and_tasks_are_gone() {
    for rt in runtimes() {
        let done = Arc::new(AtomicUsize::new(0));
        let (executor, spawner) = new_executor_and_spawner();
        for n in 0..10 {
            let (done, inner) = (done.clone(), spawner.clone());
            spawner.spawn(async move {
                Countdown(n).await;
                let also_done = done.clone();
                // A task with a spawner keeps the executor going.
                inner.spawn(async move {
                    yield_now().await;
                    also_done.fetch_add(1, Relaxed);
                });
                done.fetch_add(1, Relaxed);
            });
        }
        drop(spawner);
        assert_eq!(rt.block_on(executor.run()), 20, "{}", rt.name);
        assert_eq!(done.load(Relaxed), 20, "{}", rt.name);
    }
}

#[test]
fn an_executor_without_spawners_returns_at_once() {
    for rt in runtimes() {
        let (executor, spawner) = new_executor_and_spawner();
        drop(spawner);
        assert_eq!(rt.block_on(executor.run()), 0, "{}", rt.name);
    }
}

#[test]
fn an_event_wakes_all_waiting_tasks_and_is_ready_for_later_ones() {
    for rt in runtimes() {
        rt.block_on(async {
            let event = Event::default();
            let (waiting, mut are_waiting) = mpsc::unbounded();
            let waiters: Vec<JoinHandle<usize>> = (0..20)
                .map(|n| {
                    let (event, waiting) = (event.clone(), waiting.clone());
                    wakeful::spawn(async move {
                        let mut wait = Box::pin(event.wait());
                        assert!((&mut wait).now_or_never().is_none(), "it has not happened yet");
                        waiting.unbounded_send(()).unwrap();
                        wait.await;
                        n
                    })
                })
                .collect();
            for _ in 0..20 {
                are_waiting.next().await;
            }
            let firing = event.clone();
            wakeful::spawn(async move { firing.fire() }).await.unwrap();
            let arrived: Vec<usize> =
                join_all(waiters).await.into_iter().map(Result::unwrap).collect();
            assert_eq!(arrived, Vec::from_iter(0..20), "{}", rt.name);
            assert_eq!(count_polls(event.wait()).await, ((), 1), "it has happened");
        });
    }
}

/// Notes its drop.
struct Dropped(&'static str, Arc<Mutex<Vec<&'static str>>>);

impl Dropped {
    fn name(&self) -> &'static str {
        self.0
    }
}

impl Drop for Dropped {
    fn drop(&mut self) {
        self.1.lock().unwrap().push(self.0);
    }
}

#[test]
fn a_race_has_one_winner_and_drops_the_other() {
    for rt in runtimes() {
        let drops = Arc::new(Mutex::new(Vec::new()));
        let (slow_event, fast_event) = (Event::default(), Event::default());
        let racer = |name, event: &Event| {
            let (event, mark) = (event.clone(), Dropped(name, drops.clone()));
            async move {
                event.wait().await;
                mark.name()
            }
        };
        let race = rt.spawn(race(racer("slow", &slow_event), racer("fast", &fast_event)));
        rt.spawn(async move { fast_event.fire() });
        assert_eq!(rt.block_on(race).unwrap(), "fast", "{}", rt.name);
        assert_eq!(*drops.lock().unwrap(), ["fast", "slow"], "the loser goes with the race");
        slow_event.fire(); // the waker of the dropped future does no harm
    }
}

#[test]
fn a_race_of_two_that_are_ready_goes_to_the_first() {
    for rt in runtimes() {
        assert_eq!(rt.block_on(race(ready(1), ready(2))), 1);
        assert_eq!(rt.block_on(race(Countdown(3), ready("at once"))), "at once");
    }
}

#[test]
fn futures_unordered_polls_only_woken_futures() {
    for rt in runtimes() {
        let outcome = rt.spawn(async {
            let mut set = FuturesUnordered::new();
            for n in [30, 10, 20] {
                set.push(count_polls(Countdown(n)).map(move |(_, polls)| (n as usize, polls)));
            }
            let mut ended = Vec::new();
            while let Some((n, polls)) = set.next().await {
                assert_eq!(polls, n + 1, "a member was polled without having been woken");
                ended.push(n);
            }
            ended
        });
        assert_eq!(rt.block_on(outcome).unwrap(), [10, 20, 30], "{}", rt.name);
    }
}

#[test]
fn futures_unordered_of_join_handles_survives_the_end_of_its_budget() {
    for rt in runtimes() {
        let sum = async {
            let tasks: FuturesUnordered<_> =
                (0..1_000u64).map(|n| wakeful::spawn(async move { n })).collect();
            tasks.fold(0, |sum, n| async move { sum + n.unwrap() }).await
        };
        assert_eq!(rt.block_on(sum), 499_500, "root, {}", rt.name);
    }
}

#[test]
fn join_all_keeps_the_order_and_select_all_gives_the_first() {
    for rt in runtimes() {
        let task = rt.spawn(async {
            let countdowns: Vec<_> = (0..50).map(|n| count_polls(Countdown(n))).collect();
            let all = join_all(countdowns).await;
            assert!(all.into_iter().eq((1..=50).map(|polls| ("lift-off", polls))));

            let mut racers: Vec<_> = [7, 3, 5].into_iter().map(Countdown).collect();
            let mut order = Vec::new();
            while !racers.is_empty() {
                let (_, index, rest) = select_all(racers).await;
                order.push(index);
                racers = rest;
            }
            order
        });
        // Of [7, 3, 5] the second wins; of the [7, 5] left, again the second.
        assert_eq!(rt.block_on(task).unwrap(), [1, 1, 0], "{}", rt.name);
    }
}

#[test]
fn channels_of_the_futures_crate_carry_messages_between_tasks() {
    for rt in runtimes() {
        let (mut to_worker, mut jobs) = mpsc::channel::<(u64, oneshot::Sender<u64>)>(1);
        let worker = rt.spawn(async move {
            let mut served = 0;
            while let Some((n, reply)) = jobs.next().await {
                reply.send(n * n).unwrap();
                served += 1;
            }
            served
        });
        let client = rt.spawn(async move {
            let mut sum = 0;
            for n in 0..100 {
                let (reply, answer) = oneshot::channel();
                to_worker.send((n, reply)).await.unwrap();
                sum += answer.await.unwrap();
            }
            sum
        });
        assert_eq!(rt.block_on(client).unwrap(), 328_350, "{}", rt.name);
        assert_eq!(rt.block_on(worker).unwrap(), 100, "the sender is gone, so the loop has ended");
    }
}

#[test]
fn a_dropped_sender_wakes_its_receiver() {
    for rt in runtimes() {
        let (sender, receiver) = oneshot::channel::<()>();
        let waiting = rt.spawn(receiver);
        rt.spawn(async move {
            yield_now().await;
            drop(sender);
        });
        assert_eq!(rt.block_on(waiting).unwrap(), Err(oneshot::Canceled), "{}", rt.name);
    }
}

#[test]
fn other_executors_can_wait_for_our_tasks() {
    for workers in [1, 2] {
        let rt = support::runtimes::multi_thread(workers);
        let tasks: Vec<_> = (0..10u32).map(|n| rt.spawn(async move { n + 1 })).collect();
        let sum: u32 = executor::block_on(join_all(tasks)).into_iter().map(Result::unwrap).sum();
        assert_eq!(sum, 55);
    }
}
