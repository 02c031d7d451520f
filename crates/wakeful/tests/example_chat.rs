//! The example `chat` with its clients: over TCP on both kinds of runtime, and in memory where
//! time matters.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use wakeful::io::{
    AsyncBufReadExt, AsyncRead, AsyncWrite, AsyncWriteExt, BufReader, DuplexStream, duplex,
};
use wakeful::net::{TcpListener, TcpStream};
use wakeful::runtime::{Builder, OrphanPolicy};
use wakeful::sync::oneshot;
use wakeful::task::{JoinHandle, JoinSet};
use wakeful::time::Instant;

#[path = "../examples/chat.rs"]
#[allow(dead_code, reason = "its main function reads arguments and waits for Ctrl-C")]
mod chat;
mod support {
    pub mod runtimes;
}
use chat::{BACKLOG, Limits, MAX_LINE, Server, close, serve, serve_client};
use support::runtimes::{TestRuntime, watch};

const HOUR: Duration = Duration::from_secs(3600);
const PATIENT: Limits = Limits { login: HOUR, idle: HOUR, send: HOUR, grace: HOUR };

fn runtimes() -> [TestRuntime; 2] {
    let mut multi = Builder::new_multi_thread();
    multi.worker_threads(2).enable_all().on_orphan(OrphanPolicy::Panic);
    let mut current = Builder::new_current_thread();
    current.enable_all().on_orphan(OrphanPolicy::Panic);
    [watch("current_thread", &mut current), watch("multi_thread", &mut multi)]
}

/// A runtime whose clock jumps to the next timer when all tasks wait.
fn paused() -> TestRuntime {
    let mut builder = Builder::new_current_thread();
    builder.enable_all().start_paused(true).on_orphan(OrphanPolicy::Panic);
    watch("paused", &mut builder)
}

struct Client<S>(BufReader<S>);

impl<S: AsyncRead + AsyncWrite + Unpin> Client<S> {
    /// Logs in, and asserts that the server announces it in the lobby.
    async fn login(stream: S, name: &str) -> Self {
        let mut client = Client(BufReader::new(stream));
        client.expect("* what is your name?").await;
        client.say(name).await;
        client.expect(&format!("* {name} has joined lobby")).await;
        client
    }

    async fn say(&mut self, line: &str) {
        self.0.write_all(format!("{line}\n").as_bytes()).await.unwrap();
    }

    /// Returns the next line, or `None` at the end of the stream.
    async fn hear(&mut self) -> Option<String> {
        let mut line = String::new();
        self.0.read_line(&mut line).await.unwrap();
        line.pop().map(|_| line)
    }

    #[track_caller]
    fn expect(&mut self, expected: &str) -> impl Future<Output = ()> {
        let caller = std::panic::Location::caller();
        async move {
            let heard = self.hear().await;
            assert_eq!(heard.as_deref(), Some(expected), "at {caller}");
        }
    }

    async fn expect_end(&mut self) {
        assert_eq!(self.hear().await, None);
    }
}

struct Running {
    address: SocketAddr,
    shut_down: oneshot::Sender<()>,
    done: JoinHandle<usize>,
}

async fn start(limits: Limits) -> Running {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (shut_down, is_shut_down) = oneshot::channel();
    let shutdown = async { is_shut_down.await.unwrap() };
    let done = wakeful::spawn(serve(Server::new(limits), listener, shutdown));
    Running { address, shut_down, done }
}

async fn connect(address: SocketAddr, name: &str) -> Client<TcpStream> {
    Client::login(TcpStream::connect(address).await.unwrap(), name).await
}

