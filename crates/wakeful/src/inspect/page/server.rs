//! The listener of the page, its threads and its limits.
//!
//! One thread accepts and one samples the history. Each connection has a thread of its own, for one
//! request; at most [`MAX_CONNECTIONS`] of them exist. They are registered as threads that run no code
//! of the program, so the proofs of the deadlock detector do not count them. If the page may abort
//! tasks, those that serve it are not registered: a `block_on` that waits for such a task can return.

use super::Options;
use super::access::{Access, Visit};
use super::api::{Api, Events, VIEW_KEPT_FOR};
use super::assets;
use super::history::History;
use super::peer_user;
use super::request::{Connection, Refused, Request};
use super::response::{Response, Status, head};
use crate::sys::sync::ignore_poison;
use crate::sys::thread_registry::{ALL_RUNTIMES, RuntimeThread};
use crate::sys::unwind::catch_and_forget;
use crate::task::ended;
use crate::telemetry::site_times;
use rustix::fs::Mode;
use socket2::{Domain, SockAddr, Socket as Socket2, Type};
use std::fs;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering::*};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;
use std::time::{Duration, Instant};

/// The maximum number of connections. Further clients get the status `Busy`.
const MAX_CONNECTIONS: usize = 64;
/// The maximum number of connections that are event streams, so that requests are always answered.
const MAX_STREAMS: usize = 16;
/// How long a client may take to send its request, normally and if there are many clients.
const REQUEST_LIMIT: Duration = Duration::from_secs(5);
const CROWDED_REQUEST_LIMIT: Duration = Duration::from_millis(500);
/// How long a client may take to receive a response.
const WRITE_LIMIT: Duration = Duration::from_secs(10);
/// The time between two events of a stream, and between two samples of the history.
const STEP: Duration = Duration::from_secs(1);
/// The maximum number of ended tasks recorded in that time.
const ENDED_PER_STEP: u32 = 100;
/// The pause after a failed accept, such as when the process has no descriptor left.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// A server of the page.
pub(super) struct Server {
    listener: Listener,
    access: Access,
    api: Api,
    connections: AtomicUsize,
    streams: AtomicUsize,
    is_stopped: Mutex<bool>,
    stopped: Condvar,
}

enum Listener {
    Tcp(TcpListener, SocketAddr),
    Unix(UnixListener, PathBuf),
}

impl Listener {
    fn bind(address: &str) -> io::Result<Self> {
        let explain = |error: io::Error| {
            io::Error::new(error.kind(), format!("cannot listen on {address}: {error}"))
        };
        if let Some(path) = address.strip_prefix("unix:") {
            remove_stale(Path::new(path));
            let listener = bind_private(path).map_err(explain)?;
            return Ok(Self::Unix(listener, path.into()));
        }
        let address: SocketAddr = address.parse().map_err(|_| {
            let text = format!("{address:?} is not an address with a port");
            io::Error::new(io::ErrorKind::InvalidInput, text)
        })?;
        let listener = TcpListener::bind(address).map_err(explain)?;
        let address = listener.local_addr()?;
        Ok(Self::Tcp(listener, address))
    }

    fn port(&self) -> Option<u16> {
        match self {
            Self::Tcp(_, address) => Some(address.port()),
            Self::Unix(..) => None,
        }
    }

    fn accept(&self) -> io::Result<Client> {
        match self {
            Self::Tcp(listener, _) => {
                listener.accept().map(|(client, _)| Client::new(Socket::Tcp(client)))
            }
            Self::Unix(listener, _) => {
                listener.accept().map(|(client, _)| Client::new(Socket::Unix(client)))
            }
        }
    }

    /// Refuses further clients, and makes a thread that waits in `accept` return.
    ///
    /// Linux does so for a listening socket that is shut down, although other threads still have it.
    fn close(&self) {
        let descriptor = match self {
            Self::Tcp(listener, _) => listener.as_fd(),
            Self::Unix(listener, _) => listener.as_fd(),
        };
        let _ = rustix::net::shutdown(descriptor, rustix::net::Shutdown::Both); // fails if it is closed
    }
}

