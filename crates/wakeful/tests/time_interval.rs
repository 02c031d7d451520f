//! `Interval`: the times of ticks, above all of ticks that were taken late.

use std::pin::pin;
use std::task::Context;

use wakeful::time::{
    Duration, Instant, Interval, MissedTickBehavior, advance, interval, interval_at, sleep,
};

mod support {
    pub mod clocks;
    pub mod not_send;
    pub mod panic_site;
    pub mod runtimes;
}
use support::clocks::{ms, paused, poll_once, secs};
use support::not_send::CountingWaker;
use support::panic_site::panic_site;

use MissedTickBehavior::{Burst, Delay, Skip};

/// Takes a tick after `busy` ms. Returns when it was due and when it came, in ms since `start`.
async fn tick_after(interval: &mut Interval, busy: u64, start: Instant) -> (u64, u64) {
    if busy > 0 {
        advance(ms(busy)).await;
    }
    let due = interval.tick().await;
    let in_ms = |time: Duration| {
        assert_eq!(time, ms(time.as_millis() as u64), "whole milliseconds in, whole ones out");
        time.as_millis() as u64
    };
    (in_ms(due - start), in_ms(start.elapsed()))
}

#[wakeful::test(start_paused = true)]
async fn the_first_tick_comes_at_once_and_the_others_in_time() {
    let start = Instant::now();
    let mut interval = interval(ms(300));
    assert_eq!(interval.period(), ms(300));
    assert_eq!(interval.missed_tick_behavior(), Burst);
    for nth in 0..5 {
        assert_eq!(tick_after(&mut interval, 0, start).await, (nth * 300, nth * 300));
    }
}

#[wakeful::test(start_paused = true)]
async fn interval_at_starts_at_the_given_time() {
    let start = Instant::now();
    let mut later = interval_at(start + ms(70), ms(50));
    assert_eq!(tick_after(&mut later, 0, start).await, (70, 70));
    assert_eq!(tick_after(&mut later, 0, start).await, (120, 120));

    let mut earlier = interval_at(start + ms(20), ms(50));
    assert_eq!(tick_after(&mut earlier, 0, start).await, (20, 120), "missed, so at once");
    assert_eq!(tick_after(&mut earlier, 0, start).await, (70, 120));
}

/// An interval of 50 ms. For each tick: how long the task is busy before it, when it was due, and when it came.
struct Case {
    behavior: MissedTickBehavior,
    busy: &'static [u64],
    ticks: &'static [(u64, u64)],
}

#[wakeful::test(start_paused = true)]
async fn ticks_after_a_late_tick_follow_the_behavior() {
    let cases = [
        // Catches up: always multiples of the period.
        Case {
            behavior: Burst,
            busy: &[0, 0, 175, 0, 0, 0, 0],
            ticks: &[(0, 0), (50, 50), (100, 225), (150, 225), (200, 225), (250, 250), (300, 300)],
        },
        Case {
            behavior: Burst,
            busy: &[0, 60, 10, 60, 0],
            ticks: &[(0, 0), (50, 60), (100, 100), (150, 160), (200, 200)],
        },
        // A whole period after the late one.
        Case {
            behavior: Delay,
            busy: &[0, 0, 175, 0, 0],
            ticks: &[(0, 0), (50, 50), (100, 225), (275, 275), (325, 325)],
        },
        Case {
            behavior: Delay,
            busy: &[0, 60, 0, 58, 0],
            ticks: &[(0, 0), (50, 60), (110, 110), (160, 168), (218, 218)],
        },
        // The next multiple.
        Case {
            behavior: Skip,
            busy: &[0, 0, 175, 0, 0],
            ticks: &[(0, 0), (50, 50), (100, 225), (250, 250), (300, 300)],
        },
        Case {
            behavior: Skip,
            busy: &[0, 150, 0, 1_000, 0],
            ticks: &[(0, 0), (50, 150), (200, 200), (250, 1_200), (1_250, 1_250)],
        },
        // Five milliseconds are forgiven, six are not.
        Case {
            behavior: Delay,
            busy: &[0, 55, 0, 56, 0],
            ticks: &[(0, 0), (50, 55), (100, 100), (150, 156), (206, 206)],
        },
        Case {
            behavior: Skip,
            busy: &[0, 55, 0, 56, 0],
            ticks: &[(0, 0), (50, 55), (100, 100), (150, 156), (200, 200)],
        },
    ];
    for case in cases {
        let start = Instant::now();
        let mut interval = interval(ms(50));
        interval.set_missed_tick_behavior(case.behavior);
        assert_eq!(interval.missed_tick_behavior(), case.behavior);
        let mut ticks = Vec::new();
        for &busy in case.busy {
            ticks.push(tick_after(&mut interval, busy, start).await);
        }
        assert_eq!(ticks, case.ticks, "{:?} with {:?}", case.behavior, case.busy);
    }
}

