//! `Sleep`: never early, on time to a tick, and after resets, moves and drops.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::thread;

use futures::channel::oneshot;
use wakeful::runtime::Builder;
use wakeful::task::coop::has_budget_remaining;
use wakeful::time::{Duration, Instant, Sleep, advance, sleep, sleep_until};

mod support {
    pub mod bad_wakers;
    pub mod clocks;
    pub mod not_send;
    pub mod panic_site;
    pub mod rng;
    pub mod runtimes;
}
use support::bad_wakers::{panics, panics_when_cloned, panics_when_woken};
use support::clocks::{
    Log, ms, paused, poll_once, real_current_thread, real_multi_thread, secs, us,
};
use support::not_send::CountingWaker;
use support::panic_site::panic_site;
use support::rng::{TestRng, seed};
use support::runtimes::watch;

const YEAR: Duration = secs(86_400 * 365);
/// Timers are rounded up to the next multiple of this.
const TICK: Duration = Duration::from_nanos(62_500);

#[wakeful::test(start_paused = true)]
async fn a_sleep_is_never_early_and_late_by_less_than_a_tick() {
    let ns = Duration::from_nanos;
    let lengths = [
        ns(0),
        ns(1),
        ns(62_499),
        ns(62_500),
        ns(62_501),
        us(999),
        us(1_001),
        us(1_700),
        ms(63),
        ns(64_000_001),
        ms(4_096),
        secs(59),
        secs(3_600) + ns(1),
        YEAR + us(3),
    ];
    for length in lengths {
        let before = Instant::now();
        sleep(length).await;
        let late = before.elapsed().checked_sub(length);
        assert!(late.is_some_and(|late| late < TICK), "{length:?} was late by {late:?}");
    }
}

#[wakeful::test(start_paused = true)]
async fn whole_milliseconds_are_exact() {
    for length in [1, 2, 7, 16, 63, 64, 65, 1_000, 4_095, 4_096, 1_000_000] {
        let before = Instant::now();
        sleep(ms(length)).await;
        assert_eq!(before.elapsed(), ms(length));
    }
}

#[test]
fn on_a_real_clock_no_sleep_is_early_either() {
    for rt in [real_current_thread(), real_multi_thread(2)] {
        rt.block_on(async {
            for length in [us(0), us(1), us(300), us(999), ms(1), us(1_700), ms(4)] {
                let before = std::time::Instant::now();
                sleep(length).await;
                assert!(before.elapsed() >= length, "{}: {length:?}", rt.name);
            }
        });
    }
}

#[wakeful::test(start_paused = true)]
async fn a_deadline_in_the_past_has_come() {
    let now = Instant::now();
    sleep_until(now).await;
    for ago in [Duration::from_nanos(1), ms(1), secs(60)] {
        // A time before the runtime started. Skipped if the machine started later.
        let Some(past) = now.checked_sub(ago) else { continue };
        sleep_until(past).await;
    }
    advance(secs(5)).await;
    sleep_until(now + secs(4)).await;
    assert_eq!(now.elapsed(), secs(5), "none of them waited");
}

#[wakeful::test(start_paused = true)]
async fn far_deadlines_come_in_the_end() {
    let start = Instant::now();
    for years in [1, 30, 600, 1_000, 20_000] {
        let deadline = start + YEAR * years;
        sleep_until(deadline).await;
        assert_eq!(Instant::now(), deadline);
    }
    let endless = sleep(Duration::MAX);
    assert!(endless.deadline() > Instant::now() + YEAR * 10);
    endless.await;
}

#[wakeful::test(start_paused = true)]
async fn a_far_deadline_does_not_hold_up_a_near_one() {
    let mut far = [pin!(sleep(Duration::MAX)), pin!(sleep(YEAR)), pin!(sleep(secs(60)))];
    for far in &mut far {
        assert!(poll_once(far.as_mut()).await.is_pending());
    }
    let before = Instant::now();
    sleep(ms(5)).await;
    assert_eq!(before.elapsed(), ms(5));
    far[0].as_mut().reset(before + ms(8));
    far[0].as_mut().await;
    assert_eq!(before.elapsed(), ms(8));
}

