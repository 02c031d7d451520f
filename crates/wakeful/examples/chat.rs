//! A chat server with rooms, time-outs and a graceful shutdown.
//!
//! ```sh
//! cargo run --example chat                  # or … chat 127.0.0.1:7070; Ctrl-C ends it
//! nc 127.0.0.1 7000                         # as often as you like
//! ```
//!
//! The first line that a client sends is its name. After that, `/join ROOM`, `/rooms` and `/quit`
//! are commands, and every other line goes to all clients in the room.
//!
//! What to look at:
//!
//! - [`serve`] accepts clients. [`close`] asks them to leave, and aborts clients that stay.
//! - [`serve_client`] is one connection. It is generic over the stream, so a test needs no socket.
//! - [`Seat`] is a client's place in a room. Dropping the seat leaves the room, so a client also
//!   leaves if its task is aborted.

use std::collections::BTreeMap;
use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use wakeful::io::{
    self, AsyncBufRead, AsyncBufReadExt, AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt,
    BufReader,
};
use wakeful::net::TcpListener;
use wakeful::sync::broadcast::{self, error::RecvError};
use wakeful::sync::watch;
use wakeful::task::JoinSet;
use wakeful::time::{Instant, sleep, timeout};

/// The longest line in bytes. A client that sends a longer one is disconnected.
pub(crate) const MAX_LINE: usize = 1024;
/// The number of messages that a client may lag behind its room before it misses some.
pub(crate) const BACKLOG: usize = 64;
const LOBBY: &str = "lobby";

/// The time limits of the server for its clients.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// For the name of a new client.
    pub(crate) login: Duration,
    /// For the next line of a client.
    pub(crate) idle: Duration,
    /// For a client to read a line that was sent to it.
    pub(crate) send: Duration,
    /// For all clients to leave after the shutdown began.
    pub(crate) grace: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        let [login, idle, send, grace] = [30, 600, 10, 5].map(Duration::from_secs);
        Self { login, idle, send, grace }
    }
}

/// The state that all connections share.
pub(crate) struct Server {
    limits: Limits,
    /// The rooms that have clients. The lock is never held across an `.await`.
    rooms: Mutex<BTreeMap<String, broadcast::Sender<Arc<str>>>>,
    /// True after the shutdown has begun.
    closing: watch::Sender<bool>,
}

impl Server {
    pub(crate) fn new(limits: Limits) -> Arc<Self> {
        Arc::new(Self { limits, rooms: Mutex::default(), closing: watch::Sender::new(false) })
    }

    /// Enters a room, which is created if it does not exist.
    fn enter(&self, room: &str, name: &str) -> Seat<'_> {
        let mut rooms = self.rooms.lock().unwrap();
        let sender =
            rooms.entry(room.to_owned()).or_insert_with(|| broadcast::channel(BACKLOG).0).clone();
        let messages = sender.subscribe();
        drop(rooms);
        let seat =
            Seat { server: self, room: room.to_owned(), name: name.to_owned(), sender, messages };
        seat.say(&format!("* {name} has joined {room}"));
        seat
    }

    /// Lists the rooms and the number of clients in each, in one line.
    fn list_rooms(&self) -> String {
        let rooms = self.rooms.lock().unwrap();
        let list: Vec<String> = rooms
            .iter()
            .map(|(room, sender)| format!("{room} ({})", sender.receiver_count()))
            .collect();
        list.join(", ")
    }
}

/// A client's place in a room.
struct Seat<'a> {
    server: &'a Server,
    room: String,
    name: String,
    sender: broadcast::Sender<Arc<str>>,
    messages: broadcast::Receiver<Arc<str>>,
}

impl Seat<'_> {
    /// Sends a line to all clients in the room, this one included.
    fn say(&self, line: &str) {
        self.sender.send(line.into()).expect("this seat receives too");
    }
}

impl Drop for Seat<'_> {
    fn drop(&mut self) {
        self.say(&format!("* {} has left {}", self.name, self.room));
        let mut rooms = self.server.rooms.lock().unwrap();
        if self.sender.receiver_count() == 1 {
            rooms.remove(&self.room);
        }
    }
}

/// Accepts clients until `shutdown` completes, then ends all connections.
///
/// Returns the number of clients that were aborted because they did not leave in time.
pub(crate) async fn serve(
    server: Arc<Server>,
    listener: TcpListener,
    shutdown: impl Future<Output = ()>,
) -> usize {
    let mut shutdown = pin!(shutdown);
    let mut clients = JoinSet::new();
    loop {
        wakeful::select! {
            accepted = listener.accept() => match accepted {
                Ok((stream, address)) => {
                    let server = server.clone();
                    // A dump shows the name; Ctrl-\ prints one.
                    let name = format!("client {address}");
                    let task = clients.build_task().name(&name).spawn(async move {
                        if let Err(error) = serve_client(&server, stream).await {
                            eprintln!("client {address}: {error}");
                        }
                    });
                    task.expect("a runtime is there");
                }
                Err(error) => {
                    // For example, no descriptors are left. The next attempt would fail at once.
                    eprintln!("accept: {error}");
                    sleep(Duration::from_millis(100)).await;
                }
            },
            // A set keeps the results of its tasks until they are taken.
            Some(ended) = clients.join_next() => {
                if let Err(error) = ended {
                    eprintln!("a connection failed: {error}");
                }
            }
            () = &mut shutdown => break,
        }
    }
    drop(listener);
    close(&server, clients).await
}

