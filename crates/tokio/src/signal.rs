//! Signals of the operating system; see `wakeful::signal`.

pub use wakeful::signal::{ctrl_c, unix};
