//! `Notify`: the permit, who is notified in which order, and what a dropped future does with its notification.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::thread;

use futures::executor;
use wakeful::sync::Notify;
use wakeful::sync::futures::{Notified, OwnedNotified};
use wakeful::task::yield_now;

mod support {
    pub mod manual_poll;
    pub mod rng;
    pub mod runtimes;
}
use support::manual_poll::Hand;
use support::rng::{TestRng, seed};
use support::runtimes::{multi_thread, runtimes};

static NOTIFY: Notify = Notify::const_new();

#[test]
fn a_static_one_stores_one_permit() {
    for _ in 0..3 {
        NOTIFY.notify_one();
    }
    executor::block_on(NOTIFY.notified());
    assert!(Hand::new(NOTIFY.notified()).poll().is_pending());
    NOTIFY.notify_last();
    executor::block_on(NOTIFY.notified());
}

#[test]
fn first_come_first_served_and_the_last_if_asked_for() {
    let notify = Notify::default();
    let mut waits: Vec<_> = (0..4).map(|_| Hand::pending(notify.notified())).collect();
    let expect =
        [(Notify::notify_one as fn(&Notify), 0), (Notify::notify_last, 3), (Notify::notify_one, 1)];
    for (call, number) in expect {
        call(&notify);
        let rings: Vec<_> = waits.iter().map(Hand::rings).collect();
        assert_eq!(rings.iter().position(|&rings| rings == 1), Some(number));
        assert_eq!(rings.iter().sum::<usize>(), 1);
        waits[number].ready();
    }
    assert!(waits[2].poll().is_pending());
}

#[test]
fn it_stays_ready_once_it_is() {
    let notify = Arc::new(Notify::new());
    notify.notify_one();
    let mut wait = Hand::new(notify.clone().notified_owned());
    wait.ready();
    wait.ready();
    assert!(wait.as_mut().enable());
    assert!(Hand::new(notify.notified()).poll().is_pending(), "it took one permit only");
}

#[test]
fn all_includes_those_that_were_never_polled() {
    let notify = Notify::new();
    let (mut polled, mut unpolled) =
        (Hand::pending(notify.notified()), Hand::new(notify.notified()));
    notify.notify_waiters();
    let mut late = Hand::new(notify.notified());
    assert_eq!(polled.rings(), 1);
    polled.ready();
    unpolled.ready();
    assert!(late.poll().is_pending(), "no permit is stored");
}

#[test]
fn all_leaves_the_permit_alone() {
    let notify = Notify::new();
    let mut unpolled = Hand::new(notify.notified());
    notify.notify_one();
    notify.notify_waiters();
    unpolled.ready();
    Hand::new(notify.notified()).ready();
    assert!(Hand::new(notify.notified()).poll().is_pending());
}

#[test]
fn more_than_a_batch_is_woken_in_order() {
    let notify = Notify::new();
    let order = Arc::new(Mutex::new(Vec::new()));
    struct Numbered(usize, Arc<Mutex<Vec<usize>>>);
    impl Wake for Numbered {
        fn wake(self: Arc<Self>) {
            self.1.lock().unwrap().push(self.0);
        }
    }
    let mut waits: Vec<_> = (0..100).map(|_| Hand::new(notify.notified())).collect();
    for (number, wait) in waits.iter_mut().enumerate() {
        let waker = Waker::from(Arc::new(Numbered(number, order.clone())));
        assert!(wait.poll_with(&waker).is_pending());
    }
    notify.notify_waiters();
    assert_eq!(*order.lock().unwrap(), (0..100).collect::<Vec<_>>());
    waits.iter_mut().for_each(Hand::ready);
}

/// Calls a function when it is woken.
struct OnWake<F>(F);

impl<F: Fn() + Send + Sync + 'static> Wake for OnWake<F> {
    fn wake(self: Arc<Self>) {
        (self.0)();
    }
}

/// The first waiter's waker queues another up and notifies one, in the middle of a call that is to wake a hundred.
#[test]
fn a_call_reaches_nobody_who_came_during_it() {
    let notify = Arc::new(Notify::new());
    let late = Arc::new(Mutex::new(None));
    let waker = Waker::from(Arc::new(OnWake({
        let (notify, late) = (notify.clone(), late.clone());
        move || {
            let first = Hand::pending(notify.clone().notified_owned());
            let second = Hand::pending(notify.clone().notified_owned());
            notify.notify_one();
            *late.lock().unwrap() = Some((first, second));
        }
    })));
    let mut first = Hand::new(notify.notified());
    assert!(first.poll_with(&waker).is_pending());
    let mut crowd: Vec<_> = (0..100).map(|_| Hand::pending(notify.notified())).collect();
    notify.notify_waiters();
    assert!(crowd.iter().all(|wait| wait.rings() == 1));
    crowd.iter_mut().for_each(Hand::ready);
    let (mut one, mut nobody) = late.lock().unwrap().take().expect("the first one was woken");
    assert_eq!((one.rings(), nobody.rings()), (1, 0));
    one.ready();
    assert!(nobody.poll().is_pending());
}

