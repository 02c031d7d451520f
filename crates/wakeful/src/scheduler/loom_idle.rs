//! Model of this room for loom.
