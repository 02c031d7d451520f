//! Rows of the tables, for the screen and for plain text.

use super::model::{Group, Runtime, Task, Worker};

/// The heading of the columns with sites.
pub const SITE_COLUMN: &str = "spawned at";

pub const TASK_COLUMNS: [&str; 8] =
    ["task", "state", "waiting", "age", "polls", "busy", "waits for", SITE_COLUMN];
pub const GROUP_COLUMNS: [&str; 9] = [
    "alive",
    "growth",
    "started",
    "busy",
    "poll p99",
    "wait p99",
    "last minute",
    "waits in",
    SITE_COLUMN,
];
pub const WORKER_COLUMNS: [&str; 9] =
    ["worker", "busy", "", "queue", "timers", "sources", "polls", "state", "task"];

/// The columns with numbers, which are aligned to the right.
pub const TASK_NUMBERS: &[usize] = &[2, 3, 4, 5];
pub const GROUP_NUMBERS: &[usize] = &[0, 1, 2, 3, 4, 5];
pub const WORKER_NUMBERS: &[usize] = &[1, 3, 4, 5, 6];

/// Returns a time with its unit, in about three digits.
pub fn duration(ms: f64) -> String {
    let seconds = ms / 1000.0;
    let whole = seconds as u64;
    match ms {
        ms if ms < 0.0005 => "0".to_owned(),
        ms if ms < 0.9995 => format!("{:.0} µs", ms * 1000.0),
        ms if ms < 9.95 => format!("{ms:.1} ms"),
        ms if ms < 999.5 => format!("{ms:.0} ms"),
        _ if seconds < 59.95 => format!("{seconds:.1} s"),
        _ if whole < 3600 => format!("{} m {:02} s", whole / 60, whole % 60),
        _ if whole < 86_400 => format!("{} h {:02} m", whole / 3600, whole / 60 % 60),
        _ => format!("{} d {:02} h", whole / 86_400, whole / 3600 % 24),
    }
}

