//! `cargo xtask soak`: runs every test binary of the workspace again and again beside a load.
//!
//! The binaries are built once. Each run starts them one after the other, as `cargo test --workspace` does: in the
//! folder of their package, with its `CARGO_MANIFEST_DIR`. Documentation tests are not part of it.
//!
//! A load is a set of child processes: this program, started as `xtask soak-load`. Such a child ends when its standard
//! input does. The pipe closes however the parent ends (return, panic, Ctrl-C, SIGKILL), so no child outlives it.

use std::collections::BTreeMap;
use std::env;
use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

pub const USAGE: &str = "  \
  soak [--runs N] [--load cpu|one-core|memory|nice|none]… [--jobs N] [--leave MIB] [--limit SECONDS] [name…]
                   run every test binary, or those whose path contains a name, N times (default 1) under each load:
                   cpu       beside busy processes (6, or as --jobs says)
                   one-core  with all threads pinned to one core
                   memory    beside a process that keeps all but 1024 MiB (--leave) of the available memory in use
                   nice      at nice 19, beside busy processes at nice 0 (one per core but one, or as --jobs says)
";

/// The second name of this program, for the processes of a load.
pub const LOAD_COMMAND: &str = "soak-load";

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Load {
    None,
    Cpu,
    OneCore,
    Memory,
    Nice,
}

const LOADS: [(&str, Load); 5] = [
    ("none", Load::None),
    ("cpu", Load::Cpu),
    ("one-core", Load::OneCore),
    ("memory", Load::Memory),
    ("nice", Load::Nice),
];

impl Load {
    fn name(self) -> &'static str {
        LOADS.iter().find(|(_, load)| *load == self).map_or("", |(name, _)| name)
    }

    /// The processes of the load: the arguments of each.
    fn processes(self, options: &Options) -> Vec<Vec<String>> {
        let cores = thread::available_parallelism().map_or(1, usize::from);
        let busy = |usually| vec![vec!["cpu".into()]; options.jobs.unwrap_or(usually)];
        match self {
            Self::None | Self::OneCore => Vec::new(),
            Self::Cpu => busy(6),
            Self::Nice => busy((cores - 1).max(1)),
            Self::Memory => vec![vec!["memory".into(), options.leave_mib.to_string()]],
        }
    }

    /// What a test binary is started with.
    fn prefix(self) -> Result<Vec<String>, String> {
        let words = |words: &[&str]| words.iter().map(|word| word.to_string()).collect();
        Ok(match self {
            Self::None | Self::Cpu | Self::Memory => Vec::new(),
            Self::Nice => words(&["nice", "-n", "19"]),
            Self::OneCore => {
                let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
                let core = first_core(&status).ok_or("/proc/self/status lists no allowed core")?;
                words(&["taskset", "--cpu-list", core])
            }
        })
    }
}

/// The first core that a process may use, from its `/proc/…/status`.
fn first_core(status: &str) -> Option<&str> {
    let list = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"))?;
    list.trim().split([',', '-']).next().filter(|core| !core.is_empty())
}

#[derive(Debug, PartialEq, Eq)]
struct Options {
    runs: usize,
    loads: Vec<Load>,
    jobs: Option<usize>,
    leave_mib: u64,
    limit: Duration,
    names: Vec<String>,
}

impl Options {
    fn parse(args: &[String]) -> Result<Self, String> {
        let limit = Duration::from_secs(900);
        let (loads, names) = (Vec::new(), Vec::new());
        let mut options = Self { runs: 1, loads, jobs: None, leave_mib: 1024, limit, names };
        let mut args = args.iter();
        while let Some(arg) = args.next() {
            if !arg.starts_with("--") {
                options.names.push(arg.clone());
                continue;
            }
            let value = args.next().ok_or(format!("{arg} needs a value"))?;
            let number = || value.parse::<u64>().map_err(|_| format!("{arg} {value}: no number"));
            match arg.as_str() {
                "--runs" => options.runs = number()? as usize,
                "--jobs" => options.jobs = Some(number()? as usize),
                "--leave" => options.leave_mib = number()?,
                "--limit" => options.limit = Duration::from_secs(number()?),
                "--load" => {
                    let load = LOADS.iter().find(|(name, _)| name == value);
                    options.loads.push(load.ok_or(format!("there is no load {value:?}"))?.1);
                }
                _ => return Err(format!("there is no option {arg}")),
            }
        }
        if options.runs == 0 {
            return Err("--runs 0 tests nothing".into());
        }
        if options.loads.is_empty() {
            options.loads.push(Load::Cpu);
        }
        Ok(options)
    }
}

