//! What a runtime does when a task panics: `Builder::unhandled_panic` and `WAKEFUL_ON_PANIC`.
//!
//! ```text
//! diagram
//!   a task panics ──► after_panic(): any panic may shut the runtime down, as tokio does
//!        │
//!        ├─ JoinHandle awaited ──► observed, nothing more
//!        └─ JoinHandle dropped ──► UnobservedPanic ──► after_unobserved(): shut down, abort or call
//! ```
//!
//! A kept handle may still be awaited, so `UnawaitedPanic` is only suspected, and only reported.

use crate::inspect::{Report, fatal_panic_text};
use crate::task::header::Header;
use crate::task::state::BLOCKING;
use std::any::Any;
use std::fmt;
use std::sync::{Arc, OnceLock};

/// What the runtime does when a task or a blocking closure panics.
///
/// Set it with [`Builder::unhandled_panic`](crate::runtime::Builder::unhandled_panic), or with the
/// environment variable `WAKEFUL_ON_PANIC` for programs that you don't want to edit. `Ignore` and
/// `ShutdownRuntime` also exist in tokio. The other values apply to panics that no code can
/// observe, because the JoinHandle was dropped
/// ([`UnobservedPanic`](crate::inspect::UnobservedPanic)). A kept handle may still be awaited, so
/// an [`UnawaitedPanic`](crate::inspect::UnawaitedPanic) is only reported.
///
/// The policy applies to tasks, to the tasks of a [`LocalSet`](crate::task::LocalSet) that the
/// runtime polls, and to closures of [`spawn_blocking`](crate::task::spawn_blocking). A panic that
/// is dropped while the runtime shuts down does not count.
///
/// # Examples
///
/// ```
/// use std::panic::{AssertUnwindSafe, catch_unwind};
/// use wakeful::runtime::{Builder, UnhandledPanic};
///
/// let runtime = Builder::new_current_thread()
///     .unhandled_panic(UnhandledPanic::ShutdownIfUnobserved)
///     .on_report(|_| {})
///     .build()?;
/// runtime.block_on(async {
///     let task = wakeful::spawn(async { panic!("awaited, so observed") });
///     assert!(task.await.unwrap_err().is_panic());
/// });
/// let result = catch_unwind(AssertUnwindSafe(|| {
///     runtime.block_on(async {
///         drop(wakeful::spawn(async { panic!("a bug") }));
///         std::future::pending::<()>().await
///     })
/// }));
/// let message = *result.unwrap_err().downcast::<String>().unwrap();
/// assert!(message.contains("a bug"));
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub enum UnhandledPanic {
    /// The panic goes to the task's JoinHandle. If no code observes it, it is reported.
    #[default]
    Ignore,
    /// The panic of any task shuts the runtime down at once, observed or not.
    ///
    /// All tasks are dropped, and every `block_on` panics, now and later. If no thread is in
    /// `block_on` of a current-thread runtime, the next `block_on` drops the tasks. A panic in a
    /// closure of the blocking pool does not shut the runtime down.
    ShutdownRuntime,
    /// A panic that no code observes is reported, and shuts the runtime down.
    ///
    /// All tasks are dropped, and every `block_on` panics with the report, now and later.
    ShutdownIfUnobserved,
    /// A panic that no code observes is reported and printed to stderr, and the process aborts.
    AbortIfUnobserved,
    /// A panic that no code observes is reported, and a function is called with the report.
    ///
    /// Create this value with [`UnhandledPanic::call`].
    Call(PanicHook),
}

/// The function of [`UnhandledPanic::Call`]; created by [`UnhandledPanic::call`].
///
/// # Examples
///
/// ```
/// use wakeful::runtime::UnhandledPanic;
///
/// let policy = UnhandledPanic::call(|report| eprintln!("{report}"));
/// assert!(matches!(policy, UnhandledPanic::Call(_)));
/// ```
#[derive(Clone)]
pub struct PanicHook(Arc<dyn Fn(&Report) + Send + Sync>);

