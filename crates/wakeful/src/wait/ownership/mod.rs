//! Which task owns a resource that other tasks wait for.
//!
//! - [`owner`]: the owner's task id and the place where it acquired the resource.
//! - [`owner_slots`]: owner slots that any thread may read.
//! - [`resource_record`]: the record of a contended resource, found from the task that waits.

pub(crate) mod owner;
pub(crate) mod owner_slots;
pub(crate) mod resource_record;
