//! A rule label that a comment cites is defined once in its crate.
//!
//! A label is a word in capitals and a number: `TASK-4`. A list item or table row of a doc comment
//! or of a README that begins with the label defines it: `- TASK-4. …`, `- TASK-4: …`,
//! `- **TASK-4** …`, `| TASK-4 | …`. Any other occurrence in a comment cites it. Labels are unique in
//! a crate, so a citation needs no module name.

use std::collections::{BTreeMap, BTreeSet};

use super::Finding;
use super::markdown::numbered;
use super::source::is_word;
use super::tree::{File, Tree};

/// Words that form standard terms with a number, as in `UTF-8`.
const NOT_LABELS: [&str; 4] = ["UTF", "ISO", "SHA", "CVE"];

pub fn check(tree: &Tree) -> Vec<Finding> {
    let mut crates: BTreeMap<&str, Vec<&File>> = BTreeMap::new();
    for file in &tree.files {
        if let Some(name) = crate_of(&file.path) {
            crates.entry(name).or_default().push(file);
        }
    }
    let mut findings = Vec::new();
    for (name, files) in crates {
        let mut defined = BTreeSet::new();
        for file in &files {
            for (line, text) in defining_lines(file) {
                match definition(text) {
                    Some(label) if !defined.insert(label) => {
                        let message = format!("rule {label} is defined twice in crate `{name}`");
                        findings.push(Finding::new(&file.path, line, message));
                    }
                    None if is_one_letter_definition(text) => {
                        let message = "name the rule by a word and a number, as in `TASK-4`";
                        findings.push(Finding::new(&file.path, line, message));
                    }
                    _ => {}
                }
            }
        }
        for file in &files {
            for (line, text) in prose(file) {
                for label in labels(text).filter(|label| !defined.contains(label)) {
                    let message =
                        format!("rule {label} is cited, but crate `{name}` does not define it");
                    findings.push(Finding::new(&file.path, line, message));
                }
            }
        }
    }
    findings
}

/// The crate whose rules hold in a file: source files and Markdown under `crates/`.
fn crate_of(path: &str) -> Option<&str> {
    let (name, inside) = path.strip_prefix("crates/")?.split_once('/')?;
    (inside.starts_with("src/") || inside == "README.md").then_some(name)
}

/// The lines that may cite a rule: all of a Markdown file, the comments of a source file.
fn prose(file: &File) -> Vec<(usize, &str)> {
    match &file.rust {
        Some(rust) => {
            let comments = rust.source.comments.iter();
            comments.map(|comment| (comment.line, comment.text.as_str())).collect()
        }
        None if file.path.ends_with(".md") => numbered(&file.text).collect(),
        None => Vec::new(),
    }
}

/// The lines that may define a rule: all of a Markdown file, the doc comments of a source file.
fn defining_lines(file: &File) -> Vec<(usize, &str)> {
    match &file.rust {
        Some(rust) => {
            let docs = rust.source.comments.iter().filter(|comment| comment.doc);
            docs.map(|comment| (comment.line, comment.text.as_str())).collect()
        }
        None => prose(file),
    }
}

/// The text of a list item or table row behind its marker and its emphasis.
fn item(text: &str) -> Option<&str> {
    let text = text.trim_start();
    let item = ["- ", "* ", "| "].iter().find_map(|marker| text.strip_prefix(marker))?;
    Some(item.trim_start_matches('*'))
}

/// Whether the text behind a label makes the line a definition.
fn defines(behind: &str) -> bool {
    behind.trim_start().starts_with(['.', ':', '|']) || behind.starts_with("**")
}

/// The label that a line defines.
fn definition(text: &str) -> Option<&str> {
    let text = item(text)?;
    let len = label_len(text)?;
    defines(&text[len..]).then(|| &text[..len])
}

/// Whether a list item defines a rule by one letter and a number, as in `- R4. …`.
fn is_one_letter_definition(text: &str) -> bool {
    let number = item(text).and_then(|item| item.strip_prefix(|c: char| c.is_ascii_uppercase()));
    number.is_some_and(|number| {
        let digits = number.bytes().take_while(u8::is_ascii_digit).count();
        (1..=2).contains(&digits) && defines(&number[digits..])
    })
}

