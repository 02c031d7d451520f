//! Models of the names of those who have what others wait for: whoever waits is told
//! who has it, also if that was taken, given up or handed on at the same moment.

use crate::sync::acquire::PermitRequest;
use crate::sync::mutex::RawMutex;
use crate::sync::raw_semaphore::{RawSemaphore, Taken};
use crate::sys::sync::thread;
use crate::task::context;
use crate::task::models::scheduler::{model, start};
use crate::task::wait_kind::WaitKind;
use crate::wait::ownership::owner::Owner;
use std::panic::Location;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

/// Takes one permit as this task, and answers where it is noted.
fn take(permits: &RawSemaphore, task: u64) -> Option<crate::sync::permit_owners::OwnerIndex> {
    let _task = context::enter_id(task);
    match permits.try_take(1, Location::caller()) {
        Taken::Yes(spot) => Some(spot),
        _ => None,
    }
}

fn poll(acquiring: Pin<&mut PermitRequest>, permits: &RawSemaphore, task: u64) -> bool {
    let _task = context::enter_id(task);
    let cx = &mut Context::from_waker(Waker::noop());
    acquiring.poll(permits, WaitKind::Semaphore, cx).is_ready()
}

/// Who is known to have all that is missing; `None` if it is not known.
fn known(permits: &RawSemaphore) -> Option<Vec<u64>> {
    let plate = permits.plate()?;
    let mut tasks: Vec<u64> = plate.certain_owners()?.iter().map(|held| held.task).collect();
    tasks.sort_unstable();
    Some(tasks)
}

/// Permits are taken as another queues up for more than there are. Catches a name that
/// neither of the two told.
#[test]
fn permits_are_taken_as_another_queues_up() {
    model(4, || {
        let permits = Arc::new(RawSemaphore::new(2));
        let first = take(&permits, 1).expect("there");
        let taker = thread::spawn({
            let permits = permits.clone();
            move || take(&permits, 2)
        });
        start();
        let mut all = pin!(PermitRequest::new(2, Location::caller()));
        assert!(!poll(all.as_mut(), &permits, 3), "one is taken");
        let second = taker.join().unwrap();
        let holders = if second.is_some() { vec![1, 2] } else { vec![1] };
        assert_eq!(known(&permits), Some(holders));
        // They leave one by one, and so do their names.
        if let Some(second) = second {
            permits.put(1, second);
            assert_eq!(known(&permits), Some(vec![1]));
        }
        permits.put(1, first);
        assert!(poll(all.as_mut(), &permits, 3));
        assert_eq!(known(&permits), Some(vec![3]));
        permits.put(2, crate::sync::permit_owners::OwnerIndex::FIRST);
    });
}

/// The only one, in the first place, comes as another queues up. Catches the same where
/// the name costs no exchange.
#[test]
fn the_first_comes_as_another_queues_up() {
    model(5, || {
        let permits = Arc::new(RawSemaphore::new(1));
        let taker = thread::spawn({
            let permits = permits.clone();
            move || take(&permits, 1)
        });
        start();
        let mut one = pin!(PermitRequest::new(1, Location::caller()));
        let early = poll(one.as_mut(), &permits, 2);
        let other = taker.join().unwrap();
        assert_eq!(early, other.is_none());
        if let Some(other) = other {
            assert_eq!(known(&permits), Some(vec![1]));
            permits.put(1, other);
            assert!(poll(one.as_mut(), &permits, 2));
            assert_eq!(known(&permits), Some(vec![2]));
        }
    });
}

/// One comes and goes as another queues up, and a third, which stays, is known all the
/// time to whoever reads. Catches a list of holders that is taken for all and lacks one,
/// and a name that stays.
#[test]
fn one_comes_and_goes_as_another_queues_up() {
    model(3, || {
        let permits = Arc::new(RawSemaphore::new(2));
        let _stays = take(&permits, 1).expect("there");
        let passer = thread::spawn({
            let permits = permits.clone();
            move || {
                if let Some(spot) = take(&permits, 2) {
                    permits.put(1, spot);
                }
            }
        });
        start();
        let mut all = pin!(PermitRequest::new(2, Location::caller()));
        assert!(!poll(all.as_mut(), &permits, 3));
        if let Some(known) = known(&permits) {
            assert!(known == [1] || known == [1, 2], "{known:?}");
        }
        passer.join().unwrap();
        assert_eq!(known(&permits), Some(vec![1]));
        all.as_mut().cancel(&permits);
    });
}

