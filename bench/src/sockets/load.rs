//! The load generator: a number of connections, each with one request of 64 bytes in flight.
//!
//! One thread, one epoll, no runtime.

use std::io::{self, BufRead, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use rustix::buffer::spare_capacity;
use rustix::event::Timespec;
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use serde_json::json;

/// Bytes of a request and of its answer.
const SIZE: usize = 64;
/// The duration of the warm-up.
const WARM: Duration = Duration::from_millis(200);
/// The duration of the measurement.
const MEASURED: Duration = Duration::from_millis(800);
/// A server that sends nothing for this time counts as broken.
const PATIENCE: Timespec = Timespec { tv_sec: 10, tv_nsec: 0 };

struct Connection {
    stream: TcpStream,
    sent_at: Instant,
    /// Bytes of the answer so far.
    received: usize,
}

/// The generator's process: warms up, prints a line, waits for one, measures, and
/// prints its figures.
pub fn run(addr: SocketAddr, connections: usize) -> Result<(), String> {
    let mut load = Load::new(addr, connections).map_err(|error| format!("{addr}: {error}"))?;
    load.drive(WARM)?;
    println!("warm");
    let mut line = String::new();
    io::stdin().lock().read_line(&mut line).map_err(|error| format!("standard input: {error}"))?;
    let started = Instant::now();
    let mut latencies_ns = load.drive(MEASURED)?;
    let seconds = started.elapsed().as_secs_f64();
    latencies_ns.sort_unstable();
    let figures = json!({
        "requests": latencies_ns.len(),
        "seconds": seconds,
        "p50_us": percentile_us(&latencies_ns, 0.5),
        "p99_us": percentile_us(&latencies_ns, 0.99),
        "p999_us": percentile_us(&latencies_ns, 0.999),
    });
    println!("{figures}");
    Ok(())
}

/// Returns a percentile of sorted latencies, in microseconds.
fn percentile_us(latencies_ns: &[u64], share: f64) -> f64 {
    let place = (latencies_ns.len() as f64 * share) as usize;
    latencies_ns.get(place).map_or(0.0, |&ns| ns as f64 / 1000.0)
}

struct Load {
    epoll: std::os::fd::OwnedFd,
    connections: Vec<Connection>,
}

impl Load {
    fn new(addr: SocketAddr, count: usize) -> io::Result<Self> {
        let epoll = epoll::create(CreateFlags::CLOEXEC)?;
        let mut connections = Vec::with_capacity(count);
        for number in 0..count {
            let stream = TcpStream::connect(addr)?;
            stream.set_nodelay(true)?;
            stream.set_nonblocking(true)?;
            epoll::add(&epoll, &stream, EventData::new_u64(number as u64), EventFlags::IN)?;
            connections.push(Connection { stream, sent_at: Instant::now(), received: 0 });
        }
        Ok(Self { epoll, connections })
    }

    /// Keeps one request in flight on every connection for `duration`, and waits for the last
    /// answers. Returns the latency of each request.
    fn drive(&mut self, duration: Duration) -> Result<Vec<u64>, String> {
        let end = Instant::now() + duration;
        let mut latencies_ns = Vec::with_capacity(1 << 20);
        for connection in &mut self.connections {
            connection.send()?;
        }
        let mut under_way = self.connections.len();
        let mut events = Vec::with_capacity(256);
        while under_way > 0 {
            events.clear();
            epoll::wait(&self.epoll, spare_capacity(&mut events), Some(&PATIENCE))
                .map_err(|error| format!("epoll: {error}"))?;
            if events.is_empty() {
                return Err(format!("{under_way} requests were never answered"));
            }
            for event in &events {
                let connection = &mut self.connections[event.data.u64() as usize];
                if !connection.receive()? {
                    continue;
                }
                let now = Instant::now();
                latencies_ns.push((now - connection.sent_at).as_nanos() as u64);
                if now < end {
                    connection.send()?;
                } else {
                    under_way -= 1;
                }
            }
        }
        Ok(latencies_ns)
    }
}

impl Connection {
    fn send(&mut self) -> Result<(), String> {
        self.sent_at = Instant::now();
        self.received = 0;
        self.stream.write_all(&[b'x'; SIZE]).map_err(|error| format!("writing: {error}"))
    }

    /// Returns whether the answer is complete.
    fn receive(&mut self) -> Result<bool, String> {
        let mut buffer = [0; SIZE];
        match self.stream.read(&mut buffer[self.received..]) {
            Ok(0) => Err("the server closed a connection".into()),
            Ok(count) => {
                self.received += count;
                Ok(self.received == SIZE)
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(false),
            Err(error) => Err(format!("reading: {error}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::percentile_us;

    #[test]
    fn percentiles_are_taken_from_the_upper_side() {
        let latencies_ns: Vec<u64> = (1..=1000).map(|us| us * 1000).collect();
        assert_eq!(percentile_us(&latencies_ns, 0.5), 501.0);
        assert_eq!(percentile_us(&latencies_ns, 0.999), 1000.0);
        assert_eq!(percentile_us(&[], 0.5), 0.0);
    }
}