/// Returns a number with commas between thousands.
pub fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (position, digit) in digits.chars().enumerate() {
        if position > 0 && (digits.len() - position).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Returns the last two parts of a path with line and column. The details have the whole path.
pub fn short_site(site: &str) -> &str {
    let mut slashes = site.rmatch_indices('/').map(|(at, _)| at + 1);
    slashes.nth(1).map_or(site, |start| &site[start..])
}

pub fn task_cells(task: &Task) -> [String; 8] {
    let wait = task.waiting_on();
    let holder = wait.and_then(|wait| wait.holders.iter().find_map(|holder| holder.task.as_ref()));
    let waits_for = match (wait, holder) {
        (Some(wait), Some(holder)) => format!("{}, held by {}", wait.kind, holder.label),
        (Some(wait), None) => format!("{} at {}", wait.kind, short_site(&wait.site)),
        (None, _) => String::new(),
    };
    [
        task.task.label.clone(),
        if task.is_orphan { "orphan".to_owned() } else { task.state.clone() },
        wait.map_or(String::new(), |wait| duration(wait.duration_ms)),
        duration(task.age_ms),
        count(task.polls),
        duration(task.busy_ms),
        waits_for,
        short_site(&task.task.spawned_at).to_owned(),
    ]
}

pub fn group_cells(group: &Group) -> [String; 9] {
    let waits =
        group.waits.iter().take(2).map(|(kind, number)| format!("{} {kind}", count(*number)));
    let time = |ms: Option<f64>| ms.map_or("-".to_owned(), duration);
    [
        count(group.alive),
        group.growth_per_min.map_or("-".to_owned(), |growth| format!("{growth:+.0}/min")),
        count(group.started),
        duration(group.busy_ms),
        time(group.poll_p99_us.map(|us| us / 1000.0)),
        time(group.wait_p99_ms),
        sparkline(&group.history, 15),
        waits.collect::<Vec<_>>().join(", "),
        short_site(&group.spawned_at).to_owned(),
    ]
}

pub fn worker_cells(worker: &Worker) -> [String; 9] {
    let share = worker.busy_share.unwrap_or_default();
    let state = match worker.for_ms {
        Some(time) => format!("{} for {}", worker.state, duration(time)),
        None => worker.state.clone(),
    };
    [
        format!("{}/{}", worker.runtime, worker.index),
        worker.busy_share.map_or("-".to_owned(), |share| format!("{:.0} %", share * 100.0)),
        bar(share, 10),
        count(worker.queued),
        count(worker.timers),
        count(worker.sources),
        count(worker.polls),
        state,
        worker.task.as_ref().map_or(String::new(), |task| task.label.clone()),
    ]
}

pub fn runtime_line(runtime: &Runtime) -> String {
    let name = if runtime.name.is_empty() { "" } else { " " };
    format!(
        "runtime {}{name}{}: {}, {} tasks alive, {} started, {} finished, {} queued, {} timers, {} sources, \
         {} blocking threads with {} jobs queued",
        runtime.id,
        runtime.name,
        runtime.flavor,
        count(runtime.alive),
        count(runtime.started),
        count(runtime.finished),
        count(runtime.queued),
        count(runtime.timers),
        count(runtime.sources),
        count(runtime.blocking_threads),
        count(runtime.blocking_queued),
    )
}

/// Draws a share as a bar of `width` characters.
fn bar(share: f64, width: usize) -> String {
    let full = (share.clamp(0.0, 1.0) * width as f64).round() as usize;
    format!("{}{}", "█".repeat(full), "░".repeat(width - full))
}

/// Draws numbers as columns, with the last `width * seconds` seconds in `width` characters.
fn sparkline(numbers: &[u64], width: usize) -> String {
    const STEPS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let most = numbers.iter().copied().max().unwrap_or(0).max(1);
    let per_column = numbers.len().div_ceil(width).max(1);
    let columns = numbers.chunks(per_column).map(|chunk| chunk.iter().copied().max().unwrap_or(0));
    columns.map(|number| STEPS[(number * 7 / most) as usize]).collect()
}

/// Writes rows as a text with aligned columns.
pub fn table<const N: usize>(
    columns: [&str; N],
    numbers: &[usize],
    rows: impl Iterator<Item = [String; N]>,
) -> String {
    let mut all = vec![columns.map(str::to_owned)];
    all.extend(rows);
    let width =
        |column: usize| all.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let widths: [usize; N] = std::array::from_fn(width);
    let mut text = String::new();
    for row in &all {
        let mut line = String::from(" ");
        for (column, cell) in row.iter().enumerate() {
            let width = widths[column];
            line.push_str(&match numbers.contains(&column) {
                true => format!(" {cell:>width$}"),
                false => format!(" {cell:<width$}"),
            });
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_units() {
        let times = [0.0, 0.03, 1.25, 29.9, 1234.0, 61_000.0, 7_500_000.0, 200_000_000.0];
        let expected =
            ["0", "30 µs", "1.2 ms", "30 ms", "1.2 s", "1 m 01 s", "2 h 05 m", "2 d 07 h"];
        assert_eq!(times.map(duration), expected);
    }

    #[test]
    fn numbers_and_sites_are_short() {
        assert_eq!([7, 1_000, 1_234_567].map(count), ["7", "1,000", "1,234,567"]);
        assert_eq!(short_site("/a/b/src/main.rs:1:2"), "src/main.rs:1:2");
        assert_eq!(short_site("src/main.rs:1:2"), "src/main.rs:1:2");
        assert_eq!((bar(0.5, 4), bar(7.0, 2)), ("██░░".into(), "██".into()));
        assert_eq!(sparkline(&[0, 1, 2, 4], 4), "▁▂▄█");
        assert_eq!(sparkline(&[1; 60], 15).chars().count(), 15);
    }

    #[test]
    fn columns_are_aligned() {
        let rows = [["a".to_owned(), "1".to_owned()], ["long".to_owned(), "12".to_owned()]];
        assert_eq!(table(["x", "n"], &[1], rows.into_iter()), "  x     n\n  a     1\n  long 12\n");
    }
}
