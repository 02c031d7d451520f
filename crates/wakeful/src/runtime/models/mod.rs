//! Loom models of the runtime.

mod uring_keeper;
