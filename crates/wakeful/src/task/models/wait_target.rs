//! A loom model of a wait record: its task writes it, another thread detaches it, a third reads it.

use crate::task::poll_stamp::PollStamp;
use crate::task::wait_kind::WaitKind;
use crate::task::wait_record::{Link, LinkWord, RecordedWait, Wait, WaitRecord, WaitWriter};
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

/// Returns the targets of all waits of the record, and those among them that are linked.
fn targets(waiting: &WaitRecord) -> (Vec<WaitTarget>, Vec<WaitTarget>) {
    let (waits, _) = waiting.waits();
    let is_linked = |it: &&RecordedWait| it.link == Link::Direct;
    let target = |it: &RecordedWait| it.wait.target.target();
    (waits.iter().map(target).collect(), waits.iter().filter(is_linked).map(target).collect())
}

/// The task has waited for record 1. It then waits for the longest sleep, and for record 2, while
/// another thread removes its waiter from the list of record 1.
///
/// A reader sees only targets that were written, and a link only on targets that were linked. At
/// the end record 2 is linked, and record 1 is not.
#[test]
fn readers_see_only_written_targets() {
    loom::model(|| {
        let waiting = Arc::new(WaitRecord::nothing());
        let first = writer(&waiting).record_linked(wait(WaitKind::Mutex, record(1).linked()));
        let list = thread::spawn({
            let (waiting, first) = (waiting.clone(), SendLink(first.unwrap()));
            move || {
                let SendLink(first) = first;
                // SAFETY: the record is alive, and the link direct.
                unsafe { first.detach() };
                drop(waiting);
            }
        });
        let task = thread::spawn({
            let waiting = waiting.clone();
            move || {
                let far = TargetWord::of_tick(u64::MAX);
                writer(&waiting).record(wait(WaitKind::Sleep, far));
                writer(&waiting).record_linked(wait(WaitKind::Mutex, record(2).linked()));
            }
        });
        let far = WaitTarget::Number(TargetWord::MAX_NUMBER);
        let records = [record(1).target(), record(2).target()];
        let (read, linked) = targets(&waiting);
        assert!(linked.iter().all(|target| records.contains(target)), "{linked:?}");
        // A slot that is being written may still have no target.
        let known = [far, records[0], records[1], WaitTarget::Number(0)];
        assert!(read.iter().all(|target| known.contains(target)), "{read:?}");
        list.join().unwrap();
        task.join().unwrap();
        let (read, linked) = targets(&waiting);
        assert_eq!(linked, [record(2).target()]);
        assert!(read.contains(&far), "{read:?}");
    });
}

/// The task waits for records 1 and 2. Another thread removes the task's waiter from list 1.
/// Meanwhile the task waits for record 3 in its next poll, which may reuse the slot of record 1.
///
/// At the end exactly records 2 and 3 are linked: no link is lost, and none is left.
#[test]
fn a_slot_is_reused_only_when_its_link_is_removed() {
    loom::model(|| {
        let waiting = Arc::new(WaitRecord::nothing());
        writer(&waiting).record(wait(WaitKind::Sleep, TargetWord::of_tick(1)));
        let link = |index| {
            let wait = wait(WaitKind::Mutex, record(index).linked());
            writer(&waiting).record_linked(wait).expect("there is space")
        };
        let (first, _second) = (SendLink(link(1)), link(2));
        let list = thread::spawn({
            let waiting = waiting.clone();
            move || {
                let SendLink(first) = first;
                // SAFETY: the record is alive, and the link direct.
                unsafe { first.detach() };
                drop(waiting);
            }
        });
        let next = WaitWriter { waiting: &waiting, stamp: PollStamp::from_doubled(4) };
        next.record_linked(wait(WaitKind::Mutex, record(3).linked()));
        list.join().unwrap();
        let (_, mut linked) = targets(&waiting);
        linked.sort_by_key(|target| format!("{target:?}"));
        assert_eq!(linked, [record(2).target(), record(3).target()]);
    });
}

/// The task waits for record 1, yields, names a site, and waits for record 2, in two polls or in
/// one. Another thread removes its waiter from the list of record 1.
///
/// At the end record 2 is linked, and record 1 is not.
#[test]
fn a_yield_overwrites_no_link() {
    for next in [2, 4] {
        loom::model(move || {
            let waiting = Arc::new(WaitRecord::nothing());
            let first = writer(&waiting).record_linked(wait(WaitKind::Mutex, record(1).linked()));
            let list = thread::spawn({
                let (waiting, first) = (waiting.clone(), SendLink(first.unwrap()));
                move || {
                    let SendLink(first) = first;
                    // SAFETY: the record is alive, and the link direct.
                    unsafe { first.detach() };
                    drop(waiting);
                }
            });
            let next = WaitWriter { waiting: &waiting, stamp: PollStamp::from_doubled(next) };
            next.record_yield(Location::caller(), 0);
            next.set_site(Location::caller());
            next.record_linked(wait(WaitKind::Mutex, record(2).linked()));
            list.join().unwrap();
            assert_eq!(targets(&waiting).1, [record(2).target()]);
        });
    }
}

/// A task ends while another thread removes a waiter that it has left in a list.
#[test]
fn the_end_of_a_task_leaves_its_links_to_the_waiters() {
    loom::model(|| {
        let waiting = Arc::new(WaitRecord::nothing());
        let link = |index| {
            let wait = wait(WaitKind::Mutex, record(index).linked());
            SendLink(writer(&waiting).record_linked(wait).expect("there is space"))
        };
        let (first, second) = (link(1), link(2));
        let list = thread::spawn({
            let waiting = waiting.clone();
            move || {
                let SendLink(first) = first;
                // SAFETY: the record is alive, and the link direct.
                unsafe { first.detach() };
                drop(waiting);
            }
        });
        waiting.set_outcome(1);
        let SendLink(second) = second;
        // SAFETY: the record is alive.
        assert!(unsafe { second.has_direct(record(2).linked()) }, "its waiter is in the list");
        list.join().unwrap();
        assert_eq!(targets(&waiting), (vec![], vec![]));
    });
}

/// A link word that may move to another thread of the model.
struct SendLink(LinkWord);

// SAFETY: the word is an atomic, in a record that the threads share or in a set.
unsafe impl Send for SendLink {}

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
        assert_eq!(targets(&waiting).1, []);
    });
}
