//! Details of a wait that only the waiting future knows, such as the number of live senders.
//!
//! Other threads must not read a channel, which may already be freed. So the deadlock scanner asks
//! the waiter: it sets a flag and wakes the waiter. The future's next poll finds the flag and
//! stores the details as text. The scanner asks only if no code of the process can run, so this
//! poll is the last.
//!
//! The flag is a hint: a future that misses it gives no details.
//!
//! A question refers to one wait. Each thread has one id for all its `block_on` futures, so the
//! question also identifies the call of `block_on`. The details are valid only if the waiter gave
//! them in its last poll. There are at most [`MAX_QUESTIONS`] questions; a new one replaces the
//! oldest.

use crate::sys::real_time;
use crate::sys::sync::ignore_poison;
use crate::task::context;
use crate::task::poll_stamp::PollStamp;
use crate::task::wait_record::Wait;
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{LazyLock, Mutex, MutexGuard};
use std::time::{Duration, Instant};

/// Whether at least one question is open: neither answered nor expired.
static ASKED: AtomicBool = AtomicBool::new(false);

/// The questions of the scanner, by the id of the waiter.
static QUESTIONS: LazyLock<Mutex<HashMap<u64, Question>>> = LazyLock::new(Mutex::default);

/// The time after which a question expires, if the scanner has not read the answer.
///
/// Then the waiter has stopped waiting after all. The time is real time, because an open question
/// only makes polls slower.
const EXPIRES_AFTER: Duration = Duration::from_secs(10);

/// The maximum number of stored questions, answered or not.
const MAX_QUESTIONS: usize = 1024;

/// A wait that the scanner has observed.
#[derive(Clone, Copy)]
pub(crate) struct ObservedWait {
    /// The id of the task or `block_on` future.
    pub(crate) waiter: u64,
    /// The number of the thread's `block_on` call; 0 for a task.
    pub(crate) call: u32,
    pub(crate) polls: u32,
    /// The stamp of the last poll.
    pub(crate) stamp: PollStamp,
    pub(crate) wait: Wait,
}

/// A question to one waiter.
struct Question {
    asked_at: Instant,
    /// The wait that the question refers to.
    observed: ObservedWait,
    /// The details, and the poll that gave them.
    details: Option<(PollStamp, String)>,
    /// The answer that the scanner has read, and the waiter's number of polls at that time.
    answered: Option<(u32, Answer)>,
}

/// The answer of a waiter about its wait.
#[derive(Clone, Debug)]
pub(crate) struct Answer {
    /// When the wait began, because the poll that answers starts a new wait.
    pub(crate) since_ms: u32,
    /// The details; `None` if the future gave none.
    pub(crate) details: Option<String>,
}

impl Question {
    fn new(observed: &ObservedWait) -> Self {
        Self { asked_at: real_time::now(), observed: *observed, details: None, answered: None }
    }

    fn is_open(&self) -> bool {
        self.answered.is_none()
            && real_time::now().saturating_duration_since(self.asked_at) < EXPIRES_AFTER
    }

    /// Returns the answer for the wait observed now, or `None` if the question referred to another
    /// wait.
    fn answer(&mut self, now: &ObservedWait) -> Option<Answer> {
        if self.observed.call != now.call {
            return None;
        }
        if let Some((polls, answer)) = &self.answered {
            return (*polls == now.polls).then(|| answer.clone());
        }
        let is_last = |(poll, _): &(PollStamp, String)| poll.same_poll(now.stamp);
        let details = self.details.take().filter(is_last).map(|(_, details)| details);
        // Exactly one poll followed the question, and that poll began the same wait again.
        let (then, wait) = (&self.observed.wait, &now.wait);
        let is_same_wait = now.polls == self.observed.polls.wrapping_add(1)
            && (then.kind, then.target) == (wait.kind, wait.target)
            && std::ptr::eq(then.site, wait.site);
        let since_ms = if is_same_wait { then.since_ms } else { wait.since_ms };
        let answer = Answer { since_ms, details };
        self.answered = Some((now.polls, answer.clone()));
        Some(answer)
    }
}

fn lock() -> MutexGuard<'static, HashMap<u64, Question>> {
    ignore_poison(QUESTIONS.lock())
}

/// Returns whether any question is open, for this task or another.
#[inline]
pub(crate) fn has_open_question() -> bool {
    ASKED.load(Relaxed)
}

/// Stores details of the wait that the current task just recorded, if the scanner asked for them.
#[inline]
pub(crate) fn describe_wait(details: impl FnOnce() -> String) {
    if has_open_question() {
        describe_slow(details);
    }
}

