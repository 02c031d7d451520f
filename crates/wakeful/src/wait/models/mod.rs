//! Loom models of wait lists, waker cells and owner slots.

mod owner_slots;
mod wait;
