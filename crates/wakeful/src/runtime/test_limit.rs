//! The time limit of a test: `#[wakeful::test(timeout = "5s")]` and `WAKEFUL_TEST_TIMEOUT`.
//!
//! One thread of the process, `wakeful-limit`, waits for the earliest deadline of all runtimes that
//! have a limit. It starts with the first such runtime. Limits are in real time: a paused clock has
//! no effect.
//!
//! ```text
//! diagram
//!   watch() ──► RUNNING ──deadline──► fail() ──► FAILED ─grace period─► abort()
//!                  │                               │
//!                  └──────────── end() ◄───────────┘
//! ```
//!
//! - At the deadline every `block_on` of the runtime fails, as after any fatal error. The panic
//!   message contains the findings of a deadlock scan and the dump.
//! - A thread that is blocked inside a poll cannot panic, and a test harness cannot end a thread.
//!   If the runtime is not shut down within a grace period, the process prints the dump and aborts.
//! - A shutdown waits for closures and workers until the deadline at most, and panics then.

use super::{Handle, Id, RuntimeInner, environment};
use crate::inspect;
use crate::sys::backtrace::current_tid;
use crate::sys::real_time;
use crate::sys::sync::ignore_poison;
use crate::sys::thread_registry::{ALL_RUNTIMES, RuntimeThread};
use crate::sys::unwind::catch_and_forget;
use std::io::Write;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, Weak};
use std::thread;
use std::time::{Duration, Instant};

const VARIABLE: &str = "WAKEFUL_TEST_TIMEOUT";
/// The bounds of the grace period, which equals the limit between them.
const GRACE: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(5)];

/// The limit of one runtime.
pub(crate) struct TestLimit {
    limit: Duration,
    deadline: Instant,
    /// The kernel's id of the thread that built the runtime and runs the test.
    thread: i32,
    /// The findings and the dump. Set when the deadline has passed.
    failure: OnceLock<String>,
}

/// The time limit that a builder sets for its runtime.
#[derive(Clone, Copy, Debug, Default)]
pub(super) enum TestLimitSetting {
    #[default]
    Unlimited,
    /// `WAKEFUL_TEST_TIMEOUT` sets the limit, if any.
    Environment,
    Given(Duration),
}

impl TestLimit {
    /// Starts the limit of a runtime that is being built.
    ///
    /// # Panics
    ///
    /// If `WAKEFUL_TEST_TIMEOUT` is read and is not a duration.
    #[track_caller]
    pub(super) fn start(setting: TestLimitSetting) -> Option<Self> {
        let limit = match setting {
            TestLimitSetting::Unlimited => return None,
            TestLimitSetting::Environment => from_environment()?.ok()?,
            TestLimitSetting::Given(limit) => match from_environment() {
                Some(Err(Off)) => return None,
                _ => limit,
            },
        };
        // A limit that overflows the clock is treated as no limit.
        let deadline = real_time::now().checked_add(limit)?;
        Some(Self { limit, deadline, thread: current_tid(), failure: OnceLock::new() })
    }

    /// Returns how long the test's thread may take to return after the deadline.
    fn grace(&self) -> Duration {
        self.limit.clamp(GRACE[0], GRACE[1])
    }

    /// Returns how long a shutdown may wait. After the deadline, most of the grace period is kept.
    pub(super) fn shutdown_limit(&self) -> Duration {
        self.deadline.saturating_duration_since(real_time::now()).max(self.grace() / 4)
    }

    /// Panics if the deadline has passed and no `block_on` has failed for it yet.
    #[track_caller]
    pub(super) fn check_shutdown(&self, shared: &Arc<RuntimeInner>) {
        if real_time::now() >= self.deadline && !thread::panicking() {
            let failure = self.failure.get_or_init(|| self.describe(shared));
            panic!("{failure}");
        }
    }

    /// Returns the failure text: the findings first, then the dump.
    fn describe(&self, shared: &Arc<RuntimeInner>) -> String {
        let handle = Handle::from_shared(shared.clone());
        let mut text = format!("{} did not end within {:?}\n", name_of(shared), self.limit);
        for report in handle.diagnose() {
            text += &format!("{report}\n");
        }
        let (threads, idle, queued) = shared.pool.counts();
        let closures = threads.saturating_sub(idle) + queued;
        if shared.is_closing() && closures > 0 {
            text += &format!(
                "its runtime is shutting down and waits for spawn_blocking closures: {closures}\n"
            );
        }
        text += &handle.dump().to_string();
        text
    }

    /// Makes each `block_on` of the runtime panic.
    fn fail(&self, shared: &Arc<RuntimeInner>) {
        let failure = self.failure.get_or_init(|| self.describe(shared));
        shared.base().fail_block_ons(failure.clone());
        shared.propagate_fatal_error();
    }

