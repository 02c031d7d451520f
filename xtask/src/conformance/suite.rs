//! The suites, and the area of tokio that each test file covers.

/// The tests of one published crate.
pub struct Suite {
    /// The crate's name.
    pub name: &'static str,
    pub version: &'static str,
    pub kind: Kind,
    /// Test files that are not run, each with the reason. A name may end in `*`.
    pub skipped: &'static [(&'static str, &'static str)],
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// tokio's own: another package stands in for tokio's, with its tests and the names of its features.
    OfTokio,
    /// A crate that depends on tokio. The package is taken as it is, with its unit tests and these features.
    Dependent { features: &'static str },
}

const fn dependent(name: &'static str, version: &'static str, features: &'static str) -> Suite {
    Suite { name, version, kind: Kind::Dependent { features }, skipped: &[] }
}

impl Suite {
    const fn skip(mut self, skipped: &'static [(&'static str, &'static str)]) -> Self {
        self.skipped = skipped;
        self
    }

    /// The suites that run when none is named.
    pub fn is_default(&self) -> bool {
        matches!(self.name, "tokio" | "tokio-stream" | "tokio-test" | "tokio-util")
    }
}

/// Published crates whose packages contain their tests.
pub const SUITES: &[Suite] = &[
    Suite { name: "tokio", version: "1.54.1", kind: Kind::OfTokio, skipped: &[] },
    dependent("tokio-stream", "0.1.19", "full"),
    dependent("tokio-test", "0.4.6", ""),
    dependent("tokio-util", "0.7.20", "full"),
    dependent("actix-codec", "0.5.4", ""),
    dependent("actix-rt", "2.15.0", ""),
    dependent("actix-server", "2.10.0", ""),
    dependent("async-nats", "0.51.0", "").skip(&[("*", "needs a nats-server")]),
    dependent("async-stream", "0.3.6", ""),
    dependent("axum", "0.8.9", "__private,axum-macros/__private,http2,macros,multipart,ws"),
    dependent("axum-core", "0.5.6", ""),
    dependent("bb8", "0.9.1", ""),
    dependent("deadpool", "0.13.1", "rt_tokio_1,serde"),
    dependent("h2", "0.4.20", "stream,unstable"),
    dependent("hyper", "1.12.0", "full"),
    dependent("hyper-util", "0.1.21", "full"),
    dependent("leaky-bucket", "1.1.2", ""),
    dependent("mini-redis", "0.4.1", ""),
    dependent("openraft", "0.9.25", "serde"),
    dependent("quinn", "0.11.12", "").skip(&[("post_quantum", "needs aws-lc-rs")]),
    dependent("reqwest", "0.13.5", "blocking,cookies,gzip,json,multipart,stream"),
    dependent("tokio-retry", "0.3.2", ""),
    dependent("tokio-rustls", "0.26.6", "early-data"),
    dependent("tokio-tungstenite", "0.30.0", ""),
    dependent("tonic", "0.14.9", "gzip,tls-ring"),
    dependent("tower", "0.5.3", "full"),
    dependent("tower-http", "0.7.1", "full"),
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

/// What a test file of tokio is about.
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
