//! Bugs of hosts and sockets: bugs 8, 9, 12 and 14. A message takes 1 to 20 ms.
//!
//! The clients check the result at the end, because a panic of a detached tokio task does not fail a run
//! of turmoil.

use crate::programs::{System, Twin};
use crate::rt::{
    AsyncReadExt, AsyncWriteExt, TcpListener, TcpStream, choose, crash, mpsc, oneshot, partition,
    restart, sleep, spawn, timeout,
};
use std::io;
use std::net::Ipv4Addr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

const PORT: u16 = 80;

const fn ms(number: u64) -> Duration {
    Duration::from_millis(number)
}

async fn listen() -> TcpListener {
    TcpListener::bind((Ipv4Addr::UNSPECIFIED, PORT)).await.unwrap()
}

/// Connects to a host as soon as it listens.
async fn connect(host: &str) -> TcpStream {
    loop {
        match TcpStream::connect((host, PORT)).await {
            Ok(stream) => return stream,
            Err(_) => sleep(ms(10)).await,
        }
    }
}

/// Sends a byte on a new connection, and returns the answer.
async fn ask(host: &str, byte: u8) -> io::Result<u8> {
    let mut stream = TcpStream::connect((host, PORT)).await?;
    stream.write_all(&[byte]).await?;
    stream.flush().await?;
    let mut answer = [0];
    stream.read_exact(&mut answer).await?;
    Ok(answer[0])
}

async fn answer(mut stream: TcpStream, byte: u8) {
    // The other side may have given up.
    let _ = stream.write_all(&[byte]).await;
    let _ = stream.flush().await;
}

const MESSAGE: usize = 8;

/// The server takes the result of one `read` for one message. The twin reads exactly one message.
pub fn one_read(twin: Twin) -> System {
    let server = move || async move {
        let listener = listen().await;
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            for _ in 0..3 {
                let mut buffer = [0; 64];
                let len = if twin.is_fixed() {
                    stream.read_exact(&mut buffer[..MESSAGE]).await.unwrap()
                } else {
                    stream.read(&mut buffer).await.unwrap()
                };
                assert_eq!(len, MESSAGE, "not one message");
            }
            answer(stream, 1).await;
        }
    };
    let client = async {
        let mut stream = connect("server").await;
        for number in 0..3 {
            stream.write_all(&[number; MESSAGE]).await.unwrap();
            stream.flush().await.unwrap();
        }
        stream.read_exact(&mut [0]).await.unwrap();
    };
    System { client: Box::pin(client), ..System::local(async {}) }.host("server", server)
}

/// A client that gets no answer in time repeats its request, and the server applies it twice. The twin
/// remembers the numbers of applied requests.
pub fn applied_twice(twin: Twin) -> System {
    let applied: Arc<Mutex<Vec<u8>>> = Arc::default();
    let seen = applied.clone();
    let server = move || {
        let applied = applied.clone();
        async move {
            let listener = listen().await;
            loop {
                let (mut stream, _) = listener.accept().await.unwrap();
                let applied = applied.clone();
                spawn(async move {
                    let mut request = [0];
                    if stream.read_exact(&mut request).await.is_err() {
                        return;
                    }
                    {
                        let mut applied = applied.lock().unwrap();
                        if !(twin.is_fixed() && applied.contains(&request[0])) {
                            applied.push(request[0]);
                        }
                    }
                    answer(stream, 1).await;
                });
            }
        }
    };
    let client = async move {
        for request in 0..3 {
            for _ in 0..5 {
                if let Ok(Ok(_)) = timeout(ms(35), ask("server", request)).await {
                    break;
                }
            }
        }
        let seen = seen.lock().unwrap();
        for request in 0..3 {
            let times = seen.iter().filter(|applied| **applied == request).count();
            assert!(times <= 1, "a request is applied twice");
        }
    };
    System { client: Box::pin(client), ..System::local(async {}) }.host("server", server)
}

const NODES: [&str; 3] = ["n0", "n1", "n2"];

