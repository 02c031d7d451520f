//! Compares the reports and dumps that documents quote with the output of programs.
//!
//! A document quotes in fenced blocks: `text run=NAME` has the whole output of the program `NAME`, `text
//! run=NAME part` some lines of it, in order. [`mask`] removes the parts that differ from run to run. With
//! `WAKEFUL_BLESS=1`, [`check`] writes the output into the document.
#![allow(dead_code, reason = "each test binary uses its own part of this")]

use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

/// A fenced block of a document.
pub struct Block {
    /// The info string after the three back quotes: the language, and words such as `run=abba`.
    pub info: String,
    /// The lines of the block in the document, from 0, without its fences.
    pub range: Range<usize>,
    pub lines: Vec<String>,
}

impl Block {
    pub fn language(&self) -> &str {
        self.info.split(' ').next().unwrap_or_default()
    }

    /// Returns the name of the program whose output this is.
    pub fn program(&self) -> Option<&str> {
        self.info.split(' ').find_map(|word| word.strip_prefix("run="))
    }

    /// Returns whether lines of the output may be left out.
    fn is_part(&self) -> bool {
        self.info.split(' ').any(|word| word == "part")
    }
}

/// Returns the path of a document of the repository.
fn path(document: &str) -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../..")).join(document)
}

/// Reads a document of the repository.
pub fn read(document: &str) -> String {
    fs::read_to_string(path(document)).expect("the document is in the repository")
}

/// Returns all fenced blocks of a text.
pub fn blocks(text: &str) -> Vec<Block> {
    let lines: Vec<&str> = text.lines().collect();
    let mut blocks = Vec::new();
    let mut at = 0;
    while at < lines.len() {
        if let Some(info) = lines[at].strip_prefix("```") {
            let start = at + 1;
            let length = lines[start..].iter().take_while(|line| **line != "```").count();
            at = start + length;
            let lines = lines[start..at].iter().map(|&line| line.to_owned()).collect();
            blocks.push(Block { info: info.to_owned(), range: start..at, lines });
        }
        at += 1;
    }
    blocks
}

/// Compares every block of `document` that quotes `program` with the `printed` lines.
///
/// With `WAKEFUL_BLESS=1` it writes the lines into the document. Returns a message for each block that differs.
pub fn check(document: &str, program: &str, printed: &[String]) -> Vec<String> {
    // Tests of one process may write the same document.
    static WRITING: Mutex<()> = Mutex::new(());
    let _writing = WRITING.lock().unwrap_or_else(PoisonError::into_inner);
    let blesses = std::env::var("WAKEFUL_BLESS").is_ok_and(|value| value == "1");
    let text = read(document);
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    let mut messages = Vec::new();
    // From the last block to the first, so that the ranges stay valid.
    for block in blocks(&text).into_iter().rev().filter(|it| it.program() == Some(program)) {
        let quote = if block.is_part() {
            part_of(&block, printed, blesses)
        } else if mask(&block.lines) == mask(printed) || blesses {
            Some(printed.to_vec())
        } else {
            None
        };
        match quote {
            Some(quote) if blesses => drop(lines.splice(block.range, quote)),
            Some(_) => {}
            None => messages.push(difference(document, &block, printed)),
        }
    }
    if blesses {
        fs::write(path(document), lines.join("\n") + "\n").expect("the document can be written");
    }
    messages
}

/// Returns the printed lines that a partial block has, or `None` if it has another line.
///
/// With `any_site`, the sites in source files may differ.
fn part_of(block: &Block, mut printed: &[String], any_site: bool) -> Option<Vec<String>> {
    let compared = |line: &str| {
        let is_site = |word: &&str| any_site && word.contains(".rs:");
        let masked = mask_line(line);
        masked.split(' ').filter(|word| !is_site(word)).collect::<Vec<_>>().join(" ")
    };
    let mut part = Vec::new();
    for line in &block.lines {
        let wanted = compared(line);
        let found = printed.iter().position(|it| compared(it) == wanted);
        match found {
            // Another library may have fewer frames.
            Some(1..) | None if wanted.is_empty() => {}
            Some(at) => {
                part.push(printed[at].clone());
                printed = &printed[at + 1..];
            }
            None => return None,
        }
    }
    Some(part)
}

/// Describes the masked lines of a block that are not printed, and the printed lines that the block lacks.
fn difference(document: &str, block: &Block, printed: &[String]) -> String {
    let (quoted, masked) = (mask(&block.lines), mask(printed));
    let mut message =
        format!("{document}:{}: the block `{}` differs", block.range.start, block.info);
    for line in quoted.iter().filter(|line| !masked.contains(line)) {
        message += &format!("\n  not printed: {line}");
    }
    for line in masked.iter().filter(|line| !block.is_part() && !quoted.contains(line)) {
        message += &format!("\n  not quoted:  {line}");
    }
    message + "\n  printed was:\n" + &printed.join("\n")
}