    /// Prints the failure and the test thread's stack, and aborts, unless the runtime has already
    /// shut down.
    fn abort(&self, shared: &RuntimeInner) {
        let failure = self.failure.get().map_or("", String::as_str);
        let mut text = format!("wakeful: {failure}");
        for (nth, line) in inspect::stack_text(self.thread).iter().enumerate() {
            let label = if nth == 0 { "stack" } else { "" };
            text += &format!("    {label:<11} {line}\n");
        }
        text += &format!(
            "wakeful: the thread of {} is blocked, so this test cannot be stopped alone. Aborting all tests of \
             this process.\n",
            name_of(shared)
        );
        // The lock is kept, so that a test which ends now cannot pass before the abort.
        let watched = lock();
        if watched.entries.iter().any(|entry| entry.id == shared.id) {
            let _ = std::io::stderr().write_all(text.as_bytes());
            std::process::abort();
        }
    }
}

fn name_of(shared: &RuntimeInner) -> String {
    match &shared.config().block_on_name {
        Some(name) => format!("test {name:?}"),
        None => "the test".to_owned(),
    }
}

/// The value `off` of `WAKEFUL_TEST_TIMEOUT`: no test has a limit.
struct Off;

#[track_caller]
fn from_environment() -> Option<Result<Duration, Off>> {
    match environment::duration(VARIABLE)? {
        Ok(limit) if !limit.is_zero() => Some(Ok(limit)),
        Err(text) if text == "off" => Some(Err(Off)),
        other => {
            let text = other.map_or_else(|text| text, |_| "0".to_owned());
            panic!(
                "{VARIABLE} must be a duration such as 30s, 500ms or 2m, or off, but it is {text:?}"
            );
        }
    }
}

/// The runtimes with a limit.
static WATCHED: Mutex<Watched> = Mutex::new(Watched { process: 0, entries: Vec::new() });
/// Signals an earlier deadline.
static CHANGED: Condvar = Condvar::new();

struct Watched {
    /// The process in which the thread runs; a forked child has no such thread.
    process: u32,
    entries: Vec<Entry>,
}

struct Entry {
    id: Id,
    runtime: Weak<RuntimeInner>,
    due: Instant,
    /// Whether the deadline has passed; `due` is then the end of the grace period.
    failed: bool,
}

fn lock() -> MutexGuard<'static, Watched> {
    ignore_poison(WATCHED.lock())
}

/// Starts to watch a runtime's limit, if it has one. Starts the thread if it is not running.
pub(super) fn watch(shared: &Arc<RuntimeInner>) {
    let Some(limit) = &shared.test_limit else { return };
    let mut watched = lock();
    let process = std::process::id();
    if watched.process != process {
        watched.entries.clear();
        let thread = thread::Builder::new().name("wakeful-limit".to_owned());
        if thread.spawn(run).is_err() {
            // The next runtime tries again. A limit that is not watched is reported, not ignored.
            return eprintln!("wakeful: cannot start the thread that watches the limits of tests");
        }
        watched.process = process;
    }
    let runtime = Arc::downgrade(shared);
    watched.entries.push(Entry { id: shared.id, runtime, due: limit.deadline, failed: false });
    CHANGED.notify_one();
}

/// Stops watching the limit of a runtime that has shut down.
pub(super) fn end(shared: &RuntimeInner) {
    if shared.test_limit.is_some() {
        lock().entries.retain(|entry| entry.id != shared.id);
    }
}

/// Runs the thread `wakeful-limit`, which never exits.
fn run() {
    let _own = RuntimeThread::new(ALL_RUNTIMES);
    let mut watched = lock();
    loop {
        let now = real_time::now();
        let Some(first) = watched.entries.iter().min_by_key(|entry| entry.due) else {
            watched = ignore_poison(CHANGED.wait(watched));
            continue;
        };
        let left = first.due.saturating_duration_since(now);
        if !left.is_zero() {
            watched = ignore_poison(CHANGED.wait_timeout(watched, left)).0;
            continue;
        }
        let (id, failed, runtime) = (first.id, first.failed, first.runtime.upgrade());
        drop(watched);
        // A panic must not end the thread, which also watches other tests.
        let next = catch_and_forget(|| runtime.and_then(|shared| act(&shared, failed)))
            .unwrap_or_else(|| (!failed).then(|| real_time::now() + GRACE[1]));
        watched = lock();
        match next {
            // The runtime may have shut down meanwhile.
            Some(due) => {
                if let Some(entry) = watched.entries.iter_mut().find(|entry| entry.id == id) {
                    (entry.due, entry.failed) = (due, true);
                }
            }
            None => watched.entries.retain(|entry| entry.id != id),
        }
    }
}

/// Fails the runtime, or aborts if it already `failed`; returns when to act next.
fn act(shared: &Arc<RuntimeInner>, failed: bool) -> Option<Instant> {
    let limit = shared.test_limit.as_ref()?;
    if failed {
        limit.abort(shared);
        return None;
    }
    limit.fail(shared);
    Some(real_time::now() + limit.grace())
}
