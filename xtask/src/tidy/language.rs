//! Comments and documents name the actor and use the terms of `docs/GLOSSARY.md`.
//!
//! Four checks: words that hide the actor, retired names, doc comments that only make sense below
//! their neighbour, and README's length.

use super::Finding;
use super::source::words;
use super::tree::{File, Rust, Tree};

/// README fits into ten minutes.
const README_LINES: usize = 150;

/// Words and phrases that hide who acts or what is meant, in lower case.
const VAGUE: &[&str] = &[
    "anybody",
    "elsewhere",
    "everybody",
    "nobody",
    "so long",
    "so many",
    "somebody",
    "the one that",
    "thing",
    "things",
    "those who",
    "whoever",
    "whom",
];

/// Parts of identifiers that were replaced, in snake case, and what stands there today.
const RETIRED: &[(&str, &str)] = &[
    ("attendance", "shutdown gate"),
    ("attendant", "uring keeper"),
    ("circle", "cycle"),
    ("elsewhere", "the place"),
    ("everybody", "the actor"),
    ("estate", "base"),
    ("lost_panic", "unobserved_panic"),
    ("nobody", "the actor"),
    ("own_threads", "thread_registry"),
    ("plate", "resource record"),
    ("quiescent", "stuck_block_on"),
    ("seam", "environment"),
    ("somebody", "the actor"),
    ("vigil", "scan_gate"),
    ("warden", "watchdog"),
    ("whoever", "the actor"),
    ("witness", "hooks"),
];

/// How a doc comment must not begin: it is shown without its neighbours.
const LEANING: &[&str] = &["The same", "As above", "As [", "Likewise", "Ditto", "And "];

/// Exceptions: the start of a path, the word (empty for all), the reason.
const ALLOWED: &[(&str, &str, &str)] =
    &[("xtask/src/tidy/language.rs", "", "this file lists the words")];

pub fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in &tree.files {
        if let Some(rust) = &file.rust {
            check_rust(file, rust, &mut findings);
        } else if file.path.ends_with(".md") {
            for (text, line) in file.text.lines().zip(1..) {
                check_prose(file, line, text, &mut findings);
            }
        }
    }
    if let Some(readme) = tree.file("README.md") {
        let lines = readme.text.lines().count();
        if lines > README_LINES {
            let message =
                format!("{lines} lines, the most is {README_LINES}; move details to docs/");
            findings.push(Finding::new(&readme.path, lines, message));
        }
    }
    findings
}

fn check_rust(file: &File, rust: &Rust, findings: &mut Vec<Finding>) {
    let mut last_doc = 0;
    for comment in &rust.source.comments {
        check_prose(file, comment.line, &comment.text, findings);
        let opens = comment.doc && comment.line != last_doc + 1;
        last_doc = if comment.doc { comment.line } else { last_doc };
        if let Some(start) = LEANING.iter().find(|start| opens && comment.text.starts_with(**start))
        {
            let message = format!("a doc comment stands alone: it does not begin with \"{start}\"");
            findings.push(Finding::new(&file.path, comment.line, message));
        }
    }
    for (at, word) in words(&rust.source.code) {
        if let Some((name, today)) = retired(word).filter(|(name, _)| !is_allowed(&file.path, name))
        {
            let message =
                format!("`{word}`: the name \"{name}\" is retired; it is \"{today}\" today");
            findings.push(Finding::new(&file.path, rust.source.line_of(at), message));
        }
    }
}

fn check_prose(file: &File, line: usize, text: &str, findings: &mut Vec<Finding>) {
    let plain = without_code(text).to_lowercase();
    let is_part = |c: char| c.is_alphanumeric() || c == '\'';
    let tokens: Vec<&str> = plain.split(|c| !is_part(c)).filter(|word| !word.is_empty()).collect();
    let joined = format!(" {} ", tokens.join(" "));
    for word in VAGUE.iter().filter(|word| joined.contains(&format!(" {word} "))) {
        if !is_allowed(&file.path, word) {
            let message = format!("\"{word}\" hides who acts or what is meant: name it");
            findings.push(Finding::new(&file.path, line, message));
        }
    }
}

/// Returns the text without its parts between backticks.
fn without_code(text: &str) -> String {
    text.split('`').step_by(2).collect::<Vec<_>>().join(" ")
}

/// Returns the retired name that an identifier has as a part of its snake-case form.
fn retired(word: &str) -> Option<(&'static str, &'static str)> {
    let snake = format!("_{}_", snake_case(word));
    RETIRED.iter().copied().find(|(name, _)| snake.contains(&format!("_{name}_")))
}

fn snake_case(word: &str) -> String {
    let mut snake = String::new();
    let mut after_lower = false;
    for c in word.chars() {
        if c.is_ascii_uppercase() && after_lower {
            snake.push('_');
        }
        after_lower = c.is_ascii_lowercase() || c.is_ascii_digit();
        snake.push(c.to_ascii_lowercase());
    }
    snake
}

fn is_allowed(path: &str, word: &str) -> bool {
    ALLOWED.iter().any(|(prefix, allowed, _)| {
        path.starts_with(prefix) && (allowed.is_empty() || *allowed == word)
    })
}

#[cfg(test)]
mod tests {
    use super::{README_LINES, check};
    use crate::tidy::testing::places;

    const FILE: &str = "crates/wakeful/src/task/cell.rs";

    #[test]
    fn plain_words_pass() {
        let text = "//! The worker polls `nobody`.\n\n/// Returns the thread.\nfn state() {}\n\
                    /// So far.\n/// The same worker.\n";
        assert_eq!(places(check, &[(FILE, text), ("README.md", "# wakeful\n")]), [""; 0]);
    }

    #[test]
    fn words_that_hide_the_actor_are_found_in_comments_and_documents() {
        let text = "//! Somebody waits.\n// those\n// Those  who wait.\nlet x = \"nobody\";\n";
        let files = [(FILE, text), ("docs/WHY.md", "fine\nWhoever waits, nobody knows.\n")];
        let found = [
            "crates/wakeful/src/task/cell.rs:1",
            "crates/wakeful/src/task/cell.rs:3",
            "docs/WHY.md:2",
            "docs/WHY.md:2",
        ];
        assert_eq!(places(check, &files), found);
    }

    #[test]
    fn retired_names_are_found_in_identifiers() {
        let text = "//! A file.\nstruct PlateOf;\nfn template() {}\nlet estate = 1;\nfn is_quiescent() {}\n";
        let lines = [2, 4, 5].map(|line| format!("{FILE}:{line}"));
        assert_eq!(places(check, &[(FILE, text)]), lines);
    }

    #[test]
    fn a_doc_comment_that_leans_on_its_neighbour_is_found() {
        let text = "//! A file.\n\n/// The same for two.\nfn a() {}\n/// Fine.\n/// The same again.\nfn b() {}\n";
        assert_eq!(places(check, &[(FILE, text)]), [format!("{FILE}:3")]);
    }

    #[test]
    fn a_long_readme_is_found() {
        let long = "a line\n".repeat(README_LINES + 1);
        assert_eq!(places(check, &[("README.md", &long)]), ["README.md:151"]);
    }
}
