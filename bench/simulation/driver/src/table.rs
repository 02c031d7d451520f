//! The tables, as Markdown.

use crate::run::{Cell, Heartbeats, MAX_RUNS};

fn thousands(number: f64) -> String {
    let digits = format!("{number:.0}");
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index) % 3 == 0 {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

fn runs(quantile: Option<u64>) -> String {
    let beyond = || format!("> {}", thousands(MAX_RUNS as f64));
    quantile.map_or_else(beyond, |runs| thousands(runs as f64))
}

fn line(cell: &Cell<'_>) -> String {
    let [median, p90, most] = [0.5, 0.9, 1.0].map(|share| runs(cell.quantile(share)));
    format!(
        "| {} | {} | {} | {median} | {p90} | {most} | {} | {} of {} |",
        cell.number,
        cell.bug,
        cell.tool.name,
        thousands(cell.rate()),
        cell.alarms,
        thousands(cell.twins as f64),
    )
}

pub fn print_bug(row: &[Cell<'_>]) {
    row.iter().for_each(|cell| eprintln!("{}", line(cell)));
}

pub fn bugs(cells: &[Cell<'_>]) -> String {
    let mut text = "| # | bug | tool | runs until found: median | p90 | most | runs per second | \
                    false alarms |\n| --- | --- | --- | --- | --- | --- | --- | --- |\n"
        .to_owned();
    for cell in cells {
        text += &line(cell);
        text.push('\n');
    }
    text
}

pub fn heartbeats(results: &[Heartbeats]) -> String {
    let mut text = "| hosts | tool | simulated seconds per second | 3,600 s take |\n\
                    | --- | --- | --- | --- |\n"
        .to_owned();
    for result in results {
        let rate = result.rate();
        let hour = 3_600.0 / rate;
        text += &format!(
            "| {} | {} | {} | {hour:.1} s |\n",
            result.hosts,
            result.tool,
            thousands(rate)
        );
    }
    text
}
