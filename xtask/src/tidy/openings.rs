//! Every file of the runtime begins with a `//!` line, and no file has more than [`MAX_LINES`] lines.

use super::Finding;
use super::modules::MODULES;
use super::tree::Tree;

/// The most lines of a file.
const MAX_LINES: usize = 900;

pub fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (file, _) in tree.rust("") {
        let opening = file.text.lines().next().unwrap_or("");
        let has_text = opening.strip_prefix("//!").is_some_and(|text| !text.trim().is_empty());
        if file.path.starts_with(MODULES) && !has_text {
            let message = "the first line must be a `//!` that says what this file is";
            findings.push(Finding::new(&file.path, 1, message));
        }
        let lines = file.text.lines().count();
        if lines > MAX_LINES {
            let message = format!("{lines} lines, the most is {MAX_LINES}; split the file");
            findings.push(Finding::new(&file.path, lines, message));
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::{MAX_LINES, check};
    use crate::tidy::testing::places;

    const FILE: &str = "crates/wakeful/src/task/cell.rs";

    #[test]
    fn a_file_with_an_opening_passes() {
        let full = "//! All there is.\n".repeat(MAX_LINES);
        let files = [(FILE, full.as_str()), ("xtask/src/x.rs", "fn f() {}\n")];
        assert_eq!(places(check, &files), [""; 0]);
    }

    #[test]
    fn a_file_without_an_opening_or_too_long_is_found() {
        let long = "//! On and on.\n".repeat(MAX_LINES + 1);
        let files = [
            (FILE, "use std::mem;\n//! late\n"),
            ("crates/wakeful/src/coop.rs", "//!\n"),
            ("bench/src/a.rs", long.as_str()),
        ];
        assert_eq!(
            places(check, &files),
            [
                "bench/src/a.rs:901",
                "crates/wakeful/src/coop.rs:1",
                "crates/wakeful/src/task/cell.rs:1"
            ]
        );
    }
}
