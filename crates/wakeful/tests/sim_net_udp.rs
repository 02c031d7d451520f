//! UDP in a simulation: datagrams between hosts, and their faults.

#[path = "support/sim_net.rs"]
mod support;

use std::io::ErrorKind;
use support::{ms, runs, secs};
use wakeful::net::UdpSocket;
use wakeful::sim::{Sim, Simulation};
use wakeful::time::{Instant, sleep, timeout};

/// Starts a host that echoes every datagram.
async fn start_echo(sim: &Sim) {
    sim.host("server", || async {
        let socket = UdpSocket::bind("0.0.0.0:53").await.unwrap();
        let mut buf = vec![0; 65_535];
        loop {
            let (len, from) = socket.recv_from(&mut buf).await.unwrap();
            socket.send_to(&buf[..len], from).await.unwrap();
        }
    });
    sleep(ms(1)).await;
}

/// Sends the numbers below `count`. Returns the numbers that come back within a minute.
async fn round_trips(count: u32) -> Vec<u32> {
    let socket = UdpSocket::bind("0.0.0.0:0").await.unwrap();
    socket.connect("server:53").await.unwrap();
    for number in 0..count {
        socket.send(&number.to_be_bytes()).await.unwrap();
    }
    let mut back = Vec::new();
    let mut buf = [0; 4];
    while let Ok(len) = timeout(secs(60), socket.recv(&mut buf)).await {
        assert_eq!(len.unwrap(), 4);
        back.push(u32::from_be_bytes(buf));
    }
    back
}

fn run_one(seed: u64, program: impl AsyncFnOnce(Sim) + Send + 'static) {
    Simulation::new(seed).run(async move |sim| program(sim).await).unwrap();
}

#[test]
fn datagrams_go_there_and_back() {
    runs(|sim| async move {
        start_echo(&sim).await;
        let socket = UdpSocket::bind("0.0.0.0:0").await.unwrap();
        let began = Instant::now();
        assert_eq!(socket.send_to(b"hello", "server:53").await.unwrap(), 5);
        let mut buf = [0; 16];
        let (len, from) = socket.recv_from(&mut buf).await.unwrap();
        assert_eq!((&buf[..len], &*from.to_string()), (&b"hello"[..], "10.0.0.2:53"));
        assert!(began.elapsed() >= ms(1));
        socket.connect("server:53").await.unwrap();
        assert_eq!(socket.local_addr().unwrap().ip().to_string(), "10.0.0.1");
        assert_eq!(socket.peer_addr().unwrap().to_string(), "10.0.0.2:53");
    });
}

#[test]
fn long_datagrams_are_truncated_and_too_long_ones_refused() {
    runs(|_| async move {
        let (a, b) = local_pair().await;
        a.send(b"123456").await.unwrap();
        a.send(b"next").await.unwrap();
        let mut buf = [0; 4];
        assert_eq!(b.peek(&mut buf).await.unwrap(), 4);
        assert_eq!((b.recv(&mut buf).await.unwrap(), &buf), (4, b"1234"));
        assert_eq!((b.recv(&mut buf).await.unwrap(), &buf), (4, b"next"));
        let error = a.send(&[0; 65_508]).await.unwrap_err();
        assert_eq!(error.raw_os_error(), Some(90), "{error}");
        assert_eq!(a.send(&[0; 65_507]).await.unwrap(), 65_507);
        assert_eq!(b.try_recv(&mut [0; 70_000]).unwrap(), 65_507);
        assert_eq!(b.try_recv(&mut buf).unwrap_err().kind(), ErrorKind::WouldBlock);
    });
}

/// Returns two sockets on one host that are connected to each other.
async fn local_pair() -> (UdpSocket, UdpSocket) {
    let a = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let b = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    a.connect(b.local_addr().unwrap()).await.unwrap();
    b.connect(a.local_addr().unwrap()).await.unwrap();
    (a, b)
}

#[test]
fn connected_sockets_receive_from_their_peer_alone() {
    runs(|_| async move {
        let (a, b) = local_pair().await;
        let stranger = UdpSocket::bind("127.0.0.1:0").await.unwrap();
        stranger.send_to(b"no", b.local_addr().unwrap()).await.unwrap();
        a.send(b"yes").await.unwrap();
        let mut buf = [0; 8];
        let len = b.recv(&mut buf).await.unwrap();
        assert_eq!(&buf[..len], b"yes");
        let error = stranger.send(b"x").await.unwrap_err();
        assert_eq!(error.raw_os_error(), Some(89), "no destination: {error}");
    });
}

