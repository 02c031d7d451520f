//! The network in searches: equal seeds, faults as choices, and descriptions of failures.

#[path = "support/sim_net.rs"]
mod support;

use std::time::Duration;
use support::{echo, ms, secs};
use wakeful::io::{AsyncReadExt, AsyncWriteExt};
use wakeful::net::{TcpListener, TcpStream, UdpSocket};
use wakeful::sim::{Explorer, FailureKind, Sim, Simulation};
use wakeful::time::{sleep, timeout};

/// Clients that talk to two servers over a bad network while one server restarts.
async fn busy(sim: Sim) {
    sim.network().latency(ms(1)..ms(30)).loss(0.05).duplicate(0.1).reorder(0.1);
    sim.host("tcp", echo);
    sim.host("udp", || async {
        let socket = UdpSocket::bind("0.0.0.0:53").await.unwrap();
        let mut buf = [0; 64];
        loop {
            let (len, from) = socket.recv_from(&mut buf).await.unwrap();
            socket.send_to(&buf[..len], from).await.unwrap();
        }
    });
    sleep(ms(1)).await;
    let talk = |name: &'static str| async move {
        for round in 0..5_u8 {
            let Ok(Ok(mut stream)) = timeout(secs(1), TcpStream::connect("tcp:80")).await else {
                continue;
            };
            if stream.write_all(name.as_bytes()).await.is_ok() {
                let mut buf = [0; 2];
                let _ = timeout(secs(1), stream.read_exact(&mut buf)).await;
            }
            let socket = UdpSocket::bind("0.0.0.0:0").await.unwrap();
            socket.send_to(&[round; 8], "udp:53").await.unwrap();
            let _ = timeout(secs(1), socket.recv(&mut [0; 8])).await;
        }
    };
    let clients = ["c1", "c2", "c3"].map(|name| sim.client(name, talk(name)));
    sleep(ms(100)).await;
    sim.network().partition(["tcp"], ["c1"]);
    sleep(ms(500)).await;
    sim.host_named("tcp").unwrap().restart();
    sim.network().heal_all();
    for client in clients {
        client.await;
    }
}

#[test]
fn equal_seeds_make_equal_runs_and_a_replay_repeats_one() {
    let mut hashes = Vec::new();
    for seed in 0..20 {
        let run = || Simulation::new(seed).run(busy);
        let (one, other) = (run(), run());
        one.clone().unwrap();
        assert_eq!(one.first_difference(&other), None);
        assert_eq!(one.hash(), other.hash());
        let replay = Simulation::new(99).replay(&one.choices()).unwrap().run(busy);
        assert_eq!((replay.hash(), replay.choices()), (one.hash(), one.choices()));
        hashes.push(one.hash());
    }
    hashes.sort_unstable();
    hashes.dedup();
    assert_eq!(hashes.len(), 20);
}

#[test]
fn bytes_are_a_part_of_the_hash() {
    let hash = |text: &'static [u8]| {
        let outcome = Simulation::new(1).fifo().run(move |sim| async move {
            sim.host("server", echo);
            sleep(ms(1)).await;
            let mut stream = TcpStream::connect("server:80").await.unwrap();
            stream.write_all(text).await.unwrap();
            stream.read_exact(&mut [0; 5]).await.unwrap();
        });
        outcome.clone().unwrap();
        outcome.hash()
    };
    assert_eq!(hash(b"hello"), hash(b"hello"));
    assert_ne!(hash(b"hello"), hash(b"hallo"));
}

/// Takes the result of one read for one message.
async fn one_read_one_message(sim: Sim) {
    sim.host("server", || async {
        let listener = TcpListener::bind("0.0.0.0:80").await.unwrap();
        let (mut stream, _) = listener.accept().await.unwrap();
        stream.write_all(b"a message of some length").await.unwrap();
    });
    sleep(ms(1)).await;
    let mut stream = TcpStream::connect("server:80").await.unwrap();
    let mut buf = [0; 64];
    let len = stream.read(&mut buf).await.unwrap();
    assert_eq!(&buf[..len], b"a message of some length");
}

#[test]
fn a_short_read_is_found_and_told() {
    let explorer = Explorer::new("one_read_one_message").seeds(200);
    let text = explorer.run(one_read_one_message).unwrap_err().to_string();
    assert!(text.contains("short_io"), "the faults of the run: {text}");
    assert!(text.contains("read or write of") && text.contains("is short"), "{text}");
    assert!(
        text.contains("from 1 choice") || text.contains(" to 1 (") || text.contains(" to 2 ("),
        "{text}"
    );
}

/// Does not repeat a lost datagram.
async fn no_retry(sim: Sim) {
    sim.network().loss(0.01);
    sim.host("server", || async {
        let socket = UdpSocket::bind("0.0.0.0:53").await.unwrap();
        loop {
            let (_, from) = socket.recv_from(&mut [0; 8]).await.unwrap();
            socket.send_to(b"answer", from).await.unwrap();
        }
    });
    sleep(ms(1)).await;
    let socket = UdpSocket::bind("0.0.0.0:0").await.unwrap();
    for _ in 0..10 {
        socket.send_to(b"question", "server:53").await.unwrap();
        let answer = timeout(Duration::from_secs(5), socket.recv(&mut [0; 8])).await;
        answer.expect("the answer comes").unwrap();
    }
}