/// Listens on a Unix socket that only its user may open. Linux creates the file with the socket's mode.
fn bind_private(path: &str) -> io::Result<UnixListener> {
    let socket = Socket2::new(Domain::UNIX, Type::STREAM.cloexec(), None)?;
    rustix::fs::fchmod(&socket, Mode::RUSR | Mode::WUSR)?;
    socket.bind(&SockAddr::unix(path)?)?;
    socket.listen(128)?;
    Ok(socket.into())
}

/// Removes the socket of a process that has ended: no process listens on it.
fn remove_stale(path: &Path) {
    let is_socket = fs::symlink_metadata(path).is_ok_and(|it| it.file_type().is_socket());
    let refuses = || {
        let error = UnixStream::connect(path).err();
        error.is_some_and(|error| error.kind() == io::ErrorKind::ConnectionRefused)
    };
    if is_socket && refuses() {
        let _ = fs::remove_file(path); // `bind` fails if the file still exists
    }
}

/// A connection to a client.
struct Client {
    socket: Socket,
    /// The deadline for the client to receive what the server writes.
    write_deadline: Instant,
}

enum Socket {
    Tcp(TcpStream),
    Unix(UnixStream),
}

impl Client {
    fn new(socket: Socket) -> Self {
        Self { socket, write_deadline: Instant::now() + WRITE_LIMIT }
    }

    /// Gives the client time for another response, or another event.
    fn extend_write_deadline(&mut self) {
        self.write_deadline = Instant::now() + WRITE_LIMIT;
    }

    /// Returns whether the client is a process of this user.
    fn is_own_user(&self) -> bool {
        match &self.socket {
            Socket::Tcp(client) => peer_user::is_own(client),
            Socket::Unix(_) => false, // codes are not used with sockets
        }
    }

    /// Reads without waiting. Returns whether the client has closed the connection.
    ///
    /// A client of a stream sends nothing. A client that sends more counts as gone.
    fn detect_close(&mut self) -> bool {
        let nonblocking = |client: &Self, on| match &client.socket {
            Socket::Tcp(client) => client.set_nonblocking(on),
            Socket::Unix(client) => client.set_nonblocking(on),
        };
        if nonblocking(self, true).is_err() {
            return true;
        }
        let read = self.read(&mut [0]);
        let is_silent = matches!(read, Err(error) if error.kind() == io::ErrorKind::WouldBlock);
        !is_silent || nonblocking(self, false).is_err()
    }
}

impl Read for Client {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match &mut self.socket {
            Socket::Tcp(client) => client.read(buffer),
            Socket::Unix(client) => client.read(buffer),
        }
    }
}

impl Write for Client {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let left = self.write_deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into()); // a zero limit would mean none
        }
        match &mut self.socket {
            Socket::Tcp(client) => {
                client.set_write_timeout(Some(left))?;
                client.write(bytes)
            }
            Socket::Unix(client) => {
                client.set_write_timeout(Some(left))?;
                client.write(bytes)
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Connection for Client {
    fn set_read_limit(&self, limit: Duration) -> io::Result<()> {
        match &self.socket {
            Socket::Tcp(client) => client.set_read_timeout(Some(limit)),
            Socket::Unix(client) => client.set_read_timeout(Some(limit)),
        }
    }
}

/// Counts a connection or stream while it exists.
struct Counted<'a>(&'a AtomicUsize);

impl<'a> Counted<'a> {
    /// Counts one more, unless there are `most` already.
    fn new(count: &'a AtomicUsize, most: usize) -> Option<Self> {
        let add = |count| (count < most).then_some(count + 1);
        // Relaxed: the count guards nothing but itself.
        count.fetch_update(Relaxed, Relaxed, add).ok().map(|_| Self(count))
    }
}

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Relaxed);
    }
}

