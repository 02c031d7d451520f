//! The live page of a program: finds it, requests it and opens it.
//!
//! - `advertised`: finds the pages of the user's processes.
//! - `client`: sends requests to a page.
//! - `browser`: opens the page of a program that `cargo wakeful` starts.

pub mod advertised;
pub mod browser;
pub mod client;
