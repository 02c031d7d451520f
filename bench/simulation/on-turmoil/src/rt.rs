//! The runtime functions that the programs call, on turmoil and tokio.

use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use std::cell::RefCell;
use std::net::SocketAddr;
use std::os::unix::fs::FileExt;
use std::time::SystemTime;
pub use tokio::io::{AsyncReadExt, AsyncWriteExt};
pub use tokio::spawn;
pub use tokio::sync::{mpsc, oneshot};
pub use tokio::time::{sleep, timeout};
use turmoil::fs::shim::std::fs::{self, OpenOptions};
pub use turmoil::net::{TcpListener, TcpStream, UdpSocket};
pub use turmoil::partition;

thread_local! {
    static RNG: RefCell<SmallRng> = RefCell::new(SmallRng::seed_from_u64(0));
    static COMMANDS: RefCell<Vec<Command>> = const { RefCell::new(Vec::new()) };
}

/// An action that only the owner of the simulation can perform, between two steps.
pub enum Command {
    Crash(&'static str),
    Restart(&'static str),
}

pub fn seed(seed: u64) {
    RNG.set(SmallRng::seed_from_u64(!seed));
    COMMANDS.take();
}

pub fn commands() -> Vec<Command> {
    COMMANDS.take()
}

pub fn choose(n: u64) -> u64 {
    RNG.with_borrow_mut(|rng| rng.random_range(0..n))
}

pub fn system_time() -> SystemTime {
    SystemTime::UNIX_EPOCH + turmoil::since_epoch().unwrap()
}

pub fn crash(host: &'static str) {
    COMMANDS.with_borrow_mut(|commands| commands.push(Command::Crash(host)));
}

pub fn restart(host: &'static str) {
    COMMANDS.with_borrow_mut(|commands| commands.push(Command::Restart(host)));
}

pub async fn lookup(host: &str, port: u16) -> SocketAddr {
    (turmoil::lookup(host), port).into()
}

pub async fn send(socket: &UdpSocket, byte: u8, to: SocketAddr) {
    socket.send_to(&[byte], to).await.unwrap();
}

/// The block size of the disk. A write of several blocks may be torn.
pub const BLOCK: u64 = 8;

pub fn read_file(name: &str) -> Vec<u8> {
    fs::read(format!("/{name}")).unwrap_or_default()
}

/// Overwrites the file from its start, without syncing it.
pub fn write_file(name: &str, content: &[u8]) {
    let path = format!("/{name}");
    let is_new = !fs::exists(&path);
    let file = OpenOptions::new().write(true).create(true).open(&path).unwrap();
    if is_new {
        // The name is durable from the start, because these bugs are about the content.
        file.sync_all().unwrap();
        fs::sync_dir("/").unwrap();
    }
    file.write_all_at(content, 0).unwrap();
}

pub fn sync_file(name: &str) {
    OpenOptions::new().write(true).open(format!("/{name}")).unwrap().sync_all().unwrap();
}
