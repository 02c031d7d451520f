//! Bugs of hosts that are partitioned, and of hosts that restart.

use super::Twin;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use wakeful::net::UdpSocket;
use wakeful::sim::{self, Sim};
use wakeful::sync::mpsc;
use wakeful::task::spawn_local;
use wakeful::time::{Instant, sleep, timeout, timeout_at};

const NODES: u8 = 3;

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// For each term, the nodes that were its leader.
type Leaders = Arc<Mutex<BTreeMap<u8, BTreeSet<u8>>>>;

/// A message between nodes: kind, term, sender.
type Message = [u8; 3];
const ASK: u8 = 0;
const GRANT: u8 = 1;
const REFUSE: u8 = 2;
const LEAD: u8 = 3;

/// A node that votes once per term, and asks for votes when it has not heard from a leader.
async fn node(me: u8, leaders: Leaders, twin: Twin) -> io::Result<()> {
    let socket = UdpSocket::bind("0.0.0.0:70").await?;
    let to_all = async |message: Message| {
        for other in (0..NODES).filter(|other| *other != me) {
            socket.send_to(&message, format!("n{other}:70")).await?;
        }
        io::Result::Ok(())
    };
    let (mut term, mut leads) = (0, false);
    loop {
        let patience = ms(if leads { 20 } else { 50 + 30 * u64::from(me) });
        let mut message = [0; 3];
        match timeout(patience, socket.recv_from(&mut message)).await {
            Err(_) if leads => to_all([LEAD, term, me]).await?,
            // The node votes for itself.
            Err(_) => {
                term += 1;
                let (mut votes, mut answers) = (1, 1);
                to_all([ASK, term, me]).await?;
                // The time that the other nodes have to answer.
                sleep(ms(5)).await;
                while let Ok((_, from)) = socket.try_recv_from(&mut message) {
                    match message {
                        [GRANT, of, _] if of == term => (votes, answers) = (votes + 1, answers + 1),
                        [REFUSE, of, _] if of == term => answers += 1,
                        [ASK, of, _] => drop(socket.send_to(&[REFUSE, of, me], from).await?),
                        _ => {}
                    }
                }
                leads = match twin {
                    Twin::Buggy => 2 * votes > answers,
                    Twin::Fixed => 2 * votes > NODES,
                };
                if leads {
                    leaders.lock().unwrap().entry(term).or_default().insert(me);
                    to_all([LEAD, term, me]).await?;
                }
            }
            Ok(received) => {
                let (_, from) = received?;
                let [kind, of, _] = message;
                let answer = if of > term { GRANT } else { REFUSE };
                leads = leads && of <= term;
                term = term.max(of);
                if kind == ASK {
                    socket.send_to(&[answer, of, me], from).await?;
                }
            }
        }
    }
}

/// Three nodes elect a leader. One of them may be partitioned for a while.
///
/// A node counts only the votes of the nodes that answer. The fixed twin needs more than half of all.
pub async fn no_quorum(sim: Sim, twin: Twin) {
    let leaders = Leaders::default();
    let seen = leaders.clone();
    sim.always("one leader per term", move || {
        seen.lock().unwrap().values().all(|leaders| leaders.len() == 1)
    });
    for me in 0..NODES {
        let leaders = leaders.clone();
        sim.host(format!("n{me}"), move || node(me, leaders.clone(), twin));
    }
    sleep(ms(10 * sim::choose(20))).await;
    if let Some(cut) = sim::choose(u64::from(NODES) + 1).checked_sub(1) {
        let others = (0..NODES.into()).filter(|other| *other != cut);
        sim.network().partition([format!("n{cut}")], others.map(|other| format!("n{other}")));
    }
    sleep(ms(300)).await;
    sim.network().heal_all();
    sleep(ms(300)).await;
    assert!(!leaders.lock().unwrap().is_empty(), "no leader at all");
}

const CLIENTS: u32 = 12;

/// The number of requests of each client.
const REQUESTS: u32 = 4;

/// Answers requests in order. Each one takes 40 ms.
async fn server() -> io::Result<()> {
    let socket = Arc::new(UdpSocket::bind("0.0.0.0:80").await?);
    let (queue, mut queued) = mpsc::unbounded_channel();
    let receiver = socket.clone();
    spawn_local(async move {
        let mut number = [0; 4];
        loop {
            let (_, from) = receiver.recv_from(&mut number).await?;
            if queue.send((number, from)).is_err() {
                return io::Result::Ok(());
            }
        }
    });
    while let Some((number, from)) = queued.recv().await {
        sleep(ms(40)).await;
        socket.send_to(&number, from).await?;
    }
    Ok(())
}

/// Waits for the answer to a request until `deadline`. Returns whether it came.
async fn answer(socket: &UdpSocket, request: [u8; 4], deadline: Instant) -> bool {
    let mut number = [0; 4];
    while let Ok(received) = timeout_at(deadline, socket.recv(&mut number)).await {
        if received.is_ok() && number == request {
            return true;
        }
    }
    false
}

/// Sends a request every second, and repeats it if there is no answer within 200 ms.
///
/// The fixed twin waits before it repeats the request, twice as long each time.
async fn client(me: u32, answered: Arc<Mutex<u32>>, twin: Twin) {
    let socket = UdpSocket::bind("0.0.0.0:0").await.unwrap();
    sleep(ms(80 * u64::from(me))).await;
    let mut number = 0_u32;
    for _ in 0..REQUESTS {
        let mut backoff = 200;
        loop {
            number += 1;
            let request = number.to_be_bytes();
            socket.send_to(&request, "server:80").await.unwrap();
            if answer(&socket, request, Instant::now() + ms(200)).await {
                break;
            }
            if twin.is_fixed() {
                sleep(ms(backoff + sim::choose(backoff))).await;
                backoff = (2 * backoff).min(5_000);
            }
        }
        *answered.lock().unwrap() += 1;
        sleep(ms(1_000)).await;
    }
}

/// 12 clients need half of a server's capacity. The server is down for up to 1.4 s, and then all
/// clients keep repeating their requests: the server answers requests for which no client waits any
/// more.
pub async fn retry_storm(sim: Sim, twin: Twin) {
    let server = sim.host("server", server);
    sleep(ms(1)).await;
    let answered = Arc::new(Mutex::new(0));
    for me in 0..CLIENTS {
        drop(sim.client(format!("c{me}"), client(me, answered.clone(), twin)));
    }
    sleep(ms(2_000)).await;
    server.kill();
    sleep(ms(200 * sim::choose(8))).await;
    server.restart();
    sim.eventually(Duration::from_secs(15), "every request is answered", move || {
        *answered.lock().unwrap() == REQUESTS * CLIENTS
    });
}
