//! Tests of the network without a runtime: the tests deliver messages from the outbox.

use super::connection::Closing;
use super::links::Blocked;
use super::ports::ip_of;
use super::state::{Address, EndId, Net, NetworkOracle, SocketId, SocketKind, SocketState};
use super::stream::WINDOW;
use super::timeout::STALL_LIMIT_NS;
use crate::driver::io_readiness::Readiness;
use crate::sim::oracle::{ChoiceKind, HostId};
use rustix::io::Errno;
use std::collections::BTreeMap;
use std::net::SocketAddrV4;

const A: HostId = HostId(1);
const B: HostId = HostId(2);
const MS: u64 = 1_000_000;

/// Returns the scripted answers for each kind, then 0.
#[derive(Default)]
struct Scripted(BTreeMap<ChoiceKind, Vec<u64>>);

impl NetworkOracle for Scripted {
    fn choose(&mut self, kind: ChoiceKind, _: HostId, len: u64) -> u64 {
        let script = self.0.entry(kind).or_default();
        let value = if script.is_empty() { 0 } else { script.remove(0) };
        assert!(value < len);
        value
    }

    fn chance(&mut self, kind: ChoiceKind, host: HostId, _: u32) -> bool {
        self.choose(kind, host, 2) > 0
    }
}

/// A network whose messages arrive when the test lets them.
#[derive(Default)]
struct Fixture {
    net: Net,
    oracle: Scripted,
    now_ns: u64,
    under_way: Vec<(u64, u64)>,
}

impl Fixture {
    fn new() -> Self {
        let mut new = Self::default();
        new.net.hosts = 2;
        new
    }

    fn script(&mut self, kind: ChoiceKind, values: &[u64]) {
        self.oracle.0.insert(kind, values.to_vec());
    }

    /// Calls the network, and keeps the messages that it sends.
    fn call<R>(&mut self, f: impl FnOnce(&mut Net, u64, &mut dyn NetworkOracle) -> R) -> R {
        let result = f(&mut self.net, self.now_ns, &mut self.oracle);
        for (after_ns, _, number) in std::mem::take(&mut self.net.out.sent) {
            self.under_way.push((self.now_ns + after_ns, number));
        }
        result
    }

    /// Advances the time, and delivers the messages that are due.
    fn pass(&mut self, ns: u64) {
        let end = self.now_ns + ns;
        loop {
            self.under_way.sort_unstable();
            let Some((at, number)) = self.under_way.first().copied().filter(|it| it.0 <= end)
            else {
                break;
            };
            self.under_way.remove(0);
            self.now_ns = at;
            self.call(|net, now, oracle| net.arrive(number, now, oracle));
        }
        self.now_ns = end;
    }

    fn ready(&mut self, id: SocketId) -> Readiness {
        let none = Readiness::NONE;
        let all = std::mem::take(&mut self.net.out.ready);
        all.into_iter().filter(|it| it.0 == id).fold(none, |ready, it| ready | it.1)
    }

    fn addr(host: HostId, port: u16) -> SocketAddrV4 {
        SocketAddrV4::new(ip_of(host), port)
    }

    /// Returns a listener on host B, and the two ends of a connection to it.
    fn connect(&mut self) -> (SocketId, [SocketId; 2]) {
        let listener = self.net.open(B, SocketKind::Tcp);
        self.net.bind(listener, Self::addr(B, 80)).unwrap();
        self.net.listen(listener, 8).unwrap();
        let client = self.net.open(A, SocketKind::Tcp);
        self.call(|net, now, oracle| net.connect(client, Self::addr(B, 80), now, oracle)).unwrap();
        self.pass(10 * MS);
        let (server, peer) =
            self.call(|net, now, oracle| net.accept(listener, now, oracle)).unwrap();
        assert_eq!(peer, self.net.local_addr(client).unwrap());
        (listener, [client, server])
    }

    fn end(&self, id: SocketId) -> EndId {
        match self.net.sockets[&id].state {
            SocketState::Stream(end) => end,
            _ => panic!("not a stream"),
        }
    }

    fn write(&mut self, id: SocketId, bytes: &[u8]) -> Result<usize, Errno> {
        let end = self.end(id);
        self.call(|net, now, oracle| net.write(end, bytes, now, oracle))
    }

