//! What a runtime and its handles share.

use super::Id;
use super::context;
use crate::inspect::{Report, ReportHook, Reporter};
use crate::scheduler::config::Witness;
use crate::scheduler::current::CurrentThread;
use crate::scheduler::multi::MultiThread;
use crate::scheduler::pool::Pool;
use crate::task::header::Header;
use crate::task::runnable::TaskRef;
use std::any::Any;
use std::sync::{Arc, OnceLock, Weak};
use std::thread::ThreadId;

/// Everything behind a `Handle`.
pub(crate) struct Shared {
    pub(crate) id: Id,
    pub(crate) name: Option<String>,
    pub(crate) flavor: Flavor,
    pub(crate) pool: Arc<Pool>,
    /// The thread of a `LocalRuntime`, where tasks need not be `Send`.
    pub(crate) local_to: Option<ThreadId>,
    pub(crate) reporter: Arc<Reporter>,
}

/// The scheduler, by its kind.
pub(crate) enum Flavor {
    Current(Arc<CurrentThread>),
    Multi(Arc<MultiThread>),
}

impl Shared {
    pub(crate) fn for_each_task(&self, f: impl FnMut(TaskRef)) {
        match &self.flavor {
            Flavor::Current(scheduler) => scheduler.for_each_task(f),
            Flavor::Multi(scheduler) => scheduler.for_each_task(f),
        }
    }
}

/// Puts into words what the schedulers notice, and gives their threads the
/// runtime's context.
pub(crate) struct RuntimeWitness {
    /// Set when the runtime is complete; weak, since the schedulers hold us.
    pub(crate) shared: OnceLock<Weak<Shared>>,
    pub(crate) reporter: Arc<Reporter>,
}

impl RuntimeWitness {
    pub(crate) fn new(hook: Option<ReportHook>) -> Arc<Self> {
        Arc::new(Self { shared: OnceLock::new(), reporter: Arc::new(Reporter::new(hook)) })
    }
}

impl Witness for RuntimeWitness {
    fn orphan(&self, task: &TaskRef) -> String {
        let report = Report::orphan(task);
        let text = report.to_string();
        self.reporter.report(&report);
        text
    }

    fn panicked(&self, _task: &Header, _payload: &(dyn Any + Send)) {}

    fn in_context(&self, life: &mut dyn FnMut()) {
        // The first worker may be faster than the builder.
        let shared = loop {
            match self.shared.get() {
                Some(shared) => break shared.upgrade(),
                None => std::thread::yield_now(),
            }
        };
        match shared {
            Some(shared) => {
                let _guard = context::enter(&shared);
                life();
            }
            // The runtime is going down already; the thread still has to
            // leave in order.
            None => life(),
        }
    }
}
