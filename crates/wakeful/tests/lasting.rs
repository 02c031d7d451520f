//! Situations that last: locks that are not released, tasks that only become more, panics that no task learns of,
//! closures that run after an abort. Each has a twin in which nothing is wrong, and nothing is reported.
//!
//! On a current-thread runtime the clock is paused and moved by hand. On a multi-thread runtime every situation counts
//! as lasting at once.

#[path = "support/settle.rs"]
mod settle;

use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::task::Poll;
use std::thread;
use std::time::Duration;

use settle::settle;
use wakeful::inspect::{
    AbortedClosure, Certainty, GrowingTasks, Report, SlowHolder, UnawaitedPanic,
};
use wakeful::net::UnixDatagram;
use wakeful::runtime::{Builder, Handle, Runtime};
use wakeful::sync::{Mutex, Notify, RwLock, Semaphore, mpsc, oneshot};
use wakeful::task::{self, JoinHandle, JoinSet, spawn_blocking, yield_now};
use wakeful::time::{advance, sleep};

const SECOND: Duration = Duration::from_secs(1);
const HOUR: Duration = Duration::from_secs(3600);

/// A runtime whose clock only moves by `advance`, with the default time of three seconds.
fn paused() -> Runtime {
    let mut builder = Builder::new_current_thread();
    builder.enable_all().start_paused(true).on_report(|_| ()).build().unwrap()
}

/// A runtime on which each situation counts as lasting at once, and what it reports.
fn hasty() -> (Runtime, Receiver<Report>) {
    let (tell, told) = channel();
    let mut builder = Builder::new_multi_thread();
    builder.worker_threads(2).enable_all().report_lasting_after(Some(Duration::ZERO));
    builder.report_blocked_after(None);
    let hook = move |report: &Report| drop(tell.send(report.clone()));
    (builder.on_report(hook).build().unwrap(), told)
}

/// Runs a program on both kinds of runtime. It calls `pass` where time passes.
macro_rules! on_both {
    ($program:expr) => {{
        paused().block_on(async { $program(Clock::Paused).await });
        let (rt, _told) = hasty();
        rt.block_on(async { $program(Clock::Hasty).await });
        rt.shutdown_background();
    }};
}

#[derive(Clone, Copy, PartialEq)]
enum Clock {
    Paused,
    Hasty,
}

impl Clock {
    /// Lets three seconds pass, with a scan in each.
    async fn pass(self) {
        if self == Clock::Paused {
            for _ in 0..3 {
                diagnose();
                advance(SECOND).await;
            }
        }
    }
}

fn diagnose() -> Vec<Report> {
    Handle::current().diagnose()
}

/// Returns the only report, if it is of this kind.
macro_rules! only {
    ($reports:expr, $kind:ident) => {
        match &*$reports {
            [Report::$kind(it)] => it.clone(),
            others => panic!("expected one {}: {others:#?}", stringify!($kind)),
        }
    };
}

fn spawn_named<F>(name: &str, future: F) -> JoinHandle<F::Output>
where
    F: Future<Output: Send> + Send + 'static,
{
    task::Builder::new().name(name).spawn(future).unwrap()
}

// Locks and permits.

/// Checks the report of a holder that sleeps, with two waiters. Its text names all three tasks.
fn check_slow(report: &SlowHolder, kind: &str, clock: Clock, acquired_at: u32) {
    let text = report.to_string();
    assert_eq!((report.kind(), report.waiters()), (kind, 2), "{text}");
    let [holder] = report.holders() else { panic!("{text}") };
    assert_eq!(holder.task().name(), Some("holder"));
    let site = holder.acquired_at().expect("it was acquired before the first waiter came");
    assert_eq!((site.file(), site.line()), (file!(), acquired_at), "{text}");
    assert_eq!(holder.waiting_on().unwrap().kind(), "sleep");
    if clock == Clock::Paused {
        assert_eq!(report.held(), 3 * SECOND);
        assert_eq!(report.oldest_waited(), 3 * SECOND);
        assert!(text.contains("has released nothing for 3.0 s; 2 tasks wait"), "{text}");
    }
    assert!(
        text.starts_with("slow holder (suspected): task ") && text.contains("  fix: "),
        "{text}"
    );
    assert!(text.contains("  assumes: "), "{text}");
}

