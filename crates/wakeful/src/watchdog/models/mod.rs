//! Loom models of the watchdog.

mod delayed_visit;
