//! The service over sockets, and its router in memory where time matters.

use std::net::SocketAddr;
use std::process::{Command, Stdio};
use std::sync::Once;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::http::{Request, StatusCode};
use axum_service::{Config, NewNote, Note, Service, app, run};
use http_body_util::BodyExt;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tower::ServiceExt;

/// How long the tests may take. Only a hang comes near it.
const LIMIT: Duration = Duration::from_secs(240);

/// Ends a process whose tests hang, also if its clock is paused.
fn bound_this_binary() {
    static STARTED: Once = Once::new();
    STARTED.call_once(|| {
        std::thread::spawn(|| {
            // The limit for a test that hangs; no test waits for it.
            std::thread::sleep(LIMIT);
            eprintln!("still not done after {LIMIT:?}");
            std::process::abort();
        });
    });
}

struct Running {
    address: SocketAddr,
    shut_down: oneshot::Sender<()>,
    done: JoinHandle<std::io::Result<()>>,
}

impl Running {
    async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (shut_down, is_shut_down) = oneshot::channel();
        let shutdown = async { is_shut_down.await.unwrap() };
        let done = tokio::spawn(run(Service::new(Config::default()), listener, shutdown));
        Self { address, shut_down, done }
    }

    fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }
}

fn new_note(text: &str) -> NewNote {
    NewNote { text: text.to_owned() }
}

#[test]
fn it_runs_on_wakeful() {
    let name = std::any::type_name::<tokio::runtime::Runtime>();
    assert!(name.starts_with("wakeful::"), "the patch has not taken: {name}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn notes_are_kept_and_changes_are_seen() {
    bound_this_binary();
    let server = Running::start().await;
    let client = reqwest::Client::new();
    let changed = tokio::spawn(client.get(server.url("/changes/1")).send());
    for text in ["milk", "bread"] {
        let created = client.post(server.url("/notes")).json(&new_note(text)).send().await.unwrap();
        assert_eq!(created.status(), StatusCode::CREATED);
        let note: Note = created.json().await.unwrap();
        assert_eq!(note.text, text);
        let read: Note = client
            .get(server.url(&format!("/notes/{}", note.id)))
            .send()
            .await
            .unwrap()
            .json()
            .await
            .unwrap();
        assert_eq!(read, note);
    }
    assert_eq!(changed.await.unwrap().unwrap().json::<u64>().await.unwrap(), 2);
    let all: Vec<Note> =
        client.get(server.url("/notes")).send().await.unwrap().json().await.unwrap();
    assert_eq!(all.iter().map(|note| &*note.text).collect::<Vec<_>>(), ["milk", "bread"]);
    let missing = client.get(server.url("/notes/77")).send().await.unwrap();
    assert_eq!(missing.status(), StatusCode::NOT_FOUND);
    drop((client, missing));
    server.shut_down.send(()).unwrap();
    server.done.await.unwrap().unwrap();
}

#[tokio::test]
async fn a_shutdown_answers_requests_that_have_begun() {
    bound_this_binary();
    let service = Service::new(Config::default());
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (shut_down, is_shut_down) = oneshot::channel();
    let shutdown = async { is_shut_down.await.unwrap() };
    let done = tokio::spawn(run(service.clone(), listener, shutdown));
    let mut waiting = TcpStream::connect(address).await.unwrap();
    waiting.write_all(b"GET /changes/0 HTTP/1.1\r\nhost: test\r\n\r\n").await.unwrap();
    // A second connection was accepted and answered, so the first was accepted before the shutdown.
    assert!(reqwest::get(format!("http://{address}/notes")).await.unwrap().status().is_success());
    shut_down.send(()).unwrap();
    while TcpStream::connect(address).await.is_ok() {
        tokio::task::yield_now().await;
    }
    assert!(!done.is_finished());
    let created = ask(&app(service), post("/notes", &new_note("last"))).await;
    assert_eq!(created.0, StatusCode::CREATED);
    let mut answer = String::new();
    waiting.read_to_string(&mut answer).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 200") && answer.ends_with("\r\n\r\n1"), "{answer}");
    done.await.unwrap().unwrap();
}

fn post(path: &str, note: &NewNote) -> Request<Body> {
    let json = serde_json::to_vec(note).unwrap();
    Request::post(path).header("content-type", "application/json").body(Body::from(json)).unwrap()
}

/// Calls the router without a socket.
async fn ask(app: &Router, request: Request<Body>) -> (StatusCode, String) {
    let response = app.clone().oneshot(request).await.unwrap();
    let status = response.status();
    let body = response.into_body().collect().await.unwrap().to_bytes();
    (status, String::from_utf8(body.to_vec()).unwrap())
}

fn get(path: &str) -> Request<Body> {
    Request::get(path).body(Body::empty()).unwrap()
}

/// The clock stands, and jumps to the next timer when all tasks wait.
#[tokio::test(start_paused = true)]
async fn a_request_that_takes_too_long_is_answered_in_time() {
    bound_this_binary();
    let app =
        app(Service::new(Config { request_limit: Duration::from_secs(5), ..Config::default() }));
    let start = Instant::now();
    let (status, body) = ask(&app, get("/changes/0")).await;
    assert_eq!((status, body.as_str()), (StatusCode::REQUEST_TIMEOUT, "this takes too long\n"));
    assert_eq!(start.elapsed().as_secs(), 5);
}

#[tokio::test(start_paused = true)]
async fn a_note_is_kept_for_its_time() {
    bound_this_binary();
    let service = Service::new(Config { keep: Duration::from_secs(100), ..Config::default() });
    let app = app(service.clone());
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (shut_down, is_shut_down) = oneshot::channel();
    let serving = tokio::spawn(run(service, listener, async { is_shut_down.await.unwrap() }));
    let (status, body) = ask(&app, post("/notes", &new_note("short-lived"))).await;
    assert_eq!(status, StatusCode::CREATED, "{body}");
    tokio::time::sleep(Duration::from_secs(85)).await;
    assert_eq!(ask(&app, get("/notes/1")).await.0, StatusCode::OK);
    tokio::time::sleep(Duration::from_secs(30)).await;
    assert_eq!(ask(&app, get("/notes/1")).await.0, StatusCode::NOT_FOUND);
    shut_down.send(()).unwrap();
    serving.await.unwrap().unwrap();
}

/// The program itself, ended by the signal that a service manager sends.
#[tokio::test]
async fn the_program_ends_with_sigterm() {
    bound_this_binary();
    let mut program = tokio::process::Command::new(env!("CARGO_BIN_EXE_axum-service"))
        .arg("127.0.0.1:0")
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(program.stdout.take().unwrap()).lines();
    let first = lines.next_line().await.unwrap().unwrap();
    let url = first.split(';').next().unwrap();
    assert_eq!(reqwest::get(url).await.unwrap().text().await.unwrap(), "[]");
    let id = program.id().unwrap().to_string();
    assert!(Command::new("kill").args(["-TERM", &id]).status().unwrap().success());
    assert_eq!(lines.next_line().await.unwrap().as_deref(), Some("all requests were answered"));
    assert!(program.wait().await.unwrap().success());
}