#[test]
fn a_mutex_that_is_held_across_a_slow_wait() {
    on_both!(async |clock: Clock| {
        let lock = Arc::new(Mutex::new(()));
        let (held, acquired_at) = (lock.clone(), line!() + 2);
        let holder = spawn_named("holder", async move {
            let _guard = held.lock().await;
            sleep(HOUR).await;
        });
        settle().await;
        let wait = || {
            let lock = lock.clone();
            wakeful::spawn(async move { drop(lock.lock().await) })
        };
        let waiters = [wait(), wait()];
        settle().await;
        clock.pass().await;
        let found = only!(diagnose(), SlowHolder);
        check_slow(&found, "Mutex::lock", clock, acquired_at);
        assert_eq!(Report::SlowHolder(found).certainty(), Certainty::Suspected);
        holder.abort();
        for waiter in waiters {
            waiter.await.unwrap();
        }
        assert!(diagnose().is_empty(), "the lock is free");
    });
}

#[test]
fn a_permit_that_is_held_across_a_slow_wait() {
    on_both!(async |clock: Clock| {
        let permits = Arc::new(Semaphore::new(1));
        let (held, acquired_at) = (permits.clone(), line!() + 2);
        let holder = spawn_named("holder", async move {
            let _permit = held.acquire().await;
            sleep(HOUR).await;
        });
        settle().await;
        for _ in 0..2 {
            let permits = permits.clone();
            wakeful::spawn(async move { drop(permits.acquire().await) });
        }
        settle().await;
        clock.pass().await;
        check_slow(&only!(diagnose(), SlowHolder), "Semaphore::acquire", clock, acquired_at);
        holder.abort();
        settle().await;
    });
}

#[test]
fn a_writer_that_keeps_readers_waiting() {
    on_both!(async |clock: Clock| {
        let lock = Arc::new(RwLock::new(()));
        let (held, acquired_at) = (lock.clone(), line!() + 2);
        let holder = spawn_named("holder", async move {
            let _guard = held.write().await;
            sleep(HOUR).await;
        });
        settle().await;
        for _ in 0..2 {
            let lock = lock.clone();
            wakeful::spawn(async move { drop(lock.read().await) });
        }
        settle().await;
        clock.pass().await;
        check_slow(&only!(diagnose(), SlowHolder), "RwLock::read", clock, acquired_at);
        holder.abort();
        settle().await;
    });
}

/// A lock that one task waits for is reported after three times as long.
#[test]
fn one_waiter_needs_more_time() {
    paused().block_on(async {
        let lock = Arc::new(Mutex::new(()));
        let held = lock.clone();
        wakeful::spawn(async move {
            let _guard = held.lock().await;
            sleep(HOUR).await;
        });
        wakeful::spawn(async move { drop(lock.lock().await) });
        settle().await;
        for second in 0..9 {
            assert!(diagnose().is_empty(), "{second}");
            advance(SECOND).await;
        }
        let found = only!(diagnose(), SlowHolder);
        assert_eq!((found.waiters(), found.held()), (1, 9 * SECOND));
        assert!(found.to_string().contains("; 1 task waits\n"), "{found}");
    });
}

/// The lock moves on each second. The last task in the queue waits for long, but no task holds it for long.
#[test]
fn a_long_queue_is_no_slow_holder() {
    paused().block_on(async {
        let lock = Arc::new(Mutex::new(()));
        let mut set = JoinSet::new();
        for _ in 0..20 {
            let lock = lock.clone();
            set.spawn(async move {
                let _guard = lock.lock().await;
                sleep(SECOND).await;
            });
        }
        settle().await;
        for second in 0..20 {
            let found = diagnose();
            assert!(found.is_empty(), "{second}: {found:?}");
            advance(SECOND).await;
            settle().await;
        }
        assert_eq!(set.join_all().await.len(), 20);
    });
}

/// The holder of the second lock waits for the first. Only the holder of the first is reported.
#[test]
fn only_the_last_holder_of_a_chain_is_named() {
    on_both!(async |clock: Clock| {
        let (first, second) = (Arc::new(Mutex::new(())), Arc::new(Mutex::new(())));
        let (held, wanted) = (first.clone(), second.clone());
        let root = spawn_named("holder", async move {
            let _guard = held.lock().await;
            sleep(HOUR).await;
        });
        settle().await;
        for _ in 0..3 {
            let (first, second) = (first.clone(), second.clone());
            wakeful::spawn(async move {
                let _second = second.lock().await;
                drop(first.lock().await);
            });
        }
        wakeful::spawn(async move { drop(first.lock().await) });
        settle().await;
        clock.pass().await;
        let found = only!(diagnose(), SlowHolder);
        assert_eq!(found.holders()[0].task().name(), Some("holder"));
        root.abort();
        drop(wanted.lock().await);
        settle().await;
    });
}

