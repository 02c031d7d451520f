//! Confirms a failure in new processes.
//!
//! Starts the program again with the file of choices and [`CONFIRM`]. The new process makes one run,
//! writes its hash to a file and exits. It has other addresses, so a run that depends on addresses has
//! another hash.

use super::settings::{CONFIRM, REPLAY};
use crate::sim::api::Outcome;
use std::path::Path;
use std::process::{Command, Stdio};

/// The number of processes in which a failure is confirmed.
pub(super) const PROCESSES: u32 = 3;

/// The answers of the new processes.
#[derive(Clone, Debug)]
pub(super) struct Confirmed {
    /// The number of runs that were equal to the run of this process.
    pub(super) equal: u32,
    /// The answer of a process whose run was not equal.
    pub(super) other: Option<String>,
}

/// Repeats the run of `choices` in new processes, and compares their runs with `outcome`.
pub(super) fn confirm(test: &str, choices: &Path, outcome: &Outcome) -> Confirmed {
    let mut confirmed = Confirmed { equal: 0, other: None };
    let expected = answer_text(outcome);
    for _ in 0..PROCESSES {
        let answer = choices.with_extension(format!("{}.answer", std::process::id()));
        let started = command(test, choices, &answer).and_then(|mut command| command.status());
        match started.and_then(|_| std::fs::read_to_string(&answer)) {
            Ok(text) if text == expected => confirmed.equal += 1,
            Ok(text) => confirmed.other = Some(text),
            Err(error) => confirmed.other = Some(format!("no answer: {error}")),
        }
        let _ = std::fs::remove_file(&answer);
    }
    confirmed
}

/// Returns the command that starts this program again, with this test alone.
fn command(test: &str, choices: &Path, answer: &Path) -> std::io::Result<Command> {
    let mut command = Command::new(std::env::current_exe()?);
    if is_test_program() {
        // The harness names the thread of a test after the test.
        match std::thread::current().name() {
            Some("main") | None => command.arg(test),
            Some(name) => command.args([name, "--exact"]),
        };
        command.args(["--include-ignored", "--test-threads=1"]);
    } else {
        command.args(std::env::args_os().skip(1));
    }
    command.env(REPLAY, choices).env(CONFIRM, answer);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    Ok(command)
}

/// Returns whether cargo has built this program from tests.
pub(super) fn is_test_program() -> bool {
    let program = std::env::current_exe().unwrap_or_default();
    program.parent().is_some_and(|folder| folder.ends_with("deps"))
}

/// Writes the answer of a confirming process, and exits.
pub(super) fn answer(path: &Path, outcome: &Outcome) -> ! {
    let is_written = std::fs::write(path, answer_text(outcome)).is_ok();
    std::process::exit(i32::from(!is_written));
}

fn answer_text(outcome: &Outcome) -> String {
    let failure = outcome.failure().map_or("no failure".to_owned(), |kind| kind.to_string());
    format!("{failure}, hash {:016x}", outcome.hash())
}
