//! The parity suite: runs the tests of time, sync and net a second time, on the simulated flavor.
//!
//! Starts the test binaries `time_*`, `sync_*` and `net_*` with `WAKEFUL_SIM`, which makes every runtime
//! of a process a simulated one. `docs/SIM_PARITY.md` lists the tests that differ, with reasons. A listed
//! test that passes fails the suite, so the list stays true.
//!
//! `cargo test` builds the binaries. To run the suite alone, build them as well:
//!
//! ```text
//! cargo test -p wakeful --test 'time_*' --test 'sync_*' --test 'net_*' --test sim_parity
//! ```

use std::collections::{BTreeMap, BTreeSet};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Mutex, mpsc};
use std::time::{Duration, SystemTime};
use std::{env, fs, thread};

const SEEDS: [&str; 3] = ["1", "2", "3"];

/// The time after which a listed test is considered to hang.
const HANGS_AFTER: Duration = Duration::from_secs(10);

/// The time limit of a process with all other tests of a file.
const LIMIT: Duration = Duration::from_secs(300);

/// The number of processes that run at once.
const AT_ONCE: usize = 4;

/// The prefixes of the test files that also run in a simulation.
const PREFIXES: [&str; 3] = ["time_", "sync_", "net_"];

fn package() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// A test binary and its tests.
struct Binary {
    name: String,
    path: PathBuf,
    tests: BTreeSet<String>,
}

/// Returns the names of the test binaries.
fn binary_names() -> BTreeSet<String> {
    let names = fs::read_dir(package().join("tests")).unwrap().map(|entry| {
        let path = entry.unwrap().path();
        path.file_stem().unwrap().to_str().unwrap().to_owned()
    });
    names.filter(|name| PREFIXES.iter().any(|prefix| name.starts_with(prefix))).collect()
}

fn changed(path: &Path) -> SystemTime {
    fs::metadata(path).and_then(|it| it.modified()).unwrap_or(SystemTime::UNIX_EPOCH)
}

/// Returns when a source of the library last changed, from the compiler's list of sources.
fn last_change_of_library(folder: &Path) -> SystemTime {
    let files = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let is_list = |path: &PathBuf| {
        let name = path.file_name().and_then(|it| it.to_str()).unwrap_or_default();
        name.starts_with("wakeful-") && name.ends_with(".d")
    };
    let mut lists: Vec<_> = files.filter(is_list).collect();
    lists.sort_by_key(|path| changed(path));
    let texts = lists.iter().rev().map(|path| fs::read_to_string(path).unwrap());
    // Not the sources of the unit tests.
    let text = { texts }.find(|text| text.contains("libwakeful-")).expect("cargo has built it");
    let sources = text.lines().filter_map(|line| line.strip_suffix(".rs:"));
    let root = package().join("../..");
    let changes = sources.map(|source| changed(&root.join(format!("{source}.rs"))));
    changes.max().expect("it has sources")
}

/// Returns the newest binary of this test in the folder of the running one.
///
/// # Panics
///
/// If there is none, or if the library has changed since.
fn find_binary(name: &str) -> PathBuf {
    let this = env::current_exe().unwrap();
    let is_it = |path: &PathBuf| {
        let stem = path.file_name().and_then(|it| it.to_str()).unwrap_or_default();
        let hash = stem.strip_prefix(name).and_then(|rest| rest.strip_prefix('-'));
        hash.is_some_and(|hash| hash.len() == 16 && !hash.contains('.'))
    };
    let entries = fs::read_dir(this.parent().unwrap()).unwrap();
    let found = entries.map(|entry| entry.unwrap().path()).filter(is_it);
    let build = "Build it: cargo test -p wakeful --no-run";
    let newest = found.max_by_key(|path| changed(path));
    let newest = newest.unwrap_or_else(|| panic!("the test binary {name} is missing. {build}"));
    let is_new = changed(&newest) >= last_change_of_library(newest.parent().unwrap());
    assert!(is_new, "the test binary {name} is older than the library. {build}");
    newest
}

