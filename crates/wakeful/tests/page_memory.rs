//! The memory of the live page is bounded, whatever number of tasks a program starts and ends.
//!
//! An hour of a busy program, in seconds that the test makes itself:
//!
//! ```sh
//! cargo test --release -p wakeful --test page_memory -- --ignored --nocapture
//! ```

use std::io::Write;
use std::net::TcpStream;
use std::sync::Arc;
use std::thread;

use wakeful::inspect::page::{self, Page};
use wakeful::runtime::{Builder, Runtime};
use wakeful::sync::{Barrier, Mutex, mpsc};
use wakeful::task::{self, JoinHandle, may_wait_forever, yield_now};

mod support {
    pub mod counting;
    pub mod page_client;
    pub mod runtimes;
}
use support::counting::Counting;
use support::page_client::Client;
use support::runtimes::bound_this_binary;

#[global_allocator]
static MEMORY: Counting = Counting::new();

/// Tasks that are alive at the same time.
const BATCH: u64 = 40;
/// How much more may be in use at the end than after the warm-up. A record that is kept for each
/// second or for each task takes more.
const SLACK: usize = 32 * 1024;
/// The seconds of the warm-up, which fills the rings of ten minutes.
const WARM_UP: u64 = 700;
/// How often the memory is read after the warm-up.
const PARTS: u64 = 5;
/// The answers that a browser asks for.
const PATHS: [&str; 8] =
    ["overview", "tasks", "tree", "groups", "ended?limit=500", "resources", "history", "metrics"];

/// A spawn at a site of its own.
type Spawn = fn(u64, &Arc<Shared>) -> JoinHandle<()>;

macro_rules! at {
    () => {
        |number, shared| spawn(number, shared)
    };
}

/// More sites than any table of the page has room for.
#[rustfmt::skip] // one site in a line would be 300 lines
const SITES: [Spawn; 300] = [
    at!(), at!(), at!(), at!(), at!(), at!(), at!(), at!(), at!(), at!(), at!(), at!(),
    at!(), at!(), at!(), at!(), at!(), at!(), at!(), at!(), at!(), at!(), at!(), at!(),
    at!(), at!(), at!(), at!(), at!(), at!(), at!(), at!(), at!(), at!(), at!(), at!(),
    at!(), at!(), at!(), at!(), at!(), at!(), at!(), at!(), at!(), at!(), at!(), at!(),
    at!(), at!(), at!(), at!(), at!(), at!(), at!(), at!(), at!(), at!(), at!(), at!(),
    at!(), at!(), at!(), at!(), at!(), at!(), at!(), at!(), at!(), at!(), at!(), at!(),
    at!(), at!(), at!(), at!(), at!(), at!(), at!(), at!(), at!(), at!(), at!(), at!(),
    at!(), at!(), at!(), at!(), at!(), at!(), at!(), at!(), at!(), at!(), at!(), at!(),
    at!(), at!(), at!(), at!(), at!(), at!(), at!(), at!(), at!(), at!(), at!(), at!(),
    at!(), at!(), at!(), at!(), at!(), at!(), at!(), at!(), at!(), at!(), at!(), at!(),
    at!(), at!(), at!(), at!(), at!(), at!(), at!(), at!(), at!(), at!(), at!(), at!(),
    at!(), at!(), at!(), at!(), at!(), at!(), at!(), at!(), at!(), at!(), at!(), at!(),
    at!(), at!(), at!(), at!(), at!(), at!(), at!(), at!(), at!(), at!(), at!(), at!(),
    at!(), at!(), at!(), at!(), at!(), at!(), at!(), at!(), at!(), at!(), at!(), at!(),
    at!(), at!(), at!(), at!(), at!(), at!(), at!(), at!(), at!(), at!(), at!(), at!(),
    at!(), at!(), at!(), at!(), at!(), at!(), at!(), at!(), at!(), at!(), at!(), at!(),
    at!(), at!(), at!(), at!(), at!(), at!(), at!(), at!(), at!(), at!(), at!(), at!(),
    at!(), at!(), at!(), at!(), at!(), at!(), at!(), at!(), at!(), at!(), at!(), at!(),
    at!(), at!(), at!(), at!(), at!(), at!(), at!(), at!(), at!(), at!(), at!(), at!(),
    at!(), at!(), at!(), at!(), at!(), at!(), at!(), at!(), at!(), at!(), at!(), at!(),
    at!(), at!(), at!(), at!(), at!(), at!(), at!(), at!(), at!(), at!(), at!(), at!(),
    at!(), at!(), at!(), at!(), at!(), at!(), at!(), at!(), at!(), at!(), at!(), at!(),
    at!(), at!(), at!(), at!(), at!(), at!(), at!(), at!(), at!(), at!(), at!(), at!(),
    at!(), at!(), at!(), at!(), at!(), at!(), at!(), at!(), at!(), at!(), at!(), at!(),
    at!(), at!(), at!(), at!(), at!(), at!(), at!(), at!(), at!(), at!(), at!(), at!(),
];

