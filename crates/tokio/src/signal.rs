//! Signals.

pub use wakeful::signal::{ctrl_c, unix};