/// Starts a thread. `may_act` says whether a client may abort a task through it.
fn start_thread(name: &str, may_act: bool, run: impl FnOnce() + Send + 'static) -> io::Result<()> {
    let run = move || {
        let _own = (!may_act).then(|| RuntimeThread::new(ALL_RUNTIMES));
        // A panic, of a task's destructor for example, must not end more than this thread.
        catch_and_forget(run);
    };
    thread::Builder::new().name(name.to_owned()).spawn(run).map(drop)
}

impl Server {
    /// Binds the address and starts the threads.
    pub(super) fn start(options: &Options) -> io::Result<Arc<Self>> {
        let listener = Listener::bind(&options.address)?;
        let access = Access::new(listener.port(), options.token.as_deref())?;
        let server = Arc::new(Self {
            listener,
            access,
            api: Api::new(options.allow_abort, History::new()),
            connections: AtomicUsize::new(0),
            streams: AtomicUsize::new(0),
            is_stopped: Mutex::new(false),
            stopped: Condvar::new(),
        });
        server.warn_beyond_loopback();
        site_times::enable();
        let (accepting, sampling) = (server.clone(), server.clone());
        start_thread("wakeful-page", options.allow_abort, move || accepting.accept())?;
        start_thread("wakeful-sampler", false, move || sampling.sample())
            .inspect_err(|_| server.stop())?;
        Ok(server)
    }

    fn warn_beyond_loopback(&self) {
        if let Listener::Tcp(_, address) = &self.listener
            && !address.ip().is_loopback()
        {
            let text = format!(
                "wakeful: the live page at {address} can be reached from other machines, without \
                 encryption. Bind it to 127.0.0.1, or to a Unix socket, and use an SSH tunnel.\n"
            );
            let _ = io::stderr().write_all(text.as_bytes());
        }
    }

    pub(super) fn url(&self) -> String {
        let token = self.access.token();
        match &self.listener {
            Listener::Tcp(_, address) => format!("http://{address}/?token={token}"),
            Listener::Unix(_, path) => {
                format!("unix:{} (path /?token={token})", path.display())
            }
        }
    }

    /// Returns the URL with a code in place of the token, which works once and for this user only.
    pub(super) fn code_url(&self) -> Option<String> {
        match &self.listener {
            Listener::Tcp(_, address) => {
                Some(format!("http://{address}/?code={}", self.access.code()?))
            }
            Listener::Unix(..) => None,
        }
    }

    /// Ends the page. Open streams end within a second.
    pub(super) fn stop(&self) {
        *ignore_poison(self.is_stopped.lock()) = true;
        self.stopped.notify_all();
        // Before it is closed: afterwards the path may be that of another process.
        if let Listener::Unix(_, path) = &self.listener {
            let _ = fs::remove_file(path); // the program may have removed it
        }
        self.listener.close();
    }

    fn is_stopped(&self) -> bool {
        *ignore_poison(self.is_stopped.lock())
    }

    /// Waits for `limit`. Returns false if the server was stopped.
    fn pause(&self, limit: Duration) -> bool {
        let stopped = ignore_poison(self.is_stopped.lock());
        let wait = self.stopped.wait_timeout_while(stopped, limit, |is_stopped| !*is_stopped);
        !*ignore_poison(wait).0
    }

    /// Runs the thread that samples the history until the server stops.
    fn sample(self: Arc<Self>) {
        let mut next = Instant::now();
        while self.pause(next.saturating_duration_since(Instant::now())) {
            self.step();
            next = (next + STEP).max(Instant::now());
        }
        ended::grant(0);
    }

    /// Does the work of one second: takes a sample of the history, and grants records of ended tasks.
    pub(super) fn step(&self) {
        // A panic, of a destructor for example, costs one sample.
        catch_and_forget(|| self.api.history.sample());
        self.api.forget_view(VIEW_KEPT_FOR);
        ended::grant(ENDED_PER_STEP);
    }