/// Resources that the tasks of a batch wait for.
struct Shared {
    all: Barrier,
    lock: Mutex<()>,
    full: mpsc::Sender<()>,
}

/// Spawns a task on the current runtime. `number` selects how it ends.
#[track_caller]
fn spawn(number: u64, shared: &Arc<Shared>) -> JoinHandle<()> {
    let shared = shared.clone();
    let wait = async move {
        shared.all.wait().await;
        let _guard = shared.lock.lock().await;
        yield_now().await;
        match number % 4 {
            0 => std::panic::resume_unwind(Box::new("on purpose")),
            1 => may_wait_forever(std::future::pending()).await,
            2 => shared.full.send(()).await.unwrap_or_default(), // the receiver may have gone
            _ => {}
        }
    };
    // No two names are the same.
    if number.is_multiple_of(3) {
        let name = format!("a task with a name of its own: {number}");
        return task::Builder::new().name(&name).spawn(wait).unwrap();
    }
    wakeful::spawn(wait)
}

/// Starts and ends `tasks` tasks, and looks at the page while the tasks of a batch wait.
fn churn(rt: &Runtime, tasks: u64, mut look: impl FnMut(u64)) {
    let mut number = 0;
    while number < tasks {
        let (full, queue) = mpsc::channel(1);
        let shared = Shared { all: Barrier::new(BATCH as usize + 1), lock: Mutex::new(()), full };
        let shared = Arc::new(shared);
        let batch: Vec<_> = rt.block_on(async {
            let site = |number: u64| SITES[number as usize % SITES.len()];
            (number..number + BATCH).map(|it| site(it)(it, &shared)).collect()
        });
        look(number / BATCH);
        rt.block_on(async {
            shared.all.wait().await;
            drop(queue);
            for task in batch {
                // Aborts each task, because some would wait forever.
                yield_now().await;
                task.abort();
                let _ = task.await; // each ends in its own way
            }
        });
        number += BATCH;
    }
}

/// Returns the lowest number of bytes in use during some batches: threads of answered requests may
/// still hold some.
///
/// The snapshot that the page keeps for the next request is dropped before: a page that has had no
/// request for some seconds has none.
fn in_use(rt: &Runtime, page: &Page) -> usize {
    page.step();
    let mut least = usize::MAX;
    churn(rt, 20 * BATCH, |_| {
        thread::yield_now();
        least = least.min(MEMORY.bytes());
    });
    least
}

fn runtime() -> Runtime {
    let mut builder = Builder::new_multi_thread();
    builder.worker_threads(2).enable_all().on_report(|_| ()).report_blocked_after(None);
    builder.build().unwrap()
}

/// Makes each worker start its thread. A worker allocates when it starts, which is when it first gets work: on an
/// overloaded machine, that may be after the warm-up.
fn start_all_workers(rt: &Runtime) {
    let metrics = rt.metrics();
    while !(0..metrics.num_workers()).all(|worker| metrics.worker_thread_id(worker).is_some()) {
        churn(rt, BATCH, |_| thread::yield_now());
    }
}

fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

