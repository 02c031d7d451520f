//! The parent's side: runs every cell in a process of its own, rounds interleaved.
//!
//! A round goes through all rows. Within a row the peers run directly one after the other, and each
//! round starts with another peer. So a slow minute of the machine affects all peers of a row, and no
//! peer always runs after the same one.

use std::collections::BTreeMap;
use std::env;
use std::fs;
use std::io::Read;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use figures::choice::choose;
use serde_json::Value;

use crate::options::Options;
use crate::peers::Flavor;
use crate::rows::sockets::FIGURES;
use crate::rows::{Cell, Kind, Row, Unit};
use crate::sockets::Service;
use crate::sockets::measure::has_wrk;

/// A cell that takes longer is ended, and counts as failed.
const TIME_LIMIT: Duration = Duration::from_secs(60);
/// callgrind runs a program some fifty times slower.
const COUNTING_LIMIT: Duration = Duration::from_secs(600);

/// The results of a run.
pub struct Run<'a> {
    pub rounds: usize,
    pub instructions: bool,
    pub results: Vec<Outcome<'a>>,
}

/// The results of one cell in all rounds.
pub struct Outcome<'a> {
    pub row: &'a Row,
    pub peer: &'static str,
    pub flavor: Flavor,
    /// Per operation, in order of the rounds.
    pub samples: Vec<f64>,
    /// The other figures of a row about sockets, per request and in order of the rounds.
    pub more: BTreeMap<&'static str, Vec<f64>>,
    /// Why the cell failed. Later rounds leave it out.
    pub failure: Option<String>,
    /// The position of this peer in its row.
    place: usize,
}

pub fn compare<'a>(rows: &'a [Row], options: &Options) -> Result<Run<'a>, String> {
    let mut results = plan(rows, options)?;
    let rounds = if options.instructions { 1 } else { options.rounds };
    for round in 0..rounds {
        eprintln!("round {} of {rounds}, {} cells", round + 1, results.len());
        for index in order(&results, round) {
            let outcome = &mut results[index];
            // Bytes do not vary, so one round is enough.
            let known = outcome.row.unit == Unit::Bytes && !outcome.samples.is_empty();
            if outcome.failure.is_none() && !known {
                step(outcome, options.instructions);
            }
        }
    }
    Ok(Run { rounds, instructions: options.instructions, results })
}

/// Returns the selected cells, row by row.
fn plan<'a>(rows: &'a [Row], options: &Options) -> Result<Vec<Outcome<'a>>, String> {
    let row_names: Vec<_> = rows.iter().map(|row| row.name).collect();
    let row_names = choose("row", &options.rows, &row_names)?;
    let peer_names = choose("peer", &options.peers, &peer_names(rows))?;
    let mut outcomes = Vec::new();
    for row in rows.iter().filter(|row| row_names.contains(&row.name)) {
        if options.instructions && row.counted.is_none() {
            eprintln!("{} is left out: its instructions say nothing", row.name);
            continue;
        }
        if needs_wrk(row) && !has_wrk() {
            eprintln!("{} is left out: there is no wrk here (apt-get install wrk)", row.name);
            continue;
        }
        let cells = row.cells.iter().filter(|cell| peer_names.contains(&cell.peer));
        outcomes.extend(cells.enumerate().map(|(place, cell)| untried(row, cell, place)));
    }
    if outcomes.is_empty() {
        return Err("no peer asked for takes part in a row asked for; see --list".into());
    }
    Ok(outcomes)
}

fn needs_wrk(row: &Row) -> bool {
    let served = |cell: &Cell| match cell.kind {
        Kind::Served(setting) => setting.service == Service::Http,
        Kind::Here(_) => false,
    };
    row.cells.iter().any(served)
}

fn untried<'a>(row: &'a Row, cell: &Cell, place: usize) -> Outcome<'a> {
    Outcome {
        row,
        peer: cell.peer,
        flavor: cell.flavor,
        samples: Vec::new(),
        more: BTreeMap::new(),
        failure: None,
        place,
    }
}

fn peer_names(rows: &[Row]) -> Vec<&'static str> {
    let mut names = Vec::new();
    for cell in rows.iter().flat_map(|row| &row.cells) {
        if !names.contains(&cell.peer) {
            names.push(cell.peer);
        }
    }
    names
}

