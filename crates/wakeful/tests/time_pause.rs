//! The paused clock: it stands, is advanced by hand, and advances itself when every task waits for a timer.

use std::panic::AssertUnwindSafe;
use std::sync::mpsc;
use std::sync::{Arc, Mutex};
use std::task::Context;
use std::thread;

use wakeful::runtime::{Builder, Handle, OrphanPolicy, Runtime};
use wakeful::task::{spawn_blocking, yield_now};
use wakeful::time::{Duration, Instant, advance, pause, resume, sleep, sleep_until, timeout};

mod support {
    pub mod clocks;
    pub mod panic_site;
    pub mod runtimes;
}
use support::clocks::{
    Log, ms, paused, poll_once, real_current_thread, real_multi_thread, secs, us,
};
use support::panic_site::panic_site;
use support::runtimes::watch;

#[wakeful::test(start_paused = true)]
async fn a_paused_clock_stands_still() {
    let (start, real) = (Instant::now(), std::time::Instant::now());
    while real.elapsed() < us(200) {
        yield_now().await;
    }
    assert_eq!(Instant::now(), start);
}

#[wakeful::test(start_paused = true)]
async fn advance_moves_it_by_so_much() {
    let start = Instant::now();
    for by in [Duration::ZERO, Duration::from_nanos(1), ms(10), secs(86_400)] {
        let before = Instant::now();
        advance(by).await;
        assert_eq!(before.elapsed(), by);
    }
    assert_eq!(start.elapsed(), secs(86_400) + ms(10) + Duration::from_nanos(1));
}

#[wakeful::test(start_paused = true)]
async fn advance_fires_what_is_due_and_nothing_else() {
    let fired = Log::default();
    for length in [10, 20, 30] {
        let fired = fired.clone();
        wakeful::spawn(async move {
            sleep(ms(length)).await;
            fired.note(length);
        });
    }
    yield_now().await;
    advance(ms(9)).await;
    yield_now().await;
    assert_eq!(fired.take(), []);
    advance(ms(1)).await;
    yield_now().await;
    assert_eq!(fired.take(), [10]);
    advance(ms(25)).await;
    yield_now().await;
    assert_eq!(fired.take(), [20, 30]);
}

#[wakeful::test(start_paused = true)]
async fn with_nothing_else_to_do_time_passes_by_itself() {
    let (start, real) = (Instant::now(), std::time::Instant::now());
    let tasks: Vec<_> = [5, 50, 500]
        .map(|minutes| {
            wakeful::spawn(async move {
                sleep(secs(60 * minutes)).await;
                Instant::now()
            })
        })
        .into_iter()
        .collect();
    for (task, minutes) in tasks.into_iter().zip([5, 50, 500]) {
        assert_eq!(task.await.unwrap(), start + secs(60 * minutes));
    }
    assert!(real.elapsed() < secs(60), "it did not take that long");
}

#[wakeful::test(start_paused = true)]
async fn time_does_not_pass_while_a_task_can_run() {
    let start = Instant::now();
    let sleeper = wakeful::spawn(async {
        sleep(ms(1)).await;
        Instant::now()
    });
    for _ in 0..1_000 {
        yield_now().await;
        assert_eq!(Instant::now(), start);
    }
    assert!(!sleeper.is_finished());
    assert_eq!(sleeper.await.unwrap(), start + ms(1));
}

/// Returns a paused runtime, and a receiver that gets a message at each park of its thread.
fn paused_and_watched() -> (support::runtimes::TestRuntime, mpsc::Receiver<()>) {
    let (parks, parked) = mpsc::channel();
    let parks = Mutex::new(parks);
    let mut builder = Builder::new_current_thread();
    builder.enable_all().start_paused(true).on_orphan(OrphanPolicy::Panic);
    // The last park may come after the receiver is dropped.
    builder.on_thread_park(move || {
        let _ = parks.lock().unwrap().send(());
    });
    (watch("paused", &mut builder), parked)
}

