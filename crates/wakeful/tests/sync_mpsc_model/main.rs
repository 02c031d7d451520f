//! `sync::mpsc` against a naive model, step by step and polled by hand, and on threads, with exact accounting.

mod threads;

use std::collections::VecDeque;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use wakeful::sync::mpsc::error::{TryRecvError, TrySendError};
use wakeful::sync::mpsc::{PermitIterator, Receiver, Sender, channel};

#[path = "../support"]
mod support {
    pub mod manual_poll;
    pub mod rng;
    pub mod runtimes;
}
use support::manual_poll::ManualPoll;
use support::rng::{TestRng, seed};

type Message = usize;

/// The request of a sender.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Wish {
    Send(Message),
    Reserve(usize),
}

impl Wish {
    fn slots(self) -> usize {
        match self {
            Wish::Send(_) => 1,
            Wish::Reserve(slots) => slots,
        }
    }
}

/// The outcome of a request.
enum Outcome<'a> {
    Sent,
    Reserved(PermitIterator<'a, Message>),
    Closed,
}

type Waiting<'a> = ManualPoll<Pin<Box<dyn Future<Output = Outcome<'a>> + 'a>>>;

fn wish<'a>(tx: &'a Sender<Message>, wish: Wish) -> Waiting<'a> {
    ManualPoll::new(Box::pin(async move {
        match wish {
            Wish::Send(message) => match tx.send(message).await {
                Ok(()) => Outcome::Sent,
                Err(error) => {
                    assert_eq!(error.0, message);
                    Outcome::Closed
                }
            },
            Wish::Reserve(slots) => match tx.reserve_many(slots).await {
                Ok(permits) => Outcome::Reserved(permits),
                Err(_) => Outcome::Closed,
            },
        }
    }))
}

/// A naive model of the channel.
struct Naive {
    limit: usize,
    messages: VecDeque<Message>,
    /// Slots of permits, of granted requests that were not polled since, and of the partly served first waiter.
    promised: usize,
    /// The waiters in order: number, request, and slots granted so far.
    queue: VecDeque<(usize, Wish, usize)>,
    closed: bool,
    receiver_waits: bool,
}

/// The waiters that a step must have woken.
#[derive(Default, Debug, PartialEq)]
struct Woken {
    senders: Vec<usize>,
    receiver: bool,
}

impl Naive {
    fn free(&self) -> usize {
        self.limit - self.messages.len() - self.promised
    }

    fn has_ended(&self) -> bool {
        self.closed && self.promised == 0 && self.messages.is_empty()
    }

    /// Grants free slots after a step, and returns the waiters to wake.
    fn settle(&mut self) -> Woken {
        let mut woken = Woken::default();
        while !self.closed && self.free() > 0 {
            let free = self.free();
            let Some((number, wish, has)) = self.queue.front_mut() else { break };
            let given = free.min(wish.slots() - *has);
            *has += given;
            self.promised += given;
            if *has == wish.slots() {
                woken.senders.push(*number);
                self.queue.pop_front();
            }
        }
        if self.receiver_waits && (!self.messages.is_empty() || self.has_ended()) {
            (self.receiver_waits, woken.receiver) = (false, true);
        }
        woken
    }
}

/// A future that waits, and whether the model has answered it.
struct Place<'a> {
    number: usize,
    wish: Wish,
    future: Waiting<'a>,
    /// The slots that it holds, once the model has granted or refused its request.
    answered: Option<usize>,
}

struct World<'a> {
    tx: &'a Sender<Message>,
    rx: Receiver<Message>,
    receiver: ManualPoll<std::future::Pending<()>>,
    naive: Naive,
    places: Vec<Place<'a>>,
    permits: Vec<PermitIterator<'a, Message>>,
    next: usize,
}

impl<'a> World<'a> {
    fn number(&mut self) -> usize {
        self.next += 1;
        self.next
    }

