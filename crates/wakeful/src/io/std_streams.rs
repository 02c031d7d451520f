//! The process's own streams, which need a runtime, unlike the rest of `io`.

pub use crate::stdio::{Stderr, Stdin, Stdout, stderr, stdin, stdout};
