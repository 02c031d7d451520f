//! The rows: which application, and what is done to it.

use crate::load::protocol::{Http1, Http2, Protocol, Redis, WebSocket};

/// A new connection's side of a protocol.
pub type NewProtocol = fn() -> Box<dyn Protocol>;

/// One line of the comparison.
#[derive(Clone, Copy)]
pub struct Row {
    pub name: &'static str,
    pub what: &'static str,
    pub role: Role,
    pub work: Work,
}

/// The part that a program plays; `service/src/lib.rs` has them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    Http,
    Busy,
    Tls,
    Postgres,
    Proxy,
    Redis,
    Grpc,
    Sleepers,
}

/// What is done to a program.
#[derive(Clone, Copy)]
pub enum Work {
    /// A closed loop finds the peak, open loops the latencies below it.
    Requests(Requests),
    /// An open loop at a fixed rate, over 64 connections.
    Paced { protocol: NewProtocol, per_s: f64, figure: &'static str },
    /// Connections that stay open.
    Idle { protocol: NewProtocol, count: usize },
    /// Tasks that sleep.
    Sleepers { count: usize },
}

/// Requests of one kind.
#[derive(Clone, Copy)]
pub struct Requests {
    pub protocol: NewProtocol,
    pub connections: usize,
    /// Requests in flight on a connection at most.
    pub depth: usize,
    /// A program of the system that drives the closed loop if it is installed.
    pub driver: Option<Driver>,
}

/// A load generator of the system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Driver {
    /// wrk, which gets this path.
    Wrk(&'static str),
    /// redis-benchmark, which runs this test.
    RedisBenchmark(&'static str),
}

/// Connections of most rows.
pub const CONNECTIONS: usize = 64;
/// Requests each second in the rows of a fixed rate.
const ALMOST_IDLE: f64 = 100.0;
const BESIDE_WORK: f64 = 500.0;

impl Row {
    /// The figure that the row is about; less is better.
    pub fn figure(&self) -> &'static str {
        match self.work {
            Work::Requests(_) => "cpu_ns_per_op",
            Work::Paced { figure, .. } => figure,
            Work::Idle { .. } => "bytes_per_connection",
            Work::Sleepers { .. } => "bytes_per_task",
        }
    }
}

/// Returns all rows, in the order in which they run.
pub fn all() -> Vec<Row> {
    let mut rows = vec![
        http("hello", "axum: a constant", || Box::new(Http1::new("/hello")), "/hello"),
        http("item", "axum: JSON behind an RwLock", || Box::new(Http1::new("/item")), "/item"),
        http(
            "actor",
            "axum: ask a task over mpsc and oneshot",
            || Box::new(Http1::new("/actor")),
            "/actor",
        ),
        http(
            "timeout",
            "axum: three yields in a time-out",
            || Box::new(Http1::new("/timeout")),
            "/timeout",
        ),
        http(
            "fanout",
            "axum: spawn 16 tasks and join them",
            || Box::new(Http1::new("/fanout")),
            "/fanout",
        ),
        http("file", "axum: a file of 4 KiB", || Box::new(Http1::new("/file")), "/file"),
    ];
    let hello: NewProtocol = || Box::new(Http1::new("/hello"));
    let requests = |name, what, role, protocol, depth| {
        let connections = CONNECTIONS / depth;
        let work = Work::Requests(Requests { protocol, connections, depth, driver: None });
        Row { name, what, role, work }
    };
    rows.extend([
        requests("tls", "axum over TLS (rustls)", Role::Tls, hello, 1),
        requests(
            "http2",
            "axum over HTTP/2, 16 connections of 4 streams",
            Role::Http,
            || Box::new(Http2::get("/hello")),
            4,
        ),
        requests(
            "websocket",
            "axum: WebSocket echo",
            Role::Http,
            || Box::new(WebSocket::new("/ws")),
            1,
        ),
        requests(
            "postgres",
            "axum: a row of PostgreSQL (tokio-postgres)",
            Role::Postgres,
            || Box::new(Http1::new("/row")),
            1,
        ),
        requests("proxy", "axum: a proxy with hyper's client", Role::Proxy, hello, 1),
        requests(
            "grpc",
            "tonic: a unary call, 16 connections of 4 streams",
            Role::Grpc,
            // Field 1 with the number 21.
            || Box::new(Http2::grpc("/service.Sums/Double", &[8, 21])),
            4,
        ),
        redis("redis_get", "mini-redis: GET", || Box::new(Redis::get()), "get"),
        redis("redis_set", "mini-redis: SET", || Box::new(Redis::set()), "set"),
        Row {
            name: "almost_idle",
            what: "axum at 100 requests a second: the standing cost",
            role: Role::Http,
            work: Work::Paced { protocol: hello, per_s: ALMOST_IDLE, figure: "cpu_ms_per_s" },
        },
        Row {
            name: "beside_work",
            what: "axum at 500 requests a second, beside 8 tasks that compute",
            role: Role::Busy,
            work: Work::Paced { protocol: hello, per_s: BESIDE_WORK, figure: "p99_us" },
        },
        idle("idle_10k", "10,000 idle connections to axum: memory of each", 10_000),
        idle("idle_50k", "50,000 idle connections to axum: memory of each", 50_000),
        Row {
            name: "sleepers_1m",
            what: "spawn 1,000,000 tasks that sleep 10 s, join all: memory of each",
            role: Role::Sleepers,
            work: Work::Sleepers { count: 1_000_000 },
        },
    ]);
    rows
}

fn http(name: &'static str, what: &'static str, protocol: NewProtocol, path: &'static str) -> Row {
    driven(name, what, Role::Http, protocol, Driver::Wrk(path))
}

fn redis(name: &'static str, what: &'static str, protocol: NewProtocol, test: &'static str) -> Row {
    driven(name, what, Role::Redis, protocol, Driver::RedisBenchmark(test))
}

fn driven(
    name: &'static str,
    what: &'static str,
    role: Role,
    protocol: NewProtocol,
    driver: Driver,
) -> Row {
    let requests = Requests { protocol, connections: CONNECTIONS, depth: 1, driver: Some(driver) };
    Row { name, what, role, work: Work::Requests(requests) }
}

fn idle(name: &'static str, what: &'static str, count: usize) -> Row {
    let protocol: NewProtocol = || Box::new(Http1::new("/hello"));
    Row { name, what, role: Role::Http, work: Work::Idle { protocol, count } }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique() {
        let mut names: Vec<_> = all().iter().map(|row| row.name).collect();
        names.sort_unstable();
        let count = names.len();
        names.dedup();
        assert_eq!(names.len(), count);
    }
}
