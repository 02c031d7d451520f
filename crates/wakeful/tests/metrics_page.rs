//! Metrics in the Prometheus text format, and as readable lines.

use std::time::Duration;

use wakeful::runtime::{Builder, Handle};
use wakeful::sync::mpsc;
use wakeful::task::yield_now;

mod support {
    pub mod runtimes;
}
use support::runtimes::bound_this_binary;

#[test]
fn every_counter_is_on_the_page() {
    bound_this_binary();
    let mut builder = Builder::new_multi_thread();
    builder.worker_threads(2).enable_all().name("shop").on_report(|_| {});
    let rt = builder.build().unwrap();
    rt.block_on(async {
        let tasks: Vec<_> = (0..20)
            .map(|_| {
                wakeful::spawn(async {
                    for _ in 0..200 {
                        yield_now().await;
                    }
                })
            })
            .collect();
        for task in tasks {
            task.await.unwrap();
        }
        // Two tasks that wake each other, on one worker.
        let (tx, mut rx) = mpsc::channel::<u32>(1);
        let (back, mut forth) = mpsc::channel::<u32>(1);
        let echo = wakeful::spawn(async move {
            while let Some(n) = rx.recv().await {
                back.send(n).await.unwrap();
            }
        });
        let caller = wakeful::spawn(async move {
            for n in 0..500 {
                tx.send(n).await.unwrap();
                assert_eq!(forth.recv().await, Some(n));
            }
        });
        caller.await.unwrap();
        echo.await.unwrap();
        let unlucky = wakeful::spawn(async { panic!("as planned") });
        assert!(unlucky.await.unwrap_err().is_panic());
        wakeful::spawn(std::future::pending::<()>());
        wakeful::task::spawn_blocking(|| ()).await.unwrap();
        // A worker polls the orphan, and reports it.
        let metrics = Handle::current().metrics();
        while metrics.reports().iter().all(|(_, count)| *count == 0) {
            yield_now().await;
        }
    });
    let metrics = rt.metrics();
    let counts = (
        metrics.spawned_tasks(),
        metrics.finished_tasks(),
        metrics.panicked_tasks(),
        metrics.orphaned_tasks(),
    );
    assert_eq!(counts, (25, 24, 1, 1));
    let polls: u64 = (0..2).map(|worker| metrics.worker_poll_count(worker)).sum();
    assert!((3_000..12_000).contains(&polls), "{polls}");
    let times = metrics.poll_times();
    assert!(
        times.count() > 1_000 && times.p50() <= times.p99() && times.p99() <= times.max(),
        "{times:?}"
    );
    assert!(times.sum() > Duration::ZERO);
    let waits = metrics.wake_to_poll_times();
    assert!(waits.count() > 0 && waits.max() > Duration::ZERO, "{waits:?}");
    assert_eq!(metrics.reports().iter().find(|(kind, _)| *kind == "orphan"), Some(&("orphan", 1)));

    let page = metrics.prometheus();
    for line in [
        "# TYPE wakeful_tasks_spawned_total counter",
        "wakeful_tasks_spawned_total{runtime=\"shop\"} 25",
        "wakeful_tasks_panicked_total{runtime=\"shop\"} 1",
        "wakeful_reports_total{runtime=\"shop\",kind=\"orphan\"} 1",
        "# TYPE wakeful_poll_seconds histogram",
    ] {
        assert!(page.lines().any(|other| other == line), "{line}\n{page}");
    }
    check_format(&page);
    let ends: Vec<f64> = page
        .lines()
        .filter_map(|line| {
            let labels = line.strip_prefix("wakeful_poll_seconds_bucket{")?;
            let (_, le) = labels.split_once(",le=\"")?;
            le.split_once('"')?.0.parse().ok()
        })
        .filter(|end: &f64| end.is_finite())
        .collect();
    assert_eq!((ends.len(), ends[0]), (25, 1024e-9), "from a microsecond on: {ends:?}");
    assert!(ends.windows(2).all(|pair| pair[1] == 2.0 * pair[0]), "they double: {ends:?}");
    assert!(ends[24] > 17.0, "{ends:?}");
    let text = metrics.to_string();
    assert!(
        text.contains("25 spawned") && text.contains("1 orphaned") && text.contains("worker 1:"),
        "{text}"
    );
}

