//! The repository's own commands: `cargo xtask tidy`, `loom`, `soak`, `stress` and `conformance`.
//!
//! They find the workspace through `CARGO_MANIFEST_DIR`, which cargo sets when
//! it runs them, so they work from any folder of any checkout.

mod conformance;
mod loom;
mod soak;
mod stress;
mod tidy;

use std::env;
use std::path::PathBuf;
use std::process::ExitCode;

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
    match command.as_str() {
        "tidy" if rest.is_empty() => tidy::run(&root),
        "loom" => loom::run(&root, &rest),
        "soak" => soak::run(&root, &rest),
        soak::LOAD_COMMAND => soak::run_load(&rest),
        "stress" => stress::run(&root, &rest),
        "conformance" => conformance::run(&root, &rest),
        _ => {
            eprint!("{USAGE}{}{}{}", soak::USAGE, stress::USAGE, conformance::USAGE);
            ExitCode::from(2)
        }
    }
}

/// The folder above this package, as cargo tells it at run time.
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