#[wakeful::test(start_paused = true)]
async fn a_period_shorter_than_the_tolerance_is_never_late_unless_it_is() {
    for (behavior, next) in [(Burst, 1), (Delay, 22), (Skip, 22)] {
        let start = Instant::now();
        let mut interval = interval(ms(1));
        interval.set_missed_tick_behavior(behavior);
        interval.tick().await;
        assert_eq!(tick_after(&mut interval, 4, start).await, (1, 4));
        assert_eq!(tick_after(&mut interval, 0, start).await, (2, 4), "{behavior:?} forgives");
        assert_eq!(tick_after(&mut interval, 17, start).await, (3, 21));
        let expected = if next == 1 { (4, 21) } else { (next, next) };
        assert_eq!(tick_after(&mut interval, 0, start).await, expected, "{behavior:?}");
    }
}

#[wakeful::test(start_paused = true)]
async fn an_interval_can_start_over() {
    type Reset = fn(&mut Interval, Instant);
    let cases: [(&str, Reset, u64); 4] = [
        ("reset", |interval, _| interval.reset(), 25 + 50),
        ("reset_immediately", |interval, _| interval.reset_immediately(), 25),
        ("reset_after", |interval, _| interval.reset_after(ms(7)), 25 + 7),
        ("reset_at", |interval, start| interval.reset_at(start + ms(40)), 40),
    ];
    for (name, reset, next) in cases {
        let start = Instant::now();
        let mut interval = interval(ms(50));
        interval.tick().await;
        assert!(poll_once(pin!(interval.tick())).await.is_pending(), "a tick is waited for");
        advance(ms(25)).await;
        reset(&mut interval, start);
        assert_eq!(tick_after(&mut interval, 0, start).await, (next, next), "{name}");
        let after = next + 50;
        assert_eq!(tick_after(&mut interval, 0, start).await, (after, after), "{name}");
    }
}

#[wakeful::test(start_paused = true)]
async fn a_reset_reaches_a_waiting_task() {
    let mut interval = interval(secs(60));
    interval.tick().await;
    let (woken, waker) = CountingWaker::new();
    let mut cx = Context::from_waker(&waker);
    assert!(interval.poll_tick(&mut cx).is_pending());
    interval.reset_after(ms(3));
    sleep(ms(3)).await;
    assert_eq!(woken.take(), 1);
    assert!(interval.poll_tick(&mut cx).is_ready());
    assert!(interval.poll_tick(&mut cx).is_pending());
    drop(interval);
    assert_eq!(woken.other_clones(), 0);
}

#[wakeful::test(start_paused = true)]
async fn a_tick_that_was_given_up_is_not_lost() {
    let start = Instant::now();
    let mut interval = interval(ms(100));
    interval.tick().await;
    for _ in 0..3 {
        assert!(poll_once(pin!(interval.tick())).await.is_pending());
        advance(ms(10)).await;
    }
    {
        let mut tick = pin!(interval.tick());
        assert!(poll_once(tick.as_mut()).await.is_pending());
        advance(ms(75)).await; // the tick is due, and the future is dropped
    }
    assert_eq!(tick_after(&mut interval, 0, start).await, (100, 105));
    assert_eq!(tick_after(&mut interval, 0, start).await, (200, 200));
}

#[wakeful::test(start_paused = true)]
async fn periods_beyond_all_time_tick_once() {
    let start = Instant::now();
    let mut interval = interval(Duration::MAX);
    interval.set_missed_tick_behavior(Skip);
    interval.tick().await;
    assert!(poll_once(pin!(interval.tick())).await.is_pending());
    advance(secs(1)).await;
    interval.reset();
    interval.reset_after(Duration::MAX);
    assert!(poll_once(pin!(interval.tick())).await.is_pending());
    interval.reset_immediately();
    assert_eq!(tick_after(&mut interval, 0, start).await, (1_000, 1_000));
}

#[test]
fn misuse_panics_at_the_caller() {
    let rt = paused();
    let _entered = rt.enter();
    let now = Instant::now();
    let site = panic_site(|| drop(interval(Duration::ZERO)));
    assert_eq!((site.file.as_str(), site.line), (file!(), line!() - 1));
    assert_eq!(site.message, "`period` must be non-zero.");
    let site = panic_site(move || drop(interval_at(now, Duration::ZERO)));
    assert_eq!((site.file.as_str(), site.line), (file!(), line!() - 1));
    assert_eq!(site.message, "`period` must be non-zero.");
    drop(_entered);
    let site = panic_site(|| drop(interval(ms(1))));
    assert_eq!((site.file.as_str(), site.line), (file!(), line!() - 1));
    assert!(site.message.starts_with("there is no reactor running"), "{}", site.message);
}
