//! Items that tokio's macros use in other crates, so that programs can reach them.

/// Hidden in tokio, but some programs use it.
pub mod support {
    pub use std::future::{Future, IntoFuture, poll_fn};
    pub use std::pin::Pin;
    pub use std::result::Result;
    pub use std::task::{Context, Poll, ready};

    #[cfg(feature = "macros")]
    pub use wakeful::macros::support::{poll_budget_available, thread_rng_n};
}
