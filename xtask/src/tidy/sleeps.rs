//! A test that sleeps on the real clock, or that is ignored, has its reason in a comment.
//!
//! The comment is on the same line or the line before. For `#[ignore = "…"]` the string is the reason.

use super::Finding;
use super::attrs;
use super::source::words;
use super::tree::{Rust, Tree};

/// The least length of a reason.
const MIN_REASON: usize = 10;

pub fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (file, rust) in tree.rust("") {
        for (line, code) in rust.source.code_lines() {
            if rust.is_test(line) && sleeps(code) && !has_reason(rust, line) {
                let message =
                    "a test sleeps on the real clock; wait for the event, or say why in a comment";
                findings.push(Finding::new(&file.path, line, message));
            }
        }
        for attr in attrs::attrs(&rust.source.code) {
            let line = rust.source.line_of(attr.start);
            if attr.text == "ignore" && !has_reason(rust, line) {
                let message = "a test is ignored without a reason; write `#[ignore = \"why\"]`";
                findings.push(Finding::new(&file.path, line, message));
            }
        }
    }
    findings
}

/// Whether a line calls or imports the sleep of `std::thread`.
fn sleeps(code: &str) -> bool {
    let direct = ["thread::sleep", "thread::park_timeout"];
    let words: Vec<&str> = words(code).map(|(_, word)| word).collect();
    direct.iter().any(|path| code.contains(path))
        || words.first() == Some(&"use") && words.contains(&"thread") && words.contains(&"sleep")
}

fn has_reason(rust: &Rust, line: usize) -> bool {
    let mut comments = rust.source.comments_on(line).chain(rust.source.comments_on(line - 1));
    comments.any(|comment| !comment.doc && comment.text.trim().len() >= MIN_REASON)
}

#[cfg(test)]
mod tests {
    use super::check;
    use crate::tidy::testing::places;

    #[test]
    fn reasons_and_shipped_code_pass() {
        let text = "fn f() { std::thread::sleep(d) }\n#[test]\n#[ignore = \"takes an hour\"]\nfn a() {\n\
                    // The keep-alive is measured in real time.\nthread::sleep(d);\n}\n\
                    #[test]\n// Needs a kernel with io_uring.\n#[ignore]\nfn b() { time::sleep(d); }\n";
        assert_eq!(places(check, &[("src/a.rs", text)]), [""; 0]);
    }

    #[test]
    fn silent_sleeps_are_found() {
        let text = "use std::thread::{self, sleep};\n/// Waits a long while.\n#[ignore]\n#[test]\nfn a() {\n\
                    thread::sleep(d); // why\n}\n";
        assert_eq!(
            places(check, &[("tests/a.rs", text)]),
            ["tests/a.rs:1", "tests/a.rs:3", "tests/a.rs:6"]
        );
    }
}
