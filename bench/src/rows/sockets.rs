//! Rows about sockets: servers under load, in processes of their own.
//!
//! The figure of a row is the server's processor time per request; the rest, by
//! [`FIGURES`], is in the second table and in the record.

use super::{Cell, Kind, Row, Target, Unit};
use crate::sockets::Service;
use crate::sockets::measure::{Placement, Setting};
use crate::sockets::server::Server;

/// The other figures of a row about sockets: the key, its name in the table, and whether wakeful
/// must not be above tokio.
pub const FIGURES: [(&str, &str, bool); 5] = [
    ("per_s", "requests/s", false),
    ("per_cpu_s", "per server CPU s", false),
    ("p50_us", "p50 us", false),
    ("p99_us", "p99 us", true),
    ("p999_us", "p99.9 us", true),
];

/// The targets of a server on one thread against the loop without a runtime, and of several threads
/// against tokio. The unit is time per request: the inverse of requests per second of CPU time.
const OF_RAW: f64 = 1.0 / 0.97;
const OF_TOKIO: f64 = 1.0 / 1.05;
/// The target of rows in which most of the work is not the runtime's.
///
/// Of the instructions of a request over hyper, six of seven are hyper's and those of its allocations.
/// The loop without a runtime parses nothing.
const BESIDE_TOKIO: Target = Target::each(OF_TOKIO, 1.0);

pub fn rows() -> Vec<Row> {
    use Placement::{Apart, Free, Together};
    let echo = |name, what, connections, placement| {
        let setting = Setting { service: Service::Echo, connections, placement };
        row(name, what, setting, BESIDE_TOKIO.of_raw(OF_RAW))
    };
    let http = |name, what, placement| {
        let setting = Setting { service: Service::Http, connections: 64, placement };
        row(name, what, setting, BESIDE_TOKIO)
    };
    vec![
        echo("echo_c1", "64 bytes and their echo over 1 connection, all on one core", 1, Together),
        echo(
            "echo_c1_apart",
            "64 bytes and their echo over 1 connection, server and load each on its own core",
            1,
            Apart,
        ),
        echo("echo_c1_free", "64 bytes and their echo over 1 connection, unpinned", 1, Free),
        echo("echo_c64", "64 bytes and their echo, 64 connections, all on one core", 64, Together),
        echo(
            "echo_c64_apart",
            "64 bytes and their echo over 64 connections, server and load each on its own core",
            64,
            Apart,
        ),
        echo("echo_c64_free", "64 bytes and their echo over 64 connections, unpinned", 64, Free),
        echo("echo_c512", "64 bytes and their echo, 512 connections, on one core", 512, Together),
        echo(
            "echo_c512_apart",
            "64 bytes and their echo over 512 connections, server and load each on its own core",
            512,
            Apart,
        ),
        echo("echo_c512_free", "64 bytes and their echo over 512 connections, unpinned", 512, Free),
        http("http_c64", "hyper says hello to wrk over 64 connections, all on one core", Together),
        http(
            "http_c64_apart",
            "HTTP over 64 connections, server and wrk each on its own core",
            Apart,
        ),
        http("http_c64_free", "HTTP over 64 connections, unpinned", Free),
        busy(),
    ]
}

fn row(name: &'static str, what: &'static str, setting: Setting, target: Target) -> Row {
    Row {
        name,
        what,
        unit: Unit::CpuNanoseconds,
        ops_per_batch: 1,
        target,
        counted: None,
        cells: cells(setting),
    }
}

/// How long sockets wait while tasks are busy.
fn busy() -> Row {
    let setting =
        Setting { service: Service::BusyEcho, connections: 16, placement: Placement::Free };
    Row {
        name: "echo_busy",
        what: "echo over 16 connections while 8 tasks burn 200 us between yields; latency",
        unit: Unit::MicrosecondsP99,
        ops_per_batch: 1,
        target: Target::both(1.0),
        counted: None,
        cells: cells(setting),
    }
}

fn cells(setting: Setting) -> Vec<Cell> {
    let servers = Server::all(setting.service).into_iter();
    let cell = |server: Server| Cell {
        peer: server.peer,
        flavor: server.flavor,
        kind: Kind::Served(setting),
    };
    servers.map(cell).collect()
}
