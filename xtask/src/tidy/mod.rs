//! `cargo xtask tidy`: what the sources say about themselves, held against the sources.
//!
//! It checks truth, not taste: a link leads somewhere, a cited rule is written
//! down, a function in a diagram exists, a room uses only the rooms it may.
//!
//! [`tree`] reads the repository, [`source`] splits a Rust file into code and
//! comments, [`attrs`] reads attributes, [`markdown`] reads documents. Each
//! check is one file and one entry of [`CHECKS`].

mod attrs;
mod markdown;
mod rooms;
mod source;
mod tree;

mod anchors;
mod arrows;
mod cfgs;
mod contracts;
mod diagrams;
mod language;
mod machine_paths;
mod openings;
mod rules;
mod sleeps;

use std::fmt;
use std::path::Path;
use std::process::ExitCode;

use tree::Tree;

/// A check looks at the whole tree and returns what is not true.
type Check = fn(&Tree) -> Vec<Finding>;

const CHECKS: &[Check] = &[
    anchors::check,
    arrows::check,
    cfgs::check,
    contracts::check,
    diagrams::check,
    language::check,
    machine_paths::check,
    openings::check,
    rules::check,
    sleeps::check,
];

/// One false statement: where it stands and what is wrong with it.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Finding {
    path: String,
    line: usize,
    message: String,
}

impl Finding {
    /// `line` counts from one.
    fn new(path: &str, line: usize, message: impl Into<String>) -> Finding {
        Finding { path: path.to_owned(), line, message: message.into() }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.path, self.line, self.message)
    }
}

pub fn run(root: &Path) -> ExitCode {
    let tree = match Tree::load(root) {
        Ok(tree) => tree,
        Err(error) => {
            eprintln!("tidy: {} could not be read: {error}", root.display());
            return ExitCode::from(2);
        }
    };
    let mut findings: Vec<Finding> = CHECKS.iter().flat_map(|check| check(&tree)).collect();
    findings.sort();
    findings.dedup();
    for finding in &findings {
        println!("{finding}");
    }
    let (files, checks) = (tree.files.len(), CHECKS.len());
    if findings.is_empty() {
        println!("tidy: {files} files, {checks} checks, all true");
        ExitCode::SUCCESS
    } else {
        eprintln!("tidy: {} findings in {files} files", findings.len());
        ExitCode::FAILURE
    }
}

#[cfg(test)]
mod testing {
    //! What the unit tests of the checks share.

    use super::{Check, Tree};

    /// Runs `check` over an inline tree and returns `path:line` of each finding.
    pub fn places(check: Check, files: &[(&str, &str)]) -> Vec<String> {
        let mut findings = check(&Tree::of(files));
        findings.sort();
        findings.iter().map(|finding| format!("{}:{}", finding.path, finding.line)).collect()
    }
}