#[test]
fn a_lost_datagram_is_found_and_shrunk_to_one_choice() {
    let explorer = Explorer::new("no_retry").seeds(200);
    let text = explorer.run(no_retry).unwrap_err().to_string();
    assert!(text.contains("faults {") && text.contains("loss"), "{text}");
    assert!(text.contains("loses its"), "{text}");
    assert!(text.contains(" to 1 ("), "{text}");
}

#[test]
fn a_program_without_a_network_has_no_faults_of_it() {
    let outcome = Explorer::new("no_network").seeds(20).run(|_| async {
        assert!(wakeful::sim::choose(2) == 0, "planted");
    });
    let text = outcome.unwrap_err().to_string();
    assert!(!text.contains("faults {"), "{text}");
}

/// Requests with a length and a body on one persistent connection, like HTTP.
async fn requests(sim: Sim) {
    sim.network().latency(ms(1)..ms(10)).loss(0.02);
    sim.host("server", || async {
        let listener = TcpListener::bind("0.0.0.0:80").await.unwrap();
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            wakeful::spawn(async move {
                let (read, mut write) = stream.into_split();
                let mut read = wakeful::io::BufReader::new(read);
                while let Ok(len) = read.read_u16().await {
                    let mut body = vec![0; len.into()];
                    read.read_exact(&mut body).await.unwrap();
                    body.reverse();
                    write.write_u16(len).await.unwrap();
                    write.write_all(&body).await.unwrap();
                }
            });
        }
    });
    sleep(ms(1)).await;
    let clients = [1_usize, 700, 20_000].map(|len| {
        sim.client(format!("client {len}"), async move {
            let mut stream = TcpStream::connect("server:80").await.unwrap();
            stream.set_nodelay(true).unwrap();
            for round in 0..5_u8 {
                let body: Vec<u8> = (0..len).map(|at| at as u8 ^ round).collect();
                stream.write_u16(len as u16).await.unwrap();
                stream.write_all(&body).await.unwrap();
                let mut answer = vec![0; stream.read_u16().await.unwrap().into()];
                stream.read_exact(&mut answer).await.unwrap();
                answer.reverse();
                assert!(answer == body);
            }
        })
    });
    for client in clients {
        client.await;
    }
}

#[test]
fn requests_and_responses_survive_all_faults() {
    Explorer::new("requests").seeds(100).run(requests).unwrap();
}

#[test]
fn a_runtime_of_its_own_has_a_loopback_network() {
    let run = || {
        let runtime = wakeful::runtime::Builder::new_simulated(7).enable_all().build().unwrap();
        runtime.block_on(async {
            wakeful::spawn(echo());
            wakeful::task::yield_now().await;
            let mut stream = loop {
                match TcpStream::connect("localhost:80").await {
                    Ok(stream) => break stream,
                    Err(_) => sleep(ms(1)).await,
                }
            };
            stream.write_all(b"abc").await.unwrap();
            stream.shutdown().await.unwrap();
            let mut text = String::new();
            stream.read_to_string(&mut text).await.unwrap();
            text
        })
    };
    assert_eq!(run(), "abc");
}

#[test]
fn a_reader_without_a_writer_is_stuck() {
    let outcome = Simulation::new(1).run(|_| async {
        let listener = TcpListener::bind("0.0.0.0:80").await.unwrap();
        drop(listener.accept().await);
    });
    assert_eq!(outcome.failure(), Some(FailureKind::Stuck));
}

// docs/SIMULATION.md quotes the lines from here on.
async fn an_answer_in_spite_of_a_partition(sim: Sim) {
    let ms = Duration::from_millis;
    sim.network().latency(ms(1)..ms(20)).loss(0.01).duplicate(0.01);
    sim.host("server", || async {
        let listener = TcpListener::bind("0.0.0.0:80").await?;
        let (mut stream, _) = listener.accept().await?;
        stream.write_all(b"hello").await
    });
    sleep(ms(10)).await;
    sim.network().partition(["main"], ["server"]);
    let healing = sim.clone();
    wakeful::spawn(async move {
        sleep(Duration::from_secs(5)).await;
        healing.network().heal_all();
    });
    let mut stream = TcpStream::connect("server:80").await.unwrap();
    assert_eq!(stream.read_u8().await.unwrap(), b'h');
}
// docs/SIMULATION.md quotes the lines up to here.

#[test]
fn the_guide_quotes_a_program_that_runs() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    let guide = std::fs::read_to_string(folder.join("../../docs/SIMULATION.md")).unwrap();
    let this = include_str!("sim_net_search.rs");
    let quoted = this.split("// docs/SIMULATION.md quotes the lines").nth(1).unwrap();
    let quoted = quoted.split_once('\n').unwrap().1.trim();
    assert!(guide.contains(quoted), "the guide does not have this:\n{quoted}");
    Explorer::new("partition").seeds(50).run(an_answer_in_spite_of_a_partition).unwrap();
}
