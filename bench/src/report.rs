//! Formats a run: the table, the JSON, the record.

use std::fmt::Write;
use std::fs;

use figures::machine;
use figures::stats::{Latency, spread, three_decimals};
use serde_json::{Map, Value};

use crate::judge::{Verdict, latency, ratio, ratio_of, ratio_to_raw, verdict};
use crate::options::Options;
use crate::peers::Flavor;
use crate::rows::Row;
use crate::rows::sockets::FIGURES;
use crate::runner::{Outcome, Run};
use crate::sockets::server::RAW;

/// Crates whose versions a record names.
const PACKAGES: [&str; 14] = [
    "wakeful",
    "tokio",
    "smol",
    "async-executor",
    "futures",
    "monoio",
    "compio",
    "glommio",
    "async-channel",
    "flume",
    "kanal",
    "crossfire",
    "async-lock",
    "oneshot",
];

/// Prints the run, writes the record if one was asked for, and fails if a
/// cell failed.
pub fn publish(run: &Run<'_>, options: &Options) -> Result<(), String> {
    if options.json {
        print!("{}", to_json(run));
    } else {
        print!("{}{}{}", table(run), sockets_table(run), summary(run));
    }
    if let Some(file) = &options.record {
        fs::write(file, to_json(run))
            .map_err(|error| format!("can't write {}: {error}", file.display()))?;
    }
    match run.results.iter().filter(|outcome| outcome.failure.is_some()).count() {
        0 => Ok(()),
        failed => Err(format!("{failed} of {} cells failed", run.results.len())),
    }
}

/// Lists the rows, wakeful's targets and the peers.
pub fn list(rows: &[Row]) -> String {
    let mut text = String::new();
    for row in rows {
        let peers: Vec<_> = row.cells.iter().map(|cell| cell.peer).collect();
        let target = row.target;
        let at_most = target.at_most.map_or(String::new(), |limit| format!(", at most {limit}"));
        let _ = writeln!(text, "{}: {}", row.name, row.what);
        let _ =
            writeln!(text, "    target mt {:.2}, ct {:.2}{at_most}", target.multi, target.single);
        let _ = writeln!(text, "    {}", peers.join(" "));
    }
    text
}

fn table(run: &Run<'_>) -> String {
    let mut text = String::new();
    let (unit, range, target) = match run.instructions {
        true => ("instructions/op", "", ""),
        false => ("per op", "lowest to highest", "target"),
    };
    let line = format!(
        "{:<19} {:<24} {unit:>15}    {range:<23} {:>7}  {target}",
        "row", "peer", "x tokio"
    );
    let _ = writeln!(text, "{}", line.trim_end());
    let mut last_group = None;
    for (row, flavor) in groups(run) {
        if last_group.is_some_and(|last| last != row) {
            text.push('\n');
        }
        last_group = Some(row);
        let of_group = |outcome: &&Outcome<'_>| outcome.row.name == row && outcome.flavor == flavor;
        for outcome in run.results.iter().filter(of_group) {
            text.push_str(&table_line(run, outcome));
        }
    }
    text
}

/// Returns the rows in order, each with its multi-thread peers before its single-thread peers.
fn groups<'a>(run: &Run<'a>) -> Vec<(&'a str, Flavor)> {
    let mut groups = Vec::new();
    for outcome in &run.results {
        for flavor in [Flavor::Multi, Flavor::Single] {
            if !groups.contains(&(outcome.row.name, flavor)) {
                groups.push((outcome.row.name, flavor));
            }
        }
    }
    groups
}

