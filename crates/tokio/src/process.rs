//! Child processes.

pub use wakeful::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command};
