//! Loom models of the run queues.

mod queues;
