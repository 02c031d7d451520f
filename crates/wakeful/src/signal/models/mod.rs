//! Loom models of signal delivery.

mod event;
