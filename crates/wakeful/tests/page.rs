//! The server of the live page: what it answers, and which requests it refuses.

#[path = "page/recordings.rs"]
mod recordings;
#[path = "page/requests.rs"]
mod requests;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
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
