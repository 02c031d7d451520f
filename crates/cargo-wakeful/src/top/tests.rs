//! Tests of the arguments, the screen and the keys, on the state of a program with a deadlock.

use super::fetch::{Answer, Update};
use super::model::{Overview, Rows, Task};
use super::state::{Opened, Pane, State, Subject};
use super::*;
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use serde_json::{Value, json};
use std::io::{Read, Write};
use std::net::TcpListener;

fn task_ref(id: u64, name: &str) -> Value {
    json!({"runtime": 1, "key": format!("t{id}"), "id": id, "block_on": null, "name": name,
           "spawned_at": format!("src/bank.rs:{id}:5")})
}

fn waiting(id: u64, name: &str, lock: &str, holder: Value) -> Value {
    let mut task = task_ref(id, name);
    let rest = json!({"parent": null, "state": "waiting", "age_ms": 30000, "polls": 2, "busy_ms": 0.03, "wakes": 1,
        "wakers": 1, "waits": [{"kind": "Mutex::lock", "phrase": "a lock (Mutex::lock)", "resource": lock,
        "site": "src/bank.rs:7:15", "site_label": "awaited at", "duration_ms": 29795, "earlier": false,
        "holders": [{"task": holder, "acquired_at": "src/bank.rs:5:37"}], "other_holders": false}]});
    task.as_object_mut().unwrap().extend(rest.as_object().unwrap().clone());
    task
}

fn transfer() -> Value {
    waiting(12, "transfer", "#a1", task_ref(13, "report"))
}

fn report() -> Value {
    waiting(13, "report", "#b2", task_ref(12, "transfer"))
}

fn deadlock() -> Value {
    json!({"runtime": 1, "kind": "deadlock", "certainty": "proven", "age_ms": null,
        "headline": "deadlock (proven): 2 tasks wait for each other",
        "message": "deadlock (proven): 2 tasks wait for each other\n  fix: acquire locks in the same order\u{1b}[2J",
        "tasks": [task_ref(12, "transfer"), task_ref(13, "report")]})
}

pub fn deadlock_overview() -> Value {
    json!({"process": {"pid": 748, "program": "bank", "version": "0.1.0", "now": "2026-11-18T07:33:04.699Z"},
        "verdict": {"level": "stuck", "text": "2 tasks can never run again"},
        "findings": [deadlock()],
        "runtimes": [{"id": 1, "name": null, "flavor": "multi-thread", "alive": 23, "started": 23, "finished": 0,
            "queued": 0, "timers": 11, "sources": 17, "blocking": {"threads": 0, "idle": 0, "queued": 0},
            "workers": [{"index": 0, "state": "polling", "task": task_ref(7, "jobs"), "for_ms": 11.5, "queued": 3,
                "timers": 10, "sources": 17, "polls": 8155, "busy_share": 0.31}]}],
        "groups": [{"runtime": 1, "spawned_at": "src/echo.rs:61:13", "alive": 8, "started": 8, "growth_per_min": 0,
            "waits": [{"kind": "read", "count": 8}], "history": [8, 8]}],
        "groups_total": 9})
}

pub fn deadlock_tasks() -> Value {
    json!({"total": 1204, "matched": 2, "offset": 0, "rows": [transfer(), report()]})
}

fn transfer_details() -> Value {
    let edge = |from: &str, to: &str, what: &str| json!({"from": from, "to": to, "what": what, "at": "src/bank.rs:9:9"});
    json!({"found": true, "task": transfer(), "children": [], "findings": [deadlock()], "group": null,
        "graph": {"nodes": [
                {"key": "1/t12", "kind": "task", "task": task_ref(12, "transfer")},
                {"key": "1/t13", "kind": "task", "task": task_ref(13, "report")},
                {"key": "ra1", "kind": "resource", "label": "Mutex::lock #a1"},
                {"key": "rb2", "kind": "resource", "label": "Mutex::lock #b2"}],
            "edges": [edge("1/t12", "ra1", "waits for"), edge("ra1", "1/t13", "held by"),
                edge("1/t13", "rb2", "waits for"), edge("rb2", "1/t12", "held by")],
            "cycle": ["1/t12", "ra1", "1/t13", "rb2"]}})
}

