//! Requests the visible part of the state from the page, in a thread of its own.

use super::details::Details;
use super::model::{Group, Overview, Rows, Task};
use crate::Failure;
use crate::page::client::{PageUrl, encode};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread;
use std::time::Duration;

/// The time between two requests for the same state.
const STEP: Duration = Duration::from_secs(1);

/// The part of the state to request, in addition to the overview.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request {
    Overview,
    /// Tasks, with the parameters of the request.
    Tasks(String),
    /// Groups, with the parameters of the request.
    Groups(String),
    Task {
        runtime: u64,
        key: String,
    },
}

/// The answer to a [`Request`].
#[derive(Debug)]
pub enum Answer {
    Overview,
    Tasks(Rows<Task>),
    Groups(Rows<Group>),
    Task(Box<Details>),
}

/// A request and its result.
#[derive(Debug)]
pub struct Update {
    pub request: Request,
    pub result: Result<(Overview, Answer), Failure>,
}

/// Sends a request and waits for its answer.
pub fn fetch(page: &PageUrl, request: &Request) -> Result<(Overview, Answer), Failure> {
    let overview = Overview::read(&page.get("overview")?);
    let answer = match request {
        Request::Overview => Answer::Overview,
        Request::Tasks(parameters) => {
            Answer::Tasks(Rows::read(&page.get(&format!("tasks?{parameters}"))?, Task::read))
        }
        Request::Groups(parameters) => {
            Answer::Groups(Rows::read(&page.get(&format!("groups?{parameters}"))?, Group::read))
        }
        Request::Task { runtime, key } => {
            let path = format!("task?runtime={runtime}&task={}", encode(key));
            Answer::Task(Box::new(Details::read(&page.get(&path)?)))
        }
    };
    Ok((overview, answer))
}

/// An instruction to the thread.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Order {
    pub request: Request,
    /// Request it only once.
    pub is_paused: bool,
}

/// Starts a thread that executes the latest order once a second. The thread ends when the sender is dropped.
pub fn start(page: PageUrl, first: Order) -> (Sender<Order>, Receiver<Update>) {
    let (orders, inbox) = mpsc::channel();
    let (outbox, updates) = mpsc::channel();
    thread::spawn(move || repeat(&page, first, &inbox, &outbox));
    (orders, updates)
}

fn repeat(page: &PageUrl, mut order: Order, inbox: &Receiver<Order>, outbox: &Sender<Update>) {
    loop {
        let result = fetch(page, &order.request);
        if outbox.send(Update { request: order.request.clone(), result }).is_err() {
            return;
        }
        let next = match order.is_paused {
            true => inbox.recv().map_err(|_| RecvTimeoutError::Disconnected),
            false => inbox.recv_timeout(STEP),
        };
        match next {
            // Only the last order counts: a user who types a filter gives one with each key.
            Ok(next) => order = inbox.try_iter().last().unwrap_or(next),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return,
        }
    }
}
