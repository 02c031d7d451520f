//! What cargo says about the project, and how it is called.

use crate::Failure;
use crate::face::{Face, cargo};
use crate::options::{Action, Options};
use serde_json::Value;
use std::path::PathBuf;
use std::process::{Command, Stdio};

pub struct Project<'a> {
    pub face: &'a Face,
    pub root: PathBuf,
    /// Where this program keeps what it builds and notes.
    pub target: PathBuf,
    /// For every call: `--features` and the like.
    about: Vec<String>,
}

/// A package that asks for tokio, and how.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Demand {
    pub by: String,
    pub requirement: String,
    pub features: Vec<String>,
}

/// A package named `tokio` that cargo has chosen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tokio {
    pub version: semver::Version,
    /// None: a folder.
    pub source: Option<String>,
    pub manifest: PathBuf,
}

impl<'a> Project<'a> {
    pub fn open(options: &Options, face: &'a Face) -> Result<Self, Failure> {
        let about = options.about_the_project();
        let mut command = Command::new(cargo());
        command.args(["metadata", "--format-version", "1", "--no-deps"]).args(&about);
        let metadata = json(command)?;
        let folder = |name: &str| metadata[name].as_str().map(PathBuf::from);
        let root = folder("workspace_root").ok_or("cargo does not say where the project is")?;
        let target = folder("target_directory").ok_or("cargo does not say where to build")?;
        Ok(Self { face, root, target: target.join("wakeful"), about })
    }

    /// A call of cargo's that takes the face, before its own arguments.
    fn cargo(&self, name: &str) -> Command {
        let mut command = Command::new(cargo());
        command.arg(name).arg("--config").arg(self.face.patch());
        command.env("CARGO_TARGET_DIR", &self.target);
        command
    }

    /// The command that was asked for.
    pub fn command(&self, options: &Options) -> Command {
        let Action::Cargo(name) = &options.action else { unreachable!("has its own way") };
        let mut command = self.cargo(name);
        command.args(&options.arguments);
        if !options.rest.is_empty() {
            command.arg("--").args(&options.rest);
        }
        command
    }

    /// `cargo build` for what `cargo run` would run, with messages for programs.
    pub fn build_for_run(&self, options: &Options) -> Command {
        let mut command = self.cargo("build");
        command.arg("--message-format=json-render-diagnostics").args(&options.arguments);
        command
    }

    /// Everything that cargo has chosen, with the face.
    pub fn metadata(&self) -> Result<Value, Failure> {
        let mut command = self.cargo("metadata");
        command.args(["--format-version", "1"]).args(&self.about);
        // Of other systems there may be things that would not be built here.
        if let Some(host) = host() {
            command.arg("--filter-platform").arg(host);
        }
        json(command)
    }

    /// Has cargo take the face's version for the tokio that the lock file names; says why if it cannot.
    pub fn update(&self, tokio: &semver::Version) -> Result<(), Failure> {
        let mut command = self.cargo("update");
        command.arg("-p").arg(format!("tokio@{tokio}"));
        command.arg("--precise").arg(self.face.version.to_string());
        let mut about = self.about.iter();
        while let Some(argument) = about.next() {
            // It knows no features.
            match argument.as_str() {
                "--features" | "-F" => drop(about.next()),
                "--all-features" | "--no-default-features" => {}
                other if other.starts_with("--features=") => {}
                other => drop(command.arg(other)),
            }
        }
        output(command).map(drop)
    }
}

/// The packages named `tokio` in what cargo has chosen.
pub fn tokios(metadata: &Value) -> Vec<Tokio> {
    let chosen: Vec<&str> =
        list(&metadata["resolve"]["nodes"]).filter_map(|node| node["id"].as_str()).collect();
    list(&metadata["packages"])
        .filter(|package| package["name"] == "tokio")
        .filter(|package| package["id"].as_str().is_some_and(|id| chosen.contains(&id)))
        .filter_map(|package| {
            Some(Tokio {
                version: package["version"].as_str()?.parse().ok()?,
                source: package["source"].as_str().map(str::to_owned),
                manifest: PathBuf::from(package["manifest_path"].as_str()?),
            })
        })
        .collect()
}

/// Who asks for tokio.
pub fn demands(metadata: &Value) -> Vec<Demand> {
    let mut demands = Vec::new();
    for package in list(&metadata["packages"]) {
        let by = format!("{} {}", text(&package["name"]), text(&package["version"]));
        for dependency in list(&package["dependencies"]).filter(|one| one["name"] == "tokio") {
            // Those of other crates' tests are not built.
            if dependency["kind"] == "dev" && !package["source"].is_null() {
                continue;
            }
            demands.push(Demand {
                by: by.clone(),
                requirement: text(&dependency["req"]).to_owned(),
                features: list(&dependency["features"])
                    .map(|feature| text(feature).to_owned())
                    .collect(),
            });
        }
    }
    demands
}

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().map(Vec::as_slice).unwrap_or_default().iter()
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// The system that the compiler builds for by itself.
fn host() -> Option<String> {
    let mut command = Command::new(std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into()));
    let version = output_text(command.arg("-vV")).ok()?;
    let line = version.lines().find_map(|line| line.strip_prefix("host: "))?;
    Some(line.to_owned())
}

/// The compiler's version.
pub fn rustc() -> Option<semver::Version> {
    let mut command = Command::new(std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into()));
    let version = output_text(command.arg("-vV")).ok()?;
    version.lines().find_map(|line| line.strip_prefix("release: "))?.parse().ok()
}

fn output_text(command: &mut Command) -> std::io::Result<String> {
    Ok(String::from_utf8_lossy(&command.stderr(Stdio::null()).output()?.stdout).into_owned())
}

/// What a command prints; what it says on the way is an error's text only.
fn output(mut command: Command) -> Result<Vec<u8>, Failure> {
    let output = command.output().map_err(|error| format!("cargo cannot be started: {error}"))?;
    if output.status.success() {
        Ok(output.stdout)
    } else {
        Err(String::from_utf8_lossy(&output.stderr).trim_end().to_owned())
    }
}

pub fn json(command: Command) -> Result<Value, Failure> {
    serde_json::from_slice(&output(command)?)
        .map_err(|error| format!("cargo's answer cannot be read: {error}"))
}