/// Wakers that panic cost nobody else a notification.
#[test]
fn a_waker_that_panics_harms_nobody_else() {
    let notify = Arc::new(Notify::new());
    let waker = Waker::from(Arc::new(OnWake({
        let notify = notify.clone();
        move || {
            // The one that is notified here stands behind those not yet woken.
            notify.notify_one();
            panic!("a foreign waker");
        }
    })));
    let mut bad: Vec<_> = (0..2).map(|_| Hand::new(notify.notified())).collect();
    bad.iter_mut().for_each(|wait| assert!(wait.poll_with(&waker).is_pending()));
    let mut crowd: Vec<_> = (0..100).map(|_| Hand::pending(notify.notified())).collect();
    assert!(catch_unwind(AssertUnwindSafe(|| notify.notify_waiters())).is_err());
    assert!(crowd.iter().all(|wait| wait.rings() == 1));
    crowd.iter_mut().chain(&mut bad).for_each(Hand::ready);
    Hand::new(notify.notified()).ready();
    assert!(Hand::new(notify.notified()).poll().is_pending());
}

#[test]
fn a_waker_may_drop_waiting_futures() {
    let notify = Arc::new(Notify::new());
    let others = Arc::new(Mutex::new(Vec::<Hand<OwnedNotified>>::new()));
    let waker = Waker::from(Arc::new(OnWake({
        let others = others.clone();
        move || drop(std::mem::take(&mut *others.lock().unwrap()))
    })));
    let mut first = Hand::new(notify.notified());
    assert!(first.poll_with(&waker).is_pending());
    *others.lock().unwrap() =
        (0..100).map(|_| Hand::pending(notify.clone().notified_owned())).collect();
    notify.notify_waiters();
    first.ready();
    assert!(Hand::new(notify.notified()).poll().is_pending());
}

#[test]
fn another_task_may_go_on_polling() {
    let notify = Notify::new();
    let mut wait = Hand::pending(notify.notified());
    let other = Hand::pending(std::future::pending::<()>());
    let waker = Waker::from(other.bell());
    assert!(wait.poll_with(&waker).is_pending());
    assert_eq!(wait.wakers(), 0, "the old waker stays behind");
    drop(waker);
    notify.notify_one();
    assert_eq!((wait.rings(), other.rings()), (0, 1));
    wait.ready();
}

#[test]
fn debug_says_what_there_is() {
    let notify = Notify::new();
    assert_eq!(format!("{notify:?}"), "Notify { permit: false, waiting: false }");
    notify.notify_one();
    assert_eq!(format!("{notify:?}"), "Notify { permit: true, waiting: false }");
    assert!(format!("{:?}", notify.notified()).starts_with("Notified"));
}

/// Whom a notification was for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum For {
    First,
    Last,
    All,
}

/// What a naive `Notify` knows of one future.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Naive {
    Made { called: bool },
    Queued { polled: bool },
    Notified(For),
    Done,
}

#[derive(Default)]
struct Model {
    permit: bool,
    /// Keys of those that wait.
    queue: VecDeque<usize>,
    futures: Vec<Option<Naive>>,
    /// Who is to be woken by what was just done.
    woken: Vec<usize>,
}

impl Model {
    fn notify(&mut self, whom: For) {
        let key = match whom {
            For::First => self.queue.pop_front(),
            For::Last => self.queue.pop_back(),
            For::All => return self.notify_waiters(),
        };
        match key {
            Some(key) => self.answer(key, whom),
            None => self.permit = true,
        }
    }

    fn notify_waiters(&mut self) {
        while let Some(key) = self.queue.pop_front() {
            self.answer(key, For::All);
        }
        for future in self.futures.iter_mut().flatten() {
            if let Naive::Made { called } = future {
                *called = true;
            }
        }
    }

    fn answer(&mut self, key: usize, whom: For) {
        let before = self.futures[key].replace(Naive::Notified(whom));
        if before == Some(Naive::Queued { polled: true }) {
            self.woken.push(key);
        }
    }

    /// Whether the future is ready.
    fn poll(&mut self, key: usize, with_waker: bool) -> bool {
        let future = self.futures[key].as_mut().expect("it is there");
        match future {
            Naive::Made { called: true } => {}
            Naive::Made { called: false } if std::mem::take(&mut self.permit) => {}
            Naive::Made { .. } => {
                *future = Naive::Queued { polled: with_waker };
                self.queue.push_back(key);
                return false;
            }
            Naive::Queued { polled } => {
                *polled |= with_waker;
                return false;
            }
            Naive::Notified(_) | Naive::Done => {}
        }
        *future = Naive::Done;
        true
    }

    fn drop(&mut self, key: usize) {
        match self.futures[key].take() {
            Some(Naive::Notified(whom @ (For::First | For::Last))) => self.notify(whom),
            Some(Naive::Queued { .. }) => self.queue.retain(|&other| other != key),
            _ => {}
        }
    }
}