/// What is given back goes to one who waits, which takes it up, as a third queues up behind
/// it. Catches a grant that is told of for ever.
#[test]
fn permits_are_handed_over_as_another_queues_up() {
    model(3, || {
        let permits = Arc::new(RawSemaphore::new(1));
        let first = take(&permits, 1).expect("there");
        let mut next = pin!(PermitRequest::new(1, Location::caller()));
        assert!(!poll(next.as_mut(), &permits, 2));
        permits.put(1, first);
        let third = thread::spawn({
            let permits = permits.clone();
            move || {
                let mut third = Box::pin(PermitRequest::new(1, Location::caller()));
                assert!(!poll(third.as_mut(), &permits, 3), "it is another's");
                third
            }
        });
        start();
        assert!(poll(next.as_mut(), &permits, 2));
        let mut third = third.join().unwrap();
        let plate = permits.plate().expect("somebody waits");
        let holders = plate.certain_owners().expect("there is one");
        let told: Vec<_> = holders.iter().map(|held| (held.task, held.granted_unpolled)).collect();
        assert_eq!(told, [(2, false)]);
        third.as_mut().cancel(&permits);
    });
}

/// Polls a lock's future as this task.
fn poll_lock(
    locking: Pin<&mut crate::sync::mutex::Locking>,
    raw: &RawMutex,
    task: u64,
) -> Poll<()> {
    let _task = context::enter_id(task);
    locking.poll(raw, &mut Context::from_waker(Waker::noop()))
}

fn holder(raw: &RawMutex) -> Owner {
    let plate = raw.waiters.record.get().expect("somebody waits");
    plate.certain_owners().expect("somebody has it")[0]
}

/// A mutex is taken as another queues up. Catches a waiter that is not told who has it.
#[test]
fn a_mutex_is_taken_as_another_queues_up() {
    model(5, || {
        let raw = Arc::new(RawMutex::new());
        let site = Location::caller();
        let taker = thread::spawn({
            let raw = raw.clone();
            move || {
                let _task = context::enter_id(1);
                raw.try_lock(site) == crate::sync::mutex::Attempt::Locked
            }
        });
        start();
        let mut locking = pin!(crate::sync::mutex::Locking::new(Location::caller()));
        let early = poll_lock(locking.as_mut(), &raw, 2);
        let taken = taker.join().unwrap();
        assert_eq!(early.is_pending(), taken);
        if taken {
            let held = holder(&raw);
            assert_eq!((held.task, held.granted_unpolled), (1, false));
            assert!(held.site.is_none_or(|told| std::ptr::eq(told, site)), "not another place");
            raw.unlock();
            assert_eq!((holder(&raw).task, holder(&raw).granted_unpolled), (2, true));
            assert!(poll_lock(locking.as_mut(), &raw, 2).is_ready());
        }
        raw.unlock();
    });
}

/// A mutex is handed on and taken up as a third queues up. Catches a grant that is told of
/// for ever, and the name of one that had it before.
#[test]
fn a_mutex_is_handed_over_as_another_queues_up() {
    model(3, || {
        let raw = Arc::new(RawMutex::new());
        let mut next = pin!(crate::sync::mutex::Locking::new(Location::caller()));
        let third = {
            let _task = context::enter_id(1);
            assert_eq!(raw.try_lock(Location::caller()), crate::sync::mutex::Attempt::Locked);
            assert!(poll_lock(next.as_mut(), &raw, 2).is_pending());
            let raw = raw.clone();
            thread::spawn(move || {
                let mut third = Box::pin(crate::sync::mutex::Locking::new(Location::caller()));
                assert!(poll_lock(third.as_mut(), &raw, 3).is_pending(), "it is another's");
                third
            })
        };
        start();
        raw.unlock();
        assert!(poll_lock(next.as_mut(), &raw, 2).is_ready());
        let mut third = third.join().unwrap();
        assert_eq!((holder(&raw).task, holder(&raw).granted_unpolled), (2, false));
        raw.unlock();
        assert!(poll_lock(third.as_mut(), &raw, 3).is_ready());
        raw.unlock();
    });
}