#[test]
fn time_does_not_pass_while_a_closure_blocks() {
    let (rt, parked) = paused_and_watched();
    rt.block_on(async {
        let start = Instant::now();
        let sleeper = wakeful::spawn(async {
            sleep(ms(10)).await;
            Instant::now()
        });
        let (at_first, at_last) = spawn_blocking(move || {
            let at_first = Instant::now();
            parked.recv().unwrap(); // everything waits, and still:
            (at_first, Instant::now())
        })
        .await
        .unwrap();
        assert_eq!((at_first, at_last, Instant::now()), (start, start, start));
        assert_eq!(sleeper.await.unwrap(), start + ms(10), "afterwards it does");
    });
}

#[test]
fn time_goes_on_when_the_last_closure_ends() {
    let (rt, parked) = paused_and_watched();
    let (release, released) = mpsc::channel::<()>();
    rt.block_on(async {
        let start = Instant::now();
        // No task waits for this closure. Time stands until it ends.
        drop(spawn_blocking(move || released.recv()));
        let releaser = thread::spawn(move || {
            parked.recv().unwrap();
            release.send(()).unwrap();
        });
        sleep(secs(1)).await;
        assert_eq!(start.elapsed(), secs(1));
        releaser.join().unwrap();
    });
}

/// Returns a paused runtime that calls `meanwhile` on its thread just before it parks for the first time.
///
/// At this point the runtime has decided that time cannot advance, and no other thread can wake it yet.
fn paused_and_about_to_park(
    builder: &mut Builder,
    meanwhile: impl FnOnce() + Send + 'static,
) -> support::runtimes::TestRuntime {
    let meanwhile = Mutex::new(Some(meanwhile));
    builder.enable_all().start_paused(true).on_orphan(OrphanPolicy::Panic);
    builder.on_thread_park(move || {
        if let Some(meanwhile) = meanwhile.lock().unwrap().take() {
            meanwhile();
        }
    });
    watch("paused", builder)
}

#[test]
fn time_goes_on_if_the_last_closure_ends_before_the_thread_parks() {
    let (release, released) = mpsc::channel::<()>();
    let (ends, ended) = mpsc::channel::<()>();
    let ends = Mutex::new(ends);
    let mut builder = Builder::new_current_thread();
    // The closure's thread ends after the closure no longer holds the clock back.
    builder.thread_keep_alive(Duration::ZERO).on_thread_stop(move || {
        let _ = ends.lock().unwrap().send(());
    });
    let rt = paused_and_about_to_park(&mut builder, move || {
        release.send(()).unwrap();
        ended.recv().unwrap();
    });
    rt.block_on(async {
        let start = Instant::now();
        drop(spawn_blocking(move || released.recv()));
        sleep(secs(1)).await;
        assert_eq!(start.elapsed(), secs(1));
    });
}