impl PanicHook {
    pub(super) fn call(&self, report: &Report) {
        (self.0)(report);
    }
}

impl fmt::Debug for PanicHook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PanicHook").finish_non_exhaustive()
    }
}

impl UnhandledPanic {
    /// Creates a policy that calls `f` with the report of each panic that no code observes.
    ///
    /// The report is a [`Report::UnobservedPanic`]. The report is delivered before the call. Unlike
    /// the hook of [`on_report`](crate::runtime::Builder::on_report), `f` is subject to no filter
    /// and no rate limit.
    ///
    /// The thread that finds the panic calls `f`: a worker, or the thread that drops the
    /// JoinHandle. A panic of `f` is caught.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::sync::mpsc;
    /// use wakeful::inspect::Report;
    /// use wakeful::runtime::{Builder, UnhandledPanic};
    ///
    /// let (tx, rx) = mpsc::channel();
    /// let runtime = Builder::new_current_thread()
    ///     .unhandled_panic(UnhandledPanic::call(move |report| {
    ///         if let Report::UnobservedPanic(panic) = report {
    ///             tx.send(panic.message().map(str::to_owned)).unwrap();
    ///         }
    ///     }))
    ///     .build()?;
    /// runtime.block_on(async {
    ///     drop(wakeful::spawn(async { panic!("no such user") }));
    ///     wakeful::task::yield_now().await;
    /// });
    /// assert_eq!(rx.recv().unwrap().as_deref(), Some("no such user"));
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn call<F>(f: F) -> Self
    where
        F: Fn(&Report) + Send + Sync + 'static,
    {
        Self::Call(PanicHook(Arc::new(f)))
    }

    /// Parses a value of `WAKEFUL_ON_PANIC`.
    fn parse(text: &str) -> Option<Self> {
        match text {
            "report" => Some(Self::Ignore),
            "shutdown" => Some(Self::ShutdownIfUnobserved),
            "abort" => Some(Self::AbortIfUnobserved),
            _ => None,
        }
    }

    /// Reads the environment variable once per process. Prints a warning if its value is invalid.
    fn from_env() -> Self {
        static POLICY: OnceLock<UnhandledPanic> = OnceLock::new();
        let policy = POLICY.get_or_init(|| {
            let Some(text) = std::env::var_os("WAKEFUL_ON_PANIC") else { return Self::Ignore };
            let text = text.to_string_lossy();
            Self::parse(&text).unwrap_or_else(|| {
                eprintln!(
                    "wakeful: WAKEFUL_ON_PANIC must be report, shutdown or abort, but it is {text:?}. \
                     Panics that no code observes are reported."
                );
                Self::Ignore
            })
        });
        policy.clone()
    }
}

/// The policy of one runtime.
pub(super) struct PanicPolicy {
    behavior: UnhandledPanic,
    is_from_env: bool,
}

/// The action to take on a panic that no code observes.
#[must_use]
pub(super) enum AfterUnobserved<'a> {
    Report,
    /// Report it, and fail every `block_on`.
    ShutDown,
    /// Report it, and abort the process.
    Abort,
    /// Report it, and call the function.
    Call(&'a PanicHook),
}

impl PanicPolicy {
    /// Creates the policy from the builder's setting, or else from the environment variable.
    pub(super) fn new(behavior: Option<UnhandledPanic>) -> Self {
        let is_from_env = behavior.is_none();
        let behavior = behavior.unwrap_or_else(UnhandledPanic::from_env);
        Self { behavior, is_from_env }
    }

