//! A register that five hosts replicate in the manner of Raft, and a check that it is linearizable.
//!
//! The leader of a term has the votes of three hosts. Each read and each write makes a new version of the
//! register, numbered by term and index. The operation is done when three hosts have stored the version.
//! A host votes once per term, and only for a candidate whose version is not older than its own. So a new
//! leader has the results of all completed operations, and first writes them again under its own term.

use super::history::{History, Operation};
use std::cell::Cell;
use std::io;
use std::rc::Rc;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use wakeful::io::{AsyncReadExt, AsyncWriteExt};
use wakeful::net::{TcpListener, TcpStream};
use wakeful::sim::{self, Chaos, Sim};
use wakeful::sync::Mutex as AsyncMutex;
use wakeful::task::{JoinSet, spawn_local};
use wakeful::time::{Instant, sleep, sleep_until, timeout};

const HOSTS: usize = 5;
/// When the clients stop.
const END: Duration = Duration::from_millis(1_200);
const QUORUM: usize = HOSTS / 2 + 1;

/// The election rule of a leader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Election {
    Correct,
    /// A host may vote for a candidate whose version is older than its own.
    OldVersion,
    /// A candidate needs the votes of more than half of the hosts that answer.
    NoQuorum,
}

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// A version of the register, ordered by term, then by index.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
struct Version {
    term: u64,
    index: u64,
    value: u64,
}

/// The state that a host stores on disk, which survives restarts.
#[derive(Debug, Default)]
struct Disk {
    term: u64,
    vote: Option<u64>,
    version: Version,
}

/// A message: kind, term and number of the sender, and a version.
///
/// An answer has the kind [`YES`] or [`NO`].
#[derive(Clone, Copy, Debug)]
struct Message {
    kind: u64,
    term: u64,
    sender: u64,
    version: Version,
}

const NO: u64 = 0;
const YES: u64 = 1;
/// The candidate asks for a vote.
const VOTE: u64 = 2;
/// The leader sends its version.
const STORE: u64 = 3;
/// The client reads the register.
const READ: u64 = 4;
/// The client writes the value of the version.
const WRITE: u64 = 5;

impl Message {
    async fn send(self, stream: &mut TcpStream) -> io::Result<()> {
        let Version { term, index, value } = self.version;
        let words = [self.kind, self.term, self.sender, term, index, value];
        stream.write_all(words.map(u64::to_be_bytes).as_flattened()).await
    }

    async fn receive(stream: &mut TcpStream) -> io::Result<Message> {
        let mut bytes = [[0; 8]; 6];
        stream.read_exact(bytes.as_flattened_mut()).await?;
        let [kind, term, sender, version, index, value] = bytes.map(u64::from_be_bytes);
        Ok(Message { kind, term, sender, version: Version { term: version, index, value } })
    }
}

/// A running host.
struct Node {
    me: u64,
    election: Election,
    disk: Arc<Mutex<Disk>>,
    /// The term in which this host is the leader, or `None`.
    leads: Cell<Option<u64>>,
    /// When the host last heard from a leader or a candidate.
    heard: Cell<Instant>,
    /// The connections to the other hosts.
    links: [AsyncMutex<Option<TcpStream>>; HOSTS],
    /// Held by the task that makes the next version.
    proposing: AsyncMutex<()>,
}

impl Node {
    /// Enters a newer term as a follower.
    fn see_term(&self, disk: &mut Disk, term: u64) {
        if term > disk.term {
            (disk.term, disk.vote) = (term, None);
            self.leads.set(None);
        }
    }

    /// Answers a candidate or a leader.
    fn answer(&self, asked: Message) -> Message {
        let mut disk = self.disk.lock().unwrap();
        self.see_term(&mut disk, asked.term);
        let is_new = asked.version >= disk.version;
        let is_granted = asked.term == disk.term
            && (asked.kind == STORE
                || (is_new || self.election == Election::OldVersion)
                    && *disk.vote.get_or_insert(asked.sender) == asked.sender);
        if is_granted {
            self.heard.set(Instant::now());
        }
        if is_granted && asked.kind == STORE && is_new {
            disk.version = asked.version;
        }
        let kind = if is_granted { YES } else { NO };
        Message { kind, term: disk.term, sender: self.me, version: disk.version }
    }

