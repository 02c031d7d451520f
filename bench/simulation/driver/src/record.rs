//! Writes the record of a benchmark run.

use crate::options::Options;
use crate::run::{Cell, Heartbeats, MAX_RUNS};
use serde_json::{Value, json};
use std::process::Command;

fn output(program: &str, args: &[&str]) -> String {
    let output = Command::new(program).args(args).output();
    output.map(|it| String::from_utf8_lossy(&it.stdout).trim().to_owned()).unwrap_or_default()
}

fn machine() -> Value {
    let cpu = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let cpu = cpu.lines().find_map(|line| line.strip_prefix("model name")).unwrap_or_default();
    json!({
        "commit": output("git", &["rev-parse", "--short=12", "HEAD"]),
        "cores": std::thread::available_parallelism().map_or(0, usize::from),
        "cpu": cpu.trim_start_matches([' ', '\t', ':']),
        "date": output("date", &["-u", "+%Y-%m-%dT%H:%M:%SZ"]),
        "kernel": output("uname", &["-sr"]),
        "rustc": output("rustc", &["--version"]),
        "load": std::fs::read_to_string("/proc/loadavg").unwrap_or_default().trim(),
        "versions": versions(),
    })
}

/// Returns the versions of the tools from the lock file.
fn versions() -> Value {
    let lock = include_str!("../../Cargo.lock");
    let names = ["loom", "madsim", "madsim-tokio", "shuttle", "shuttle-tokio", "tokio", "turmoil"];
    names
        .iter()
        .filter_map(|name| {
            let entry = format!("name = \"{name}\"\nversion = \"");
            let rest = &lock[lock.rfind(&entry)? + entry.len()..];
            Some((name.to_string(), Value::from(rest.split('"').next()?)))
        })
        .collect()
}

pub fn write(path: &str, options: &Options, cells: &[Cell<'_>], heartbeats: &[Heartbeats]) {
    let bug = |cell: &Cell<'_>| {
        json!({
            "number": cell.number,
            "bug": cell.bug,
            "tool": cell.tool.name,
            "searches": cell.found.len() as u64 + cell.missed,
            "missed": cell.missed,
            "median": cell.quantile(0.5),
            "p90": cell.quantile(0.9),
            "most": cell.quantile(1.0),
            "runs_per_second": cell.rate().round(),
            "runs_per_second_samples": cell.rates.iter().map(|it| it.round()).collect::<Vec<_>>(),
            "twin_runs": cell.twins,
            "false_alarms": cell.alarms,
        })
    };
    let beats = |result: &Heartbeats| {
        json!({
            "hosts": result.hosts,
            "tool": result.tool,
            "simulated_per_second": result.rate().round(),
            "samples": result.samples,
        })
    };
    let lines = |values: Vec<Value>| {
        let lines: Vec<String> = values.iter().map(|value| format!("    {value}")).collect();
        lines.join(",\n")
    };
    let text = format!(
        "{{\n  \"what\": \"{}\",\n  \"machine\": {},\n  \"masters\": {},\n  \"rounds\": {},\n  \
         \"max_runs\": {MAX_RUNS},\n  \"cells\": [\n{}\n  ],\n  \"heartbeats\": [\n{}\n  ]\n}}\n",
        "Bugs of the catalogue on simulations (bench/simulation): runs until found, over master \
         seeds; runs of the fixed twin per second, and its failures.",
        machine(),
        options.masters,
        options.rounds,
        lines(cells.iter().map(bug).collect()),
        lines(heartbeats.iter().map(beats).collect()),
    );
    std::fs::write(path, text).expect("the record can be written");
}
