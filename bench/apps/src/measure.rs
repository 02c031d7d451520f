//! One measurement: a server of one peer, a load, and the figures that come of them.

use std::net::Ipv4Addr;
use std::time::Duration;

use crate::load::connection::{Target, trusting};
use crate::load::driver::Load;
use crate::load::histogram::Histogram;
use crate::load::idle;
use crate::pinning::Pinning;
use crate::postgres::Database;
use crate::programs::{Peer, Programs, Scratch, Server};
use crate::rows::{CONNECTIONS, NewProtocol, Requests, Role, Row, Work};

/// How long a server gets requests before they count.
pub const WARM_S: f64 = 0.3;
/// How long the open loop waits for its last answers.
const PATIENCE: Duration = Duration::from_secs(5);

/// Figures by their names.
pub type Figures = Vec<(&'static str, f64)>;

/// What all measurements share.
pub struct Bench {
    pub programs: Programs,
    pub scratch: Scratch,
    pub database: Option<Database>,
    pub pinning: Option<Pinning>,
    pub seconds: f64,
}

impl Bench {
    /// Finds the peak of a row, with the system's generator if the row names one that is installed.
    pub fn closed(&self, row: &Row, requests: &Requests, peer: Peer) -> Result<Figures, String> {
        let mut fixture = self.start(row, requests.protocol, peer)?;
        let (connections, depth) = (requests.connections, requests.depth);
        let mut load = Load::new(&fixture.target, connections, depth)?;
        let warm = load.closed(WARM_S)?;
        let before_ns = fixture.server.cpu_ns()?;
        let (count, mut figures) = match requests.driver.filter(|driver| driver.is_installed()) {
            Some(driver) => {
                let per_s = warm.latencies.count() as f64 / warm.seconds;
                let port = fixture.server.port()?;
                // mini-redis has a limit of connections.
                drop(load);
                let driven =
                    driver.run(port, connections, self.seconds, per_s, self.scratch.path())?;
                (driven.requests, driven.figures)
            }
            None => {
                let closed = load.closed(self.seconds)?;
                let count = closed.latencies.count() as f64;
                let mut figures = vec![("per_s", count / closed.seconds)];
                figures.extend(quantiles(&closed.latencies));
                (count, figures)
            }
        };
        figures.push(("cpu_ns_per_op", (fixture.server.cpu_ns()? - before_ns) / count));
        figures.push(("rss_mib", fixture.server.resident_bytes()? / MIB));
        Ok(figures)
    }

    /// Measures latencies at a rate that the server does not choose.
    pub fn open(
        &self,
        row: &Row,
        protocol: NewProtocol,
        (connections, depth): (usize, usize),
        per_s: f64,
        peer: Peer,
    ) -> Result<Figures, String> {
        let mut fixture = self.start(row, protocol, peer)?;
        let mut load = Load::new(&fixture.target, connections, depth)?;
        let warm = load.open(per_s, WARM_S, PATIENCE)?;
        if warm.unanswered > 0 {
            return Err(format!("the server does not keep up with {per_s:.0} requests a second"));
        }
        let before_ns = fixture.server.cpu_ns()?;
        let measured = load.open(per_s, self.seconds, PATIENCE)?;
        let cpu_ns = fixture.server.cpu_ns()? - before_ns;
        let count = measured.latencies.count() as f64;
        let mut figures = vec![
            ("offered_per_s", per_s),
            ("cpu_ns_per_op", cpu_ns / count),
            ("cpu_ms_per_s", cpu_ns / 1e6 / self.seconds),
            ("lag_p99_us", measured.lags.quantile(0.99) as f64 / 1000.0),
            ("unanswered", measured.unanswered as f64),
            ("rss_mib", fixture.server.resident_bytes()? / MIB),
        ];
        figures.extend(quantiles(&measured.latencies));
        Ok(figures)
    }

    /// Measures a row that is neither a closed loop nor a share of its peak.
    pub fn other(&self, row: &Row, peer: Peer) -> Result<Figures, String> {
        match row.work {
            Work::Requests(_) => Err("this row has a closed and open loops".into()),
            Work::Paced { protocol, per_s, .. } => {
                self.open(row, protocol, (CONNECTIONS, 1), per_s, peer)
            }
            Work::Idle { protocol, count } => self.idle(row, protocol, count, peer),
            Work::Sleepers { count } => self.sleepers(count, peer),
        }
    }

    fn idle(
        &self,
        row: &Row,
        protocol: NewProtocol,
        count: usize,
        peer: Peer,
    ) -> Result<Figures, String> {
        let fixture = self.start(row, protocol, peer)?;
        let before = fixture.server.resident_bytes()?;
        let connections = idle::open(&fixture.target, count)?;
        let after = fixture.server.resident_bytes()?;
        drop(connections);
        Ok(vec![
            ("bytes_per_connection", (after - before) / count as f64),
            ("rss_mib", after / MIB),
        ])
    }

    fn sleepers(&self, count: usize, peer: Peer) -> Result<Figures, String> {
        let count_text = count.to_string();
        let arguments = ["sleepers", &count_text];
        let run = Server::start(&self.programs, peer, &arguments, self.scratch.path())?;
        let number = |key: &str| {
            run.hello()[key].as_f64().ok_or_else(|| format!("no {key}: {}", run.hello()))
        };
        Ok(vec![
            ("bytes_per_task", number("peak_bytes")? / count as f64),
            ("rss_mib", number("peak_bytes")? / MIB),
            ("seconds", number("seconds")?),
            ("spawn_s", number("spawn_s")?),
            ("cpu_s", number("cpu_ns")? / 1e9),
        ])
    }

    /// Starts what a row needs.
    fn start(&self, row: &Row, protocol: NewProtocol, peer: Peer) -> Result<Fixture, String> {
        let _servers = self.pinning.as_ref().map(Pinning::servers).transpose()?;
        let start = |peer, arguments: &[&str]| {
            Server::start(&self.programs, peer, arguments, self.scratch.path())
        };
        let mut upstream = None;
        let server = match row.role {
            Role::Http => start(peer, &["http"])?,
            Role::Busy => start(peer, &["busy"])?,
            Role::Tls => start(peer, &["tls"])?,
            Role::Redis => start(peer, &["redis"])?,
            Role::Grpc => start(peer, &["grpc"])?,
            Role::Postgres => {
                let database = self.database.as_ref().ok_or("there is no database")?;
                start(peer, &["postgres", &database.config()])?
            }
            Role::Proxy => {
                // The proxy is measured, so the server behind it is the same for both.
                let behind = upstream.insert(start(Peer::Tokio, &["http"])?);
                start(peer, &["proxy", &format!("127.0.0.1:{}", behind.port()?)])?
            }
            Role::Sleepers => return Err("sleepers serve nothing".into()),
        };
        let tls = server.certificate().map(trusting).transpose()?;
        let addr = (Ipv4Addr::LOCALHOST, server.port()?).into();
        Ok(Fixture { target: Target { addr, tls, protocol }, server, _upstream: upstream })
    }
}

/// A server under test, and how it is reached.
struct Fixture {
    target: Target,
    server: Server,
    _upstream: Option<Server>,
}

const MIB: f64 = 1024.0 * 1024.0;

fn quantiles(latencies: &Histogram) -> [(&'static str, f64); 3] {
    let us = |share| latencies.quantile(share) as f64 / 1000.0;
    [("p50_us", us(0.5)), ("p99_us", us(0.99)), ("p999_us", us(0.999))]
}
