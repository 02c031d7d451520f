//! Reads one HTTP request, within limits.

use std::io::{self, Read};
use std::time::{Duration, Instant};

/// The maximum length of a request's head, in bytes.
const MAX_HEAD: usize = 8 * 1024;
/// The maximum length of a request's body, in bytes. Bodies are small JSON objects.
const MAX_BODY: usize = 1024;
/// The maximum number of header lines of a request.
const MAX_HEADERS: usize = 64;
const END_OF_HEAD: &[u8] = b"\r\n\r\n";

/// A request, with the headers that the server uses.
#[derive(Debug, Default)]
pub(super) struct Request {
    pub(super) is_post: bool,
    /// The path, without the query.
    pub(super) path: String,
    /// The query, decoded.
    pub(super) query: Vec<(String, String)>,
    pub(super) host: Option<String>,
    pub(super) origin: Option<String>,
    pub(super) cookies: Vec<(String, String)>,
    /// The token of `Authorization: Bearer`.
    pub(super) bearer: Option<String>,
    /// The value of `X-Wakeful-Action`.
    pub(super) action: Option<String>,
    pub(super) body: String,
}

/// Why a request is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refused {
    /// The client closed the connection or was too slow. It gets no response.
    Gone,
    BadRequest(&'static str),
    MethodNotAllowed,
    TooLarge,
}

/// A connection that can be read with a time limit.
pub(super) trait Connection: Read {
    fn set_read_limit(&self, limit: Duration) -> io::Result<()>;
}

impl Request {
    /// Reads a request. A client that takes longer than `limit` is refused.
    pub(super) fn read(connection: &mut dyn Connection, limit: Duration) -> Result<Self, Refused> {
        let mut reader = LimitedReader { connection, deadline: Instant::now() + limit };
        let mut bytes = Vec::new();
        let mut searched = 0;
        let head = loop {
            if let Some(end) = find(&bytes[searched..], END_OF_HEAD) {
                break searched + end + END_OF_HEAD.len();
            }
            if bytes.len() >= MAX_HEAD {
                return Err(Refused::TooLarge);
            }
            // The end of the head may arrive in two pieces.
            searched = bytes.len().saturating_sub(END_OF_HEAD.len() - 1);
            reader.read_more(&mut bytes, MAX_HEAD)?;
        };
        let (mut request, body_length) = Self::parse(&bytes[..head])?;
        if body_length > MAX_BODY {
            return Err(Refused::TooLarge);
        }
        while bytes.len() < head + body_length {
            reader.read_more(&mut bytes, head + body_length)?;
        }
        let body = bytes[head..head + body_length].to_vec();
        request.body = String::from_utf8(body).map_err(|_| Refused::BadRequest("no UTF-8"))?;
        Ok(request)
    }

    /// Parses the head of a request. Also returns the length of the body.
    fn parse(head: &[u8]) -> Result<(Self, usize), Refused> {
        let mut headers = [httparse::EMPTY_HEADER; MAX_HEADERS];
        let mut parsed = httparse::Request::new(&mut headers);
        match parsed.parse(head) {
            Ok(httparse::Status::Complete(_)) => {}
            Err(httparse::Error::TooManyHeaders) => return Err(Refused::TooLarge),
            _ => return Err(Refused::BadRequest("this is not an HTTP request")),
        }
        let is_post = match parsed.method {
            Some("GET") => false,
            Some("POST") => true,
            _ => return Err(Refused::MethodNotAllowed),
        };
        let target = parsed.path.unwrap_or_default();
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        let mut request = Self {
            is_post,
            path: path.to_owned(),
            query: pairs(query, '&').map(|(name, value)| (decode(name), decode(value))).collect(),
            ..Self::default()
        };
        let (mut length, mut authorization) = (None, None);
        for header in parsed.headers.iter() {
            let value = std::str::from_utf8(header.value)
                .map_err(|_| Refused::BadRequest("a header is not UTF-8"))?;
            let once = |slot: &mut Option<String>| match slot.replace(value.to_owned()) {
                None => Ok(()),
                Some(_) => Err(Refused::BadRequest("a header occurs twice")),
            };
            match header.name.to_ascii_lowercase().as_str() {
                "host" => once(&mut request.host)?,
                "origin" => once(&mut request.origin)?,
                "x-wakeful-action" => once(&mut request.action)?,
                "authorization" => once(&mut authorization)?,
                "content-length" => once(&mut length)?,
                "transfer-encoding" => {
                    return Err(Refused::BadRequest("send the body with a Content-Length"));
                }
                "cookie" => {
                    let own = |(name, value): (&str, &str)| (name.to_owned(), value.to_owned());
                    request.cookies.extend(pairs(value, ';').map(own));
                }
                _ => {}
            }
        }
        request.bearer = authorization.as_deref().and_then(bearer);
        let length = match length {
            None => 0,
            Some(length) => length
                .parse()
                .map_err(|_| Refused::BadRequest("the Content-Length is not a number"))?,
        };
        Ok((request, length))
    }

    /// Returns the value of a query parameter.
    pub(super) fn parameter(&self, name: &str) -> Option<&str> {
        let parameter = self.query.iter().find(|(other, _)| other == name);
        parameter.map(|(_, value)| value.as_str()).filter(|value| !value.is_empty())
    }

    /// Returns the number in a query parameter, or `default`.
    pub(super) fn number(&self, name: &str, default: usize) -> usize {
        self.parameter(name).and_then(|value| value.parse().ok()).unwrap_or(default)
    }

    /// Returns the values of all cookies with this name. Servers on other ports can add some.
    pub(super) fn cookies(&self, name: &str) -> impl Iterator<Item = &str> {
        let of_name = self.cookies.iter().filter(move |(other, _)| other == name);
        of_name.map(|(_, value)| value.as_str())
    }

