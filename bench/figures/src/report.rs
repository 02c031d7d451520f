//! The report: charts in `docs/bench`, one page of HTML, and the charts' part of `docs/BENCHMARKS.md`.

use std::fmt::Write;
use std::fs;
use std::path::Path;

use crate::charts::{Chart, draw_all};
use crate::records::{Record, newest, read_all};
use crate::svg::escape;
use crate::tables::{Table, application_figures, application_ratios, flavor_ratios};

/// The lines of `docs/BENCHMARKS.md` between which the charts stand.
const BEGIN: &str = "<!-- Written by `cargo run --release -- --report` in bench: begin -->";
const END: &str = "<!-- Written by `cargo run --release -- --report` in bench: end -->";
/// The chart that README shows is not repeated.
const IN_README: &str = "summary.svg";

const PAGE_STYLE: &str = "\
:root{color-scheme:light dark}\
body{font:15px/1.5 system-ui,sans-serif;max-width:1100px;margin:2rem auto;padding:0 1rem}\
svg{max-width:100%;height:auto}\
table{border-collapse:collapse;font-size:12px;margin:1rem 0}\
td,th{padding:.15rem .6rem;text-align:right;border-bottom:1px solid #8886}\
td:first-child,th:first-child{text-align:left}\
div{overflow-x:auto}";

/// Reads the records of this repository, and writes the report into its documents. Returns the files' names.
pub fn write() -> Result<Vec<String>, String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let records = read_all(&root.join("bench/records"))?;
    let charts = draw_all(&records);
    let benchmarks = root.join("docs/BENCHMARKS.md");
    let text = fs::read_to_string(&benchmarks)
        .map_err(|error| format!("{}: {error}", benchmarks.display()))?;
    let mut files: Vec<(String, String)> = charts
        .iter()
        .map(|chart| (format!("docs/bench/{}", chart.file), chart.svg.clone()))
        .collect();
    files.push(("docs/bench/report.html".into(), page(&records, &charts)));
    files.push(("docs/BENCHMARKS.md".into(), with_charts(&text, &markdown(&records, &charts))?));
    fs::create_dir_all(root.join("docs/bench")).map_err(|error| format!("docs/bench: {error}"))?;
    let mut names = Vec::new();
    for (name, text) in files {
        fs::write(root.join(&name), text).map_err(|error| format!("{name}: {error}"))?;
        names.push(name);
    }
    Ok(names)
}

/// Replaces what stands between the two marks.
fn with_charts(document: &str, charts: &str) -> Result<String, String> {
    let missing = || format!("docs/BENCHMARKS.md has lost its line {BEGIN} or {END}");
    let (before, rest) = document.split_once(BEGIN).ok_or_else(missing)?;
    let (_, after) = rest.split_once(END).ok_or_else(missing)?;
    Ok(format!("{before}{BEGIN}\n\n{charts}\n{END}{after}"))
}

fn markdown(records: &[Record], charts: &[Chart]) -> String {
    let mut text = String::new();
    for chart in charts.iter().filter(|chart| chart.file != IN_README) {
        let _ = writeln!(text, "![{}](bench/{})\n", chart.title, chart.file);
    }
    if let Some(record) = newest(records, "apps") {
        let _ = writeln!(
            text,
            "Applications on the multi-thread runtime, as ratios to tokio. Less is better, except for"
        );
        let _ = writeln!(text, "requests per second. {}.\n", record.source());
        text.push_str(&markdown_table(&application_ratios(record)));
        text.push('\n');
    }
    let _ = writeln!(
        text,
        "[The page with all charts](bench/report.html) has the figures behind them."
    );
    text
}

fn markdown_table(table: &Table) -> String {
    let mut text = String::new();
    for (number, line) in table.iter().enumerate() {
        let _ = writeln!(text, "| {} |", line.join(" | "));
        if number == 0 {
            let marks: Vec<_> =
                (0..line.len()).map(|column| if column < 2 { "---" } else { "---:" }).collect();
            let _ = writeln!(text, "| {} |", marks.join(" | "));
        }
    }
    text
}

fn page(records: &[Record], charts: &[Chart]) -> String {
    let mut body = String::new();
    for chart in charts {
        let _ = writeln!(body, "<p>{}</p>", chart.svg.trim_end());
    }
    if let Some(record) = newest(records, "apps") {
        body.push_str(&section(
            "Applications: ratios to tokio",
            record,
            &application_ratios(record),
        ));
        body.push_str(&section("Applications: medians", record, &application_figures(record)));
    }
    for kind in ["idle", "files", "sockets-one-core", "sockets-two-cores"] {
        if let Some(record) = newest(records, kind) {
            let title = format!("Ratios to tokio: {kind}");
            body.push_str(&section(&title, record, &flavor_ratios(record)));
        }
    }
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\"/>\n\
         <title>wakeful: benchmarks</title>\n<style>{PAGE_STYLE}</style>\n</head>\n<body>\n\
         <h1>wakeful beside tokio</h1>\n{body}</body>\n</html>\n"
    )
}

fn section(title: &str, record: &Record, table: &Table) -> String {
    let mut text = format!("<h2>{}</h2>\n<p>{}</p>\n", escape(title), escape(&record.source()));
    text.push_str("<div><table>\n");
    for (number, line) in table.iter().enumerate() {
        let tag = if number == 0 { "th" } else { "td" };
        let cells: Vec<_> =
            line.iter().map(|cell| format!("<{tag}>{}</{tag}>", escape(cell))).collect();
        let _ = writeln!(text, "<tr>{}</tr>", cells.concat());
    }
    text.push_str("</table></div>\n");
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::charts::tests::apps_record;
    use crate::svg::expect_balanced;

    #[test]
    fn the_page_has_all_charts_and_tables() {
        let records = [apps_record()];
        let charts = draw_all(&records);
        let page = page(&records, &charts);
        expect_balanced(&page);
        assert_eq!(page.matches("<svg").count(), charts.len());
        assert!(page.contains("<td>hello</td>"));
    }

    #[test]
    fn only_the_part_between_the_marks_is_replaced() {
        let document = format!("# Title\n\n{BEGIN}\n\nold\n\n{END}\n\nrest\n");
        let once = with_charts(&document, "new\n").expect("the marks are there");
        assert_eq!(once, format!("# Title\n\n{BEGIN}\n\nnew\n\n{END}\n\nrest\n"));
        assert_eq!(with_charts(&once, "new\n"), Ok(once.clone()), "writing twice changes nothing");
        assert!(with_charts("# Title\n", "new").unwrap_err().contains("begin"));
    }

    #[test]
    fn the_document_shows_each_chart_and_the_ratios() {
        let records = [apps_record()];
        let text = markdown(&records, &draw_all(&records));
        assert_eq!(text.matches("![").count(), 4);
        assert!(text.contains("| hello | axum: hello | 0.50 | 0.50 |"), "{text}");
    }
}