/// Answers the pending request of the state, as a program with a deadlock does.
fn answer(state: &mut State) {
    let overview = Overview::read(&deadlock_overview());
    let request = state.request();
    let answer = match &request {
        fetch::Request::Overview => Answer::Overview,
        fetch::Request::Tasks(_) => Answer::Tasks(Rows::read(&deadlock_tasks(), Task::read)),
        fetch::Request::Groups(_) => {
            let groups = json!({"total": 1, "rows": deadlock_overview()["groups"]});
            Answer::Groups(Rows::read(&groups, model::Group::read))
        }
        fetch::Request::Task { .. } => {
            Answer::Task(Box::new(details::Details::read(&transfer_details())))
        }
    };
    state.apply(Update { request, result: Ok((overview, answer)) });
}

fn deadlocked() -> State {
    let mut state = State::new("127.0.0.1:7000".into());
    answer(&mut state);
    state
}

/// Presses keys, with an answer of the page after each.
fn press(state: &mut State, keys: &[KeyCode]) {
    for key in keys {
        keys::press(state, KeyEvent::new(*key, KeyModifiers::NONE));
        answer(state);
    }
}

fn type_text(state: &mut State, text: &str) {
    press(state, &text.chars().map(KeyCode::Char).collect::<Vec<_>>());
}

fn screen(state: &mut State) -> String {
    let mut terminal = Terminal::new(TestBackend::new(150, 36)).unwrap();
    terminal.draw(|frame| view::draw(frame, state)).unwrap();
    terminal.backend().to_string()
}

#[track_caller]
fn assert_shows(state: &mut State, expected: &[&str]) {
    let screen = screen(state);
    for text in expected {
        assert!(screen.contains(text), "{text:?} is not in:\n{screen}");
    }
}

#[test]
fn arguments_name_at_most_one_page() {
    let parse = |text: &str| {
        Arguments::parse(&text.split_whitespace().map(str::to_owned).collect::<Vec<_>>())
    };
    assert_eq!(parse("").unwrap(), Arguments::default());
    let both = Arguments { is_once: true, page: Some("17".into()) };
    assert_eq!(
        (parse("17 --once").unwrap(), parse("--once 17").unwrap()),
        (both, Arguments { is_once: true, page: Some("17".into()) })
    );
    assert!(parse("--twice").unwrap_err().contains("--once"));
    parse("17 18").unwrap_err();
}

#[test]
fn without_argument_the_only_page_is_chosen() {
    let url = |port: u16| {
        PageUrl::parse(&format!("http://127.0.0.1:{port}/?token={}", "0".repeat(32))).unwrap()
    };
    let pages = |pids: &[u32]| {
        let page = |pid: &u32| Advertised { pid: *pid, url: url(*pid as u16) };
        pids.iter().map(page).collect::<Vec<_>>()
    };
    assert_eq!(choose(None, pages(&[17])).unwrap(), url(17));
    assert_eq!(choose(Some("18"), pages(&[17, 18])).unwrap(), url(18));
    let explicit = format!("http://127.0.0.1:9/?token={}", "0".repeat(32));
    assert_eq!(choose(Some(&explicit), pages(&[17])).unwrap(), url(9));
    let several = choose(None, pages(&[17, 18])).unwrap_err();
    assert!(several.contains("top 17 ") && several.contains("top 18 "), "{several}");
    assert!(choose(None, pages(&[])).unwrap_err().contains("WAKEFUL_PAGE=1"));
    assert!(choose(Some("19"), pages(&[17])).unwrap_err().contains("process 19"));
}

#[test]
fn texts_of_the_program_cannot_control_the_terminal() {
    assert_eq!(clean("a\u{1b}[2J\u{9b}1m\r\nb\u{202e}c\u{7f}ä"), "a[2J1mbcä");
    let mut state = deadlocked();
    press(&mut state, &[KeyCode::Enter]);
    assert!(!screen(&mut state).contains('\u{1b}'));
}

