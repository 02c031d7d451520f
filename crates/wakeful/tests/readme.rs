//! The programs in README.md are those of `examples/readme_*.rs`, which are built with the tests.

use std::fs;
use std::path::Path;

mod support {
    pub mod quotes;
}
use support::quotes;

/// The code of each fenced `rust` block of README.md.
fn readme_programs() -> Vec<String> {
    let blocks = quotes::blocks(&quotes::read("README.md"));
    let programs = blocks.iter().filter(|block| block.language() == "rust");
    programs.map(|block| block.lines.join("\n") + "\n").collect()
}

/// The code of an example without its opening documentation.
fn example(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples").join(name);
    let text = fs::read_to_string(&path).expect("the example exists");
    let code = text.lines().skip_while(|line| line.starts_with("//!") || line.is_empty());
    let code: String = code.flat_map(|line| [line, "\n"]).collect();
    // The test `why` calls the function, which a reader of README need not know.
    code.replace("pub(crate) async fn main", "async fn main")
}

#[test]
fn programs_of_the_readme_are_examples() {
    let shown = readme_programs();
    assert_eq!(shown, [example("readme_deadlock.rs"), example("readme_squares.rs")]);
}
