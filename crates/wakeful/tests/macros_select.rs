//! `select!` by recorded order: what is evaluated, polled, dropped and run, and in which sequence. No runtime needed.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::future::{self, Future, pending, poll_fn, ready};
use std::panic::AssertUnwindSafe;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};

use futures::executor::block_on;

mod support {
    pub mod panic_site;
}
use support::panic_site::panic_site;

/// A trace that futures and handlers write to.
#[derive(Clone, Default)]
struct Trace(Rc<RefCell<Vec<String>>>);

impl Trace {
    fn note(&self, event: impl Into<String>) {
        self.0.borrow_mut().push(event.into());
    }

    fn take(&self) -> Vec<String> {
        self.0.take()
    }
}

/// Records each poll and its drop. Ready at poll number `ready_at` (counted from 1), or never.
struct Traced {
    name: &'static str,
    ready_at: Option<u32>,
    polls: u32,
    trace: Trace,
}

impl Traced {
    fn new(trace: &Trace, name: &'static str, ready_at: impl Into<Option<u32>>) -> Self {
        trace.note(format!("make {name}"));
        Traced { name, ready_at: ready_at.into(), polls: 0, trace: trace.clone() }
    }
}

impl Future for Traced {
    type Output = &'static str;

    fn poll(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<&'static str> {
        self.polls += 1;
        self.trace.note(format!("poll {}", self.name));
        match self.ready_at {
            Some(n) if n == self.polls => Poll::Ready(self.name),
            Some(n) => {
                assert!(n > self.polls, "{} was polled after it had finished", self.name);
                Poll::Pending
            }
            None => Poll::Pending,
        }
    }
}

impl Drop for Traced {
    fn drop(&mut self) {
        self.trace.note(format!("drop {}", self.name));
    }
}

fn poll_once<F: Future>(future: Pin<&mut F>) -> Poll<F::Output> {
    future.poll(&mut Context::from_waker(Waker::noop()))
}

#[test]
fn conditions_then_futures_then_polls_then_drops_then_the_handler() {
    let trace = Trace::default();
    let condition = |name: &str, value: bool| {
        trace.note(format!("if {name}"));
        value
    };
    let won = block_on(async {
        wakeful::select! {
            biased;
            _ = Traced::new(&trace, "a", None) => "a",
            _ = Traced::new(&trace, "b", 1), if condition("b", false) => "b",
            name = Traced::new(&trace, "c", 1), if condition("c", true) => {
                trace.note("handler");
                name
            }
            _ = Traced::new(&trace, "d", 1) => "d",
        }
    });
    assert_eq!(won, "c");
    let expected = [
        "if b", "if c", "make a", "make b", "make c", "make d", "poll a", "poll c", "drop a",
        "drop b", "drop c", "drop d", "handler",
    ];
    assert_eq!(trace.take(), expected);
}

#[test]
fn a_pending_select_polls_every_enabled_branch_again() {
    let trace = Trace::default();
    let mut future = pin!(async {
        wakeful::select! {
            biased;
            name = Traced::new(&trace, "a", 3) => name,
            name = Traced::new(&trace, "b", 2) => name,
        }
    });
    assert!(poll_once(future.as_mut()).is_pending());
    assert_eq!(trace.take(), ["make a", "make b", "poll a", "poll b"]);
    assert_eq!(poll_once(future.as_mut()), Poll::Ready("b"));
    assert_eq!(trace.take(), ["poll a", "poll b", "drop a", "drop b"]);
}

#[test]
fn each_poll_goes_once_round_from_a_random_branch() {
    let trace = Trace::default();
    let mut future = pin!(async {
        wakeful::select! {
            _ = Traced::new(&trace, "a", None) => {},
            _ = Traced::new(&trace, "b", None), if false => {},
            _ = Traced::new(&trace, "c", None) => {},
            _ = Traced::new(&trace, "d", None) => {},
        }
    });
    let mut orders = BTreeSet::new();
    for _ in 0..200 {
        assert!(poll_once(future.as_mut()).is_pending());
        let polls = trace.take().into_iter().filter(|event| event.starts_with("poll"));
        orders.insert(polls.map(|event| event["poll ".len()..].to_owned()).collect::<String>());
    }
    // A start at the disabled branch is a start at the next branch.
    assert_eq!(Vec::from_iter(orders), ["acd", "cda", "dac"]);
}

