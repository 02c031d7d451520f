//! Details of a wait that only the waiting future knows: where a channel was made, how many senders
//! are alive, how many permits are missing.
//!
//! Other threads must not read a channel, which may already be freed. So the deadlock scanner asks:
//! it sets a flag and wakes the waiter. The next poll of the future finds the flag, and stores the
//! text. The scanner asks only if no code of the process can run, so this is the last poll.
//!
//! The flag is a hint. A future that does not see it gives no details.

use crate::sys::sync::ignore_poison;
use crate::task::context;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant};

/// A waiter is asked for details, and has not answered yet.
static ASKED: AtomicBool = AtomicBool::new(false);

/// What the scanner asked, by the number of the waiter.
static QUESTIONS: Mutex<BTreeMap<u64, Question>> = Mutex::new(BTreeMap::new());

/// Questions that are older are forgotten: the waiter has gone on after all.
const EXPIRES_AFTER: Duration = Duration::from_secs(10);

/// A question to one waiter.
struct Question {
    asked_at: Instant,
    /// The poll counter of the waiter when the scanner found it again after the question.
    polls: Option<u32>,
    answer: Answer,
}

/// What a waiter told about its wait.
#[derive(Clone, Debug)]
pub(crate) struct Answer {
    /// When its wait began. The poll that answers begins a new one.
    pub(crate) since_ms: u32,
    /// The details. `None` if its future gave none.
    pub(crate) details: Option<String>,
}

impl Question {
    fn is_open(&self) -> bool {
        self.polls.is_none() && self.answer.details.is_none()
    }
}

fn lock() -> MutexGuard<'static, BTreeMap<u64, Question>> {
    ignore_poison(QUESTIONS.lock())
}

/// Gives details of the wait that the current task has just recorded, if they are asked for.
#[inline]
pub(crate) fn describe_wait(details: impl FnOnce() -> String) {
    if ASKED.load(Relaxed) {
        answer(details);
    }
}

#[cold]
fn answer(details: impl FnOnce() -> String) {
    let mut questions = lock();
    if let Some(question) = questions.get_mut(&context::current_id()) {
        question.answer.details = Some(details());
    }
    forget_old(&mut questions);
}

fn forget_old(questions: &mut BTreeMap<u64, Question>) {
    questions
        .retain(|_, question| !question.is_open() || question.asked_at.elapsed() < EXPIRES_AFTER);
    ASKED.store(questions.values().any(Question::is_open), Relaxed);
}

/// Asks a waiter for the details of its wait.
///
/// Returns the answer if the waiter was asked before, in this wait. Otherwise the caller wakes the
/// waiter, and asks again later. `polls` is the waiter's poll counter.
pub(crate) fn ask(waiter: u64, polls: u32, since_ms: u32) -> Option<Answer> {
    let mut questions = lock();
    let answer = match questions.get_mut(&waiter) {
        Some(question) if question.polls.is_none_or(|then| then == polls) => {
            question.polls = Some(polls);
            Some(question.answer.clone())
        }
        _ => {
            let answer = Answer { since_ms, details: None };
            questions.insert(waiter, Question { asked_at: Instant::now(), polls: None, answer });
            None
        }
    };
    forget_old(&mut questions);
    answer
}

/// Writes "1 sender is alive" or "2 senders are alive".
pub(crate) fn senders_alive(senders: usize) -> String {
    match senders {
        0 => "no sender is alive".to_owned(),
        1 => "1 sender is alive".to_owned(),
        _ => format!("{senders} senders are alive"),
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::{ask, describe_wait, senders_alive};
    use crate::task::context;

    #[test]
    fn only_the_asked_waiter_answers() {
        const NUMBER: u64 = 1 << 50;
        assert!(ask(NUMBER, 1, 7).is_none());
        let _other = context::enter_id(NUMBER + 1);
        describe_wait(|| panic!("another waiter was asked"));
        let _asked = context::enter_id(NUMBER);
        describe_wait(|| senders_alive(1));
        for _ in 0..2 {
            let answer = ask(NUMBER, 2, 9).expect("it was asked before");
            assert_eq!(answer.details.as_deref(), Some("1 sender is alive"));
            assert_eq!(answer.since_ms, 7);
        }
        assert!(ask(NUMBER, 3, 9).is_none(), "it has been polled since: another wait");
        let texts = [senders_alive(0), senders_alive(2)];
        assert_eq!(texts, ["no sender is alive", "2 senders are alive"]);
    }
}
