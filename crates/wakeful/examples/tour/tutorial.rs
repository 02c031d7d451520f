//! Chapters 1 to 10: futures, wakers, executors and timers by example.

use std::future::poll_fn;
use std::sync::mpsc as std_mpsc;
use std::task::Poll;
use std::thread;
use std::time::{Duration, Instant};

use futures::SinkExt;
use futures::channel::{mpsc, oneshot};
use futures::future::{join_all, select_all};
use futures::stream::{FuturesUnordered, StreamExt};
use wakeful::runtime::Runtime;
use wakeful::task::{self, yield_now};
use wakeful::time::{sleep, timeout};

use crate::guide::{self, Guide, Page};
use crate::programs::{
    Countdown, Delay, Event, TwoStep, count_polls, new_executor_and_spawner, race,
};

pub fn chapters(guide: &mut Guide) {
    let rt = &guide::runtime(2);
    guide.chapter(
        "A future is a state machine",
        "TwoStep is written by hand. The first poll moves it to its second state, wakes its own task
         and returns Pending. The second poll returns Ready. The compiler turns an `async fn` into such
         a state machine.",
        |page| two_steps(page, rt),
    );
    guide.chapter(
        "A waker asks for the next poll",
        "A countdown calls wake_by_ref for every number. A future around it counts the polls: one per
         number, and one for zero.",
        |page| countdown(page, rt),
    );
    guide.chapter(
        "A closure is enough",
        "poll_fn makes a future of a closure. This closure yields three times before it is ready.",
        |page| closure(page, rt),
    );
    guide.chapter(
        "A future may move from task to task",
        "One task polls a Delay and sends it to a second task, which polls it again. Another thread then
         rings its bell. Every poll stores the waker of the polling task, so the second task is woken.",
        |page| delay(page, rt),
    );
    guide.chapter(
        "A delay, by hand and built in",
        "A bell stores one waker: every poll stores its own, and ringing takes it. A thread that sleeps and
         then rings makes a delay. But a thread per delay is expensive. The runtime keeps timers in its
         workers instead: a thousand sleeps need no extra thread.",
        |page| delays(page, rt),
    );
    guide.chapter(
        "An executor in thirty lines",
        "Spawners send futures to the executor. A task that holds a spawner may spawn more. When the last
         spawner is dropped and every task has ended, the executor returns.",
        |page| mini_executor(page, rt),
    );
    guide.chapter(
        "One event, many tasks",
        "A hundred tasks wait for one event, and another task fires it.",
        |page| event(page, rt),
    );
    guide.chapter(
        "A race, and the loser is cancelled",
        "Two futures race. The first to be ready wins, and the other is dropped. Dropping a future
         cancels it: its guard is released at once.",
        |page| racing(page, rt),
    );
    guide.chapter(
        "timeout cancels a future",
        "timeout is a race against the clock. A future that is ready in time gives its output. Otherwise it
         is dropped, with all that it holds, before timeout returns the error.",
        |page| time_out(page, rt),
    );
    guide.chapter(
        "Futures of other crates",
        "The futures crate does not know this runtime: the two share only the Waker.
         FuturesUnordered, join_all, select_all and its channels work unchanged.",
        |page| other_crates(page, rt),
    );
}

fn two_steps(page: &mut Page<'_>, rt: &Runtime) {
    let (output, polls) = rt.block_on(count_polls(TwoStep::Start));
    page.show(format_args!("{output}; polls: {polls}"));
    page.expect(polls == 2, "two steps are two polls");
}

fn countdown(page: &mut Page<'_>, rt: &Runtime) {
    for from in [0, 10, 100_000] {
        let task = rt.spawn(count_polls(Countdown(from)));
        let (output, polls) = rt.block_on(task).unwrap();
        page.show(format_args!("from {from}: {output}; polls: {polls}"));
        page.expect(polls == from as usize + 1, "one poll per number, and one for zero");
    }
}