    /// Describes the reaction to an unobserved panic and its setting, if there is more than a
    /// report.
    pub(super) fn text(&self) -> Option<&'static str> {
        Some(match (&self.behavior, self.is_from_env) {
            (UnhandledPanic::Ignore | UnhandledPanic::ShutdownRuntime, _) => return None,
            (UnhandledPanic::ShutdownIfUnobserved, true) => {
                "shut the runtime down (WAKEFUL_ON_PANIC=shutdown)"
            }
            (UnhandledPanic::ShutdownIfUnobserved, false) => {
                "shut the runtime down (UnhandledPanic::ShutdownIfUnobserved)"
            }
            (UnhandledPanic::AbortIfUnobserved, true) => {
                "abort the process (WAKEFUL_ON_PANIC=abort)"
            }
            (UnhandledPanic::AbortIfUnobserved, false) => {
                "abort the process (UnhandledPanic::AbortIfUnobserved)"
            }
            (UnhandledPanic::Call(_), _) => "call a function (UnhandledPanic::Call)",
        })
    }

    /// Returns the message with which every `block_on` must fail, if this panic is fatal.
    pub(super) fn after_panic(&self, task: &Header, payload: &(dyn Any + Send)) -> Option<String> {
        // The panic of a blocking closure goes to its JoinHandle alone, as with tokio.
        let is_closure = task.state.load().has(BLOCKING);
        let is_fatal = matches!(self.behavior, UnhandledPanic::ShutdownRuntime) && !is_closure;
        is_fatal.then(|| {
            let headline = "a spawned task panicked and the runtime is configured to shut down on \
                            unhandled panic";
            shutdown_text(headline, task, payload)
        })
    }

    /// Returns the action to take on a panic that no code observes.
    pub(super) fn after_unobserved(&self) -> AfterUnobserved<'_> {
        match &self.behavior {
            UnhandledPanic::Ignore | UnhandledPanic::ShutdownRuntime => AfterUnobserved::Report,
            UnhandledPanic::ShutdownIfUnobserved => AfterUnobserved::ShutDown,
            UnhandledPanic::AbortIfUnobserved => AfterUnobserved::Abort,
            UnhandledPanic::Call(hook) => AfterUnobserved::Call(hook),
        }
    }
}

/// Returns the panic message of a local set that shuts down because a task panicked.
pub(super) fn local_set_text(task: &Header, payload: &(dyn Any + Send)) -> String {
    let headline =
        "a spawned task panicked and the LocalSet is configured to shutdown on unhandled panic";
    shutdown_text(headline, task, payload)
}

fn shutdown_text(headline: &str, task: &Header, payload: &(dyn Any + Send)) -> String {
    fatal_panic_text(headline, task, payload, "shut down (UnhandledPanic::ShutdownRuntime)")
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::{PanicPolicy, UnhandledPanic};

    #[test]
    fn the_variable_has_three_values() {
        let policy = |text| UnhandledPanic::parse(text).map(|it| format!("{it:?}"));
        assert_eq!(policy("report").as_deref(), Some("Ignore"));
        assert_eq!(policy("shutdown").as_deref(), Some("ShutdownIfUnobserved"));
        assert_eq!(policy("abort").as_deref(), Some("AbortIfUnobserved"));
        for text in ["", "ignore", "Abort", "shutdown ", "report,abort"] {
            assert_eq!(policy(text), None, "{text}");
        }
    }

    #[test]
    fn a_policy_names_its_setting() {
        let of_builder = |behavior| PanicPolicy::new(Some(behavior)).text();
        assert_eq!(of_builder(UnhandledPanic::Ignore), None);
        assert_eq!(of_builder(UnhandledPanic::ShutdownRuntime), None);
        assert_eq!(
            of_builder(UnhandledPanic::AbortIfUnobserved),
            Some("abort the process (UnhandledPanic::AbortIfUnobserved)")
        );
        let policy = PanicPolicy { behavior: UnhandledPanic::AbortIfUnobserved, is_from_env: true };
        assert_eq!(policy.text(), Some("abort the process (WAKEFUL_ON_PANIC=abort)"));
    }
}