#[test]
fn it_does_what_a_naive_one_does() {
    let mut rng = TestRng::new(seed());
    for _ in 0..50 {
        let notify = Notify::new();
        let mut model = Model::default();
        let mut futures: Vec<Option<Hand<Notified<'_>>>> = Vec::new();
        for _ in 0..400 {
            let there: Vec<usize> =
                (0..futures.len()).filter(|&key| futures[key].is_some()).collect();
            let any = (!there.is_empty()).then(|| there[rng.below(there.len().max(1))]);
            match (rng.below(10), any) {
                (0, _) => {
                    notify.notify_one();
                    model.notify(For::First);
                }
                (1, _) => {
                    notify.notify_last();
                    model.notify(For::Last);
                }
                (2, _) if rng.one_in(2) => {
                    notify.notify_waiters();
                    model.notify(For::All);
                }
                (3 | 4, _) | (_, None) => {
                    futures.push(Some(Hand::new(notify.notified())));
                    model.futures.push(Some(Naive::Made { called: false }));
                }
                (5, Some(key)) => {
                    let enabled = futures[key].as_mut().unwrap().as_mut().enable();
                    assert_eq!(enabled, model.poll(key, false));
                }
                (6, Some(key)) => {
                    futures[key] = None;
                    model.drop(key);
                }
                (_, Some(key)) => {
                    let polled = futures[key].as_mut().unwrap().poll();
                    assert_eq!(polled.is_ready(), model.poll(key, true));
                }
            }
            for (key, future) in futures.iter().enumerate() {
                let Some(future) = future else { continue };
                assert_eq!(future.rings(), usize::from(model.woken.contains(&key)), "of {key}");
                let waits = model.futures[key] == Some(Naive::Queued { polled: true });
                assert_eq!(future.wakers(), usize::from(waits), "wakers of {key}");
            }
            model.woken.clear();
        }
    }
}

/// A queue that many take from, some of whom change their mind.
#[derive(Default)]
struct Line {
    items: Mutex<VecDeque<usize>>,
    arrived: Notify,
    taken: AtomicUsize,
    sum: AtomicUsize,
}

impl Line {
    fn push(&self, item: usize) {
        self.items.lock().unwrap().push_back(item);
        self.arrived.notify_one();
    }

    async fn pop(&self, total: usize, rng: &mut TestRng) -> Option<usize> {
        loop {
            let mut arrival = pin!(self.arrived.notified());
            arrival.as_mut().enable();
            if self.taken.load(SeqCst) == total {
                return None;
            }
            let item = self.items.lock().unwrap().pop_front();
            if let Some(item) = item {
                return Some(item);
            }
            if rng.one_in(3) {
                // Drops the arrival after one poll, notified or not.
                let polled = std::future::poll_fn(|cx| Poll::Ready(arrival.as_mut().poll(cx)));
                let _ = polled.await;
                yield_now().await;
            } else {
                arrival.await;
            }
        }
    }

    async fn work(&self, total: usize, mut rng: TestRng) {
        while let Some(item) = self.pop(total, &mut rng).await {
            self.sum.fetch_add(item, SeqCst);
            if self.taken.fetch_add(1, SeqCst) + 1 == total {
                self.arrived.notify_waiters();
            }
        }
    }
}

#[test]
fn nothing_is_lost_between_threads() {
    let mut rng = TestRng::new(seed());
    let runtime = multi_thread(2);
    const EACH: usize = 3_000;
    const TOTAL: usize = 2 * EACH;
    let line = Arc::new(Line::default());
    let workers: Vec<_> = (0..4)
        .map(|_| {
            let (line, rng) = (line.clone(), rng.branch());
            runtime.spawn(async move { line.work(TOTAL, rng).await })
        })
        .collect();
    let producers: Vec<_> = (0..2)
        .map(|half| {
            let line = line.clone();
            thread::spawn(move || (half * EACH..(half + 1) * EACH).for_each(|item| line.push(item)))
        })
        .collect();
    producers.into_iter().for_each(|producer| producer.join().unwrap());
    for worker in workers {
        runtime.block_on(worker).unwrap();
    }
    assert_eq!(line.taken.load(SeqCst), TOTAL);
    assert_eq!(line.sum.load(SeqCst), TOTAL * (TOTAL - 1) / 2);
}

#[test]
fn tasks_on_every_runtime_take_turns() {
    for runtime in runtimes() {
        let pair = Arc::new((Notify::new(), Notify::new()));
        let ping = runtime.spawn({
            let pair = pair.clone();
            async move {
                for _ in 0..1_000 {
                    pair.0.notify_one();
                    pair.1.notified().await;
                }
            }
        });
        let pong = runtime.spawn(async move {
            for _ in 0..1_000 {
                pair.0.notified().await;
                pair.1.notify_one();
            }
        });
        runtime.block_on(async {
            ping.await.unwrap();
            pong.await.unwrap();
        });
    }
}

/// Polls a future that nobody else knows of.
#[test]
fn a_notification_survives_the_future_that_got_it() {
    let notify = Notify::new();
    let wait = Hand::pending(notify.notified());
    notify.notify_one();
    drop(wait);
    let mut cx = Context::from_waker(Waker::noop());
    assert!(pin!(notify.notified()).poll(&mut cx).is_ready());
}
