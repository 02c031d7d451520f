//! The programs in README.md are those of `examples/readme_*.rs`, which are built with the tests.

use std::fs;
use std::path::Path;

/// The code of each fenced `rust` block of README.md.
fn readme_programs() -> Vec<String> {
    let readme = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../README.md");
    let text = fs::read_to_string(readme).expect("README.md is in the root of the repository");
    let blocks = text.split("```rust\n").skip(1);
    blocks.filter_map(|rest| Some(rest.split_once("```")?.0.to_owned())).collect()
}

/// The code of an example without its opening documentation.
fn example(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples").join(name);
    let text = fs::read_to_string(&path).expect("the example exists");
    let code = text.lines().skip_while(|line| line.starts_with("//!") || line.is_empty());
    code.flat_map(|line| [line, "\n"]).collect()
}

#[test]
fn programs_of_the_readme_are_examples() {
    let shown = readme_programs();
    assert_eq!(shown, [example("readme_deadlock.rs"), example("readme_squares.rs")]);
}
