//! A rule that a comment cites is written down in the same room.
//!
//! A rule is a letter of [`LETTERS`] and a number, as in `R4`. It is defined by
//! a line of the room's README or of a doc comment of the room that begins with
//! it: `R4. …`, `R4: …`, `**R4** …`, `- R4: …`, `| R4 | …`. It is cited by any
//! comment that names it. `task R4` and `task's R4` cite a rule of another room.

use std::collections::{BTreeMap, BTreeSet};

use super::Finding;
use super::markdown::numbered;
use super::rooms::room_of;
use super::source::is_word;
use super::tree::{File, Tree};

/// The letters rules are named with. Left out are those that often mean
/// something else with a number: types (`T1`), caches (`L2`), keys (`F5`).
const LETTERS: &str = "BDHIJPQRSW";

pub fn check(tree: &Tree) -> Vec<Finding> {
    let mut rooms: BTreeMap<&str, Vec<&File>> = BTreeMap::new();
    for file in &tree.files {
        if let Some(room) = rule_room(&file.path) {
            rooms.entry(room).or_default().push(file);
        }
    }
    let defined: BTreeMap<&str, BTreeSet<&str>> = rooms
        .iter()
        .map(|(room, files)| (*room, files.iter().flat_map(|file| definitions(file)).collect()))
        .collect();

    let mut findings = Vec::new();
    for (room, files) in &rooms {
        for file in files {
            for (line, text) in prose(file) {
                for (owner, rule) in citations(text) {
                    let owner_rules = owner.and_then(|owner| defined.get(owner));
                    let known = defined[room].contains(rule)
                        || owner_rules.is_some_and(|rules| rules.contains(rule));
                    if !known {
                        let message =
                            format!("rule {rule} is cited, but room `{room}` does not define it");
                        findings.push(Finding::new(&file.path, line, message));
                    }
                }
            }
        }
    }
    findings
}

/// The room whose rules hold in a file. Each crate but the runtime is one.
fn rule_room(path: &str) -> Option<&str> {
    room_of(path).or_else(|| {
        let (name, inside) = path.strip_prefix("crates/")?.split_once('/')?;
        (name != "wakeful" && (inside.starts_with("src/") || inside == "README.md")).then_some(name)
    })
}

/// The lines of a file that speak: all of a README, the comments of a source.
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

fn definitions(file: &File) -> Vec<&str> {
    match &file.rust {
        Some(rust) => {
            let docs = rust.source.comments.iter().filter(|comment| comment.doc);
            docs.filter_map(|comment| definition(&comment.text)).collect()
        }
        None => prose(file).into_iter().filter_map(|(_, text)| definition(text)).collect(),
    }
}

/// The rule that a line defines.
fn definition(text: &str) -> Option<&str> {
    let text = text.trim_start();
    let text =
        ["- ", "* ", "| "].iter().find_map(|marker| text.strip_prefix(marker)).unwrap_or(text);
    let text = text.trim_start_matches('*');
    let len = rule_len(text)?;
    let behind = text[len..].trim_start();
    let defines = behind.starts_with(['.', ':', '|']) || text[len..].starts_with("**");
    defines.then(|| &text[..len])
}

/// The length of the rule that `text` begins with.
fn rule_len(text: &str) -> Option<usize> {
    let digits = text.strip_prefix(|c| LETTERS.contains(c))?;
    let end = digits.find(|c: char| !c.is_ascii_digit()).unwrap_or(digits.len());
    let alone = !digits[end..].starts_with(is_word);
    ((1..=2).contains(&end) && alone).then_some(1 + end)
}

/// The rules that a line names, each with the word before it.
fn citations(text: &str) -> Vec<(Option<&str>, &str)> {
    let mut found = Vec::new();
    for (at, _) in text.match_indices(|c| LETTERS.contains(c)) {
        if text[..at].ends_with(is_word) {
            continue;
        }
        if let Some(len) = rule_len(&text[at..]) {
            let before = text[..at].split_whitespace().next_back();
            let owner = before.map(|word| {
                let word = word.trim_matches(|c| !is_word(c) && c != '\'');
                word.trim_end_matches("'s").trim_matches('`')
            });
            found.push((owner, &text[at..at + len]));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::{check, definition};
    use crate::tidy::testing::places;

    const CELL: &str = "crates/wakeful/src/task/cell.rs";
    const README: &str = "crates/wakeful/src/task/README.md";
    const RING: &str = "crates/wakeful/src/queue/ring.rs";

    #[test]
    fn definitions_have_several_forms() {
        for text in ["R4. x", "R4: x", "**R4** x", "- R4: x", "- **R4.** x", "| R4 | x", "  R4. x"]
        {
            assert_eq!(definition(text), Some("R4"), "{text}");
        }
        for text in ["R4 is relied on", "by R4.", "RX. x", "R123. x", "T4. x", "R4b. x"] {
            assert_eq!(definition(text), None, "{text}");
        }
    }

    #[test]
    fn cited_rules_that_are_defined_pass() {
        let files = [
            (README, "- R1: one\n- R2: two, after R1\n"),
            (CELL, "//! R3. three\n// SAFETY: R1, R2 and (R3).\nfn f() { let R9 = \"R8\"; }\n"),
            (RING, "//! Q1. one\n// Q1, and task R2, and `task`'s R3; T1, L2, DR2, utf8\n"),
        ];
        assert_eq!(places(check, &files), [""; 0]);
    }

    #[test]
    fn cited_rules_that_are_not_are_found() {
        let files = [
            (README, "- R1: one\n- R2: see R7\n"),
            (CELL, "// SAFETY: R3\n// R4. a plain comment defines nothing\nfn f() {} // R1\n"),
            (RING, "// SAFETY: R1 is of another room\n"),
        ];
        assert_eq!(
            places(check, &files),
            [format!("{RING}:1"), format!("{README}:2"), format!("{CELL}:1"), format!("{CELL}:2"),]
        );
    }
}
