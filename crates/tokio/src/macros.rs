//! What tokio's macros name in other crates, and programs therefore can.

/// Hidden in tokio, but reached by some all the same.
pub mod support {
    pub use std::future::{Future, IntoFuture, poll_fn};
    pub use std::pin::Pin;
    pub use std::result::Result;
    pub use std::task::{Context, Poll, ready};

    #[cfg(feature = "macros")]
    pub use wakeful::macros::support::{poll_budget_available, thread_rng_n};
}