fn table_line(run: &Run<'_>, outcome: &Outcome<'_>) -> String {
    let start = format!("{:<19} {:<24}", outcome.row.name, outcome.peer);
    let failure = outcome.failure.as_ref().map(|reason| format!("  FAILED: {reason}"));
    let Some(spread) = spread(&outcome.samples) else {
        return format!("{start}{}\n", failure.unwrap_or_default());
    };
    let unit = match outcome.row.unit {
        _ if run.instructions => "",
        unit => unit.symbol(),
    };
    let range = match outcome.samples.len() {
        1 => String::new(),
        _ => format!("{} to {}", figure(spread.min), figure(spread.max)),
    };
    let ratio = ratio(run, outcome).map_or("-".into(), |ratio| format!("{ratio:.2}"));
    let line = format!("{start} {:>15} {unit:<2} {range:<23} {ratio:>7}", figure(spread.median));
    let target = target_words(run, outcome);
    format!("{}{}\n", format!("{line}  {target}").trim_end(), failure.unwrap_or_default())
}

fn target_words(run: &Run<'_>, outcome: &Outcome<'_>) -> String {
    let Some(verdict) = verdict(run, outcome) else { return String::new() };
    let target = outcome.row.target;
    let mut limit = target.at_most.map_or(String::new(), |limit| format!(", at most {limit}"));
    if outcome.flavor == Flavor::Single
        && let (Some(most), Some(ratio)) = (target.of_raw, ratio_to_raw(run, outcome))
    {
        let _ = write!(limit, ", {ratio:.2} x {RAW} of {most:.2}");
    }
    let word = match verdict {
        Verdict::Met => "met",
        Verdict::Missed => "missed",
        Verdict::Behind => "BEHIND",
    };
    format!("{:.2}{limit} {word}", target.of(outcome.flavor))
}

/// Formats a value with three or four significant digits.
fn figure(value: f64) -> String {
    if value < 100.0 { format!("{value:.1}") } else { format!("{value:.0}") }
}

/// The other figures of rows about sockets, each with its multiple of tokio's.
fn sockets_table(run: &Run<'_>) -> String {
    let mut text = String::new();
    let mut last_row = None;
    for (row, flavor) in groups(run) {
        let of_group = |outcome: &&Outcome<'_>| outcome.row.name == row && outcome.flavor == flavor;
        for outcome in
            run.results.iter().filter(of_group).filter(|outcome| !outcome.more.is_empty())
        {
            if last_row.is_none() {
                let names = FIGURES.map(|(_, name, _)| format!("{name:>16}        "));
                let _ =
                    writeln!(text, "\n{:<19} {:<14}{}", "row", "peer", names.concat().trim_end());
            } else if last_row != Some(row) {
                text.push('\n');
            }
            last_row = Some(row);
            let cells = FIGURES.map(|(key, ..)| socket_cell(run, outcome, key));
            let line = format!("{row:<19} {:<14}{}", outcome.peer, cells.concat());
            let _ = writeln!(text, "{}", line.trim_end());
        }
    }
    text
}

/// Formats one figure and its multiple of tokio's, with a mark if it is above tokio's and must not
/// be.
fn socket_cell(run: &Run<'_>, outcome: &Outcome<'_>, key: &str) -> String {
    let Some(spread) = outcome.more.get(key).and_then(|samples| spread(samples)) else {
        return format!("{:>24}", "-");
    };
    let mark = match latency(run, outcome, key) {
        Some(Latency::Above) => '!',
        Some(Latency::Unclear) => '?',
        Some(Latency::Met) | None => ' ',
    };
    let ratio = ratio_of(run, outcome, key).map_or(String::new(), |ratio| format!("{ratio:.2}"));
    format!("{:>16} {ratio:>6}{mark}", figure(spread.median))
}

/// Says how many targets are met, and lists the others.
fn summary(run: &Run<'_>) -> String {
    let judged: Vec<_> =
        run.results.iter().filter_map(|outcome| Some((outcome, verdict(run, outcome)?))).collect();
    if judged.is_empty() {
        return String::new();
    }
    let named = |wanted: Verdict| -> Vec<String> {
        let hits = judged.iter().filter(|(_, verdict)| *verdict == wanted);
        hits.map(|(outcome, _)| format!("{} {}", outcome.row.name, outcome.flavor)).collect()
    };
    let (missed, behind) = (named(Verdict::Missed), named(Verdict::Behind));
    let mut text = format!("\ntargets met: {} of {}\n", named(Verdict::Met).len(), judged.len());
    for (what, names) in [("missed", missed), ("behind tokio", behind)] {
        if !names.is_empty() {
            let _ = writeln!(text, "{what}: {}", names.join(", "));
        }
    }
    text.push_str(&latency_summary(run));
    text
}

