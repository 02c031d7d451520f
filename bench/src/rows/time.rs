//! Rows about time: timeouts that never fire, the cost of sleeps, and how late they are.

use std::future;
use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};

use super::tasks::{CROWD, crowds};
use super::{Row, Target, Unit, Work, on_worker};
use crate::peers::{Timers, cells};

/// A time limit that no run reaches.
const LIMIT: Duration = Duration::from_secs(60);
/// Tasks that sleep at the same time.
const SLEEPERS: u64 = 200_000;
/// How often each length is slept in sleep_precise.
const NAPS: usize = 60;

pub fn rows() -> Vec<Row> {
    let mut rows = timeout_rows();
    rows.extend(sleep_rows());
    rows
}

fn timeout_rows() -> Vec<Row> {
    vec![
        Row {
            name: "timeout_never",
            what: "1,000 tasks, each 1,000 times a timeout of 60 s around one yield; per timeout",
            unit: Unit::Nanoseconds,
            ops_per_batch: CROWD,
            target: Target::each(0.30, 0.60),
            counted: Some((20, 120)),
            cells: cells!(timeout_never: SmolMulti, SmolStatic, SmolLocal, Compio, Glommio),
        },
        Row {
            name: "timeout_ready",
            what: "1,000 tasks, each 1,000 times a timeout of 60 s around a future that is ready; per timeout",
            unit: Unit::Nanoseconds,
            ops_per_batch: CROWD,
            target: Target::each(0.30, 0.40),
            counted: Some((20, 120)),
            cells: cells!(timeout_ready: SmolMulti, SmolStatic, SmolLocal, Monoio, Compio, Glommio),
        },
    ]
}

fn sleep_rows() -> Vec<Row> {
    vec![
        Row {
            name: "sleep_fire",
            what: "200,000 tasks sleep 1 to 1,000 ms, all at once; processor time in all",
            unit: Unit::CpuMilliseconds,
            ops_per_batch: 1,
            target: Target::each(0.60, 0.85),
            counted: None,
            cells: cells!(sleep_fire: SmolStatic, SmolLocal, Monoio, Compio, Glommio),
        },
        Row {
            name: "sleep_fire_late",
            what: "200,000 tasks sleep 1 to 1,000 ms, all at once; how late the median of them runs again",
            unit: Unit::MicrosecondsLate,
            ops_per_batch: 1,
            target: Target::both(0.60),
            counted: None,
            cells: cells!(sleep_fire_late: SmolStatic, SmolLocal, Monoio, Compio, Glommio),
        },
        Row {
            name: "sleep_fire_p99",
            what: "200,000 tasks sleep 1 to 1,000 ms, all at once; how late one in a hundred of them is at least",
            unit: Unit::MicrosecondsLate,
            ops_per_batch: 1,
            target: Target::both(1.0),
            counted: None,
            cells: cells!(sleep_fire_p99: SmolStatic, SmolLocal, Monoio, Compio, Glommio),
        },
        Row {
            name: "sleep_precise",
            what: "alone on an idle runtime, sleeps of 0.3, 1.7 and 5.2 ms: how late the median is, mean of the three",
            unit: Unit::MicrosecondsLate,
            ops_per_batch: 1,
            target: Target::both(0.15),
            counted: None,
            cells: cells!(sleep_precise: SmolStatic, SmolLocal, Monoio, Compio, Glommio),
        },
    ]
}

fn timeout_never<P: Timers>() -> Work {
    on_worker(P::build(), |batches| {
        crowds::<P, _, _>(batches, |times| async move {
            for _ in 0..times {
                assert!(P::timeout(LIMIT, P::yield_now()).await, "it takes no minute");
            }
        })
    })
}

fn timeout_ready<P: Timers>() -> Work {
    on_worker(P::build(), |batches| {
        crowds::<P, _, _>(batches, |times| async move {
            for _ in 0..times {
                assert!(P::timeout(LIMIT, future::ready(())).await, "it takes no time");
            }
        })
    })
}

fn sleep_fire<P: Timers>() -> Work {
    let peer = P::build();
    Work::once(move || {
        let before = cpu_time();
        peer.run(sleepers::<P>());
        (cpu_time() - before).as_secs_f64() * 1e3
    })
}

fn sleep_fire_late<P: Timers>() -> Work {
    let peer = P::build();
    Work::once(move || percentile(peer.run(sleepers::<P>()), 50))
}

fn sleep_fire_p99<P: Timers>() -> Work {
    let peer = P::build();
    Work::once(move || percentile(peer.run(sleepers::<P>()), 99))
}

/// Spawns all sleepers. Returns how late each was.
async fn sleepers<P: Timers>() -> Vec<Duration> {
    let mut joins = Vec::with_capacity(SLEEPERS as usize);
    for number in 0..SLEEPERS {
        // Each length occurs equally often, in a scattered order.
        let length = Duration::from_millis(1 + number * 7_919 % 1_000);
        joins.push(P::spawn(lateness::<P>(length)));
    }
    let mut late = Vec::with_capacity(SLEEPERS as usize);
    for join in joins {
        late.push(join.await);
    }
    late
}

async fn lateness<P: Timers>(length: Duration) -> Duration {
    let start = Instant::now();
    P::sleep(length).await;
    start.elapsed().checked_sub(length).expect("no timer is early")
}

fn sleep_precise<P: Timers>() -> Work {
    let peer = P::build();
    Work::once(move || {
        let medians = [300, 1_700, 5_200].map(|us| {
            let length = Duration::from_micros(us);
            let late = peer.run(async move {
                let mut late = Vec::with_capacity(NAPS);
                for _ in 0..NAPS {
                    late.push(lateness::<P>(length).await);
                }
                late
            });
            percentile(late, 50)
        });
        medians.iter().sum::<f64>() / medians.len() as f64
    })
}

/// Returns a percentile in microseconds.
fn percentile(mut late: Vec<Duration>, percent: usize) -> f64 {
    late.sort();
    late[late.len() * percent / 100].as_secs_f64() * 1e6
}

/// Returns the CPU time of all threads of this process so far.
fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_counted_from_the_lowest() {
        let late = |percent| percentile((1..=200).map(Duration::from_micros).collect(), percent);
        assert_eq!((late(50).round(), late(99).round()), (101.0, 199.0));
    }
}