    /// Returns a number from the body, a flat JSON object such as `{"runtime":1,"id":7}`.
    pub(super) fn body_number(&self, name: &str) -> Option<u64> {
        let (_, rest) = self.body.split_once(&format!("\"{name}\""))?;
        let rest = rest.trim_start().strip_prefix(':')?.trim_start();
        let end = rest.find(|char: char| !char.is_ascii_digit()).unwrap_or(rest.len());
        rest[..end].parse().ok()
    }
}

struct LimitedReader<'a> {
    connection: &'a mut dyn Connection,
    deadline: Instant,
}

impl LimitedReader<'_> {
    /// Appends the bytes that the client sends next, up to `most` bytes in total.
    fn read_more(&mut self, bytes: &mut Vec<u8>, most: usize) -> Result<(), Refused> {
        let left = self.deadline.saturating_duration_since(Instant::now());
        // A limit of zero would mean no limit.
        if left.is_zero() || self.connection.set_read_limit(left).is_err() {
            return Err(Refused::Gone);
        }
        let mut buffer = [0; 2048];
        let wanted = buffer.len().min(most.saturating_sub(bytes.len()).max(1));
        match self.connection.read(&mut buffer[..wanted]) {
            Ok(0) => Err(Refused::Gone),
            Ok(count) => {
                bytes.extend_from_slice(&buffer[..count]);
                Ok(())
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(()),
            Err(_) => Err(Refused::Gone),
        }
    }
}

fn find(text: &[u8], part: &[u8]) -> Option<usize> {
    text.windows(part.len()).position(|window| window == part)
}

/// Returns the token of a header `Bearer TOKEN`.
fn bearer(authorization: &str) -> Option<String> {
    let (scheme, token) = authorization.trim().split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim().to_owned())
}

/// Splits `a=1&b=2` into pairs.
fn pairs(text: &str, separator: char) -> impl Iterator<Item = (&str, &str)> {
    let parts = text.split(separator).map(str::trim).filter(|part| !part.is_empty());
    parts.map(|part| part.split_once('=').unwrap_or((part, "")))
}

/// Decodes `%41` and `+`. Bytes that are not UTF-8 become replacement characters.
fn decode(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&first, tail)) = rest.split_first() {
        let escaped = tail.get(..2).filter(|_| first == b'%');
        let escaped = escaped.and_then(|digits| std::str::from_utf8(digits).ok());
        match escaped.and_then(|digits| u8::from_str_radix(digits, 16).ok()) {
            Some(byte) => {
                bytes.push(byte);
                rest = &tail[2..];
            }
            None => {
                bytes.push(if first == b'+' { b' ' } else { first });
                rest = tail;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    struct Script(io::Cursor<Vec<u8>>);

    impl Read for Script {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            // One byte at a time: a request may come in any pieces.
            let length = buffer.len().min(1);
            self.0.read(&mut buffer[..length])
        }
    }

    impl Connection for Script {
        fn set_read_limit(&self, _limit: Duration) -> io::Result<()> {
            Ok(())
        }
    }

    fn read(text: &str) -> Result<Request, Refused> {
        let mut script = Script(io::Cursor::new(text.as_bytes().to_vec()));
        Request::read(&mut script, Duration::from_secs(600))
    }

    #[test]
    fn reads_what_the_server_needs() {
        let request = read(
            "POST /api/v1/abort?q=a%20b+c%zz&empty= HTTP/1.1\r\nHost: 127.0.0.1:7\r\n\
             Cookie: a=1; wakeful_7=secret\r\nAuthorization: bearer  t\r\nContent-Length: 20\r\nx-wakeful-action: go\r\n\r\n\
             {\"runtime\":1,\"id\":7}",
        )
        .unwrap();
        assert!(request.is_post);
        assert_eq!(request.path, "/api/v1/abort");
        assert_eq!(request.parameter("q"), Some("a b c%zz"));
        assert_eq!((request.parameter("empty"), request.parameter("none")), (None, None));
        assert!(request.cookies("wakeful_7").eq(["secret"]));
        assert_eq!(
            (request.host.as_deref(), request.action.as_deref()),
            (Some("127.0.0.1:7"), Some("go"))
        );
        assert_eq!((request.body_number("runtime"), request.body_number("id")), (Some(1), Some(7)));
        assert_eq!(request.body_number("other"), None);
        assert_eq!(request.bearer.as_deref(), Some("t"));
        assert_eq!((bearer("Basic dXNlcg=="), bearer("Bearer")), (None, None));
    }

    #[test]
    fn refuses_what_it_does_not_understand() {
        let refused = |text: &str| read(text).unwrap_err();
        assert_eq!(refused("GET / HTTP/1.1\r\nHost: a"), Refused::Gone);
        assert_eq!(refused("PUT / HTTP/1.1\r\n\r\n"), Refused::MethodNotAllowed);
        assert!(matches!(refused("nonsense\r\n\r\n"), Refused::BadRequest(_)));
        let twice = "GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n";
        assert!(matches!(refused(twice), Refused::BadRequest(_)));
        let chunked = "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n";
        assert!(matches!(refused(chunked), Refused::BadRequest(_)));
        let long = format!("GET /{} HTTP/1.1\r\n\r\n", "a".repeat(MAX_HEAD));
        assert_eq!(refused(&long), Refused::TooLarge);
        let many = format!("GET / HTTP/1.1\r\n{}\r\n", "a: b\r\n".repeat(MAX_HEADERS + 1));
        assert_eq!(refused(&many), Refused::TooLarge);
        let body = format!("POST / HTTP/1.1\r\nContent-Length: {}\r\n\r\n", MAX_BODY + 1);
        assert_eq!(refused(&body), Refused::TooLarge);
    }
}