/// Becomes a candidate for the one term, unless the node has voted. The twin needs the votes of two nodes;
/// the buggy version wins if no node refuses.
async fn elect(own: usize, voted: &Mutex<Option<u8>>, twin: Twin) -> bool {
    sleep(ms(100 + 50 * choose(4))).await;
    {
        let mut voted = voted.lock().unwrap();
        if voted.is_some() {
            return false;
        }
        *voted = Some(own as u8);
    }
    let others = (0..3).filter(|other| *other != own);
    let asked: Vec<_> = others
        .map(|other| spawn(timeout(ms(100), async move { ask(NODES[other], own as u8).await })))
        .collect();
    let (mut votes, mut refusals) = (1, 0);
    for asked in asked {
        match asked.await.unwrap() {
            Ok(Ok(1)) => votes += 1,
            Ok(Ok(_)) => refusals += 1,
            _ => {}
        }
    }
    if twin.is_fixed() { votes >= 2 } else { refusals == 0 }
}

/// An unreachable node counts as consent, so each side of a partition elects a leader.
pub fn two_leaders(twin: Twin) -> System {
    let leaders: Arc<Mutex<Vec<usize>>> = Arc::default();
    let seen = leaders.clone();
    let client = async move {
        sleep(ms(50 * choose(4))).await;
        if choose(10) == 1 {
            let cut = choose(3) as usize;
            for other in (0..3).filter(|other| *other != cut) {
                partition(NODES[cut], NODES[other]);
            }
        }
        sleep(ms(1_000)).await;
        assert!(seen.lock().unwrap().len() <= 1, "two leaders in one term");
    };
    let mut system = System::local(client);
    for (own, name) in NODES.into_iter().enumerate() {
        let leaders = leaders.clone();
        system = system.host(name, move || {
            let leaders = leaders.clone();
            async move {
                let listener = listen().await;
                let voted: Arc<Mutex<Option<u8>>> = Arc::default();
                let own_vote = voted.clone();
                spawn(async move {
                    if elect(own, &own_vote, twin).await {
                        leaders.lock().unwrap().push(own);
                    }
                });
                loop {
                    let (mut stream, _) = listener.accept().await.unwrap();
                    let voted = voted.clone();
                    spawn(async move {
                        let mut candidate = [0];
                        if stream.read_exact(&mut candidate).await.is_ok() {
                            let vote = *voted.lock().unwrap().get_or_insert(candidate[0]);
                            answer(stream, u8::from(vote == candidate[0])).await;
                        }
                    });
                }
            }
        });
    }
    system
}

/// The clients of the retry storm, and how long each of them waits for an answer.
const CLIENTS: u64 = 30;
const PATIENCE: Duration = ms(150);

/// A client that makes a request every 600 ms, and repeats it until it is answered. The twin waits longer
/// after each failure.
async fn customer(number: u64, answered: Arc<Mutex<u32>>, twin: Twin) {
    sleep(ms(20 * number)).await;
    loop {
        let mut failures = 0;
        while !matches!(timeout(PATIENCE, ask("server", 0)).await, Ok(Ok(_))) {
            failures += 1;
            let pause = if twin.is_fixed() { 100 << failures.min(4) } else { 1 };
            sleep(ms(pause)).await;
        }
        *answered.lock().unwrap() += 1;
        sleep(ms(600)).await;
    }
}

/// Serves requests in order, for 10 ms each.
async fn shop() {
    let listener = listen().await;
    let (queue, mut requests) = mpsc::channel::<oneshot::Sender<()>>(10_000);
    spawn(async move {
        while let Some(done) = requests.recv().await {
            sleep(ms(10)).await;
            let _ = done.send(());
        }
    });
    loop {
        let (mut stream, _) = listener.accept().await.unwrap();
        let queue = queue.clone();
        spawn(async move {
            let (done, is_done) = oneshot::channel();
            if stream.read_exact(&mut [0]).await.is_ok() && queue.send(done).await.is_ok() {
                let _ = is_done.await;
                answer(stream, 1).await;
            }
        });
    }
}

/// After a restart, all clients send requests at once, and repeat them before the server has answered the
/// first ones. So the server works only for clients that have given up waiting. The clients of the twin
/// back off.
pub fn retry_storm(twin: Twin) -> System {
    let client = async move {
        let answered: Arc<Mutex<u32>> = Arc::default();
        for number in 0..CLIENTS {
            spawn(customer(number, answered.clone(), twin));
        }
        sleep(ms(1_000)).await;
        crash("server");
        sleep(ms(1 + 200 * choose(6))).await;
        restart("server");
        sleep(ms(6_000)).await;
        let before = *answered.lock().unwrap();
        sleep(ms(2_000)).await;
        let after = *answered.lock().unwrap();
        assert!(after - before >= 20, "the server does not recover");
    };
    System::local(client).host("server", shop)
}
