//! The runtime functions that the programs call, on wakeful.

use std::net::SocketAddr;
use std::time::Duration;
pub use wakeful::io::{AsyncReadExt, AsyncWriteExt};
pub use wakeful::net::{TcpListener, TcpStream, UdpSocket};
use wakeful::sim::{Host, Sim};
pub use wakeful::sim::{choose, system_time};
pub use wakeful::spawn;
pub use wakeful::sync::oneshot;
pub use wakeful::sync::{Mutex, Notify, mpsc};
pub use wakeful::task::yield_now;
pub use wakeful::time::{sleep, timeout};

pub fn set_latency(sim: &Sim) {
    sim.network().latency(Duration::from_millis(1)..Duration::from_millis(20));
}

fn host(name: &str) -> Host {
    Sim::current().host_named(name).expect("a host")
}

pub fn crash(name: &str) {
    host(name).kill();
}

pub fn restart(name: &str) {
    host(name).restart();
}

pub fn partition(a: &str, b: &str) {
    Sim::current().network().partition([a], [b]);
}

pub async fn lookup(name: &str, port: u16) -> SocketAddr {
    wakeful::net::lookup_host((name, port)).await.unwrap().next().unwrap()
}

pub async fn send(socket: &UdpSocket, byte: u8, to: SocketAddr) {
    socket.send_to(&[byte], to).await.unwrap();
}
