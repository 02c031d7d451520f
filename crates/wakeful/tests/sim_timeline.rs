//! The timeline of a run: a row for each host, and a message log.

#[path = "support/json.rs"]
mod json;
#[path = "support/sim_net.rs"]
mod support;

use json::Json;
use std::path::PathBuf;
use support::{echo, ms, secs};
use wakeful::io::{AsyncReadExt, AsyncWriteExt};
use wakeful::net::{TcpStream, UdpSocket};
use wakeful::sim::{Explorer, Outcome, Sim, Simulation};
use wakeful::time::sleep;

/// A file of this process that is removed on drop, together with its log.
struct File(PathBuf);

impl File {
    fn new(name: &str) -> Self {
        Self(std::env::temp_dir().join(format!("wakeful-{name}-{}.json", std::process::id())))
    }

    fn timeline(&self) -> Json {
        Json::parse(&std::fs::read_to_string(&self.0).unwrap())
    }

    fn log(&self) -> String {
        std::fs::read_to_string(self.0.with_extension("log")).unwrap()
    }
}

impl Drop for File {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
        let _ = std::fs::remove_file(self.0.with_extension("log"));
    }
}

async fn talk(sim: Sim) {
    let server = sim.host("server", echo);
    sleep(ms(1)).await;
    let mut stream = TcpStream::connect("server:80").await.unwrap();
    stream.write_all(b"hello").await.unwrap();
    stream.read_exact(&mut [0; 5]).await.unwrap();
    sim.network().partition(["main"], ["server"]);
    let socket = UdpSocket::bind("0.0.0.0:7").await.unwrap();
    socket.send_to(b"x", "server:9").await.unwrap();
    server.pause(secs(1));
    sleep(secs(2)).await;
    server.kill();
    sleep(ms(1)).await;
}

/// Returns the events of the row with this name.
fn row(timeline: &Json, name: &str) -> Vec<Json> {
    let events = timeline.get("traceEvents").list();
    let is_name = |event: &&Json| {
        event.get("ph").text() == "M" && event.get("args").get("name").text() == name
    };
    let number = events.iter().find(is_name).expect("the host has a row").get("tid");
    let of_row = |event: &&Json| event.get("tid") == number && event.get("ph").text() != "M";
    events.iter().filter(of_row).cloned().collect()
}

fn names(events: &[Json], category: &str) -> Vec<String> {
    let events = events.iter().filter(|event| event.get("cat").text() == category);
    events.map(|event| event.get("name").text().to_owned()).collect()
}

fn number(json: &Json) -> f64 {
    let Json::Number(number) = json else { panic!("no number: {json:?}") };
    *number
}

#[test]
fn each_host_has_a_row_with_its_polls_and_messages() {
    let file = File::new("timeline");
    Simulation::new(1).fifo().timeline(&file.0).run(talk).unwrap();
    let timeline = file.timeline();
    let (main, server) = (row(&timeline, "main"), row(&timeline, "server"));
    for row in [&main, &server] {
        let polls = names(row, "poll");
        let is_task = |name: &String| name.starts_with("task ") && name.contains(".rs:");
        assert!(polls.iter().any(is_task), "{polls:?}");
        let times: Vec<f64> = row.iter().map(|event| number(event.get("ts"))).collect();
        assert!(times.is_sorted(), "{times:?}");
        for event in row.iter().filter(|event| event.get("cat").text() == "poll") {
            assert_eq!((event.get("ph").text(), number(event.get("dur"))), ("X", 0.001));
        }
    }
    let sent = names(&main, "message");
    assert!(sent.iter().any(|it| it.starts_with("to server: tcp 1, 10.0.0.1:")), "{sent:?}");
    assert!(sent.iter().any(|it| it.ends_with("10.0.0.2:80: 5 bytes")), "{sent:?}");
    assert!(sent.iter().any(|it| it.starts_with("lost, to server: udp, 10.0.0.1:7")), "{sent:?}");
    let received = names(&server, "message");
    assert!(received.iter().any(|it| it.starts_with("from main: tcp 1,")), "{received:?}");
    // The end of the run takes the server down once more.
    assert_eq!(names(&server, "host")[..4], ["up", "paused", "resumed", "down"]);
    // The last sleep ends after 2.003 s plus the latency of the messages.
    assert!(number(main.last().unwrap().get("ts")) > 2_003_000.0);
}

#[test]
fn the_log_has_a_line_for_each_message_in_order() {
    let file = File::new("log");
    Simulation::new(1).fifo().timeline(&file.0).run(talk).unwrap();
    let log = file.log();
    let fates: Vec<_> = log
        .lines()
        .filter(|line| line.contains("main -> server"))
        .filter_map(|line| line.split("  ").last())
        .map(|line| (line.split(':').next().unwrap(), line.rsplit(": ").next().unwrap()))
        .collect();
    let expected = [
        ("sent", "connect"),
        ("arrived", "connect"),
        ("sent", "5 bytes"),
        ("arrived", "5 bytes"),
        ("sent", "1 byte"),
        ("lost", "1 byte"),
    ];
    assert_eq!(fates[..6], expected, "{log}");
    assert!(log.contains("server -> main  stalled: tcp 1,"), "{log}");
    assert!(log.contains("server -> main  sent: tcp 1, 10.0.0.2:80 -> 10.0.0.1:"), "{log}");
}

#[test]
fn a_timeline_does_not_change_the_run() {
    let file = File::new("unchanged");
    for seed in 0..5 {
        let hash = |run: Simulation| -> (u64, String) {
            let outcome: Outcome = run.run(talk);
            (outcome.hash(), outcome.choices())
        };
        let plain = hash(Simulation::new(seed));
        assert_eq!(hash(Simulation::new(seed).timeline(&file.0)), plain);
        let (timeline, log) = (file.timeline(), file.log());
        assert_eq!(hash(Simulation::new(seed).timeline(&file.0)), plain);
        assert_eq!((file.timeline(), file.log()), (timeline, log));
    }
}

#[test]
fn a_failed_search_leaves_the_timeline_of_its_shrunk_run() {
    let failed = Explorer::new("leaves_a_timeline").seeds(1).run(|sim| async move {
        talk(sim).await;
        panic!("on purpose");
    });
    let text = failed.unwrap_err().to_string();
    let path = text.split("  timeline: ").nth(1).and_then(|rest| rest.split(" in ").next());
    let path = path.unwrap_or_else(|| panic!("no timeline:\n{text}"));
    // The path is relative to the root of the workspace if cargo has marked its target folder.
    let root = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."));
    let found = [root.join(path), PathBuf::from(path)].into_iter().find(|path| path.is_file());
    let file = File(found.expect("it was written"));
    assert!(!row(&file.timeline(), "server").is_empty());
    assert!(file.log().contains("main -> server"));
}

#[test]
#[should_panic(expected = "the timeline \"/nowhere/at/all.json\" cannot be written")]
fn a_path_that_cannot_be_written_is_named() {
    let _ = Simulation::new(1).timeline("/nowhere/at/all.json").run(|_| async {});
}
