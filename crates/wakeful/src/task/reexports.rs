//! The public face of `wakeful::task`: what spawns needs a runtime and lives in
//! that room; users look for it here. The one file of this room that looks right.

pub use crate::runtime::task_api::blocking::spawn_blocking;
pub use crate::runtime::task_api::builder::Builder;
pub use crate::runtime::task_api::local_set::{LocalEnterGuard, LocalSet, spawn_local};
pub use crate::runtime::task_api::spawn::{block_in_place, spawn};
pub use join_set::JoinSet;

/// Futures that have a name because users hold them.
pub mod futures {
    pub use crate::runtime::join_set::{JoinNext, JoinNextWithId};
    pub use crate::runtime::task_api::local_set::RunUntil;
    pub use crate::task::task_local::TaskLocalFuture;
}

/// Sets of tasks that are awaited together.
pub mod join_set {
    pub use crate::runtime::join_set::JoinSet;
    pub use crate::runtime::join_set::builder::Builder;
}