/// Asks all clients to leave, and aborts those that do not leave in time.
///
/// Returns the number of aborted clients.
pub(crate) async fn close(server: &Server, mut clients: JoinSet<()>) -> usize {
    server.closing.send_replace(true);
    let all_left = async { while clients.join_next().await.is_some() {} };
    if timeout(server.limits.grace, all_left).await.is_ok() {
        return 0;
    }
    let stubborn = clients.len();
    clients.shutdown().await;
    stubborn
}

/// Serves one client until it leaves, is too slow, or the server shuts down.
pub(crate) async fn serve_client(
    server: &Server,
    stream: impl AsyncRead + AsyncWrite,
) -> io::Result<()> {
    let (reader, writer) = io::split(stream);
    let (mut reader, mut writer) = (pin!(BufReader::new(reader)), pin!(writer));
    let mut closing = server.closing.subscribe();
    let farewell = wakeful::select! {
        farewell = talk(server, &mut reader, &mut writer) => farewell?,
        // The other branch is dropped at its current await, and the seat with it.
        _ = closing.wait_for(|closing| *closing) => "* the server shuts down",
    };
    send(server, &mut writer, farewell).await?;
    writer.shutdown().await
}

/// Talks to one client. Returns the last line to send to it.
async fn talk(
    server: &Server,
    reader: &mut (impl AsyncBufRead + Unpin),
    writer: &mut (impl AsyncWrite + Unpin),
) -> io::Result<&'static str> {
    let Limits { login, idle, .. } = server.limits;
    let mut line = Vec::new();
    send(server, writer, "* what is your name?").await?;
    let name = match timeout(login, read_line(reader, &mut line)).await {
        Err(_) => return Ok("* you have not said your name in time"),
        Ok(name) => name?.unwrap_or_default(),
    };
    if name.is_empty() {
        return Ok("* goodbye");
    }
    let mut seat = server.enter(LOBBY, &name);
    // Created once, not in each round: messages from other clients must not postpone the time-out.
    let mut silence = pin!(sleep(idle));
    loop {
        wakeful::select! {
            input = read_line(reader, &mut line) => {
                let Some(input) = input? else { return Ok("* goodbye") };
                silence.as_mut().reset(Instant::now() + idle);
                match input.split_once(' ').unwrap_or((&input, "")) {
                    ("/quit", _) => return Ok("* goodbye"),
                    ("/rooms", _) => send(server, writer, &server.list_rooms()).await?,
                    ("/join", "") => send(server, writer, "* which room?").await?,
                    ("/join", room) => seat = server.enter(room, &name),
                    _ => seat.say(&format!("{name}: {input}")),
                }
            }
            message = seat.messages.recv() => match message {
                Ok(message) => send(server, writer, &message).await?,
                Err(RecvError::Lagged(missed)) => {
                    send(server, writer, &format!("* you have missed {missed} messages")).await?;
                }
                Err(RecvError::Closed) => unreachable!("the seat has a sender"),
            },
            () = silence.as_mut() => return Ok("* you have been silent for too long"),
        }
    }
}

/// Sends a line. Fails if the client does not read it in time.
async fn send(
    server: &Server,
    writer: &mut (impl AsyncWrite + Unpin),
    line: &str,
) -> io::Result<()> {
    let line = format!("{line}\n");
    timeout(server.limits.send, writer.write_all(line.as_bytes())).await?
}

/// Reads a line. Returns `None` at the end of the stream.
///
/// Cancel safe if the caller keeps `line`, which has the bytes that were read so far.
async fn read_line(
    reader: &mut (impl AsyncBufRead + Unpin),
    line: &mut Vec<u8>,
) -> io::Result<Option<String>> {
    let room = MAX_LINE - line.len();
    reader.take(room as u64).read_until(b'\n', line).await?;
    if !line.ends_with(b"\n") && line.len() == MAX_LINE {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "the line is too long"));
    }
    let is_end = line.is_empty();
    let text = String::from_utf8_lossy(line).trim().to_owned();
    line.clear();
    Ok((!is_end).then_some(text))
}

#[wakeful::main]
async fn main() -> io::Result<()> {
    let address = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:7000".to_owned());
    let listener = TcpListener::bind(&address).await?;
    println!("listening on {}; Ctrl-C ends it", listener.local_addr()?);
    let shutdown = async { wakeful::signal::ctrl_c().await.expect("signals can be handled") };
    let stubborn = serve(Server::new(Limits::default()), listener, shutdown).await;
    println!("closed; {stubborn} clients did not leave in time");
    Ok(())
}