    /// Does the work of one second at once, whatever share of the real time it takes.
    #[cfg(feature = "test-util")]
    pub(super) fn step_now(&self) {
        self.api.history.make_walk_due();
        self.step();
        self.api.forget_view(Duration::ZERO);
    }

    /// Runs the thread that accepts connections until the server stops.
    fn accept(self: Arc<Self>) {
        while !self.is_stopped() {
            match self.listener.accept() {
                Ok(client) => self.clone().serve(client),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => drop(self.pause(ACCEPT_PAUSE)),
            }
        }
    }

    /// Starts a thread for the client, unless there are too many.
    fn serve(self: Arc<Self>, mut client: Client) {
        let refuse = |client: &mut Client| {
            // The message fits the socket's buffer, so this does not wait.
            let _ = Response::error(Status::Busy, "too many connections: close some").write(client);
        };
        let Some(counted) = Counted::new(&self.connections, MAX_CONNECTIONS) else {
            return refuse(&mut client);
        };
        std::mem::forget(counted); // the thread takes the count over
        let server = self.clone();
        let run = move || {
            let _counted = Counted(&server.connections);
            server.answer(&mut client);
        };
        if start_thread("wakeful-page", self.api.allow_abort, run).is_err() {
            drop(Counted(&self.connections));
        }
    }

    /// Reads one request and answers it.
    fn answer(&self, client: &mut Client) {
        // Half of the connections are for clients that send their request at once.
        let is_crowded = self.connections.load(Relaxed) > MAX_CONNECTIONS / 2;
        let limit = if is_crowded { CROWDED_REQUEST_LIMIT } else { REQUEST_LIMIT };
        let request = match Request::read(client, limit) {
            Ok(request) => request,
            Err(refused) => return refuse(client, refused),
        };
        client.extend_write_deadline();
        let visit = Visit { request: &request, is_own_user: &|| client.is_own_user() };
        let response = match self.access.check(&visit) {
            Err(response) => response,
            Ok(()) if request.path == "/api/v1/events" && !request.is_post => {
                return self.stream(client);
            }
            Ok(()) => self.route(&request),
        };
        let _ = response.write(client); // an error means that the client has gone
    }

    fn route(&self, request: &Request) -> Response {
        let answer = match request.path.strip_prefix("/api/v1/") {
            Some(name) => self.api.answer(name, request),
            None if request.is_post => None,
            None if request.path == "/metrics" => Some(self.api.prometheus(request)),
            None => assets::find(&request.path, self.access.action()),
        };
        answer.unwrap_or_else(|| {
            Response::error(Status::NotFound, "no such path; docs/PAGE.md lists the paths")
        })
    }

    /// Sends an event each second, until the client or the server ends.
    fn stream(&self, client: &mut Client) {
        let Some(_counted) = Counted::new(&self.streams, MAX_STREAMS) else {
            let busy = Response::error(Status::Busy, "too many pages are open: close some");
            let _ = busy.write(client);
            return;
        };
        let head = head(Status::Ok, "text/event-stream") + "\r\nretry: 1000\n\n";
        if client.write_all(head.as_bytes()).is_err() {
            return;
        }
        loop {
            let event = self.api.event(Events::Overview);
            client.extend_write_deadline();
            if client.write_all(event.as_bytes()).is_err() {
                return;
            }
            if !self.pause(STEP) {
                let _ = client.write_all(self.api.event(Events::Gone).as_bytes());
                return;
            }
            if client.detect_close() {
                return;
            }
        }
    }
}

/// Answers a request that could not be read.
fn refuse(client: &mut Client, refused: Refused) {
    let response = match refused {
        Refused::Gone => return,
        Refused::BadRequest(message) => Response::error(Status::BadRequest, message),
        Refused::MethodNotAllowed => Response::error(Status::MethodNotAllowed, "use GET or POST"),
        Refused::TooLarge => Response::error(Status::TooLarge, "the request is too large"),
    };
    let _ = response.write(client); // an error means that the client has gone
}