#[test]
fn a_message_goes_to_the_clients_of_its_room() {
    for rt in runtimes() {
        rt.block_on(async {
            let server = start(PATIENT).await;
            let mut ann = connect(server.address, "ann").await;
            let mut bob = connect(server.address, "bob").await;
            ann.expect("* bob has joined lobby").await;
            ann.say("hello").await;
            ann.expect("ann: hello").await;
            bob.expect("ann: hello").await;

            bob.say("/join garden").await;
            bob.expect("* bob has joined garden").await;
            ann.expect("* bob has left lobby").await;
            ann.say("gone?").await;
            ann.expect("ann: gone?").await;
            bob.say("/rooms").await;
            bob.expect("garden (1), lobby (1)").await;
            bob.say("/join").await;
            bob.expect("* which room?").await;
            bob.say("alone").await;
            bob.expect("bob: alone").await;

            bob.say("/join lobby").await;
            bob.expect("* bob has joined lobby").await;
            ann.expect("* bob has joined lobby").await;
            bob.say("/rooms").await;
            bob.expect("lobby (2)").await;
            bob.say("/quit").await;
            bob.expect("* goodbye").await;
            bob.expect_end().await;
            ann.expect("* bob has left lobby").await;
            drop(ann); // without a word
            server.shut_down.send(()).unwrap();
            assert_eq!(server.done.await.unwrap(), 0);
        });
    }
}

#[test]
fn many_clients_hear_each_message_once() {
    const CLIENTS: usize = 20;
    for rt in runtimes() {
        rt.block_on(async {
            let server = start(PATIENT).await;
            let mut clients = Vec::new();
            for n in 0..CLIENTS {
                clients.push(connect(server.address, &format!("client{n}")).await);
                let joined = format!("* client{n} has joined lobby");
                for earlier in &mut clients[..n] {
                    earlier.expect(&joined).await;
                }
            }
            let talks = clients.into_iter().enumerate().map(|(n, mut client)| {
                wakeful::spawn(async move {
                    client.say(&format!("I am {n}")).await;
                    let mut heard = Vec::new();
                    for _ in 0..CLIENTS {
                        heard.push(client.hear().await.unwrap());
                    }
                    heard.sort();
                    (heard, client)
                })
            });
            let mut expected: Vec<_> =
                (0..CLIENTS).map(|n| format!("client{n}: I am {n}")).collect();
            expected.sort();
            let mut clients = Vec::new();
            for talk in talks.collect::<Vec<_>>() {
                let (heard, client) = talk.await.unwrap();
                assert_eq!(heard, expected, "{}", rt.name);
                clients.push(client);
            }
            drop(clients);
            server.shut_down.send(()).unwrap();
            assert_eq!(server.done.await.unwrap(), 0);
        });
    }
}

#[test]
fn a_shutdown_says_goodbye_and_refuses_new_clients() {
    for rt in runtimes() {
        rt.block_on(async {
            let server = start(PATIENT).await;
            let mut ann = connect(server.address, "ann").await;
            let mut nameless =
                Client(BufReader::new(TcpStream::connect(server.address).await.unwrap()));
            nameless.expect("* what is your name?").await;
            server.shut_down.send(()).unwrap();
            ann.expect("* the server shuts down").await;
            ann.expect_end().await;
            nameless.expect("* the server shuts down").await;
            nameless.expect_end().await;
            assert_eq!(server.done.await.unwrap(), 0);
            assert!(TcpStream::connect(server.address).await.is_err());
        });
    }
}

/// A connection in memory with a buffer of this size, and the task that serves it.
fn in_memory(server: &Arc<Server>, size: usize) -> (DuplexStream, JoinHandle<std::io::Result<()>>) {
    let (near, far) = duplex(size);
    let server = server.clone();
    (near, wakeful::spawn(async move { serve_client(&server, far).await }))
}

#[test]
fn a_client_without_a_name_is_disconnected_in_time() {
    let rt = paused();
    rt.block_on(async {
        let limits = Limits { login: Duration::from_secs(30), ..PATIENT };
        let (stream, served) = in_memory(&Server::new(limits), 1024);
        let (mut client, start) = (Client(BufReader::new(stream)), Instant::now());
        client.expect("* what is your name?").await;
        client.expect("* you have not said your name in time").await;
        client.expect_end().await;
        assert_eq!(start.elapsed().as_secs(), 30);
        served.await.unwrap().unwrap();
    });
}

