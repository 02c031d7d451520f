//! The server of the live page: what it answers, and which requests it refuses.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::unix::net::UnixStream;
use std::sync::Arc;

use wakeful::inspect::page::{self, Options};
use wakeful::runtime::{Builder, Runtime};
use wakeful::sync::{Mutex, Notify};
use wakeful::task::{self, may_wait_forever, yield_now};

#[path = "support/page_client.rs"]
mod page_client;
use page_client::{Answer, Client};

fn runtime() -> Runtime {
    Builder::new_multi_thread().worker_threads(2).enable_all().on_report(|_| ()).build().unwrap()
}

/// Spawns two tasks that wait for each other, and returns when both wait.
fn plant_deadlock(rt: &Runtime) {
    let (a, b) = (Arc::new(Mutex::new(())), Arc::new(Mutex::new(())));
    let both = Arc::new(wakeful::sync::Barrier::new(2));
    for (name, first, second) in [("one", a.clone(), b.clone()), ("other", b, a)] {
        let both = both.clone();
        let future = async move {
            let _first = first.lock().await;
            both.wait().await;
            let _second = second.lock().await;
        };
        drop(task::Builder::new().name(name).spawn_on(future, rt.handle()).unwrap());
    }
    let is_stuck = |name| {
        let dump = rt.handle().dump();
        let wait = dump.find_named(name).and_then(|task| task.waiting_on().map(|it| it.kind()));
        wait == Some("Mutex::lock")
    };
    while !(is_stuck("one") && is_stuck("other")) {
        std::thread::yield_now();
    }
}

#[test]
fn a_deadlock_is_named_with_its_tasks_and_locks() {
    let rt = runtime();
    plant_deadlock(&rt);
    let page = page::serve("127.0.0.1:0").unwrap();
    let client = Client::open(&page);
    let overview = client.get("/api/v1/overview");
    assert_eq!(overview.status, 200);
    for part in ["\"kind\":\"deadlock\"", "\"name\":\"one\"", "\"name\":\"other\"", "Mutex::lock"] {
        assert!(overview.body.contains(part), "{part} is not in {}", overview.body);
    }
    let dump = rt.handle().dump();
    let id = dump.find_named("one").unwrap().id().unwrap();
    let runtime = rt.handle().id();
    let task = client.get(&format!("/api/v1/task?runtime={runtime}&task=t{id}"));
    let (_, cycle) = task.body.split_once("\"cycle\":[").unwrap();
    let cycle: Vec<&str> = cycle.split(']').next().unwrap().split(',').collect();
    assert_eq!(cycle.len(), 4, "two tasks and two locks: {cycle:?}");
    let gone = client.get(&format!("/api/v1/task?runtime={runtime}&task=t999999999"));
    assert_eq!(gone.body, "{\"found\":false,\"ended\":null}");
}

