//! Tests of the world with hosts that are lists of numbers.

use super::*;
use crate::sim::oracle::{Choice, Fifo, Random, Replay};
use crate::sys::rng::Rng;

/// What happened, in order: the host, and the task or a text.
type Trace = Arc<Mutex<Vec<String>>>;

/// A host whose tasks are numbers. Each is polled once.
struct FakeHost {
    name: &'static str,
    tasks: Mutex<VecDeque<u64>>,
    timers: Mutex<Vec<u64>>,
    trace: Trace,
    time: Arc<WorldTime>,
}

impl HostRunner for FakeHost {
    fn ready(&self) -> usize {
        self.tasks.lock().unwrap().len()
    }

    fn task_id(&self, index: usize) -> u64 {
        self.tasks.lock().unwrap()[index]
    }

    fn task_site(&self, _index: usize) -> &'static Location<'static> {
        Location::caller()
    }

    fn poll(&self, index: usize, budget: Option<u8>) {
        let task = self.tasks.lock().unwrap().remove(index).unwrap();
        let cut = budget.map_or(String::new(), |_| " cut".to_owned());
        self.trace.lock().unwrap().push(format!("{} {task}{cut}", self.name));
    }

    fn next_timer_ns(&self) -> Option<u64> {
        self.timers.lock().unwrap().iter().min().copied()
    }

    fn fire_timers(&self) -> usize {
        let now = self.time.now_ns();
        let mut timers = self.timers.lock().unwrap();
        let before = timers.len();
        timers.retain(|at| *at > now);
        let fired = before - timers.len();
        self.tasks.lock().unwrap().extend((0..fired as u64).map(|n| 100 + n));
        fired
    }

    fn shut_down(&self) {
        self.tasks.lock().unwrap().clear();
    }
}

struct Fixture {
    world: Arc<World>,
    trace: Trace,
}

impl Fixture {
    fn new(strategy: Box<dyn Strategy>) -> Self {
        let settings =
            WorldSettings { max_polls_per_instant: 1_000, ..WorldSettings::new(1, strategy) };
        Self { world: World::new(settings), trace: Trace::default() }
    }

    fn host(&self, name: &'static str, tasks: &[u64], timers: &[u64]) -> (HostId, Arc<FakeHost>) {
        let runner = Arc::new(FakeHost {
            name,
            tasks: Mutex::new(tasks.iter().copied().collect()),
            timers: Mutex::new(timers.to_vec()),
            trace: self.trace.clone(),
            time: self.world.time.clone(),
        });
        let id = self.world.add_host(name, None);
        self.world.set_runner(id, Some(runner.clone()));
        (id, runner)
    }

    fn step(&self) -> Stepped {
        self.world.poll_next().unwrap_or_else(|| self.world.advance())
    }

    fn run(&self) -> Vec<String> {
        while !matches!(self.step(), Stepped::Stuck | Stepped::Failed) {}
        std::mem::take(&mut self.trace.lock().unwrap())
    }

    /// An event that writes its token into the trace.
    fn event(&self) -> Arc<dyn EventTarget> {
        let trace = self.trace.clone();
        Arc::new(move |world: &World, token: u64| {
            let at = world.now_ns();
            trace.lock().unwrap().push(format!("event {token} at {at}"));
        })
    }
}

#[test]
fn fifo_runs_the_hosts_in_turn_and_each_in_order() {
    let fixture = Fixture::new(Box::new(Fifo));
    fixture.host("a", &[1, 2, 3], &[]);
    fixture.host("b", &[7, 8], &[]);
    assert_eq!(fixture.run(), ["a 1", "b 7", "a 2", "b 8", "a 3"]);
    assert_eq!(fixture.step(), Stepped::Stuck);
}

#[test]
fn time_jumps_to_the_next_timer_or_event_and_equal_times_keep_their_order() {
    let fixture = Fixture::new(Box::new(Fifo));
    let (host, _) = fixture.host("a", &[1], &[50, 20]);
    let event = fixture.event();
    for (after, token) in [(50, 1), (30, 2), (50, 3)] {
        fixture.world.schedule(Duration::from_nanos(after), host, event.clone(), token);
    }
    let trace = ["a 1", "a 100", "event 2 at 30", "event 1 at 50", "event 3 at 50", "a 100"];
    assert_eq!(fixture.run(), trace);
    assert_eq!(fixture.world.now_ns(), 50);
}

#[test]
fn an_event_without_delay_fires_in_the_next_step_and_does_not_hold_up_tasks() {
    let fixture = Fixture::new(Box::new(Fifo));
    let (host, runner) = fixture.host("a", &[], &[]);
    let again = fixture.event();
    let first = move |world: &World, _: u64| {
        runner.tasks.lock().unwrap().push_back(5);
        world.mark_ready(host);
        world.schedule(Duration::ZERO, host, again.clone(), 2);
    };
    fixture.world.schedule(Duration::ZERO, host, Arc::new(first), 1);
    assert_eq!(fixture.run(), ["a 5", "event 2 at 0"]);
}

#[test]
fn a_paused_host_runs_neither_tasks_nor_timers() {
    let fixture = Fixture::new(Box::new(Fifo));
    let (a, _) = fixture.host("a", &[1], &[10]);
    fixture.host("b", &[7], &[20]);
    fixture.world.set_paused(a, true);
    assert_eq!(fixture.run(), ["b 7", "b 100"]);
    fixture.world.set_paused(a, false);
    assert_eq!(fixture.run(), ["a 1", "a 100"]);
    assert_eq!(fixture.world.now_ns(), 20, "its timer was late");
}

