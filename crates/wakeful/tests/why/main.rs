//! Keeps the reports and dumps in docs/WHY.md and README.md true: runs the programs that print them, and compares.
//!
//! Every block that is not code names the program that prints it: ```` ```text run=abba ````. A block without a program is
//! an error, and so is a quoted first line of a report that no program prints.
//! `WAKEFUL_BLESS=1 cargo test -p wakeful --test why --test gallery_stalls` writes the printed texts into the documents.
//!
//! Each program runs in a process of its own, which this binary starts with [`FLAG`]. This test has no harness, as a
//! harness has threads, beside which nothing is proven.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, Command, Stdio, exit};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

#[path = "../../examples/dump_connections.rs"]
mod dump_connections;
#[path = "../../examples/gallery/mod.rs"]
#[allow(dead_code, reason = "not all of it is quoted")]
mod gallery;
mod programs;
#[path = "../support/quotes.rs"]
mod quotes;
#[path = "../../examples/readme_deadlock.rs"]
mod readme_deadlock;
#[path = "../../examples/readme_dump.rs"]
mod readme_dump;

use gallery::Twin::Buggy;
use gallery::{stalls, waits};
use programs::{HOUR, multi_thread};

/// The argument before the name of a program.
const FLAG: &str = "--program";

/// The programs that `gallery_stalls.rs` runs and compares. They keep a core busy for a second and more.
const COMPARED_BY_GALLERY: [&str; 2] = ["a_self_waking_spinner", "a_loop_over_a_closed_channel"];

const DOCUMENTS: [&str; 2] = ["docs/WHY.md", "README.md"];

/// A text arrives long before. Only a defect of wakeful comes near this limit.
const LIMIT: Duration = Duration::from_secs(240);

/// How long the program prints nothing before the next dump is asked for.
const PAUSE: Duration = Duration::from_millis(20);

/// How many dumps may differ from the text before the program counts as one that prints something else.
const DUMPS: usize = 50;

/// How many programs run at the same time. Most of them wait.
const AT_ONCE: usize = 4;

/// How the output of a program is taken.
#[derive(Clone, Copy, PartialEq)]
enum Takes {
    /// All that it prints to its standard output until it ends.
    Output,
    /// The first report that it prints to standard error.
    Printed,
    /// A dump that has these marks. The program prints one to standard error at each SIGQUIT.
    Dump(&'static [&'static str]),
}

struct Program {
    name: &'static str,
    takes: Takes,
    run: fn(),
}

/// Returns the programs of the gallery that leave tasks behind which wait.
macro_rules! waiting {
    ($($kind:literal $bug:ident)+) => {
        [$(Program {
            name: stringify!($bug),
            takes: Takes::Output,
            run: || {
                let rt = multi_thread($kind);
                rt.block_on(waits::$bug(Buggy));
                loop {
                    thread::park();
                }
            },
        }),+]
    };
}

fn programs() -> Vec<Program> {
    let mut all: Vec<Program> = waiting!(
        "orphan" pending_without_a_waker
        "deadlock" abba
        "deadlock" locking_twice
        "futurelock" futurelock
        "unobserved panic" an_unobserved_panic
    )
    .into();
    let mut add = |name, takes, run| all.push(Program { name, takes, run });
    add("sleeping_with_the_thread", Takes::Output, || {
        let rt = multi_thread("blocked");
        rt.block_on(stalls::sleeping_with_the_thread(Buggy, 2, HOUR));
    });
    add("a_command_that_waits", Takes::Output, programs::a_command_that_waits);
    add("everything_asleep", Takes::Output, programs::everything_asleep);
    add("a_kept_sender", Takes::Output, programs::a_kept_sender);
    add("two_branches", Takes::Output, programs::two_branches);
    add("a_lock_with_a_time_out", Takes::Output, programs::a_lock_with_a_time_out);
    add("a_slow_holder", Takes::Output, programs::a_slow_holder);
    add("growing_tasks", Takes::Output, programs::growing_tasks);
    add("a_barrier_with_too_few", Takes::Output, programs::a_barrier_with_too_few);
    add("a_sender_that_stays", Takes::Output, programs::a_sender_that_stays);
    add("a_slow_shutdown", Takes::Output, programs::a_slow_shutdown);
    add("a_task_that_never_ran", Takes::Output, programs::a_task_that_never_ran);
    add("readme_deadlock", Takes::Printed, readme_deadlock::main);
    let marks = &["FOUND blocked", "\"reader\" waiting"];
    add("readme_dump", Takes::Dump(marks), || readme_dump::main().unwrap());
    add("dump_connections", Takes::Dump(&["  299 tasks waiting"]), || {
        dump_connections::main().unwrap()
    });
    all
}

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let mut all = programs();
    if let [flag, name] = &*args
        && flag == FLAG
    {
        let program = all.iter().find(|program| program.name == name).expect("a program's name");
        // The starter may ignore the signal, as shells do for background jobs.
        // SAFETY: the default action runs no code of this process.
        unsafe { libc::signal(libc::SIGQUIT, libc::SIG_DFL) };
        (program.run)();
        eprintln!("{name} ended without the report");
        exit(1);
    }
    let messages = Mutex::new(unknown_blocks(&all));
    // The kernel shows the system call of a thread only if it was built with that.
    let shows_calls =
        cfg!(target_arch = "x86_64") && Path::new("/proc/thread-self/syscall").exists();
    all.retain(|program| shows_calls || program.name != "a_command_that_waits");
    let printed = Mutex::new(BTreeMap::new());
    let next = AtomicUsize::new(0);
    thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| {
                while let Some(program) = all.get(next.fetch_add(1, Relaxed)) {
                    let (lines, differences) = compare(program);
                    messages.lock().unwrap().extend(differences);
                    printed.lock().unwrap().insert(program.name, lines);
                }
            });
        }
    });
    let printed = printed.into_inner().unwrap();
    let mut messages = messages.into_inner().unwrap();
    messages.extend(unknown_spans(&printed));
    for message in &messages {
        eprintln!("{message}\n");
    }
    if !messages.is_empty() {
        eprintln!(
            "WAKEFUL_BLESS=1 cargo test -p wakeful --test why writes the texts into the documents"
        );
        exit(1);
    }
    println!("why: the texts of {} programs are as quoted", printed.len());
}

