//! The report of a graceful shutdown that hangs on an idle keep-alive connection names that connection.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use example::Connections;
use tokio::net::TcpListener;
use tokio::runtime::{Builder, Handle, Runtime};
use wakeful::inspect::{ShutdownReport, TaskDump, TaskState};

#[path = "../examples/graceful_shutdown.rs"]
mod example;

/// Longer than a server needs to end. Only a hang reaches it.
const LONG: Duration = Duration::from_secs(240);
/// The grace period of a server that hangs. Longer than it needs to see the shutdown.
const SHORT: Duration = Duration::from_millis(500);

fn runtimes() -> [Runtime; 2] {
    [Builder::new_current_thread(), Builder::new_multi_thread()]
        .map(|mut builder| builder.enable_all().build().unwrap())
}

/// Asks once, and keeps the connection.
fn ask(server: SocketAddr) -> TcpStream {
    let mut stream = TcpStream::connect(server).unwrap();
    stream.write_all(b"GET / HTTP/1.1\r\nhost: test\r\n\r\n").unwrap();
    let mut answer = Vec::new();
    while !answer.ends_with(b"\r\n\r\nhello\n") {
        let mut bytes = [0; 1024];
        let read = stream.read(&mut bytes).unwrap();
        assert_ne!(read, 0, "the server keeps the connection");
        answer.extend_from_slice(&bytes[..read]);
    }
    stream
}

/// Returns the tasks that wait for data on a socket.
fn idle_connections(tasks: &[TaskDump]) -> Vec<&TaskDump> {
    let waits_for_data =
        |task: &&TaskDump| task.waiting_on().is_some_and(|wait| wait.phrase() == "data to read");
    tasks.iter().filter(waits_for_data).collect()
}

/// Runs the server with one client that asks once and keeps its connection.
fn run(
    runtime: Runtime,
    grace: Duration,
    on_shutdown: Connections,
) -> (bool, ShutdownReport, TcpStream, SocketAddr) {
    let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).unwrap();
    let server = listener.local_addr().unwrap();
    let (tx, rx) = tokio::sync::oneshot::channel();
    let client = std::thread::spawn(move || {
        let stream = ask(server);
        tx.send(()).unwrap();
        stream
    });
    let is_idle = async {
        rx.await.unwrap();
        while idle_connections(Handle::current().dump().tasks()).is_empty() {
            tokio::task::yield_now().await;
        }
    };
    let (has_ended, report) = example::run(runtime, listener, is_idle, grace, on_shutdown);
    (has_ended, report, client.join().unwrap(), server)
}

#[test]
fn the_report_names_the_connection_that_the_server_waits_for() {
    for runtime in runtimes() {
        let (has_ended, report, client, server) = run(runtime, SHORT, Connections::Wait);
        assert!(!has_ended, "{report}");
        assert!(report.is_complete() && report.late().is_none(), "{report}");
        let text = report.to_string();

        // The server waits for its connections, and the connection for the client.
        let tasks: Vec<&TaskDump> =
            report.before().tasks().iter().filter(|task| task.state() != TaskState::Done).collect();
        let [waiting, connection] = tasks[..] else { panic!("{text}") };
        let example = "examples/graceful_shutdown.rs:";
        for task in [waiting, connection] {
            assert_eq!(task.state(), TaskState::Waiting, "{text}");
            assert!(task.info().spawned_at().to_string().contains(example), "{text}");
        }
        assert_eq!(waiting.waiting_on().unwrap().phrase(), "a task to end (JoinHandle)", "{text}");
        assert!(waiting.waiting_on().unwrap().site().file().ends_with("graceful_shutdown.rs"));
        assert_eq!(idle_connections(report.before().tasks()).len(), 1, "{text}");

        // The text, field by field.
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines[0].starts_with("shutdown: complete after "), "{text}");
        assert!(lines[0].ends_with(", 2 tasks alive when it began"), "{text}");
        assert!(lines[1].starts_with("runtime after "), "{text}");
        let line_of = |task: &TaskDump| {
            let head =
                format!("{} waiting, spawned at {}, ", task.info(), task.info().spawned_at());
            let found = lines.iter().position(|line| line.trim_start().starts_with(&head));
            found.unwrap_or_else(|| panic!("no {head:?} in {text}"))
        };
        let joins = lines[line_of(waiting) + 1].trim_start();
        assert!(
            joins
                .starts_with("waiting for a task to end (JoinHandle): any of several, awaited at "),
            "{text}"
        );
        assert!(joins.contains(example), "{text}");
        let reads = lines[line_of(connection) + 1].trim_start();
        let sockets = format!("({server} to {}), ", client.local_addr().unwrap());
        assert!(reads.starts_with("waiting for data to read: descriptor "), "{text}");
        assert!(reads.contains(&sockets) && reads.contains(example), "{text}");
    }
}

#[test]
fn a_server_that_closes_idle_connections_ends() {
    for runtime in runtimes() {
        let (has_ended, report, mut client, _) = run(runtime, LONG, Connections::Close);
        assert!(has_ended, "{report}");
        assert_eq!(client.read(&mut [0]).unwrap(), 0, "closed by the server");
        let text = report.to_string();
        assert!(text.lines().next().unwrap().ends_with(", 0 tasks alive when it began"), "{text}");
    }
}
