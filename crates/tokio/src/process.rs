//! Asynchronous child processes; see `wakeful::process`.

pub use wakeful::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command};
