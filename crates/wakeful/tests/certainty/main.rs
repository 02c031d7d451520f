//! Proven and suspected reports, on programs that look stuck and finish.
//!
//! In them, a guard, permit or receiver has left the task that acquired it, a task yields by hand, or a `JoinSet`
//! aborts its tasks. None is reported as proven, and no `block_on` is ended, also under `#[wakeful::test]`. A proven
//! deadlock ends a test.

mod ends;

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed, Ordering::SeqCst};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex as StdMutex};
use std::task::{Context, Poll, Waker};
use std::thread;
use std::time::Duration;

use wakeful::inspect::{Certainty, Report, TaskState, WorkerState};
use wakeful::runtime::{Builder, Handle, Runtime};
use wakeful::sync::{Mutex, Semaphore, mpsc, oneshot};
use wakeful::task::{self, JoinHandle, JoinSet, yield_now};
use wakeful::time::timeout;

/// Lets a program go on.
type LetGo = oneshot::Sender<()>;
/// A program that looks stuck after it has sent the means to continue it.
type Program = fn(Sender<LetGo>) -> Pin<Box<dyn Future<Output = ()> + Send>>;

/// Every flavor, as built by hand and as built by `#[wakeful::test]`.
fn builders() -> Vec<Builder> {
    let mut builders = Vec::new();
    for is_test in [false, true] {
        let mut two = Builder::new_multi_thread();
        two.worker_threads(2);
        for mut builder in [Builder::new_current_thread(), two] {
            builder.enable_all().block_on_name("root").always_end_stuck_block_on(is_test);
            builders.push(builder);
        }
    }
    builders
}

fn runtimes() -> Vec<(Runtime, Receiver<Report>)> {
    let build = |mut builder: Builder| {
        let (tx, rx) = channel();
        let hook = move |report: &Report| drop(tx.send(report.clone()));
        builder.report_blocked_after(None).on_report(hook);
        (builder.build().unwrap(), rx)
    };
    builders().into_iter().map(build).collect()
}

/// Whether every task waits, and every worker sleeps.
fn is_quiet(handle: &Handle) -> bool {
    let dump = handle.dump();
    let sleeps = |state| matches!(state, WorkerState::Asleep | WorkerState::NotStarted);
    dump.tasks().iter().all(|task| task.state() == TaskState::Waiting)
        && dump.workers().iter().all(|worker| sleeps(worker.state()))
}

/// Diagnoses the runtime once the program looks stuck, and then lets it go on.
fn diagnose_when_quiet(
    handle: Handle,
    let_go_rx: Receiver<LetGo>,
) -> thread::JoinHandle<Vec<Report>> {
    thread::spawn(move || {
        let let_go = let_go_rx.recv().unwrap();
        while !is_quiet(&handle) {
            thread::yield_now();
        }
        let found = handle.diagnose();
        let_go.send(()).unwrap();
        found
    })
}

/// Asserts that each report is suspected, says so, and does not say "forever".
#[track_caller]
fn assert_suspected(reports: &[Report]) {
    for report in reports {
        assert_eq!(report.certainty(), Certainty::Suspected, "{report}");
        let text = report.to_string();
        assert!(text.contains("(suspected)") && text.contains("  assumes: "), "{text}");
        assert!(!text.contains("never run again") && !text.contains("never return"), "{text}");
    }
}

/// Runs the program on every kind of runtime. `is_told` says whether a suspected report is expected.
fn finishes(program: Program, is_reported: bool) {
    for (rt, reports) in runtimes() {
        let (let_go_tx, let_go_rx) = channel();
        let looks = diagnose_when_quiet(rt.handle().clone(), let_go_rx);
        rt.block_on(async move { wakeful::spawn(program(let_go_tx)).await.unwrap() });
        let found = looks.join().unwrap();
        assert_eq!(!found.is_empty(), is_reported, "{found:?}");
        assert_suspected(&found);
        assert_suspected(&reports.try_iter().collect::<Vec<_>>());
    }
}

/// Runs the program on the runtime of a `#[wakeful::test]`.
async fn finishes_here(program: Program) {
    let (let_go_tx, let_go_rx) = channel();
    let looks = diagnose_when_quiet(Handle::current(), let_go_rx);
    wakeful::spawn(program(let_go_tx)).await.unwrap();
    assert_suspected(&looks.join().unwrap());
}

/// Defines a test on every kind of runtime, and `#[wakeful::test]`s, for each program.
macro_rules! finishes {
    ($($program:ident: $is_reported:expr;)+) => {$(
        mod $program {
            #[test]
            fn on_every_runtime() {
                super::finishes(|let_go_tx| Box::pin(super::programs::$program(let_go_tx)), $is_reported);
            }

            #[wakeful::test]
            async fn under_test() {
                super::finishes_here(|let_go_tx| Box::pin(super::programs::$program(let_go_tx))).await;
            }

            #[wakeful::test(flavor = "multi_thread", worker_threads = 2)]
            async fn under_test_on_two_threads() {
                super::finishes_here(|let_go_tx| Box::pin(super::programs::$program(let_go_tx))).await;
            }
        }
    )+};
}

