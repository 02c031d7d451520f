//! An idle program sleeps: no thread of the runtime wakes up on its own.
#![cfg(target_os = "linux")]

use std::collections::BTreeMap;
use std::fs;
use std::thread;
use std::time::Duration;

use wakeful::net::TcpListener;
use wakeful::runtime::Builder;

/// How often each of this process's threads that is called so has left the processor.
fn switches() -> BTreeMap<String, u64> {
    let mut switches = BTreeMap::new();
    for thread in fs::read_dir("/proc/self/task").unwrap() {
        let status = fs::read_to_string(thread.unwrap().path().join("status")).unwrap_or_default();
        let field = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name));
            line.map(|value| value.trim().to_owned())
        };
        let (Some(name), Some(number)) = (field("Name:"), field("Pid:")) else { continue };
        if name.starts_with("idle-") || name.starts_with("wakeful") {
            let count = |name| field(name).and_then(|count| count.parse::<u64>().ok()).unwrap_or(0);
            let left = count("voluntary_ctxt_switches:") + count("nonvoluntary_ctxt_switches:");
            switches.insert(format!("{name} {number}"), left);
        }
    }
    switches
}

#[test]
fn nothing_wakes_up_by_itself() {
    let mut builder = Builder::new_multi_thread();
    let rt = builder.worker_threads(2).enable_all().thread_name("idle-worker").build().unwrap();
    // Somebody waits for a connection, and somebody for the day after tomorrow.
    rt.spawn(async {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let _ = listener.accept().await;
    });
    rt.spawn(async { wakeful::time::sleep(Duration::from_secs(100_000)).await });
    rt.block_on(rt.spawn(async {})).unwrap();
    // The same on one thread.
    let (end, ended) = wakeful::sync::oneshot::channel::<()>();
    let one_thread = thread::Builder::new().name("idle-root".to_owned()).spawn(|| {
        let rt = Builder::new_current_thread().enable_all().build().unwrap();
        rt.spawn(async { wakeful::time::sleep(Duration::from_secs(100_000)).await });
        rt.block_on(async {
            wakeful::spawn(async {}).await.unwrap();
            ended.await.unwrap();
        });
    });
    // One whose first worker never gets a thread: neither its monitor nor the other worker stays awake for that.
    let start = || assert_ne!(wakeful::runtime::worker_index(), Some(0), "planted");
    let mut builder = Builder::new_multi_thread();
    builder.worker_threads(2).enable_all().thread_name("idle-lost").on_thread_start(start);
    let lost = builder.build().unwrap();
    lost.block_on(async { wakeful::time::sleep(Duration::from_millis(1)).await });
    lost.spawn(async { wakeful::time::sleep(Duration::from_secs(100_000)).await });
    // The monitor goes to sleep some time after everybody else; when it has, nothing moves any more.
    let mut before = switches();
    let mut still = 0;
    for _ in 0..100 {
        std::thread::sleep(Duration::from_millis(300)); // the time in which nothing is to happen
        let after = switches();
        still = if after == before { still + 1 } else { 0 };
        before = after;
        if still == 3 {
            break;
        }
    }
    assert_eq!(still, 3, "somebody wakes up again and again: {before:?}");
    let is_there = |name: &str| before.keys().any(|thread| thread.starts_with(name));
    for name in ["idle-worker", "wakeful-monitor", "idle-root", "wakeful-warden"] {
        assert!(is_there(name), "{name}: {before:?}");
    }
    end.send(()).unwrap();
    one_thread.unwrap().join().unwrap();
}
