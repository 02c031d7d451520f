//! `cargo xtask tidy`: checks what comments and documents claim about the sources.
//!
//! For example: a link leads to a file, a cited rule is defined, a function in a diagram exists. A
//! module uses only the modules that it may use. A comment names the actor.
//!
//! [`tree`] reads the repository, [`source`] splits a Rust file into code and comments, and
//! [`attrs`] reads attributes. [`markdown`] reads documents, [`modules`] tells the module of a
//! file. Each check is one file and one entry of [`CHECKS`].

mod attrs;
mod markdown;
mod modules;
mod source;
mod tree;

mod anchors;
mod arrows;
mod cfgs;
mod commands;
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

/// A check reads the whole tree and returns its findings.
type Check = fn(&Tree) -> Vec<Finding>;

const CHECKS: &[Check] = &[
    anchors::check,
    arrows::check,
    cfgs::check,
    commands::check,
    contracts::check,
    diagrams::check,
    language::check,
    machine_paths::check,
    openings::check,
    rules::check,
    sleeps::check,
];

/// One defect: its file, its line, and a message for the author.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Finding {
    path: String,
    line: usize,
    message: String,
}

impl Finding {
    /// Creates a finding; `line` counts from one.
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
        println!("tidy: {files} files, {checks} checks, no findings");
        ExitCode::SUCCESS
    } else {
        eprintln!("tidy: {} findings in {files} files", findings.len());
        ExitCode::FAILURE
    }
}

#[cfg(test)]
mod testing {
    //! Support for the unit tests of the checks.

    use super::{Check, Tree};

    /// Runs `check` over an inline tree and returns `path:line` of each finding.
    pub fn places(check: Check, files: &[(&str, &str)]) -> Vec<String> {
        let mut findings = check(&Tree::of(files));
        findings.sort();
        findings.iter().map(|finding| format!("{}:{}", finding.path, finding.line)).collect()
    }
}
