//! `join!` and `try_join!` by recorded order, and `pin!`. No runtime needed.
#![deny(unreachable_code)]

use std::cell::RefCell;
use std::convert::Infallible;
use std::future::{Future, pending, ready};
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use futures::executor::block_on;

type Trace = Rc<RefCell<Vec<String>>>;

/// Records each poll and its drop. Returns `output` at poll number `ready_at`, counted from 1.
struct Traced<T> {
    name: &'static str,
    ready_at: u32,
    output: Option<T>,
    trace: Trace,
}

fn traced<T>(trace: &Trace, name: &'static str, ready_at: u32, output: T) -> Traced<T> {
    Traced { name, ready_at, output: Some(output), trace: trace.clone() }
}

impl<T: Unpin> Future for Traced<T> {
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<T> {
        self.trace.borrow_mut().push(self.name.to_owned());
        self.ready_at -= 1;
        match self.ready_at {
            0 => Poll::Ready(self.output.take().expect("polled once too often")),
            _ => Poll::Pending,
        }
    }
}

impl<T> Drop for Traced<T> {
    fn drop(&mut self) {
        self.trace.borrow_mut().push(format!("drop {}", self.name));
    }
}

fn poll_once<F: Future>(future: Pin<&mut F>) -> Poll<F::Output> {
    future.poll(&mut Context::from_waker(Waker::noop()))
}

#[test]
fn a_different_future_goes_first_in_each_poll() {
    let trace = Trace::default();
    let mut joined = pin!(async {
        wakeful::join!(
            traced(&trace, "a", 9, 1),
            traced(&trace, "b", 9, 2),
            traced(&trace, "c", 9, 3)
        )
    });
    for expected in
        [["a", "b", "c"], ["b", "c", "a"], ["c", "a", "b"], ["a", "b", "c"], ["b", "c", "a"]]
    {
        assert!(poll_once(joined.as_mut()).is_pending());
        assert_eq!(trace.take(), expected);
    }
}

#[test]
fn biased_always_goes_front_to_back() {
    let trace = Trace::default();
    let mut joined = pin!(async {
        wakeful::join!(biased; traced(&trace, "a", 9, 1), traced(&trace, "b", 9, 2), traced(&trace, "c", 9, 3))
    });
    for _ in 0..4 {
        assert!(poll_once(joined.as_mut()).is_pending());
        assert_eq!(trace.take(), ["a", "b", "c"]);
    }
}

#[test]
fn a_finished_future_is_dropped_at_once_and_not_polled_again() {
    let trace = Trace::default();
    let mut joined = pin!(async {
        wakeful::join!(biased; traced(&trace, "a", 2, "A"), traced(&trace, "b", 1, 2), traced(&trace, "c", 3, ['c']))
    });
    assert!(poll_once(joined.as_mut()).is_pending());
    assert_eq!(trace.take(), ["a", "b", "drop b", "c"]);
    assert!(poll_once(joined.as_mut()).is_pending());
    assert_eq!(trace.take(), ["a", "drop a", "c"]);
    assert_eq!(poll_once(joined.as_mut()), Poll::Ready(("A", 2, ['c'])));
    assert_eq!(trace.take(), ["c", "drop c"]);
}

/// Polls until the future is ready. Returns the number of polls, and the output.
fn polls_until_ready<T>(future: impl Future<Output = T>) -> (u32, T) {
    let mut future = pin!(future);
    let mut polls = 1;
    loop {
        match poll_once(future.as_mut()) {
            Poll::Ready(output) => return (polls, output),
            Poll::Pending => polls += 1,
        }
    }
}

#[test]
fn a_join_takes_as_long_as_its_slowest_member_whichever_that_is() {
    let times = || 1..=4;
    for (a, b, c) in
        times().flat_map(|a| times().flat_map(move |b| times().map(move |c| (a, b, c))))
    {
        let trace = Trace::default();
        let slow = |time| traced(&trace, "", time, time);
        let expected = (a.max(b).max(c), (a, b, c));
        assert_eq!(
            polls_until_ready(async { wakeful::join!(slow(a), slow(b), slow(c)) }),
            expected
        );
        assert_eq!(
            polls_until_ready(async { wakeful::join!(biased; slow(a), slow(b), slow(c)) }),
            expected
        );

        let slow = |time| traced(&trace, "", time, Ok::<_, Infallible>(time));
        let expected = (a.max(b).max(c), Ok((a, b, c)));
        assert_eq!(
            polls_until_ready(async { wakeful::try_join!(slow(a), slow(b), slow(c)) }),
            expected
        );
        assert_eq!(
            polls_until_ready(async { wakeful::try_join!(biased; slow(a), slow(b), slow(c)) }),
            expected
        );
    }
}

