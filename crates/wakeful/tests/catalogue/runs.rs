//! Starts all runs, several at a time, and tells which went wrong.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Output};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use super::child::FLAG;

/// How many runs go on at the same time: most of them wait.
const AT_ONCE: usize = 64;

/// The seconds after which a run counts as hanging.
const LIMIT: &str = "60";

/// The arguments of one run.
#[derive(Clone)]
struct Run {
    name: &'static str,
    flavor: &'static str,
    setting: &'static str,
    twin: &'static str,
    busy: bool,
}

impl Run {
    fn start(&self, limit: &str) -> Output {
        let exe = std::env::current_exe().expect("the catalogue has a file");
        let mut command = Command::new(exe);
        for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("WAKEFUL_")) {
            command.env_remove(name);
        }
        // To print a panic with its stack can take longer than a poll should.
        command.env("RUST_BACKTRACE", "0");
        let args = [FLAG, self.name, self.flavor, self.setting, self.twin, limit];
        command.args(args).output().expect("the catalogue can be started")
    }
}

const FLAVORS: [&str; 2] = ["current_thread", "multi_thread"];
const SETTINGS: [&str; 2] = ["alone", "service"];

fn all_runs(rounds: usize) -> Vec<Run> {
    let mut runs = Vec::new();
    let grid = || FLAVORS.into_iter().flat_map(|flavor| SETTINGS.map(|setting| (flavor, setting)));
    // The longest ones come first.
    for innocent in super::innocents() {
        let (name, busy) = (innocent.name, innocent.busy);
        for (flavor, setting) in grid() {
            if !innocent.only_multi_thread || flavor == "multi_thread" {
                let run = Run { name, flavor, setting, twin: "innocent", busy };
                runs.extend(std::iter::repeat_n(run, rounds));
            }
        }
    }
    for bug in super::bugs() {
        let (name, setting) = (bug.name, bug.setting);
        for (flavor, set) in grid() {
            let fits = match flavor {
                "current_thread" => setting.current_thread,
                _ => setting.multi_thread,
            };
            if !fits {
                continue;
            }
            let run = Run { name, flavor, setting: set, twin: "buggy", busy: setting.busy };
            if set == "alone" || setting.service {
                runs.push(run.clone());
            }
            let fixed = Run { twin: "fixed", busy: false, ..run };
            runs.extend(std::iter::repeat_n(fixed, rounds));
        }
    }
    runs
}

/// Runs all programs whose names contain one of `args`, or all; with `--correct`, only those without a bug.
pub fn main(args: &[String]) {
    let wanted: Vec<&str> =
        args.iter().map(String::as_str).filter(|arg| !arg.starts_with('-')).collect();
    let has = |option: &str| args.iter().any(|arg| arg == option);
    let number = |name, default: usize| {
        std::env::var(name).ok().map_or(default, |text| text.parse().expect("it is a number"))
    };
    let limit = std::env::var("CATALOGUE_LIMIT").unwrap_or_else(|_| LIMIT.to_owned());
    let mut names: Vec<_> = super::bugs().iter().map(|bug| bug.name).collect();
    names.extend(super::innocents().iter().map(|innocent| innocent.name));
    names.sort_unstable();
    assert!(names.is_sorted_by(|one, next| one != next), "two programs have one name");
    let mut runs = all_runs(number("CATALOGUE_ROUNDS", 1));
    runs.retain(|run| wanted.is_empty() || wanted.iter().any(|word| run.name.contains(word)));
    if has("--correct") {
        runs.retain(|run| run.twin != "buggy");
    }
    let (busy, waiting): (Vec<_>, Vec<_>) = runs.into_iter().partition(|run| run.busy);
    let started = Instant::now();
    let count = busy.len() + waiting.len();
    let mut outcome = Outcome::default();
    perform(waiting, AT_ONCE, &limit, has("--show"), &mut outcome);
    perform(busy, 2, &limit, has("--show"), &mut outcome);
    let Outcome { mut failed, reports } = outcome;
    failed.sort_unstable();
    let took = started.elapsed().as_secs_f64();
    println!("catalogue: {count} runs, {} failed, in {took:.1} s", failed.len());
    if has("--correct") {
        reports.iter().for_each(|(report, runs)| println!("  reported in {runs} runs: {report}"));
    }
    failed.iter().for_each(|name| println!("  failed: {name}"));
    assert!(failed.is_empty(), "{} of {count} runs failed", failed.len());
}

/// What all runs came to.
#[derive(Default)]
struct Outcome {
    /// The runs that went wrong.
    failed: Vec<String>,
    /// How many runs had a report of this program, kind and certainty.
    reports: BTreeMap<String, usize>,
}

/// Performs the runs, `at_once` at a time, and adds them to `outcome`.
fn perform(runs: Vec<Run>, at_once: usize, limit: &str, show: bool, outcome: &mut Outcome) {
    let queue = Mutex::new(VecDeque::from(runs));
    let outcome = Mutex::new(outcome);
    let next = || queue.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
    thread::scope(|scope| {
        for _ in 0..at_once {
            scope.spawn(|| {
                while let Some(run) = next() {
                    let started = Instant::now();
                    let output = run.start(limit);
                    let took = started.elapsed();
                    let Run { name, flavor, setting, twin, .. } = &run;
                    let title = format!("{name} ({twin}, {flavor}, {setting})");
                    if show || !output.status.success() {
                        print(&title, &output, took);
                    }
                    let mut outcome = outcome.lock().unwrap();
                    for kind in kinds(&output) {
                        *outcome.reports.entry(format!("{name} ({twin}): {kind}")).or_default() +=
                            1;
                    }
                    if !output.status.success() {
                        outcome.failed.push(title);
                    }
                }
            });
        }
    });
}

/// Returns the kinds of the reports that a run printed, each with its certainty.
fn kinds(output: &Output) -> BTreeSet<String> {
    let text = String::from_utf8_lossy(&output.stdout);
    let kind = |line: &str| {
        let (kind, rest) = line.split_once(" (")?;
        let (certainty, _) = rest.split_once("): ")?;
        let is_report = ["proven", "suspected"].contains(&certainty);
        is_report.then(|| format!("{kind} ({certainty})"))
    };
    text.lines().filter_map(kind).collect()
}

fn print(title: &str, output: &Output, took: Duration) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
    let end = match output.status.signal() {
        Some(libc::SIGALRM) => "NOTHING TO THE END OF THE TIME LIMIT".to_owned(),
        _ => output.status.to_string(),
    };
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    println!("── {title}: {end}, {took:.1?}\n{out}\n{err}");
}
