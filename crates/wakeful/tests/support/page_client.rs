//! A client of the live page, for tests of its server.
#![allow(dead_code, reason = "each test binary uses its own part of this")]

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use wakeful::inspect::page::Page;

/// A client with the cookie of a page.
pub struct Client {
    pub address: SocketAddr,
    pub token: String,
    pub cookie: String,
    pub action: String,
}

pub struct Answer {
    pub status: u16,
    pub head: String,
    pub body: String,
}

impl Client {
    /// Opens the page like a browser: first with the token of the URL.
    pub fn open(page: &Page) -> Self {
        Self::at(&page.url())
    }

    /// Opens the page with this URL.
    pub fn at(url: &str) -> Self {
        let (host, token) = url.strip_prefix("http://").unwrap().split_once("/?token=").unwrap();
        let mut client = Self {
            address: host.parse().unwrap(),
            token: token.to_owned(),
            cookie: String::new(),
            action: String::new(),
        };
        let answer = client.get(&format!("/?token={token}"));
        assert_eq!(answer.status, 303);
        let cookie =
            answer.head.lines().find_map(|line| line.strip_prefix("Set-Cookie: ")).unwrap();
        assert!(cookie.ends_with("; HttpOnly; SameSite=Strict; Path=/"), "{cookie}");
        client.cookie = cookie.split(';').next().unwrap().to_owned();
        let page = client.get("/");
        let (_, rest) = page.body.split_once("name=\"wakeful-action\" content=\"").unwrap();
        client.action = rest.split('"').next().unwrap().to_owned();
        client
    }

    pub fn get(&self, path: &str) -> Answer {
        let (address, cookie) = (self.address, &self.cookie);
        self.send(&format!("GET {path} HTTP/1.1\r\nHost: {address}\r\nCookie: {cookie}\r\n\r\n"))
    }

    pub fn post(&self, path: &str, headers: &str, body: &str) -> Answer {
        let (address, cookie, length) = (self.address, &self.cookie, body.len());
        self.send(&format!(
            "POST {path} HTTP/1.1\r\nHost: {address}\r\nCookie: {cookie}\r\n{headers}\
             Content-Length: {length}\r\n\r\n{body}"
        ))
    }

    /// Performs an action like the page's script.
    pub fn act(&self, path: &str, body: &str) -> Answer {
        self.post(path, &format!("X-Wakeful-Action: {}\r\n", self.action), body)
    }

    pub fn connect(&self) -> TcpStream {
        let connection = TcpStream::connect(self.address).unwrap();
        connection.set_read_timeout(Some(Duration::from_secs(600))).unwrap();
        connection
    }

    pub fn send(&self, request: &str) -> Answer {
        let mut connection = self.connect();
        // A server that refuses a long request may close the connection before it has read all
        // of it.
        let _ = connection.write_all(request.as_bytes());
        Answer::read(connection)
    }
}

impl Answer {
    pub fn read(mut connection: impl Read) -> Self {
        let mut bytes = Vec::new();
        let _ = connection.read_to_end(&mut bytes);
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let (head, body) = text.split_once("\r\n\r\n").unwrap_or((&text, ""));
        let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0);
        Self { status, head: head.to_owned(), body: body.to_owned() }
    }
}
