//! The bugs of the catalogue, with one source for all tools.
//!
//! Each tool has a module `rt` with the functions that the programs call: tasks, time, primitives,
//! sockets and hosts. A program is a [`System`]: hosts that run until the end, and a client. A run
//! passes if the client returns.

use std::pin::Pin;
use std::task::Poll;

pub type Job = Pin<Box<dyn Future<Output = ()> + Send>>;

/// The version of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Twin {
    Buggy,
    Fixed,
}

impl Twin {
    pub fn is_fixed(self) -> bool {
        self == Twin::Fixed
    }
}

#[allow(dead_code, reason = "not every tool has hosts")]
/// A host, and the program that each start runs.
pub struct Host {
    pub name: &'static str,
    pub program: Box<dyn Fn() -> Job + Send + Sync>,
}

/// Hosts and a client.
pub struct System {
    pub hosts: Vec<Host>,
    pub client: Job,
}

impl System {
    /// Returns a system without hosts.
    pub fn local(client: impl Future<Output = ()> + Send + 'static) -> Self {
        Self { hosts: Vec::new(), client: Box::pin(client) }
    }

    /// Adds a host.
    #[allow(dead_code, reason = "some tools have no hosts")]
    pub fn host<F>(
        mut self,
        name: &'static str,
        program: impl Fn() -> F + Send + Sync + 'static,
    ) -> Self
    where
        F: Future<Output = ()> + Send + 'static,
    {
        self.hosts.push(Host { name, program: Box::new(move || Box::pin(program())) });
        self
    }
}

/// The output of the future that was ready first.
#[allow(dead_code, reason = "not every tool races futures")]
pub enum Either<A, B> {
    First(A),
    Second(B),
}

#[allow(dead_code, reason = "not every tool races futures")]
/// Waits for one of two futures, and drops the other. Polls `a` first.
pub async fn race<A: Future, B: Future>(a: A, b: B) -> Either<A::Output, B::Output> {
    let (mut a, mut b) = (std::pin::pin!(a), std::pin::pin!(b));
    std::future::poll_fn(|cx| {
        if let Poll::Ready(value) = a.as_mut().poll(cx) {
            return Poll::Ready(Either::First(value));
        }
        b.as_mut().poll(cx).map(Either::Second)
    })
    .await
}

/// One bug.
#[derive(Clone, Copy)]
pub struct Bug {
    pub name: &'static str,
    pub system: fn(Twin) -> System,
}

/// Lists bugs by their modules and names.
macro_rules! bugs {
    ($($module:ident::$name:ident),+ $(,)?) => {
        &[$($crate::programs::Bug {
            name: stringify!($name),
            system: $crate::$module::$name,
        }),+]
    };
}
pub(crate) use bugs;
