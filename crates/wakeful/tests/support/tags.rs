//! Task data for tests: a tag that logs its events.
#![allow(dead_code, reason = "each test binary uses its own part of this")]

use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::thread::{self, ThreadId};

use wakeful::inspect::TaskInfo;
use wakeful::runtime::{Builder, Runtime, SpawnMeta, TaskData};

use super::runtimes::serial_builders;

/// Returns builders with one thread, one worker, and several workers between which tasks move.
pub fn builders() -> Vec<Builder> {
    let mut builders: Vec<Builder> = serial_builders().into_iter().map(|(_, it)| it).collect();
    let mut several = Builder::new_multi_thread();
    several.worker_threads(3);
    builders.push(several);
    builders
}

/// An event of a tag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    Enter,
    Exit,
    End,
    Drop,
    /// The future was polled or dropped.
    Future,
}

/// The events of all tags of a test, each with the number of the tag and the thread.
#[derive(Clone, Default)]
pub struct Log(pub Arc<Mutex<Vec<(usize, Event, ThreadId)>>>);

impl Log {
    pub fn add(&self, number: usize, event: Event) {
        self.0.lock().unwrap().push((number, event, thread::current().id()));
    }

    pub fn of(&self, number: usize) -> Vec<Event> {
        let events = self.0.lock().unwrap();
        events.iter().filter(|it| it.0 == number).map(|it| it.1).collect()
    }

    pub fn all(&self) -> Vec<(usize, Event)> {
        self.0.lock().unwrap().iter().map(|it| (it.0, it.1)).collect()
    }
}

pub struct Tag {
    pub number: usize,
    pub log: Log,
}

impl fmt::Display for Tag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "tag {}", self.number)
    }
}

impl TaskData for Tag {
    fn enter(&self) {
        self.log.add(self.number, Event::Enter);
    }

    fn exit(&self) {
        self.log.add(self.number, Event::Exit);
    }

    fn end(&self) {
        self.log.add(self.number, Event::End);
    }
}

impl Drop for Tag {
    fn drop(&mut self) {
        self.log.add(self.number, Event::Drop);
    }
}

/// Returns a hook that tags each task with the next number, from 1 on.
pub fn tagging(log: &Log) -> impl Fn(&mut SpawnMeta<'_>) + Send + Sync + 'static {
    let (log, last) = (log.clone(), AtomicUsize::new(0));
    move |task| {
        let number = last.fetch_add(1, SeqCst) + 1;
        task.set_data(Arc::new(Tag { number, log: log.clone() }));
    }
}

/// Builds a runtime of each kind whose tasks are tagged.
pub fn tagged() -> Vec<(Runtime, Log)> {
    builders()
        .into_iter()
        .map(|mut builder| {
            let log = Log::default();
            (builder.on_spawn(tagging(&log)).on_report(|_| {}).build().unwrap(), log)
        })
        .collect()
}

/// A value that logs an event when it is dropped.
pub struct DropLogger(pub usize, pub Log);

impl Drop for DropLogger {
    fn drop(&mut self) {
        self.1.add(self.0, Event::Future);
    }
}

pub fn number_of(info: &TaskInfo) -> Option<usize> {
    info.data::<Tag>().map(|tag| tag.number)
}