#[test]
fn timers_fire_in_the_order_of_their_deadlines() {
    let (rt, fired) = (paused(), Log::default());
    let mut rng = TestRng::new(seed());
    let lengths: Vec<u64> = (0..500).map(|_| 1 + rng.below(3_000) as u64).collect();
    let mut expected: Vec<(u64, usize)> = lengths.iter().copied().zip(0..).collect();
    expected.sort();
    rt.block_on(async {
        let tasks: Vec<_> = lengths
            .iter()
            .enumerate()
            .map(|(number, &length)| {
                let fired = fired.clone();
                wakeful::spawn(async move {
                    sleep(ms(length)).await;
                    fired.note((length, number));
                })
            })
            .collect();
        for task in tasks {
            task.await.unwrap();
        }
    });
    assert_eq!(fired.take(), expected, "of one deadline, the one that waited first goes first");
}

#[test]
fn when_many_are_due_at_once_they_still_fire_in_order() {
    let (rt, fired) = (paused(), Log::default());
    rt.block_on(async {
        let task = |length: u64, moved_to: Option<u64>| {
            let fired = fired.clone();
            wakeful::spawn(async move {
                let start = Instant::now();
                let mut sleep = pin!(sleep_until(start + ms(length)));
                assert!(poll_once(sleep.as_mut()).await.is_pending());
                if let Some(later) = moved_to {
                    sleep.as_mut().reset(start + ms(later));
                }
                sleep.await;
                fired.note(moved_to.unwrap_or(length));
            })
        };
        let tasks =
            [task(70, None), task(3, Some(50)), task(20, None), task(90, Some(1)), task(5, None)];
        wakeful::task::yield_now().await;
        advance(ms(100)).await;
        for task in tasks {
            task.await.unwrap();
        }
    });
    assert_eq!(fired.take(), [1, 5, 20, 50, 70]);
}

#[wakeful::test(start_paused = true)]
async fn a_reset_sleep_is_elapsed_without_a_poll() {
    let start = Instant::now();
    let (mut done, mut fresh) = (Box::pin(sleep(ms(1))), Box::pin(sleep(ms(1))));
    done.as_mut().await;
    for sleep in [&mut done, &mut fresh] {
        sleep.as_mut().reset(start + ms(5));
    }
    let never_polled = sleep(ms(1));
    advance(ms(3)).await;
    assert!(!done.is_elapsed() && !fresh.is_elapsed());
    advance(ms(1)).await;
    assert!(done.is_elapsed() && fresh.is_elapsed());
    assert!(!never_polled.is_elapsed(), "it was not polled");
    assert!(poll_once(done.as_mut()).await.is_ready());
}

#[wakeful::test(start_paused = true)]
async fn deadline_and_is_elapsed_tell_how_it_stands() {
    let start = Instant::now();
    let mut sleep = pin!(sleep(ms(10)));
    assert_eq!(sleep.deadline(), start + ms(10));
    assert!(!sleep.is_elapsed());
    assert!(poll_once(sleep.as_mut()).await.is_pending());
    advance(ms(9)).await;
    assert!(!sleep.is_elapsed());
    advance(ms(1)).await;
    assert!(sleep.is_elapsed(), "without a poll");
    assert!(poll_once(sleep.as_mut()).await.is_ready());
    assert!(poll_once(sleep.as_mut()).await.is_ready(), "and it stays ready");
    sleep.as_mut().reset(start + ms(30));
    assert_eq!(sleep.deadline(), start + ms(30));
    assert!(!sleep.is_elapsed());
    sleep.await;
    assert_eq!(start.elapsed(), ms(30));
}