pub fn run(root: &Path, args: &[String]) -> ExitCode {
    match Options::parse(args).and_then(|options| try_run(root, &options)) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(message) => {
            eprintln!("soak: {message}");
            ExitCode::from(2)
        }
    }
}

/// Returns true if every test passed in every run.
fn try_run(root: &Path, options: &Options) -> Result<bool, String> {
    let binaries = build(root, &options.names)?;
    // Several soaks may run side by side.
    let folder = root.join("target").join("soak").join(std::process::id().to_string());
    fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let mut counts: BTreeMap<Load, Counts> = BTreeMap::new();
    for &load in &options.loads {
        let prefix = load.prefix()?;
        let mut processes = Processes::start(load, options)?;
        for run in 1..=options.runs {
            for binary in &binaries {
                let name = binary.name();
                let log = folder.join(binary.log_name(load, run));
                let status = binary.run(&prefix, &log, options.limit)?;
                let text = fs::read(&log).unwrap_or_default();
                let result = TestResult::of(&String::from_utf8_lossy(&text), status);
                let count = counts.entry(load).or_default();
                count.passed += result.passed;
                count.failed += result.failed.len();
                for test in &result.failed {
                    let (load, log) = (load.name(), log.display());
                    println!("FAILED {name} {test} (load {load}, run {run}): {log}");
                }
                if result.failed.is_empty() {
                    let _ = fs::remove_file(&log); // a log of a test that passed is of no use
                }
            }
            processes.check()?;
            counts.entry(load).or_default().runs += 1;
            let Counts { passed, failed, .. } = counts[&load];
            println!("{} run {run}: {passed} passed, {failed} failed so far", load.name());
        }
    }
    println!("\n{:<10} {:>5} {:>9} {:>7}", "load", "runs", "passed", "failed");
    for (load, Counts { runs, passed, failed }) in &counts {
        println!("{:<10} {runs:>5} {passed:>9} {failed:>7}", load.name());
    }
    let total = |part: fn(&Counts) -> usize| counts.values().map(part).sum::<usize>();
    let (passed, failed) = (total(|count| count.passed), total(|count| count.failed));
    println!("{passed} passed, {failed} failed ({} binaries)", binaries.len());
    Ok(failed == 0)
}

#[derive(Clone, Copy, Default)]
struct Counts {
    runs: usize,
    passed: usize,
    failed: usize,
}

/// A test executable.
struct Binary {
    executable: PathBuf,
    manifest: PathBuf,
    package: String,
}

/// Builds the test binaries of the workspace, and what they start (`CARGO_BIN_EXE_…`).
fn build(root: &Path, names: &[String]) -> Result<Vec<Binary>, String> {
    let cargo = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .current_dir(root)
        .args(["test", "--workspace", "--no-run", "--message-format", "json-render-diagnostics"])
        .stderr(Stdio::inherit())
        .output()
        .map_err(|error| format!("cargo did not start: {error}"))?;
    if !output.status.success() {
        return Err("the tests do not build".into());
    }
    let mut binaries = binaries(&String::from_utf8_lossy(&output.stdout));
    let is_wanted = |path: &str| names.is_empty() || names.iter().any(|name| path.contains(name));
    binaries.retain(|binary| is_wanted(&binary.executable.to_string_lossy()));
    if binaries.is_empty() {
        return Err(format!("no test binary matches {names:?}"));
    }
    Ok(binaries)
}

/// The test binaries that cargo's messages name.
fn binaries(messages: &str) -> Vec<Binary> {
    let binary = |line: &str| {
        let message: Value = serde_json::from_str(line).ok()?;
        message["profile"]["test"].as_bool().filter(|is_test| *is_test)?;
        let manifest = PathBuf::from(message["manifest_path"].as_str()?);
        let package = manifest.parent()?.file_name()?.to_str()?.to_owned();
        Some(Binary { executable: message["executable"].as_str()?.into(), manifest, package })
    };
    messages.lines().filter_map(binary).collect()
}

impl Binary {
    /// Package and target, without the hash.
    fn name(&self) -> String {
        let file = self.executable.file_name().unwrap_or_default().to_string_lossy();
        let target = file.rsplit_once('-').map_or(&*file, |(target, _)| target);
        format!("{}::{target}", self.package)
    }

    /// The name of a log. It has the hash: a package may have a library and a test of one name.
    fn log_name(&self, load: Load, run: usize) -> String {
        let file = self.executable.file_name().unwrap_or_default().to_string_lossy();
        format!("{}-{run}-{}-{file}.txt", load.name(), self.package)
    }