/// Returns the order of a round: rows in order, and the peers of each row rotated by `round`.
fn order(outcomes: &[Outcome<'_>], round: usize) -> Vec<usize> {
    let starts: Vec<usize> = (0..outcomes.len()).filter(|&i| outcomes[i].place == 0).collect();
    let mut indices = Vec::with_capacity(outcomes.len());
    for (nth, &start) in starts.iter().enumerate() {
        let end = starts.get(nth + 1).copied().unwrap_or(outcomes.len());
        let peers = end - start;
        indices.extend((0..peers).map(|step| start + (step + round) % peers));
    }
    indices
}

/// Runs one cell once, and records the result.
fn step(outcome: &mut Outcome<'_>, instructions: bool) {
    let figure = match outcome.row.counted {
        Some(batches) if instructions => count_instructions(outcome, batches),
        _ => time(outcome),
    };
    match figure {
        Ok(figure) => outcome.samples.push(figure),
        Err(reason) => {
            eprintln!("FAILED {} {}: {reason}", outcome.row.name, outcome.peer);
            outcome.failure = Some(reason);
        }
    }
}

fn time(outcome: &mut Outcome<'_>) -> Result<f64, String> {
    let mut command = Command::new(this_binary()?);
    command.args(["--cell", outcome.row.name, outcome.peer]);
    let said = finish(command, TIME_LIMIT)?;
    let line = serde_json::from_str::<Value>(&said.stdout).unwrap_or_default();
    let number = |key: &str| line.get(key).and_then(Value::as_f64);
    for (key, ..) in FIGURES {
        if let Some(figure) = number(key) {
            outcome.more.entry(key).or_default().push(figure);
        }
    }
    let key = outcome.row.unit.key();
    number(key).ok_or_else(|| format!("no {key} in what it printed: {:?}", said.stdout))
}

/// Counts twice and takes the difference, which cancels out the start of the process.
fn count_instructions(outcome: &Outcome<'_>, (few, more): (u64, u64)) -> Result<f64, String> {
    let difference = collected(outcome, more)? - collected(outcome, few)?;
    Ok(difference / ((more - few) * outcome.row.ops_per_batch) as f64)
}

fn collected(outcome: &Outcome<'_>, batches: u64) -> Result<f64, String> {
    let profile = env::temp_dir().join(format!("wakeful-bench-{}.callgrind", std::process::id()));
    let mut command = Command::new("valgrind");
    command
        // With fair scheduling, a spinning thread does not delay the others.
        .args(["--tool=callgrind", "--fair-sched=try"])
        .arg(format!("--callgrind-out-file={}", profile.display()))
        .arg(this_binary()?)
        .args(["--cell", outcome.row.name, outcome.peer])
        .args(["--batches", &batches.to_string()]);
    let said = finish(command, COUNTING_LIMIT);
    // The file may not exist. The count is in valgrind's output.
    let _ = fs::remove_file(&profile);
    let said = said?;
    said.stderr
        .lines()
        .find_map(|line| line.split_once("Collected :")?.1.trim().parse().ok())
        .ok_or_else(|| format!("callgrind gave no count: {}", last_line(&said.stderr)))
}

fn this_binary() -> Result<std::path::PathBuf, String> {
    env::current_exe().map_err(|error| format!("can't find this binary to run it again: {error}"))
}

/// The output of a child process.
struct Said {
    stdout: String,
    stderr: String,
}

/// Runs a child to its end, or ends it at the limit.
fn finish(mut command: Command, limit: Duration) -> Result<Said, String> {
    let program = command.get_program().to_string_lossy().into_owned();
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|error| format!("{program} doesn't start: {error}"))?;
    let stdout = read_all(child.stdout.take());
    let stderr = read_all(child.stderr.take());
    let in_time = stdout.recv_timeout(limit);
    if in_time.is_err() {
        end(&mut child);
    }
    let status = child.wait().map_err(|error| format!("can't wait for {program}: {error}"))?;
    let stderr = stderr.recv().unwrap_or_default();
    let Ok(stdout) = in_time else {
        return Err(format!("not done after {} s", limit.as_secs()));
    };
    if !status.success() {
        return Err(format!("{status}; {}", last_line(&stderr)));
    }
    Ok(Said { stdout, stderr })
}

fn end(child: &mut Child) {
    // An error means that the child has just ended.
    let _ = child.kill();
}

/// Reads a pipe on a thread of its own: the text comes when the child closes it.
fn read_all(pipe: Option<impl Read + Send + 'static>) -> mpsc::Receiver<String> {
    let (text, received) = mpsc::channel();
    let mut pipe = pipe.expect("asked for above");
    thread::spawn(move || {
        let mut bytes = Vec::new();
        // The text before an error is shown too.
        let _ = pipe.read_to_end(&mut bytes);
        // The receiver is dropped if the parent has given up.
        let _ = text.send(String::from_utf8_lossy(&bytes).into_owned());
    });
    received
}

/// Returns the message line of a panic, or the last line of the text.
fn last_line(text: &str) -> &str {
    let mut lines = text.lines().filter(|line| !line.trim().is_empty());
    let after_panic = text.split_once("panicked at ").and_then(|(_, rest)| rest.lines().nth(1));
    after_panic.or_else(|| lines.next_back()).unwrap_or("it said nothing")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rows;

    #[test]
    fn each_round_starts_with_the_next_peer() {
        let rows = rows::all();
        let options = Options {
            rows: vec!["spawn_join".into(), "yield_one".into()],
            peers: vec!["tokio".into(), "monoio".into()],
            ..Options::default()
        };
        let outcomes = plan(&rows, &options).expect("these take part");
        assert_eq!(order(&outcomes, 0), [0, 1, 2, 3, 4, 5]);
        assert_eq!(order(&outcomes, 1), [1, 2, 0, 4, 5, 3]);
        assert_eq!(order(&outcomes, 3), order(&outcomes, 0));
    }

    fn shell(script: &str, limit: Duration) -> Result<Said, String> {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        finish(command, limit)
    }

    #[test]
    fn a_child_that_fails_or_hangs_says_why() {
        let long = Duration::from_secs(60);
        let said = shell("echo out; echo err >&2", long).expect("it ends well");
        assert_eq!((said.stdout.as_str(), said.stderr.as_str()), ("out\n", "err\n"));
        let failed = shell("echo too bad >&2; exit 3", long).err().expect("it fails");
        assert!(failed.contains("too bad"), "{failed}");
        let hung = shell("exec sleep 60", Duration::ZERO).err().expect("it hangs");
        assert!(hung.contains("not done"), "{hung}");
    }
}