#[wakeful::test(start_paused = true)]
async fn a_deadline_can_be_moved_at_any_time() {
    // First deadline, when to poll it, when to move it, where to; all in ms from the start.
    let cases: [(u64, Option<u64>, u64, u64); 9] = [
        (50, Some(0), 10, 20),  // earlier
        (50, Some(0), 10, 90),  // later
        (50, Some(0), 10, 50),  // nowhere
        (50, Some(0), 10, 5),   // into the past
        (50, None, 10, 20),     // before the first poll
        (50, None, 10, 90),     // before the first poll
        (50, Some(0), 60, 70),  // after it fired
        (50, Some(0), 60, 55),  // after it fired, into the past
        (5_000, Some(1), 2, 9), // from one level of the wheel to another
    ];
    for (first, poll_at, move_at, to) in cases {
        let start = Instant::now();
        let mut sleep = pin!(sleep_until(start + ms(first)));
        if let Some(at) = poll_at {
            advance(ms(at)).await;
            assert!(poll_once(sleep.as_mut()).await.is_pending());
        }
        advance(start + ms(move_at) - Instant::now()).await;
        sleep.as_mut().reset(start + ms(to));
        sleep.await;
        assert_eq!(start.elapsed(), ms(to.max(move_at)), "{:?}", (first, poll_at, move_at, to));
    }
}

#[wakeful::test(start_paused = true)]
async fn a_deadline_moved_again_and_again_fires_once_at_the_last() {
    let start = Instant::now();
    let (woken, waker) = CountingWaker::new();
    let mut cx = Context::from_waker(&waker);
    let mut sleep = pin!(sleep(ms(1)));
    assert!(sleep.as_mut().poll(&mut cx).is_pending());
    for to in 2..100 {
        sleep.as_mut().reset(start + ms(to));
        advance(ms(1)).await;
        assert_eq!(woken.take(), 0, "moved to {to} ms");
    }
    advance(ms(1)).await;
    assert_eq!(woken.take(), 1);
    assert!(sleep.as_mut().poll(&mut cx).is_ready());
    assert_eq!(woken.other_clones(), 0);
}

#[wakeful::test(start_paused = true)]
async fn a_deadline_moved_into_the_past_wakes_who_waits() {
    let (woken, waker) = CountingWaker::new();
    let mut cx = Context::from_waker(&waker);
    let mut sleep = pin!(sleep(secs(60)));
    assert!(sleep.as_mut().poll(&mut cx).is_pending());
    advance(secs(1)).await;
    sleep.as_mut().reset(Instant::now() - ms(500));
    advance(Duration::ZERO).await;
    assert_eq!(woken.take(), 1);
    assert!(sleep.as_mut().poll(&mut cx).is_ready());
    assert_eq!(woken.other_clones(), 0);
}

#[wakeful::test(start_paused = true)]
async fn the_latest_waker_is_woken() {
    let (woken, wakers): (Vec<_>, Vec<_>) = (0..3).map(|_| CountingWaker::new()).unzip();
    let mut sleep = pin!(sleep(ms(10)));
    for waker in &wakers {
        assert!(sleep.as_mut().poll(&mut Context::from_waker(waker)).is_pending());
    }
    let kept: Vec<_> = woken.iter().map(|woken| woken.other_clones()).collect();
    assert_eq!(kept, [0, 0, 1]);
    advance(ms(10)).await;
    let woken: Vec<_> = woken.iter().map(|woken| woken.take()).collect();
    assert_eq!(woken, [0, 0, 1]);
}

#[wakeful::test(start_paused = true)]
async fn a_sleep_that_wanders_wakes_the_task_it_is_in() {
    let start = Instant::now();
    let (give, take) = oneshot::channel::<Pin<Box<Sleep>>>();
    let first = wakeful::spawn(async move {
        let mut sleep = Box::pin(sleep(ms(20)));
        assert!(poll_once(sleep.as_mut()).await.is_pending());
        give.send(sleep).unwrap();
    });
    let second = wakeful::spawn(async move {
        take.await.unwrap().await;
        Instant::now()
    });
    first.await.unwrap();
    assert_eq!(second.await.unwrap(), start + ms(20));
}