#[test]
fn without_bias_every_ready_branch_wins_some_time() {
    let mut wins = [0; 5];
    for _ in 0..1000 {
        let winner: usize = block_on(async {
            wakeful::select! {
                _ = ready(()) => 0,
                _ = ready(()) => 1,
                _ = ready(()) => 2,
                _ = ready(()) => 3,
                _ = ready(()) => 4,
            }
        });
        wins[winner] += 1;
    }
    assert!(wins.iter().all(|&n| n > 100), "1000 fair choices of five: {wins:?}");
}

#[test]
fn an_output_that_does_not_fit_is_dropped_and_disables_its_branch() {
    let trace = Trace::default();
    let mut future = pin!(async {
        wakeful::select! {
            biased;
            "never this" = Traced::new(&trace, "a", 1) => "a",
            name = Traced::new(&trace, "b", 2) => name,
        }
    });
    assert!(poll_once(future.as_mut()).is_pending());
    assert_eq!(trace.take(), ["make a", "make b", "poll a", "poll b"]);
    assert_eq!(poll_once(future.as_mut()), Poll::Ready("b"));
    assert_eq!(trace.take(), ["poll b", "drop a", "drop b"]);

    let dropped = Rc::new(());
    let other = dropped.clone();
    let mut future = pin!(async {
        wakeful::select! {
            Err(()) = async move { Ok::<_, ()>(other) } => unreachable!(),
            _ = pending::<()>() => unreachable!(),
        }
    });
    assert!(poll_once(future.as_mut()).is_pending());
    assert_eq!(Rc::strong_count(&dropped), 1, "gone at once");
}

#[test]
fn else_runs_when_nothing_is_left() {
    block_on(async {
        let disabled = wakeful::select! {
            _ = ready(1), if false => "branch",
            else => "else",
        };
        assert_eq!(disabled, "else");

        let mismatched = wakeful::select! {
            Some(()) = ready(None) => "first",
            2 = ready(1) => "second",
            else => "else",
        };
        assert_eq!(mismatched, "else");

        assert_eq!(wakeful::select! { else => 1 }, 1);
        assert_eq!(wakeful::select! { biased; else => 1, }, 1);
    });
}

#[test]
fn without_else_it_panics_at_the_callers_line() {
    let line = Cell::new(0);
    let site = panic_site(AssertUnwindSafe(|| {
        block_on(async {
            line.set(line!() + 1);
            wakeful::select! {
                _ = ready(()), if false => {},
                Some(()) = ready(None) => {},
            }
        })
    }));
    assert_eq!(site.file, file!());
    assert_eq!(site.line, line.get());
    assert_eq!(site.message, "all branches are disabled and there is no else branch");
}

#[test]
fn handlers_are_code_of_the_surrounding_function() {
    async fn returns(early: bool) -> Result<&'static str, String> {
        let mut rounds = 0;
        let broken = loop {
            rounds += 1;
            wakeful::select! {
                _ = ready(()), if rounds == 1 => continue,
                _ = ready(()), if rounds == 2 => {
                    if early {
                        return Ok("returned");
                    }
                }
                n = ready("3"), if rounds == 3 => {
                    let n: u32 = n.parse().map_err(|_| "not a number")?;
                    assert_eq!(n, 3);
                    ready(()).await;
                }
                _ = ready(()), if rounds == 4 => break "broken",
            }
        };
        assert_eq!(rounds, 4);
        wakeful::select! {
            n = ready("x") => n.parse::<u32>().map_err(|e| e.to_string())?,
        };
        Ok(broken)
    }
    assert_eq!(block_on(returns(true)), Ok("returned"));
    assert_eq!(block_on(returns(false)), Err("invalid digit found in string".to_owned()));

    // `select!` also accepts this in the expression of a future and of a condition.
    async fn question_mark() -> Option<u32> {
        Some(wakeful::select! {
            n = ready(Some(1)?), if Some(true)? => n,
            n = ready(None?) => n,
        })
    }
    assert_eq!(block_on(question_mark()), None);
}

#[test]
fn handlers_may_use_what_the_futures_borrowed() {
    async fn borrow(_: &mut Vec<u32>) {}
    block_on(async {
        let mut values = vec![];
        for _ in 0..20 {
            wakeful::select! {
                () = borrow(&mut values) => values.push(1),
                () = ready(()) => { values.push(2) }
                else => values.clear(),
            }
        }
        assert_eq!(values.len(), 20);
    });
}