#[test]
fn tasks_are_searched_sorted_and_paged() {
    let rt = runtime();
    let stop = Arc::new(Notify::new());
    for number in 0..30 {
        let stop = stop.clone();
        let name = format!("worker {number:02} <b>");
        let wait = async move { stop.notified().await };
        drop(task::Builder::new().name(&name).spawn_on(wait, rt.handle()).unwrap());
    }
    let page = page::serve("127.0.0.1:0").unwrap();
    let client = Client::open(&page);
    let runtime = rt.handle().id();
    let names = |query: &str| {
        let answer = client.get(&format!("/api/v1/tasks?runtime={runtime}&{query}")).body;
        let rows = answer.split("\"name\":\"worker ").skip(1);
        rows.map(|row| row[..2].to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(names("q=worker&sort=name&order=asc&limit=3"), ["00", "01", "02"]);
    assert_eq!(names("q=worker&sort=name&order=asc&offset=28"), ["28", "29"]);
    assert_eq!(names("q=WORKER+07"), ["07"]);
    assert_eq!(names("q=%3Cb%3E&sort=name&order=desc&limit=1"), ["29"]);
    assert_eq!(names("state=running&q=worker"), [""; 0]);
    assert_eq!(names("offset=1000000"), [""; 0]);
    let tree = client.get(&format!("/api/v1/tree?runtime={runtime}&limit=5")).body;
    assert!(tree.contains("\"total\":30"), "{tree}");
    stop.notify_waiters();
}

#[test]
fn all_orphans_count_and_a_set_of_many_tasks_is_cut() {
    let rt = runtime();
    let set = async {
        let mut set = wakeful::task::JoinSet::new();
        (0..100).for_each(|_| drop(set.spawn(may_wait_forever(std::future::pending::<()>()))));
        set.join_next().await;
    };
    let set = task::Builder::new().name("set").spawn_on(set, rt.handle()).unwrap();
    let orphans: Vec<_> = (0..60).map(|_| rt.spawn(std::future::pending::<()>())).collect();
    while rt.metrics().orphaned_tasks() < 60 {
        std::thread::yield_now();
    }
    let page = page::serve("127.0.0.1:0").unwrap();
    let client = Client::open(&page);
    let overview = client.get("/api/v1/overview").body;
    let count = overview.split_once("\"text\":\"").unwrap().1.split(' ').next().unwrap();
    // Other tests of this program may have orphans of their own.
    assert!(count.parse::<usize>().unwrap() >= 60, "{count}");
    let task = format!("/api/v1/task?runtime={}&task=t{}", rt.handle().id(), set.id());
    assert!(client.get(&task).body.matches("\"acquired_at\"").count() <= 20);
    drop(orphans);
}

#[test]
fn it_answers_while_every_worker_is_blocked() {
    let rt = runtime();
    let (release, wait) = std::sync::mpsc::channel::<()>();
    let wait = Arc::new(std::sync::Mutex::new(wait));
    let (begun, begin) = std::sync::mpsc::channel();
    for _ in 0..2 {
        let (wait, begun) = (wait.clone(), begun.clone());
        rt.spawn(async move {
            begun.send(()).unwrap();
            let _ = wait.lock().unwrap().recv();
        });
    }
    (0..2).for_each(|_| begin.recv().unwrap());
    let page = page::serve("127.0.0.1:0").unwrap();
    let client = Client::open(&page);
    let overview = client.get("/api/v1/overview");
    assert!(overview.body.contains("\"state\":\"polling\""), "{}", overview.body);
    drop(release);
}

#[test]
fn a_stream_sends_the_overview_and_ends_with_the_page() {
    let rt = runtime();
    let page = page::serve("127.0.0.1:0").unwrap();
    let client = Client::open(&page);
    let mut connection = client.connect();
    let (address, cookie) = (client.address, &client.cookie);
    let request =
        format!("GET /api/v1/events HTTP/1.1\r\nHost: {address}\r\nCookie: {cookie}\r\n\r\n");
    connection.write_all(request.as_bytes()).unwrap();
    let mut text = String::new();
    let mut buffer = [0; 4096];
    while !text.contains("event: overview\ndata: {\"process\"") {
        let count = connection.read(&mut buffer).unwrap();
        assert!(count > 0, "the stream ended: {text}");
        text.push_str(&String::from_utf8_lossy(&buffer[..count]));
    }
    drop(page);
    connection.read_to_string(&mut text).unwrap();
    assert!(text.ends_with("event: gone\ndata: {}\n\n"), "{text}");
    assert!(TcpStream::connect(address).is_err(), "the listener is closed");
    drop(rt);
}

#[test]
fn requests_without_the_token_are_refused() {
    let page = page::serve("127.0.0.1:0").unwrap();
    let client = Client::open(&page);
    let (address, port) = (client.address, client.address.port());
    let with = |host: &str, cookie: &str, path: &str| {
        client
            .send(&format!("GET {path} HTTP/1.1\r\nHost: {host}\r\nCookie: {cookie}\r\n\r\n"))
            .status
    };
    let (own, good) = (address.to_string(), client.cookie.as_str());
    assert_eq!(with(&own, good, "/api/v1/overview"), 200);
    for path in ["/", "/api/v1/overview", "/api/v1/events", "/metrics", "/app.js"] {
        assert_eq!(with(&own, "", path), 401, "{path}");
        assert_eq!(with(&own, &format!("wakeful_{port}=0"), path), 401, "{path}");
        assert_eq!(with(&own, "", &format!("{path}?token=0")), 401, "{path}");
        for host in ["localhost6", "rebind.example", "127.0.0.1.example"] {
            assert_eq!(with(&format!("{host}:{port}"), good, path), 421, "{host}{path}");
        }
        assert_eq!(with("127.0.0.1:1", good, path), 421, "another port");
        assert_eq!(with("127.0.0.1", good, path), 421, "no port");
    }
    assert_eq!(client.send("GET / HTTP/1.1\r\n\r\n").status, 421, "no host");
    assert_eq!(with(&format!("localhost:{port}"), good, "/"), 200);
    let token = &client.token;
    let foreign = client.get(&format!("//a.example/?token={token}"));
    assert!(foreign.head.contains("Location: /\r\n"), "{}", foreign.head);
}

#[test]
fn actions_from_other_sites_are_refused() {
    let rt = runtime();
    let victim = rt.spawn(may_wait_forever(std::future::pending::<()>()));
    let body = format!("{{\"runtime\":{},\"id\":{}}}", rt.handle().id(), victim.id());
    let read_only = page::serve("127.0.0.1:0").unwrap();
    let client = Client::open(&read_only);
    let refused = client.act("/api/v1/abort", &body);
    assert_eq!(refused.status, 403);
    assert!(refused.body.contains("allow_abort"), "{}", refused.body);

    let page = Options::new("127.0.0.1:0").allow_abort(true).serve().unwrap();
    let client = Client::open(&page);
    let action = format!("X-Wakeful-Action: {}\r\n", client.action);
    let foreign = ["http://a.example", "null", "http://127.0.0.1:1", "https://127.0.0.1"];
    for origin in foreign {
        let headers = format!("{action}Origin: {origin}\r\n");
        assert_eq!(client.post("/api/v1/abort", &headers, &body).status, 403, "{origin}");
    }
    assert_eq!(client.post("/api/v1/abort", "", &body).status, 403, "no action token");
    let wrong = "X-Wakeful-Action: 0\r\n";
    assert_eq!(client.post("/api/v1/abort", wrong, &body).status, 403);
    assert_eq!(client.get("/api/v1/abort").status, 404, "a GET acts on nothing");
    let options = format!("OPTIONS / HTTP/1.1\r\nHost: {}\r\n\r\n", client.address);
    let options = client.send(&options);
    assert_eq!((options.status, options.head.contains("Access-Control")), (405, false));
    assert!(!victim.is_finished());

    let own = format!("{action}Origin: http://{}\r\n", client.address);
    assert_eq!(client.post("/api/v1/abort", &own, "{}").status, 400);
    assert_eq!(client.post("/api/v1/abort", &own, &body).body, "{\"aborted\":true}");
    assert!(rt.block_on(victim).unwrap_err().is_cancelled());
    assert_eq!(client.post("/api/v1/abort", &own, &body).status, 404);
}

#[test]
fn broken_and_oversized_requests_are_refused() {
    let page = page::serve("127.0.0.1:0").unwrap();
    let client = Client::open(&page);
    let head = |size| format!("GET / HTTP/1.1\r\nA: {}\r\n\r\n", "a".repeat(size));
    assert_eq!(client.send(&head(100_000)).status, 413);
    let long_body = "POST / HTTP/1.1\r\nContent-Length: 99999999999\r\n\r\n";
    assert_eq!(client.send(long_body).status, 413);
    assert_eq!(client.send("nonsense\r\n\r\n").status, 400);
    assert_eq!(client.send("\u{0}\r\n\r\n").status, 400);
    let tricks = [
        "/../../etc/passwd",
        "/%2e%2e/etc/passwd",
        "/app.js/../index.html",
        "/api/v1/../v1/overview",
        "//",
        "/index.html",
        "/web/app.css",
        "/api/v1/",
        "/api/v2/overview",
        "/\u{e9}",
    ];
    for path in tricks {
        let status = client.get(path).status;
        assert!(status == 404 || status == 400, "{path}: {status}");
    }
    // Every answer says that no other site may use it.
    let answer = client.get("/").head;
    for header in ["Content-Security-Policy: default-src 'none'", "X-Content-Type-Options: nosniff"]
    {
        assert!(answer.contains(header), "{answer}");
    }
    assert!(!answer.contains("Access-Control-Allow-Origin"));
}

#[test]
fn slow_and_many_clients_harm_no_other() {
    let page = page::serve("127.0.0.1:0").unwrap();
    let client = Client::open(&page);
    // Half a request keeps its connection for some seconds. Others are answered meanwhile.
    let slow: Vec<TcpStream> = (0..32)
        .map(|_| {
            let mut connection = client.connect();
            connection.write_all(b"GET / HTTP/1.1\r\n").unwrap();
            connection
        })
        .collect();
    assert_eq!(client.get("/api/v1/overview").status, 200);
    let threads = || std::fs::read_dir("/proc/self/task").unwrap().count();
    let mut refused = 0;
    let mut idle = Vec::new();
    for _ in 0..1_000 {
        let mut connection = client.connect();
        // A refused connection has its answer at once. Others stay silent.
        let _ = connection.write_all(b"GET / HTTP/1.1\r\n");
        idle.push(connection);
        if idle.len() == 100 {
            for connection in idle.drain(..) {
                let _ = connection.shutdown(Shutdown::Write);
                refused += usize::from(Answer::read(connection).status == 503);
            }
        }
        // Other tests of this program have threads too.
        assert!(threads() < 200, "each connection has a thread, and there are {}", threads());
    }
    assert!(refused > 0, "1,000 connections were served at once");
    drop(slow);
    // The threads of closed connections end by themselves.
    while client.get("/api/v1/overview").status != 200 {
        std::thread::yield_now();
    }
}

#[test]
fn a_unix_socket_is_served_and_removed() {
    let folder = std::env::temp_dir().join(format!("wakeful-page-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let path = folder.join("page.sock");
    let page = page::serve(&format!("unix:{}", path.display())).unwrap();
    let url = page.url();
    let token = url.split_once("token=").unwrap().1.trim_end_matches(')').to_owned();
    let get = |request: String| {
        let mut connection = UnixStream::connect(&path).unwrap();
        connection.write_all(request.as_bytes()).unwrap();
        Answer::read(connection)
    };
    let first = get(format!("GET /?token={token} HTTP/1.1\r\nHost: localhost\r\n\r\n"));
    assert_eq!(first.status, 303);
    let overview = get(format!(
        "GET /api/v1/overview HTTP/1.1\r\nHost: localhost\r\nCookie: wakeful_0={token}\r\n\r\n"
    ));
    assert_eq!(overview.status, 200);
    let foreign = get(format!(
        "GET /api/v1/overview HTTP/1.1\r\nHost: a.example\r\nCookie: wakeful_0={token}\r\n\r\n"
    ));
    assert_eq!(foreign.status, 421);
    drop(page);
    assert!(!path.exists());
    // A process that has ended leaves its socket behind. A page that is served keeps its own.
    drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
    let page = page::serve(&format!("unix:{}", path.display())).unwrap();
    let mode = std::os::unix::fs::MetadataExt::mode(&std::fs::metadata(&path).unwrap());
    assert_eq!(mode & 0o777, 0o600);
    let error = page::serve(&format!("unix:{}", path.display())).unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::AddrInUse);
    drop(page);
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn the_url_of_the_process_is_in_a_file_of_the_user() {
    let folder = std::env::temp_dir().join(format!("wakeful-page-file-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(folder.join("wakeful")).unwrap();
    let private = <std::fs::Permissions as std::os::unix::fs::PermissionsExt>::from_mode(0o700);
    std::fs::set_permissions(folder.join("wakeful"), private).unwrap();
    let stale = folder.join("wakeful").join("4294967295");
    std::fs::write(&stale, "of a process that has ended").unwrap();
    let exe = std::env::current_exe().unwrap();
    let child = std::process::Command::new(exe)
        .args(["child_prints_the_file", "--exact", "--include-ignored", "--nocapture"])
        .env("XDG_RUNTIME_DIR", &folder)
        .env("WAKEFUL_PAGE", "1")
        .env("WAKEFUL_PAGE_TOKEN", "00112233445566778899aabbccddeeff")
        .output()
        .unwrap();
    let (out, err) =
        (String::from_utf8_lossy(&child.stdout), String::from_utf8_lossy(&child.stderr));
    assert!(child.status.success(), "{out}{err}");
    let url = err.lines().find_map(|line| line.strip_prefix("wakeful: live page at "));
    let url = url.unwrap_or_else(|| panic!("no URL is printed: {err}"));
    assert!(url.ends_with("/?token=00112233445566778899aabbccddeeff"), "{url}");
    assert!(out.contains(&format!("the file has {url}\n")), "{url} is not in {out}");
    assert!(!stale.exists());
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
#[ignore = "a program for the_url_of_the_process_is_in_a_file_of_the_user"]
fn child_prints_the_file() {
    let _rt = runtime();
    let folder = std::env::var("XDG_RUNTIME_DIR").unwrap();
    let file = format!("{folder}/wakeful/{}", std::process::id());
    let file = std::fs::read_to_string(file).unwrap();
    println!("the file has {file}");
    // The URL that `cargo wakeful run --page` opens works once.
    let (host, code) = file.lines().nth(1).unwrap()["http://".len()..].split_once('/').unwrap();
    let visit = || {
        let mut connection = TcpStream::connect(host).unwrap();
        write!(connection, "GET /{code} HTTP/1.1\r\nHost: {host}\r\n\r\n").unwrap();
        Answer::read(connection)
    };
    let first = visit();
    assert_eq!(first.status, 303);
    assert!(first.head.contains("Set-Cookie: wakeful_"), "{}", first.head);
    assert_eq!(visit().status, 401);
}

/// All tasks of the program wait for each other. A page that may abort tasks can end the wait.
#[test]
fn a_page_that_may_abort_tasks_keeps_a_block_on_from_being_ended() {
    let exe = std::env::current_exe().unwrap();
    let mut child = std::process::Command::new(exe)
        .args(["child_waits_for_an_abort", "--exact", "--include-ignored", "--nocapture"])
        .env("RUST_TEST_THREADS", "1")
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
    let mut said = |start: &str| {
        let line = lines.find_map(|line| line.split_once(start).map(|(_, rest)| rest.to_owned()));
        line.unwrap_or_else(|| panic!("the child did not say {start:?}"))
    };
    let client = Client::at(&said("page: "));
    let body = said("task: ");
    // The watchdog has scanned a program that can make no progress by itself.
    assert_eq!(said("report: "), "deadlock Suspected");
    let overview = client.get("/api/v1/overview").body;
    assert!(overview.contains("suspected") && !overview.contains("proven"), "{overview}");
    assert_eq!(client.act("/api/v1/abort", &body).body, "{\"aborted\":true}");
    assert_eq!(said("block_on: "), "returned");
    assert!(child.wait().unwrap().success());
}

#[test]
#[ignore = "a program for a_page_that_may_abort_tasks_keeps_a_block_on_from_being_ended"]
fn child_waits_for_an_abort() {
    let rt = Builder::new_current_thread()
        .on_report(|report| println!("report: {} {:?}", report.kind(), report.certainty()))
        .always_end_stuck_block_on(true)
        .build()
        .unwrap();
    let page = Options::new("127.0.0.1:0").allow_abort(true).serve().unwrap();
    println!("page: {}", page.url());
    let runtime = rt.handle().id();
    rt.block_on(async {
        let (a, b) = (Arc::new(Mutex::new(())), Arc::new(Mutex::new(())));
        let (a2, b2) = (a.clone(), b.clone());
        let one = wakeful::spawn(async move {
            let _a = a.lock().await;
            yield_now().await;
            let _b = b.lock().await;
        });
        let other = wakeful::spawn(async move {
            let _b = b2.lock().await;
            yield_now().await;
            let _a = a2.lock().await;
        });
        println!("task: {{\"runtime\":{runtime},\"id\":{}}}", one.id());
        assert!(one.await.unwrap_err().is_cancelled());
        other.await.unwrap();
    });
    println!("block_on: returned");
    // The page ends with this process. The parent closes the pipe when it has the answer to its abort.
    std::io::stdin().read_line(&mut String::new()).unwrap();
}

#[test]
fn a_bad_address_is_explained() {
    for address in ["", "7000", "localhost:7000", "127.0.0.1"] {
        let error = page::serve(address).unwrap_err().to_string();
        assert!(error.contains("is not an address with a port"), "{error}");
    }
    let error = page::serve("unix:/no/such/folder/page").unwrap_err().to_string();
    assert!(error.contains("cannot listen on unix:/no/such/folder/page"), "{error}");
}

#[test]
fn a_recording_shows_polls() {
    let rt = runtime();
    let page = page::serve("127.0.0.1:0").unwrap();
    let client = Client::open(&page);
    let started = client.act("/api/v1/record", "{\"seconds\":30}");
    assert!(started.body.contains("\"recording\":true"), "{}", started.body);
    // Workers start to record when they next check their drivers.
    let trace = loop {
        rt.block_on(async {
            let yields = || async {
                for _ in 0..100 {
                    yield_now().await;
                }
            };
            task::Builder::new().name("recorded").spawn(yields()).unwrap().await.unwrap();
        });
        let trace = client.get("/api/v1/trace").body;
        if trace.contains(",\"poll\",") {
            break trace;
        }
    };
    assert!(trace.contains("\"name\":\"worker 0\""), "{trace}");
    let file = client.get("/api/v1/trace.json");
    assert!(file.head.contains("attachment; filename=\"wakeful-trace.json\""));
    assert!(file.body.contains("\"traceEvents\""));
}

#[test]
fn a_recording_has_more_events_than_a_buffer_and_counts_those_that_are_lost() {
    let rt = Builder::new_current_thread().build().unwrap();
    let page = page::serve("127.0.0.1:0").unwrap();
    let client = Client::open(&page);
    let yields = |count: usize| {
        rt.block_on(async {
            let yields = async move {
                for _ in 0..count {
                    yield_now().await;
                }
            };
            wakeful::spawn(yields).await.unwrap();
        });
    };
    // First in small portions, which are copied before the next one overwrites them. Then in large portions.
    for (portion, is_enough) in [
        (100, (|kept, _| kept > 10_000) as fn(usize, u64) -> bool),
        (100_000, |_, dropped| dropped > 0),
    ] {
        loop {
            // Starts another recording if the last one has ended.
            client.act("/api/v1/record", "{\"seconds\":30}");
            yields(portion);
            let trace = client.get("/api/v1/trace").body;
            let dropped = trace.split_once("\"dropped\":").unwrap().1;
            let dropped = dropped.split(',').next().unwrap().parse().unwrap();
            if is_enough(trace.matches(",\"poll\",").count(), dropped) {
                // The task has ended, but its site is known.
                assert!(trace.contains("tests/page.rs:"), "{}", &trace[..1000]);
                break;
            }
        }
    }
}

#[test]
fn the_history_of_a_current_thread_runtime_has_its_queue_and_its_block_on() {
    let rt = Builder::new_current_thread().build().unwrap();
    let page = page::serve("127.0.0.1:0").unwrap();
    let client = Client::open(&page);
    let id = rt.handle().id();
    let sample = || {
        page.step();
        let history = client.get("/api/v1/history").body;
        let own = history.split_once(&format!("\"id\":{id},")).map(|(_, own)| own.to_owned());
        let own = own.unwrap_or_default();
        let own = own.split("\"id\":").next().unwrap_or_default().to_owned();
        own.rsplit_once("{\"t\":").map_or(String::new(), |(_, last)| last.to_owned())
    };
    rt.block_on(async {
        let tasks: Vec<_> = (0..7).map(|_| wakeful::spawn(async {})).collect();
        // Walks over the tasks are limited to a share of the time.
        while !sample().contains("\"queued\":7") {}
        // This poll of the `block_on` has lasted since the last sample.
        let sample = sample();
        assert!(sample.contains("\"busy\":[1.0]") || sample.contains("\"busy\":[1]"), "{sample}");
        for task in tasks {
            task.await.unwrap();
        }
    });
}

#[test]
fn times_by_site_and_ended_tasks_are_recorded() {
    let rt = runtime();
    let page = page::serve("127.0.0.1:0").unwrap();
    let client = Client::open(&page);
    // A number of ended tasks is recorded in each second.
    loop {
        let panics = async { panic!("on purpose") };
        let panics = task::Builder::new().name("unlucky").spawn_on(panics, rt.handle()).unwrap();
        let error = rt.block_on(panics).unwrap_err();
        assert!(error.is_panic());
        let ended = client.get(&format!("/api/v1/task?runtime=1&task=t{}", error.id())).body;
        if ended.contains("\"name\":\"unlucky\"") {
            assert!(ended.contains("\"outcome\":\"panicked\""), "{ended}");
            break;
        }
    }
    assert!(client.get("/api/v1/ended?limit=500").body.contains("unlucky"));
    let stop = Arc::new(Notify::new());
    let site = std::panic::Location::caller();
    let line = site.line() + 3;
    let stopped = stop.clone();
    let yields = rt.spawn(async move {
        loop {
            wakeful::select! {
                () = stopped.notified() => return,
                () = yield_now() => {}
            }
        }
    });
    let runtime = rt.handle().id();
    let query = format!("/api/v1/groups?runtime={runtime}&q=page.rs:{line}:");
    while !client.get(&query).body.contains("\"poll_p99_us\":") {
        std::thread::yield_now();
    }
    while client.get(&query).body.contains("\"poll_p99_us\":null") {
        std::thread::yield_now();
    }
    stop.notify_one();
    rt.block_on(yields).unwrap();
}

#[test]
fn a_scraper_with_the_token_reads_the_metrics_of_all_runtimes() {
    let (one, other) = (
        Builder::new_current_thread().name("one").build().unwrap(),
        Builder::new_current_thread().name("other").build().unwrap(),
    );
    let page = page::serve("127.0.0.1:0").unwrap();
    let client = Client::open(&page);
    let (address, token) = (client.address, client.token.clone());
    let scrape = |authorization: &str| {
        client.send(&format!(
            "GET /metrics HTTP/1.1\r\nHost: {address}\r\nAuthorization: {authorization}\r\n\r\n"
        ))
    };
    for wrong in ["Bearer 0", "Basic 0", "Bearer", &token, &format!("Basic {token}")] {
        assert_eq!(scrape(wrong).status, 401, "{wrong}");
    }
    let answer = scrape(&format!("Bearer {token}"));
    assert_eq!(answer.status, 200);
    assert!(answer.head.contains("Content-Type: text/plain; version=0.0.4"), "{}", answer.head);
    let text = answer.body;
    assert_eq!(text.matches("# TYPE wakeful_tasks_alive gauge").count(), 1);
    for name in ["one", "other"] {
        assert!(text.contains(&format!("wakeful_tasks_alive{{runtime=\"{name}\"}} 0")), "{text}");
    }
    let tokio = |names: &str| {
        let path = format!("GET /metrics?names={names} HTTP/1.1\r\nHost: {address}");
        client.send(&format!("{path}\r\nAuthorization: Bearer {token}\r\n\r\n"))
    };
    let text = tokio("tokio").body;
    assert_eq!(text.matches("# TYPE tokio_workers_count gauge").count(), 1);
    for name in ["one", "other"] {
        assert!(text.contains(&format!("tokio_workers_count{{runtime=\"{name}\"}} 1")), "{text}");
    }
    assert!(!text.contains("wakeful_"), "{text}");
    assert_eq!(tokio("other").status, 400);
    drop((one, other));
}
