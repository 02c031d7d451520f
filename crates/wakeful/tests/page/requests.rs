//! Requests that the server refuses, and clients that are slow or many.

use std::io::Write;
use std::net::{Shutdown, TcpStream};

use wakeful::inspect::page::{self, Options};
use wakeful::task::may_wait_forever;

use super::runtime;
use crate::page_client::{Answer, Client};

#[test]
fn requests_without_the_token_are_refused() {
    let page = page::serve("127.0.0.1:0").unwrap();
    let client = Client::open(&page);
    let (address, port) = (client.address, client.address.port());
    let with = |host: &str, cookie: &str, path: &str| {
        client
            .send(&format!("GET {path} HTTP/1.1\r\nHost: {host}\r\nCookie: {cookie}\r\n\r\n"))
            .status
    };
    let (own, good) = (address.to_string(), client.cookie.as_str());
    assert_eq!(with(&own, good, "/api/v1/overview"), 200);
    for path in ["/", "/api/v1/overview", "/api/v1/events", "/metrics", "/app.js"] {
        assert_eq!(with(&own, "", path), 401, "{path}");
        assert_eq!(with(&own, &format!("wakeful_{port}=0"), path), 401, "{path}");
        assert_eq!(with(&own, "", &format!("{path}?token=0")), 401, "{path}");
        for host in ["localhost6", "rebind.example", "127.0.0.1.example"] {
            assert_eq!(with(&format!("{host}:{port}"), good, path), 421, "{host}{path}");
        }
        assert_eq!(with("127.0.0.1:1", good, path), 421, "another port");
        assert_eq!(with("127.0.0.1", good, path), 421, "no port");
    }
    assert_eq!(client.send("GET / HTTP/1.1\r\n\r\n").status, 421, "no host");
    assert_eq!(with(&format!("localhost:{port}"), good, "/"), 200);
    let token = &client.token;
    let foreign = client.get(&format!("//a.example/?token={token}"));
    assert!(foreign.head.contains("Location: /\r\n"), "{}", foreign.head);
}

#[test]
fn actions_from_other_sites_are_refused() {
    let rt = runtime();
    let victim = rt.spawn(may_wait_forever(std::future::pending::<()>()));
    let body = format!("{{\"runtime\":{},\"id\":{}}}", rt.handle().id(), victim.id());
    let read_only = page::serve("127.0.0.1:0").unwrap();
    let client = Client::open(&read_only);
    let refused = client.act("/api/v1/abort", &body);
    assert_eq!(refused.status, 403);
    assert!(refused.body.contains("allow_abort"), "{}", refused.body);

    let page = Options::new("127.0.0.1:0").allow_abort(true).serve().unwrap();
    let client = Client::open(&page);
    let action = format!("X-Wakeful-Action: {}\r\n", client.action);
    let foreign = ["http://a.example", "null", "http://127.0.0.1:1", "https://127.0.0.1"];
    for origin in foreign {
        let headers = format!("{action}Origin: {origin}\r\n");
        assert_eq!(client.post("/api/v1/abort", &headers, &body).status, 403, "{origin}");
    }
    assert_eq!(client.post("/api/v1/abort", "", &body).status, 403, "no action token");
    let wrong = "X-Wakeful-Action: 0\r\n";
    assert_eq!(client.post("/api/v1/abort", wrong, &body).status, 403);
    assert_eq!(client.get("/api/v1/abort").status, 404, "a GET acts on nothing");
    let options = format!("OPTIONS / HTTP/1.1\r\nHost: {}\r\n\r\n", client.address);
    let options = client.send(&options);
    assert_eq!((options.status, options.head.contains("Access-Control")), (405, false));
    assert!(!victim.is_finished());

    let own = format!("{action}Origin: http://{}\r\n", client.address);
    assert_eq!(client.post("/api/v1/abort", &own, "{}").status, 400);
    assert_eq!(client.post("/api/v1/abort", &own, &body).body, "{\"aborted\":true}");
    assert!(rt.block_on(victim).unwrap_err().is_cancelled());
    assert_eq!(client.post("/api/v1/abort", &own, &body).status, 404);
}

#[test]
fn broken_and_oversized_requests_are_refused() {
    let page = page::serve("127.0.0.1:0").unwrap();
    let client = Client::open(&page);
    let head = |size| format!("GET / HTTP/1.1\r\nA: {}\r\n\r\n", "a".repeat(size));
    assert_eq!(client.send(&head(100_000)).status, 413);
    let long_body = "POST / HTTP/1.1\r\nContent-Length: 99999999999\r\n\r\n";
    assert_eq!(client.send(long_body).status, 413);
    assert_eq!(client.send("nonsense\r\n\r\n").status, 400);
    assert_eq!(client.send("\u{0}\r\n\r\n").status, 400);
    let tricks = [
        "/../../etc/passwd",
        "/%2e%2e/etc/passwd",
        "/app.js/../index.html",
        "/api/v1/../v1/overview",
        "//",
        "/index.html",
        "/web/app.css",
        "/api/v1/",
        "/api/v2/overview",
        "/\u{e9}",
    ];
    for path in tricks {
        let status = client.get(path).status;
        assert!(status == 404 || status == 400, "{path}: {status}");
    }
    // Every answer says that no other site may use it.
    let answer = client.get("/").head;
    for header in ["Content-Security-Policy: default-src 'none'", "X-Content-Type-Options: nosniff"]
    {
        assert!(answer.contains(header), "{answer}");
    }
    assert!(!answer.contains("Access-Control-Allow-Origin"));
}

#[test]
fn slow_and_many_clients_harm_no_other() {
    let page = page::serve("127.0.0.1:0").unwrap();
    let client = Client::open(&page);
    // Half a request keeps its connection for some seconds. Others are answered meanwhile.
    let slow: Vec<TcpStream> = (0..32)
        .map(|_| {
            let mut connection = client.connect();
            connection.write_all(b"GET / HTTP/1.1\r\n").unwrap();
            connection
        })
        .collect();
    assert_eq!(client.get("/api/v1/overview").status, 200);
    let threads = || std::fs::read_dir("/proc/self/task").unwrap().count();
    let mut refused = 0;
    let mut idle = Vec::new();
    for _ in 0..1_000 {
        let mut connection = client.connect();
        // A refused connection has its answer at once. Others stay silent.
        let _ = connection.write_all(b"GET / HTTP/1.1\r\n");
        idle.push(connection);
        if idle.len() == 100 {
            for connection in idle.drain(..) {
                let _ = connection.shutdown(Shutdown::Write);
                refused += usize::from(Answer::read(connection).status == 503);
            }
        }
        // Other tests of this program have threads too.
        assert!(threads() < 200, "each connection has a thread, and there are {}", threads());
    }
    assert!(refused > 0, "1,000 connections were served at once");
    drop(slow);
    // The threads of closed connections end by themselves.
    while client.get("/api/v1/overview").status != 200 {
        std::thread::yield_now();
    }
}