fn closure(page: &mut Page<'_>, rt: &Runtime) {
    let mut turns = 0;
    let answer = rt.block_on(poll_fn(|cx| {
        turns += 1;
        if turns > 3 {
            return Poll::Ready("here I am");
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }));
    page.show(format_args!("turn {turns}: {answer}"));
    page.expect(turns == 4, "polled until it was ready, and not once more");
}

fn delay(page: &mut Page<'_>, rt: &Runtime) {
    let (ring, rung) = std_mpsc::channel::<()>();
    let mut delay = Box::pin(Delay::new(move || rung.recv().expect("the bell is rung")));
    let (delay_tx, delay_rx) = oneshot::channel();
    let (polled_again_tx, polled_again_rx) = oneshot::channel();

    let first = rt.spawn(async move {
        let pending = poll_fn(|cx| Poll::Ready(delay.as_mut().poll(cx).is_pending())).await;
        assert!(pending && delay_tx.send(delay).is_ok());
    });
    let second = rt.spawn(async move {
        let mut delay = delay_rx.await.expect("the first task hands it on");
        let mut once = Some(polled_again_tx);
        poll_fn(|cx| {
            let polled = delay.as_mut().poll(cx);
            if let Some(once) = once.take() {
                once.send(()).expect("the guide listens");
            }
            polled
        })
        .await;
        task::id()
    });
    page.show(format_args!("task {} polled it and gave it to task {}", first.id(), second.id()));
    let expected = second.id();
    let woken = rt.block_on(async {
        polled_again_rx.await.expect("the second task polls it");
        ring.send(()).expect("the other thread waits for the bell");
        second.await.unwrap()
    });
    page.show(format_args!("the bell rang, and task {woken} was woken"));
    page.expect(woken == expected, "the task that polled last is woken");
}

fn delays(page: &mut Page<'_>, rt: &Runtime) {
    const DELAY: Duration = Duration::from_millis(20);
    let started = Instant::now();
    // A thread that only sleeps.
    let by_hand = Delay::new(|| thread::sleep(DELAY));
    let ((), polls) = rt.block_on(rt.spawn(count_polls(by_hand))).unwrap();
    let took = started.elapsed();
    page.show(format_args!("by hand: the bell rang after {took:.1?}; polls: {polls}"));
    page.expect(took >= DELAY && polls <= 2, "one poll leaves the waker, one finds it rung");

    let sleeps = (0..1_000).map(|_| async {
        let started = Instant::now();
        sleep(DELAY).await;
        started.elapsed()
    });
    let started = Instant::now();
    let took = rt.block_on(rt.spawn(join_all(sleeps))).unwrap();
    page.show(format_args!(
        "built in: {} sleeps of {DELAY:?} were over after {:.1?}",
        took.len(),
        started.elapsed()
    ));
    page.expect(took.iter().all(|took| *took >= DELAY), "no timer is ever early");
}

fn mini_executor(page: &mut Page<'_>, rt: &Runtime) {
    let (executor, spawner) = new_executor_and_spawner();
    let (note, notes) = std_mpsc::channel();
    for n in 1..=3 {
        let (inner, note) = (spawner.clone(), note.clone());
        spawner.spawn(async move {
            Countdown(n).await;
            let also_note = note.clone();
            inner.spawn(async move { also_note.send(format!("child of {n}")).unwrap() });
            note.send(format!("task {n}")).unwrap();
        });
    }
    drop((spawner, note));
    let count = rt.block_on(executor.run());
    let mut done: Vec<String> = notes.iter().collect();
    done.sort();
    page.show(format_args!("{count} tasks ran: {}", done.join(", ")));
    page.expect(count == 6 && done.len() == 6, "three tasks and three children");
}

fn event(page: &mut Page<'_>, rt: &Runtime) {
    let event = Event::default();
    let waiting: Vec<_> = (0..100)
        .map(|_| {
            let event = event.clone();
            rt.spawn(async move {
                event.wait().await;
                thread::current().id()
            })
        })
        .collect();
    rt.spawn(async move { event.fire() });
    let woken = rt.block_on(join_all(waiting));
    page.show(format_args!("{} tasks were released", woken.len()));
    page.expect(woken.iter().all(Result::is_ok), "all waiting tasks went on");
}

/// Sends a message on drop.
struct Guard(std_mpsc::Sender<&'static str>);

impl Drop for Guard {
    fn drop(&mut self) {
        self.0.send("released").expect("the guide listens");
    }
}

fn racing(page: &mut Page<'_>, rt: &Runtime) {
    let (released, is_released) = std_mpsc::channel();
    let never = Event::default();
    let loser = {
        let (guard, never) = (Guard(released), never.clone());
        async move {
            never.wait().await;
            drop(guard);
            "the tortoise"
        }
    };
    let winner = async {
        Countdown(3).await;
        "the hare"
    };
    let first = rt.block_on(rt.spawn(race(loser, winner))).unwrap();
    let guard = is_released.try_recv();
    page.show(format_args!(
        "{first} wins; the guard of the other is {}",
        guard.unwrap_or("still held")
    ));
    page.expect(first == "the hare", "the one that is ready first wins");
    page.expect(guard.is_ok(), "the loser was dropped with the race");
}

fn time_out(page: &mut Page<'_>, rt: &Runtime) {
    let limit = Duration::from_millis(20);
    let quick = async {
        Countdown(3).await;
        "lift-off"
    };
    let in_time = rt.block_on(async { timeout(limit, quick).await });
    page.show(format_args!("three polls within {limit:?}: {in_time:?}"));
    page.expect(in_time == Ok("lift-off"), "what is done in time gives its output");

    let (released, is_released) = std_mpsc::channel();
    let slow = async move {
        let _guard = Guard(released);
        sleep(Duration::from_secs(3_600)).await;
        "an hour later"
    };
    let (outcome, guard) = rt.block_on(async {
        let outcome = timeout(limit, slow).await;
        (outcome, is_released.try_recv())
    });
    let came = outcome.as_ref().map_or_else(ToString::to_string, ToString::to_string);
    page.show(format_args!(
        "an hour within {limit:?}: {came}; its guard is {}",
        guard.unwrap_or("still held")
    ));
    page.expect(outcome.is_err(), "an hour does not fit");
    page.expect(guard.is_ok(), "the future was dropped with all that it held");
}

fn other_crates(page: &mut Page<'_>, rt: &Runtime) {
    let order: Vec<usize> = rt.block_on(async {
        let racers: FuturesUnordered<_> =
            [300, 100, 200].into_iter().map(|n| count_polls(Countdown(n))).collect();
        racers.map(|(_, polls)| polls).collect().await
    });
    page.show(format_args!("FuturesUnordered: ended after {order:?} polls"));
    page.expect(order == [101, 201, 301], "members are polled only when they were woken");

    let (squares, fastest) = rt.block_on(async {
        let squares = join_all((1..=5).map(|n| wakeful::spawn(async move { n * n }))).await;
        let countdowns = [9, 4, 7].map(Countdown);
        let (_, fastest, _) = select_all(countdowns).await;
        (squares.into_iter().map(Result::unwrap).collect::<Vec<i32>>(), fastest)
    });
    page.show(format_args!("join_all: {squares:?}; select_all: number {fastest} was first"));
    page.expect(squares == [1, 4, 9, 16, 25] && fastest == 1, "outputs in order, the first first");

    let (mut to, from) = mpsc::channel::<u64>(4);
    let sender = rt.spawn(async move {
        for n in 1..=1_000 {
            to.send(n).await.expect("the receiver is there");
            yield_now().await;
        }
    });
    let receiver = rt.spawn(from.fold(0, |sum, n| async move { sum + n }));
    let sum = rt.block_on(async {
        sender.await.unwrap();
        receiver.await.unwrap()
    });
    page.show(format_args!("a channel with room for 4 carried 1000 messages: their sum is {sum}"));
    page.expect(sum == 500_500, "every message arrived once");
}
