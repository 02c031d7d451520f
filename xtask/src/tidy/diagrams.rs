//! Every function that a diagram names exists.
//!
//! A diagram is a block fenced as `text` with the word `diagram` after its fence or in its first line.
//! Every `name()` in it must be a `fn name` of the module whose README or doc comment has the diagram.
//! In a document outside the modules, it may be a function of any module.

use std::collections::{BTreeMap, BTreeSet};

use super::Finding;
use super::markdown::{self, Block};
use super::modules::{MODULES, module_of};
use super::source::{is_word, words};
use super::tree::Tree;

pub fn check(tree: &Tree) -> Vec<Finding> {
    let functions = functions_by_module(tree);
    let mut findings = Vec::new();
    for file in tree.markdown() {
        let blocks = markdown::split(markdown::numbered(&file.text)).1;
        judge(&file.path, &blocks, &functions, &mut findings);
    }
    for (file, rust) in tree.rust(MODULES) {
        let docs = rust.source.comments.iter().filter(|comment| comment.doc);
        let lines = docs.map(|comment| (comment.line, comment.text.as_str()));
        judge(&file.path, &markdown::split(lines).1, &functions, &mut findings);
    }
    findings
}

type Functions<'a> = BTreeMap<&'a str, BTreeSet<&'a str>>;

/// Returns the names of the functions of each module, without those of tests.
fn functions_by_module(tree: &Tree) -> Functions<'_> {
    let mut functions = Functions::new();
    for (file, rust) in tree.rust(MODULES) {
        let module = functions.entry(module_of(&file.path).unwrap_or_default()).or_default();
        for (line, code) in rust.source.code_lines() {
            if rust.is_test(line) {
                continue;
            }
            let names = words(code).zip(words(code).skip(1));
            module.extend(names.filter(|(a, _)| a.1 == "fn").map(|(_, b)| b.1));
        }
    }
    functions
}

fn judge(path: &str, blocks: &[Block], functions: &Functions, findings: &mut Vec<Finding>) {
    let module = module_of(path);
    let is_known = |name: &str| match module {
        Some(module) if !module.is_empty() => {
            functions.get(module).is_some_and(|functions| functions.contains(name))
        }
        _ => functions.values().any(|functions| functions.contains(name)),
    };
    for block in blocks.iter().filter(|block| is_diagram(block)) {
        for &(line, text) in &block.lines {
            for name in called_names(text).filter(|name| !is_known(name)) {
                let place = match module {
                    Some(module) if !module.is_empty() => format!("module `{module}`"),
                    _ => "the runtime".to_owned(),
                };
                let message =
                    format!("the diagram names `{name}()`, but {place} has no such function");
                findings.push(Finding::new(path, line, message));
            }
        }
    }
}

fn is_diagram(block: &Block) -> bool {
    let says_so = |text: &str| text.to_lowercase().contains("diagram");
    let is_text = block.info.split([' ', ',']).next() == Some("text");
    is_text && (says_so(block.info) || block.lines.first().is_some_and(|line| says_so(line.1)))
}

/// Returns `name` of each `name()` or `Type::name()`.
fn called_names(text: &str) -> impl Iterator<Item = &str> {
    text.match_indices("()").filter_map(|(at, _)| {
        let start = text[..at].rfind(|c| !is_word(c));
        // The character before may be wider than a byte, as arrows are.
        let start =
            start.map_or(0, |start| start + text[start..].chars().next().map_or(0, char::len_utf8));
        (start < at).then(|| &text[start..at])
    })
}

#[cfg(test)]
mod tests {
    use super::check;
    use crate::tidy::testing::places;

    const CELL: &str = "crates/wakeful/src/task/cell.rs";

    #[test]
    fn a_true_diagram_passes() {
        let cell = "//! ```text\n//! state diagram\n//! idle ─►wake()─► queued ─State::poll()─► ran\n//! ```\n\
                    fn wake() {}\npub(crate) fn poll() {}\n";
        let files = [
            (CELL, cell),
            ("ARCHITECTURE.md", "```text diagram\na ─wake()─► b\n```\n```text\nnone()\n```\n"),
        ];
        assert_eq!(places(check, &files), [""; 0]);
    }

    #[test]
    fn a_function_that_is_gone_is_found() {
        let files = [
            (CELL, "fn wake() {}\n#[cfg(test)]\nfn only_test() {}\n"),
            ("crates/wakeful/src/queue/mod.rs", "fn push() {}\n"),
            (
                "crates/wakeful/src/task/README.md",
                "```text diagram\nwake() ─push()─►\nonly_test()\n```\n",
            ),
            ("ARCHITECTURE.md", "```text\nA diagram of all\npush() gone()\n```\n"),
        ];
        assert_eq!(
            places(check, &files),
            [
                "ARCHITECTURE.md:3",
                "crates/wakeful/src/task/README.md:2",
                "crates/wakeful/src/task/README.md:3"
            ]
        );
    }
}