    fn read(&mut self, id: SocketId, len: usize) -> Result<Vec<u8>, Errno> {
        let (end, mut got) = (self.end(id), Vec::new());
        let mut sink = |bytes: &[u8]| got.extend_from_slice(bytes);
        self.call(|net, _, oracle| net.read(end, len, false, oracle, &mut sink))?;
        Ok(got)
    }

    fn close(&mut self, id: SocketId) {
        self.call(|net, now, oracle| net.close(id, Closing::Orderly, now, oracle));
    }
}

#[test]
fn a_late_segment_is_not_overtaken() {
    let mut it = Fixture::new();
    let (_, [client, server]) = it.connect();
    it.script(ChoiceKind::Latency, &[31, 0]);
    it.write(client, b"slow ").unwrap();
    it.write(client, b"fast").unwrap();
    it.pass(MS);
    assert_eq!(it.read(server, 64), Err(Errno::AGAIN), "it takes 2 ms");
    it.pass(MS);
    assert_eq!(it.read(server, 64).unwrap(), b"slow fast");
}

#[test]
fn the_window_ends_a_write_and_a_read_opens_it() {
    let mut it = Fixture::new();
    let (_, [client, server]) = it.connect();
    assert_eq!(it.write(client, &vec![1; WINDOW + 1]), Ok(WINDOW));
    assert_eq!(it.write(client, &[1]), Err(Errno::AGAIN));
    it.pass(10 * MS);
    it.ready(client);
    assert_eq!(it.read(server, 10).unwrap().len(), 10);
    assert!(it.ready(client).is_empty(), "the peer learns of it later");
    it.pass(10 * MS);
    assert_eq!(it.ready(client), Readiness::WRITABLE);
    assert_eq!(it.write(client, &[1; 100]), Ok(10));
}

#[test]
fn a_short_read_says_that_there_is_more() {
    let mut it = Fixture::new();
    let (_, [client, server]) = it.connect();
    it.write(client, b"abcdef").unwrap();
    it.pass(10 * MS);
    it.ready(server);
    it.script(ChoiceKind::ShortIo, &[1, 1]);
    assert_eq!(it.read(server, 64).unwrap(), b"ab");
    assert_eq!(it.ready(server), Readiness::READABLE);
    assert_eq!(it.read(server, 64).unwrap(), b"cdef");
}

#[test]
fn the_end_comes_after_the_bytes() {
    let mut it = Fixture::new();
    let (_, [client, server]) = it.connect();
    it.script(ChoiceKind::Latency, &[31, 0]);
    it.write(client, b"last").unwrap();
    it.close(client);
    it.pass(MS);
    assert_eq!(it.read(server, 64), Err(Errno::AGAIN));
    it.pass(10 * MS);
    assert_eq!(it.read(server, 64).unwrap(), b"last");
    assert_eq!(it.read(server, 64).unwrap(), b"");
}

#[test]
fn what_both_have_closed_is_forgotten() {
    let mut it = Fixture::new();
    let (listener, [client, server]) = it.connect();
    it.write(client, b"x").unwrap();
    it.pass(10 * MS);
    it.read(server, 1).unwrap();
    it.close(client);
    it.close(server);
    it.close(listener);
    it.pass(10 * MS);
    assert!(it.net.connections.is_empty() && it.net.sockets.is_empty());
    assert!(it.under_way.iter().all(|(_, number)| !it.net.is_under_way(*number)));
}

#[test]
fn a_client_that_gives_up_frees_its_place_in_the_backlog() {
    let mut it = Fixture::new();
    let (listener, _) = it.connect();
    // The latency is 0.5 ms: the client gives up before the request arrives, or afterwards.
    for after_ns in (0..30).map(|step| step * MS / 30) {
        let client = it.net.open(A, SocketKind::Tcp);
        let target = Fixture::addr(B, 80);
        it.call(|net, now, oracle| net.connect(client, target, now, oracle)).unwrap();
        it.pass(after_ns);
        it.close(client);
        it.pass(10 * MS);
        let accepted = it.call(|net, now, oracle| net.accept(listener, now, oracle));
        assert_eq!(accepted.unwrap_err(), Errno::AGAIN, "closed after {after_ns} ns");
    }
    assert_eq!(it.net.connections.len(), 1, "that of `connect`");
}