#[test]
fn a_port_without_a_socket_refuses_connected_senders() {
    runs(|sim| async move {
        sim.host("server", || async {});
        let socket = UdpSocket::bind("0.0.0.0:0").await.unwrap();
        socket.connect("server:9").await.unwrap();
        socket.send(b"x").await.unwrap();
        let error = socket.recv(&mut [0; 8]).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ConnectionRefused);
    });
}

#[test]
fn lost_datagrams_do_not_arrive() {
    run_one(3, async |sim| {
        start_echo(&sim).await;
        assert_eq!(round_trips(100).await.len(), 100);
        sim.network().loss(0.5);
        let back = round_trips(400).await;
        assert!((50..150).contains(&back.len()), "a quarter: {}", back.len());
    });
}

#[test]
fn every_fragment_may_be_lost() {
    run_one(5, async |sim| {
        start_echo(&sim).await;
        sim.network().loss(0.1);
        let socket = UdpSocket::bind("0.0.0.0:0").await.unwrap();
        socket.connect("server:53").await.unwrap();
        let mut back = 0;
        for _ in 0..40 {
            socket.send(&[1; 40_000]).await.unwrap();
            back += u32::from(timeout(secs(1), socket.recv(&mut [0; 8])).await.is_ok());
        }
        // 28 fragments in each direction.
        assert!(back < 10, "{back}");
    });
}

#[test]
fn duplicated_datagrams_arrive_twice() {
    run_one(3, async |sim| {
        start_echo(&sim).await;
        sim.network().duplicate(1.0);
        let mut back = round_trips(10).await;
        assert_eq!(back.len(), 40);
        back.sort_unstable();
        back.dedup();
        assert_eq!(back, (0..10).collect::<Vec<_>>());
    });
}

#[test]
fn reordered_datagrams_overtake_each_other() {
    run_one(3, async |sim| {
        start_echo(&sim).await;
        sim.network().latency(ms(1)..ms(1));
        assert!(round_trips(50).await.is_sorted());
        sim.network().reorder(0.5);
        let mut back = round_trips(50).await;
        assert!(!back.is_sorted());
        back.sort_unstable();
        assert_eq!(back, (0..50).collect::<Vec<_>>());
    });
}

#[test]
fn a_bandwidth_delays_what_is_sent_at_once() {
    run_one(3, async |sim| {
        start_echo(&sim).await;
        sim.network().latency(ms(1)..ms(1)).link("main", "server").bandwidth(1_000);
        let socket = UdpSocket::bind("0.0.0.0:0").await.unwrap();
        socket.connect("server:53").await.unwrap();
        let began = Instant::now();
        for _ in 0..3 {
            socket.send(&[1; 1_000]).await.unwrap();
        }
        for passed in [2_002, 3_002, 4_002] {
            socket.recv(&mut [0; 8]).await.unwrap();
            assert_eq!(began.elapsed(), ms(passed));
        }
    });
}

#[test]
fn a_socket_queues_only_so_many_bytes() {
    run_one(3, async |_| {
        let (a, b) = local_pair().await;
        // The counts of Linux 6.1, with its default of 212,992 bytes.
        let most =
            [(0, 256), (100, 256), (500, 166), (1_472, 92), (4_000, 25), (9_000, 12), (65_507, 3)];
        for (len, most) in most {
            for _ in 0..300 {
                a.send(&vec![1; len]).await.unwrap();
            }
            let mut count = 0;
            while b.try_recv(&mut [0; 8]).is_ok() {
                count += 1;
            }
            assert_eq!(count, most, "{len} bytes");
        }
    });
}

#[test]
fn only_the_peer_of_a_socket_can_refuse_it() {
    run_one(3, async |_| {
        let (a, b) = local_pair().await;
        let dropped = UdpSocket::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
        a.send_to(b"x", dropped).await.unwrap();
        sleep(ms(1)).await;
        assert!(a.take_error().unwrap().is_none());
        a.send(b"y").await.unwrap();
        assert_eq!(b.recv(&mut [0; 8]).await.unwrap(), 1);

        a.connect(dropped).await.unwrap();
        a.send(b"x").await.unwrap();
        sleep(ms(1)).await;
        assert_eq!(a.send(b"x").await.unwrap_err().kind(), ErrorKind::ConnectionRefused);
    });
}
