//! The repository's own commands: `cargo xtask tidy`, `loom`, `soak`, `stress` and `conformance`.
//!
//! They find the workspace through `CARGO_MANIFEST_DIR`, which cargo sets when it runs them. So they
//! work from any folder of any checkout.

mod conformance;
mod loom;
mod soak;
mod stress;
mod tidy;

use std::env;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

type Command = fn(&Path, &[String]) -> ExitCode;

/// The commands, by name. `tidy` checks that the documents name no others.
const COMMANDS: &[(&str, Command)] = &[
    ("tidy", |root, args| if args.is_empty() { tidy::run(root) } else { usage() }),
    ("loom", |root, args| loom::run(root, args)),
    ("soak", |root, args| soak::run(root, args)),
    ("stress", |root, args| stress::run(root, args)),
    ("conformance", |root, args| conformance::run(root, args)),
];

const USAGE: &str = "\
usage: cargo xtask <command>

  tidy             check that what the sources say about themselves is true
  loom [name…]     run the loom models, all of them or those whose path contains a name
";

fn main() -> ExitCode {
    let mut args = env::args().skip(1);
    let command = args.next().unwrap_or_default();
    let rest: Vec<String> = args.collect();
    let root = match workspace_root() {
        Ok(root) => root,
        Err(message) => {
            eprintln!("xtask: {message}");
            return ExitCode::from(2);
        }
    };
    if command == soak::LOAD_COMMAND {
        return soak::run_load(&rest);
    }
    match COMMANDS.iter().find(|(name, _)| *name == command) {
        Some((_, run)) => run(&root, &rest),
        None => usage(),
    }
}

/// Prints how to call xtask, and returns the exit code of a wrong call.
fn usage() -> ExitCode {
    eprint!("{USAGE}{}{}{}", soak::USAGE, stress::USAGE, conformance::USAGE);
    ExitCode::from(2)
}

/// Returns the folder above this package, as cargo tells it at run time.
fn workspace_root() -> Result<PathBuf, String> {
    let package = env::var_os("CARGO_MANIFEST_DIR").ok_or(
        "CARGO_MANIFEST_DIR is not set; start this program through cargo: `cargo xtask tidy`",
    )?;
    let root = PathBuf::from(package)
        .parent()
        .map(PathBuf::from)
        .ok_or("the xtask package has no folder above it")?;
    if root.join("Cargo.toml").is_file() {
        Ok(root)
    } else {
        Err(format!(
            "{} holds no Cargo.toml; xtask expects to sit directly under the workspace root",
            root.display()
        ))
    }
}
