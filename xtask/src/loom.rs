//! `cargo xtask loom`: builds the library with `--cfg loom` and runs its models.
//!
//! A model is a test in a module named `models`. The build has
//! its own target folder, since its flags would otherwise evict the usual one.

use std::env;
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};
use std::time::Instant;

/// How many forced switches between threads loom tries in one execution,
/// unless `LOOM_MAX_PREEMPTIONS` says otherwise.
const MAX_PREEMPTIONS: &str = "3";

/// The part of a test's path that marks it as a model.
const MODEL_MARK: &str = "models::";

pub fn run(root: &Path, names: &[String]) -> ExitCode {
    let start = Instant::now();
    match try_run(root, names) {
        Ok(models) => {
            let seconds = start.elapsed().as_secs_f64();
            println!("loom: every model holds ({models} run), {seconds:.1} s with the build");
            ExitCode::SUCCESS
        }
        Err(message) => {
            let seconds = start.elapsed().as_secs_f64();
            eprintln!("loom: {message} (after {seconds:.1} s)");
            ExitCode::FAILURE
        }
    }
}

/// Lists the models first: a filter that matches nothing must not pass.
fn try_run(root: &Path, names: &[String]) -> Result<usize, String> {
    let filters: Vec<&str> = if names.is_empty() {
        vec![MODEL_MARK]
    } else {
        names.iter().map(String::as_str).collect()
    };

    let listing = cargo_test(root, &filters)
        .arg("--list")
        .stderr(Stdio::inherit())
        .output()
        .map_err(|error| format!("cargo did not start: {error}"))?;
    if !listing.status.success() {
        return Err("the library does not build with --cfg loom".into());
    }
    let models = count_tests(&String::from_utf8_lossy(&listing.stdout));
    if models == 0 {
        return Err(format!("no test matches {filters:?}; models live in modules named `models`"));
    }

    let status = cargo_test(root, &filters)
        .status()
        .map_err(|error| format!("cargo did not start: {error}"))?;
    if status.success() {
        Ok(models)
    } else {
        Err("a model failed; its execution is printed above".into())
    }
}

fn cargo_test(root: &Path, filters: &[&str]) -> Command {
    let cargo = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let preemptions = env::var_os("LOOM_MAX_PREEMPTIONS").unwrap_or_else(|| MAX_PREEMPTIONS.into());
    let mut command = Command::new(cargo);
    command
        .current_dir(root)
        .env("RUSTFLAGS", "--cfg loom -C debug-assertions -D warnings")
        .env("LOOM_MAX_PREEMPTIONS", preemptions)
        // Link-time optimisation costs more here than the models win by it.
        .env("CARGO_PROFILE_RELEASE_LTO", "off")
        .args(["test", "--release", "--package", "wakeful", "--lib"])
        .arg("--target-dir")
        .arg(root.join("target").join("loom"))
        .arg("--")
        .args(filters);
    command
}

/// Counts the lines `path: test` of a test program's `--list`.
fn count_tests(listing: &str) -> usize {
    let is_test = |line: &&str| line.trim_end().ends_with(": test");
    listing.lines().filter(is_test).count()
}

#[cfg(test)]
mod tests {
    use super::count_tests;

    #[test]
    fn a_listing_is_counted_by_its_test_lines() {
        let listing = "task::models::state::wake: test\nqueue::models::ring::steal: test\n\n2 tests, 0 benchmarks\n";
        assert_eq!(count_tests(listing), 2);
    }

    #[test]
    fn an_empty_listing_has_no_models() {
        assert_eq!(count_tests("\n0 tests, 0 benchmarks\n"), 0);
    }
}
