//! The tokio shim: wakeful's package named `tokio`, which replaces tokio.

use crate::Failure;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The environment variable with the folder of the shim.
const VARIABLE: &str = "WAKEFUL_TOKIO_SHIM";

/// The package that replaces tokio.
pub struct TokioShim {
    pub folder: PathBuf,
    pub version: semver::Version,
    pub features: BTreeSet<String>,
    /// The oldest compiler that can build it.
    pub rust_version: Option<semver::Version>,
}

/// Features of tokio that wakeful supports only in part, with a description of the difference.
pub const REDUCED_FEATURES: &[(&str, &str)] = &[
    (
        "taskdump",
        "shows what tasks wait for, but no stacks (`Handle::dump` works, `Trace::capture` does not exist)",
    ),
    ("tracing", "has no effect (wakeful emits no `tracing` events)"),
];

impl TokioShim {
    /// Finds the shim.
    ///
    /// The environment variable names its folder. Otherwise the shim is in the checkout from which this
    /// program was built.
    pub fn find() -> Result<Self, Failure> {
        let folder = match std::env::var_os(VARIABLE) {
            Some(folder) => PathBuf::from(folder),
            None => Path::new(env!("CARGO_MANIFEST_DIR")).join("../tokio"),
        };
        let folder = folder.canonicalize().map_err(|error| {
            format!(
                "wakeful's tokio shim, the package named `tokio`, is not at {}: {error}\n  set {VARIABLE} to the folder \
                 crates/tokio of a checkout of wakeful, or install this program from one again:\n  cargo install \
                 --path …/wakeful/crates/cargo-wakeful",
                folder.display()
            )
        })?;
        Self::at(folder)
    }

    fn at(folder: PathBuf) -> Result<Self, Failure> {
        let mut command = Command::new(cargo());
        command.args(["metadata", "--format-version", "1", "--no-deps", "--manifest-path"]);
        command.arg(folder.join("Cargo.toml")).current_dir(&folder);
        let metadata = crate::project::json(command)?;
        let packages = metadata["packages"].as_array().map(Vec::as_slice).unwrap_or_default();
        let package = packages.iter().find(|package| package["name"] == "tokio");
        let package = package.ok_or_else(|| {
            format!(
                "{} has no package named `tokio`: is it crates/tokio of a checkout of wakeful?",
                folder.display()
            )
        })?;
        let version = package["version"].as_str().and_then(|text| text.parse().ok());
        let features = package["features"].as_object();
        let rust_version = package["rust_version"].as_str().and_then(full_version);
        Ok(Self {
            version: version.ok_or("the version of the tokio shim cannot be read")?,
            features: features.into_iter().flatten().map(|(name, _)| name.clone()).collect(),
            rust_version,
            folder,
        })
    }

    /// Returns the configuration that makes cargo replace tokio with the shim.
    pub fn patch(&self) -> String {
        // A JSON string is also a TOML string.
        let path = serde_json::Value::from(self.folder.to_string_lossy().as_ref());
        format!("patch.crates-io.tokio.path={path}")
    }
}

/// Returns the cargo that called this program, or the one in `PATH`.
pub fn cargo() -> std::ffi::OsString {
    std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into())
}

/// Parses a version with missing parts: `1.95` is `1.95.0`.
pub fn full_version(text: &str) -> Option<semver::Version> {
    let dots = text.matches('.').count();
    let missing = 2usize.checked_sub(dots)?;
    format!("{text}{}", ".0".repeat(missing)).parse().ok()
}
