//! Converts choices, numbers and times to words.

use super::preemptions::Preemptions;
use crate::sim::oracle::{ChoiceKind, HostId, MadeChoice};
use crate::sim::world::RunResult;
use std::time::Duration;

/// The id of the first task of the first host: the program that was passed to the simulation.
const MAIN_TASK: u64 = 1;

/// Describes a choice. The names of hosts are left out if there is only one.
pub(super) fn describe(made: &MadeChoice, run: &RunResult, preemptions: &Preemptions) -> String {
    let hosts = &run.hosts;
    let name = |host: HostId| match hosts.get(host.index()) {
        Some(name) => name.to_string(),
        None => format!("host {}", host.0),
    };
    let is_alone = hosts.len() == 2;
    let host = name(made.host);
    let task = match (made.task, is_alone) {
        (0, _) => host.clone(),
        (MAIN_TASK, _) if made.host == HostId::FIRST => "the main task".to_owned(),
        (task, true) => format!("task {task}{}", spawned_at(task, run)),
        (task, false) => format!("{host} task {task}{}", spawned_at(task, run)),
    };
    let nth = ordinal(u64::from(made.number) + 1);
    let value = made.value;
    let site =
        made.site.map_or(String::new(), |site| format!(" at {}:{}", site.file(), site.line()));
    let key = (made.kind, made.number);
    let of_chaos = run.fault_texts.get(&key).filter(|_| made.host == HostId::WORLD);
    let what = match made.kind {
        _ if let Some(text) = of_chaos => text.clone(),
        ChoiceKind::Host => format!("{} runs first", name(HostId(made.task as u32))),
        ChoiceKind::Task => format!("{task} runs first"),
        ChoiceKind::Budget => {
            let place = preemptions.at_step(made.step);
            let place = place.map_or(String::new(), |place| format!(" at {place},"));
            format!("{task} is preempted{place} before its {} ready operation", ordinal(value))
        }
        ChoiceKind::Pick => format!("{task} draws {value}"),
        ChoiceKind::Latency => {
            format!("the {nth} message of {host} is late (latency choice {value})")
        }
        ChoiceKind::Loss => format!("{host} loses its {nth} packet"),
        ChoiceKind::Duplicate => format!("the {nth} packet of {host} arrives twice"),
        ChoiceKind::Reorder => format!("the {nth} datagram of {host} is overtaken"),
        ChoiceKind::ShortIo => {
            format!("the {nth} read or write of {host} is short (choice {value})")
        }
        kind @ (ChoiceKind::Partition
        | ChoiceKind::LatencySpike
        | ChoiceKind::Kill
        | ChoiceKind::Pause
        | ChoiceKind::ClockStep
        | ChoiceKind::ClockDrift) => {
            format!("the {nth} choice of the fault {} is {value}, without effect", kind.name())
        }
        ChoiceKind::User => format!("{task} chooses {value}"),
    };
    what + &site
}

/// Returns the spawn site of a task, in parentheses.
fn spawned_at(task: u64, run: &RunResult) -> String {
    let site = run.task_sites.get(&task);
    site.map_or(String::new(), |site| format!(" ({}:{})", site.file(), site.line()))
}

/// Returns `1st`, `2nd`, `3rd`, `4th` and so on.
fn ordinal(number: u64) -> String {
    let ending = match (number % 10, number % 100) {
        (_, 11..=13) => "th",
        (1, _) => "st",
        (2, _) => "nd",
        (3, _) => "rd",
        _ => "th",
    };
    format!("{number}{ending}")
}

/// Formats a number with commas between thousands.
pub(super) fn with_commas(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Formats a time in a unit that fits its size.
pub(super) fn time(time: Duration) -> String {
    let seconds = time.as_secs_f64();
    match seconds {
        0.0 => "0 s".to_owned(),
        ..0.001 => format!("{:.1} us", seconds * 1e6),
        ..1.0 => format!("{:.1} ms", seconds * 1e3),
        ..100.0 => format!("{seconds:.1} s"),
        _ => format!("{seconds:.0} s"),
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::sim::oracle::Fifo;
    use crate::sim::world::{World, WorldSettings};
    use std::panic::Location;

    #[test]
    fn numbers_and_times_are_written_for_people() {
        let numbers = [0, 999, 1_204, 1_000_000].map(with_commas);
        assert_eq!(numbers, ["0", "999", "1,204", "1,000,000"]);
        let ordinals = [1, 2, 3, 4, 11, 12, 22, 111, 113, 123].map(ordinal);
        let expected =
            ["1st", "2nd", "3rd", "4th", "11th", "12th", "22nd", "111th", "113th", "123rd"];
        assert_eq!(ordinals, expected);
        let times = [0, 12_000, 12_000_000, 5_600_000_000, 777_000_000_000];
        let times = times.map(|ns| time(Duration::from_nanos(ns)));
        assert_eq!(times, ["0 s", "12.0 us", "12.0 ms", "5.6 s", "777 s"]);
    }

    #[test]
    fn every_kind_has_words() {
        let mut run = World::new(WorldSettings::new(1, Box::new(Fifo))).result();
        let preemptions = Preemptions::default();
        run.hosts.extend(["n1".into(), "n2".into()]);
        let made = |kind, host| MadeChoice {
            kind,
            host: HostId(host),
            number: 1,
            value: 2,
            step: 9,
            task: 2,
            site: None,
        };
        let lines: Vec<String> = ChoiceKind::ALL
            .iter()
            .map(|kind| {
                describe(&made(*kind, u32::from(*kind != ChoiceKind::Host)), &run, &preemptions)
            })
            .collect();
        let expected = [
            "n2 runs first",
            "n1 task 2 runs first",
            "n1 task 2 is preempted before its 2nd ready operation",
            "n1 task 2 draws 2",
            "the 2nd message of n1 is late (latency choice 2)",
            "n1 loses its 2nd packet",
            "the 2nd packet of n1 arrives twice",
            "the 2nd datagram of n1 is overtaken",
            "the 2nd read or write of n1 is short (choice 2)",
            "the 2nd choice of the fault partition is 2, without effect",
            "n1 task 2 chooses 2",
            "the 2nd choice of the fault latency_spike is 2, without effect",
            "the 2nd choice of the fault kill is 2, without effect",
            "the 2nd choice of the fault pause is 2, without effect",
            "the 2nd choice of the fault clock_step is 2, without effect",
            "the 2nd choice of the fault clock_drift is 2, without effect",
        ];
        assert_eq!(lines, expected);
        run.hosts.pop();
        run.task_sites.insert(2, Location::caller());
        let alone = describe(&made(ChoiceKind::Task, 1), &run, &preemptions);
        assert!(alone.starts_with("task 2 (") && alone.ends_with(") runs first"), "{alone}");
    }
}