/// Masks the parts of lines that differ from run to run: numbers, times, addresses, the worker of a task, and
/// the frames of libraries.
pub fn mask(lines: &[String]) -> Vec<String> {
    let mut masked: Vec<String> = lines.iter().map(|line| mask_line(line)).collect();
    masked.retain(|line| !line.is_empty());
    // Either worker may be the busy one.
    for workers in masked.chunk_by_mut(|one, other| [one, other].iter().all(|it| is_worker(it))) {
        workers.sort();
    }
    masked
}

fn is_worker(masked: &str) -> bool {
    masked.starts_with("worker N ")
}

/// Masks one line like [`mask`]. Returns an empty line for a frame of a library.
fn mask_line(line: &str) -> String {
    let words: Vec<String> = line.split_whitespace().map(mask_word).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match &words[..] {
        ["worker", _, "polling", "task", _, name, ..] => format!("worker N polling {name}"),
        ["worker", ..] => "worker N idle".to_owned(),
        ["stack", frame @ ..] => format!("stack {}", mask_frame(frame)).trim_end().to_owned(),
        [number, frame @ ..] if *number == "N:" => mask_frame(&[&[*number], frame].concat()),
        ["…", "N", "frames" | "frame", "of", ..] => String::new(),
        _ => mask_units(&words),
    }
}

/// Returns the function of a frame without its closures, or an empty text if the function belongs to a library.
fn mask_frame(frame: &[&str]) -> String {
    const LIBRARIES: [&str; 4] = ["std::", "core::", "alloc::", "wakeful::"];
    let [_, function, ..] = frame else { return String::new() };
    let path = function.trim_start_matches('<');
    // Functions of C have no path.
    if !path.contains("::") || LIBRARIES.iter().any(|library| path.starts_with(library)) {
        return String::new();
    }
    let named = function.split("::{").next().unwrap_or(function);
    format!("frame {named}")
}

/// Replaces each number in a word by `N`. A site in a source file stays, since lines are compared.
fn mask_word(word: &str) -> String {
    if word.contains(".rs:") {
        return word.to_owned();
    }
    if let Some(address) = word.strip_prefix('#') {
        let end = address.find(|it: char| !it.is_ascii_hexdigit()).unwrap_or(address.len());
        return format!("#N{}", &address[end..]);
    }
    let mut masked = String::new();
    for character in word.chars() {
        match character {
            '0'..='9' | '.' if masked.ends_with('N') => {}
            '0'..='9' => masked.push('N'),
            _ => masked.push(character),
        }
    }
    masked
}

/// Replaces each duration by `T`, and drops the plural of counted nouns.
fn mask_units(words: &[&str]) -> String {
    const UNITS: [&str; 4] = ["ns", "µs", "ms", "s"];
    const COUNTED: [(&str, &str); 3] = [("polls", "poll"), ("wakes", "wake"), ("wakers", "waker")];
    let mut masked: Vec<String> = Vec::new();
    for word in words {
        let (plain, ends) = word.split_at(word.trim_end_matches([',', ':', ';', ')']).len());
        let follows_number = masked.last().is_some_and(|last| last == "N");
        if follows_number && UNITS.contains(&plain) {
            masked.pop();
            masked.push(format!("T{ends}"));
        } else if follows_number && plain == "busy" {
            // A duration of zero has no unit.
            masked.pop();
            masked.push(format!("T {word}"));
        } else {
            let singular = COUNTED.iter().find(|(plural, _)| *plural == plain);
            masked.push(singular.map_or(plain, |(_, singular)| *singular).to_owned() + ends);
        }
    }
    // The worker differs from run to run.
    masked.join(" ").replace("on a spare worker", "on worker N")
}

/// Shortens the paths of files to their names, and removes the crate name of the test from functions.
///
/// With the name of an example, its file is called `src/main.rs`, and lines are counted from the first line of
/// code.
pub fn shorten(line: &str, as_main: Option<&str>) -> String {
    let is_path = |it: char| it.is_ascii_alphanumeric() || "/._-".contains(it);
    let mut short = String::new();
    let mut rest = line;
    while let Some(end) = rest.find(".rs:") {
        let (before, after) = rest.split_at(end);
        let start = before.rfind(|it| !is_path(it)).map_or(0, |at| at + 1);
        let name = before[start..].rsplit('/').next().unwrap_or_default();
        short += &before[..start];
        let after = &after[".rs:".len()..];
        if as_main == Some(name) {
            let digits = after.find(|it: char| !it.is_ascii_digit()).unwrap_or(after.len());
            let number: usize = after[..digits].parse().expect("a line has a number");
            short += &format!("src/main.rs:{}", number - header_lines(name));
            rest = &after[digits..];
        } else {
            short += &format!("{name}.rs:");
            rest = after;
        }
    }
    (short + rest).replace(&format!("{}::", env!("CARGO_CRATE_NAME")), "")
}

/// Returns the number of lines before the code of an example.
fn header_lines(example: &str) -> usize {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples");
    let text = fs::read_to_string(folder.join(format!("{example}.rs"))).expect("it is an example");
    text.lines().take_while(|line| line.starts_with("//") || line.is_empty()).count()
}
