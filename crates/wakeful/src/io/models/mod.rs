//! Loom models of the in-memory pipes.

mod pipe;