/// Tasks in a deadlock are reported as a deadlock only.
#[test]
fn a_deadlock_is_no_slow_holder() {
    on_both!(async |clock: Clock| {
        let lock = Arc::new(Mutex::new(()));
        let held = lock.clone();
        let (go, gone) = oneshot::channel::<()>();
        let holder = wakeful::spawn(async move {
            let _guard = held.lock().await;
            gone.await.unwrap();
            let inner = held.clone();
            let joined = wakeful::spawn(async move { drop(inner.lock().await) });
            joined.await.unwrap();
        });
        settle().await;
        let waiter = wakeful::spawn(async move { drop(lock.lock().await) });
        go.send(()).unwrap();
        settle().await;
        clock.pass().await;
        let found = diagnose();
        assert!(matches!(&*found, [Report::Deadlock(_)]), "{found:?}");
        holder.abort();
        waiter.await.unwrap();
        settle().await;
    });
}

/// The guard is dropped before the slow wait.
#[test]
fn a_released_lock_is_not_reported() {
    on_both!(async |clock: Clock| {
        let lock = Arc::new(Mutex::new(()));
        let mut set = JoinSet::new();
        for _ in 0..3 {
            let lock = lock.clone();
            set.spawn(async move {
                drop(lock.lock().await);
                sleep(HOUR).await;
            });
        }
        settle().await;
        clock.pass().await;
        assert_eq!(format!("{:?}", diagnose()), "[]");
        set.abort_all();
        while set.join_next().await.is_some() {}
    });
}

/// Tasks share a receiver. Each holds the lock while it waits for a message.
#[test]
fn a_pool_that_shares_a_receiver_is_no_slow_holder() {
    on_both!(async |clock: Clock| {
        let (sender, receiver) = mpsc::channel::<()>(1);
        let receiver = Arc::new(Mutex::new(receiver));
        let mut set = JoinSet::new();
        for _ in 0..4 {
            let receiver = receiver.clone();
            set.spawn(async move { while receiver.lock().await.recv().await.is_some() {} });
        }
        settle().await;
        clock.pass().await;
        assert_eq!(format!("{:?}", diagnose()), "[]");
        drop(sender);
        assert_eq!(set.join_all().await.len(), 4);
    });
}

/// Every lock is held for too long. One observation reports eight of them.
#[test]
fn many_slow_holders_are_not_told_all_at_once() {
    paused().block_on(async {
        for _ in 0..10 {
            let lock = Arc::new(Mutex::new(()));
            for _ in 0..3 {
                let lock = lock.clone();
                wakeful::spawn(async move {
                    let _guard = lock.lock().await;
                    sleep(HOUR).await;
                });
            }
        }
        settle().await;
        Clock::Paused.pass().await;
        let found = diagnose();
        assert!(found.iter().all(|report| matches!(report, Report::SlowHolder(_))), "{found:?}");
        assert_eq!(found.len(), 8);
    });
}

/// The watchdog reports a slow holder once.
#[test]
fn the_watchdog_tells_of_a_slow_holder() {
    let (tell, told) = channel();
    for mut builder in [Builder::new_current_thread(), Builder::new_multi_thread()] {
        let tell = tell.clone();
        let hook = move |report: &Report| drop(tell.send(report.clone()));
        builder.enable_all().report_lasting_after(Some(Duration::from_millis(50))).on_report(hook);
        let rt = builder.build().unwrap();
        let (end, ended) = oneshot::channel::<()>();
        let driver = thread::spawn({
            let handle = rt.handle().clone();
            move || {
                rt.block_on(async {
                    let lock = Arc::new(Mutex::new(()));
                    for _ in 0..3 {
                        let lock = lock.clone();
                        wakeful::spawn(async move {
                            let _guard = lock.lock().await;
                            sleep(HOUR).await;
                        });
                    }
                    ended.await.unwrap();
                });
                drop(handle);
            }
        });
        let Report::SlowHolder(found) = told.recv().unwrap() else { panic!() };
        assert_eq!(found.waiters(), 2, "{found}");
        end.send(()).unwrap();
        driver.join().unwrap();
        // On a busy machine the shutdown may last long enough for a `SlowShutdown` report.
        let left = told.try_iter().filter(|report| !matches!(report, Report::SlowShutdown(_)));
        assert_eq!(left.map(|report| report.kind()).collect::<Vec<_>>(), [""; 0]);
    }
}

