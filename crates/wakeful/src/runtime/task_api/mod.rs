//! The functions of `wakeful::task` that need a runtime: spawning, blocking closures, local sets.
//!
//! `task/reexports.rs` makes them public there.

pub(crate) mod blocking;
pub(crate) mod builder;
pub(crate) mod local_set;
pub(crate) mod spawn;
