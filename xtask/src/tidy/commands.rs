//! The commands in `CONTRIBUTING.md` name commands, tests, examples and folders that exist.
//!
//! A command is a code span, or a line of a block fenced as `sh`. Checked are the words after
//! `cargo xtask`, `--test`, `--example` and `cd`, and a first word that is a path.

use super::Finding;
use super::markdown::{self, Mark};
use super::tree::Tree;

const DOCUMENT: &str = "CONTRIBUTING.md";

/// Where `cargo test` and `cargo run` find packages, unless the command begins with `cd`.
const PACKAGES: &str = "crates/";

pub fn check(tree: &Tree) -> Vec<Finding> {
    let Some(file) = tree.file(DOCUMENT) else {
        return Vec::new();
    };
    let (prose, blocks) = markdown::split(markdown::numbered(&file.text));
    let spans = prose.iter().flat_map(|&(line, text)| {
        markdown::marks(text).into_iter().filter_map(move |mark| match mark {
            Mark::Code(code) => Some((line, code)),
            Mark::Link(_) => None,
        })
    });
    let scripts = blocks.iter().filter(|block| block.info == "sh");
    let commands = spans.chain(scripts.flat_map(|block| block.lines.iter().copied()));
    let mut findings = Vec::new();
    for (line, command) in commands {
        let problems = problems(tree, command).into_iter();
        findings.extend(problems.map(|message| Finding::new(&file.path, line, message)));
    }
    findings
}

/// Says what a command names that does not exist.
fn problems(tree: &Tree, command: &str) -> Vec<String> {
    let words: Vec<&str> = command
        .split_whitespace()
        .map(|word| word.trim_matches(|c| "()'\"".contains(c)))
        .filter(|word| !word.is_empty())
        .collect();
    let mut problems = Vec::new();
    let mut folder = PACKAGES.to_owned();
    for pair in words.windows(2) {
        match *pair {
            ["cd", name] => match tree.resolve("", name) {
                Some(path) => folder = format!("{path}/"),
                None => problems.push(format!("`cd {name}`: there is no such folder")),
            },
            ["xtask", name] if !is_xtask_command(name) => {
                problems.push(format!("`cargo xtask {name}`: xtask has no such command"));
            }
            ["--test", name] if !has_target(tree, &folder, "tests", name) => {
                problems.push(format!("`--test {name}`: no package has such a test file"));
            }
            ["--example", name] if !has_target(tree, &folder, "examples", name) => {
                problems.push(format!("`--example {name}`: no package has such an example"));
            }
            _ => {}
        }
    }
    // A code span of one word is a path or a name; `anchors` checks paths.
    let mut command = words.iter().skip_while(|word| word.contains('='));
    if let (Some(&program), Some(_)) = (command.next(), command.next())
        && program.contains('/')
        && !program.starts_with('/')
        && tree.resolve("", program).is_none()
    {
        problems.push(format!("`{program}` does not exist"));
    }
    problems
}

fn is_xtask_command(name: &str) -> bool {
    crate::COMMANDS.iter().any(|(command, _)| *command == name)
}

/// Returns whether a package in `folder` has a test or an example of that name: a file, or a folder with `main.rs`.
fn has_target(tree: &Tree, folder: &str, kind: &str, name: &str) -> bool {
    let ends = [format!("/{kind}/{name}.rs"), format!("/{kind}/{name}/main.rs")];
    let is_named = |path: &str| ends.iter().any(|end| path.ends_with(end.as_str()));
    tree.files.iter().any(|file| file.path.starts_with(folder) && is_named(&file.path))
}

#[cfg(test)]
mod tests {
    use super::{DOCUMENT, check};
    use crate::tidy::testing::places;

    const FILES: [(&str, &str); 7] = [
        (".ci/run", "#!/bin/sh\n"),
        ("bench/cost", "#!/bin/sh\n"),
        ("bench/tests/ratios.rs", "fn a() {}\n"),
        ("crates/wakeful/examples/mini.rs", "fn main() {}\n"),
        ("crates/wakeful/examples/tour/main.rs", "fn main() {}\n"),
        ("crates/wakeful/tests/orphans.rs", "fn a() {}\n"),
        ("crates/wakeful/tests/why/main.rs", "fn main() {}\n"),
    ];

    fn findings_of(document: &str) -> Vec<String> {
        let mut files = FILES.to_vec();
        files.push((DOCUMENT, document));
        places(check, &files)
    }

    #[test]
    fn commands_that_exist_pass() {
        let document = "```sh\n.ci/run\n```\n| a | `cargo xtask tidy` |\n\
                        `cargo xtask` prints options; `cargo xtask loom mpsc`\n\
                        `A=1 cargo test -p wakeful --test orphans --test why`\n\
                        `cargo run --example tour`, `cargo run --example mini`\n\
                        `(cd bench && cargo test --test ratios)`, `A=$PWD/a bench/cost main`\n";
        assert_eq!(findings_of(document), [""; 0]);
    }

    #[test]
    fn commands_that_do_not_exist_are_found() {
        let document = "`cargo xtask gone`\n`cargo test --test gone --test orphans`\n\
                        `(cd gone && cargo test)`\n`cargo run --example gone`\n\
                        `bench/gone main HEAD`\n`(cd bench && cargo test --test orphans)`\n\
                        `cargo test --test ratios`\n```sh\ncargo xtask gone\n```\n";
        let lines = [1, 2, 3, 4, 5, 6, 7, 9];
        assert_eq!(findings_of(document), lines.map(|line| format!("{DOCUMENT}:{line}")));
    }

    #[test]
    fn other_documents_are_free() {
        assert_eq!(places(check, &[("README.md", "`cd your-project`\n")]), [""; 0]);
    }
}
