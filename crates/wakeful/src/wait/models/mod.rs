//! Loom models of the wait list, `AtomicWaker`, `RerunGate` and owner slots.

mod owner_slots;
mod wait;
