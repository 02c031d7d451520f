//! The executor, which spawns hyper's background futures on a runtime.

use std::sync::Arc;
use wakeful::runtime::Handle;
use wakeful::task::Builder;

/// An executor that spawns hyper's background futures as tasks.
///
/// These are the streams of HTTP/2 and the connections of a client. [`Executor::new`] spawns on the
/// runtime that polls the connection, [`Executor::on`] on a given runtime.
///
/// # Examples
///
/// ```
/// use wakeful_hyper::{Executor, Timer};
///
/// let executor = Executor::new().named("web");
/// let mut server = hyper::server::conn::http2::Builder::new(executor);
/// server.timer(Timer::new());
/// ```
#[derive(Clone, Debug, Default)]
pub struct Executor {
    /// The runtime; `None` for the current runtime of the calling thread.
    handle: Option<Handle>,
    name: Option<Arc<str>>,
}

impl Executor {
    /// Creates an executor that spawns on the current runtime of the calling thread.
    ///
    /// # Panics
    ///
    /// Spawning panics if the thread has no current runtime.
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful_hyper::Executor;
    ///
    /// let server = hyper::server::conn::http2::Builder::new(Executor::new());
    /// # drop(server);
    /// ```
    pub fn new() -> Self {
        Self::default()
    }

    /// Creates an executor that spawns on this runtime, from any thread.
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::runtime::Runtime;
    /// use wakeful_hyper::Executor;
    ///
    /// let runtime = Runtime::new()?;
    /// let executor = Executor::on(runtime.handle().clone());
    /// # drop(executor);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn on(handle: Handle) -> Self {
        Self { handle: Some(handle), name: None }
    }

    /// Names the tasks, for dumps and reports.
    ///
    /// All tasks have the same spawn site, in this crate, so the site alone says little.
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful_hyper::Executor;
    ///
    /// let executor = Executor::new().named("web");
    /// # drop(executor);
    /// ```
    pub fn named(self, name: &str) -> Self {
        Self { name: Some(name.into()), ..self }
    }
}

impl<F> hyper::rt::Executor<F> for Executor
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    fn execute(&self, future: F) {
        let builder = Builder::new();
        let builder = match &self.name {
            Some(name) => builder.name(name),
            None => builder,
        };
        let spawned = match &self.handle {
            Some(handle) => builder.spawn_on(future, handle),
            None => builder.spawn(future),
        };
        // The task is detached: hyper learns of its end through channels.
        drop(spawned.expect("spawning does not fail"));
    }
}
