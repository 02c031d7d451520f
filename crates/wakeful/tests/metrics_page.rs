//! Metrics as a page for Prometheus, and as lines for a person.

use std::time::Duration;

use wakeful::runtime::Builder;
use wakeful::sync::mpsc;
use wakeful::task::yield_now;

#[test]
fn what_is_counted_is_on_the_page() {
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
        // Two that wake each other, on the worker where they are.
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
        wakeful::time::sleep(Duration::from_millis(1)).await;
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
    let text = metrics.to_string();
    assert!(
        text.contains("25 spawned") && text.contains("1 orphaned") && text.contains("worker 1:"),
        "{text}"
    );
}

/// Every line is a comment or a sample; buckets of a histogram only grow, and end with what is counted.
fn check_format(page: &str) {
    let mut last = 0.0;
    for line in page.lines() {
        if line.starts_with("# HELP wakeful_") || line.starts_with("# TYPE wakeful_") {
            last = 0.0;
            continue;
        }
        let (name, value) = line.rsplit_once(' ').expect("a name and a value");
        assert!(name.starts_with("wakeful_") && name.ends_with("\"}"), "{line}");
        let value: f64 = value.parse().expect(line);
        if name.contains("_bucket{") {
            assert!(value >= last, "{line}");
            last = value;
        } else if name.contains("_seconds_count{") {
            assert_eq!(value, last, "{line}");
        }
    }
}
