//! Closed loops of the system's own load generators: wrk and redis-benchmark.

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::rows::Driver;

/// What a generator reports: requests, and figures by their names.
pub struct Driven {
    pub requests: f64,
    pub figures: Vec<(&'static str, f64)>,
}

impl Driver {
    pub fn program(self) -> &'static str {
        match self {
            Driver::Wrk(_) => "wrk",
            Driver::RedisBenchmark(_) => "redis-benchmark",
        }
    }

    /// Whether the program can be started.
    pub fn is_installed(self) -> bool {
        Command::new(self.program()).arg("--version").output().is_ok()
    }

    /// Drives a server over `connections`. `expected_per_s` is about how many requests it answers each second.
    pub fn run(
        self,
        port: u16,
        connections: usize,
        seconds: f64,
        expected_per_s: f64,
        scratch: &Path,
    ) -> Result<Driven, String> {
        // A generator whose server hangs would wait forever.
        let mut command = Command::new("timeout");
        command.arg((seconds.ceil() + 60.0).to_string()).arg(self.program());
        match self {
            Driver::Wrk(path) => {
                let script = scratch.join("wrk.lua");
                fs::write(&script, include_str!("../../src/sockets/wrk.lua"))
                    .map_err(|error| format!("{}: {error}", script.display()))?;
                let connections = format!("-c{connections}");
                // It takes whole seconds.
                let duration = format!("-d{}s", seconds.ceil());
                command.args(["-t1", &connections, &duration, "-s"]).arg(script);
                command.arg(format!("http://127.0.0.1:{port}{path}"));
            }
            Driver::RedisBenchmark(test) => {
                let requests = (expected_per_s * seconds).ceil().max(1.0) as u64;
                command.args(["-h", "127.0.0.1", "-p", &port.to_string(), "--csv"]);
                command.args(["-c", &connections.to_string(), "-n", &requests.to_string()]);
                command.args(["-t", test]);
            }
        }
        let output = command.output().map_err(|error| format!("{}: {error}", self.program()))?;
        let text = String::from_utf8_lossy(&output.stdout);
        let driven = match self {
            Driver::Wrk(_) => of_wrk(&text),
            Driver::RedisBenchmark(_) => of_redis_benchmark(&text, expected_per_s * seconds),
        };
        driven.ok_or_else(|| {
            let complaint = String::from_utf8_lossy(&output.stderr);
            format!("{} has no figures: {text}{complaint}", self.program())
        })
    }
}

/// Reads the line of JSON that the script prints.
fn of_wrk(text: &str) -> Option<Driven> {
    let line = text.lines().find(|line| line.starts_with('{'))?;
    let said: Value = serde_json::from_str(line).ok()?;
    let requests = said["requests"].as_f64()?;
    let mut figures = vec![("per_s", requests / said["seconds"].as_f64()?)];
    for key in ["p50_us", "p99_us", "p999_us"] {
        figures.push((key, said[key].as_f64()?));
    }
    Some(Driven { requests, figures })
}

/// Reads the columns of the CSV by their names. There is no p99.9.
fn of_redis_benchmark(text: &str, requests: f64) -> Option<Driven> {
    let mut lines = text.lines().skip_while(|line| !line.starts_with("\"test\""));
    let (names, values) = (lines.next()?, lines.next()?);
    let cells = |line: &str| -> Vec<String> {
        line.split(',').map(|cell| cell.trim_matches('"').to_owned()).collect()
    };
    let (names, values) = (cells(names), cells(values));
    let value = |name: &str| -> Option<f64> {
        let place = names.iter().position(|found| found == name)?;
        values.get(place)?.parse().ok()
    };
    let figures = vec![
        ("per_s", value("rps")?),
        ("p50_us", value("p50_latency_ms")? * 1000.0),
        ("p99_us", value("p99_latency_ms")? * 1000.0),
    ];
    Some(Driven { requests: requests.ceil().max(1.0), figures })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_of_wrk() {
        let text = "Running 2s test\n{\"requests\": 300, \"seconds\": 2.0, \"p50_us\": 1.5, \
                    \"p99_us\": 2.5, \"p999_us\": 3.5}\n";
        let driven = of_wrk(text).expect("it has all figures");
        assert_eq!(driven.requests, 300.0);
        assert_eq!(driven.figures[0], ("per_s", 150.0));
        assert_eq!(driven.figures[3], ("p999_us", 3.5));
        assert!(of_wrk("3 requests failed\n").is_none());
    }

    #[test]
    fn figures_of_redis_benchmark() {
        let text = "\"test\",\"rps\",\"avg_latency_ms\",\"min_latency_ms\",\"p50_latency_ms\",\
                    \"p95_latency_ms\",\"p99_latency_ms\",\"max_latency_ms\"\n\
                    \"GET\",\"50000.00\",\"0.4\",\"0.1\",\"0.3\",\"0.5\",\"0.7\",\"0.9\"\n";
        let driven = of_redis_benchmark(text, 99.5).expect("it has all figures");
        assert_eq!(driven.requests, 100.0);
        assert_eq!(driven.figures, [("per_s", 50_000.0), ("p50_us", 300.0), ("p99_us", 700.0)]);
    }
}
