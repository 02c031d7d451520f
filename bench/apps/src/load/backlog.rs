//! The open loop without its clock and its sockets: requests that are due, and their latencies.
//!
//! A request that is due waits here until a connection is free. Its latency counts from the time at which it was
//! due, not from the time at which it was sent.

use std::collections::VecDeque;

use super::histogram::Histogram;
use super::schedule::Schedule;

/// Requests of a schedule, from due to answered.
pub struct Backlog {
    schedule: Schedule,
    /// When the requests that wait for a connection were due, the oldest first.
    waiting: VecDeque<u64>,
    in_flight: u64,
    latencies: Histogram,
    /// How late requests were sent.
    lags: Histogram,
    unanswered: u64,
}

/// What an open loop has measured.
#[derive(Debug)]
pub struct Measured {
    /// From the time at which a request was due to its answer, in nanoseconds.
    pub latencies: Histogram,
    /// From the time at which a request was due to its sending, in nanoseconds.
    pub lags: Histogram,
    /// Requests without an answer. They are in the latencies, with the time that they had waited at the end.
    pub unanswered: u64,
}

impl Backlog {
    pub fn new(schedule: Schedule) -> Self {
        Self {
            schedule,
            waiting: VecDeque::new(),
            in_flight: 0,
            latencies: Histogram::default(),
            lags: Histogram::default(),
            unanswered: 0,
        }
    }

    /// Takes over the requests that are due by now.
    pub fn advance(&mut self, now_ns: u64) {
        while self.schedule.peek_ns().is_some_and(|due_ns| due_ns <= now_ns) {
            self.waiting.extend(self.schedule.next());
        }
    }

    /// Takes the oldest waiting request, which the caller sends now. Returns the time at which it was due.
    pub fn take(&mut self, now_ns: u64) -> Option<u64> {
        let due_ns = self.waiting.pop_front()?;
        self.lags.record(now_ns.saturating_sub(due_ns));
        self.in_flight += 1;
        Some(due_ns)
    }

    /// Records the answer to a request that was due at `due_ns`.
    pub fn complete(&mut self, due_ns: u64, now_ns: u64) {
        self.in_flight -= 1;
        self.latencies.record(now_ns.saturating_sub(due_ns));
    }

    /// Records a request in flight that has no answer at the end.
    pub fn give_up(&mut self, due_ns: u64, now_ns: u64) {
        self.unanswered += 1;
        self.complete(due_ns, now_ns);
    }

    /// When the next request of the schedule is due; none after its end.
    pub fn next_due_ns(&self) -> Option<u64> {
        self.schedule.peek_ns()
    }

    /// Whether every request of the schedule has its answer.
    pub fn is_done(&self) -> bool {
        self.next_due_ns().is_none() && self.waiting.is_empty() && self.in_flight == 0
    }

    /// Ends the loop. Requests that were never sent count as unanswered.
    pub fn finish(mut self, now_ns: u64) -> Measured {
        for due_ns in self.waiting {
            self.unanswered += 1;
            self.latencies.record(now_ns.saturating_sub(due_ns));
        }
        Measured { latencies: self.latencies, lags: self.lags, unanswered: self.unanswered }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    /// Runs a schedule of one second in virtual time, against one connection. The server answers a request after 0.1
    /// ms, but answers nothing from `stall` on until its end.
    fn run(stall_ms: std::ops::Range<u64>) -> Measured {
        let mut backlog = Backlog::new(Schedule::new(1000.0, 1.0));
        let stalled = stall_ms.start * MS..stall_ms.end * MS;
        let mut now_ns = 0;
        for _ in 0..1_000_000 {
            backlog.advance(now_ns);
            if let Some(due_ns) = backlog.take(now_ns) {
                now_ns += MS / 10;
                if stalled.contains(&now_ns) {
                    now_ns = stalled.end;
                }
                backlog.complete(due_ns, now_ns);
            } else if let Some(due_ns) = backlog.next_due_ns() {
                now_ns = due_ns;
            } else {
                break;
            }
        }
        assert!(backlog.is_done());
        backlog.finish(now_ns)
    }

    #[test]
    fn without_a_stall_no_request_waits_long() {
        let measured = run(0..0);
        assert!(measured.latencies.quantile(1.0) < 2 * MS, "{measured:?}");
        assert!(measured.latencies.quantile(0.0) >= MS / 10);
        assert_eq!(measured.unanswered, 0);
    }

    /// The server stalls for half of the time. Half of the requests are due meanwhile, and all of them are late, though
    /// the one connection has only one request in flight.
    #[test]
    fn a_stall_shows_in_all_requests_that_were_due_meanwhile() {
        let measured = run(200..700);
        let total = Schedule::new(1000.0, 1.0).count() as f64;
        assert_eq!(measured.latencies.count() as f64, total);
        // A request that was due at the time t of the stall waits for at least 700 ms - t.
        for (latency_ms, due_by_ms) in [(400, 300), (250, 450), (100, 600)] {
            let due = Schedule::new(1000.0, 1.0)
                .filter(|due_ns| (200 * MS..due_by_ms * MS).contains(due_ns))
                .count() as f64;
            // The bucket of a latency is at most one percent wide.
            let at_most = measured.latencies.quantile(1.0 - due / total) + latency_ms * MS / 100;
            assert!(at_most >= latency_ms * MS, "{due} requests, {at_most} ns");
        }
        assert!(measured.lags.quantile(1.0) > 450 * MS, "they were sent late");
    }

    #[test]
    fn requests_without_an_answer_are_counted_with_their_wait() {
        let mut backlog = Backlog::new(Schedule::new(100.0, 1.0));
        let total = Schedule::new(100.0, 1.0).count() as u64;
        backlog.advance(1000 * MS);
        let due_ns = backlog.take(1000 * MS).expect("a request is due");
        assert!(!backlog.is_done());
        backlog.give_up(due_ns, 3000 * MS);
        let measured = backlog.finish(3000 * MS);
        assert_eq!((measured.unanswered, measured.latencies.count()), (total, total));
        assert!(measured.latencies.quantile(0.0) >= 2000 * MS);
    }
}
