//! Determines which user a local client belongs to.
//!
//! The kernel lists the sockets of this machine with their users: `/proc/net/tcp`, and `tcp6` for IPv6.
//! The socket of a local client is listed with the addresses of the connection, seen from its side.

use std::fs;
use std::net::{IpAddr, SocketAddr, TcpStream};

/// Returns whether the other side of a connection is a process of this user, on this machine.
pub(super) fn is_own(connection: &TcpStream) -> bool {
    let (Ok(client), Ok(server)) = (connection.peer_addr(), connection.local_addr()) else {
        return false;
    };
    let table =
        if client.ip().to_canonical().is_ipv4() { "/proc/net/tcp" } else { "/proc/net/tcp6" };
    let own = rustix::process::getuid().as_raw();
    fs::read_to_string(table).is_ok_and(|table| user_of(&table, client, server) == Some(own))
}

/// Finds the user of the socket that is bound to `local` and connected to `remote`.
///
/// The connection must be established: the kernel lists a closed socket under user 0.
fn user_of(table: &str, local: SocketAddr, remote: SocketAddr) -> Option<u32> {
    let (local, remote) = (hexadecimal(local), hexadecimal(remote));
    table.lines().find_map(|line| {
        // The number of the line, both addresses, state, queues, timer, retransmissions, and the user.
        let mut fields = line.split_ascii_whitespace().skip(1);
        let is_wanted =
            [local.as_str(), remote.as_str(), "01"].iter().all(|it| fields.next() == Some(it));
        is_wanted.then(|| fields.nth(3)?.parse().ok()).flatten()
    })
}

/// Writes an address as the kernel does: words of four bytes in native byte order.
fn hexadecimal(address: SocketAddr) -> String {
    let octets = match address.ip().to_canonical() {
        IpAddr::V4(ip) => ip.octets().to_vec(),
        IpAddr::V6(ip) => ip.octets().to_vec(),
    };
    let (words, _) = octets.as_chunks::<4>();
    let ip: String = words.iter().map(|it| format!("{:08X}", u32::from_ne_bytes(*it))).collect();
    format!("{ip}:{:04X}", address.port())
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::net::TcpListener;

    #[test]
    fn the_user_of_a_connection_is_read_from_the_side_of_the_client() {
        let table = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid\n   \
                     0: 0100007F:1F40 0100007F:C350 01 00000000:00000000 00:00000000 00000000     0  0 1\n   \
                     1: 0100007F:C350 0100007F:1F40 01 00000000:00000000 00:00000000 00000000  1000  0 2\n";
        let (client, server) =
            ("127.0.0.1:50000".parse().unwrap(), "127.0.0.1:8000".parse().unwrap());
        if cfg!(target_endian = "little") {
            assert_eq!(user_of(table, client, server), Some(1000));
            assert_eq!(user_of(table, server, client), Some(0));
        }
        let closed = table.replace(" 01 ", " 06 ");
        assert_eq!(user_of(&closed, client, server), None);
        assert_eq!(user_of(table, client, "127.0.0.1:8001".parse().unwrap()), None);
    }

    #[test]
    fn a_client_in_this_process_is_of_this_user() {
        for address in ["127.0.0.1:0", "[::1]:0"] {
            // The machine may have no IPv6.
            let Ok(listener) = TcpListener::bind(address) else { continue };
            let _client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            assert!(is_own(&listener.accept().unwrap().0), "{address}");
        }
    }
}