// Tasks that only become more.

const SPAWN_LINE: u32 = line!() + 7;

/// Spawns tasks that wait for a notification each.
async fn spawn_waiting(count: usize, notify: &Arc<Notify>) {
    let polled = Arc::new(AtomicUsize::new(0));
    for _ in 0..count {
        let (notify, polled) = (notify.clone(), polled.clone());
        wakeful::spawn(async move {
            polled.fetch_add(1, Relaxed);
            loop {
                notify.notified().await;
            }
        });
    }
    while polled.load(Relaxed) < count {
        yield_now().await;
    }
}

fn check_growing(found: &GrowingTasks) {
    let text = found.to_string();
    assert_eq!(
        (found.spawned_at().file(), found.spawned_at().line()),
        (file!(), SPAWN_LINE),
        "{text}"
    );
    assert_eq!(found.kind(), Some("Notify::notified"), "{text}");
    assert!(found.alive() >= found.alive_before() * 3 / 2, "{text}");
    assert!(text.starts_with("growing tasks (suspected): "), "{text}");
}

#[test]
fn tasks_that_only_become_more() {
    paused().block_on(async {
        let notify = Arc::new(Notify::new());
        let mut found = Vec::new();
        spawn_waiting(1000, &notify).await;
        for _ in 0..4 {
            assert_eq!(format!("{found:?}"), "[]");
            found = diagnose();
            spawn_waiting(200, &notify).await;
            advance(3 * SECOND).await;
        }
        let found = only!(diagnose(), GrowingTasks);
        check_growing(&found);
        let numbers = (found.alive(), found.alive_before(), found.unmoved(), found.within());
        assert_eq!(numbers, (1800, 1000, 1000, 12 * SECOND), "{found}");
    });
    let (rt, _told) = hasty();
    rt.block_on(async {
        let notify = Arc::new(Notify::new());
        spawn_waiting(1000, &notify).await;
        // The watchdog takes samples too, and may begin its watch while tasks are spawned.
        let found = loop {
            let found = diagnose();
            if !found.is_empty() {
                break found;
            }
            let more = Handle::current().metrics().num_alive_tasks() / 2;
            assert!(more < 1_000_000, "never reported");
            spawn_waiting(more, &notify).await;
        };
        check_growing(&only!(found, GrowingTasks));
    });
}

/// A burst that ends, tasks that run from time to time, and tasks that wait on purpose are no leak.
#[test]
fn tasks_that_are_many_and_no_leak() {
    paused().block_on(async {
        let notify = Arc::new(Notify::new());
        spawn_waiting(1500, &notify).await;
        for _ in 0..5 {
            assert_eq!(format!("{:?}", diagnose()), "[]", "a burst");
            advance(3 * SECOND).await;
        }
        for _ in 0..5 {
            assert_eq!(format!("{:?}", diagnose()), "[]", "they run");
            spawn_waiting(1000, &notify).await;
            advance(3 * SECOND).await;
            notify.notify_waiters();
            yield_now().await;
        }
    });
    paused().block_on(async {
        let notify = Arc::new(Notify::new());
        for _ in 0..5 {
            for _ in 0..1000 {
                let notify = notify.clone();
                let wait = async move { notify.notified().await };
                task::Builder::new().forever().spawn(wait).unwrap();
            }
            yield_now().await;
            assert_eq!(format!("{:?}", diagnose()), "[]", "they are meant to wait");
            advance(3 * SECOND).await;
        }
    });
    paused().block_on(async {
        let (socket, _peer) = UnixDatagram::pair().unwrap();
        let socket = Arc::new(socket);
        for _ in 0..6 {
            for _ in 0..1000 {
                let socket = socket.clone();
                wakeful::spawn(async move { socket.recv(&mut [0]).await });
            }
            settle().await;
            assert_eq!(format!("{:?}", diagnose()), "[]", "they wait for a peer");
            advance(3 * SECOND).await;
        }
    });
}

// Panics and aborts.

