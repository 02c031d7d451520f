//! `doctor`: reports whether a project can run on wakeful, and what would be missing.

use crate::patch_status::PatchStatus;
use crate::project::{Project, rustc};
use std::process::ExitCode;

/// Prints whether the project can run on wakeful, and what would change. Returns success if it can.
///
/// `locked` are the versions of tokio in the project's own lock file.
pub fn report(project: &Project, status: &PatchStatus, locked: &[semver::Version]) -> ExitCode {
    println!("project: {}", project.root.display());
    println!(
        "shim:    {} (stands in for tokio {})",
        project.shim.folder.display(),
        project.shim.version
    );
    let mut can_run = true;
    match status {
        PatchStatus::Applied(applied) => {
            println!("yes:     {applied}");
            let shim = &project.shim.version;
            for version in locked.iter().filter(|version| version.major == shim.major) {
                if version != shim {
                    println!(
                        "note:    Cargo.lock has tokio {version}, and wakeful stands in for tokio {shim}: the \
                         locked version moves from {version} to {shim} while cargo runs"
                    );
                }
            }
            for (name, effect, by) in &applied.reduced_features {
                println!("note:    the feature `{name}` {effect}; asked for by {}", by.join(", "));
            }
        }
        PatchStatus::NotApplied(not_applied) => {
            can_run = false;
            println!("no:      {not_applied}");
        }
    }
    if let (Some(needed), Some(present)) = (&project.shim.rust_version, rustc()) {
        let is_enough = present >= *needed || present.cmp_precedence(needed).is_ge();
        if !is_enough {
            can_run = false;
            println!(
                "no:      wakeful needs Rust {needed}, and this project is built with {present}"
            );
        }
    }
    if cfg!(not(target_os = "linux")) {
        can_run = false;
        println!("no:      wakeful runs on Linux");
    }
    if can_run {
        println!("try:     cargo wakeful test");
    }
    if can_run { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
