//! Runtimes, their builder and handles; see `wakeful::runtime`.

pub use wakeful::runtime::{
    Builder, EnterGuard, Handle, Id, LocalOptions, LocalRuntime, RngSeed, Runtime, RuntimeFlavor,
    RuntimeMetrics, TryCurrentError, UnhandledPanic, is_rt_shutdown_err, worker_index,
};

#[cfg(tokio_unstable)]
pub use wakeful::runtime::{
    HistogramConfiguration, HistogramScale, InvalidHistogramConfiguration, LogHistogram,
    LogHistogramBuilder, TaskMeta,
};

/// Task dumps, as far as wakeful's own can express them; see `wakeful::inspect::Dump`.
#[cfg(all(tokio_unstable, feature = "taskdump"))]
pub mod dump {
    pub use wakeful::inspect::{Dump, TaskDump as Task, TaskTrace as Trace};
}