finishes! {
    a_guard_moved_to_background_work_after_a_timeout: true;
    a_static_guard_moved_into_a_child: true;
    a_static_guard_moved_to_a_thread: true;
    permits_sent_with_jobs: true;
    a_receiver_handed_on: true;
    a_receiver_handed_to_a_child: false;
    a_granted_future_moved_to_another_task: true;
    an_abba_that_its_join_set_aborts: true;
    a_waker_left_with_a_channel: false;
}

mod programs;

/// The task waits for a lock that it holds. Its dropped `recv()` has left a waker with the channel, so a message can
/// wake the task. It is reported only after the channel has dropped that waker.
#[test]
fn a_deadlock_is_reported_once_no_waker_is_left_with_a_channel() {
    for (rt, _told) in runtimes() {
        let (_tx, rx) = mpsc::channel::<u32>(1);
        let rx = Arc::new(StdMutex::new(rx));
        let lock = Arc::new(Mutex::new(()));
        let receiver = rx.clone();
        let receive = move |cx: &mut Context<'_>| {
            assert!(pin!(receiver.lock().unwrap().recv()).poll(cx).is_pending());
        };
        let _entered = rt.enter();
        let twice = task::Builder::new().name("twice").spawn(async move {
            let _first = lock.lock().await;
            let mut second = pin!(lock.lock());
            poll_fn(move |cx| {
                receive(cx);
                second.as_mut().poll(cx).map(drop)
            })
            .await;
        });
        let twice = twice.unwrap();
        rt.block_on(async {
            let waits = || {
                let dump = Handle::current().dump();
                dump.find_named("twice").is_some_and(|task| task.state() == TaskState::Waiting)
            };
            while !waits() {
                yield_now().await;
            }
            let found = Handle::current().diagnose();
            assert!(found.is_empty(), "a message can wake it: {found:?}");
            let replaces = &mut Context::from_waker(Waker::noop());
            assert!(pin!(rx.lock().unwrap().recv()).poll(replaces).is_pending());
            let found = report_of(&twice).await;
            assert!(matches!(&*found, [Report::Deadlock(_)]), "{found:?}");
        });
        twice.abort();
        assert!(rt.block_on(twice).unwrap_err().is_cancelled());
    }
}

/// The watchdog's scan finds what `diagnose` finds: a suspected deadlock. The `block_on` goes on.
#[test]
fn a_suspected_deadlock_ends_no_block_on() {
    for (rt, reports) in runtimes() {
        let lock: &'static Mutex<()> = Box::leak(Box::new(Mutex::new(())));
        let handle = rt.handle().clone();
        let keeps = rt.block_on(async {
            let guard = lock.lock().await;
            let keeps = thread::spawn(move || {
                let report = reports.recv().unwrap();
                // A second scan does not end the `block_on` either.
                let found = handle.diagnose();
                drop(guard);
                (report, found, reports)
            });
            drop(lock.lock().await);
            keeps
        });
        let (report, found, reports) = keeps.join().unwrap();
        assert!(matches!(&*found, [Report::Deadlock(_)]), "{found:?}");
        assert_suspected(&found);
        assert_suspected(&[report]);
        assert_suspected(&reports.try_iter().collect::<Vec<_>>());
    }
}

/// Handles that can abort a task are named, and no task that has one is said to wait forever.
#[test]
fn a_handle_that_is_alive_is_named() {
    for (rt, _told) in runtimes() {
        let lock = Arc::new(Mutex::new(()));
        let twice = rt.spawn(async move {
            let _first = lock.lock().await;
            drop(lock.lock().await);
        });
        let found = rt.block_on(report_of(&twice));
        assert_suspected(&found);
        let text = found[0].to_string();
        assert!(
            text.contains("or the task is aborted (a handle that can abort it is alive)"),
            "{text}"
        );
        twice.abort();
        assert!(rt.block_on(twice).unwrap_err().is_cancelled());
    }
}

/// A `block_on` future that polled a JoinHandle and is woken by it, while another thread can abort the task.
type HandleOfAThread =
    fn(Sender<JoinHandle<()>>, Arc<AtomicBool>) -> Pin<Box<dyn Future<Output = ()>>>;

/// Spawns a task without a waker. Its drop sets the flag.
fn spawn_flagged(flag: Arc<AtomicBool>) -> JoinHandle<()> {
    struct SetAtEnd(Arc<AtomicBool>);
    impl Drop for SetAtEnd {
        fn drop(&mut self) {
            self.0.store(true, SeqCst);
        }
    }
    let set = SetAtEnd(flag);
    wakeful::spawn(async move {
        let _set = set;
        std::future::pending::<()>().await;
    })
}

/// The handle is polled, and then moved to a thread. Its waker is all that the future has.
fn moves_its_handle(
    give: Sender<JoinHandle<()>>,
    flag: Arc<AtomicBool>,
) -> Pin<Box<dyn Future<Output = ()>>> {
    let mut handle = None;
    let mut give = Some(give);
    Box::pin(poll_fn(move |cx| {
        if flag.load(SeqCst) {
            return Poll::Ready(());
        }
        if let Some(give) = give.take() {
            let polled = handle.insert(spawn_flagged(flag.clone()));
            assert!(Pin::new(polled).poll(cx).is_pending());
            give.send(handle.take().unwrap()).unwrap();
        }
        Poll::Pending
    }))
}

