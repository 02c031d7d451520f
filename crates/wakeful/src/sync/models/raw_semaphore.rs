//! Models of recorded owners. A waiting task finds the owners in the resource record, even if they
//! acquire, release or hand over at the same time.

use crate::sync::acquire::PermitRequest;
use crate::sync::mutex::RawMutex;
use crate::sync::raw_semaphore::{AcquireOutcome, RawSemaphore};
use crate::sys::sync::thread;
use crate::task::context;
use crate::task::models::scheduler::{model, start};
use crate::task::wait_kind::WaitKind;
use crate::wait::ownership::owner::Owner;
use std::panic::Location;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

/// Acquires one permit as this task and returns where it is recorded.
fn take(permits: &RawSemaphore, task: u64) -> Option<crate::sync::permit_owners::OwnerIndex> {
    let _task = context::enter_id(task);
    match permits.try_acquire(1, Location::caller()) {
        AcquireOutcome::Acquired(owner) => Some(owner),
        _ => None,
    }
}

fn poll(request: Pin<&mut PermitRequest>, permits: &RawSemaphore, task: u64) -> bool {
    let _task = context::enter_id(task);
    let cx = &mut Context::from_waker(Waker::noop());
    request.poll(permits, WaitKind::Semaphore, cx).is_ready()
}

/// Returns the owners of all permits, or `None` if they are not all known.
fn known(permits: &RawSemaphore) -> Option<Vec<u64>> {
    let record = permits.resource_record()?;
    let mut tasks: Vec<u64> = record.known_owners()?.iter().map(|owner| owner.task).collect();
    tasks.sort_unstable();
    Some(tasks)
}

/// A permit is acquired as another task enqueues itself for more permits than are available.
/// Catches a name that neither of the two published, and that another poll of the waiter does not
/// copy.
#[test]
fn owner_acquires_while_another_enqueues() {
    model(4, || {
        let permits = Arc::new(RawSemaphore::new(2));
        let first = take(&permits, 1).expect("available");
        let taker = thread::spawn({
            let permits = permits.clone();
            move || take(&permits, 2)
        });
        start();
        let mut all = pin!(PermitRequest::new(2, Location::caller()));
        assert!(!poll(all.as_mut(), &permits, 3), "one permit is held");
        let second = taker.join().unwrap();
        let owners = if second.is_some() { vec![1, 2] } else { vec![1] };
        assert!(known(&permits).is_none_or(|known| known == owners), "unknown, or all of them");
        assert!(!poll(all.as_mut(), &permits, 3));
        assert_eq!(known(&permits), Some(owners));
        // They release one by one, and their names are removed.
        if let Some(second) = second {
            permits.release(1, second);
            assert_eq!(known(&permits), Some(vec![1]));
        }
        permits.release(1, first);
        assert!(poll(all.as_mut(), &permits, 3));
        assert_eq!(known(&permits), Some(vec![3]));
        permits.release(2, crate::sync::permit_owners::OwnerIndex::FIRST);
    });
}

/// The only owner acquires, in the first slot, as another task enqueues itself. Catches an
/// unpublished name where recording it costs no read-modify-write.
#[test]
fn first_owner_acquires_while_another_enqueues() {
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
            assert!(known(&permits).is_none_or(|known| known == [1]), "unknown, or the only one");
            assert!(!poll(one.as_mut(), &permits, 2));
            assert_eq!(known(&permits), Some(vec![1]));
            permits.release(1, other);
            assert!(poll(one.as_mut(), &permits, 2));
            assert_eq!(known(&permits), Some(vec![2]));
        }
    });
}

