//! Connections that stay open and do nothing.
//!
//! Ports of one source address run out at some 28,000 connections to one server, so the connections come from
//! several addresses of the loopback network.

use std::net::{Ipv4Addr, SocketAddrV4, TcpStream};

use rustix::net::{AddressFamily, SocketType};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use super::connection::{Connection, Target};

/// Connections from one source address.
const PER_ADDRESS: usize = 20_000;
/// Descriptors that a process needs besides its connections.
const SPARE: u64 = 500;

/// Opens `count` connections. Each sends one request and gets its answer, as a connection that is kept alive.
pub fn open(target: &Target, count: usize) -> Result<Vec<Connection>, String> {
    let mut scratch = vec![0; 64 * 1024];
    let mut connections = Vec::with_capacity(count);
    for number in 0..count {
        let stream = connect_from(source_of(number), target)
            .map_err(|error| format!("connection {number} of {count}: {error}"))?;
        let mut connection = Connection::over(stream, target)?;
        connection.ask(&mut scratch)?;
        connections.push(connection);
    }
    Ok(connections)
}

/// The address that a connection comes from: 127.0.0.2 and those after it.
fn source_of(number: usize) -> Ipv4Addr {
    Ipv4Addr::new(127, 0, 0, 2 + (number / PER_ADDRESS) as u8)
}

fn connect_from(source: Ipv4Addr, target: &Target) -> rustix::io::Result<TcpStream> {
    let socket = rustix::net::socket(AddressFamily::INET, SocketType::STREAM, None)?;
    rustix::net::bind(&socket, &SocketAddrV4::new(source, 0))?;
    rustix::net::connect(&socket, &target.addr)?;
    Ok(socket.into())
}

/// Lets this process and the servers that it starts have as many descriptors as `connections` need.
///
/// # Errors
///
/// If the limit is lower and this user must not raise it.
pub fn allow(connections: usize) -> Result<(), String> {
    let needed = connections as u64 + SPARE;
    let limit = getrlimit(Resource::Nofile);
    let suffices = |limit: Option<u64>| limit.is_none_or(|limit| limit >= needed);
    if suffices(limit.current) {
        return Ok(());
    }
    let maximum = if suffices(limit.maximum) { limit.maximum } else { Some(needed) };
    setrlimit(Resource::Nofile, Rlimit { current: Some(needed), maximum }).map_err(|error| {
        format!(
            "{needed} descriptors are not allowed ({error}); raise the limit: ulimit -n {needed}"
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_connections_come_from_several_addresses() {
        assert_eq!(source_of(0), Ipv4Addr::new(127, 0, 0, 2));
        assert_eq!(source_of(PER_ADDRESS - 1), Ipv4Addr::new(127, 0, 0, 2));
        assert_eq!(source_of(PER_ADDRESS), Ipv4Addr::new(127, 0, 0, 3));
    }
}
