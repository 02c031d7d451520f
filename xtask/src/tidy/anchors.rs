//! Links and paths in the documents lead to files, folders and headings that exist.
//!
//! Checked in every Markdown file: relative links, `#heading` parts of links, and paths in code spans.
//! A path is relative to the root of the repository, to the document's folder, or to the runtime's
//! sources.

use super::Finding;
use super::markdown::{self, Mark};
use super::modules::MODULES;
use super::tree::{File, Tree, folder};

/// A code span with one of these prefixes is a path.
const PATH_STARTS: &[&str] = &["crates/", "bench/", "interop/", "xtask/", ".ci/", ".cargo/"];

/// A code span with a slash and one of these suffixes is a path.
const PATH_ENDS: &[&str] = &[".rs", ".md", ".toml", ".lock", ".json", ".tsv", ".sh"];

/// A code span with one of these suffixes is a path, also without a slash.
const FILE_ENDS: &[&str] = &[".rs", ".md"];

pub fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in tree.markdown() {
        for (line, text) in markdown::split(markdown::numbered(&file.text)).0 {
            for mark in markdown::marks(text) {
                let problem = match mark {
                    Mark::Link(target) => broken_link(tree, file, target),
                    Mark::Code(code) => missing_path(tree, file, code),
                };
                findings.extend(problem.map(|message| Finding::new(&file.path, line, message)));
            }
        }
    }
    findings
}

fn broken_link(tree: &Tree, file: &File, target: &str) -> Option<String> {
    let is_external = target.contains("://") || target.starts_with("mailto:");
    if is_external {
        return None;
    }
    let (path, anchor) = target.split_once('#').unwrap_or((target, ""));
    let document = if path.is_empty() {
        file.path.clone()
    } else {
        match tree.resolve(folder(&file.path), path) {
            Some(document) => document,
            None => return Some(format!("the link to `{path}` leads to no file")),
        }
    };
    if anchor.is_empty() || !document.ends_with(".md") {
        return None;
    }
    let offered = markdown::anchors(&tree.file(&document)?.text);
    let known = offered.iter().any(|offer| offer == anchor);
    (!known).then(|| format!("`{document}` has no heading `#{anchor}`"))
}

fn missing_path(tree: &Tree, file: &File, code: &str) -> Option<String> {
    if !is_path(code) {
        return None;
    }
    let bases = ["", folder(&file.path), MODULES];
    let known = bases.iter().any(|base| tree.resolve(base, code).is_some());
    (!known).then(|| format!("`{code}` does not exist"))
}

fn is_path(code: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || "_-./".contains(c);
    if !code.chars().all(plain) || code.starts_with('/') || code.starts_with("target") {
        return false;
    }
    let ends = if code.contains('/') { PATH_ENDS } else { FILE_ENDS };
    let ends_as_path =
        ends.iter().any(|end| code.strip_suffix(end).is_some_and(|stem| !stem.is_empty()));
    ends_as_path || PATH_STARTS.iter().any(|start| code.starts_with(start))
}

#[cfg(test)]
mod tests {
    use super::check;
    use crate::tidy::testing::places;

    #[test]
    fn what_exists_passes() {
        let readme = "# Top\n[a](#top) [b](docs/a.md#part-one) [c](https://x.y/z.md) [d](docs)\n\
                      `docs/a.md`, `task/cell.rs`, `target/x.rs`, `a.b`, `.rs`\n";
        let files = [
            ("README.md", readme),
            ("docs/a.md", "## Part one\nsee `a.md` and [up](../README.md)\n"),
            ("crates/wakeful/src/task/cell.rs", "//! cell\n"),
            ("crates/wakeful/src/task/README.md", "in `cell.rs`\n"),
        ];
        assert_eq!(places(check, &files), [""; 0]);
    }

    #[test]
    fn what_is_gone_is_found() {
        let files = [
            (
                "README.md",
                "# Top\n[a](gone.md)\n[b](#gone)\n[c](a.md#gone)\n`crates/gone`\n`gone.rs`\n",
            ),
            ("a.md", "# A\n```\n[x](gone.md)\n```\n[y]: gone.md\n"),
        ];
        assert_eq!(
            places(check, &files),
            ["README.md:2", "README.md:3", "README.md:4", "README.md:5", "README.md:6", "a.md:5"]
        );
    }
}