fn command(binary: &Path, seed: &str) -> Command {
    let mut command = Command::new(binary);
    // The folder in which cargo runs tests.
    command.current_dir(package()).env("WAKEFUL_SIM", seed).env("RUST_BACKTRACE", "0");
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// Reads a pipe to its end on a new thread.
fn read_all(mut pipe: impl Read + Send + 'static) -> mpsc::Receiver<String> {
    let (done, text) = mpsc::channel();
    thread::spawn(move || {
        let mut bytes = Vec::new();
        let _ = pipe.read_to_end(&mut bytes);
        let _ = done.send(String::from_utf8_lossy(&bytes).into_owned());
    });
    text
}

/// Waits for the end of the process, which is killed after `limit`. Returns whether it succeeded, and its
/// output.
fn finish(mut child: Child, limit: Duration) -> (bool, String) {
    let out = read_all(child.stdout.take().unwrap());
    let err = read_all(child.stderr.take().unwrap());
    // The end of the process closes the pipe.
    let in_time = out.recv_timeout(limit);
    if in_time.is_err() {
        child.kill().unwrap();
    }
    let succeeded = child.wait().unwrap().success() && in_time.is_ok();
    let text = in_time.unwrap_or_else(|_| out.recv().unwrap_or_default());
    (succeeded, text + &err.recv().unwrap_or_default())
}

/// Returns the binaries with their tests.
fn binaries() -> Vec<Binary> {
    let binary = |name: String| {
        let path = find_binary(&name);
        let list = Command::new(&path).arg("--list").output().unwrap();
        let list = String::from_utf8(list.stdout).unwrap();
        let tests = list.lines().filter_map(|line| line.strip_suffix(": test"));
        Binary { tests: tests.map(str::to_owned).collect(), name, path }
    };
    binary_names().into_iter().map(binary).collect()
}

/// Returns the tests that differ, by binary.
fn listed() -> BTreeMap<String, BTreeSet<String>> {
    let text = include_str!("../../../docs/SIM_PARITY.md");
    let mut listed = BTreeMap::<_, BTreeSet<_>>::new();
    for line in text.lines() {
        let Some(path) = line.strip_prefix("- `").and_then(|rest| rest.split('`').next()) else {
            continue;
        };
        let (binary, test) =
            path.split_once("::").expect("the name of a binary, and that of a test");
        let is_new = listed.entry(binary.to_owned()).or_default().insert(test.to_owned());
        assert!(is_new, "{path} is listed twice");
    }
    listed
}

/// Returns whether a listed test depends on threads or on real time, so that it may pass.
fn is_race(binary: &str, test: &str) -> bool {
    include_str!("../../../docs/SIM_PARITY.md")
        .contains(&format!("- `{binary}::{test}` (not always)\n"))
}

/// Runs all tests of a binary that are not listed. Returns a description of the failures.
fn run_unlisted(binary: &Binary, listed: &BTreeSet<String>, seed: &str) -> Option<String> {
    let mut command = command(&binary.path, seed);
    command.arg("--exact");
    for test in listed {
        command.args(["--skip", test]);
    }
    let (succeeded, text) = finish(command.spawn().unwrap(), LIMIT);
    let expected = binary.tests.len() - listed.len();
    let passed = text.lines().filter(|line| line.ends_with(" ... ok")).count();
    let is_right = succeeded && passed >= expected;
    (!is_right).then(|| {
        format!("WAKEFUL_SIM={seed} {}: {passed} of {expected} tests passed\n{text}", binary.name)
    })
}

/// Runs a listed test under each seed until it fails. Returns an error if it passes every time.
fn run_listed(binary: &Binary, test: &str) -> Option<String> {
    let passes = |seed: &&str| {
        let child = command(&binary.path, seed).args(["--exact", test]).spawn().unwrap();
        finish(child, HANGS_AFTER).0
    };
    let always = SEEDS.iter().all(passes);
    always
        .then(|| format!("{}::{test} is listed in docs/SIM_PARITY.md, but it passes", binary.name))
}

type Job<'a> = Box<dyn Fn() -> Option<String> + Send + Sync + 'a>;

/// Runs the jobs, several at once. Returns their failures.
fn work(jobs: &[Job<'_>]) -> Vec<String> {
    let (next, wrong) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| {
                while let Some(job) = jobs.get(next.fetch_add(1, Relaxed)) {
                    // Not under the lock, because then only one job could run at a time.
                    let found = job();
                    wrong.lock().unwrap().extend(found);
                }
            });
        }
    });
    wrong.into_inner().unwrap()
}

#[test]
fn the_tests_of_time_sync_and_net_pass_in_a_simulation() {
    let (binaries, listed) = (binaries(), listed());
    let none = BTreeSet::new();
    let of = |binary: &Binary| listed.get(&binary.name).unwrap_or(&none);
    for (name, tests) in &listed {
        let binary = binaries.iter().find(|binary| binary.name == *name);
        let known = binary.map_or(&none, |binary| &binary.tests);
        let unknown: Vec<_> = tests.difference(known).collect();
        assert!(
            unknown.is_empty(),
            "docs/SIM_PARITY.md lists unknown tests of {name}: {unknown:?}"
        );
    }
    let mut jobs: Vec<Job<'_>> = Vec::new();
    for binary in &binaries {
        let listed = of(binary);
        for seed in SEEDS {
            jobs.push(Box::new(move || run_unlisted(binary, listed, seed)));
        }
        for test in listed.iter().filter(|test| !is_race(&binary.name, test)) {
            jobs.push(Box::new(move || run_listed(binary, test)));
        }
    }
    let wrong = work(&jobs);
    let tests: usize = binaries.iter().map(|binary| binary.tests.len()).sum();
    let differ: usize = listed.values().map(BTreeSet::len).sum();
    println!(
        "{tests} tests, {} alike under {} seeds, {differ} differ",
        tests - differ,
        SEEDS.len()
    );
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Without this test, the suite would pass even if nothing were simulated.
#[test]
fn every_runtime_of_a_binary_is_simulated() {
    let binary = find_binary("time_sleep");
    let (succeeded, text) = finish(command(&binary, "no seed").spawn().unwrap(), LIMIT);
    let refused = text.matches("WAKEFUL_SIM: \"no seed\" is not a seed").count();
    assert!(!succeeded && refused > 10, "{text}");
}
