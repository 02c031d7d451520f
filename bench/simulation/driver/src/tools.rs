//! Builds the programs of the tools.

use crate::options::Options;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A tool with one strategy.
pub struct Tool {
    pub name: &'static str,
    program: PathBuf,
    strategy: &'static str,
    pub bugs: Vec<String>,
    pub has_hosts: bool,
}

impl Tool {
    pub fn command(&self) -> Command {
        let mut command = Command::new(&self.program);
        command.env("STRATEGY", self.strategy).current_dir(folder());
        command.stderr(std::process::Stdio::null());
        command
    }
}

/// The name in the tables, the package, and the strategy of each tool.
const TOOLS: &[(&str, &str, &str)] = &[
    ("wakeful", "on-wakeful", "swarm"),
    ("shuttle random", "on-shuttle", "random"),
    ("shuttle pct(3)", "on-shuttle", "pct3"),
    ("shuttle urw", "on-shuttle", "urw"),
    ("madsim", "on-madsim", ""),
    ("turmoil", "on-turmoil", "1ms"),
    ("turmoil, tick 100 ms", "on-turmoil", "100ms"),
    ("loom", "on-loom", ""),
];

/// The rows whose times are whole seconds, so that a longer tick only changes turmoil's speed.
const LONG_TICKS: &[&str] = &["expired_lease"];

/// The folder of this workspace.
fn folder() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("a workspace")
}

/// Builds the requested tools, and queries each for its bugs.
pub fn build(options: &Options) -> Vec<Tool> {
    let is_wanted = |name: &str| {
        options.tools.is_empty() || options.tools.iter().any(|wanted| name.starts_with(wanted))
    };
    let wanted = TOOLS.iter().filter(|(name, ..)| is_wanted(name));
    wanted.map(|&(name, package, strategy)| tool(name, package, strategy)).collect()
}

fn tool(name: &'static str, package: &str, strategy: &'static str) -> Tool {
    let target = folder().join(if package == "on-madsim" { "target/madsim" } else { "target" });
    let mut cargo = Command::new("cargo");
    cargo.current_dir(folder()).args(["build", "--release", "--quiet", "--package", package]);
    cargo.arg("--target-dir").arg(&target);
    if package == "on-madsim" {
        cargo.env("RUSTFLAGS", "--cfg madsim");
    }
    assert!(cargo.status().expect("cargo").success(), "{package} does not build");
    let program = target.join("release").join(package);
    let has_hosts = !matches!(package, "on-shuttle" | "on-loom");
    let mut tool = Tool { name, program, strategy, bugs: Vec::new(), has_hosts };
    let output = tool.command().arg("list").output().expect("the program of a tool");
    let bugs = String::from_utf8(output.stdout).expect("names");
    let is_long_tick = strategy == "100ms";
    tool.bugs = bugs.lines().map(str::to_owned).collect();
    if package == "on-turmoil" {
        tool.bugs.retain(|bug| LONG_TICKS.contains(&bug.as_str()) == is_long_tick);
    }
    tool
}
