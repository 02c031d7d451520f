//! The gallery: every bug that wakeful reports, each with its fixed version.

pub mod stalls;
pub mod waits;

use wakeful::task::{self, JoinHandle};

/// The version of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Twin {
    Buggy,
    Fixed,
}

#[track_caller]
pub fn named<F>(name: &str, future: F) -> JoinHandle<F::Output>
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    task::Builder::new().name(name).spawn(future).unwrap()
}
