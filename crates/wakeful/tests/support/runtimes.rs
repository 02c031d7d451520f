//! Runtimes of every kind for tests, each with a hook that fails the test on an unexpected report.
#![allow(dead_code, reason = "each test binary uses its own part of this")]

use std::collections::BTreeMap;
use std::io::Write;
use std::ops::Deref;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, Once, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use wakeful::inspect::{Orphan, Report};
use wakeful::runtime::{Builder, LocalOptions, LocalRuntime, OrphanPolicy, Runtime};
use wakeful::task::yield_now;

/// A runtime with its reports. A report that the test did not take fails the test when `reports` is dropped.
///
/// A test that shuts the runtime down itself moves the fields out.
pub struct TestRuntime<R = Runtime> {
    /// The kind of runtime, for messages.
    pub name: &'static str,
    pub runtime: R,
    pub reports: Reports,
}

impl<R> Deref for TestRuntime<R> {
    type Target = R;

    fn deref(&self) -> &R {
        &self.runtime
    }
}

/// Builds a runtime whose reports are watched.
///
/// With `OrphanPolicy::Panic`, a test that would hang because of a lost waker fails at once.
pub fn watch(name: &'static str, builder: &mut Builder) -> TestRuntime {
    bound_this_binary();
    let reports = Reports::new();
    let runtime = builder.on_report(reports.hook()).build().expect("threads can be started");
    TestRuntime { name, runtime, reports }
}

/// Makes orphans panic, and turns reports of blocked polls off.
///
/// On a busy machine, printing a panic with its stack takes longer than a poll should. Tests about blocked polls build
/// their own runtimes.
fn strict(mut builder: Builder) -> Builder {
    builder.on_orphan(OrphanPolicy::Panic).report_blocked_after(None);
    builder
}

/// Returns a local runtime whose reports are watched.
pub fn local() -> TestRuntime<LocalRuntime> {
    bound_this_binary();
    let reports = Reports::new();
    let mut builder = strict(Builder::new_current_thread());
    builder.enable_all().on_report(reports.hook());
    let runtime =
        builder.build_local(LocalOptions::default()).expect("it asks the system for nothing");
    TestRuntime { name: "local", runtime, reports }
}

pub fn current_thread() -> TestRuntime {
    watch("current_thread", &mut strict(Builder::new_current_thread()))
}

pub fn multi_thread(workers: usize) -> TestRuntime {
    watch("multi_thread", strict(Builder::new_multi_thread()).worker_threads(workers))
}

/// Returns a runtime of every kind.
pub fn runtimes() -> [TestRuntime; 3] {
    [current_thread(), multi_thread(1), multi_thread(2)]
}

/// Returns a runtime of each kind that runs one task at a time.
pub fn serial_runtimes() -> [TestRuntime; 2] {
    [current_thread(), multi_thread(1)]
}

