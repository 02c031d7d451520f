//! Servers, and the load generator that measures them.
//!
//! A cell of a row about sockets is three processes: the parent, which [`measure`]s, a server of
//! one peer, and a load generator. All peers have the same generator: [`load`] for echo, the
//! program `wrk` for HTTP. The server is this binary with `--serve SERVICE PEER`, the generator
//! this binary with `--load`; both are pinned to cores as the row says.
//!
//! | file | what it is |
//! | --- | --- |
//! | `server.rs` | the server's process, and the table of peers that can serve |
//! | `load.rs` | the load generator |
//! | `measure.rs` | starts both, and reads the figures |
//! | `peers.rs` | how each peer accepts, reads and writes |
//! | `raw.rs` | a server without a runtime: the limit |
//! | `hello.rs` | the answer of the HTTP servers |

pub mod hello;
pub mod load;
pub mod measure;
mod peers;
mod raw;
pub mod server;

use std::net::TcpListener;

use crate::peers::Peer;

/// What a server does with its connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Service {
    /// Sends back what comes.
    Echo,
    /// Sends back what comes, while other tasks use CPU time between yields.
    BusyEcho,
    /// hyper's HTTP/1 with a short answer.
    Http,
}

impl Service {
    const ALL: [Service; 3] = [Service::Echo, Service::BusyEcho, Service::Http];

    pub fn name(self) -> &'static str {
        match self {
            Service::Echo => "echo",
            Service::BusyEcho => "busy-echo",
            Service::Http => "http",
        }
    }

    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|service| service.name() == name)
    }
}

/// A peer with sockets.
pub trait Sockets: Peer {
    /// Accepts connections and spawns a task for each, forever. `listener` is
    /// non-blocking; [`Service::BusyEcho`] is [`Service::Echo`] here.
    fn accept_loop(
        listener: TcpListener,
        service: Service,
    ) -> impl Future<Output = ()> + Send + 'static;
}

/// Reads and echoes at most so much at a time.
pub const BUFFER: usize = 1024;
