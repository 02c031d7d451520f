//! Runs a test process with a time limit.

use std::fs::File;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use super::package::Package;

/// How a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// By itself, with this code.
    Code(i32),
    /// By a signal that xtask did not send.
    Died(i32),
    /// By xtask, at the time limit.
    Hung,
}

/// Runs `executable` with `args`; what it prints goes to `log`.
pub fn run(
    package: &Package,
    executable: &Path,
    args: &[&str],
    log: &Path,
    limit: Duration,
) -> Result<End, String> {
    let start = || {
        let output = File::create(log)?;
        let errors = output.try_clone()?;
        // A test that aborts must leave no core dump.
        Command::new("sh")
            .args(["-c", "ulimit -c 0; exec \"$0\" \"$@\""])
            .arg(executable)
            .args(args)
            .current_dir(&package.folder)
            .env("CARGO_MANIFEST_DIR", &package.folder)
            .env("RUST_BACKTRACE", "0")
            .env_remove("WAKEFUL_REPORT")
            .env("WAKEFUL_REPORTS", package.reports())
            .envs(package.suite.server.into_iter().flat_map(|server| server.variables().to_vec()))
            .stdin(Stdio::null())
            .stdout(output)
            .stderr(errors)
            // A group of its own, so that its children go with it.
            .process_group(0)
            .spawn()
    };
    let mut child = start().map_err(|error| format!("{}: {error}", executable.display()))?;
    let ended = wait(&mut child, limit).map_err(|error| format!("waiting for a test: {error}"))?;
    // Processes that the test has left would hold ports and CPU time.
    let _ = Command::new("kill")
        .args(["-9", "--", &format!("-{}", child.id())])
        .stderr(Stdio::null())
        .status();
    let _ = child.wait();
    Ok(match ended {
        None => End::Hung,
        Some(status) => match status.code() {
            Some(code) => End::Code(code),
            None => End::Died(status.signal().unwrap_or(0)),
        },
    })
}

fn wait(child: &mut Child, limit: Duration) -> std::io::Result<Option<ExitStatus>> {
    let deadline = Instant::now() + limit;
    let mut pause = Duration::from_millis(1);
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        if Instant::now() >= deadline {
            return Ok(None);
        }
        thread::sleep(pause); // std has no wait with a time limit
        pause = (pause * 2).min(Duration::from_millis(50));
    }
}
