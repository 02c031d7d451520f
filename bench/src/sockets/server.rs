//! The server's process, and the peers that can serve.
//!
//! It prints its port, and then for each line that comes in the processor time it
//! has taken so far, in nanoseconds. It ends with its standard input.

use std::io::{self, BufRead};
use std::net::TcpListener;
use std::process;
use std::thread;
use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};

use super::{Service, Sockets, raw};
#[cfg(feature = "wakeful")]
use crate::peers::on_wakeful;
use crate::peers::{Compio, Flavor, Monoio, MonoioUring, SmolLocal, SmolMulti, on_tokio};

/// The name of the server without a runtime.
pub const RAW: &str = "epoll";
/// The busy tasks of [`Service::BusyEcho`], and how long each works between two yields.
const BURNERS: usize = 8;
const BURN: Duration = Duration::from_micros(200);

/// A peer, or the server without a runtime, and the function that serves.
#[derive(Clone, Copy)]
pub struct Server {
    pub peer: &'static str,
    pub flavor: Flavor,
    serve: fn(TcpListener, Service),
}

impl Server {
    fn of<P: Sockets>() -> Self {
        Self { peer: P::NAME, flavor: P::FLAVOR, serve: serve_on::<P> }
    }

    /// Returns the servers that offer `service`.
    pub fn all(service: Service) -> Vec<Self> {
        let all = [
            #[cfg(feature = "wakeful")]
            Self::of::<on_wakeful::Multi>(),
            #[cfg(feature = "wakeful")]
            Self::of::<on_wakeful::Current>(),
            Self::of::<on_tokio::Multi>(),
            Self::of::<on_tokio::Current>(),
            Self::of::<SmolMulti>(),
            Self::of::<SmolLocal>(),
            Self::of::<Monoio>(),
            Self::of::<MonoioUring>(),
            Self::of::<Compio>(),
            Self { peer: RAW, flavor: Flavor::Single, serve: raw::serve },
        ];
        // monoio and compio have no yield_now and keep a task that wakes itself, and
        // the raw loop has no tasks.
        let can_be_busy = |server: &Server| {
            ["wakeful", "tokio", "smol"].iter().any(|name| server.peer.starts_with(name))
        };
        let takes_part = |server: &Server| service != Service::BusyEcho || can_be_busy(server);
        all.into_iter().filter(takes_part).collect()
    }
}

fn serve_on<P: Sockets>(listener: TcpListener, service: Service) {
    let peer = P::build();
    peer.run(async move {
        if service == Service::BusyEcho {
            for _ in 0..BURNERS {
                P::detach(P::spawn(async {
                    loop {
                        burn();
                        P::yield_now().await;
                    }
                }));
            }
        }
        P::accept_loop(listener, service).await;
    });
}

/// Keeps the thread busy for [`BURN`].
fn burn() {
    let started = Instant::now();
    while started.elapsed() < BURN {
        std::hint::black_box(());
    }
}

/// The server's process.
pub fn run(service: &str, peer: &str) -> Result<(), String> {
    let service = Service::named(service).ok_or_else(|| format!("no service {service}"))?;
    let servers = Server::all(service);
    let server = servers.into_iter().find(|server| server.peer == peer);
    let server = server.ok_or_else(|| format!("{peer} does not serve {}", service.name()))?;
    let listener = TcpListener::bind("127.0.0.1:0").map_err(|error| format!("bind: {error}"))?;
    let port = listener.local_addr().map_err(|error| format!("port: {error}"))?.port();
    listener.set_nonblocking(true).map_err(|error| format!("listener: {error}"))?;
    thread::spawn(answer_questions);
    println!("{port}");
    (server.serve)(listener, service);
    Err(format!("{peer} stopped serving"))
}

fn answer_questions() {
    for _ in io::stdin().lock().lines().map_while(Result::ok) {
        let taken = clock_gettime(ClockId::ProcessCPUTime);
        println!("{}", taken.tv_sec as u64 * 1_000_000_000 + taken.tv_nsec as u64);
    }
    process::exit(0);
}
