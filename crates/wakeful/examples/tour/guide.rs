//! Numbers and prints the chapters, and counts the checks that failed.

use std::fmt::Display;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use wakeful::runtime::{Builder, Runtime};

/// The time limit of the whole tour.
const LIMIT: Duration = Duration::from_secs(60);

/// The number of the current chapter.
static CHAPTER: AtomicUsize = AtomicUsize::new(0);

/// The number of reports from chapters that expect none.
static UNEXPECTED_REPORTS: AtomicUsize = AtomicUsize::new(0);

pub struct Guide {
    started: Instant,
    broken: Vec<String>,
}

/// The page of the current chapter.
pub struct Page<'a> {
    title: &'a str,
    broken: &'a mut Vec<String>,
}

impl Guide {
    pub fn new() -> Self {
        println!("\nA tour of wakeful. Every chapter explains itself, runs, and shows its result.");
        thread::spawn(|| {
            thread::sleep(LIMIT);
            eprintln!("\nchapter {} hangs: this tour takes seconds", CHAPTER.load(Relaxed));
            std::process::exit(1);
        });
        Self { started: Instant::now(), broken: Vec::new() }
    }

    /// Shows one chapter. A panic in the chapter counts as a failed check.
    pub fn chapter(&mut self, title: &str, explanation: &str, show: impl FnOnce(&mut Page<'_>)) {
        let number = CHAPTER.fetch_add(1, Relaxed) + 1;
        println!("\n{number:>2}. {title}");
        for line in explanation.lines() {
            println!("    {}", line.trim());
        }
        let mut page = Page { title, broken: &mut self.broken };
        if catch_unwind(AssertUnwindSafe(|| show(&mut page))).is_err() {
            self.broken.push(format!("{title}: it panicked"));
        }
    }

    /// Prints a summary. Returns failure if any check failed.
    pub fn farewell(mut self) -> ExitCode {
        let reports = UNEXPECTED_REPORTS.load(Relaxed);
        if reports > 0 {
            self.broken
                .push(format!("{reports} reports came from chapters that had nothing to report"));
        }
        let (chapters, took) = (CHAPTER.load(Relaxed), self.started.elapsed().as_secs_f64());
        if self.broken.is_empty() {
            println!("\n{chapters} chapters in {took:.1} s, and everything was as promised.\n");
            return ExitCode::SUCCESS;
        }
        println!("\n{chapters} chapters in {took:.1} s, but not everything was as promised:");
        for broken in &self.broken {
            println!("  - {broken}");
        }
        ExitCode::FAILURE
    }
}

impl Page<'_> {
    /// Prints a result.
    pub fn show(&mut self, line: impl Display) {
        for line in line.to_string().lines() {
            println!("      > {line}");
        }
    }

    /// Checks a promise, and records it if it is broken.
    pub fn expect(&mut self, holds: bool, promise: &str) {
        if !holds {
            println!("      ! check failed: {promise}");
            self.broken.push(format!("{}: {promise}", self.title));
        }
    }
}

/// Builds a runtime for chapters that expect no reports.
pub fn runtime(workers: usize) -> Runtime {
    Builder::new_multi_thread()
        .worker_threads(workers)
        .enable_all()
        .on_report(|report| {
            UNEXPECTED_REPORTS.fetch_add(1, Relaxed);
            eprintln!("{report}");
        })
        .build()
        .expect("threads can be started")
}