#[test]
fn dropping_the_join_drops_futures_and_outputs() {
    let trace = Trace::default();
    let output = Rc::new(());
    {
        let mut joined = pin!(async {
            wakeful::join!(traced(&trace, "a", 1, output.clone()), traced(&trace, "b", 2, ()))
        });
        assert!(poll_once(joined.as_mut()).is_pending());
        assert_eq!(Rc::strong_count(&output), 2);
    }
    assert_eq!(trace.take(), ["a", "drop a", "b", "drop b"]);
    assert_eq!(Rc::strong_count(&output), 1);
}

#[test]
fn try_join_gives_all_the_values() {
    block_on(async {
        let joined = wakeful::try_join!(ready(Ok::<_, String>(1)), async { Ok("two") });
        assert_eq!(joined, Ok((1, "two")));
        let joined = wakeful::try_join!(biased; ready(Ok::<_, String>(1)));
        assert_eq!(joined, Ok((1,)));
    });
}

#[test]
fn try_join_stops_at_the_first_error_and_cancels_the_rest() {
    let trace = Trace::default();
    let mut joined = pin!(async {
        let joined = wakeful::try_join!(
            biased;
            traced(&trace, "a", 9, Ok::<(), &str>(())),
            traced(&trace, "b", 2, Err::<(), &str>("b failed")),
            traced(&trace, "c", 9, Err::<(), &str>("c failed")),
        );
        trace.borrow_mut().push("after".into());
        joined
    });
    assert!(poll_once(joined.as_mut()).is_pending());
    assert_eq!(trace.take(), ["a", "b", "c"]);
    assert_eq!(poll_once(joined.as_mut()), Poll::Ready(Err("b failed")));
    assert_eq!(trace.take(), ["a", "b", "drop b", "drop a", "drop c", "after"]);
}

#[test]
fn of_two_errors_the_one_polled_first_is_reported() {
    let trace = Trace::default();
    let fail_in_second_poll = |name| traced(&trace, name, 2, Err::<(), _>(name));

    // The second poll polls `b` first.
    let mut joined =
        pin!(async { wakeful::try_join!(fail_in_second_poll("a"), fail_in_second_poll("b")) });
    assert!(poll_once(joined.as_mut()).is_pending());
    assert_eq!(poll_once(joined.as_mut()), Poll::Ready(Err("b")));
    assert_eq!(trace.take(), ["a", "b", "b", "drop b", "drop a"]);

    let mut joined = pin!(async {
        wakeful::try_join!(biased; fail_in_second_poll("a"), fail_in_second_poll("b"))
    });
    assert!(poll_once(joined.as_mut()).is_pending());
    assert_eq!(poll_once(joined.as_mut()), Poll::Ready(Err("a")));
}

#[test]
fn an_error_behind_a_finished_value_drops_that_value() {
    let value = Rc::new(());
    let joined = block_on(async {
        let value = value.clone();
        wakeful::try_join!(async { Ok::<_, u8>(value) }, async { Err::<(), u8>(7) })
    });
    assert_eq!(joined.unwrap_err(), 7);
    assert_eq!(Rc::strong_count(&value), 1);
}

#[test]
fn try_join_infers_and_converts_like_any_result() {
    async fn sum() -> Result<u32, std::num::ParseIntError> {
        let (a, b) = wakeful::try_join!(async { "1".parse::<u32>() }, async { Ok(2) })?;
        Ok(a + b)
    }
    assert_eq!(block_on(sum()), Ok(3));
}

