//! `run`: builds the program with the swapped lock file, restores the file, and executes the program.
//!
//! The program may run for a long time, during which the project should have its own lock file.

use crate::Failure;
use crate::interrupt::{is_interrupted, wait_for, watch};
use crate::options::Options;
use crate::page::browser;
use crate::project::Project;
use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// A program that cargo has built.
pub struct Program {
    path: PathBuf,
    manifest: PathBuf,
    name: String,
}

/// Builds the program that `cargo run` would execute.
pub fn build(project: &Project, options: &Options) -> Result<Program, Failure> {
    let mut cargo = project
        .build_for_run(options)
        .stdout(Stdio::piped())
        .spawn()
        .map_err(|error| format!("cargo cannot be started: {error}"))?;
    // Before its output is read: the build may take long.
    watch(&mut cargo);
    let messages = BufReader::new(cargo.stdout.take().expect("piped above"));
    let mut programs = Vec::new();
    for line in messages.lines() {
        let line = line.map_err(|error| format!("cargo's messages cannot be read: {error}"))?;
        programs.extend(serde_json::from_str(&line).ok().as_ref().and_then(program));
    }
    let status = wait_for(&mut cargo).map_err(|error| format!("cannot wait for cargo: {error}"))?;
    if is_interrupted() {
        return Err("interrupted by a signal".into());
    }
    if !status.success() {
        return Err("the build failed".into());
    }
    choose(programs, default_run(project))
}

fn program(message: &Value) -> Option<Program> {
    let kinds = message["target"]["kind"].as_array()?;
    // Build scripts have other kinds.
    if !kinds.iter().any(|kind| kind == "bin" || kind == "example") {
        return None;
    }
    Some(Program {
        path: message["executable"].as_str()?.into(),
        manifest: message["manifest_path"].as_str()?.into(),
        name: message["target"]["name"].as_str()?.into(),
    })
}

/// Returns the `default-run` of the manifest.
fn default_run(project: &Project) -> Option<String> {
    let metadata = project.metadata().ok()?;
    let packages = metadata["packages"].as_array()?;
    // Only packages of the workspace count.
    let own = packages.iter().filter(|package| package["source"].is_null());
    let mut named = own.filter_map(|package| package["default_run"].as_str());
    named.next().map(str::to_owned)
}

fn choose(mut programs: Vec<Program>, default: Option<String>) -> Result<Program, Failure> {
    if programs.len() > 1
        && let Some(default) = default
    {
        programs.retain(|program| program.name == default);
    }
    match programs.len() {
        1 => Ok(programs.remove(0)),
        0 => Err("there is no program to run here: name one with --bin or --example".into()),
        _ => {
            let names: Vec<&str> = programs.iter().map(|program| program.name.as_str()).collect();
            Err(format!("which one? name it with --bin: {}", names.join(", ")))
        }
    }
}

impl Program {
    /// Replaces this process with the program, like `cargo run`. Returns only if that fails.
    pub fn launch(self, options: &Options) -> Failure {
        if is_interrupted() {
            return "interrupted by a signal".into();
        }
        let mut command = Command::new(&self.path);
        command.args(&options.rest);
        if let Some(folder) = self.manifest.parent() {
            command.env("CARGO_MANIFEST_DIR", folder);
        }
        eprintln!("cargo wakeful: running {}", self.path.display());
        if options.page {
            browser::enable_page(&mut command);
            browser::watch_this_process();
        }
        let error = command.exec();
        format!("{} cannot be started: {error}", self.path.display())
    }
}