#[test]
fn a_stall_ends_only_if_it_lasts() {
    let mut it = Fixture::new();
    let (_, [client, server]) = it.connect();
    let routes = |it: &mut Fixture, is_blocked| {
        it.call(|net, now, oracle| {
            net.links.set_blocked((A, B), Blocked::Partition, is_blocked);
            net.resume(now, oracle);
        });
    };
    for _ in 0..3 {
        routes(&mut it, true);
        it.write(client, b"x").unwrap();
        it.pass(STALL_LIMIT_NS - MS);
        routes(&mut it, false);
        it.pass(10 * MS);
        assert_eq!(it.read(server, 1).unwrap(), b"x");
    }
    routes(&mut it, true);
    it.write(client, b"x").unwrap();
    it.pass(STALL_LIMIT_NS);
    assert_eq!(it.read(client, 1), Err(Errno::TIMEDOUT));
    assert_eq!(it.read(server, 1), Err(Errno::AGAIN), "the peer learns nothing");
}

#[test]
fn ports_are_handed_out_in_turn_and_not_twice() {
    let mut it = Fixture::new();
    let bind = |it: &mut Fixture| {
        let id = it.net.open(A, SocketKind::Udp);
        it.net.bind_datagram(id, SocketAddrV4::new([0, 0, 0, 0].into(), 0))?;
        match it.net.local_addr(id)? {
            Address::Inet(addr) => Ok((id, addr.port())),
            Address::Unix(_) => Err(Errno::INVAL),
        }
    };
    let (first, port) = bind(&mut it).unwrap();
    assert_eq!(port, 32_768);
    it.close(first);
    assert_eq!(bind(&mut it).unwrap().1, 32_769, "a port is not used again at once");
    let more = (0..28_231).map(|_| bind(&mut it).unwrap().1).max();
    assert_eq!(more, Some(60_999));
    assert_eq!(bind(&mut it).unwrap_err(), Errno::ADDRINUSE);
}

#[test]
fn attempts_to_connect_that_fail_are_forgotten() {
    let mut it = Fixture::new();
    for round in 0..4 {
        let host = if round == 0 { HostId(9) } else { B };
        if round == 2 {
            for route in [(A, B), (B, A)] {
                it.net.links.set_blocked(route, Blocked::Partition, true);
            }
        }
        let client = it.net.open(A, SocketKind::Tcp);
        let target = Fixture::addr(host, 80);
        it.call(|net, now, oracle| net.connect(client, target, now, oracle)).unwrap();
        let waits_ns = if round == 3 { MS } else { 130_000 * MS };
        it.pass(waits_ns);
        let failed = it.net.take_error(client);
        it.close(client);
        let expected =
            [Some(Errno::HOSTUNREACH), Some(Errno::CONNREFUSED), Some(Errno::TIMEDOUT), None];
        assert_eq!(failed, expected[round]);
        assert!(it.net.connections.is_empty(), "{round}: {:?}", it.net.connections);
    }
}

#[test]
fn a_client_that_times_out_leaves_the_backlog() {
    let mut it = Fixture::new();
    let (listener, _) = it.connect();
    let connect = |it: &mut Fixture| {
        let client = it.net.open(A, SocketKind::Tcp);
        let target = Fixture::addr(B, 80);
        it.call(|net, now, oracle| net.connect(client, target, now, oracle)).unwrap();
        client
    };
    let queued: Vec<_> = (0..9).map(|_| connect(&mut it)).collect();
    it.pass(10 * MS);
    let waits = connect(&mut it);
    it.pass(128_000 * MS);
    assert_eq!(it.net.take_error(waits), Some(Errno::TIMEDOUT));
    it.close(waits);
    assert_eq!(it.net.connections.len(), 1 + queued.len());
    for _ in 0..queued.len() {
        it.call(|net, now, oracle| net.accept(listener, now, oracle)).unwrap();
    }
    let more = it.call(|net, now, oracle| net.accept(listener, now, oracle));
    assert_eq!(more.unwrap_err(), Errno::AGAIN);
    connect(&mut it);
    it.pass(10 * MS);
    it.call(|net, now, oracle| net.accept(listener, now, oracle)).unwrap();
}
