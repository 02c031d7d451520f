//! `timeout`: ties, the start of the time limit, and cancelled futures.

use std::future::{pending, poll_fn, ready};
use std::io;
use std::panic::AssertUnwindSafe;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::thread;

use futures::executor;
use wakeful::runtime::{Builder, Handle};
use wakeful::task::{consume_budget, yield_now};
use wakeful::time::error::Elapsed;
use wakeful::time::{Duration, Instant, advance, sleep, sleep_until, timeout, timeout_at};

mod support {
    pub mod clocks;
    pub mod not_send;
    pub mod panic_site;
    pub mod runtimes;
}
use support::clocks::{ms, paused, poll_once, real_current_thread, real_multi_thread, secs, us};
use support::not_send::CountingWaker;
use support::panic_site::panic_site;
use support::runtimes::watch;

#[wakeful::test(start_paused = true)]
async fn the_first_of_the_two_decides() {
    let start = Instant::now();
    assert_eq!(timeout(ms(10), ready(1)).await, Ok(1));
    assert_eq!(start.elapsed(), Duration::ZERO);
    let quick = async {
        sleep(ms(9)).await;
        2
    };
    assert_eq!(timeout(ms(10), quick).await, Ok(2));
    assert_eq!(start.elapsed(), ms(9));
    assert!(timeout(ms(10), pending::<()>()).await.is_err());
    assert_eq!(start.elapsed(), ms(19));
    assert!(timeout_at(start + ms(30), pending::<()>()).await.is_err());
    assert_eq!(start.elapsed(), ms(30));
    assert!(timeout_at(start, pending::<()>()).await.is_err(), "that was long ago");
    assert_eq!(start.elapsed(), ms(30));
}

#[wakeful::test(start_paused = true)]
async fn a_future_that_is_ready_wins_however_late_it_is() {
    assert_eq!(timeout(Duration::ZERO, ready(1)).await, Ok(1));
    let now = Instant::now();
    assert_eq!(timeout_at(now - ms(1), ready(2)).await, Ok(2));
    let mut both = pin!(timeout(ms(10), sleep(ms(10))));
    assert!(poll_once(both.as_mut()).await.is_pending());
    advance(secs(1)).await;
    assert_eq!(both.await, Ok(()), "both were due: the future is asked first");
}

#[wakeful::test(start_paused = true)]
async fn without_a_limit_worth_the_name_it_waits_for_the_future() {
    let nap = timeout(Duration::MAX, sleep(secs(86_400)));
    assert_eq!(nap.await, Ok(()));
    let zero = timeout(Duration::ZERO, sleep(ms(1)));
    assert!(zero.await.is_err());
}

#[wakeful::test(start_paused = true)]
async fn no_timer_is_set_before_the_future_is_pending() {
    let metrics = Handle::current().metrics();
    let (woken, waker) = CountingWaker::new();
    let mut cx = Context::from_waker(&waker);
    let mut at_once = pin!(timeout(secs(60), ready(())));
    assert_eq!(at_once.as_mut().poll(&mut cx), Poll::Ready(Ok(())));
    assert_eq!((metrics.num_timers(), woken.other_clones()), (0, 0));
    {
        let mut waits = pin!(timeout(secs(60), yield_now()));
        assert_eq!(metrics.num_timers(), 0);
        assert!(waits.as_mut().poll(&mut cx).is_pending());
        assert_eq!(metrics.num_timers(), 1);
        assert!(waits.as_mut().poll(&mut cx).is_ready());
    }
    assert_eq!(metrics.num_timers(), 0);
    let _ = woken.take();
    drop(waker);
}

#[wakeful::test(start_paused = true)]
async fn a_future_that_uses_up_the_budget_does_not_outlive_its_limit() {
    let start = Instant::now();
    let greedy = wakeful::spawn(timeout(ms(100), async move {
        loop {
            consume_budget().await;
            assert!(start.elapsed() < secs(1), "the limit is not looked at");
        }
    }));
    let clock = wakeful::spawn(async move {
        while start.elapsed() < secs(2) {
            advance(ms(1)).await;
        }
    });
    let ended = async move {
        assert!(greedy.await.unwrap().is_err());
        start.elapsed()
    };
    let elapsed = wakeful::spawn(ended).await.unwrap();
    assert!((ms(100)..ms(105)).contains(&elapsed), "{elapsed:?}");
    clock.await.unwrap();
}

