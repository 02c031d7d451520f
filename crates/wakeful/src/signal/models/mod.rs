//! Loom models of signal delivery.

mod slot;
