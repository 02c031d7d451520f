//! The suites, and what their files are about.

/// The tests of one published crate.
pub struct Suite {
    /// The crate's name.
    pub name: &'static str,
    pub version: &'static str,
    pub kind: Kind,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// tokio's own: another package stands in for tokio's, with its tests and the names of its features.
    OfTokio,
    /// A crate that depends on tokio: it is taken as it is, its unit tests included, with these features.
    Dependent { features: &'static str },
}

pub const SUITES: &[Suite] = &[
    Suite { name: "tokio", version: "1.54.1", kind: Kind::OfTokio },
    Suite { name: "tokio-stream", version: "0.1.19", kind: Kind::Dependent { features: "full" } },
    Suite { name: "tokio-test", version: "0.4.6", kind: Kind::Dependent { features: "" } },
    Suite { name: "tokio-util", version: "0.7.20", kind: Kind::Dependent { features: "full" } },
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
