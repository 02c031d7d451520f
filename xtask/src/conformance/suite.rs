//! The suites, and the area of tokio that each test file covers.

use super::server;

/// The tests of one published crate.
pub struct Suite {
    /// The crate's name.
    pub name: &'static str,
    pub version: &'static str,
    pub kind: Kind,
    /// Test files that are not run, each with the reason. A name may end in `*`.
    pub skipped: &'static [(&'static str, &'static str)],
    /// The server that the tests talk to.
    pub server: Option<server::Kind>,
    /// Dev-dependencies that the tests need and the published manifest lacks, each with the text of its table.
    pub added: &'static [(&'static str, &'static str)],
    /// Dev-dependencies that only benchmarks and skipped files need.
    pub removed: &'static [&'static str],
    /// Why tests fail on both, if they do.
    pub remark: Option<&'static str>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// tokio's own: another package stands in for tokio's, with its tests and the names of its features.
    OfTokio,
    /// A crate that depends on tokio. The package is taken as it is, with its unit tests and these features.
    Dependent { features: &'static str },
}

const fn dependent(name: &'static str, version: &'static str, features: &'static str) -> Suite {
    let kind = Kind::Dependent { features };
    Suite {
        name,
        version,
        kind,
        skipped: &[],
        server: None,
        added: &[],
        removed: &[],
        remark: None,
    }
}

impl Suite {
    const fn skip(mut self, skipped: &'static [(&'static str, &'static str)]) -> Self {
        self.skipped = skipped;
        self
    }

    const fn with_server(mut self, server: server::Kind) -> Self {
        self.server = Some(server);
        self
    }

    const fn add(mut self, added: &'static [(&'static str, &'static str)]) -> Self {
        self.added = added;
        self
    }

    const fn remove(mut self, removed: &'static [&'static str]) -> Self {
        self.removed = removed;
        self
    }

    const fn remark(mut self, remark: &'static str) -> Self {
        self.remark = Some(remark);
        self
    }

    /// The suites that run when none is named.
    pub fn is_default(&self) -> bool {
        matches!(self.name, "tokio" | "tokio-stream" | "tokio-test" | "tokio-util")
    }
}

/// Published crates whose packages contain their tests.
pub const SUITES: &[Suite] = &[
    Suite { kind: Kind::OfTokio, ..dependent("tokio", "1.54.1", "") }.skip(&[
        ("dump", "needs the stacks of `taskdump`"),
        ("task_trace_*", "needs the stacks of `taskdump`"),
        ("tracing_*", "needs events for `tracing`"),
    ]),
    dependent("tokio-stream", "0.1.19", "full"),
    dependent("tokio-test", "0.4.6", ""),
    dependent("tokio-util", "0.7.20", "full"),
    dependent("actix-codec", "0.5.4", "").remove(&["criterion"]),
    dependent("actix-rt", "2.15.0", ""),
    dependent("actix-server", "2.10.0", ""),
    dependent("astral-tokio-tar", "0.7.0", ""),
    dependent("async-stream", "0.3.6", "")
        .add(&[("tokio-test", "version = \"0.4\"")])
        .remark("It compares the messages of another version of the compiler."),
    dependent("axum", "0.8.9", "__private,axum-macros/__private,http2,macros,multipart,ws"),
    dependent("bb8", "0.9.1", ""),
    dependent("deadpool", "0.13.1", "rt_tokio_1,serde").remove(&["criterion"]),
    dependent("deadpool-postgres", "0.14.2", "serde").with_server(server::Kind::PostgreSql),
    dependent("h2", "0.4.20", "stream,unstable")
        .remove(&["tokio-rustls", "webpki-roots"])
        .remark("The package lacks the files that `hpack::test::fixture` reads."),
    dependent("hyper", "1.12.0", "full").remove(&["tracing-subscriber"]),
    dependent("hyper-util", "0.1.21", "full").remark("It looks up a name on the internet."),
    dependent("kanal", "0.1.1", ""),
    dependent("leaky-bucket", "1.1.2", ""),
    dependent("mini-redis", "0.4.1", ""),
    dependent("openraft", "0.9.25", "serde"),
    dependent("process-wrap", "10.0.1", "std,tokio1")
        .remark("These expect an init process that reaps orphans."),
    dependent("quinn", "0.11.12", "")
        .remove(&["bencher", "clap", "directories-next", "url"])
        .skip(&[("post_quantum", "needs aws-lc-rs")]),
    dependent("stream-cancel", "0.8.2", ""),
    dependent("tokio-io-timeout", "1.2.1", ""),
    dependent("tokio-metrics", "0.5.2", "metrics-rs-integration,metrique-integration").remove(&[
        "axum",
        "criterion",
        "metrics-exporter-prometheus",
        "num_cpus",
        "serde",
        "serde_json",
    ]),
    dependent("tokio-postgres", "0.7.18", "")
        .remove(&["criterion", "env_logger"])
        .with_server(server::Kind::PostgreSql),
    dependent("tokio-process-stream", "0.4.1", ""),
    dependent("tokio-retry", "0.3.2", ""),
    dependent("tokio-seqpacket", "0.9.1", ""),
    dependent("tokio-tungstenite", "0.30.0", "").remove(&[
        "env_logger",
        "http-body-util",
        "hyper",
        "hyper-util",
    ]),
    dependent("tonic", "0.14.9", "gzip,tls-ring").remove(&["bencher"]),
    dependent("tower", "0.5.3", "full"),
    dependent("tower-http", "0.7.1", "full")
        .remark("The package lacks the files that tests of `services::fs` read."),
    dependent("tower-test", "0.4.0", ""),
];

/// Areas of tokio, in the order of the report, each with what the names of its files begin with.
const AREAS: &[(&str, &[&str])] = &[
    ("sync", &["sync_"]),
    ("rt", &["rt_"]),
    ("io", &["io_", "duplex_stream"]),
    ("net", &["net_", "buffered", "tcp_", "udp", "uds_", "unix_"]),
    ("task", &["task_", "join_handle", "tracing_task"]),
    ("time", &["time_", "test_clock"]),
    ("macros", &["macros_"]),
    ("fs", &["fs"]),
    ("process", &["process_"]),
    ("signal", &["signal_"]),
    ("no_rt", &["no_rt"]),
    ("unwindsafe", &["unwindsafe"]),
    ("coop", &["coop_"]),
];

/// Returns the area of a test file of tokio.
pub fn area_of(file: &str) -> &'static str {
    let of = |prefixes: &[&str]| prefixes.iter().any(|prefix| file.starts_with(prefix));
    AREAS.iter().find(|(_, prefixes)| of(prefixes)).map_or("other", |(area, _)| area)
}

/// The areas in the order of the report.
pub fn areas() -> impl Iterator<Item = &'static str> {
    AREAS.iter().map(|(area, _)| *area).chain(["other"])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_belong_to_areas() {
        let files = ["sync_mpsc", "udp", "uds_cred", "unix_shutdown", "buffered", "fs", "fs_dir"];
        let areas = ["sync", "net", "net", "net", "net", "fs", "fs"];
        assert_eq!(files.map(area_of), areas);
        assert_eq!(area_of("async_send_sync"), "other");
    }
}
