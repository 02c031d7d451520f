//! Compares the tables of `docs/METRICS.md` with the metrics that a runtime prints.

use std::collections::BTreeMap;

use wakeful::runtime::{Builder, Runtime};

const DOCUMENT: &str = include_str!("../../../docs/METRICS.md");

/// A metric: its type, and its labels with commas between them.
type Metrics = BTreeMap<String, (String, String)>;

/// Returns the rows of the document whose names begin with `prefix`.
fn documented(prefix: &str) -> Metrics {
    let mut metrics = Metrics::new();
    for row in DOCUMENT.lines().filter(|line| line.starts_with(&format!("| `{prefix}"))) {
        let cells: Vec<&str> = row.trim_matches('|').split(" | ").map(str::trim).collect();
        let [name, kind, unit, labels, meaning] = cells[..] else { panic!("five cells: {row}") };
        let name = name.trim_matches('`');
        assert!(!meaning.is_empty(), "{row}");
        check_unit(prefix, name, unit);
        let metric = (kind.to_owned(), labels.to_owned());
        assert_eq!(metrics.insert(name.to_owned(), metric), None, "two rows: {name}");
    }
    metrics
}

/// Holds a unit against the name, where the name says it.
fn check_unit(prefix: &str, name: &str, unit: &str) {
    match prefix {
        "wakeful_" => {
            let units = ["tasks", "timers", "descriptors", "threads", "closures", "polls"];
            let others = ["steals", "parks", "reports", "seconds"];
            assert!(units.contains(&unit) || others.contains(&unit), "{name}: {unit}");
            assert_eq!(name.contains("_seconds"), unit == "seconds", "{name}: {unit}");
        }
        _ => {
            assert!(["count", "microseconds", "ratio"].contains(&unit), "{name}: {unit}");
            assert_eq!(name.contains("_duration"), unit == "microseconds", "{name}: {unit}");
        }
    }
}

/// Returns the metrics of a page. Labels of buckets do not count.
fn printed(page: &str) -> Metrics {
    let mut metrics = Metrics::new();
    for head in page.lines().filter_map(|line| line.strip_prefix("# TYPE ")) {
        let (name, kind) = head.split_once(' ').expect("a name and a type");
        let sample = page
            .lines()
            .find(|line| {
                line.strip_prefix(name).is_some_and(|rest| {
                    rest.starts_with('{') || kind == "histogram" && rest.starts_with("_sum{")
                })
            })
            .unwrap_or_else(|| panic!("{name} has no sample"));
        let (_, labels) = sample.split_once('{').expect("labels");
        let (labels, _) = labels.split_once("} ").expect("a value");
        let labels = labels.split(',').map(|label| label.split_once('=').expect("a label").0);
        let metric = (kind.to_owned(), labels.collect::<Vec<_>>().join(", "));
        assert_eq!(metrics.insert(name.to_owned(), metric), None, "printed twice: {name}");
    }
    metrics
}

/// Returns a runtime of each flavor that has polled a task.
fn runtimes() -> [Runtime; 2] {
    let current = Builder::new_current_thread().name("names").build().unwrap();
    let multi = Builder::new_multi_thread().worker_threads(2).name("names").build().unwrap();
    [current, multi].map(|rt| {
        rt.block_on(async { wakeful::spawn(async {}).await.unwrap() });
        rt
    })
}

#[test]
fn the_names_of_wakeful_are_those_of_the_document() {
    for rt in runtimes() {
        assert_eq!(printed(&rt.metrics().prometheus()), documented("wakeful_"));
    }
}

#[test]
fn the_names_of_tokio_are_those_of_the_document() {
    for rt in runtimes() {
        assert_eq!(printed(&rt.metrics().prometheus_tokio()), documented("tokio_"));
    }
}

/// Returns the value of a metric with no label but the runtime's.
fn value(page: &str, name: &str) -> f64 {
    let start = format!("{name}{{runtime=\"names\"}} ");
    page.lines().find_map(|line| line.strip_prefix(&start)).expect(name).parse().unwrap()
}

#[test]
fn the_values_of_tokio_are_those_of_the_metrics() {
    for rt in runtimes() {
        let metrics = rt.metrics();
        let page = metrics.prometheus_tokio();
        assert_eq!(value(&page, "tokio_workers_count"), metrics.num_workers() as f64);
        assert_eq!(value(&page, "tokio_live_tasks_count"), 0.0);
        // A worker counts its polls before it parks, or the thread in `block_on` before it returns.
        let polls = |page: &str| value(page, "tokio_total_polls_count");
        let mut page = page;
        while polls(&page) < 1.0 {
            std::thread::yield_now();
            page = metrics.prometheus_tokio();
        }
        assert_eq!(polls(&page), 1.0);
        let busy = value(&page, "tokio_total_busy_duration");
        let workers = 0..metrics.num_workers();
        let now: f64 = workers
            .map(|worker| metrics.worker_total_busy_duration(worker).as_micros() as f64)
            .sum();
        assert!(busy <= now, "{busy} {now}");
    }
}