    fn step(&mut self, rng: &mut TestRng) {
        match rng.below(12) {
            0 => self.try_send(),
            1 | 2 => {
                let number = self.number();
                let slots = rng.below(self.naive.limit + 1);
                let wish = if rng.one_in(2) { Wish::Send(number) } else { Wish::Reserve(slots) };
                self.start(number, wish);
            }
            3 | 4 if !self.places.is_empty() => {
                let place = rng.below(self.places.len());
                self.poll(place);
            }
            5 if !self.places.is_empty() => {
                let place = rng.below(self.places.len());
                self.cancel(place);
            }
            6 if !self.permits.is_empty() => {
                let which = rng.below(self.permits.len());
                self.use_permit(which, rng);
            }
            7 => self.try_recv(),
            8 => self.recv_many(1 + rng.below(4)),
            9 => self.poll_recv(),
            10 => {
                // A future that waits for a message and is dropped: nothing is lost, its waker stays.
                let manual = &mut self.receiver;
                let waker = Waker::from(manual.wake_count());
                let mut cx = Context::from_waker(&waker);
                let mut recv = Box::pin(self.rx.recv());
                let polled = recv.as_mut().poll(&mut cx);
                drop(recv);
                self.naive.receiver_waits = polled.is_pending();
                self.check_received(polled);
            }
            11 if rng.one_in(40) => {
                self.rx.close();
                self.naive.closed = true;
                for (number, _, has) in std::mem::take(&mut self.naive.queue) {
                    self.answer(number, has);
                }
            }
            _ => {}
        }
    }

    /// Records that the model has granted the request of a place, which holds `holds` slots.
    fn answer(&mut self, number: usize, holds: usize) {
        let place = self.places.iter_mut().find(|place| place.number == number).unwrap();
        assert_eq!(place.future.take_wakes(), 1, "{number} {:?} was not woken", place.wish);
        place.answered = Some(holds);
    }

    /// Compares the channel with the model after a step.
    fn check(&mut self) {
        let woken = self.naive.settle();
        for &number in &woken.senders {
            let place = self.places.iter().find(|place| place.number == number).unwrap();
            let slots = place.wish.slots();
            self.answer(number, slots);
        }
        for place in &self.places {
            assert_eq!(place.future.take_wakes(), 0, "{} was woken for nothing", place.number);
        }
        assert_eq!(
            self.receiver.take_wakes(),
            usize::from(woken.receiver),
            "wakes of the receiver"
        );
        assert_eq!(self.receiver.wakers(), usize::from(self.naive.receiver_waits));
        assert_eq!(self.rx.len(), self.naive.messages.len());
        assert_eq!(self.tx.capacity(), self.naive.free());
        assert_eq!(self.tx.is_closed(), self.naive.closed);
    }

    fn try_send(&mut self) {
        let number = self.number();
        match self.tx.try_send(number) {
            Ok(()) => {
                assert!(!self.naive.closed && self.naive.free() > 0);
                self.naive.messages.push_back(number);
            }
            Err(TrySendError::Full(_)) => assert!(!self.naive.closed && self.naive.free() == 0),
            Err(TrySendError::Closed(_)) => assert!(self.naive.closed),
        }
    }

    fn start(&mut self, number: usize, wanted: Wish) {
        let mut future = wish(self.tx, wanted);
        let at_once = wanted.slots() <= self.naive.free() && self.naive.queue.is_empty();
        match future.poll() {
            Poll::Ready(outcome) => {
                assert!(at_once || self.naive.closed || wanted.slots() == 0);
                if !self.naive.closed {
                    self.naive.promised += wanted.slots();
                }
                self.done(wanted, outcome);
            }
            Poll::Pending => {
                assert!(!at_once && !self.naive.closed);
                self.naive.queue.push_back((number, wanted, 0));
                self.places.push(Place { number, wish: wanted, future, answered: None });
            }
        }
    }

    /// Updates the model after a request was granted or refused.
    fn done(&mut self, wanted: Wish, outcome: Outcome<'a>) {
        match (wanted, outcome) {
            (_, Outcome::Closed) => assert!(self.naive.closed),
            (Wish::Send(message), Outcome::Sent) => {
                assert!(!self.naive.closed);
                self.naive.promised -= 1;
                self.naive.messages.push_back(message);
            }
            (Wish::Reserve(slots), Outcome::Reserved(permits)) => {
                assert!(!self.naive.closed);
                assert_eq!(permits.len(), slots);
                self.permits.push(permits);
            }
            _ => panic!("not what was wished for"),
        }
    }

