//! The conditions of a run: `always` is checked after every poll, `eventually` until it is true.

use super::{EventTarget, FailureKind, HostId, World};
use crate::sys::unwind::catch_and_forget;
use std::panic::Location;
use std::sync::Arc;
use std::task::{Poll, Waker};
use std::time::Duration;

/// A condition of the program.
pub(crate) type Condition = Box<dyn FnMut() -> bool + Send>;

/// The conditions of a world. They are moved out of its state while they are called (SIM-1).
#[derive(Default)]
pub(super) struct Checks {
    always: Vec<Check>,
    eventually: Vec<Check>,
    /// The number of the next `eventually`.
    next: u64,
    /// Woken when no `eventually` is open any more.
    waker: Option<Waker>,
}

struct Check {
    name: Arc<str>,
    condition: Condition,
    site: &'static Location<'static>,
    number: u64,
}

impl Check {
    /// Calls the condition. Returns `None` if it panicked.
    fn holds(&mut self) -> Option<bool> {
        let condition = &mut self.condition;
        catch_and_forget(condition)
    }
}

impl Checks {
    pub(super) fn is_empty(&self) -> bool {
        self.always.is_empty() && self.eventually.is_empty()
    }
}

impl World {
    /// Calls the condition after every poll from now on. The run fails if it returns false or panics.
    pub(crate) fn always(
        &self,
        name: &str,
        condition: Condition,
        site: &'static Location<'static>,
    ) {
        let check = Check { name: name.into(), condition, site, number: 0 };
        self.lock_from_sim_thread(HostId::WORLD).checks.always.push(check);
    }

    /// Calls the condition after every poll until it returns true. The run fails if that takes longer
    /// than `within`.
    pub(crate) fn eventually(
        &self,
        within: Duration,
        name: &str,
        condition: Condition,
        site: &'static Location<'static>,
    ) {
        let number = {
            let checks = &mut self.lock().checks;
            let number = checks.next;
            checks.next += 1;
            checks.eventually.push(Check { name: name.into(), condition, site, number });
            number
        };
        self.schedule_deadline(within, within, number);
    }

    /// Schedules the deadline of an `eventually`. If the network is blocked or chaos is in progress,
    /// `within` starts when both have ended.
    fn schedule_deadline(&self, after: Duration, within: Duration, number: u64) {
        let expire = move |world: &World, number: u64| world.expire(number, within);
        let expire: Arc<dyn EventTarget> = Arc::new(expire);
        let at_deadline = move |world: &World, number: u64| {
            // Work at the deadline still counts: the time does not move until no task is ready.
            world.schedule(Duration::ZERO, HostId::WORLD, expire.clone(), number);
        };
        self.schedule(after, HostId::WORLD, Arc::new(at_deadline), number);
    }

    /// Records that no route of the network is blocked any more, and that chaos has ended. Each `eventually` whose deadline was
    /// postponed gets its full time from now on.
    pub(crate) fn record_healed(&self) {
        let postponed = {
            let mut state = self.lock();
            state.healed_at_ns = self.now_ns();
            std::mem::take(&mut state.postponed)
        };
        for (number, within) in postponed {
            self.schedule_deadline(within, within, number);
        }
    }

    /// Waits until every `eventually` has been true or has failed.
    pub(crate) fn poll_eventually_settled(&self, waker: &Waker) -> Poll<()> {
        let checks = &mut self.lock().checks;
        if checks.eventually.is_empty() {
            return Poll::Ready(());
        }
        checks.waker = Some(waker.clone());
        Poll::Pending
    }

    /// Fails the run if this `eventually` was never true, and no fault was in effect for all of its time.
    fn expire(&self, number: u64, within: Duration) {
        let is_blocked = self.is_network_blocked() || self.is_in_chaos();
        let late = {
            let mut state = self.lock();
            if is_blocked {
                state.postponed.push((number, within));
                return;
            }
            let healed_for = Duration::from_nanos(self.now_ns() - state.healed_at_ns);
            if state.healed_at_ns > 0 && healed_for < within {
                drop(state);
                return self.schedule_deadline(within - healed_for, within, number);
            }
            let check = state.checks.eventually.iter().find(|check| check.number == number);
            check.map(|check| (check.name.clone(), check.site))
        };
        if let Some((name, site)) = late {
            let text = format!("{name:?}, at {site}, was not true within {within:?}");
            self.fail(FailureKind::Eventually, HostId::WORLD, text);
        }
    }

    /// Calls all conditions, and fails the run if one is violated.
    pub(super) fn check(&self) {
        let mut checks = {
            let checks = &mut self.lock().checks;
            if checks.is_empty() {
                return;
            }
            std::mem::take(checks)
        };
        for check in &mut checks.always {
            let how = match check.holds() {
                Some(true) => continue,
                Some(false) => "is false",
                None => "panicked",
            };
            let text = format!("{:?}, at {}, {how}", check.name, check.site);
            self.fail(FailureKind::Always, HostId::WORLD, text);
        }
        checks.eventually.retain_mut(|check| {
            let holds = check.holds();
            if holds.is_none() {
                let text = format!("{:?}, at {}, panicked", check.name, check.site);
                self.fail(FailureKind::Eventually, HostId::WORLD, text);
            }
            holds != Some(true)
        });
        let mut state = self.lock();
        // A condition may have added other conditions.
        let added = std::mem::take(&mut state.checks);
        checks.always.extend(added.always);
        checks.eventually.extend(added.eventually);
        checks.next = checks.next.max(added.next);
        let is_decided = checks.eventually.is_empty();
        let waker = if is_decided { checks.waker.take() } else { None };
        state.checks = checks;
        drop(state);
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}