#[test]
fn handlers_come_as_blocks_and_expressions_with_and_without_commas() {
    block_on(async {
        for expected in 0..6 {
            let got = wakeful::select! {
                n = ready(0), if expected == 0 => n,
                n = ready(1), if expected == 1 => { n }
                n = ready(2), if expected == 2 => { n },
                n = ready(3), if expected == 3 => if n == 3 { n } else { 0 },
                n = ready(4), if expected == 4 => wakeful::select! { m = ready(n) => m },
                n = ready(5), if expected == 5 || expected == 6 => n
            };
            assert_eq!(got, expected);
        }
    });
}

#[test]
fn any_pattern_will_do() {
    #[derive(Debug, PartialEq)]
    enum Shape {
        Dot(String),
        Line(String),
    }
    block_on(async {
        wakeful::select! {
            Some(mut text) = async { Some(String::from("a")) } => {
                text.push('b');
                assert_eq!(text, "ab");
            }
        }
        wakeful::select! {
            Some(ref mut text) = async { Some(String::from("a")) } => text.push('b'),
        }
        wakeful::select! {
            Shape::Dot(text) | Shape::Line(text) = ready(Shape::Line("l".into())) => assert_eq!(text, "l"),
        }
        let whole = wakeful::select! {
            whole @ Shape::Dot(_) = ready(Shape::Dot("d".into())) => whole,
        };
        assert_eq!(whole, Shape::Dot("d".into()));
        let sum = wakeful::select! {
            [first, .., last @ 3..=9] = ready([1, 2, 3]) => first + last,
        };
        assert_eq!(sum, 4);
        let reference = &5;
        wakeful::select! { &five = ready(reference) => assert_eq!(five, 5) }
        wakeful::select! { (a, (b, _)) = ready((1, (2, 3))) => assert_eq!(a + b, 3) }
    });
}

#[test]
fn names_of_the_expansion_do_not_meet_names_of_the_caller() {
    let (output, future, branches, preconditions, fits) = (1, 2, 4, 8, 16);
    let sum = block_on(async {
        wakeful::select! {
            member = ready(output + future + branches), if fits == 16 => member + preconditions + fits,
            member = pending::<i32>() => member,
        }
    });
    assert_eq!(sum, 31);
}

#[test]
fn a_conditions_temporaries_are_gone_before_the_next_condition() {
    let shared = RefCell::new(1);
    block_on(async {
        wakeful::select! {
            _ = ready(()), if *shared.borrow_mut() == 1 => {}
            _ = ready(()), if *shared.borrow_mut() == 2 => {}
        }
    });
}

#[test]
fn futures_need_not_be_unpin_nor_futures() {
    struct Soon(u32);
    impl IntoFuture for Soon {
        type Output = u32;
        type IntoFuture = future::Ready<u32>;
        fn into_future(self) -> Self::IntoFuture {
            ready(self.0)
        }
    }
    use std::future::IntoFuture;

    block_on(async {
        let never = async { pending::<u32>().await };
        let n = wakeful::select! {
            n = Soon(3) => n,
            n = never => n,
            n = &mut pending() => n,
        };
        assert_eq!(n, 3);
    });
}

#[test]
fn a_select_over_borrowed_data_is_send() {
    fn assert_send<F: Future + Send>(future: F) -> F {
        future
    }
    async fn first(words: &[String]) -> Option<&str> {
        words.first().map(String::as_str)
    }
    type Boxed<'a> = Pin<Box<dyn Future<Output = Option<&'a str>> + Send + 'a>>;
    fn boxed<'a>(words: &'a [String]) -> Boxed<'a> {
        Box::pin(first(words))
    }
    async fn apply(call: impl for<'a> Fn(&'a [String]) -> Boxed<'a>) -> usize {
        let words = vec![String::from("one")];
        let found = wakeful::select! {
            Some(word) = call(&words) => word.len(),
            Some(word) = first(&words) => word.len(),
            else => 0,
        };
        ready(()).await;
        found
    }
    assert_eq!(block_on(assert_send(apply(boxed))), 3);
}

#[test]
fn a_future_that_never_ends_needs_no_handler_value() {
    async fn never() -> ! {
        pending().await
    }
    let n = block_on(async {
        wakeful::select! {
            _ = never() => 0,
            impossible = never() => impossible,
            n = ready(1) => n,
        }
    });
    assert_eq!(n, 1);
}