    fn poll(&mut self, place: usize) {
        match (self.places[place].future.poll(), self.places[place].answered) {
            (Poll::Pending, None) => {}
            (Poll::Ready(outcome), Some(holds)) => {
                let place = self.places.remove(place);
                if self.naive.closed {
                    self.naive.promised -= holds;
                }
                self.done(place.wish, outcome);
            }
            (poll, answered) => panic!("ready: {}, answered: {answered:?}", poll.is_ready()),
        }
    }

    fn cancel(&mut self, place: usize) {
        let place = self.places.remove(place);
        let index = self.naive.queue.iter().position(|&(number, ..)| number == place.number);
        let has = index.map(|index| self.naive.queue.remove(index).unwrap().2);
        self.naive.promised -= has.or(place.answered).expect("it waits, or was answered");
    }

    fn use_permit(&mut self, which: usize, rng: &mut TestRng) {
        if rng.one_in(6) {
            let permits = self.permits.remove(which);
            self.naive.promised -= permits.len();
            return;
        }
        let Some(permit) = self.permits[which].next() else {
            self.permits.remove(which);
            return;
        };
        self.naive.promised -= 1;
        if rng.one_in(4) {
            return drop(permit);
        }
        let message = self.number();
        permit.send(message);
        self.naive.messages.push_back(message);
    }

    fn try_recv(&mut self) {
        match self.rx.try_recv() {
            Ok(message) => assert_eq!(Some(message), self.naive.messages.pop_front()),
            Err(TryRecvError::Empty) => {
                assert!(self.naive.messages.is_empty() && !self.naive.has_ended());
            }
            Err(TryRecvError::Disconnected) => assert!(self.naive.has_ended()),
        }
    }

    fn poll_recv(&mut self) {
        let waker = Waker::from(self.receiver.wake_count());
        let polled = self.rx.poll_recv(&mut Context::from_waker(&waker));
        self.naive.receiver_waits = polled.is_pending();
        self.check_received(polled);
    }

    fn check_received(&mut self, polled: Poll<Option<Message>>) {
        match polled {
            Poll::Ready(Some(message)) => {
                assert_eq!(Some(message), self.naive.messages.pop_front());
            }
            Poll::Ready(None) => assert!(self.naive.has_ended()),
            Poll::Pending => assert!(self.naive.messages.is_empty() && !self.naive.has_ended()),
        }
    }

    fn recv_many(&mut self, limit: usize) {
        let waker = Waker::from(self.receiver.wake_count());
        let mut buffer = Vec::new();
        let polled = self.rx.poll_recv_many(&mut Context::from_waker(&waker), &mut buffer, limit);
        self.naive.receiver_waits = polled.is_pending();
        match polled {
            Poll::Ready(0) => assert!(self.naive.has_ended() && buffer.is_empty()),
            Poll::Ready(count) => {
                assert_eq!(count, limit.min(self.naive.messages.len()));
                assert_eq!(buffer, self.naive.messages.drain(..count).collect::<Vec<_>>());
            }
            Poll::Pending => assert!(self.naive.messages.is_empty() && !self.naive.has_ended()),
        }
    }
}

#[test]
fn agrees_with_the_model() {
    let mut rng = TestRng::new(seed());
    for _ in 0..if cfg!(miri) { 4 } else { 300 } {
        let limit = [1, 2, 3, 5, 40][rng.below(5)];
        let (tx, rx) = channel(limit);
        let mut world = World {
            tx: &tx,
            rx,
            receiver: ManualPoll::new(std::future::pending()),
            naive: Naive {
                limit,
                messages: VecDeque::new(),
                promised: 0,
                queue: VecDeque::new(),
                closed: false,
                receiver_waits: false,
            },
            places: Vec::new(),
            permits: Vec::new(),
            next: 0,
        };
        for _ in 0..400 {
            world.step(&mut rng);
            world.check();
        }
    }
}
