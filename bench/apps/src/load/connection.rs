//! One connection of the generator, with TLS if the server wants it.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore};

use super::protocol::Protocol;

/// A server that is silent for this long while a connection opens is broken.
const OPENING: Duration = Duration::from_secs(10);

/// Where a server is, and how it is spoken to.
#[derive(Clone)]
pub struct Target {
    pub addr: SocketAddr,
    pub tls: Option<Arc<ClientConfig>>,
    pub protocol: fn() -> Box<dyn Protocol>,
}

/// TLS that trusts one certificate.
pub fn trusting(certificate: Vec<u8>) -> Result<Arc<ClientConfig>, String> {
    let mut roots = RootCertStore::empty();
    roots
        .add(CertificateDer::from(certificate))
        .map_err(|error| format!("the server's certificate: {error}"))?;
    Ok(Arc::new(ClientConfig::builder().with_root_certificates(roots).with_no_client_auth()))
}

/// A connection with requests in flight, each of which carries a tag of the caller.
pub struct Connection {
    stream: TcpStream,
    tls: Option<ClientConnection>,
    protocol: Box<dyn Protocol>,
    /// Received bytes that are not a whole answer yet.
    input: Vec<u8>,
    output: Vec<u8>,
    /// The number and the tag of each request.
    in_flight: Vec<(u32, u64)>,
    done: Vec<u32>,
}

impl Connection {
    /// Opens a connection, up to the point where requests can be sent.
    pub fn open(target: &Target) -> Result<Self, String> {
        let failed = |error: io::Error| format!("opening a connection: {error}");
        let stream = TcpStream::connect(target.addr).map_err(failed)?;
        Self::over(stream, target)
    }

    /// Opens the protocol over a stream that is connected already.
    pub fn over(stream: TcpStream, target: &Target) -> Result<Self, String> {
        let failed = |error: io::Error| format!("opening a connection: {error}");
        stream.set_nodelay(true).map_err(failed)?;
        stream.set_read_timeout(Some(OPENING)).map_err(failed)?;
        let mut connection = Self {
            stream,
            tls: None,
            protocol: (target.protocol)(),
            input: Vec::new(),
            output: Vec::new(),
            in_flight: Vec::new(),
            done: Vec::new(),
        };
        if let Some(config) = &target.tls {
            connection.shake_hands(Arc::clone(config))?;
        }
        connection.protocol.open(&mut connection.output);
        connection.flush()?;
        let mut scratch = vec![0; 4096];
        while !connection.protocol.is_open() {
            connection.receive_or_fail(&mut scratch, &mut Vec::new())?;
        }
        connection.stream.set_nonblocking(true).map_err(failed)?;
        Ok(connection)
    }

    /// Sends a request and blocks until its answer.
    pub fn ask(&mut self, scratch: &mut [u8]) -> Result<(), String> {
        let failed = |error: io::Error| format!("asking: {error}");
        self.stream.set_nonblocking(false).map_err(failed)?;
        self.send(0)?;
        let mut answered = Vec::new();
        while answered.is_empty() {
            self.receive_or_fail(scratch, &mut answered)?;
        }
        self.stream.set_nonblocking(true).map_err(failed)
    }

    /// Reads from a blocking stream. That nothing comes is an error.
    fn receive_or_fail(&mut self, scratch: &mut [u8], tags: &mut Vec<u64>) -> Result<(), String> {
        match self.receive(scratch, tags)? {
            true => Ok(()),
            false => Err(format!("the server was silent for {} s", OPENING.as_secs())),
        }
    }

    fn shake_hands(&mut self, config: Arc<ClientConfig>) -> Result<(), String> {
        let failed = |error: &dyn std::fmt::Display| format!("TLS: {error}");
        let name = ServerName::try_from("localhost").map_err(|error| failed(&error))?;
        let mut tls = ClientConnection::new(config, name).map_err(|error| failed(&error))?;
        while tls.is_handshaking() {
            tls.complete_io(&mut self.stream).map_err(|error| failed(&error))?;
        }
        self.tls = Some(tls);
        Ok(())
    }

    pub fn stream(&self) -> &TcpStream {
        &self.stream
    }

    /// Sends a request.
    pub fn send(&mut self, tag: u64) -> Result<(), String> {
        let number = self.protocol.request(&mut self.output);
        self.in_flight.push((number, tag));
        self.flush()
    }

    /// Reads what has arrived, and returns whether that is anything.
    ///
    /// `tags` gets the tags of the requests that are answered.
    pub fn receive(&mut self, scratch: &mut [u8], tags: &mut Vec<u64>) -> Result<bool, String> {
        if !self.fill(scratch)? {
            return Ok(false);
        }
        let received = self.protocol.receive(&self.input, &mut self.output, &mut self.done);
        self.input.drain(..received?);
        for number in self.done.drain(..) {
            let place = self.in_flight.iter().position(|&(sent, _)| sent == number);
            let place = place.ok_or("an answer to a request that was not sent")?;
            tags.push(self.in_flight.swap_remove(place).1);
        }
        if !self.output.is_empty() {
            self.flush()?;
        }
        Ok(true)
    }

    /// Tags of the requests without an answer.
    pub fn unanswered(&self) -> impl Iterator<Item = u64> {
        self.in_flight.iter().map(|&(_, tag)| tag)
    }

    /// Appends what can be read to the input, and returns whether that is anything.
    fn fill(&mut self, scratch: &mut [u8]) -> Result<bool, String> {
        let Some(tls) = &mut self.tls else {
            let count = read_some(&mut self.stream, scratch)?;
            self.input.extend_from_slice(&scratch[..count]);
            return Ok(count > 0);
        };
        match tls.read_tls(&mut self.stream) {
            Ok(0) => return Err("the server closed a connection".into()),
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(false),
            Err(error) => return Err(format!("reading: {error}")),
        }
        let state = tls.process_new_packets().map_err(|error| format!("TLS: {error}"))?;
        let start = self.input.len();
        self.input.resize(start + state.plaintext_bytes_to_read(), 0);
        tls.reader()
            .read_exact(&mut self.input[start..])
            .map_err(|error| format!("reading TLS: {error}"))?;
        Ok(true)
    }

    /// Writes the output. It fits into the socket's buffer: few requests are in flight, and they are short.
    fn flush(&mut self) -> Result<(), String> {
        let written = match &mut self.tls {
            None => self.stream.write_all(&self.output),
            Some(tls) => write_tls(tls, &mut self.stream, &self.output),
        };
        self.output.clear();
        written.map_err(|error| format!("writing: {error}"))
    }
}

fn read_some(stream: &mut TcpStream, scratch: &mut [u8]) -> Result<usize, String> {
    loop {
        return match stream.read(scratch) {
            Ok(0) => Err("the server closed a connection".into()),
            Ok(count) => Ok(count),
            Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(0),
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            Err(error) => Err(format!("reading: {error}")),
        };
    }
}

fn write_tls(tls: &mut ClientConnection, stream: &mut TcpStream, bytes: &[u8]) -> io::Result<()> {
    tls.writer().write_all(bytes)?;
    while tls.wants_write() {
        tls.write_tls(stream)?;
    }
    Ok(())
}