#[test]
fn a_sleep_can_be_dropped_anywhere() {
    let (rt, (woken, waker)) = (paused(), CountingWaker::new());
    let _entered = rt.enter();
    let mut sleeps: Vec<_> = (1..=10).map(|length| Box::pin(sleep(ms(length)))).collect();
    for sleep in &mut sleeps {
        assert!(sleep.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
    }
    assert_eq!((rt.metrics().num_timers(), woken.other_clones()), (10, 10));
    let kept = sleeps.split_off(7);
    thread::spawn(move || drop(sleeps)).join().unwrap();
    assert_eq!((rt.metrics().num_timers(), woken.other_clones()), (3, 3));
    rt.block_on(sleep(ms(20)));
    assert_eq!((rt.metrics().num_timers(), woken.take()), (0, 3));
    drop(kept);
    assert_eq!(woken.other_clones(), 0);
}

/// A `Sleep` that two sides hold: one waits for it, the other moves it.
#[derive(Clone)]
struct SharedSleep(Arc<Mutex<Pin<Box<Sleep>>>>);

impl Future for SharedSleep {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        self.0.lock().unwrap().as_mut().poll(cx)
    }
}

#[test]
fn a_deadline_moved_by_another_thread_is_noticed() {
    for rt in [real_current_thread(), real_multi_thread(1), real_multi_thread(2)] {
        for round in 0..200 {
            let shared = {
                let _entered = rt.enter();
                SharedSleep(Arc::new(Mutex::new(Box::pin(sleep(secs(3_600))))))
            };
            let waiting = rt.spawn(shared.clone());
            let mover = thread::spawn(move || {
                let now = Instant::now();
                let to = match round % 3 {
                    0 => now.checked_sub(ms(1)).unwrap_or(now),
                    1 => now,
                    _ => now + us(100),
                };
                shared.0.lock().unwrap().as_mut().reset(to);
            });
            rt.block_on(waiting).unwrap();
            mover.join().unwrap();
        }
    }
}

#[test]
fn sleeping_needs_a_runtime_with_timers_and_says_so_where_it_was_asked_for() {
    let site = panic_site(|| drop(sleep(ms(1))));
    let line = line!() - 1;
    assert_eq!((site.file.as_str(), site.line), (file!(), line));
    let text =
        "there is no reactor running, must be called from the context of a Tokio 1.x runtime";
    assert!(site.message.starts_with(text), "{}", site.message);

    let rt = watch("without timers", &mut Builder::new_current_thread());
    let _entered = rt.enter();
    let now = Instant::now();
    let site = panic_site(move || drop(sleep_until(now)));
    let line = line!() - 1;
    assert_eq!((site.file.as_str(), site.line), (file!(), line));
    let text = "A Tokio 1.x context was found, but timers are disabled. \
                Call `enable_time` on the runtime builder to enable timers.";
    assert!(site.message.starts_with(text), "{}", site.message);
}

#[test]
fn a_sleep_that_outlives_its_runtime_is_told_so() {
    let text = "A Tokio 1.x context was found, but it is being shutdown.";
    for rt in [paused(), real_current_thread(), real_multi_thread(2)] {
        let (woken, waker) = CountingWaker::new();
        let mut cx = Context::from_waker(&waker);
        let entered = rt.enter();
        let mut waiting: Vec<_> = (0..100).map(|_| Box::pin(sleep(secs(3_600)))).collect();
        let mut untouched = Box::pin(sleep(secs(3_600)));
        let mut done = Box::pin(sleep(Duration::ZERO));
        drop(entered);
        for sleep in &mut waiting {
            assert!(sleep.as_mut().poll(&mut cx).is_pending());
        }
        rt.block_on(done.as_mut());
        drop(rt);
        assert_eq!((woken.take(), woken.other_clones()), (100, 0), "all are woken, once");
        for sleep in [&mut waiting[0], &mut untouched] {
            let poll = AssertUnwindSafe(|| sleep.as_mut().poll(&mut cx));
            assert_eq!(panic_site(move || { poll }()).message, text);
            sleep.as_mut().reset(Instant::now());
            let poll = AssertUnwindSafe(|| sleep.as_mut().poll(&mut cx));
            assert!(catch_unwind(|| { poll }()).is_err(), "moved or not");
            assert!(!sleep.is_elapsed());
        }
        assert!(done.as_mut().poll(&mut cx).is_ready(), "a finished future stays finished");
    }
}

