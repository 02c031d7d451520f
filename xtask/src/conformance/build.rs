//! Compiles every test file by itself, so that a compile error in one does not affect the others.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::process::Stdio;

use serde_json::Value;

use super::options::Options;
use super::package::Package;
use super::suite::Kind;

/// The result of building a test file.
pub enum Built {
    Executable(PathBuf),
    /// It does not compile. Has the compiler's first error.
    Refused(String),
}

/// The name that the library's own unit tests have here.
pub const UNIT_TESTS: &str = "lib";

/// Builds `targets` and, unless only other files are named, the unit tests of the library.
pub fn build(
    package: &Package,
    targets: &[String],
    options: &Options,
) -> Result<BTreeMap<String, Built>, String> {
    let mut cargo = package.cargo("build");
    cargo.args(["--keep-going", "--message-format", "json", "--target-dir"]);
    if options.unstable {
        // In a folder of its own, because another flag compiles everything again.
        cargo.arg(package.target.with_added_extension("unstable"));
        cargo.env("RUSTFLAGS", "--cfg tokio_unstable --cap-lints warn");
    } else {
        cargo.arg(&package.target);
    }
    if let Some(jobs) = options.jobs {
        cargo.args(["--jobs", &jobs.to_string()]);
    }
    let mut wanted: BTreeSet<&str> = targets.iter().map(String::as_str).collect();
    match package.suite.kind {
        Kind::Dependent { features } => _ = cargo.args(["--features", features]),
        // The others of tokio's unstable features are in `full`, or their tests are skipped.
        Kind::OfTokio if options.unstable => {
            cargo.args(["--features", "io-uring,schedule-latency,tracing"]);
        }
        Kind::OfTokio => {}
    }
    if package.suite.kind != Kind::OfTokio && options.has_unit_tests() {
        if package.has_unit_tests {
            wanted.insert(UNIT_TESTS);
        }
        cargo.arg("--tests");
    } else {
        cargo.args(targets.iter().flat_map(|target| ["--test", target]));
    }
    let output = cargo
        .stderr(Stdio::inherit())
        .output()
        .map_err(|error| format!("cargo did not start: {error}"))?;

    let messages: Vec<Value> = output
        .stdout
        .split(|&byte| byte == b'\n')
        .filter_map(|line| serde_json::from_slice(line).ok())
        .collect();
    if let Some(error) = first_error(&messages, |target| !is_wanted(&wanted, target, package)) {
        // An error in a dependency makes every file fail, so it is printed.
        eprintln!("{error}");
    }
    let found = wanted.iter().map(|&name| {
        let is_it = |target: &Value| target_name(target, package) == Some(name);
        let built = match executable(&messages, is_it) {
            Some(path) => Built::Executable(path),
            None => {
                let error = first_error(&messages, is_it);
                Built::Refused(
                    error.unwrap_or_else(|| "something that it depends on does not compile".into()),
                )
            }
        };
        (name.to_owned(), built)
    });
    Ok(found.collect())
}

/// Returns the name of a target of this package.
fn target_name<'m>(message: &'m Value, package: &Package) -> Option<&'m str> {
    let manifest = message["manifest_path"].as_str()?;
    if std::path::Path::new(manifest).parent() != Some(&package.folder) {
        return None;
    }
    match &message["target"]["kind"] {
        kind if kind[0] == "test" => message["target"]["name"].as_str(),
        kind => is_library(kind).then_some(UNIT_TESTS),
    }
}

/// Returns whether these are the kinds of a library target.
pub fn is_library(kinds: &Value) -> bool {
    matches!(kinds[0].as_str(), Some("lib" | "rlib" | "proc-macro"))
}

fn is_wanted(wanted: &BTreeSet<&str>, message: &Value, package: &Package) -> bool {
    target_name(message, package).is_some_and(|name| wanted.contains(name))
}

fn executable(messages: &[Value], is_it: impl Fn(&Value) -> bool) -> Option<PathBuf> {
    messages
        .iter()
        .filter(|message| message["reason"] == "compiler-artifact" && is_it(message))
        .filter(|message| message["profile"]["test"] == true)
        .find_map(|message| message["executable"].as_str().map(PathBuf::from))
}

fn first_error(messages: &[Value], is_it: impl Fn(&Value) -> bool) -> Option<String> {
    messages
        .iter()
        .filter(|message| message["reason"] == "compiler-message" && is_it(message))
        .filter(|message| message["message"]["level"] == "error")
        .find_map(|message| message["message"]["message"].as_str().map(str::to_owned))
}
