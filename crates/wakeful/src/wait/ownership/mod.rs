//! Which task owns a resource that other tasks wait for.
//!
//! Deadlock detection and dumps read ownership. It costs an uncontended resource a few plain stores.
//!
//! - [`owner`]: the id of the owning task and the site where it acquired the resource.
//! - [`owner_slots`]: owner slots that any thread may read.
//! - [`resource_record`]: the record of a contended resource, found through the task that waits.
//! - [`stall_note`]: amounts that explain a long wait.

pub(crate) mod owner;
pub(crate) mod owner_slots;
pub(crate) mod resource_record;
pub(crate) mod stall_note;
