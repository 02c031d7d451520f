//! The machine and the versions that a record names.

use std::fs;
use std::process::Command;
use std::thread;

use serde_json::{Value, json};

/// Describes this machine, the commit, and the versions of `packages` in the text of a lock file.
pub fn describe(lock: &str, packages: &[&str]) -> Value {
    json!({
        "date": said_by("date", &["-u", "+%Y-%m-%dT%H:%M:%SZ"]),
        "cpu": cpu_model(),
        "cores": thread::available_parallelism().map_or(0, |cores| cores.get()),
        "kernel": said_by("uname", &["-sr"]),
        "rustc": said_by("rustc", &["--version"]),
        "commit": said_by("git", &["rev-parse", "--short=12", "HEAD"]),
        "versions": versions(lock, packages),
    })
}

/// Returns the date in UTC, as in the names of records.
pub fn today() -> String {
    said_by("date", &["-u", "+%Y-%m-%d"])
}

/// Returns the load of the last minute: how many threads ran or could have run on average.
pub fn load_average() -> Option<f64> {
    let text = fs::read_to_string("/proc/loadavg").ok()?;
    text.split(' ').next()?.parse().ok()
}

/// Returns the first line that a command prints, or "unknown".
fn said_by(program: &str, arguments: &[&str]) -> String {
    Command::new(program)
        .args(arguments)
        .output()
        .ok()
        .filter(|output| output.status.success())
        .and_then(|output| String::from_utf8(output.stdout).ok())
        .and_then(|text| text.lines().next().map(String::from))
        .unwrap_or_else(|| "unknown".into())
}

fn cpu_model() -> String {
    let info = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    info.lines()
        .find_map(|line| line.strip_prefix("model name"))
        .map(|rest| rest.trim_start_matches([' ', '\t', ':']).to_string())
        .unwrap_or_else(|| "unknown".into())
}

fn versions(lock: &str, packages: &[&str]) -> Value {
    let mut found = serde_json::Map::new();
    let mut lines = lock.lines();
    while let Some(line) = lines.next() {
        let Some(name) = quoted(line, "name = ") else { continue };
        let version = lines.next().and_then(|line| quoted(line, "version = "));
        if let (true, Some(version)) = (packages.contains(&name), version) {
            found.insert(name.into(), version.into());
        }
    }
    found.into()
}

/// Returns `name` of `key"name"`.
fn quoted<'a>(line: &'a str, key: &str) -> Option<&'a str> {
    line.strip_prefix(key)?.strip_prefix('"')?.strip_suffix('"')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_come_from_the_lock_file() {
        let lock = "[[package]]\nname = \"tokio\"\nversion = \"1.2.3\"\n\n\
                    [[package]]\nname = \"bytes\"\nversion = \"9.9.9\"\n";
        assert_eq!(versions(lock, &["tokio", "smol"]), json!({ "tokio": "1.2.3" }));
    }
}