    /// Runs it with its output in `log`. Returns `None` if the time limit ended it.
    fn run(
        &self,
        prefix: &[String],
        log: &Path,
        limit: Duration,
    ) -> Result<Option<ExitStatus>, String> {
        let problem = |error| format!("{}: {error}", self.executable.display());
        let output = File::create(log).map_err(problem)?;
        let mut words = prefix.iter().map(String::as_str).collect::<Vec<_>>();
        words.push(self.executable.to_str().ok_or("a path is not UTF-8")?);
        let folder = self.manifest.parent().unwrap_or(Path::new("."));
        // The rest of the environment is that of `cargo run`, library path included.
        let child = Command::new(words[0])
            .args(&words[1..])
            .current_dir(folder)
            .env("CARGO_MANIFEST_DIR", folder)
            .env("CARGO_MANIFEST_PATH", &self.manifest)
            .env("CARGO_PKG_NAME", &self.package)
            .stdin(Stdio::null())
            .stderr(output.try_clone().map_err(problem)?)
            .stdout(output)
            .spawn();
        let mut child = Killed(child.map_err(problem)?);
        let deadline = Instant::now() + limit;
        while Instant::now() < deadline {
            if let Some(status) = child.0.try_wait().map_err(problem)? {
                return Ok(Some(status));
            }
            thread::sleep(Duration::from_millis(20)); // std has no wait with a time limit
        }
        Ok(None)
    }
}

/// A child that is killed when this is dropped.
struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill(); // fails only if it has ended
        let _ = self.0.wait();
    }
}

/// The result of a test binary.
#[derive(Debug, PartialEq, Eq)]
struct TestResult {
    passed: usize,
    /// The names of the tests, or what happened to the binary.
    failed: Vec<String>,
}

impl TestResult {
    fn of(output: &str, status: Option<ExitStatus>) -> Self {
        let is_success = status.is_some_and(|status| status.success());
        let test = |line: &str, end: &str| {
            Some(line.strip_prefix("test ")?.strip_suffix(end)?.trim_end().to_owned())
        };
        let passed = output.lines().filter(|line| test(line, "... ok").is_some()).count();
        let mut failed: Vec<String> =
            output.lines().filter_map(|line| test(line, "... FAILED")).collect();
        if !is_success && failed.is_empty() {
            failed.push(status.map_or("(over the time limit)".into(), |it| format!("({it})")));
        }
        // A test that calls `exit(0)` ends the other tests without a failure.
        let (begun, ended) = ("running ", "test result: ");
        let count = |start| output.lines().filter(|line| line.starts_with(start)).count();
        if is_success && failed.is_empty() && count(begun) > count(ended) {
            failed.push("(ended before its tests did)".into());
        }
        Self { passed, failed }
    }
}

/// The running processes of a load.
struct Processes {
    load: Load,
    children: Vec<Killed>,
}

impl Processes {
    fn start(load: Load, options: &Options) -> Result<Self, String> {
        let problem = |error| format!("the load does not start: {error}");
        let program = env::current_exe().map_err(problem)?;
        let start = |args: &Vec<String>| {
            let mut command = Command::new(&program);
            // The parent has the other end of this pipe: see the top of the file.
            command.arg(LOAD_COMMAND).args(args).stdin(Stdio::piped());
            command.spawn().map(Killed).map_err(problem)
        };
        let children = load.processes(options).iter().map(start).collect::<Result<_, _>>()?;
        Ok(Self { load, children })
    }

    /// Fails if a process of the load has ended: the run was not under that load.
    fn check(&mut self) -> Result<(), String> {
        for child in &mut self.children {
            if let Some(status) = child.0.try_wait().map_err(|error| error.to_string())? {
                let load = self.load.name();
                return Err(format!("a process of the load {load} ended ({status})"));
            }
        }
        Ok(())
    }
}

/// A process of a load: `cpu`, or `memory MIB`. Ends with its standard input.
pub fn run_load(args: &[String]) -> ExitCode {
    thread::spawn(|| {
        let _ = std::io::stdin().read_to_end(&mut Vec::new());
        std::process::exit(0);
    });
    match args {
        [kind] if kind == "cpu" => loop {
            std::hint::spin_loop();
        },
        [kind, leave] if kind == "memory" => hold_memory(leave.parse().unwrap_or(1024)),
        _ => ExitCode::from(2),
    }
}