#[test]
fn the_ends_of_the_range_none_one_and_many() {
    block_on(async {
        let () = wakeful::join!();
        let () = wakeful::join!(biased;);
        assert_eq!(wakeful::try_join!() as Result<(), ()>, Ok(()));
        assert_eq!(wakeful::try_join!(biased;) as Result<(), ()>, Ok(()));
        assert_eq!(wakeful::join!(ready(1)), (1,));
        assert_eq!(wakeful::join!(ready(1),), (1,));

        // Around the length at which lists are split.
        let r = ready;
        assert_eq!(wakeful::join!(r(1), r(2), r(3), r(4), r(5), r(6), r(7)), (1, 2, 3, 4, 5, 6, 7));
        assert_eq!(
            wakeful::join!(r(1), r(2), r(3), r(4), r(5), r(6), r(7), r(8)),
            (1, 2, 3, 4, 5, 6, 7, 8)
        );
        assert_eq!(
            wakeful::join!(r(1), r(2), r(3), r(4), r(5), r(6), r(7), r(8), r(9)),
            (1, 2, 3, 4, 5, 6, 7, 8, 9)
        );

        let trace = Trace::default();
        let t = |name| traced(&trace, name, 1, ());
        wakeful::join!(
            t("0"),
            t("1"),
            t("2"),
            t("3"),
            t("4"),
            t("5"),
            t("6"),
            t("7"),
            t("8"),
            t("9"),
            t("0"),
            t("1"),
            t("2"),
            t("3"),
            t("4"),
            t("5"),
            t("6"),
            t("7"),
            t("8"),
            t("9"),
            t("0"),
            t("1"),
            t("2"),
            t("3"),
            t("4"),
            t("5"),
            t("6"),
            t("7"),
            t("8"),
            t("9"),
            t("0"),
            t("1"),
            t("2"),
            t("3"),
            t("4"),
            t("5"),
            t("6"),
            t("7"),
            t("8"),
            t("9"),
            t("0"),
            t("1"),
            t("2"),
            t("3"),
            t("4"),
            t("5"),
            t("6"),
            t("7"),
            t("8"),
            t("9"),
            t("0"),
            t("1"),
            t("2"),
            t("3"),
            t("4"),
            t("5"),
            t("6"),
            t("7"),
            t("8"),
            t("9"),
            t("0"),
            t("1"),
            t("2"),
            t("3"),
            t("4"),
            t("5"),
            t("6"),
            t("7"),
            t("8"),
            t("9"),
        );
        let polls = trace.take().into_iter().filter(|event| !event.starts_with("drop"));
        assert_eq!(polls.collect::<String>(), "0123456789".repeat(7));
    });
}

#[test]
fn futures_may_borrow_and_need_not_be_unpin() {
    block_on(async {
        let text = String::from("waking");
        let twice = RefCell::new(Vec::new());
        let note = async |n: usize| {
            ready(()).await;
            twice.borrow_mut().push(&text[n..]);
        };
        wakeful::join!(note(1), note(2));
        assert_eq!(twice.take(), ["aking", "king"]);
    });
}

#[test]
fn a_join_over_borrowed_data_is_send() {
    fn assert_send<F: Future + Send>(future: F) -> F {
        future
    }
    async fn length(text: &str) -> Result<usize, String> {
        Ok(text.len())
    }
    let joined = block_on(assert_send(async {
        let text = String::from("abc");
        let joined = wakeful::join!(length(&text), length(&text[1..]));
        let tried = wakeful::try_join!(length(&text), length(&text[2..]));
        (joined, tried)
    }));
    assert_eq!(joined, ((Ok(3), Ok(2)), Ok((3, 1))));
}

#[test]
fn names_of_the_expansion_do_not_meet_names_of_the_caller() {
    const COUNT: u32 = 2;
    let (member, members, joined, error) = (1, 2, 3, 4);
    let sums = block_on(async {
        (
            wakeful::join!(ready(member + members), ready(joined + error), ready(COUNT)),
            wakeful::try_join!(ready(Ok::<_, ()>(member + members)), ready(Ok(joined + error))),
        )
    });
    assert_eq!(sums, ((3, 7, 2), Ok((3, 7))));
}

#[test]
fn uninhabited_outputs_are_no_dead_code() {
    let mut joined = pin!(async { wakeful::join!(pending::<Infallible>(), ready(1)) });
    assert!(poll_once(joined.as_mut()).is_pending());

    block_on(async {
        let failed = wakeful::try_join!(async { Err::<Infallible, _>(1) }, async { Ok(2) });
        assert_eq!(failed, Err(1));
        let safe = wakeful::try_join!(async { Ok::<_, Infallible>(1) }, async { Ok(2) });
        assert_eq!(safe, Ok((1, 2)));
    });
}

#[test]
#[cfg(target_pointer_width = "64")]
fn a_join_is_its_futures_and_little_else() {
    let rotating = async { wakeful::join!(ready(0i32), ready(0i32)) };
    let biased = async { wakeful::join!(biased; ready(0i32), ready(0i32)) };
    assert_eq!(size_of_val(&rotating), 48);
    assert_eq!(size_of_val(&biased), 40);
}

#[test]
fn pin_takes_names_or_makes_them() {
    async fn double(n: u32) -> u32 {
        n * 2
    }
    block_on(async {
        let (a, b) = (double(1), double(2));
        wakeful::pin!(a, b);
        let a: Pin<&mut _> = a;
        assert_eq!((a.await, (&mut b).await), (2, 4));

        wakeful::pin! {
            let c = double(3);
            let d = double(4);
        }
        assert_eq!(c.as_mut().await + d.await, 14);
    });
}

#[test]
fn a_pinned_value_lives_to_the_end_of_the_block() {
    let trace = Trace::default();
    {
        let late = traced(&trace, "late", 2, ());
        wakeful::pin!(late);
        assert!(poll_once(late.as_mut()).is_pending());
        trace.borrow_mut().push("end".into());
    }
    assert_eq!(trace.take(), ["late", "end", "drop late"]);
}
