//! The project's metadata, and calls of cargo for it.

use crate::Failure;
use crate::options::{Action, Options};
use crate::tokio_shim::{TokioShim, cargo};
use serde_json::Value;
use std::path::PathBuf;
use std::process::{Command, Stdio};

pub struct Project<'a> {
    pub shim: &'a TokioShim,
    pub root: PathBuf,
    /// The folder for build output and for the lock files of this program.
    pub target: PathBuf,
    /// Arguments for every call, like `--features`.
    dependency_options: Vec<String>,
}

/// A dependency of a package on tokio.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Demand {
    pub by: String,
    pub requirement: String,
    pub features: Vec<String>,
}

/// A package named `tokio` among the resolved dependencies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tokio {
    pub version: semver::Version,
    /// The registry or git repository; `None` for a folder.
    pub source: Option<String>,
    pub manifest: PathBuf,
}

impl<'a> Project<'a> {
    pub fn open(options: &Options, shim: &'a TokioShim) -> Result<Self, Failure> {
        let dependency_options = options.dependency_options();
        let mut command = Command::new(cargo());
        command.args(["metadata", "--format-version", "1", "--no-deps"]).args(&dependency_options);
        let metadata = json(command)?;
        let folder = |name: &str| metadata[name].as_str().map(PathBuf::from);
        let root = folder("workspace_root").ok_or("the metadata of cargo has no workspace_root")?;
        let target =
            folder("target_directory").ok_or("the metadata of cargo has no target_directory")?;
        Ok(Self { shim, root, target: target.join("wakeful"), dependency_options })
    }

    /// Returns a call of cargo that replaces tokio with the shim.
    fn cargo(&self, name: &str) -> Command {
        let mut command = Command::new(cargo());
        command.arg(name).arg("--config").arg(self.shim.patch());
        command.env("CARGO_TARGET_DIR", &self.target);
        command
    }

    /// Returns the cargo command that the user has given.
    pub fn command(&self, options: &Options) -> Command {
        let Action::Cargo(name) = &options.action else {
            unreachable!("`main` handles the other actions")
        };
        let mut command = self.cargo(name);
        command.args(&options.arguments);
        if !options.rest.is_empty() {
            command.arg("--").args(&options.rest);
        }
        command
    }

    /// Returns `cargo build` for the program that `cargo run` would execute, with JSON messages.
    pub fn build_for_run(&self, options: &Options) -> Command {
        let mut command = self.cargo("build");
        command.arg("--message-format=json-render-diagnostics").args(&options.arguments);
        command
    }

    /// Returns the resolved dependencies, with the shim.
    pub fn metadata(&self) -> Result<Value, Failure> {
        let mut command = self.cargo("metadata");
        command.args(["--format-version", "1"]).args(&self.dependency_options);
        // Dependencies for other platforms are not built here.
        if let Some(host) = host() {
            command.arg("--filter-platform").arg(host);
        }
        json(command)
    }

    /// Changes the version of tokio in the lock file to the shim's version.
    ///
    /// Returns cargo's error if that fails.
    pub fn update(&self, tokio: &semver::Version) -> Result<(), Failure> {
        let mut command = self.cargo("update");
        command.arg("-p").arg(format!("tokio@{tokio}"));
        command.arg("--precise").arg(self.shim.version.to_string());
        let mut options = self.dependency_options.iter();
        while let Some(argument) = options.next() {
            // `cargo update` has no options for features.
            match argument.as_str() {
                "--features" | "-F" => drop(options.next()),
                "--all-features" | "--no-default-features" => {}
                other if other.starts_with("--features=") => {}
                other => drop(command.arg(other)),
            }
        }
        output(command).map(drop)
    }
}

/// Returns the packages named `tokio` among the resolved dependencies.
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

/// Returns all dependencies on tokio.
pub fn demands(metadata: &Value) -> Vec<Demand> {
    let mut demands = Vec::new();
    for package in list(&metadata["packages"]) {
        let by = format!("{} {}", text(&package["name"]), text(&package["version"]));
        for dependency in list(&package["dependencies"]).filter(|one| one["name"] == "tokio") {
            // Dev-dependencies of other packages are not built.
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

/// Returns the host platform of the compiler.
fn host() -> Option<String> {
    let mut command = Command::new(std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into()));
    let version = output_text(command.arg("-vV")).ok()?;
    let line = version.lines().find_map(|line| line.strip_prefix("host: "))?;
    Some(line.to_owned())
}

/// Returns the version of the compiler.
pub fn rustc() -> Option<semver::Version> {
    let mut command = Command::new(std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into()));
    let version = output_text(command.arg("-vV")).ok()?;
    version.lines().find_map(|line| line.strip_prefix("release: "))?.parse().ok()
}

fn output_text(command: &mut Command) -> std::io::Result<String> {
    Ok(String::from_utf8_lossy(&command.stderr(Stdio::null()).output()?.stdout).into_owned())
}

/// Returns the standard output of a command. If it fails, returns its standard error.
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
        .map_err(|error| format!("the output of cargo is not valid JSON: {error}"))
}