/// With tokio's alternative timers, a pending sleep completes when its runtime shuts down.
#[test]
fn a_sleep_of_alternative_timers_elapses_with_its_runtime() {
    for mut builder in [Builder::new_current_thread(), Builder::new_multi_thread()] {
        let rt = watch("alternative timers", builder.worker_threads(1).enable_alt_timer());
        let (woken, waker) = CountingWaker::new();
        let mut cx = Context::from_waker(&waker);
        let entered = rt.enter();
        let mut waiting = pin!(sleep(secs(3_600)));
        let mut untouched = pin!(sleep(secs(3_600)));
        drop(entered);
        assert!(waiting.as_mut().poll(&mut cx).is_pending());
        drop(rt);
        assert_eq!(woken.take(), 1);
        assert!(waiting.as_mut().poll(&mut cx).is_ready());
        assert!(waiting.is_elapsed());
        let poll = AssertUnwindSafe(|| untouched.as_mut().poll(&mut cx));
        assert!(catch_unwind(|| { poll }()).is_err(), "it is too late to begin");
    }
}

#[wakeful::test(start_paused = true)]
async fn a_sleep_that_is_ready_costs_budget_and_a_pending_one_does_not() {
    let mut done = pin!(sleep(Duration::ZERO));
    done.as_mut().await;
    wakeful::spawn(async {
        let mut pending = pin!(sleep(secs(1)));
        for _ in 0..200 {
            assert!(poll_once(pending.as_mut()).await.is_pending());
        }
        assert!(has_budget_remaining());
    })
    .await
    .unwrap();
    let mut ready = 0;
    while has_budget_remaining() {
        assert!(poll_once(done.as_mut()).await.is_ready());
        ready += 1;
    }
    assert!(ready <= 128, "{ready} of them were free");
    assert!(poll_once(done.as_mut()).await.is_pending(), "the others have their turn first");
}

#[test]
fn a_block_on_future_that_is_always_woken_sees_its_timer_fire() {
    for rt in [real_current_thread(), real_multi_thread(1)] {
        rt.block_on(async {
            let start = Instant::now();
            let mut timer = std::pin::pin!(sleep(ms(2)));
            std::future::poll_fn(|cx| {
                cx.waker().wake_by_ref();
                timer.as_mut().poll(cx)
            })
            .await;
            assert!(start.elapsed() >= ms(2), "{}", rt.name);
        });
    }
}

#[wakeful::test(start_paused = true)]
async fn wakers_that_panic_harm_no_other_sleep_and_no_later_poll() {
    let mut bad = Box::pin(sleep(ms(5)));
    assert!(bad.as_mut().poll(&mut Context::from_waker(&panics_when_woken())).is_pending());
    let (count, waker) = CountingWaker::new();
    let mut good: Vec<_> = (0..100).map(|_| Box::pin(sleep(ms(5)))).collect();
    for sleep in &mut good {
        assert!(sleep.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
    }
    let mut uncloned = Box::pin(sleep(ms(5)));
    let mut cx = Context::from_waker(Box::leak(Box::new(panics_when_cloned())));
    assert!(panics(|| _ = uncloned.as_mut().poll(&mut cx)));
    uncloned.await;
    assert_eq!(count.take(), 100);
    assert!(bad.is_elapsed());
}