/// The `block_on` future awaits a task that awaits another one, and that task moves its handle to a thread.
fn awaits_a_task_that_moves_its_handle(
    give: Sender<JoinHandle<()>>,
    flag: Arc<AtomicBool>,
) -> Pin<Box<dyn Future<Output = ()>>> {
    Box::pin(async move {
        let mut handle = None;
        let mut give = Some(give);
        let moves = poll_fn(move |cx| {
            if flag.load(SeqCst) {
                return Poll::Ready(());
            }
            if let Some(give) = give.take() {
                let polled = handle.insert(spawn_flagged(flag.clone()));
                assert!(Pin::new(polled).poll(cx).is_pending());
                give.send(handle.take().unwrap()).unwrap();
            }
            Poll::Pending
        });
        wakeful::spawn(moves).await.unwrap();
    })
}

/// Nothing shows that a JoinHandle was moved after it was polled. The thread that has it can abort the task, so the
/// `block_on` that waits for its end returns.
#[test]
fn a_join_handle_that_a_thread_has_ends_no_block_on() {
    let programs: [HandleOfAThread; 2] = [moves_its_handle, awaits_a_task_that_moves_its_handle];
    for program in programs {
        for (rt, reports) in runtimes() {
            let (give, given) = channel::<JoinHandle<()>>();
            let handle = rt.handle().clone();
            let aborts = thread::spawn(move || {
                let task = given.recv().unwrap();
                while !is_quiet(&handle) {
                    thread::yield_now();
                }
                let found = handle.diagnose();
                task.abort();
                // A handle that is dropped takes the waker with it.
                (found, task)
            });
            rt.block_on(program(give, Arc::default()));
            let (found, _task) = aborts.join().unwrap();
            let ends = |report: &Report| matches!(report, Report::StuckBlockOn(_));
            assert!(!found.iter().any(ends), "{found:?}");
            assert!(!reports.try_iter().any(|report| ends(&report)));
        }
    }
}

/// Returns the reports of `diagnose` once the task waits.
async fn report_of<T>(task: &JoinHandle<T>) -> Vec<Report> {
    loop {
        let found = Handle::current().diagnose();
        if !found.is_empty() {
            return found;
        }
        assert!(!task.is_finished());
        yield_now().await;
    }
}

/// Each task joins the other, and waits for nothing else. Only an abort can end that.
#[test]
fn a_cycle_of_join_handles_is_proven() {
    for (rt, _told) in runtimes() {
        rt.block_on(async {
            let (give, given) = oneshot::channel::<JoinHandle<()>>();
            let first = wakeful::spawn(async move { drop(given.await.unwrap().await) });
            let aborts = first.abort_handle();
            let second = wakeful::spawn(async move { assert!(first.await.is_err()) });
            let (other, end) = (second.abort_handle(), second.id());
            give.send(second).unwrap();
            let found = loop {
                let found = Handle::current().diagnose();
                if !found.is_empty() {
                    break found;
                }
                yield_now().await;
            };
            let [Report::Deadlock(deadlock)] = &*found else { panic!("{found:?}") };
            assert_eq!(found[0].certainty(), Certainty::Proven, "{deadlock}");
            assert!(deadlock.edges().iter().any(|edge| edge.task().id() == Some(end)));
            let text = deadlock.to_string();
            assert!(text.starts_with("deadlock (proven): 2 tasks wait for each other"), "{text}");
            assert!(text.contains("can never run again unless one of them is aborted"), "{text}");
            aborts.abort();
            while !other.is_finished() {
                yield_now().await;
            }
        });
    }
}

/// A task that spins on a flag, until it is reported.
#[test]
fn a_task_that_wakes_itself_is_suspected_of_spinning() {
    for mut builder in builders() {
        let is_reported = Arc::new(AtomicBool::new(false));
        let (tx, rx) = channel();
        let tells = is_reported.clone();
        builder.report_blocked_after(None).on_report(move |report| {
            tx.send(report.clone()).unwrap();
            tells.store(true, Relaxed);
        });
        let rt = builder.build().unwrap();
        let spins = rt.spawn(poll_fn(move |cx| {
            if is_reported.load(Relaxed) {
                return Poll::Ready(());
            }
            cx.waker().wake_by_ref();
            Poll::Pending
        }));
        rt.block_on(spins).unwrap();
        let reports: Vec<Report> = rx.try_iter().collect();
        assert!(matches!(&*reports, [Report::Spinning(_)]), "{reports:?}");
        assert_suspected(&reports);
        let text = reports[0].to_string();
        assert!(text.contains("this is not a bug") && text.contains("yield_now().await"), "{text}");
    }
}

/// `Certainty` is ordered.
#[test]
fn proven_is_more_than_suspected() {
    assert!(Certainty::Proven > Certainty::Suspected);
}
