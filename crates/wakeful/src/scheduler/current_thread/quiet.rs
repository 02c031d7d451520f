//! Station 6, current-thread: when the thread that runs the tasks has had nothing to do
//! for a while, it is looked who waits for whom. (A multi-thread runtime has its monitor
//! for that.)
//!
//! The time is told by a limit of the sleep, or, in a poller, by its alarm, which stays
//! set over many short sleeps: what ran meanwhile is noted, and if something did when it
//! rings, it is set again.

use crate::driver::poller::Poller;
use crate::telemetry::scan_gate::{MOST_PATIENCE, PATIENCE, ScanGate};
use std::cell::Cell;
use std::sync::Arc;
use std::time::Duration;

/// How long nothing happens before it is looked for the first time,
const QUIET: Duration = Duration::from_millis(100);
/// and at least so many times as long as the last look took: what becomes ready meanwhile
/// has to wait for it.
const SHARE: u32 = 100;

/// Plain cells of the thread that runs the tasks, but for the first.
pub(crate) struct Quiet {
    /// Over, if it was looked since something last ran, here or elsewhere.
    pub(crate) vigil: ScanGate,
    /// The poller's alarm is set.
    alarm_set: Cell<bool>,
    /// Something ran since.
    stirred: Cell<bool>,
    /// How long nothing happens before it is looked.
    period: Cell<Duration>,
    /// How long it is not looked again, if it is to be.
    patience: Cell<Option<Duration>>,
}

impl Quiet {
    pub(crate) fn new() -> Self {
        Self {
            vigil: ScanGate::new(false),
            alarm_set: Cell::new(false),
            stirred: Cell::new(false),
            period: Cell::new(QUIET),
            patience: Cell::new(None),
        }
    }

    /// Something runs.
    #[inline]
    pub(crate) fn stir(&self) {
        self.vigil.go_on();
        self.stirred.set(true);
    }

    /// For how long to sleep, at most `limit`, in this poller if there is one.
    #[inline]
    pub(crate) fn limit(
        &self,
        poller: Option<&Arc<Poller>>,
        limit: Option<Duration>,
    ) -> Option<Duration> {
        if self.vigil.is_over() {
            return limit.into_iter().chain(self.patience.get()).min();
        }
        self.patience.set(None);
        let period = self.period.get();
        if limit.is_some_and(|limit| limit <= period) {
            return limit;
        }
        let is_told = poller.is_some_and(|poller| {
            // It may have rung while there was something to do.
            let is_set = self.alarm_set.get() && !poller.has_rung();
            is_set || self.set_alarm(poller)
        });
        if is_told { limit } else { Some(period) }
    }

    #[cold]
    fn set_alarm(&self, poller: &Poller) -> bool {
        let is_set = poller.set_alarm(self.period.get());
        self.alarm_set.set(is_set);
        self.stirred.set(false);
        is_set
    }

    /// After a sleep with this limit in this poller: whether it told of a quiet time.
    #[inline]
    pub(crate) fn is_over(&self, poller: Option<&Arc<Poller>>, limit: Option<Duration>) -> bool {
        let has_rung = poller.is_some_and(|poller| poller.has_rung());
        if has_rung {
            self.alarm_set.set(false);
        }
        // Whoever was roused has a new period before it.
        let is_patience_over =
            limit.is_some() && limit == self.patience.get() && self.vigil.is_over();
        let is_limit_ours = limit == Some(self.period.get()) || is_patience_over;
        is_limit_ours || (has_rung && !self.stirred.get())
    }

    /// It was looked, since there were so many ends elsewhere, and took so long. Once is enough, as
    /// a rule: the next sleep is as long as it can be. If it is to be looked `again`, that is
    /// after a while.
    pub(crate) fn has_looked(&self, ends: u64, took: Duration, again: bool) {
        self.period.set(QUIET.max(took * SHARE));
        let patience = self.patience.get().map_or(PATIENCE, |last| MOST_PATIENCE.min(last * 2));
        self.patience.set(again.then(|| patience.max(took * SHARE)));
        self.vigil.rest(ends);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::{QUIET, Quiet};
    use crate::driver::poller::{EventLimits, Poller};
    use std::sync::Arc;
    use std::time::Duration;

    const SHORT: Duration = Duration::from_millis(1);
    const LONG: Duration = Duration::from_secs(60);

    #[test]
    fn a_plain_sleep_is_limited_until_it_was_looked() {
        let quiet = Quiet::new();
        assert_eq!(quiet.limit(None, None), Some(QUIET));
        assert_eq!(quiet.limit(None, Some(SHORT)), Some(SHORT));
        assert_eq!(quiet.limit(None, Some(LONG)), Some(QUIET));
        assert!(quiet.is_over(None, Some(QUIET)) && !quiet.is_over(None, Some(SHORT)));
        quiet.has_looked(0, Duration::ZERO, false);
        assert_eq!(quiet.limit(None, None), None);
        quiet.stir();
        assert_eq!(quiet.limit(None, None), Some(QUIET));
    }

    #[test]
    fn who_may_be_helped_by_others_is_looked_at_again_after_longer_and_longer() {
        let quiet = Quiet::new();
        let sleeps = [1, 2, 4, 8, 16, 32, 60, 60].map(Duration::from_secs);
        for sleep in sleeps {
            quiet.has_looked(0, Duration::ZERO, true);
            assert_eq!(quiet.limit(None, None), Some(sleep));
            assert_eq!(quiet.limit(None, Some(SHORT)), Some(SHORT));
            assert!(quiet.is_over(None, Some(sleep)) && !quiet.is_over(None, Some(SHORT)));
        }
        assert!(quiet.vigil.end() && quiet.vigil.rouse());
        assert!(!quiet.is_over(None, Some(sleeps[7])), "it was roused");
        assert_eq!(quiet.limit(None, None), Some(QUIET));
        quiet.has_looked(1, Duration::ZERO, true);
        assert_eq!(quiet.limit(None, None), Some(sleeps[0]));
        quiet.vigil.end();
        quiet.has_looked(1, Duration::ZERO, false);
        assert_eq!(quiet.limit(None, None), Some(QUIET), "something ended meanwhile");
    }

    /// Sleeps until the alarm rings, as the scheduler does.
    fn sleep(quiet: &Quiet, poller: &Arc<Poller>) -> bool {
        let limit = quiet.limit(Some(poller), Some(LONG));
        poller.poll(limit);
        quiet.is_over(Some(poller), limit)
    }

    #[test]
    fn in_a_poller_an_alarm_tells_of_it() {
        let poller = Arc::new(Poller::new(EventLimits::default()).expect("there are pollers"));
        let quiet = Quiet::new();
        assert_eq!(quiet.limit(Some(&poller), None), None, "the alarm is set instead");
        quiet.stir();
        assert!(!sleep(&quiet, &poller), "something ran since it was set");
        assert!(sleep(&quiet, &poller), "nothing ran");
        quiet.has_looked(0, Duration::ZERO, false);
        // Set again, it rings at a busy moment: the next sleep must not rely on it.
        quiet.stir();
        assert_eq!(quiet.limit(Some(&poller), None), None);
        quiet.stir();
        poller.poll(Some(LONG));
        assert!(sleep(&quiet, &poller), "it was set once more");
        // Without the poller it is of no use.
        assert_eq!(quiet.limit(None, None), Some(QUIET));
    }
}