fn panics() -> JoinHandle<()> {
    spawn_named("careless", async { panic!("planted") })
}

/// Returns when the handle's task has ended.
async fn finished<T>(handle: &JoinHandle<T>) {
    while !handle.is_finished() {
        yield_now().await;
    }
}

#[test]
fn a_panic_whose_handle_is_kept() {
    on_both!(async |clock: Clock| {
        let kept = panics();
        finished(&kept).await;
        if clock == Clock::Paused {
            assert_eq!(format!("{:?}", diagnose()), "[]", "too early");
        }
        clock.pass().await;
        let found: UnawaitedPanic = only!(diagnose(), UnawaitedPanic);
        let text = found.to_string();
        assert_eq!((found.task().name(), found.is_closure()), (Some("careless"), false), "{text}");
        assert_eq!(clock == Clock::Paused, found.since() == 3 * SECOND, "{text}");
        assert!(text.starts_with("unawaited panic (suspected): task "), "{text}");
        kept.await.unwrap_err();
        assert_eq!(format!("{:?}", diagnose()), "[]", "it was awaited");
    });
}

#[test]
fn a_panic_in_a_join_set_and_in_a_closure() {
    on_both!(async |clock: Clock| {
        let mut set = JoinSet::new();
        set.spawn(async { panic!("planted") });
        let closure: JoinHandle<()> = spawn_blocking(|| panic!("planted"));
        finished(&closure).await;
        settle().await;
        clock.pass().await;
        let found = diagnose();
        let closures = found.iter().map(|report| match report {
            Report::UnawaitedPanic(panic) => panic.is_closure(),
            other => panic!("{other}"),
        });
        let mut closures: Vec<bool> = closures.collect();
        closures.sort_unstable();
        assert_eq!(closures, [false, true]);
        set.join_next().await.unwrap().unwrap_err();
        closure.await.unwrap_err();
        assert_eq!(format!("{:?}", diagnose()), "[]");
    });
}

/// Handles that are awaited or dropped, and tasks that end without a panic.
#[test]
fn a_panic_that_is_awaited_or_dropped() {
    on_both!(async |clock: Clock| {
        panics().await.unwrap_err();
        drop(panics());
        let returned = wakeful::spawn(async {});
        let aborted = wakeful::spawn(poll_fn(|_| Poll::<()>::Ready(())));
        aborted.abort();
        settle().await;
        clock.pass().await;
        assert_eq!(format!("{:?}", diagnose()), "[]");
        drop((returned, aborted));
    });
}

/// Starts a closure that runs until the sender is dropped.
async fn start_closure() -> (JoinHandle<()>, Sender<()>) {
    let (end, ended) = channel::<()>();
    let (start, started) = oneshot::channel();
    let closure = spawn_blocking(move || {
        start.send(()).unwrap();
        ended.recv().unwrap_err();
    });
    started.await.unwrap();
    (closure, end)
}

#[test]
fn an_aborted_closure_that_still_runs() {
    on_both!(async |clock: Clock| {
        let ((aborted, end), (spared, end_spared)) = (start_closure().await, start_closure().await);
        aborted.abort();
        if clock == Clock::Paused {
            assert_eq!(format!("{:?}", diagnose()), "[]", "too early");
        }
        clock.pass().await;
        let found: AbortedClosure = only!(diagnose(), AbortedClosure);
        assert_eq!(found.task().id(), Some(aborted.id()), "{found}");
        assert_eq!(clock == Clock::Paused, found.since() == 3 * SECOND, "{found}");
        assert!(found.to_string().starts_with("aborted closure (suspected): the closure of task "));
        drop((end, end_spared));
        aborted.await.unwrap();
        spared.await.unwrap();
        assert_eq!(format!("{:?}", diagnose()), "[]", "it has ended");
    });
}

/// An abort of a queued closure takes effect.
#[test]
fn an_aborted_closure_that_never_ran() {
    let mut builder = Builder::new_current_thread();
    builder.max_blocking_threads(1).report_lasting_after(Some(Duration::ZERO)).on_report(|_| ());
    let rt = builder.build().unwrap();
    rt.block_on(async {
        let (first, end) = start_closure().await;
        let queued = spawn_blocking(|| ());
        queued.abort();
        assert_eq!(format!("{:?}", diagnose()), "[]");
        drop(end);
        first.await.unwrap();
        assert!(queued.await.unwrap_err().is_cancelled());
    });
}