#[wakeful::test(start_paused = true)]
async fn the_time_counts_from_its_making() {
    let start = Instant::now();
    let later = timeout(ms(100), pending::<()>());
    sleep(ms(30)).await;
    assert!(later.await.is_err());
    assert_eq!(start.elapsed(), ms(100));

    let much_later = timeout(ms(100), pending::<()>());
    sleep(secs(5)).await;
    let before = Instant::now();
    assert!(much_later.await.is_err());
    assert_eq!(before.elapsed(), Duration::ZERO);

    let other = timeout(ms(100), pending::<()>());
    sleep(ms(40)).await;
    let before = Instant::now();
    assert!(wakeful::spawn(other).await.unwrap().is_err());
    assert_eq!(before.elapsed(), ms(60));
}

/// Asserts that a limit of 4 ms counts from its creation, just before `made`. Its first poll, or first `Pending`, comes
/// after the 4 ms. So it ends before a timer that is due 2 ms later.
async fn ends_in_time(limit: impl Future<Output = Result<(), Elapsed>>, made: Instant) {
    let (mut limit, mut later) = (pin!(limit), pin!(sleep_until(made + ms(6))));
    poll_fn(|cx| {
        let mut ended = limit.as_mut().poll(cx);
        if ended.is_pending() && later.as_mut().poll(cx).is_ready() {
            ended = limit.as_mut().poll(cx);
            assert!(ended.is_ready(), "the limit was not counted from its making");
        }
        ended
    })
    .await
    .unwrap_err();
}

/// Blocks the thread for 4 ms.
fn block() {
    let start = Instant::now();
    while start.elapsed() < ms(4) {
        thread::yield_now();
    }
}

#[test]
fn a_real_clock_counts_from_its_making_too() {
    for rt in [real_current_thread(), real_multi_thread(1), real_multi_thread(2)] {
        let task = rt.spawn(async {
            // The limit is created in one poll of the task, and first polled in a later one.
            let (limit, made) = (timeout(ms(4), pending()), Instant::now());
            block();
            yield_now().await;
            ends_in_time(limit, made).await;
            // The limit is created and polled in the same poll of the task, 4 ms apart.
            let (limit, made) = (timeout(ms(4), pending()), Instant::now());
            block();
            ends_in_time(limit, made).await;
            // The limit is polled at once, but its future blocks before it returns `Pending`.
            let slow = async {
                block();
                pending().await
            };
            let (limit, made) = (timeout(ms(4), slow), Instant::now());
            ends_in_time(limit, made).await;
        });
        rt.block_on(task).unwrap();
        // Made by a thread that never polled anything.
        let (limit, made) = {
            let _entered = rt.enter();
            (timeout(ms(4), pending()), Instant::now())
        };
        block();
        let task = rt.spawn(ends_in_time(limit, made));
        rt.block_on(task).unwrap();
    }
}

#[test]
fn on_a_real_clock_too_no_limit_is_early() {
    for rt in [real_current_thread(), real_multi_thread(2)] {
        for length in (0..40).map(|step| us(step * 50)) {
            let early = async move {
                let before = std::time::Instant::now();
                timeout(length, pending::<()>()).await.unwrap_err();
                length.checked_sub(before.elapsed()).filter(|early| !early.is_zero())
            };
            assert_eq!(rt.block_on(rt.spawn(early)).unwrap(), None, "{}", rt.name);
        }
    }
}

#[wakeful::test(start_paused = true)]
async fn the_future_inside_can_be_reached_and_taken_out() {
    let mut limited = timeout(ms(10), ready(5));
    assert_eq!(limited.get_ref().clone().into_inner(), 5);
    *limited.get_mut() = ready(6);
    assert_eq!(limited.into_inner().await, 6);
}

#[wakeful::test(start_paused = true)]
async fn the_future_goes_with_the_timeout() {
    let alive = Arc::new(());
    let holder = alive.clone();
    let mut limited = Box::pin(timeout(ms(10), async move {
        let _holder = holder;
        pending::<()>().await;
    }));
    assert!(poll_once(limited.as_mut()).await.is_pending());
    advance(ms(20)).await;
    assert!(poll_once(limited.as_mut()).await.is_ready());
    assert_eq!(Arc::strong_count(&alive), 2, "a pinned future is dropped with its owner");
    drop(limited);
    assert_eq!(Arc::strong_count(&alive), 1);
    assert_eq!(Handle::current().metrics().num_timers(), 0);
}