/// The languages of blocks that are no output of a program.
const CODE: [&str; 3] = ["sh", "toml", "rust"];

/// Returns a message for each block that no program prints and for each document without blocks. An indented fence
/// hides its block, which gets a message too.
fn unknown_blocks(all: &[Program]) -> Vec<String> {
    let mut messages = Vec::new();
    for document in DOCUMENTS {
        let text = quotes::read(document);
        let is_hidden = |line: &str| {
            let is_fence = line.trim_start().starts_with("```") || line.starts_with("~~~");
            is_fence && !line.starts_with("```")
        };
        for (_, line) in text.lines().zip(1..).filter(|(text, _)| is_hidden(text)) {
            messages.push(format!("{document}:{line}: a fence is not at the start of its line"));
        }
        let is_code = |block: &&quotes::Block| {
            CODE.contains(&block.language().split(',').next().unwrap_or_default())
        };
        let blocks = quotes::blocks(&text);
        let texts: Vec<_> = blocks.iter().filter(|block| !is_code(block)).collect();
        assert!(!texts.is_empty(), "{document} quotes no report");
        for block in texts {
            let is_known =
                |name| COMPARED_BY_GALLERY.contains(&name) || all.iter().any(|it| it.name == name);
            if block.lines.is_empty() || !block.program().is_some_and(is_known) {
                let line = block.range.start;
                messages.push(format!("{document}:{line}: no program prints `{}`", block.info));
            }
        }
    }
    messages
}

/// Returns a message for each first line of a report in the text of the documents that no program prints.
fn unknown_spans(printed: &BTreeMap<&str, Vec<String>>) -> Vec<String> {
    let mut masked: Vec<String> = printed.values().flat_map(|lines| quotes::mask(lines)).collect();
    for block in DOCUMENTS.iter().flat_map(|document| quotes::blocks(&quotes::read(document))) {
        if block.program().is_some_and(|name| COMPARED_BY_GALLERY.contains(&name)) {
            masked.extend(quotes::mask(&block.lines));
        }
    }
    let mut messages = Vec::new();
    for document in DOCUMENTS {
        let text = quotes::read(document);
        let blocks = quotes::blocks(&text);
        let is_prose = |line: &usize| !blocks.iter().any(|block| block.range.contains(line));
        let prose =
            text.lines().enumerate().filter(|(line, _)| is_prose(line)).map(|(_, text)| text);
        for span in prose.flat_map(|line| line.split('`').skip(1).step_by(2)) {
            if !["task 1 \"", "(proven): ", "(suspected): "].iter().any(|it| span.contains(it)) {
                continue;
            }
            // The text may go on after three dots.
            let wanted = quotes::mask(&[span.trim_end_matches('…').trim().to_owned()]).concat();
            if !masked.iter().any(|line| line.contains(&wanted)) {
                messages.push(format!("{document}: no program prints the line `{span}`"));
            }
        }
    }
    messages
}

