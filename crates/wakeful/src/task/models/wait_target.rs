//! A model of a wait record: its task writes it, another thread detaches it, a third reads it.

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

fn writer(waiting: &WaitRecord) -> WaitWriter<'_> {
    WaitWriter { waiting, stamp: POLL }
}

fn record(index: u64) -> TargetWord {
    TargetWord::of_record(RecordIndex(index))
}

/// The task has waited for record 1. It then waits for the longest sleep, and for record 2, while
/// another thread removes its waiter from the list of record 1.
///
/// A reader sees only targets that were written, and a link only where one was attached. At the end
/// nothing is linked to record 1.
#[test]
fn readers_see_only_written_targets() {
    loom::model(|| {
        let waiting = Arc::new(WaitRecord::nothing());
        writer(&waiting).record_linked(wait(WaitKind::Mutex, record(1).linked()));
        let list = thread::spawn({
            let waiting = waiting.clone();
            move || waiting.detach()
        });
        let task = thread::spawn({
            let waiting = waiting.clone();
            move || {
                let far = TargetWord::of_tick(u64::MAX);
                writer(&waiting).record(wait(WaitKind::Sleep, far));
                writer(&waiting).record_linked(wait(WaitKind::Mutex, record(2).linked()));
            }
        });
        let numbers = [WaitTarget::Number(TargetWord::MAX_NUMBER)];
        let records = [record(1).target(), record(2).target()];
        let linked = waiting.linked_target();
        assert!(linked.is_none_or(|target| records.contains(&target)), "{linked:?}");
        let read = waiting.read().expect("a wait is always recorded").target;
        assert!(!read.is_linked());
        let target = read.target();
        assert!(records.contains(&target) || numbers.contains(&target), "{target:?}");
        list.join().unwrap();
        task.join().unwrap();
        let left = waiting.linked_target();
        assert!(left.is_none_or(|target| target == record(2).target()), "{left:?}");
    });
}

/// Two threads detach while the task records a number. The number is not linked.
#[test]
fn detaching_makes_no_link() {
    loom::model(|| {
        let waiting = Arc::new(WaitRecord::nothing());
        writer(&waiting).record_linked(wait(WaitKind::Mutex, record(1).linked()));
        let lists = [(); 2].map(|()| {
            let waiting = waiting.clone();
            thread::spawn(move || waiting.detach())
        });
        writer(&waiting).record(wait(WaitKind::Sleep, TargetWord::of_tick(u64::MAX)));
        lists.into_iter().for_each(|list| list.join().unwrap());
        assert_eq!(waiting.linked_target(), None);
    });
}