#[test]
fn the_first_screen_names_the_deadlock() {
    assert_shows(
        &mut deadlocked(),
        &[
            "bank (process 748)",
            " stuck  2 tasks can never run again",
            "Findings (1)",
            "deadlock (proven): 2 tasks wait for each other",
            "31 % ███░░░░░░░",
            "task 7 \"jobs\"",
            "Largest groups (1 of 9)",
            "src/echo.rs:61:13",
        ],
    );
}

#[test]
fn a_finding_leads_to_its_tasks_and_the_lock() {
    let mut state = deadlocked();
    press(&mut state, &[KeyCode::Enter]);
    assert_shows(
        &mut state,
        &[
            "fix: acquire locks in the same order",
            "→ task 12 \"transfer\", spawned at",
            "→ task 13 \"report\"",
        ],
    );
    // The report has two lines; an empty line and the heading follow.
    press(&mut state, &[KeyCode::Down; 4]);
    press(&mut state, &[KeyCode::Enter]);
    assert_shows(
        &mut state,
        &[
            "a lock (Mutex::lock) #a1, for 29.8 s, awaited at src/bank.rs:7:15",
            "→ held by task 13 \"report\", acquired at src/bank.rs:5:37",
            "chain of waits: it contains a cycle",
            "    waits for Mutex::lock #a1",
            "        held by task 12 \"transfer\", acquired at src/bank.rs:9:9 (see above)",
            "tasks that wait for it",
        ],
    );
    press(&mut state, &[KeyCode::Esc]);
    assert!(matches!(state.opened.as_slice(), [Opened { what: Subject::Finding(_), .. }]));
    press(&mut state, &[KeyCode::Esc]);
    assert!(state.opened.is_empty());
}

#[test]
fn tasks_are_listed_opened_and_left() {
    let mut state = deadlocked();
    press(&mut state, &[KeyCode::Char('2')]);
    assert_shows(
        &mut state,
        &[
            "Tasks (2 of 1,204), by wait ▼",
            "task 12 \"transfer\"",
            "Mutex::lock, held by task 13 \"report\"",
        ],
    );
    press(&mut state, &[KeyCode::Char('j'), KeyCode::Enter]);
    let request = fetch::Request::Task { runtime: 1, key: "t13".into() };
    assert_eq!(state.request(), request);
    press(&mut state, &[KeyCode::Esc]);
    assert_eq!((state.pane, state.cursor().at), (Pane::Tasks, 1));
}

#[test]
fn sorting_and_filtering_change_the_request() {
    let mut state = deadlocked();
    let request = |state: &State| match state.request() {
        fetch::Request::Tasks(parameters) | fetch::Request::Groups(parameters) => parameters,
        other => panic!("{other:?}"),
    };
    press(&mut state, &[KeyCode::Tab]);
    assert_eq!(request(&state), "sort=wait&order=desc&offset=0&limit=300");
    press(&mut state, &[KeyCode::Char('s'), KeyCode::Char('r')]);
    assert_eq!(request(&state), "sort=age&order=asc&offset=0&limit=300");
    // Keys that are commands otherwise belong to the filter.
    type_text(&mut state, "/qs x");
    assert!(state.is_typing && !state.is_done);
    press(&mut state, &[KeyCode::Backspace]);
    assert_shows(&mut state, &["filter: qs "]);
    press(&mut state, &[KeyCode::Enter]);
    assert_eq!(request(&state), "sort=age&order=asc&q=qs%20&offset=0&limit=300");
    press(&mut state, &[KeyCode::Esc]);
    assert_eq!(request(&state), "sort=age&order=asc&offset=0&limit=300");
    press(&mut state, &[KeyCode::Char('3'), KeyCode::Char('s')]);
    assert_eq!(request(&state), "sort=growth&order=desc&limit=500");
    // The tasks of a group.
    press(&mut state, &[KeyCode::Enter]);
    assert_eq!(
        request(&state),
        "sort=age&order=asc&site=src%2Fecho.rs%3A61%3A13&offset=0&limit=300"
    );
}