    /// Sends a message to another host, and returns its answer.
    async fn ask(self: Rc<Self>, host: usize, message: Message) -> Option<Message> {
        let asking = async {
            let mut link = self.links[host].lock().await;
            let mut stream = match link.take() {
                Some(stream) => stream,
                None => TcpStream::connect(format!("n{host}:70")).await?,
            };
            message.send(&mut stream).await?;
            let answer = Message::receive(&mut stream).await?;
            *link = Some(stream);
            io::Result::Ok(answer)
        };
        let answer = timeout(ms(80), asking).await.ok()?.ok()?;
        self.see_term(&mut self.disk.lock().unwrap(), answer.term);
        Some(answer)
    }

    /// Asks all other hosts. Returns whether a quorum agrees, this host included.
    async fn ask_all(self: &Rc<Self>, message: Message) -> bool {
        let mut asked = JoinSet::new();
        for host in (0..HOSTS).filter(|host| *host as u64 != self.me) {
            asked.spawn_local(self.clone().ask(host, message));
        }
        let (mut agreed, mut answered) = (1, 1);
        while let Some(answer) = asked.join_next().await {
            let Some(answer) = answer.unwrap() else { continue };
            answered += 1;
            agreed += usize::from(answer.kind == YES && answer.term == message.term);
            if agreed == QUORUM {
                asked.detach_all();
                return true;
            }
        }
        self.election == Election::NoQuorum && message.kind == VOTE && 2 * agreed > answered
    }

    /// Makes the next version, with a new value if there is one, and stores it on three hosts.
    ///
    /// Returns the value, or `None` if the host is not the leader or does not know whether it is stored.
    async fn propose(self: &Rc<Self>, value: Option<u64>) -> Option<u64> {
        let _proposing = self.proposing.lock().await;
        let term = self.leads.get()?;
        let version = {
            let mut disk = self.disk.lock().unwrap();
            let value = value.unwrap_or(disk.version.value);
            disk.version = Version { term, index: disk.version.index + 1, value };
            disk.version
        };
        let message = Message { kind: STORE, term, sender: self.me, version };
        let is_stored = self.ask_all(message).await && self.leads.get() == Some(term);
        is_stored.then_some(version.value)
    }

    /// Asks for votes after a time without a leader, and sends versions while it is the leader.
    async fn elect(self: Rc<Self>) {
        loop {
            if self.leads.get().is_some() {
                self.propose(None).await;
                sleep(ms(50)).await;
                continue;
            }
            let patience = ms(100 + 20 * ((self.me + sim::choose(5)) % 5));
            sleep_until(self.heard.get() + patience).await;
            if self.heard.get().elapsed() < patience {
                continue;
            }
            let message = {
                let mut disk = self.disk.lock().unwrap();
                let term = disk.term + 1;
                self.see_term(&mut disk, term);
                disk.vote = Some(self.me);
                Message { kind: VOTE, term, sender: self.me, version: disk.version }
            };
            // A host that could not be reached before may answer now.
            for _ in 0..3 {
                let has_won = self.ask_all(message).await;
                let term = self.disk.lock().unwrap().term;
                if has_won && term == message.term {
                    self.leads.set(Some(term));
                }
                if has_won || term > message.term {
                    break;
                }
                sleep(ms(30)).await;
            }
            self.heard.set(Instant::now());
        }
    }

    /// Serves the requests of one connection.
    async fn serve(self: Rc<Self>, mut stream: TcpStream) -> io::Result<()> {
        loop {
            let asked = Message::receive(&mut stream).await?;
            let answer = match asked.kind {
                VOTE | STORE => self.answer(asked),
                _ if self.leads.get().is_none() => Message { kind: NO, ..asked },
                _ => {
                    let value = (asked.kind == WRITE).then_some(asked.version.value);
                    // The client cannot know the result either, so the connection ends.
                    let Some(value) = self.propose(value).await else { return Ok(()) };
                    Message { kind: YES, version: Version { value, ..asked.version }, ..asked }
                }
            };
            answer.send(&mut stream).await?;
        }
    }
}

