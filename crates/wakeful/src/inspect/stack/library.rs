//! Distinguishes library code from the program's own code.
//!
//! With debug information, the path of the source file decides: cargo and the Rust toolchain keep
//! libraries in separate folders. Without it, the crate name decides.

use crate::inspect::symbols::SourceSite;

/// Crates that count as libraries wherever their sources are. Without debug information, only the name
/// of a frame is known.
const LIBRARIES: &[&str] = &[
    "axum",
    "axum_core",
    "async_trait",
    "bytes",
    "crossbeam_channel",
    "diesel",
    "futures",
    "futures_channel",
    "futures_core",
    "futures_executor",
    "futures_lite",
    "futures_sink",
    "futures_util",
    "h2",
    "hashbrown",
    "hickory_resolver",
    "http",
    "http_body",
    "http_body_util",
    "httparse",
    "hyper",
    "hyper_rustls",
    "hyper_util",
    "log",
    "mio",
    "native_tls",
    "once_cell",
    "openssl",
    "parking_lot",
    "parking_lot_core",
    "postgres",
    "prost",
    "quinn",
    "rayon",
    "rayon_core",
    "redis",
    "reqwest",
    "ring",
    "rusqlite",
    "rustls",
    "serde",
    "serde_json",
    "sqlx",
    "sqlx_core",
    "test",
    "tokio",
    "tokio_postgres",
    "tokio_rustls",
    "tokio_stream",
    "tokio_util",
    "tonic",
    "tower",
    "tower_http",
    "tower_service",
    "tracing",
    "tracing_core",
    "tungstenite",
    "ureq",
    "wakeful",
    "wakeful_hyper",
    "warp",
];

/// Returns the library that a function belongs to, or `None` for code of the program.
pub(super) fn library_of(
    name: &str,
    site: Option<&SourceSite>,
    object: Option<&str>,
) -> Option<String> {
    if let Some(object) = object {
        // `libc.so.6`
        return Some(object.split(".so").next().unwrap_or(object).to_owned());
    }
    if let Some(library) = site.and_then(|site| library_of_path(&site.file)) {
        return Some(library);
    }
    // Line tables have names without the crate.
    if site.is_some_and(|site| is_own_source(&site.file)) {
        return Some("wakeful".to_owned());
    }
    let root = crate_of(name)?;
    match root {
        "std" | "core" | "alloc" => Some("std".to_owned()),
        root if LIBRARIES.contains(&root) => Some(root.to_owned()),
        _ => None,
    }
}

/// The folder of this crate's sources, as passed to the compiler.
const OWN_SOURCES: &str = {
    // The path of this file, without its last three parts.
    let (path, end) = (file!(), file!().len() - "inspect/stack/library.rs".len());
    path.split_at(end).0
};

/// Returns whether a source file belongs to this crate.
fn is_own_source(file: &str) -> bool {
    // A path such as `src/` identifies no crate.
    OWN_SOURCES.contains("wakeful") && file.contains(OWN_SOURCES)
}

/// Returns whether a source file is this crate's file whose functions poll tasks.
pub(super) fn polls_tasks(file: &str) -> bool {
    is_own_source(file) && file.ends_with("/task/cell.rs")
}

/// Returns whether a source file is this crate's file that reads and writes standard streams.
pub(in crate::inspect) fn is_stdio_source(file: &str) -> bool {
    is_own_source(file) && file.ends_with("/io/stdio/blocking_stream.rs")
}

/// Returns whether a source file is in a folder of cargo or of the Rust toolchain.
pub(crate) fn is_library_source(file: &str) -> bool {
    library_of_path(file).is_some()
}

/// Returns the crate that a path of a function starts with. `<A as B>::f` is a function of A's crate.
fn crate_of(name: &str) -> Option<&str> {
    let name = name.trim_start_matches(['<', '&', '*', '(', '[']);
    let name = ["mut ", "const ", "dyn "]
        .iter()
        .fold(name, |name, it| name.strip_prefix(it).unwrap_or(name));
    let (root, _) = name.split_once("::")?;
    let is_name = |char: char| char.is_alphanumeric() || char == '_';
    (!root.is_empty() && root.chars().all(is_name)).then_some(root)
}

/// Returns the library of a source file in a folder of cargo or of the Rust toolchain.
fn library_of_path(file: &str) -> Option<String> {
    let after = |folder: &str| file.find(folder).map(|at| &file[at + folder.len()..]);
    let first = |path: &str| path.split('/').next().unwrap_or_default().to_owned();
    if let Some(path) = after("/registry/src/") {
        // The folder of the registry, then that of the package.
        return Some(without_version(path.split('/').nth(1)?));
    }
    if let Some(path) = after("/git/checkouts/") {
        // `name-hash`, then the commit.
        let folder = first(path);
        return Some(folder.rsplit_once('-').map_or(folder.clone(), |(name, _)| name.to_owned()));
    }
    if file.starts_with("/rustc/") || file.contains("/rustlib/src/rust/library/") {
        return Some("std".to_owned());
    }
    if let Some(path) = after("/rust/deps/").or_else(|| after("/vendor/")) {
        return Some(without_version(&first(path)));
    }
    None
}

/// Removes the version from `name-1.2.3`.
fn without_version(package: &str) -> String {
    let is_version = |at: &usize| package[at + 1..].starts_with(|char: char| char.is_ascii_digit());
    let at = package.match_indices('-').map(|(at, _)| at).find(is_version);
    package[..at.unwrap_or(package.len())].to_owned()
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::{OWN_SOURCES, is_library_source, library_of, library_of_path, polls_tasks};

    #[test]
    fn the_sources_of_this_crate_are_known() {
        assert!(OWN_SOURCES.ends_with("wakeful/src/"), "{OWN_SOURCES}");
        assert!(polls_tasks(&format!("/build/{OWN_SOURCES}task/cell.rs")));
        assert!(!polls_tasks(&format!("/build/{OWN_SOURCES}task/state.rs")));
        assert!(!polls_tasks("/build/app/src/task/cell.rs"));
    }

    #[test]
    fn libraries_are_known_by_path_and_by_name() {
        for (path, library) in [
            ("/build/.cargo/registry/src/index/tokio-util-0.7.15/src/lib.rs", Some("tokio-util")),
            (
                "/build/.cargo/git/checkouts/hyper-0123456789abcdef/1234567/src/lib.rs",
                Some("hyper"),
            ),
            ("/rustc/59807616e1fa/library/core/src/pin.rs", Some("std")),
            ("/rust/deps/hashbrown-0.15.2/src/raw.rs", Some("hashbrown")),
            ("/build/app/vendor/axum/src/lib.rs", Some("axum")),
            ("/build/app/src/main.rs", None),
        ] {
            assert_eq!(library_of_path(path).as_deref(), library, "{path}");
            assert_eq!(is_library_source(path), library.is_some(), "{path}");
        }
        for (name, library) in [
            ("core::pin::Pin<P>::as_mut", Some("std")),
            ("<alloc::boxed::Box<F,A> as core::future::future::Future>::poll", Some("std")),
            ("<&mut hyper::Body as http_body::Body>::poll_frame", Some("hyper")),
            ("<app::Job as core::future::future::Future>::poll", None),
            ("app::axum::handler", None),
            ("main", None),
        ] {
            assert_eq!(library_of(name, None, None).as_deref(), library, "{name}");
        }
    }
}
