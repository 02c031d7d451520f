//! Tasks that only sleep: how much memory a task takes, as published comparisons of runtimes measure it.

use std::fs;
use std::time::{Duration, Instant};

use serde_json::json;

use crate::{Outcome, runtime_name};

/// How long each task sleeps.
const SLEEP: Duration = Duration::from_secs(10);

/// Spawns `count` tasks that sleep, joins all, and prints seconds and the peak of resident memory.
pub async fn run(count: usize) -> Outcome {
    let started = Instant::now();
    let mut tasks = Vec::with_capacity(count);
    for _ in 0..count {
        tasks.push(tokio::spawn(tokio::time::sleep(SLEEP)));
    }
    let spawned = started.elapsed();
    for task in tasks {
        task.await?;
    }
    let line = json!({
        "runtime": runtime_name(),
        "spawn_s": spawned.as_secs_f64(),
        "seconds": started.elapsed().as_secs_f64(),
        "peak_bytes": peak_bytes()?,
        "cpu_ns": cpu_ns(),
    });
    println!("{line}");
    Ok(())
}

fn cpu_ns() -> u64 {
    let taken = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    taken.tv_sec as u64 * 1_000_000_000 + taken.tv_nsec as u64
}

/// The highest amount of resident memory that this process has had.
fn peak_bytes() -> Result<u64, Box<dyn std::error::Error + Send + Sync>> {
    let status = fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib = line.and_then(|line| line.trim().strip_suffix(" kB"));
    Ok(kib.ok_or("the kernel tells no VmHWM")?.trim().parse::<u64>()? * 1024)
}