#[wakeful::test(start_paused = true)]
async fn limits_nest() {
    let start = Instant::now();
    let inner_first = timeout(ms(30), timeout(ms(10), pending::<()>()));
    assert!(matches!(inner_first.await, Ok(Err(_))));
    assert_eq!(start.elapsed(), ms(10));
    let outer_first = timeout(ms(10), timeout(ms(30), pending::<()>()));
    assert!(outer_first.await.is_err());
    assert_eq!(start.elapsed(), ms(20));
}

#[wakeful::test(start_paused = true)]
async fn the_error_says_what_happened() {
    let error: Elapsed = timeout(ms(1), pending::<()>()).await.unwrap_err();
    assert_eq!(error.to_string(), "deadline has elapsed");
    assert_eq!(error, timeout(ms(1), pending::<()>()).await.unwrap_err());
    assert_eq!(io::Error::from(error).kind(), io::ErrorKind::TimedOut);
}

#[test]
fn a_timeout_belongs_to_the_runtime_it_was_made_in() {
    let (own, other) = (real_multi_thread(1), paused());
    let make = || {
        let _entered = own.enter();
        timeout(ms(5), pending::<()>())
    };
    let before = std::time::Instant::now();
    assert!(executor::block_on(make()).is_err(), "polled outside of any runtime");
    assert!(before.elapsed() >= ms(5));
    // Polled on a clock that stands still.
    let before = std::time::Instant::now();
    let virtual_time = other.block_on(async {
        let start = Instant::now();
        assert!(make().await.is_err());
        start.elapsed()
    });
    assert!(before.elapsed() >= ms(5));
    assert_eq!(virtual_time, Duration::ZERO);
    // Polled on another thread, under another runtime's guard.
    thread::scope(|scope| {
        scope.spawn(|| {
            let _entered = other.enter();
            assert!(executor::block_on(make()).is_err());
        });
    });
}

#[test]
fn a_timeout_whose_runtime_is_gone_says_so_unless_its_future_is_ready() {
    for keep_handle in [false, true] {
        let rt = paused();
        let handle = keep_handle.then(|| rt.handle().clone());
        let (mut waits, done) = {
            let _entered = rt.enter();
            (Box::pin(timeout(ms(5), pending::<()>())), timeout(ms(5), ready(3)))
        };
        drop(rt);
        assert_eq!(executor::block_on(done), Ok(3));
        let mut cx = Context::from_waker(Waker::noop());
        let poll = AssertUnwindSafe(|| waits.as_mut().poll(&mut cx));
        let site = panic_site(move || { poll }());
        assert_eq!(site.message, "A Tokio 1.x context was found, but it is being shutdown.");
        drop(handle);
    }
}

#[test]
fn a_limit_needs_timers_and_says_so_where_it_was_asked_for() {
    let site = panic_site(|| drop(timeout(ms(1), ready(()))));
    assert_eq!((site.file.as_str(), site.line), (file!(), line!() - 1));
    assert!(site.message.starts_with("there is no reactor running"), "{}", site.message);
    let rt = watch("without timers", &mut Builder::new_current_thread());
    let _entered = rt.enter();
    let site = panic_site(|| drop(timeout(ms(1), ready(()))));
    assert_eq!((site.file.as_str(), site.line), (file!(), line!() - 1));
    let text = "A Tokio 1.x context was found, but timers are disabled.";
    assert!(site.message.starts_with(text), "{}", site.message);
    let now = Instant::now();
    let site = panic_site(move || drop(timeout_at(now, ready(()))));
    assert_eq!((site.file.as_str(), site.line), (file!(), line!() - 1));
    assert!(site.message.starts_with(text), "{}", site.message);
}

#[wakeful::test(start_paused = true)]
async fn the_waker_of_the_latest_poll_is_woken() {
    let (woken, wakers): (Vec<_>, Vec<_>) = (0..2).map(|_| CountingWaker::new()).unzip();
    let mut limited = pin!(timeout(ms(10), poll_fn(|_| Poll::<()>::Pending)));
    for waker in &wakers {
        assert!(limited.as_mut().poll(&mut Context::from_waker(waker)).is_pending());
    }
    advance(ms(10)).await;
    let woken: Vec<_> = woken.iter().map(|woken| woken.take()).collect();
    assert_eq!(woken, [0, 1]);
    assert!(limited.await.is_err());
}