#[cold]
fn describe_slow(details: impl FnOnce() -> String) {
    if let Some(poll) = context::current_poll() {
        describe_in(context::current_id(), poll, details);
    }
}

fn describe_in(waiter: u64, poll: PollStamp, details: impl FnOnce() -> String) {
    let mut questions = lock();
    if let Some(question) = questions.get_mut(&waiter).filter(|question| question.is_open()) {
        question.details = Some((poll, details()));
    }
    update_flag(&questions);
}

fn update_flag(questions: &HashMap<u64, Question>) {
    ASKED.store(questions.values().any(Question::is_open), Relaxed);
}

/// Asks a waiter for the details of its wait.
///
/// Returns the answer if the waiter was already asked in this wait. Otherwise the caller must wake
/// the waiter, and ask again later.
pub(crate) fn ask(wait: &ObservedWait) -> Option<Answer> {
    let mut questions = lock();
    let known = questions.get_mut(&wait.waiter);
    let answer = known.and_then(|question| question.answer(wait));
    if answer.is_none() {
        questions.insert(wait.waiter, Question::new(wait));
        if questions.len() > MAX_QUESTIONS
            && let Some((&oldest, _)) =
                questions.iter().min_by_key(|(_, question)| question.asked_at)
        {
            questions.remove(&oldest);
        }
    }
    update_flag(&questions);
    answer
}

/// Returns "1 sender is alive", "2 senders are alive", and so on.
pub(crate) fn senders_alive(senders: usize) -> String {
    match senders {
        0 => "no sender is alive".to_owned(),
        1 => "1 sender is alive".to_owned(),
        _ => format!("{senders} senders are alive"),
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::task::wait_kind::WaitKind;
    use crate::task::wait_target::TargetWord;
    use std::panic::Location;

    fn observed(waiter: u64, call: u32, polls: u32) -> ObservedWait {
        let (kind, site) = (WaitKind::MpscRecv, Location::caller());
        let wait = Wait { kind, target: TargetWord::NONE, site, since_ms: 10 * polls };
        ObservedWait { waiter, call, polls, stamp: PollStamp::from_doubled(2 * polls), wait }
    }

    /// Gives details as the waiter would in its poll with this number.
    fn describe(waiter: u64, polls: u32, details: &str) {
        assert!(ASKED.load(Relaxed), "a question is open");
        describe_in(waiter, PollStamp::from_doubled(2 * polls), || details.to_owned());
    }

    // A single test, because a test that asks many questions removes the questions of others.
    #[test]
    fn the_answer_is_that_of_the_asked_wait() {
        const NUMBER: u64 = 1 << 50;
        let answer_to = |observed: &ObservedWait| {
            let answer = ask(observed).expect("it was asked before");
            (answer.details, answer.since_ms)
        };
        assert!(ask(&observed(NUMBER, 0, 1)).is_none());
        describe_in(NUMBER + 1, PollStamp::from_doubled(4), || panic!("another waiter was asked"));
        describe(NUMBER, 2, "1 sender is alive");
        for _ in 0..2 {
            assert_eq!(
                answer_to(&observed(NUMBER, 0, 2)),
                (Some("1 sender is alive".to_owned()), 10)
            );
        }
        assert!(ask(&observed(NUMBER, 0, 3)).is_none(), "it was polled since: another wait");

        // The waiter has answered, and then started another wait, which gave no details.
        describe(NUMBER, 4, "1 sender is alive");
        assert_eq!(answer_to(&observed(NUMBER, 0, 5)), (None, 50));

        // The thread has left its `block_on`, and calls it again. The number is the same.
        let thread = NUMBER + 2;
        assert!(ask(&observed(thread, 1, 1)).is_none());
        describe(thread, 2, "1 sender is alive");
        assert!(ask(&observed(thread, 2, 2)).is_none(), "another block_on");
        describe(thread, 3, "no sender is alive");
        assert_eq!(answer_to(&observed(thread, 2, 3)), (Some("no sender is alive".to_owned()), 20));

        for number in 1..=2 * MAX_QUESTIONS as u64 {
            assert!(ask(&observed(NUMBER + 2 + number, 0, 1)).is_none());
            assert!(lock().len() <= MAX_QUESTIONS, "{number}");
        }
        assert!(ask(&observed(thread, 2, 3)).is_none(), "forgotten");
    }

    #[test]
    fn senders_are_counted_in_words() {
        let texts = [senders_alive(0), senders_alive(1), senders_alive(2)];
        assert_eq!(texts, ["no sender is alive", "1 sender is alive", "2 senders are alive"]);
    }
}
