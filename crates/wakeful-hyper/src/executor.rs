//! Where hyper's own futures run.

use std::sync::Arc;
use wakeful::runtime::Handle;
use wakeful::task::Builder;

/// Spawns what hyper wants to run beside a connection: the streams of HTTP/2, and
/// a client's connections.
///
/// [`Executor::new`] spawns on the runtime that polls the connection,
/// [`Executor::on`] on the one you name.
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
    /// Where to spawn; `None` is wherever we are called.
    handle: Option<Handle>,
    name: Option<Arc<str>>,
}

impl Executor {
    /// Spawns on the current runtime, whichever that is at the time. Outside of
    /// one it panics when hyper has something to spawn.
    pub fn new() -> Self {
        Self::default()
    }

    /// Spawns on this runtime, from anywhere.
    pub fn on(handle: Handle) -> Self {
        Self { handle: Some(handle), name: None }
    }

    /// What the tasks are called in reports. They are all spawned at the same
    /// place, so a name tells more than the place does.
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
        // Nobody joins it: hyper hears of its end through its own channels.
        drop(spawned.expect("spawning does not fail"));
    }
}
