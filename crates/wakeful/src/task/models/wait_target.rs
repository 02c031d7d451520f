//! A wait record is written by its task and detached by the thread that takes the task's waiter
//! off a list, while another thread reads it.

use crate::task::poll_stamp::PollStamp;
use crate::task::wait_kind::WaitKind;
use crate::task::wait_record::{Wait, WaitRecord, WaitWriter};
use crate::task::wait_target::{RecordIndex, TargetWord, WaitTarget};
use loom::sync::Arc;
use loom::thread;
use std::panic::Location;

const POLL: PollStamp = PollStamp::from_doubled(2);

fn wait(kind: WaitKind, target: TargetWord) -> Wait {
    Wait { kind, target, site: Location::caller(), since_ms: 0 }
}

fn wait_writer(waiting: &WaitRecord) -> WaitWriter<'_> {
    WaitWriter { waiting, stamp: POLL }
}

fn record(index: u64) -> TargetWord {
    TargetWord::of_record(RecordIndex(index))
}

/// The task has waited for record 1. It goes on to the longest sleep there is, and to record 2,
/// while the list of record 1 lets go of its waiter. A reader sees targets that were written, and
/// a link only where one was attached. At the end nothing leads to record 1.
#[test]
fn a_reader_sees_only_what_was_written() {
    loom::model(|| {
        let waiting = Arc::new(WaitRecord::nothing());
        slot(&waiting).record_linked(wait(WaitKind::Mutex, record(1).linked()));
        let list = thread::spawn({
            let waiting = waiting.clone();
            move || waiting.detach()
        });
        let task = thread::spawn({
            let waiting = waiting.clone();
            move || {
                let far = TargetWord::of_tick(u64::MAX);
                slot(&waiting).record(wait(WaitKind::Sleep, far));
                slot(&waiting).record_linked(wait(WaitKind::Mutex, record(2).linked()));
            }
        });
        let numbers = [WaitTarget::Number(TargetWord::MAX_NUMBER)];
        let records = [record(1).target(), record(2).target()];
        let linked = waiting.linked_target();
        assert!(linked.is_none_or(|target| records.contains(&target)), "{linked:?}");
        let read = waiting.read().expect("something is always recorded").target;
        assert!(!read.is_linked());
        let target = read.target();
        assert!(records.contains(&target) || numbers.contains(&target), "{target:?}");
        list.join().unwrap();
        task.join().unwrap();
        let left = waiting.linked_target();
        assert!(left.is_none_or(|target| target == record(2).target()), "{left:?}");
    });
}

/// The task is done with record 1 before the list lets go of the waiter of record 2: a number that
/// was recorded last is not linked by either.
#[test]
fn detaching_makes_no_link() {
    loom::model(|| {
        let waiting = Arc::new(WaitRecord::nothing());
        slot(&waiting).record_linked(wait(WaitKind::Mutex, record(1).linked()));
        let lists = [(); 2].map(|()| {
            let waiting = waiting.clone();
            thread::spawn(move || waiting.detach())
        });
        slot(&waiting).record(wait(WaitKind::Sleep, TargetWord::of_tick(u64::MAX)));
        lists.into_iter().for_each(|list| list.join().unwrap());
        assert_eq!(waiting.linked_target(), None);
    });
}
