//! No file names a folder of a developer's machine.

use super::Finding;
use super::tree::Tree;

/// Folders at the root of a file system that usually have checkouts.
const HOMES: &[&str] = &["root", "work", "home", "Users"];

pub fn check(tree: &Tree) -> Vec<Finding> {
    let marks: Vec<String> = HOMES.iter().map(|home| format!("/{home}/")).collect();
    let mut findings = Vec::new();
    for file in &tree.files {
        for (text, line) in file.text.lines().zip(1..) {
            for mark in marks.iter().filter(|mark| begins_a_path(text, mark)) {
                let message = format!("a path under `{mark}` exists on one machine only");
                findings.push(Finding::new(&file.path, line, message));
            }
        }
    }
    findings
}

/// Whether `mark` occurs at the start of a path, not inside of one.
fn begins_a_path(text: &str, mark: &str) -> bool {
    text.match_indices(mark).any(|(at, _)| {
        let before = text[..at].chars().next_back();
        before.is_none_or(|c| !c.is_alphanumeric() && !"_-.})]>*~".contains(c))
    })
}

#[cfg(test)]
mod tests {
    use super::{HOMES, check};
    use crate::tidy::testing::places;

    /// One line for each of [`HOMES`].
    fn text(line: impl Fn(&str) -> String) -> String {
        let lines: Vec<String> = HOMES.iter().map(|home| line(home)).collect();
        lines.join("\n")
    }

    #[test]
    fn relative_paths_pass() {
        let text = text(|home| format!("target/{home}/x, ${{dir}}/{home}/y, example.org/{home}/"));
        assert_eq!(places(check, &[("a.md", &text)]), [""; 0]);
    }

    #[test]
    fn absolute_paths_are_found() {
        let text = text(|home| format!("see \"/{home}/me/x\""));
        assert_eq!(places(check, &[("a.md", &text)]), ["a.md:1", "a.md:2", "a.md:3", "a.md:4"]);
    }
}
