//! Tasks: spawning, joining, cooperative budgets; see `wakeful::task`.

pub use wakeful::task::{
    AbortHandle, Builder, Id, JoinError, JoinHandle, JoinSet, LocalEnterGuard, LocalKey, LocalSet,
    Unconstrained, consume_budget, id, spawn, spawn_blocking, spawn_local, try_id, unconstrained,
    yield_now,
};

#[cfg(feature = "rt-multi-thread")]
pub use wakeful::task::block_in_place;

pub use wakeful::task::{coop, join_set};

/// Named future types.
pub mod futures {
    pub use wakeful::task::futures::TaskLocalFuture;
}