/// Checks the page against the text exposition format. A family has its help and type once, before its samples, which
/// are adjacent. Names and labels have only allowed characters. Buckets only grow, and the last is the count.
fn check_format(page: &str) {
    assert!(page.ends_with('\n'));
    let (mut families, mut family, mut kind) = (Vec::new(), "", "");
    let (mut bucket, mut end, mut count) = (0.0, f64::MIN, None);
    for line in page.lines() {
        if let Some(help) = line.strip_prefix("# HELP ") {
            (family, _) = help.split_once(' ').expect("a name and a text");
            assert!(!families.contains(&family), "{family} stands together");
            families.push(family);
            assert!(family.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_'));
            (bucket, end, count) = (0.0, f64::MIN, None);
            continue;
        }
        if let Some(said) = line.strip_prefix("# TYPE ") {
            let (of, is) = said.split_once(' ').expect("a name and a type");
            assert_eq!(of, family, "{line}");
            assert!(["counter", "gauge", "histogram"].contains(&is), "{line}");
            assert_eq!(is == "counter", family.ends_with("_total"), "{line}");
            kind = is;
            continue;
        }
        let (name, rest) = line.split_once('{').expect("labels");
        let (labels, value) = rest.rsplit_once("} ").expect("a value");
        let value: f64 = value.parse().expect(line);
        assert!(value >= 0.0 && labels.starts_with("runtime=\""), "{line}");
        match (kind, name.strip_prefix(family).expect(line)) {
            ("histogram", "_bucket") => {
                let (_, le) = labels.rsplit_once(",le=\"").expect(line);
                let le = le.strip_suffix('"').expect(line);
                let le = if le == "+Inf" { f64::INFINITY } else { le.parse().expect(line) };
                assert!(value >= bucket && le > end, "{line}");
                (bucket, end) = (value, le);
            }
            ("histogram", "_sum") => assert_eq!(end, f64::INFINITY, "the last bucket: {line}"),
            ("histogram", "_count") => {
                assert_eq!(value, bucket, "{line}");
                assert_eq!(count.replace(value), None, "{line}");
            }
            ("counter" | "gauge", "") => {}
            other => panic!("{other:?}: {line}"),
        }
    }
    assert!(families.len() > 15, "{families:?}");
}

#[wakeful::test]
async fn a_runtime_of_a_macro_is_named_after_its_function() {
    let page = Handle::current().metrics().prometheus();
    let label = "runtime=\"a_runtime_of_a_macro_is_named_after_its_function\"";
    assert!(page.lines().all(|line| line.starts_with('#') || line.contains(label)), "{page}");
}

#[test]
fn runtimes_without_a_name_are_told_apart() {
    let label = |rt: &wakeful::runtime::Runtime| {
        let page = rt.metrics().prometheus();
        let line = page.lines().find(|line| line.starts_with("wakeful_tasks_alive{")).unwrap();
        line.to_owned()
    };
    let [one, two] = [(); 2].map(|()| Builder::new_current_thread().build().unwrap());
    assert_ne!(label(&one), label(&two));
    assert!(!label(&one).contains("runtime=\"\""), "{}", label(&one));
}

#[test]
fn a_name_is_escaped() {
    let mut builder = Builder::new_current_thread();
    let rt = builder.name("a \"b\"\n\\").build().unwrap();
    let page = rt.metrics().prometheus();
    assert!(page.contains(r#"wakeful_tasks_alive{runtime="a \"b\"\n\\"} 0"#), "{page}");
    check_format(&page);
}
