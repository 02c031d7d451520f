//! The runtime that polls a `LocalSet`: it is the set's host, supplies the task order and reports
//! for the set.

use crate::inspect::{Delivery, Orphan, Report, Reporter};
use crate::runtime::context;
use crate::runtime::inner::{Flavor, RuntimeInner};
use crate::scheduler::base::SchedulerBase;
use crate::scheduler::config::NextTask;
use crate::scheduler::local_set::{Host, LocalScheduler};
use crate::sys::membarrier::Barriers;
use crate::task::header::Header;
use crate::task::runnable::TaskRef;
use crate::task::schedule::Schedule as _;
use std::any::Any;
use std::ptr;
use std::sync::{Arc, Weak};
use std::time::Duration;

/// Makes the current runtime the host of the set. Returns the order in which its tasks run.
pub(super) fn attach(local: &LocalScheduler) -> NextTask {
    let current = context::with_current(|shared| {
        // This thread's `block_on` is in a poll. The watchdog watches the `block_on` while it has
        // local tasks (`telemetry::scan_gate`).
        Barriers::detect().light();
        shared.base().wake_watchdog_if_asleep();
        (ptr::from_ref(shared).cast::<()>(), shared.base().config.env.next_task)
    });
    let (address, order) = current.unwrap_or((ptr::null(), NextTask::InOrder));
    if !local.is_hosted_by(address) {
        let host = context::try_current().ok();
        let host = host.map(|host| -> Weak<dyn Host> {
            let shared: Arc<RuntimeInner> = host.shared;
            Arc::<RuntimeInner>::downgrade(&shared)
        });
        local.set_host(address, host);
    }
    order
}

impl Host for RuntimeInner {
    fn base(&self) -> &SchedulerBase {
        RuntimeInner::base(self)
    }

    fn orphaned(&self, task: &TaskRef) {
        match &self.flavor {
            Flavor::Current(scheduler) => scheduler.orphaned(task),
            Flavor::Multi(scheduler) => scheduler.orphaned(task),
        }
    }

    fn unobserved_panic(&self, task: &Header, payload: &(dyn Any + Send)) {
        match &self.flavor {
            Flavor::Current(scheduler) => scheduler.unobserved_panic(task, payload),
            Flavor::Multi(scheduler) => scheduler.unobserved_panic(task, payload),
        }
    }

    fn ensure_watched(&self) {
        // The watchdog always watches the workers of a multi-thread runtime.
        if let Flavor::Current(scheduler) = &self.flavor {
            scheduler.ensure_watched();
        }
    }
}

/// Reports an orphan of a set that is polled in no runtime.
///
/// The report goes to the current runtime of the thread that found the orphan, or to stderr.
pub(super) fn report_without_host(task: &TaskRef) {
    if context::with_current(|shared| shared.base().orphaned(task)).is_none() {
        let reporter = Reporter::new(None, Delivery::new(None, None));
        let report = Arc::new(Report::Orphan(Orphan::new(task)));
        reporter.report(&report, Duration::ZERO, || ());
    }
}
