//! Sends requests to a live page: HTTP/1.1 over a TCP or Unix socket, one request per connection.

use crate::Failure;
use serde_json::Value;
use std::fmt::Write as _;
use std::io::{self, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::Duration;

/// The time limit of a connection, and of each part of an answer.
const LIMIT: Duration = Duration::from_secs(5);
/// The maximum size of an answer in bytes. An answer of the page has at most 500 rows.
const MAX_ANSWER: u64 = 32 << 20;

/// The URL of a live page: the address on which it listens, and its token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PageUrl {
    server: Server,
    token: String,
    /// Opens the page once, for this user only, in place of the token.
    code: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Server {
    /// Host and port.
    Tcp(String),
    Unix(PathBuf),
}

impl PageUrl {
    /// Parses the URL that the program prints: `http://127.0.0.1:7000/?token=…` or `unix:/path (path /?token=…)`.
    ///
    /// The file of a process has a second line, `http://127.0.0.1:7000/?code=…`, for a browser.
    pub fn parse(text: &str) -> Result<Self, Failure> {
        let text = text.trim();
        let invalid = || {
            let shown = crate::top::clean(text);
            format!(
                "`{shown}` is not a URL of a live page: pass what the program printed, with its token"
            )
        };
        let (address, token) = text.split_once("?token=").ok_or_else(invalid)?;
        let code = token.split_once("?code=").and_then(|(_, code)| secret(code));
        let token = secret(token).ok_or_else(invalid)?;
        let server = if let Some(path) = address.strip_prefix("unix:") {
            let path = path.trim_end_matches('/').trim_end_matches("(path ").trim_end();
            Server::Unix(path.into())
        } else {
            let host = address.strip_prefix("http://").ok_or_else(invalid)?.trim_end_matches('/');
            let port = host.rsplit_once(':').and_then(|(_, port)| port.parse::<u16>().ok());
            let is_plain = |c: char| c.is_ascii_alphanumeric() || ".:[]-".contains(c);
            if port.is_none() || !host.chars().all(is_plain) {
                return Err(invalid());
            }
            Server::Tcp(host.to_owned())
        };
        Ok(Self { server, token, code })
    }

    /// Returns the URL for a browser; `None` for a Unix socket, or if the code is not known.
    ///
    /// It has no token: other users can see the arguments of a browser.
    pub fn for_browser(&self) -> Option<String> {
        match &self.server {
            Server::Tcp(host) => Some(format!("http://{host}/?code={}", self.code.as_ref()?)),
            Server::Unix(_) => None,
        }
    }

    /// Returns the address without the token.
    pub fn address(&self) -> String {
        match &self.server {
            Server::Tcp(host) => host.clone(),
            Server::Unix(path) => format!("unix:{}", path.display()),
        }
    }

    /// Requests a path of the API, such as `overview`, and returns the answer.
    pub fn get(&self, path: &str) -> Result<Value, Failure> {
        let answer = match self.exchange(path) {
            Ok(answer) => answer,
            Err(error) => return Err(format!("no answer from {}: {error}", self.address())),
        };
        let (status, body) =
            split(&answer).ok_or_else(|| format!("{} does not speak HTTP", self.address()))?;
        let json = serde_json::from_slice::<Value>(body);
        match (status, json) {
            (200, Ok(json)) => Ok(json),
            (200, Err(error)) => {
                Err(format!("the answer of {} is truncated: {error}", self.address()))
            }
            (401, _) => {
                Err(format!("{} refuses the token: it belongs to another run", self.address()))
            }
            (_, json) => {
                let json = json.unwrap_or_default();
                let why = crate::top::clean(json["error"].as_str().unwrap_or("no reason given"));
                Err(format!("{} answers with status {status}: {why}", self.address()))
            }
        }
    }

    fn exchange(&self, path: &str) -> io::Result<Vec<u8>> {
        let (host, port) = match &self.server {
            Server::Tcp(host) => (host.as_str(), host.rsplit_once(':').map_or("", |it| it.1)),
            Server::Unix(_) => ("localhost", "0"),
        };
        let request = format!(
            "GET /api/v1/{path} HTTP/1.1\r\nHost: {host}\r\nCookie: wakeful_{port}={}\r\n\
             Connection: close\r\n\r\n",
            self.token
        );
        match &self.server {
            Server::Tcp(host) => {
                let mut failed = io::Error::new(io::ErrorKind::NotFound, "no such host");
                for address in host.to_socket_addrs()? {
                    match TcpStream::connect_timeout(&address, LIMIT) {
                        Ok(stream) => {
                            stream.set_read_timeout(Some(LIMIT))?;
                            stream.set_write_timeout(Some(LIMIT))?;
                            return transfer(stream, &request);
                        }
                        Err(error) => failed = error,
                    }
                }
                Err(failed)
            }
            Server::Unix(path) => {
                let stream = UnixStream::connect(path)?;
                stream.set_read_timeout(Some(LIMIT))?;
                stream.set_write_timeout(Some(LIMIT))?;
                transfer(stream, &request)
            }
        }
    }
}

fn transfer(mut stream: impl Read + Write, request: &str) -> io::Result<Vec<u8>> {
    stream.write_all(request.as_bytes())?;
    let mut answer = Vec::new();
    stream.take(MAX_ANSWER).read_to_end(&mut answer)?;
    Ok(answer)
}

/// Returns the 128 bits at the start of a text, or `None` if it has fewer: the file is being written.
fn secret(text: &str) -> Option<String> {
    let digits: String = text.chars().take_while(char::is_ascii_hexdigit).collect();
    (digits.len() == 32).then_some(digits)
}

/// Returns the status and the body of an answer.
fn split(answer: &[u8]) -> Option<(u16, &[u8])> {
    let end = answer.windows(4).position(|window| window == b"\r\n\r\n")?;
    let head = str::from_utf8(&answer[..end]).ok()?;
    let status = head.strip_prefix("HTTP/1.1 ")?.get(..3)?.parse().ok()?;
    Some((status, &answer[end + 4..]))
}

/// Encodes a text as a value in the query of a URL.
pub fn encode(text: &str) -> String {
    let mut encoded = String::new();
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            encoded.push(byte.into());
        } else {
            let _ = write!(encoded, "%{byte:02X}"); // a string does not fail
        }
    }
    encoded
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;
    use std::os::unix::net::UnixListener;
    use std::thread;

    const TOKEN: &str = "00112233445566778899aabbccddeeff";

    /// Reads a request up to its empty line.
    fn read_head(stream: &mut impl Read) -> String {
        let mut head = Vec::new();
        let mut byte = [0];
        while !head.ends_with(b"\r\n\r\n") && stream.read(&mut byte).unwrap() == 1 {
            head.push(byte[0]);
        }
        String::from_utf8(head).unwrap()
    }

    /// Answers one request, and returns what `get` made of it and what the server has read.
    fn answered(answer: &'static str) -> (Result<Value, Failure>, String, u16) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let server = thread::spawn(move || {
            let mut client = listener.accept().unwrap().0;
            let head = read_head(&mut client);
            client.write_all(answer.as_bytes()).unwrap();
            head
        });
        let url = PageUrl::parse(&format!("http://127.0.0.1:{port}/?token={TOKEN}")).unwrap();
        let got = url.get("tasks?q=a%20b");
        (got, server.join().unwrap(), port)
    }

    #[test]
    fn urls_of_both_kinds_of_sockets_are_parsed() {
        let tcp = PageUrl::parse(&format!("http://[::1]:7000/?token={TOKEN}\n")).unwrap();
        assert_eq!((tcp.address(), tcp.for_browser()), ("[::1]:7000".into(), None));
        let code = "http://[::1]:7000/?code=ffeeddccbbaa99887766554433221100";
        let file = format!("http://[::1]:7000/?token={TOKEN}\n{code}");
        assert_eq!(PageUrl::parse(&file).unwrap().for_browser().as_deref(), Some(code));
        assert_eq!(PageUrl::parse(&file[..file.len() - 1]).unwrap().for_browser(), None);
        let unix = PageUrl::parse(&format!("unix:/run/a b/page (path /?token={TOKEN})")).unwrap();
        assert_eq!((unix.address(), unix.for_browser()), ("unix:/run/a b/page".into(), None));
        for text in [
            "",
            "127.0.0.1:7000",
            "http://127.0.0.1:7000/",
            "http://127.0.0.1:7000/?token=0011",
            &format!("https://127.0.0.1:7000/?token={TOKEN}"),
            &format!("http://127.0.0.1/?token={TOKEN}"),
            &format!("http://a\r\nX: y:1/?token={TOKEN}"),
        ] {
            PageUrl::parse(text).unwrap_err();
        }
    }

    #[test]
    fn a_request_has_the_host_and_the_cookie_of_the_page() {
        let (got, head, port) = answered("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{\"a\":[1]}");
        assert_eq!(got.unwrap()["a"][0], 1);
        assert!(head.starts_with("GET /api/v1/tasks?q=a%20b HTTP/1.1\r\n"), "{head}");
        assert!(head.contains(&format!("\r\nHost: 127.0.0.1:{port}\r\n")), "{head}");
        assert!(head.contains(&format!("\r\nCookie: wakeful_{port}={TOKEN}\r\n")), "{head}");
    }

    #[test]
    fn errors_say_what_the_server_said() {
        let refused = answered("HTTP/1.1 401 Unauthorized\r\n\r\n{\"error\":\"open …\"}").0;
        assert!(refused.unwrap_err().contains("refuses the token"));
        let busy = answered("HTTP/1.1 503 Busy\r\n\r\n{\"error\":\"come \\u001b[2Jback\"}").0;
        let busy = busy.unwrap_err();
        assert!(busy.contains("503: come [2Jback"), "{busy:?}");
        for cut in ["HTTP/1.1 200 OK\r\n\r\n{\"a\":", "SSH-2.0\r\n\r\n", ""] {
            answered(cut).0.unwrap_err();
        }
    }

    #[test]
    fn a_page_on_a_unix_socket_answers() {
        let path = std::env::temp_dir().join(format!("wakeful-client-{}", std::process::id()));
        let listener = UnixListener::bind(&path).unwrap();
        let server = thread::spawn(move || {
            let mut client = listener.accept().unwrap().0;
            let head = read_head(&mut client);
            client.write_all(b"HTTP/1.1 200 OK\r\n\r\n{}").unwrap();
            head
        });
        let text = format!("unix:{} (path /?token={TOKEN})", path.display());
        PageUrl::parse(&text).unwrap().get("overview").unwrap();
        let head = server.join().unwrap();
        assert!(head.contains("Host: localhost\r\nCookie: wakeful_0="), "{head}");
        std::fs::remove_file(&path).unwrap();
    }

    #[test]
    fn values_of_a_query_are_encoded() {
        assert_eq!(encode("src/main.rs:1 ä&"), "src%2Fmain.rs%3A1%20%C3%A4%26");
    }
}