/// The length of the label that `text` begins with.
fn label_len(text: &str) -> Option<usize> {
    let word = text.bytes().take_while(u8::is_ascii_uppercase).count();
    let digits = text[word..].strip_prefix('-')?;
    let end = digits.bytes().take_while(u8::is_ascii_digit).count();
    let is_label = word >= 3 && (1..=2).contains(&end) && !NOT_LABELS.contains(&&text[..word]);
    let ends_there = !digits[end..].starts_with(is_word);
    (is_label && ends_there).then_some(word + 1 + end)
}

/// The labels in a line.
fn labels(text: &str) -> impl Iterator<Item = &str> {
    let starts = text.match_indices(|c: char| c.is_ascii_uppercase()).map(|(at, _)| at);
    let starts = starts.filter(|at| !text[..*at].ends_with(|c| is_word(c) || c == '-'));
    starts.filter_map(|at| label_len(&text[at..]).map(|len| &text[at..at + len]))
}

#[cfg(test)]
mod tests {
    use super::{check, definition, labels};
    use crate::tidy::testing::places;

    const CELL: &str = "crates/wakeful/src/task/cell.rs";
    const README: &str = "crates/wakeful/src/task/README.md";
    const RING: &str = "crates/wakeful/src/queue/ring.rs";
    const OTHER: &str = "crates/wakeful-macros/src/lib.rs";

    #[test]
    fn definitions_have_several_forms() {
        for text in [
            "- TASK-4. x",
            "- TASK-4: x",
            "- **TASK-4** x",
            "* TASK-4: x",
            "- **TASK-4.** x",
            "| TASK-4 | x",
            "  - TASK-4. x",
        ] {
            assert_eq!(definition(text), Some("TASK-4"), "{text}");
        }
        for text in [
            "TASK-4: x",
            "- TASK-4 is relied on",
            "- by TASK-4.",
            "- TASK-X. x",
            "- TASK-123. x",
            "- UTF-8. x",
            "- R4. x",
        ] {
            assert_eq!(definition(text), None, "{text}");
        }
    }

    #[test]
    fn labels_are_found_in_a_line() {
        let text = "TASK-1, (LIST-2) and `RING-3`: UTF-8, xTASK-4, A-TASK-5, TASK-6b, TASK_7, R4";
        assert_eq!(labels(text).collect::<Vec<_>>(), ["TASK-1", "LIST-2", "RING-3"]);
    }

    #[test]
    fn cited_rules_that_are_defined_pass() {
        let files = [
            (README, "- TASK-1: one\n- TASK-2: two, after TASK-1\n"),
            (
                CELL,
                "//! - TASK-3. three\n// SAFETY: TASK-1, TASK-2 and (TASK-3).\nfn f() { \"TASK-8\" }\n",
            ),
            (RING, "//! - RING-1. one\n// RING-1, TASK-2; T1, L2, UTF-8\n"),
            (OTHER, "//! - TASK-1. another crate\n"),
        ];
        assert_eq!(places(check, &files), [""; 0]);
    }

    #[test]
    fn cited_rules_that_are_not_defined_are_found() {
        let files = [
            (README, "- TASK-1: one\n- TASK-2: see TASK-7\n"),
            (
                CELL,
                "// SAFETY: TASK-3\n// - TASK-4. a plain comment defines nothing\nfn f() {} // TASK-1\n",
            ),
            (OTHER, "// SAFETY: TASK-1 is of another crate\n"),
        ];
        let mut found = places(check, &files);
        found.sort();
        let mut expected =
            [format!("{OTHER}:1"), format!("{README}:2"), format!("{CELL}:1"), format!("{CELL}:2")];
        expected.sort();
        assert_eq!(found, expected);
    }

    #[test]
    fn second_definitions_and_one_letter_labels_are_found() {
        let files = [
            (CELL, "//! - TASK-1. one\n//! - R2. two\n"),
            (RING, "//! - TASK-1. another\n//! 1. no label\n//! A1. no list item\n"),
        ];
        let mut found = places(check, &files);
        found.sort();
        let twice = found
            .iter()
            .any(|place| *place == format!("{RING}:1") || *place == format!("{CELL}:1"));
        assert!(twice && found.contains(&format!("{CELL}:2")) && found.len() == 2, "{found:?}");
    }
}
