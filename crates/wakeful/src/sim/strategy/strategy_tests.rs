//! Tests of the orders and of the search that uses them.

use super::swarm::{OrderKind, swarm};
use super::*;
use crate::sim::oracle::{ChoiceContext, Oracle};
use crate::sim::strategy::profile::Profiler;
use std::collections::VecDeque;

const HOST: HostId = HostId::FIRST;

/// Runs tasks, each with a number of polls, and returns the order in which they were polled. A polled task
/// goes to the back of the queue.
fn run(oracle: &mut Oracle, polls: &[u64]) -> Vec<u64> {
    let mut left = polls.to_vec();
    let mut queue: VecDeque<u64> = (0..polls.len() as u64).collect();
    let mut trace = Vec::new();
    while !queue.is_empty() {
        let id = |at: u64| queue[at as usize];
        let range = Range::Candidates(queue.len() as u64, &id);
        let at = oracle.choose(ChoiceKind::Task, HOST, range, ChoiceContext::default());
        let task = queue.remove(at as usize).unwrap();
        trace.push(task);
        let context = ChoiceContext { task, ..ChoiceContext::default() };
        oracle.choose(ChoiceKind::Budget, HOST, Range::Below(33), context);
        left[task as usize] -= 1;
        if left[task as usize] > 0 {
            queue.push_back(task);
        }
    }
    trace
}

fn search(order: impl Order + 'static, seed: u64) -> Oracle {
    Oracle::new(seed, Box::new(Search::new(Box::new(order), 0, Kinds::ALL)))
}

/// Counts the changes of the running task.
fn switches(trace: &[u64]) -> usize {
    trace.windows(2).filter(|pair| pair[0] != pair[1]).count()
}

#[test]
fn pct_of_depth_one_runs_each_task_to_its_end() {
    for seed in 0..50 {
        let pct = Pct::new(1, 30, &mut Rng::from_seed(seed));
        assert_eq!(switches(&run(&mut search(pct, seed), &[10; 3])), 2);
    }
}

#[test]
fn pct_lowers_a_priority_at_most_depth_minus_one_times() {
    let mut most = 0;
    for seed in 0..200 {
        let pct = Pct::new(3, 30, &mut Rng::from_seed(seed));
        let changes = switches(&run(&mut search(pct, seed), &[10; 3]));
        assert!(changes <= 4, "{changes} switches");
        most = most.max(changes);
    }
    assert_eq!(most, 4, "both change points had an effect in some run");
}

#[test]
fn delays_are_few_and_last_until_all_others_are_done() {
    let mut delayed = 0;
    for seed in 0..100 {
        let delay = Delay::new(1, 9, &mut Rng::from_seed(seed));
        let trace = run(&mut search(delay, seed), &[3; 3]);
        let positions: Vec<usize> = (0..3).map(|task| last(&trace, task)).collect();
        if trace != [0, 1, 2, 0, 1, 2, 0, 1, 2] {
            delayed += 1;
            let last = positions.iter().position(|at| *at == 8).unwrap() as u64;
            let others_end =
                (0..3).filter(|task| *task != last).map(|task| positions[task as usize]);
            let own = trace.iter().filter(|task| **task == last).count();
            assert_eq!(own, 3);
            assert!(others_end.max().unwrap() < 8, "{trace:?}");
        }
    }
    assert!(delayed > 50, "{delayed} of 100 runs were not in order");
}

fn last(trace: &[u64], task: u64) -> usize {
    trace.iter().rposition(|other| *other == task).unwrap()
}

#[test]
fn a_uniform_walk_lets_a_short_task_end_last_more_often() {
    let polls = [30, 3];
    let profiler = Profiler::default();
    run(&mut Oracle::new(0, Box::new(profiler.clone())), &polls);
    let profile = Arc::new(profiler.profile());
    let polls_of = |candidate| profile.polls_of(candidate);
    assert_eq!([polls_of((HOST, 0)), polls_of((HOST, 1))], [30, 3]);
    assert_eq!((polls_of((HostId::WORLD, 1)), profile.picks()), (33, 6));
    let short_is_last = |with_urw: bool| {
        let is_last = |seed: &u64| {
            let mut oracle = if with_urw {
                search(Urw::new(profile.clone()), *seed)
            } else {
                search(Uniform, *seed)
            };
            run(&mut oracle, &polls).last() == Some(&1)
        };
        (0..2_000).filter(is_last).count()
    };
    let (urw, uniform) = (short_is_last(true), short_is_last(false));
    // Of the 5,456 interleavings, 496 end with the short task: one in 11.
    assert!((100..270).contains(&urw), "{urw} of 2,000");
    assert!(uniform < 20, "{uniform} of 2,000");
}

