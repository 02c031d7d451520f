//! The public face of `wakeful::task`: what spawns needs a runtime and lives in
//! that room; users look for it here. The one file of this room that looks right.

pub use crate::runtime::blocking::spawn_blocking;
pub use crate::runtime::local_set::{LocalEnterGuard, LocalSet, spawn_local};
pub use crate::runtime::spawn::{block_in_place, spawn};
pub use crate::runtime::task_builder::Builder;
pub use join_set::JoinSet;

/// Futures that have a name because users hold them.
pub mod futures {
    pub use crate::runtime::join_set::{JoinNext, JoinNextWithId};
    pub use crate::runtime::local_set::RunUntil;
    pub use crate::task::task_local::TaskLocalFuture;
}

/// Sets of tasks that are awaited together.
pub mod join_set {
    pub use crate::runtime::join_builder::Builder;
    pub use crate::runtime::join_set::JoinSet;
}