#[test]
fn every_branch_sees_the_waker_of_this_poll() {
    let seen = RefCell::new(Vec::new());
    let leaf = || {
        poll_fn(|cx: &mut Context<'_>| {
            seen.borrow_mut().push(cx.waker().clone());
            Poll::<()>::Pending
        })
    };
    let mut future = pin!(async {
        wakeful::select! {
            _ = leaf() => {}
            _ = leaf() => {}
        }
    });
    struct Unique;
    impl Wake for Unique {
        fn wake(self: Arc<Self>) {}
    }
    for _ in 0..3 {
        let waker = Waker::from(Arc::new(Unique));
        assert!(future.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
        let seen = seen.take();
        assert_eq!(seen.len(), 2);
        assert!(seen.iter().all(|one| one.will_wake(&waker)));
    }
}

#[test]
#[cfg(target_pointer_width = "64")]
fn a_select_is_its_futures_and_little_else() {
    let one = async {
        wakeful::select! { _ = ready(0i32) => {} }
    };
    let three = async {
        wakeful::select! { _ = ready(0i32) => {}, _ = ready(0i32) => {}, _ = ready(0i32) => {} }
    };
    assert_eq!(size_of_val(&one), 32);
    assert_eq!(size_of_val(&three), 48);
}

#[test]
fn every_branch_gets_its_own_output_on_both_sides_of_the_length_at_which_lists_are_split() {
    for n in 0..9 {
        let won = block_on(async {
            wakeful::select! {
                x = ready('a'), if n == 0 => (0, x),
                x = ready('b'), if n == 1 => (1, x),
                x = ready('c'), if n == 2 => (2, x),
                x = ready('d'), if n == 3 => (3, x),
                x = ready('e'), if n == 4 => (4, x),
                x = ready('f'), if n == 5 => (5, x),
                x = ready('g'), if n == 6 => (6, x),
                x = ready('h'), if n == 7 => (7, x),
                else => (8, 'i'),
            }
        });
        assert_eq!(won, (n, "abcdefghi".as_bytes()[n] as char));
    }
}

#[test]
fn there_may_be_64_branches() {
    let n = block_on(async {
        wakeful::select! {
            biased;
            x = ready(0), if false => x, x = ready(1), if false => x, x = ready(2), if false => x, x = ready(3), if false => x,
            x = ready(4), if false => x, x = ready(5), if false => x, x = ready(6), if false => x, x = ready(7), if false => x,
            x = ready(8), if false => x, x = ready(9), if false => x, x = ready(10), if false => x, x = ready(11), if false => x,
            x = ready(12), if false => x, x = ready(13), if false => x, x = ready(14), if false => x, x = ready(15), if false => x,
            x = ready(16), if false => x, x = ready(17), if false => x, x = ready(18), if false => x, x = ready(19), if false => x,
            x = ready(20), if false => x, x = ready(21), if false => x, x = ready(22), if false => x, x = ready(23), if false => x,
            x = ready(24), if false => x, x = ready(25), if false => x, x = ready(26), if false => x, x = ready(27), if false => x,
            x = ready(28), if false => x, x = ready(29), if false => x, x = ready(30), if false => x, x = ready(31), if false => x,
            x = ready(32), if false => x, x = ready(33), if false => x, x = ready(34), if false => x, x = ready(35), if false => x,
            x = ready(36), if false => x, x = ready(37), if false => x, x = ready(38), if false => x, x = ready(39), if false => x,
            x = ready(40), if false => x, x = ready(41), if false => x, x = ready(42), if false => x, x = ready(43), if false => x,
            x = ready(44), if false => x, x = ready(45), if false => x, x = ready(46), if false => x, x = ready(47), if false => x,
            x = ready(48), if false => x, x = ready(49), if false => x, x = ready(50), if false => x, x = ready(51), if false => x,
            x = ready(52), if false => x, x = ready(53), if false => x, x = ready(54), if false => x, x = ready(55), if false => x,
            x = ready(56), if false => x, x = ready(57), if false => x, x = ready(58), if false => x, x = ready(59), if false => x,
            x = ready(60), if false => x, x = ready(61), if false => x, x = pending() => x, x = ready(63) => x,
        }
    });
    assert_eq!(n, 63, "the last of 64 branches has a bit of its own");
}