#[test]
fn a_silent_client_is_disconnected_although_others_talk() {
    let rt = paused();
    rt.block_on(async {
        let server = Server::new(Limits { idle: Duration::from_secs(60), ..PATIENT });
        let start = Instant::now();
        let (stream, silent_served) = in_memory(&server, 1024);
        let mut silent = Client::login(stream, "silent").await;
        let (stream, talks_served) = in_memory(&server, 1024);
        let mut talks = Client::login(stream, "talks").await;
        silent.expect("* talks has joined lobby").await;
        for minute in 1..=3 {
            wakeful::time::sleep(Duration::from_secs(25)).await;
            talks.say("still here").await;
            talks.expect("talks: still here").await;
            if minute < 3 {
                silent.expect("talks: still here").await;
            } else {
                silent.expect("* you have been silent for too long").await;
                silent.expect_end().await;
            }
            if minute == 2 {
                talks.expect("* silent has left lobby").await;
                assert_eq!(start.elapsed().as_secs(), 60);
            }
        }
        silent_served.await.unwrap().unwrap();
        drop(talks);
        talks_served.await.unwrap().unwrap_err();
    });
}

#[test]
fn a_client_that_does_not_read_misses_messages_and_is_disconnected() {
    let rt = paused();
    rt.block_on(async {
        let server = Server::new(Limits { send: Duration::from_secs(10), ..PATIENT });
        let (stream, lags_served) = in_memory(&server, 100);
        let mut lags = Client::login(stream, "lags").await;
        let (stream, talks_served) = in_memory(&server, 1024);
        let mut talks = Client::login(stream, "talks").await;
        let line = "x".repeat(60);
        let said = format!("talks: {line}");
        // The first message fits into the pipe to the client, and the second waits for space. The room keeps as many of
        // the rest as it can.
        for _ in 0..2 * BACKLOG {
            talks.say(&line).await;
            talks.expect(&said).await;
        }
        lags.expect("* talks has joined lobby").await;
        lags.expect(&said).await;
        lags.expect(&said).await;
        let missed = lags.hear().await.unwrap();
        assert!(missed.starts_with("* you have missed "), "{missed}");
        // From here on the client reads nothing, and the next messages fill the pipe.
        for _ in 0..BACKLOG {
            talks.say(&line).await;
            talks.expect(&said).await;
        }
        let start = Instant::now();
        talks.expect("* lags has left lobby").await;
        assert_eq!(start.elapsed().as_secs(), 10);
        let error = lags_served.await.unwrap().unwrap_err();
        assert_eq!(error.kind(), std::io::ErrorKind::TimedOut, "{error}");
        talks.say("/quit").await;
        talks.expect("* goodbye").await;
        talks_served.await.unwrap().unwrap();
    });
}

#[test]
fn a_line_that_is_too_long_ends_the_connection() {
    let rt = paused();
    rt.block_on(async {
        let server = Server::new(PATIENT);
        let (stream, served) = in_memory(&server, 4 * MAX_LINE);
        let mut client = Client::login(stream, "long").await;
        client.say(&"x".repeat(MAX_LINE - 1)).await;
        assert_eq!(client.hear().await.unwrap().len(), MAX_LINE - 1 + "long: ".len());
        client.say(&"x".repeat(MAX_LINE)).await;
        assert_eq!(served.await.unwrap().unwrap_err().kind(), std::io::ErrorKind::InvalidData);
    });
}

#[test]
fn a_client_that_does_not_leave_in_time_is_aborted() {
    let rt = paused();
    rt.block_on(async {
        let server = Server::new(Limits { grace: Duration::from_secs(5), ..PATIENT });
        let (stream, served) = in_memory(&server, 1024);
        let mut polite = Client::login(stream, "polite").await;
        let mut clients = JoinSet::new();
        clients.spawn(async { served.await.unwrap().unwrap() });
        clients.spawn(wakeful::time::sleep(HOUR));
        let start = Instant::now();
        assert_eq!(close(&server, clients).await, 1);
        assert_eq!(start.elapsed().as_secs(), 5);
        polite.expect("* the server shuts down").await;
        polite.expect_end().await;
    });
}