#[test]
fn a_host_that_is_down_runs_nothing() {
    let fixture = Fixture::new(Box::new(Fifo));
    let (a, _) = fixture.host("a", &[1], &[10]);
    assert!(fixture.world.set_runner(a, None).is_some());
    assert!(fixture.run().is_empty() && !fixture.world.is_up(a));
    assert_eq!(fixture.world.host_named("a"), Some(a));
    assert_eq!((fixture.world.host_named("b"), &*fixture.world.host_name(a)), (None, "a"));
}

#[test]
fn a_replay_repeats_trace_and_hash_of_a_random_run() {
    let run = |strategy| {
        let fixture = Fixture::new(strategy);
        fixture.host("a", &[1, 2, 3, 4, 5], &[5]);
        fixture.host("b", &[7, 8, 9, 10, 11], &[5]);
        (fixture.run(), fixture.world.result())
    };
    let random = || Box::new(Random { preemption: 500_000 });
    let (trace, outcome) = run(random());
    assert!(trace.iter().any(|line| line.ends_with("cut")) && outcome.choice_count > 0);
    assert_ne!(trace[..3], ["a 1", "b 7", "a 2"]);
    let (again, repeated) = run(random());
    assert_eq!((&again, repeated.hash.value()), (&trace, outcome.hash.value()));
    let (replayed, replay) = run(Box::new(Replay::new(&outcome.choices)));
    assert_eq!((&replayed, replay.hash.value()), (&trace, outcome.hash.value()));
    assert_eq!(replay.choices, outcome.choices);
}

#[test]
fn polls_without_a_step_of_the_time_are_a_livelock() {
    let fixture = Fixture::new(Box::new(Fifo));
    fixture.host("a", &(1..=2_000).collect::<Vec<_>>(), &[]);
    assert_eq!(fixture.run().len(), 1_000);
    let failure = fixture.world.result().failure.unwrap();
    assert_eq!(failure.kind, FailureKind::Livelock);
    assert_eq!(fixture.step(), Stepped::Failed);
}

#[test]
fn a_deferred_action_runs_after_the_poll_in_which_it_was_deferred() {
    let fixture = Fixture::new(Box::new(Fifo));
    let (host, _) = fixture.host("a", &[], &[]);
    let (trace, event) = (fixture.trace.clone(), fixture.event());
    let deferring = move |world: &World, token: u64| {
        let trace = trace.clone();
        world.defer(move |_| trace.lock().unwrap().push("deferred".to_owned()));
        event.clone().fire(world, token);
    };
    fixture.world.schedule(Duration::ZERO, host, Arc::new(deferring), 1);
    assert_eq!(fixture.run(), ["event 1 at 0", "deferred"]);
}

#[test]
fn the_strategy_sees_hosts_and_tasks_by_their_identity() {
    struct Highest;
    impl Strategy for Highest {
        fn name(&self) -> String {
            "highest".to_owned()
        }
        fn choose(&mut self, choice: &Choice<'_>, _rng: &mut Rng) -> u64 {
            let Range::Candidates(len, id) = choice.range else { return 0 };
            (0..len).max_by_key(|index| id(*index)).unwrap()
        }
    }
    let fixture = Fixture::new(Box::new(Highest));
    fixture.host("a", &[1, 3, 2], &[]);
    fixture.host("b", &[7, 9, 8], &[]);
    assert_eq!(fixture.run(), ["b 9", "b 8", "b 7", "a 3", "a 2", "a 1"]);
}

#[test]
fn conditions_are_checked_after_every_poll() {
    let fixture = Fixture::new(Box::new(Fifo));
    fixture.host("a", &[1, 2, 3], &[]);
    let (trace, site) = (fixture.trace.clone(), Location::caller());
    let condition = move || trace.lock().unwrap().len() < 2;
    fixture.world.always("few polls", Box::new(condition), site);
    assert_eq!(fixture.run(), ["a 1", "a 2"]);
    let failure = fixture.world.result().failure.unwrap();
    assert_eq!(failure.kind, FailureKind::Always);
    assert!(failure.text.starts_with("\"few polls\", at "), "{}", failure.text);
}

#[test]
fn an_eventual_condition_has_until_its_deadline_to_hold_once() {
    let run = |deadline| {
        let fixture = Fixture::new(Box::new(Fifo));
        fixture.host("a", &[], &[50]);
        let (trace, site) = (fixture.trace.clone(), Location::caller());
        let condition = move || !trace.lock().unwrap().is_empty();
        let within = Duration::from_nanos(deadline);
        fixture.world.eventually(within, "a poll", Box::new(condition), site);
        fixture.run();
        fixture.world.result().failure.map(|failure| failure.kind)
    };
    assert_eq!((run(49), run(50), run(51)), (Some(FailureKind::Eventually), None, None));
}

#[test]
fn a_condition_that_panics_does_not_hold() {
    let fixture = Fixture::new(Box::new(Fifo));
    fixture.host("a", &[1, 2], &[]);
    fixture.world.always("sound", Box::new(|| unreachable!("planted")), Location::caller());
    assert_eq!(fixture.run(), ["a 1"]);
    assert!(fixture.world.result().failure.unwrap().text.ends_with("panicked"));
}