/// Runs a program, and compares its text with the blocks that quote it.
fn compare(program: &Program) -> (Vec<String>, Vec<String>) {
    let mut child = KillOnDrop(start(program.name));
    let lines = lines_of(&mut child.0, program.takes);
    let check = |lines: &[String]| -> Vec<String> {
        let quoted = |document: &str| {
            let as_main = (document == "README.md").then_some(program.name);
            let lines: Vec<String> =
                lines.iter().map(|line| quotes::shorten(line, as_main)).collect();
            quotes::check(document, program.name, &lines)
        };
        DOCUMENTS.into_iter().flat_map(quoted).collect()
    };
    let (text, messages) = match program.takes {
        Takes::Dump(marks) => settled_dump(&child.0, &lines, marks, check),
        Takes::Output | Takes::Printed => {
            let text = first_text(&lines, program.takes);
            let messages = check(&text);
            (text, messages)
        }
    };
    (text.iter().map(|line| quotes::shorten(line, None)).collect(), messages)
}

/// A process that ends with this value.
struct KillOnDrop(Child);

impl Drop for KillOnDrop {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn start(name: &str) -> Child {
    let mut command = Command::new(std::env::current_exe().expect("the test has a file"));
    for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("WAKEFUL_")) {
        command.env_remove(name);
    }
    // Printing a panic with its stack can take longer than a poll should.
    command.env("RUST_BACKTRACE", "0").args([FLAG, name]).stdin(Stdio::null());
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the test can be started")
}

/// Reads what a program prints in a thread, line by line.
fn lines_of(child: &mut Child, takes: Takes) -> Receiver<String> {
    let source: Box<dyn Read + Send> = match takes {
        Takes::Output => Box::new(child.stdout.take().expect("it is a pipe")),
        Takes::Printed | Takes::Dump(_) => Box::new(child.stderr.take().expect("it is a pipe")),
    };
    let (send, lines) = channel();
    thread::spawn(move || {
        for line in BufReader::new(source).lines() {
            if line.is_err() || send.send(line.unwrap()).is_err() {
                return;
            }
        }
    });
    lines
}

/// Returns all lines of the output, or the lines of the first report in it.
fn first_text(lines: &Receiver<String>, takes: Takes) -> Vec<String> {
    let mut text = Vec::new();
    while let Ok(line) = lines.recv_timeout(LIMIT) {
        let is_report = takes == Takes::Output || line.contains(" wakeful: ");
        if text.is_empty() && !is_report {
            continue;
        }
        if takes == Takes::Printed && !text.is_empty() && !line.starts_with(' ') {
            break;
        }
        text.push(line);
    }
    without_end(text)
}

/// Asks for dumps until one is as quoted. The tasks may need some time to get to where they wait.
///
/// Returns the last dump and what is wrong with it, after [`DUMPS`] dumps that have all `marks` and differ.
fn settled_dump(
    child: &Child,
    lines: &Receiver<String>,
    marks: &[&str],
    check: impl Fn(&[String]) -> Vec<String>,
) -> (Vec<String>, Vec<String>) {
    let pid = Pid::from_child(child);
    let ask = || kill_process(pid, Signal::QUIT).expect("the program runs until it is killed");
    // Without its handler the signal ends a process.
    while !has_handler(child.id()) {
        thread::yield_now();
    }
    let (mut dump, mut differs, asked) = (Vec::new(), 0, Instant::now());
    loop {
        let line = match lines.recv_timeout(PAUSE) {
            Ok(line) => line,
            Err(RecvTimeoutError::Timeout) => {
                // Signals that are pending count once, so one may be lost.
                assert!(asked.elapsed() < LIMIT, "the program prints no dump that has {marks:?}");
                ask();
                continue;
            }
            Err(RecvTimeoutError::Disconnected) => panic!("the program has ended"),
        };
        let is_header = line.starts_with("runtime ");
        if is_header && !dump.is_empty() {
            // A dump is complete when the next one begins.
            let complete = without_end(std::mem::take(&mut dump));
            if marks.iter().all(|mark| complete.iter().any(|line| line.contains(mark))) {
                let messages = check(&complete);
                differs += 1;
                if messages.is_empty() || differs == DUMPS {
                    return (complete, messages);
                }
            }
        }
        if is_header || !dump.is_empty() {
            dump.push(line);
        }
    }
}

/// Returns the lines without the empty ones at the end.
fn without_end(mut lines: Vec<String>) -> Vec<String> {
    while lines.pop_if(|line| line.is_empty()).is_some() {}
    lines
}

/// Returns whether the process handles SIGQUIT.
fn has_handler(pid: u32) -> bool {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).expect("the program runs");
    let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:")).unwrap_or("0");
    let caught = u64::from_str_radix(caught.trim(), 16).expect("a mask of signals");
    caught & (1 << (Signal::QUIT.as_raw() - 1)) != 0
}
