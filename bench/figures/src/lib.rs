//! What the records in `bench/records` are made of, and what is made of them.
//!
//! [`stats`] has medians and comparisons of samples, [`machine`] the description of a
//! machine, [`choice`] the names that a command line chooses.

pub mod choice;
pub mod machine;
pub mod stats;
