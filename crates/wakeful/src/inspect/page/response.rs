//! Writes HTTP responses, each with the headers that keep the page safe.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::io::{self, Write};

/// The content security policy: the page may load only the server's own files.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; \
                      connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

pub(super) const JSON: &str = "application/json; charset=utf-8";
pub(super) const TEXT: &str = "text/plain; charset=utf-8";

/// A response with a body.
#[derive(Debug)]
pub(super) struct Response {
    pub(super) status: Status,
    content_type: &'static str,
    body: Cow<'static, [u8]>,
    /// More header lines, each with its line end.
    headers: String,
}

/// The status of a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Status {
    Ok,
    SeeOther,
    BadRequest,
    Unauthorized,
    Forbidden,
    NotFound,
    MethodNotAllowed,
    TooLarge,
    MisdirectedRequest,
    Busy,
}

impl Status {
    fn line(self) -> &'static str {
        match self {
            Status::Ok => "200 OK",
            Status::SeeOther => "303 See Other",
            Status::BadRequest => "400 Bad Request",
            Status::Unauthorized => "401 Unauthorized",
            Status::Forbidden => "403 Forbidden",
            Status::NotFound => "404 Not Found",
            Status::MethodNotAllowed => "405 Method Not Allowed",
            Status::TooLarge => "413 Content Too Large",
            Status::MisdirectedRequest => "421 Misdirected Request",
            Status::Busy => "503 Service Unavailable",
        }
    }
}

impl Response {
    pub(super) fn new(content_type: &'static str, body: impl Into<Cow<'static, [u8]>>) -> Self {
        Self { status: Status::Ok, content_type, body: body.into(), headers: String::new() }
    }

    pub(super) fn json(text: String) -> Self {
        Self::new(JSON, text.into_bytes())
    }

    /// Returns an error, with a message that says what to do.
    pub(super) fn error(status: Status, message: &str) -> Self {
        let mut json = crate::inspect::json::Json::new();
        json.object(|json| json.field("error", |json| json.string(message)));
        Self { status, ..Self::json(json.into_text()) }
    }

    /// Returns a redirection to `path`.
    pub(super) fn redirect(path: &str) -> Self {
        Self::new(TEXT, b"".as_slice()).with_status(Status::SeeOther).header("Location", path)
    }

    fn with_status(self, status: Status) -> Self {
        Self { status, ..self }
    }

    /// Adds a header. The caller must not pass text that a client sent.
    pub(super) fn header(mut self, name: &str, value: &str) -> Self {
        let _ = write!(self.headers, "{name}: {value}\r\n"); // a string does not fail
        self
    }

    pub(super) fn write(&self, connection: &mut dyn Write) -> io::Result<()> {
        let length = self.body.len();
        let mut head = head(self.status, self.content_type);
        let _ = write!(head, "Content-Length: {length}\r\n{}\r\n", self.headers);
        connection.write_all(head.as_bytes())?;
        connection.write_all(&self.body)?;
        connection.flush()
    }
}

/// Returns the head of every response, without the empty line at its end.
pub(super) fn head(status: Status, content_type: &str) -> String {
    format!(
        "HTTP/1.1 {}\r\nContent-Type: {content_type}\r\nConnection: close\r\n\
         Cache-Control: no-store\r\nContent-Security-Policy: {POLICY}\r\n\
         X-Content-Type-Options: nosniff\r\nX-Frame-Options: DENY\r\n\
         Referrer-Policy: no-referrer\r\nCross-Origin-Resource-Policy: same-origin\r\n\
         Cross-Origin-Opener-Policy: same-origin\r\n",
        status.line()
    )
}