/// Holds all memory that is available, but for `leave_mib`, and writes to it over and over.
///
/// The kernel then has no memory for file pages: it drops those of the programs and reads them again. As the tests
/// need more or less, the held memory shrinks and grows. If memory runs out all the same, this process is the first
/// that the kernel kills.
fn hold_memory(leave_mib: u64) -> ! {
    const CHUNK_MIB: u64 = 64;
    let _ = fs::write("/proc/self/oom_score_adj", "1000"); // where that is allowed, as it is on Linux
    let mut chunks: Vec<Vec<u8>> = Vec::new();
    let mut value = 1u8;
    loop {
        let meminfo = fs::read_to_string("/proc/meminfo").unwrap_or_default();
        let available = available_mib(&meminfo).unwrap_or(0);
        if available > leave_mib + CHUNK_MIB {
            chunks.push(vec![value; (CHUNK_MIB << 20) as usize]);
        } else if available < leave_mib {
            let too_many = (leave_mib - available).div_ceil(CHUNK_MIB) as usize;
            chunks.truncate(chunks.len().saturating_sub(too_many));
        }
        // Writes one chunk per round, so that the available memory is read often.
        if !chunks.is_empty() {
            chunks.rotate_left(1);
            chunks[0].iter_mut().step_by(4096).for_each(|byte| *byte = value);
            std::hint::black_box(&chunks);
        }
        value = value.wrapping_add(1).max(1);
        thread::sleep(Duration::from_millis(1)); // the load is memory, not a core
    }
}

/// Returns the available memory, from `/proc/meminfo`.
fn available_mib(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok().map(|kib| kib >> 10)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::process::ExitStatusExt;

    fn parse(args: &str) -> Result<Options, String> {
        Options::parse(&args.split_whitespace().map(str::to_owned).collect::<Vec<_>>())
    }

    #[test]
    fn options_have_values_and_the_rest_are_names() {
        let options = parse("--runs 3 --load nice leaks --load memory --jobs 2").unwrap();
        assert_eq!((options.runs, options.jobs), (3, Some(2)));
        assert_eq!(options.loads, [Load::Nice, Load::Memory]);
        assert_eq!(options.names, ["leaks"]);
        assert_eq!(parse("").unwrap().loads, [Load::Cpu]);
        for wrong in ["--runs", "--runs many", "--runs 0", "--load heavy", "--speed 3"] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_binary_that_fails_names_its_tests_or_its_end() {
        let output =
            "running 3 tests\ntest a::b ... ok\ntest c ... FAILED\ntest d - should panic ... ok\n";
        let (good, bad) = (ExitStatus::from_raw(0), ExitStatus::from_raw(101 << 8));
        let result = TestResult::of(output, Some(bad));
        assert_eq!(result, TestResult { passed: 2, failed: vec!["c".into()] });
        assert_eq!(TestResult::of("test a ... ok", Some(good)).failed, Vec::<String>::new());
        let aborted = TestResult::of("test a ... ok\n", Some(ExitStatus::from_raw(6)));
        assert_eq!(aborted.failed.len(), 1, "a binary that dies is a failure: {aborted:?}");
        assert_eq!(TestResult::of("", None).failed, ["(over the time limit)"]);
        let exited = TestResult::of("\nrunning 2 tests\ntest a ... ok\n", Some(good));
        assert_eq!(exited.failed.len(), 1, "the second test did not run: {exited:?}");
        let complete = "\nrunning 1 test\ntest a ... ok\n\ntest result: ok. 1 passed\n";
        assert_eq!(TestResult::of(complete, Some(good)).failed, Vec::<String>::new());
    }

    #[test]
    fn a_load_that_has_ended_is_noticed() {
        let child = |script: &str| {
            let mut command = Command::new("sh");
            Killed(command.args(["-c", script]).stdin(Stdio::piped()).spawn().unwrap())
        };
        let mut processes = Processes { load: Load::Memory, children: vec![child("read line")] };
        assert_eq!(processes.check(), Ok(()), "it ends with its input");
        let mut ended = child("exit 3");
        ended.0.wait().unwrap();
        processes.children.push(ended);
        assert!(processes.check().unwrap_err().contains("memory"));
    }

    #[test]
    fn cargo_names_the_test_binaries() {
        let messages = r#"{"reason":"compiler-artifact","manifest_path":"/r/crates/one/Cargo.toml","profile":{"test":true},"executable":"/r/target/debug/deps/two_words-0123"}
{"reason":"compiler-artifact","manifest_path":"/r/crates/one/Cargo.toml","profile":{"test":false},"executable":"/r/target/debug/one"}
{"reason":"build-finished","success":true}"#;
        let found = binaries(messages);
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].name(), "one::two_words");
        assert_eq!(found[0].log_name(Load::Cpu, 3), "cpu-3-one-two_words-0123.txt");
        assert_eq!(found[0].manifest, Path::new("/r/crates/one/Cargo.toml"));
    }

    #[test]
    fn the_system_says_what_is_free() {
        assert_eq!(first_core("Name:\tx\nCpus_allowed_list:\t2-3,7\n"), Some("2"));
        assert_eq!(first_core("Name:\tx\n"), None);
        assert_eq!(available_mib("MemTotal: 9 kB\nMemAvailable:  2097152 kB\n"), Some(2048));
    }
}