/// Returns a builder of each kind that runs one task at a time, as [`TestRuntime::settle`] needs.
pub fn serial_builders() -> [(&'static str, Builder); 2] {
    let mut multi_thread = Builder::new_multi_thread();
    multi_thread.worker_threads(1);
    [("current_thread", Builder::new_current_thread()), ("multi_thread", multi_thread)]
}

impl TestRuntime {
    /// Returns after every task that is ready now has been polled.
    ///
    /// Requires a runtime that runs one task at a time. A task that yields goes to the back of the queue, so
    /// the tasks before it run first, including tasks in the shared queue.
    pub fn settle(&self) {
        let last = self.spawn(async {
            for _ in 0..128 {
                yield_now().await;
            }
        });
        self.block_on(last).expect("a task that only yields comes to its end");
    }
}

/// All reports of one runtime.
pub struct Reports {
    log: Arc<Log>,
}

#[derive(Default)]
struct Log {
    list: Mutex<Vec<Report>>,
    arrived: Condvar,
}

impl Log {
    fn lock(&self) -> MutexGuard<'_, Vec<Report>> {
        self.list.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Reports {
    pub fn new() -> Self {
        let test = thread::current().name().unwrap_or("unnamed thread").to_owned();
        *running().entry(test).or_default() += 1;
        STEPS.fetch_add(1, Relaxed);
        Self { log: Arc::default() }
    }

    /// Returns a hook for [`Builder::on_report`].
    pub fn hook(&self) -> impl Fn(&Report) + Send + Sync + 'static {
        let log = self.log.clone();
        move |report| {
            // Many tests have tasks that panic. Tests about these reports have their own hooks.
            if matches!(
                report,
                Report::UnobservedPanic(_)
                    | Report::UnawaitedPanic(_)
                    | Report::NeverPolled(_)
                    | Report::SlowShutdown(_)
            ) {
                return;
            }
            log.lock().push(report.clone());
            log.arrived.notify_all();
        }
    }

    /// Takes the reports so far, which count as expected.
    pub fn take(&self) -> Vec<Orphan> {
        self.log.lock().drain(..).map(orphan).collect()
    }

    /// Waits for the next report, and asserts that it is the only one. Blocks the thread.
    pub fn wait_for_one(&self) -> Orphan {
        let mut list = self.log.lock();
        while list.is_empty() {
            list = self.log.arrived.wait(list).unwrap_or_else(PoisonError::into_inner);
        }
        assert_eq!(list.len(), 1, "one report was expected: {list:?}");
        orphan(list.remove(0))
    }
}

fn orphan(report: Report) -> Orphan {
    match report {
        Report::Orphan(orphan) => orphan,
        other => panic!("only orphans were expected: {other}"),
    }
}

impl Drop for Reports {
    fn drop(&mut self) {
        let test = thread::current().name().unwrap_or("unnamed thread").to_owned();
        STEPS.fetch_add(1, Relaxed);
        if let Some(count) = running().get_mut(&test) {
            *count -= 1;
        }
        let left = std::mem::take(&mut *self.log.lock());
        if thread::panicking() {
            return;
        }
        for report in &left {
            eprintln!("{report}");
        }
        assert!(left.is_empty(), "{} report(s) came that the test did not expect", left.len());
    }
}

/// The number of seconds without a new or ended runtime after which a test is considered to hang.
///
/// After [`SUSPECTED_AFTER`], a second counts as the part of it that a thread of this process can compute in. So a test
/// on an overloaded machine is late, but does not hang.
const LIMIT: f64 = 240.0;
const SUSPECTED_AFTER: f64 = 60.0;

/// Returns the part of a core that the calling thread gets: the time of some work without an interruption, divided by
/// the time that it takes.
fn share_of_core() -> f64 {
    const PARTS: u32 = 200;
    let started = Instant::now();
    let part = |_| {
        let started = Instant::now();
        for number in 0..10_000 {
            std::hint::black_box(number);
        }
        started.elapsed()
    };
    let shortest = (0..PARTS).map(part).min().expect("there are parts");
    (shortest * PARTS).as_secs_f64() / started.elapsed().as_secs_f64()
}

/// The number of runtimes that have started or ended.
static STEPS: AtomicU64 = AtomicU64::new(0);

/// Returns the number of running runtimes of each test.
fn running() -> MutexGuard<'static, BTreeMap<String, usize>> {
    static RUNNING: Mutex<BTreeMap<String, usize>> = Mutex::new(BTreeMap::new());
    RUNNING.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Ends the process when a test hangs, and prints the name of the test.
pub fn bound_this_binary() {
    static STARTED: Once = Once::new();
    STARTED.call_once(|| {
        thread::spawn(|| {
            let (mut steps, mut stalled) = (0, 0.0);
            while stalled < LIMIT {
                // The limit for a test that hangs; no test waits for it to pass.
                thread::sleep(Duration::from_secs(1));
                let now = STEPS.load(Relaxed);
                stalled = match () {
                    () if now != steps => 0.0,
                    () if stalled < SUSPECTED_AFTER => stalled + 1.0,
                    () => stalled + share_of_core(),
                };
                steps = now;
            }
            let hanging: Vec<String> = running()
                .iter()
                .filter(|(_, count)| **count > 0)
                .map(|(test, _)| test.clone())
                .collect();
            // Not `eprintln`: the harness keeps its output until the test ends, and the process ends earlier.
            let hanging = hanging.join(", ");
            let _ = writeln!(std::io::stderr(), "no progress for {LIMIT} s: {hanging}");
            std::process::abort();
        });
    });
}
