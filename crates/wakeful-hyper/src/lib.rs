//! Runs hyper on wakeful, by implementing the traits of [`hyper::rt`].
//!
//! | trait of hyper | type of this crate |
//! | --- | --- |
//! | [`hyper::rt::Executor`] | [`Executor`], which spawns tasks |
//! | [`hyper::rt::Timer`] | [`Timer`], which sleeps on the runtime's clock, also if it is paused |
//! | [`hyper::rt::Read`] and [`hyper::rt::Write`] | [`Io`], which wraps a stream of wakeful for hyper, and the reverse |
//!
//! # Examples
//!
//! A server that handles each connection in a task:
//!
//! ```no_run
//! use http_body_util::Full;
//! use hyper::body::{Bytes, Incoming};
//! use hyper::server::conn::http1;
//! use hyper::service::service_fn;
//! use hyper::{Request, Response};
//! use std::convert::Infallible;
//! use wakeful::net::TcpListener;
//! use wakeful_hyper::{Io, Timer};
//!
//! async fn hello(_: Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
//!     Ok(Response::new(Full::new(Bytes::from("hello"))))
//! }
//!
//! #[wakeful::main]
//! async fn main() -> std::io::Result<()> {
//!     let listener = TcpListener::bind("127.0.0.1:8080").await?;
//!     loop {
//!         let (stream, _peer) = listener.accept().await?;
//!         wakeful::spawn(async move {
//!             let mut server = http1::Builder::new();
//!             let served = server.timer(Timer::new()).serve_connection(Io::new(stream), service_fn(hello));
//!             if let Err(error) = served.await {
//!                 eprintln!("a connection failed: {error}");
//!             }
//!         });
//!     }
//! }
//! ```
//!
//! This is a separate crate because hyper depends on tokio, and wakeful does not. hyper uses only
//! tokio's channels; no tokio runtime is started.
#![deny(unsafe_code)]

mod executor;
mod io;
mod timer;

pub use executor::Executor;
pub use io::Io;
pub use timer::Timer;
