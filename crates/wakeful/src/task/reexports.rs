//! Public items of `wakeful::task` that other modules implement.
//!
//! Spawning needs a runtime, so the code is in `runtime`. Only this file of the module depends on
//! `runtime`.

pub use crate::runtime::task_api::blocking::spawn_blocking;
pub use crate::runtime::task_api::builder::Builder;
pub use crate::runtime::task_api::local_set::{LocalEnterGuard, LocalSet, spawn_local};
pub use crate::runtime::task_api::spawn::{block_in_place, spawn};
pub use join_set::JoinSet;

/// Named futures of this module, for types that store them.
pub mod futures {
    pub use crate::runtime::join_set::{JoinNext, JoinNextWithId};
    pub use crate::runtime::task_api::local_set::RunUntil;
    pub use crate::task::task_local::TaskLocalFuture;
}

/// A set of tasks that are awaited together.
pub mod join_set {
    pub use crate::runtime::join_set::JoinSet;
    pub use crate::runtime::join_set::builder::Builder;
}
