//! The two degrees of a report.

/// How certain it is that what a [`Report`](super::Report) names does not end by itself.
///
/// Only [`Proven`](Self::Proven) findings end a `block_on` or fail a test. A [`Suspected`](Self::Suspected) one is told,
/// and the program goes on.
///
/// The order is that of strength, so `certainty >= Certainty::Proven` is a filter.
///
/// # Examples
///
/// A task that locks a mutex twice. Its guard could have been moved to another task or thread, so the deadlock is
/// suspected:
///
/// ```
/// use std::sync::Arc;
/// use wakeful::inspect::{Certainty, Report};
/// use wakeful::runtime::Handle;
/// use wakeful::sync::Mutex;
///
/// # wakeful::runtime::Builder::new_current_thread().build()?.block_on(async {
/// let lock = Arc::new(Mutex::new(()));
/// let twice = wakeful::spawn(async move {
///     let _first = lock.lock().await;
///     let _second = lock.lock().await;
/// });
/// wakeful::task::yield_now().await;
///
/// let found = Handle::current().diagnose();
/// assert!(matches!(found[0], Report::Deadlock(_)));
/// assert_eq!(found[0].certainty(), Certainty::Suspected);
/// twice.abort();
/// # });
/// # Ok::<(), std::io::Error>(())
/// ```
///
/// A task that waits and has left its waker nowhere is proven to wait forever:
///
/// ```
/// use std::future::pending;
/// use std::sync::mpsc;
/// use wakeful::inspect::Certainty;
/// use wakeful::runtime::Builder;
///
/// let (tell, told) = mpsc::channel();
/// let rt = Builder::new_current_thread()
///     .on_report(move |report| drop(tell.send(report.certainty())))
///     .build()?;
/// rt.block_on(async {
///     wakeful::spawn(pending::<()>());
///     wakeful::task::yield_now().await;
/// });
/// assert_eq!(told.recv(), Ok(Certainty::Proven));
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Certainty {
    /// The report rests on an assumption, which its text names, or the situation may pass.
    ///
    /// Most deadlocks are suspected: a guard, a permit or a channel's receiver is assumed to be with the task that
    /// acquired it, and could have been moved to another task or thread. A task that [spins](super::Spinning) may do
    /// work in each poll, and a [blocked](super::Blocked) poll may return.
    Suspected,
    /// Nothing in the process but an abort can end it, or it has already happened.
    Proven,
}

impl Certainty {
    pub(super) fn name(self) -> &'static str {
        match self {
            Certainty::Suspected => "suspected",
            Certainty::Proven => "proven",
        }
    }
}
