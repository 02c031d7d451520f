//! How certain a report is.

/// How certain the runtime is that a reported situation does not end by itself.
///
/// Only [`Proven`](Self::Proven) reports end a `block_on` or fail a test. After a
/// [`Suspected`](Self::Suspected) report the program continues.
///
/// `Suspected` is less than `Proven`, so `certainty >= Certainty::Proven` is a filter.
///
/// # Examples
///
/// A task that locks a mutex twice. The program could have moved the guard to another task or thread,
/// so the deadlock is suspected:
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
/// A task that waits and has no waker provably waits forever:
///
/// ```
/// use std::future::pending;
/// use std::sync::mpsc;
/// use wakeful::inspect::Certainty;
/// use wakeful::runtime::Builder;
///
/// let (tx, rx) = mpsc::channel();
/// let rt = Builder::new_current_thread()
///     .on_report(move |report| drop(tx.send(report.certainty())))
///     .build()?;
/// rt.block_on(async {
///     wakeful::spawn(pending::<()>());
///     wakeful::task::yield_now().await;
/// });
/// assert_eq!(rx.recv(), Ok(Certainty::Proven));
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Certainty {
    /// The report rests on an assumption that its text names, or the situation may end by itself.
    ///
    /// Most deadlocks are suspected. The report assumes that the task that acquired a guard, a
    /// permit or a channel's receiver still holds it, and it could have been moved. A
    /// [spinning](super::Spinning) task may do work in each poll. A [blocked](super::Blocked) poll
    /// may return.
    Suspected,
    /// Only an abort can end the situation, or the event has already happened.
    Proven,
}

impl Certainty {
    pub(in crate::inspect) fn name(self) -> &'static str {
        match self {
            Certainty::Suspected => "suspected",
            Certainty::Proven => "proven",
        }
    }
}
