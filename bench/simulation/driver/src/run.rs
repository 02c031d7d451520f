//! Runs the searches for a bug with a tool.

use crate::options::Options;
use crate::tools::Tool;

/// The number of runs after which a search gives up.
pub const MAX_RUNS: u64 = 10_000;

/// The number of first searches. If none of them finds the bug, no more are made.
const FIRST: u64 = 3;

/// The time limit of the twin's runs in a round.
const TWIN_SECONDS: u64 = 4;

/// A bug on a tool.
pub struct Cell<'a> {
    pub number: u32,
    pub bug: &'static str,
    pub tool: &'a Tool,
    /// The number of runs until the bug was found, for each successful search.
    pub found: Vec<u64>,
    pub missed: u64,
    pub twins: u64,
    pub alarms: u64,
    /// Runs of the twin per second, for each round.
    pub rates: Vec<f64>,
}

impl<'a> Cell<'a> {
    /// Returns `None` if the tool does not have the bug.
    pub fn new(number: u32, bug: &'static str, tool: &'a Tool) -> Option<Self> {
        let has_bug = tool.bugs.iter().any(|name| name == bug);
        has_bug.then(|| Self {
            number,
            bug,
            tool,
            found: Vec::new(),
            missed: 0,
            twins: 0,
            alarms: 0,
            rates: Vec::new(),
        })
    }

    pub fn round(&mut self, round: u64, options: &Options) {
        let masters = options.masters / options.rounds;
        let mut first = round * masters;
        let end = first + masters;
        if round == 0 {
            self.search(first, FIRST.min(masters));
            first += FIRST.min(masters);
        }
        // loom has no seeds.
        let is_over = self.found.is_empty() || self.tool.name == "loom";
        if !is_over && first < end {
            self.search(first, end - first);
        }
        self.run_twins(round * 1_000_000, options.twins / options.rounds);
    }

    fn lines(&self, args: &[String]) -> Vec<Vec<String>> {
        let output = self.tool.command().args(args).output().expect("the program of a tool");
        assert!(output.status.success(), "{} fails: {args:?}", self.tool.name);
        let text = String::from_utf8(output.stdout).expect("lines");
        let words = |line: &str| line.split(' ').map(str::to_owned).collect();
        text.lines().map(words).collect()
    }

    fn search(&mut self, first: u64, masters: u64) {
        let numbers = [first, masters, MAX_RUNS].map(|number| number.to_string());
        let args = [&["search".to_owned(), self.bug.to_owned()][..], &numbers].concat();
        for line in self.lines(&args) {
            match line[0].as_str() {
                "found" => self.found.push(line[1].parse().expect("a number")),
                "missed" => self.missed += 1,
                // The tool's own output.
                _ => {}
            }
        }
        self.found.sort_unstable();
    }

    fn run_twins(&mut self, first_seed: u64, runs: u64) {
        let numbers = [first_seed, runs, TWIN_SECONDS].map(|number| number.to_string());
        let args = [&["twins".to_owned(), self.bug.to_owned()][..], &numbers].concat();
        let lines = self.lines(&args);
        let line = lines.iter().find(|line| line[0] == "twins").expect("a result");
        let runs: u64 = line[1].parse().expect("a number");
        self.twins += runs;
        self.alarms += line[2].parse::<u64>().expect("a number");
        self.rates.push(runs as f64 / line[3].parse::<f64>().expect("a number"));
        self.rates.sort_unstable_by(f64::total_cmp);
    }

    /// Returns a quantile of the number of runs until the bug was found, or `None` if too many
    /// searches missed it.
    pub fn quantile(&self, share: f64) -> Option<u64> {
        let all = self.found.len() + self.missed as usize;
        let index = ((all as f64 * share) as usize).min(all - 1);
        self.found.get(index).copied()
    }

    pub fn rate(&self) -> f64 {
        self.rates[self.rates.len() / 2]
    }
}

/// The simulated time per real second, of one tool with a number of hosts.
pub struct Heartbeats {
    pub tool: &'static str,
    pub hosts: u64,
    /// Simulated seconds and real seconds, for each round.
    pub samples: Vec<(f64, f64)>,
}

impl Heartbeats {
    /// Returns the simulated seconds per second in the median round.
    pub fn rate(&self) -> f64 {
        let mut rates: Vec<f64> = self.samples.iter().map(|it| it.0 / it.1).collect();
        rates.sort_unstable_by(f64::total_cmp);
        rates[rates.len() / 2]
    }
}

/// The numbers of hosts, each with the longest simulated time.
const SYSTEMS: [(u64, u64); 2] = [(5, 1_000_000), (50, 3_600)];

/// The number of rounds, and the approximate real time of one simulation.
const ROUNDS: usize = 3;
const SECONDS: u64 = 8;

pub fn heartbeats(tools: &[Tool]) -> Vec<Heartbeats> {
    let mut results = Vec::new();
    for (hosts, max) in SYSTEMS {
        let mut row: Vec<(&Tool, Heartbeats)> = tools
            .iter()
            .filter(|tool| tool.has_hosts)
            .map(|tool| (tool, Heartbeats { tool: tool.name, hosts, samples: Vec::new() }))
            .collect();
        for _ in 0..ROUNDS {
            for (tool, result) in &mut row {
                let args = [hosts, max, SECONDS].map(|number| number.to_string());
                let output = tool.command().arg("heartbeats").args(args).output();
                let text = String::from_utf8(output.expect("a tool").stdout).expect("a line");
                let line = text.lines().find_map(|line| line.strip_prefix("heartbeats "));
                let (simulated, took) =
                    line.and_then(|line| line.split_once(' ')).expect("a result");
                let number = |text: &str| text.parse().expect("a number");
                result.samples.push((number(simulated), number(took)));
            }
            row.rotate_left(1);
        }
        row.sort_by_key(|(_, result)| tools.iter().position(|tool| tool.name == result.tool));
        results.extend(row.into_iter().map(|(_, result)| result));
    }
    results
}