/// Lives through `seconds` seconds with this number of tasks in all. Another runtime starts and ends in
/// each minute. If there is a client, it asks for every path in turn.
fn live(rt: &Runtime, page: &Page, tasks: u64, seconds: u64, client: Option<&Client>) {
    let batches_a_second = (tasks / BATCH / seconds).max(1);
    churn(rt, tasks, |batch| {
        if !batch.is_multiple_of(batches_a_second) {
            return;
        }
        let second = batch / batches_a_second;
        page.step();
        if second.is_multiple_of(60) {
            let other = runtime();
            other.block_on(async { drop(wakeful::spawn(async {})) });
            page.step();
        }
        if let Some(client) = client {
            let path = PATHS[second as usize % PATHS.len()];
            assert_eq!(client.get(&format!("/api/v1/{path}")).status, 200, "{path}");
        }
    });
}

/// Compares the memory after a warm-up, which fills the rings, with that after many more tasks.
fn assert_bounded(tasks: u64, seconds: u64, is_viewed: bool) {
    let rt = runtime();
    let page = page::serve("127.0.0.1:0").unwrap();
    let client = is_viewed.then(|| Client::open(&page));
    start_all_workers(&rt);
    live(&rt, &page, WARM_UP * BATCH, WARM_UP, client.as_ref());
    let (warm, resident_warm) = (in_use(&rt, &page), resident());
    println!(
        "after the warm-up: {warm} bytes in use, {resident_warm} kB resident; viewed: {is_viewed}"
    );
    let mut most = 0;
    for part in 1..=PARTS {
        live(&rt, &page, tasks / PARTS, seconds / PARTS, client.as_ref());
        let bytes = in_use(&rt, &page);
        most = most.max(bytes);
        println!(
            "{} of {tasks} tasks: {bytes} bytes in use, {} kB resident",
            part * tasks / PARTS,
            resident()
        );
    }
    if let Some(client) = &client {
        (0..2).for_each(|_| attack(client));
        // The threads of the connections end by themselves.
        while client.get("/api/v1/overview").status != 200 {
            thread::yield_now();
        }
        let bytes = in_use(&rt, &page);
        most = most.max(bytes);
        println!("after two attacks: {bytes} bytes in use, {} kB resident", resident());
    }
    assert!(most <= warm + SLACK, "{warm} bytes after the warm-up, later up to {most}");
    drop(page);
}

/// Sends what no client should: 1,000 connections that stay open, and requests that are refused.
fn attack(client: &Client) {
    let slow: Vec<TcpStream> = (0..1_000)
        .map(|_| {
            let mut connection = client.connect();
            // A server that has too many connections may have closed this one.
            let _ = connection.write_all(b"GET /api/v1/overview HTTP/1.1\r\nCookie: ");
            connection
        })
        .collect();
    drop(slow);
    let long = "a".repeat(100_000);
    for request in [
        format!("GET /?token={long} HTTP/1.1\r\n\r\n"),
        format!("GET / HTTP/1.1\r\n{}\r\n", "A: b\r\n".repeat(2_000)),
        "POST /api/v1/abort HTTP/1.1\r\nContent-Length: 99999999999\r\n\r\n".to_owned(),
        "GET /../../../etc/passwd HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".to_owned(),
        "GET / HTTP/1.1\r\nHost: rebind.example\r\n\r\n".to_owned(),
        long.clone(),
    ] {
        let status = client.send(&request).status;
        // No answer is left if the server closes while the client still sends.
        assert!(status == 0 || status >= 400, "{status}: {}", &request[..40]);
    }
}

/// One test, so that no other allocates meanwhile.
#[test]
fn the_page_keeps_no_trace_of_most_tasks_nor_of_attacks() {
    bound_this_binary();
    assert_bounded(24_000, 600, false);
    assert_bounded(24_000, 600, true);
}

#[test]
#[ignore = "takes minutes: an hour of a program that starts ten million tasks, in simulated seconds"]
fn ten_million_tasks() {
    assert_bounded(5_000_000, 3_600, false);
    assert_bounded(5_000_000, 3_600, true);
}