#[test]
fn time_goes_on_if_another_thread_sets_a_timer_before_the_thread_parks() {
    let (handles, handle) = mpsc::channel::<Handle>();
    let (kept, sleeps) = mpsc::channel();
    let (fired, done) = futures::channel::oneshot::channel();
    let rt = paused_and_about_to_park(&mut Builder::new_current_thread(), move || {
        let handle = handle.recv().unwrap();
        let other = thread::spawn(move || {
            let _entered = handle.enter();
            let mut sleep = Box::pin(sleep(secs(5)));
            let waker = futures::task::waker(Arc::new(SendOnWake(Mutex::new(Some(fired)))));
            assert!(sleep.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
            kept.send(sleep).unwrap();
        });
        other.join().unwrap();
    });
    handles.send(rt.handle().clone()).unwrap();
    rt.block_on(async {
        let start = Instant::now();
        done.await.unwrap();
        assert_eq!(start.elapsed(), secs(5));
    });
    drop(sleeps);
}

/// A waker that sends a message at its first wake-up.
struct SendOnWake(Mutex<Option<futures::channel::oneshot::Sender<()>>>);

impl futures::task::ArcWake for SendOnWake {
    fn wake_by_ref(this: &Arc<Self>) {
        if let Some(fired) = this.0.lock().unwrap().take() {
            fired.send(()).unwrap();
        }
    }
}

#[test]
fn a_clock_started_by_a_closure_serves_the_timers_that_wait() {
    let (rt, parked) = paused_and_watched();
    rt.block_on(async {
        let (let_go, held) = mpsc::channel::<()>();
        drop(spawn_blocking(move || {
            parked.recv().unwrap(); // the clock stands while this closure runs
            resume();
            let _ = held.recv(); // keeps the closure running
        }));
        sleep(ms(2)).await;
        drop(let_go);
    });
}

#[test]
fn a_clock_can_be_stopped_and_started() {
    let rt = real_current_thread();
    rt.block_on(async {
        let before = Instant::now();
        pause();
        let stopped = Instant::now();
        assert!(stopped >= before, "never back");
        yield_now().await;
        assert_eq!(Instant::now(), stopped);
        sleep(secs(3_600)).await;
        assert_eq!(stopped.elapsed(), secs(3_600));
        let again = Instant::now();
        resume();
        while Instant::now() == again {
            yield_now().await;
        }
        let real = std::time::Instant::now();
        sleep(ms(2)).await;
        assert!(real.elapsed() >= ms(2), "real again");
        pause();
        assert!(stopped.elapsed() >= secs(3_600) + ms(2), "where it was");
    });
}

#[test]
fn a_timer_set_on_a_running_clock_fires_on_a_stopped_one() {
    let rt = real_current_thread();
    rt.block_on(async {
        let deadline = Instant::now() + secs(60);
        let sleeper = wakeful::spawn(sleep_until(deadline));
        yield_now().await;
        pause();
        sleeper.await.unwrap();
        assert!(Instant::now() >= deadline);
        assert!(Instant::now() < deadline + ms(1));
    });
}

#[test]
fn a_limit_set_on_a_running_clock_ends_on_a_stopped_one() {
    let rt = real_current_thread();
    rt.block_on(async {
        let limit = timeout(secs(60), std::future::pending::<()>());
        let before = Instant::now();
        pause();
        assert!(limit.await.is_err());
        assert!(before.elapsed() >= secs(60));
    });
}

#[test]
fn a_limit_set_on_a_running_clock_counts_from_there_when_it_is_stopped_and_moved() {
    for polled_before in [true, false] {
        let rt = real_current_thread();
        rt.block_on(async {
            let before = Instant::now();
            let mut limit = Box::pin(timeout(secs(60), std::future::pending::<()>()));
            let after = Instant::now();
            pause();
            advance(secs(59)).await;
            if polled_before {
                let ended = poll_once(limit.as_mut()).await.is_ready();
                assert!(!ended || before.elapsed() >= secs(60), "early");
            }
            advance(secs(1) + ms(1)).await;
            assert!(after.elapsed() > secs(60));
            let now = Instant::now();
            assert!(limit.await.is_err());
            assert_eq!(now.elapsed(), Duration::ZERO, "late, polled before: {polled_before}");
        });
    }
}

#[test]
fn a_runtime_of_many_threads_cannot_start_with_its_clock_stopped() {
    let mut builder = Builder::new_multi_thread();
    builder.enable_all().start_paused(true);
    let site = panic_site(AssertUnwindSafe(|| drop(builder.build())));
    assert_eq!((site.file.as_str(), site.line), (file!(), line!() - 1));
    let text = "`time::pause()` requires the `current_thread` Tokio runtime";
    assert!(site.message.starts_with(text), "{}", site.message);
    drop(Builder::new_multi_thread().start_paused(false).build().unwrap());
}

#[test]
fn each_runtime_has_its_own_clock() {
    let (one, other, real) = (paused(), paused(), real_current_thread());
    let start = |rt: &Runtime| rt.block_on(async { Instant::now() });
    let (one_start, other_start, real_start) = (start(&one), start(&other), start(&real));
    one.block_on(async { sleep(secs(100)).await });
    other.block_on(advance(secs(7)));
    let elapsed = |rt: &Runtime, since: Instant| rt.block_on(async move { since.elapsed() });
    assert_eq!(elapsed(&one, one_start), secs(100));
    assert_eq!(elapsed(&other, other_start), secs(7));
    assert!(elapsed(&real, real_start) < secs(60));
    let outside = Instant::now();
    let std = std::time::Instant::now();
    assert!(std - outside.into_std() < secs(60), "and outside of them it is real");
    let inside = {
        let _entered = one.enter();
        Instant::now()
    };
    assert_eq!(inside, one_start + secs(100), "a guard is enough");
}

#[test]
fn the_clock_of_many_threads_cannot_be_stopped() {
    let rt = real_multi_thread(1);
    let text = "requires the `current_thread` Tokio runtime. This is the default Runtime used by \
                `#[tokio::test]`.";
    let _entered = rt.enter();
    for (name, call) in [("pause", pause as fn()), ("resume", resume)] {
        let site = panic_site(call);
        assert_eq!(site.message, format!("`time::{name}()` {text}"));
    }
    let site = panic_site(|| futures::executor::block_on(advance(ms(1))));
    assert_eq!(site.message, format!("`time::advance()` {text}"));
    drop(_entered);
    let site = panic_site(pause);
    assert!(site.message.starts_with("there is no reactor running"), "{}", site.message);
}

#[test]
fn stopping_twice_or_moving_what_runs_panics_where_it_was_asked_for() {
    let rt = real_current_thread();
    let _entered = rt.enter();
    let site = panic_site(|| resume());
    assert_eq!((site.file.as_str(), site.line), (file!(), line!() - 1));
    assert_eq!(site.message, "time is not frozen");
    let site = panic_site(|| futures::executor::block_on(advance(ms(1))));
    assert_eq!(site.message, "time is not frozen");
    pause();
    let site = panic_site(|| pause());
    assert_eq!((site.file.as_str(), site.line), (file!(), line!() - 1));
    assert_eq!(site.message, "time is already frozen");
    resume();
}

#[test]
fn a_timer_from_another_thread_wakes_a_standing_clock() {
    let (rt, parked) = paused_and_watched();
    let rt = Arc::new(rt);
    let (fired, done) = futures::channel::oneshot::channel();
    let foreign = thread::spawn({
        let handle = rt.handle().clone();
        move || {
            parked.recv().unwrap(); // nothing to do, and no timer to jump to
            let _entered = handle.enter();
            let start = Instant::now();
            futures::executor::block_on(sleep(secs(5)));
            fired.send(start.elapsed()).unwrap();
        }
    });
    let elapsed = rt.block_on(done).unwrap();
    foreign.join().unwrap();
    assert_eq!(elapsed, secs(5));
}

#[wakeful::test(start_paused = true)]
async fn a_moment_that_has_passed_is_noticed_at_the_first_poll() {
    let start = Instant::now();
    advance(ms(1)).await;
    let mut late = std::pin::pin!(sleep_until(start));
    assert!(poll_once(late.as_mut()).await.is_ready(), "nothing else was waiting");
    let mut moved = std::pin::pin!(sleep(ms(50)));
    assert!(poll_once(moved.as_mut()).await.is_pending());
    advance(ms(10)).await;
    moved.as_mut().reset(Instant::now());
    assert!(poll_once(moved.as_mut()).await.is_ready());
}

#[test]
fn arrived_data_is_delivered_before_the_next_timer() {
    let rt = paused();
    rt.block_on(async {
        let start = Instant::now();
        let (near, far) = wakeful::net::UnixDatagram::pair().unwrap();
        near.send(b"x").await.unwrap();
        let receiver = wakeful::spawn(async move {
            far.recv(&mut [0]).await.unwrap();
            start.elapsed()
        });
        sleep(ms(100)).await;
        assert_eq!(receiver.await.unwrap(), Duration::ZERO);
    });
}
