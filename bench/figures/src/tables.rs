//! The figures behind the charts of applications, as tables.

use crate::charts::{LOADS, application_rows};
use crate::records::{Figure, Record};

/// A table of text, whose first row is the head.
pub type Table = Vec<Vec<String>>;

/// Ratios of each application: peak, CPU time, p99 at each load, memory.
pub fn application_ratios(record: &Record) -> Table {
    let mut head = vec!["row".to_owned(), "work".into(), "requests/s".into(), "CPU time".into()];
    head.extend(LOADS.map(|load| format!("p99 at {:.0} %", load * 100.0)));
    head.push("memory".into());
    let mut table = vec![head];
    for row in application_rows(record) {
        let ratio = |load, key| {
            let bar = record.bar(row, "mt", load, Figure::Named(key));
            bar.map_or("–".into(), |bar| format!("{:.2}", bar.ratio))
        };
        let mut line = vec![row.to_owned(), record.what(row).unwrap_or_default().to_owned()];
        line.push(ratio(None, "per_s"));
        line.push(ratio(None, "cpu_ns_per_op"));
        line.extend(LOADS.map(|load| ratio(Some(load), "p99_us")));
        line.push(ratio(None, "rss_mib"));
        table.push(line);
    }
    table
}

/// Every median of a record of applications, with a line for each cell.
pub fn application_figures(record: &Record) -> Table {
    const KEYS: [(&str, &str); 12] = [
        ("offered_per_s", "offered/s"),
        ("per_s", "requests/s"),
        ("cpu_ns_per_op", "CPU ns/request"),
        ("cpu_ms_per_s", "CPU ms/s"),
        ("p50_us", "p50 µs"),
        ("p99_us", "p99 µs"),
        ("p999_us", "p99.9 µs"),
        ("lag_p99_us", "generator's lag p99 µs"),
        ("unanswered", "unanswered"),
        ("bytes_per_connection", "B/connection"),
        ("bytes_per_task", "B/task"),
        ("rss_mib", "resident MiB"),
    ];
    let mut head = vec!["row".to_owned(), "load".into(), "runtime".into()];
    head.extend(KEYS.map(|(_, name)| name.to_owned()));
    let mut table = vec![head];
    for row in record.rows() {
        for load in [None].into_iter().chain(LOADS.map(Some)) {
            for runtime in ["tokio", "wakeful"] {
                let Some(cell) = record.cell(row, runtime, "mt", load) else { continue };
                let load = load.map_or(String::new(), |load| format!("{:.0} %", load * 100.0));
                let mut line = vec![row.to_owned(), load, runtime.to_owned()];
                line.extend(KEYS.map(|(key, _)| {
                    cell[key].as_f64().map_or(String::new(), |figure| format!("{figure:.1}"))
                }));
                table.push(line);
            }
        }
    }
    table
}

/// Ratios of a record whose rows have two flavors.
pub fn flavor_ratios(record: &Record) -> Table {
    let head = ["row", "multi-thread", "rounds", "current-thread", "rounds"];
    let mut table = vec![head.map(String::from).to_vec()];
    for row in record.rows() {
        let mut line = vec![row.to_owned()];
        for flavor in ["mt", "ct"] {
            let bar = record.bar(row, flavor, None, Figure::Main);
            line.push(bar.map_or("–".into(), |bar| format!("{:.2}", bar.ratio)));
            let range = bar.and_then(|bar| bar.range);
            line.push(range.map_or(String::new(), |(low, high)| format!("{low:.2} to {high:.2}")));
        }
        table.push(line);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::charts::tests::apps_record;

    #[test]
    fn applications_have_a_line_of_ratios_each() {
        let table = application_ratios(&apps_record());
        assert_eq!(table.len(), 2, "the head and one application");
        assert_eq!(table[1][2..4], ["0.50", "0.50"]);
        assert!(table.iter().all(|line| line.len() == table[0].len()));
    }

    #[test]
    fn all_cells_have_a_line_of_figures() {
        let table = application_figures(&apps_record());
        // The head, a closed and four open loops on two runtimes, and another row on two.
        assert_eq!(table.len(), 1 + 5 * 2 + 2);
        assert!(table.iter().all(|line| line.len() == table[0].len()));
    }

    #[test]
    fn ratios_have_their_range() {
        let table = flavor_ratios(&apps_record());
        assert_eq!(table[1][..3], ["hello", "0.50", "0.50 to 0.50"]);
    }
}