/// The program of a host.
async fn node(me: u64, disk: Arc<Mutex<Disk>>, election: Election) -> io::Result<()> {
    let node = Rc::new(Node {
        me,
        election,
        disk,
        leads: Cell::new(None),
        heard: Cell::new(Instant::now()),
        links: Default::default(),
        proposing: AsyncMutex::new(()),
    });
    spawn_local(node.clone().elect());
    let listener = TcpListener::bind("0.0.0.0:70").await?;
    loop {
        let (stream, _) = listener.accept().await?;
        spawn_local(node.clone().serve(stream));
    }
}

/// Sends a request to one host after the other, until one is the leader.
///
/// Returns `None` if the client cannot know whether the request is done.
async fn request(hint: &mut usize, message: Message) -> Option<u64> {
    loop {
        let host = format!("n{hint}:70");
        let connected = timeout(ms(100), TcpStream::connect(host)).await;
        if let Ok(Ok(mut stream)) = connected {
            let answered = timeout(ms(400), async {
                message.send(&mut stream).await?;
                Message::receive(&mut stream).await
            });
            match answered.await {
                Ok(Ok(answer)) if answer.kind == YES => return Some(answer.version.value),
                Ok(Ok(_)) => {}
                _ => {
                    *hint = (*hint + 1) % HOSTS;
                    return None;
                }
            }
        }
        *hint = (*hint + 1) % HOSTS;
        sleep(ms(20)).await;
    }
}

/// A client, with the history that all clients share.
struct Client {
    sim: Sim,
    me: u64,
    /// The host that was the leader last.
    hint: usize,
    history: Arc<Mutex<History>>,
}

impl Client {
    /// Reads, or writes a value. Returns whether the operation is known to be done.
    async fn operate(&mut self, written: Option<u64>) -> bool {
        let kind = if written.is_some() { WRITE } else { READ };
        let version = Version { value: written.unwrap_or(0), ..Version::default() };
        let began = self.sim.elapsed();
        let message = Message { kind, term: 0, sender: self.me, version };
        let read = request(&mut self.hint, message).await;
        let ended = read.map(|_| self.sim.elapsed());
        self.history.lock().unwrap().add(Operation { written, read, began, ended });
        ended.is_some()
    }

    /// Reads and writes until the end. Each written value is unique.
    async fn run(mut self) {
        for number in 1.. {
            sleep(ms(10 + 10 * sim::choose(10))).await;
            if self.sim.elapsed() > END {
                return;
            }
            let written = sim::maybe("write").then_some(100 * self.me + number);
            self.operate(written).await;
        }
    }
}

/// Three clients read and write a register while hosts fail. The history must be linearizable.
pub async fn register(sim: Sim, election: Election) {
    for me in 0..HOSTS as u64 {
        let disk = Arc::new(Mutex::new(Disk::default()));
        sim.host(format!("n{me}"), move || node(me, disk.clone(), election));
    }
    let history = Arc::new(Mutex::new(History::default()));
    let client = |me| Client { sim: sim.clone(), me, hint: me as usize, history: history.clone() };
    let clients = [1, 2, 3].map(|me| sim.client(format!("c{me}"), client(me).run()));
    sim.chaos(Chaos::swarm().latency_spikes(ms(200)).drift_ppm(100_000).until(END));
    for client in clients {
        client.await;
    }
    // All hosts are up again, so a leader is elected in the end.
    let mut last = client(4);
    while !last.operate(None).await {}
    let history = history.lock().unwrap();
    if std::env::var_os("WAKEFUL_SIM_REPLAY").is_some() {
        println!("{history}");
    }
    assert!(history.is_linearizable(), "the history is not linearizable");
}