/// One owner acquires and releases as another task enqueues itself. A third owner, which stays, is
/// known at all times. Catches an incomplete list of owners that is taken for complete, and a name
/// that stays.
#[test]
fn owner_comes_and_goes_while_another_enqueues() {
    model(3, || {
        let permits = Arc::new(RawSemaphore::new(2));
        let _stays = take(&permits, 1).expect("available");
        let passer = thread::spawn({
            let permits = permits.clone();
            move || {
                if let Some(owner) = take(&permits, 2) {
                    permits.release(1, owner);
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

/// A released permit is granted to a waiter, which accepts it, as a third task enqueues itself.
/// Catches a grant that is never marked as accepted.
#[test]
fn permit_is_granted_while_another_enqueues() {
    model(3, || {
        let permits = Arc::new(RawSemaphore::new(1));
        let first = take(&permits, 1).expect("available");
        let mut next = pin!(PermitRequest::new(1, Location::caller()));
        assert!(!poll(next.as_mut(), &permits, 2));
        permits.release(1, first);
        let third = thread::spawn({
            let permits = permits.clone();
            move || {
                let mut third = Box::pin(PermitRequest::new(1, Location::caller()));
                assert!(!poll(third.as_mut(), &permits, 3), "another task has it");
                third
            }
        });
        start();
        assert!(poll(next.as_mut(), &permits, 2));
        let mut third = third.join().unwrap();
        let record = permits.resource_record().expect("a task waits");
        let owners = record.known_owners().expect("there is one");
        let named: Vec<_> =
            owners.iter().map(|owner| (owner.task, owner.granted_unpolled)).collect();
        assert_eq!(named, [(2, false)]);
        third.as_mut().cancel(&permits);
    });
}

/// Polls a mutex's lock request as this task.
fn poll_lock(
    request: Pin<&mut crate::sync::mutex::LockRequest>,
    raw: &RawMutex,
    task: u64,
) -> Poll<()> {
    let _task = context::enter_id(task);
    request.poll(raw, &mut Context::from_waker(Waker::noop()))
}

fn owner(raw: &RawMutex) -> Owner {
    let record = raw.waiters.record.get().expect("a task waits");
    record.known_owners().expect("the mutex is locked")[0]
}

/// A mutex is locked as another task enqueues itself. Catches a waiter that does not know the
/// owner.
#[test]
fn mutex_is_locked_while_another_enqueues() {
    model(5, || {
        let raw = Arc::new(RawMutex::new());
        let site = Location::caller();
        let taker = thread::spawn({
            let raw = raw.clone();
            move || {
                let _task = context::enter_id(1);
                raw.try_lock(site) == crate::sync::mutex::LockOutcome::Locked
            }
        });
        start();
        let mut request = pin!(crate::sync::mutex::LockRequest::new(Location::caller()));
        let early = poll_lock(request.as_mut(), &raw, 2);
        let taken = taker.join().unwrap();
        assert_eq!(early.is_pending(), taken);
        if taken {
            let held = owner(&raw);
            assert_eq!((held.task, held.granted_unpolled), (1, false));
            assert!(held.site.is_none_or(|found| std::ptr::eq(found, site)), "not another site");
            raw.unlock();
            assert_eq!((owner(&raw).task, owner(&raw).granted_unpolled), (2, true));
            assert!(poll_lock(request.as_mut(), &raw, 2).is_ready());
        }
        raw.unlock();
    });
}

/// A mutex is handed over and accepted as a third task enqueues itself. Catches a grant that is
/// never marked as accepted, and the name of an earlier owner.
#[test]
fn mutex_is_handed_over_while_another_enqueues() {
    model(3, || {
        let raw = Arc::new(RawMutex::new());
        let mut next = pin!(crate::sync::mutex::LockRequest::new(Location::caller()));
        let third = {
            let _task = context::enter_id(1);
            assert_eq!(raw.try_lock(Location::caller()), crate::sync::mutex::LockOutcome::Locked);
            assert!(poll_lock(next.as_mut(), &raw, 2).is_pending());
            let raw = raw.clone();
            thread::spawn(move || {
                let mut third = Box::pin(crate::sync::mutex::LockRequest::new(Location::caller()));
                assert!(poll_lock(third.as_mut(), &raw, 3).is_pending(), "another task has it");
                third
            })
        };
        start();
        raw.unlock();
        assert!(poll_lock(next.as_mut(), &raw, 2).is_ready());
        let mut third = third.join().unwrap();
        assert_eq!((owner(&raw).task, owner(&raw).granted_unpolled), (2, false));
        raw.unlock();
        assert!(poll_lock(third.as_mut(), &raw, 3).is_ready());
        raw.unlock();
    });
}
