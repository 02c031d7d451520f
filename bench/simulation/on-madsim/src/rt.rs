//! The runtime functions that the programs call, on madsim.

use madsim::net::NetSim;
use madsim::rand::Rng;
use madsim::runtime::Handle;
use madsim::task::NodeId;
use std::cell::RefCell;
use std::net::SocketAddr;
pub use std::time::SystemTime;
pub use tokio::io::{AsyncReadExt, AsyncWriteExt};
pub use tokio::net::{TcpListener, TcpStream, UdpSocket};
pub use tokio::spawn;
pub use tokio::sync::{Mutex, Notify, mpsc, oneshot};
pub use tokio::task::yield_now;
pub use tokio::time::{sleep, timeout};

pub fn choose(n: u64) -> u64 {
    madsim::rand::thread_rng().gen_range(0..n)
}

/// madsim intercepts the system call of the standard library.
pub fn system_time() -> SystemTime {
    SystemTime::now()
}

thread_local! {
    static NODES: RefCell<Vec<(&'static str, NodeId)>> = const { RefCell::new(Vec::new()) };
}

pub fn set_nodes(nodes: Vec<(&'static str, NodeId)>) {
    NODES.set(nodes);
}

fn node(name: &str) -> NodeId {
    NODES.with_borrow(|nodes| nodes.iter().find(|node| node.0 == name).expect("a host").1)
}

pub fn crash(host: &str) {
    Handle::current().kill(node(host));
}

pub fn restart(host: &str) {
    Handle::current().restart(node(host));
}

pub fn partition(a: &str, b: &str) {
    NetSim::current().clog_link(node(a), node(b));
    NetSim::current().clog_link(node(b), node(a));
}

pub async fn lookup(host: &str, port: u16) -> SocketAddr {
    madsim::net::lookup_host((host, port)).await.unwrap().next().unwrap()
}

pub async fn send(socket: &UdpSocket, byte: u8, to: SocketAddr) {
    socket.send_to(to, &[byte]).await.unwrap();
}