/// Says how many latencies are not above tokio's, and lists the others.
fn latency_summary(run: &Run<'_>) -> String {
    let mut judged = Vec::new();
    for outcome in &run.results {
        for (key, name, _) in FIGURES {
            if let Some(latency) = latency(run, outcome, key) {
                let quantile = name.trim_end_matches(" us");
                let name = format!("{} {} {quantile}", outcome.row.name, outcome.flavor);
                judged.push((name, latency));
            }
        }
    }
    if judged.is_empty() {
        return String::new();
    }
    let named = |wanted: Latency| -> Vec<&str> {
        let hits = judged.iter().filter(|(_, latency)| *latency == wanted);
        hits.map(|(name, _)| name.as_str()).collect()
    };
    let met = named(Latency::Met).len();
    let mut text = format!("latencies not above tokio's: {met} of {}\n", judged.len());
    let kinds = [(Latency::Unclear, "above, within the wobble"), (Latency::Above, "above")];
    for (kind, what) in kinds {
        let names = named(kind);
        if !names.is_empty() {
            let _ = writeln!(text, "{what}: {}", names.join(", "));
        }
    }
    text
}

/// JSON with one cell a line, so that two records compare line by line.
fn to_json(run: &Run<'_>) -> String {
    let cells: Vec<_> =
        run.results.iter().map(|outcome| format!("    {}", cell_json(run, outcome))).collect();
    format!(
        "{{\n  \"machine\": {},\n  \"rounds\": {},\n  \"cells\": [\n{}\n  ]\n}}\n",
        machine::describe(include_str!("../Cargo.lock"), &PACKAGES),
        run.rounds,
        cells.join(",\n")
    )
}

fn cell_json(run: &Run<'_>, outcome: &Outcome<'_>) -> Value {
    let key = match outcome.row.unit {
        _ if run.instructions => "instructions_per_op",
        unit => unit.key(),
    };
    let mut cell = Map::new();
    cell.insert("row".into(), outcome.row.name.into());
    cell.insert("peer".into(), outcome.peer.into());
    cell.insert("flavor".into(), outcome.flavor.to_string().into());
    if let Some(spread) = spread(&outcome.samples) {
        cell.insert(key.into(), three_decimals(spread.median));
    }
    let samples = outcome.samples.iter().copied().map(three_decimals).collect::<Vec<_>>();
    cell.insert("samples".into(), samples.into());
    for (key, samples) in &outcome.more {
        if let Some(spread) = spread(samples) {
            cell.insert((*key).into(), three_decimals(spread.median));
        }
        if FIGURES.iter().any(|(figure, _, is_judged)| figure == key && *is_judged) {
            let samples = samples.iter().copied().map(three_decimals).collect::<Vec<_>>();
            cell.insert(format!("{key}_samples"), samples.into());
        }
        if let Some(latency) = latency(run, outcome, key) {
            cell.insert(format!("{key}_verdict"), latency.word().into());
        }
    }
    if let Some(ratio) = ratio_to_raw(run, outcome) {
        cell.insert("ratio_to_epoll".into(), three_decimals(ratio));
    }
    if let Some(ratio) = ratio(run, outcome) {
        cell.insert("ratio_to_tokio".into(), three_decimals(ratio));
    }
    if verdict(run, outcome).is_some() {
        cell.insert("target".into(), three_decimals(outcome.row.target.of(outcome.flavor)));
    }
    if let Some(reason) = &outcome.failure {
        cell.insert("failure".into(), reason.as_str().into());
    }
    cell.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_keep_what_matters() {
        assert_eq!(figure(7.25), "7.2");
        assert_eq!(figure(57_712.4), "57712");
    }
}