#[test]
fn no_order_starves_a_task() {
    for seed in 0..100 {
        let profile = Arc::new(Profile::default());
        let mut oracle = Oracle::new(seed, Box::new(swarm(seed, None, &profile)));
        let trace = run(&mut oracle, &[100_000, 1]);
        let position = trace.iter().position(|task| *task == 1).unwrap();
        assert!(position <= 2 * MAX_PASSED_OVER as usize + 2, "seed {seed}: {position}");
    }
}

#[test]
fn a_fault_that_is_switched_off_does_not_happen() {
    let mut enabled = Kinds::ALL;
    enabled.remove(ChoiceKind::Loss);
    let strategy = Search::new(Box::new(InOrder), 0, enabled);
    let mut oracle = Oracle::new(1, Box::new(strategy));
    let mut happens = |kind| {
        let range = Range::Chance(500_000);
        (0..100).filter(|_| oracle.choose(kind, HOST, range, ChoiceContext::default()) > 0).count()
    };
    assert_eq!(happens(ChoiceKind::Loss), 0);
    assert!(happens(ChoiceKind::Duplicate) > 20);
    assert_eq!(oracle.strategy_name(), "fifo; faults {duplicate}");
}

#[test]
fn cuts_are_as_frequent_as_the_rate_and_stay_in_their_range() {
    let strategy = Search::new(Box::new(InOrder), 250_000, Kinds::ALL);
    let mut oracle = Oracle::new(1, Box::new(strategy));
    let mut cut = |len| {
        let range = Range::Below(len);
        oracle.choose(ChoiceKind::Budget, HOST, range, ChoiceContext::default())
    };
    let cuts: Vec<u64> = (0..10_000).map(|_| cut(33)).filter(|cut| *cut > 0).collect();
    assert!((2_200..2_800).contains(&cuts.len()), "{}", cuts.len());
    assert!((1..33).all(|at| cuts.contains(&at)));
    assert!((0..1_000).all(|_| cut(3) < 3));
    assert_eq!(oracle.strategy_name(), "fifo, 25 % of the polls cut short");
}

/// Returns the profile of a run of three tasks with this number of polls each.
fn measured(polls: u64) -> Arc<Profile> {
    let profiler = Profiler::default();
    run(&mut Oracle::new(0, Box::new(profiler.clone())), &[polls; 3]);
    Arc::new(profiler.profile())
}

/// Returns the strategies that 400 seeds draw.
fn drawn(profile: &Arc<Profile>) -> BTreeSet<String> {
    let name = |seed| {
        let mut search = swarm(seed, None, profile);
        search.asked = Kinds::ALL;
        Oracle::new(seed, Box::new(search)).strategy_name()
    };
    (0..400).map(name).collect()
}

#[test]
fn a_swarm_draws_every_order_and_fault() {
    let profile = measured(1_000);
    let names = drawn(&profile);
    let any = |part: &str| names.iter().any(|name| name.contains(part));
    let parts = ["fifo", "random", "pct(2)", "pct(5)", "delay(1)", "urw", "100 % of", " 2 % of"];
    assert!(parts.iter().all(|part| any(part)), "{names:?}");
    for kind in FAULTS {
        let has_kind = |name: &&String| name.contains(kind.name());
        let on = names.iter().filter(has_kind).count();
        assert!(0 < on && on < names.len(), "{kind:?}: {names:?}");
    }
    assert!(any("faults {loss, duplicate, reorder, short_io, partition"), "{names:?}");
    let again = || swarm(7, None, &profile).name();
    assert_eq!(again(), again());
}

#[test]
fn short_runs_are_always_preempted_at_some_polls() {
    let names = drawn(&measured(3));
    let any = |part: &str| names.iter().any(|name| name.contains(part));
    let parts = ["fifo", "random", "pct(2)", "pct(5)", "delay(1)", "urw", "100 % of", " 10 % of"];
    assert!(parts.iter().all(|part| any(part)), "{names:?}");
    assert!(names.iter().all(|name| name.contains("cut short")), "{names:?}");
    assert!(!any(" 2 % of"), "{names:?}");
}

#[test]
fn an_order_is_named_by_its_text() {
    let profile = Arc::new(Profile::default());
    for text in ["fifo", "random", "pct(3)", "delay(2)", "urw"] {
        let order: OrderKind = text.parse().unwrap();
        assert!(swarm(1, Some(order), &profile).name().starts_with(text), "{text}");
    }
    assert_eq!("dfs(2)".parse(), Ok(OrderKind::Dfs(2)));
    for text in ["", "pct", "pct(0)", "pct(x)", "fifo(1)", "dfs(1", "luck"] {
        assert!(text.parse::<OrderKind>().unwrap_err().contains("is not a strategy"), "{text}");
    }
}