#[test]
fn the_cursor_follows_its_task() {
    let mut state = deadlocked();
    press(&mut state, &[KeyCode::Char('2'), KeyCode::End]);
    assert_eq!(state.cursor().at, 1);
    let swapped = json!({"total": 2, "matched": 2, "offset": 0, "rows": [report(), transfer()]});
    let apply = |state: &mut State| {
        let answer = Answer::Tasks(Rows::read(&swapped, Task::read));
        let overview = Overview::read(&deadlock_overview());
        state.apply(Update { request: state.request(), result: Ok((overview, answer)) });
    };
    apply(&mut state);
    assert_eq!(state.cursor().at, 0);
    // In a list that was sorted anew, it stays on the first row.
    keys::press(&mut state, KeyEvent::new(KeyCode::Char('s'), KeyModifiers::NONE));
    answer(&mut state);
    assert_eq!(state.cursor().at, 0);
}

#[test]
fn requests_move_with_the_cursor_in_long_lists() {
    let mut state = deadlocked();
    press(&mut state, &[KeyCode::Char('2')]);
    state.tasks.matched = 100_000;
    state.move_by(isize::MAX);
    assert_eq!(state.cursor().at, 99_999);
    assert_eq!(
        state.request(),
        fetch::Request::Tasks("sort=wait&order=desc&offset=99800&limit=300".into())
    );
}

#[test]
fn a_lost_connection_is_shown_with_the_last_state() {
    let mut state = deadlocked();
    let request = state.request();
    state.apply(Update { request, result: Err("no answer from 127.0.0.1:7000".into()) });
    assert_shows(&mut state, &["connection lost, trying again: no answer", "Findings (1)"]);
    answer(&mut state);
    assert!(!screen(&mut state).contains("connection lost"));
}

#[test]
fn other_keys() {
    let mut state = deadlocked();
    type_text(&mut state, "p");
    assert_shows(&mut state, &["PAUSED"]);
    type_text(&mut state, "?");
    assert_shows(&mut state, &["Keys", "reverse the order"]);
    press(&mut state, &[KeyCode::Esc]);
    assert!(!state.shows_help);
    press(&mut state, &[KeyCode::BackTab]);
    assert_shows(&mut state, &["Workers (1)", "polling for 12 ms"]);
    keys::press(&mut state, KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL));
    assert!(state.is_done);
}

#[test]
fn a_narrow_screen_shows_the_lines_of_sites() {
    let mut state = deadlocked();
    press(&mut state, &[KeyCode::Char('2')]);
    let mut terminal = Terminal::new(TestBackend::new(80, 24)).unwrap();
    terminal.draw(|frame| view::draw(frame, &mut state)).unwrap();
    let screen = terminal.backend().to_string();
    assert!(screen.contains(".rs:12:5") && screen.contains(".rs:13:5"), "{screen}");
}

#[test]
fn small_screens_and_empty_states_are_drawn() {
    for (width, height) in [(1, 1), (20, 4), (80, 24)] {
        for mut state in [deadlocked(), State::new("127.0.0.1:7000".into())] {
            for pane in Pane::ALL {
                state.show(pane);
                let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
                terminal.draw(|frame| view::draw(frame, &mut state)).unwrap();
            }
        }
    }
}

#[test]
fn a_snapshot_is_fetched_from_a_server() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let server = std::thread::spawn(move || {
        for body in [deadlock_overview(), deadlock_tasks()] {
            let mut client = listener.accept().unwrap().0;
            let mut request = [0; 1024];
            let length = client.read(&mut request).unwrap();
            assert!(request[..length].starts_with(b"GET /api/v1/"));
            write!(client, "HTTP/1.1 200 OK\r\n\r\n{body}").unwrap();
        }
    });
    let url = format!("http://{address}/?token={}", "0".repeat(32));
    let text = once::snapshot(&PageUrl::parse(&url).unwrap()).unwrap();
    assert!(text.contains("stuck: 2 tasks can never run again"), "{text}");
    server.join().unwrap();
}
