//! A scratch package with a suite's tests.
//!
//! If a patch does not fit, cargo prints a warning and uses the tokio of the registry. So the resolved
//! dependencies are checked before anything is built: every tokio among them must be the shim.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use super::build::{UNIT_TESTS, is_library};
use super::suite::{Kind, Suite};

/// The tokio that the tests run with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Subject {
    /// The tokio shim.
    Shim,
    /// The tokio of the registry, for comparison.
    Real,
}

impl Subject {
    pub fn describe(self) -> &'static str {
        match self {
            Subject::Shim => "on wakeful",
            Subject::Real => "with the real tokio",
        }
    }

    fn folder(self) -> &'static str {
        match self {
            Subject::Shim => "shim",
            Subject::Real => "real",
        }
    }
}

pub struct Package {
    pub suite: &'static Suite,
    pub subject: Subject,
    /// The package itself.
    pub folder: PathBuf,
    /// Where its logs go.
    pub scratch: PathBuf,
    /// Where it is built. All packages share this folder, so that a dependency is compiled once for both subjects
    /// unless it depends on tokio.
    pub target: PathBuf,
    /// The names of its test files.
    tests: Vec<String>,
    /// Whether its library is built with unit tests (`lib.test` in the manifest).
    pub has_unit_tests: bool,
    shim: PathBuf,
}

/// Stands in for tokio's own package. The tests ask for the features of the package that they are in, so the names have
/// to be there.
const MANIFEST: &str = r#"[package]
name = "tokio-suite"
version = "0.0.0"
edition = "2021"
publish = false

[features]
default = ["full", "test-util"]
full = ["fs", "io-util", "io-std", "macros", "net", "parking_lot", "process", "rt", "rt-multi-thread", "signal", "sync", "time"]
fs = []
io-util = []
io-std = []
io-uring = ["tokio/io-uring"]
macros = []
net = []
parking_lot = []
process = []
rt = []
rt-multi-thread = []
schedule-latency = ["tokio/schedule-latency"]
signal = []
sync = []
taskdump = []
test-util = []
time = []
tracing = ["tokio/tracing"]

[dependencies]
tokio = { version = "=VERSION", features = ["full", "test-util"] }

[dev-dependencies]
bytes = "1.2.1"
futures = { version = "0.3", features = ["async-await"] }
futures-test = "0.3.31"
io-uring = "0.7"
libc = "0.2.168"
nix = { version = "0.31", default-features = false, features = ["aio", "fs", "socket"] }
pin-project-lite = "0.2.11"
rand = "0.9"
socket2 = "0.6"
tempfile = "3.1"
tokio-stream = "0.1"
tokio-test = "0.4"

[lints.rust]
unexpected_cfgs = "allow"
"#;

impl Package {
    pub fn prepare(root: &Path, suite: &'static Suite, subject: Subject) -> Result<Self, String> {
        let base =
            env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from);
        let base = base.join("conformance");
        let target = base.join("target");
        let scratch = base.join(subject.folder());
        let folder = scratch.join(suite.name).join("package");
        let shim = root.join("crates").join("tokio");
        let tests = Vec::new();
        let has_unit_tests = false;
        let mut package =
            Self { suite, subject, folder, scratch, target, tests, has_unit_tests, shim };
        let source = package.fetch()?;
        package.fill(&source).map_err(|error| format!("{}: {error}", package.title()))?;
        let own = package.check()?;
        package.tests = package.test_files(&own)?;
        package.has_unit_tests = own["targets"]
            .as_array()
            .into_iter()
            .flatten()
            .any(|target| target["test"] == true && is_library(&target["kind"]));
        Ok(package)
    }

    /// The suite, with its version.
    pub fn title(&self) -> String {
        format!("{} {}", self.suite.name, self.suite.version)
    }

    /// Where the output of the tests goes.
    pub fn logs(&self) -> PathBuf {
        self.scratch.join("logs").join(self.suite.name)
    }

    /// The file that wakeful appends its reports to.
    pub fn reports(&self) -> PathBuf {
        self.logs().join("reports.txt")
    }

    /// cargo, in this package, with this subject.
    pub fn cargo(&self, command: &str) -> Command {
        let mut cargo = self.plain_cargo(command);
        cargo.current_dir(&self.folder);
        cargo.args(["--config", "profile.dev.debug=\"line-tables-only\""]);
        cargo.args(["--config", "profile.dev.incremental=false"]);
        // A lint of a newer compiler must not refuse a published crate.
        cargo.args(["--config", "build.rustflags=[\"--cap-lints\", \"warn\"]"]);
        if self.subject == Subject::Shim {
            let patch = format!("patch.crates-io.tokio.path={:?}", self.shim.display().to_string());
            cargo.args(["--config", &patch]);
        }
        cargo
    }

    fn plain_cargo(&self, command: &str) -> Command {
        let mut cargo = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
        // cargo has set these for xtask itself.
        cargo.env_remove("CARGO_TARGET_DIR").env_remove("CARGO_MANIFEST_DIR");
        cargo.arg(command);
        cargo
    }

    /// The published source: cargo downloads it as a dependency of an empty package, and tells where it is.
    fn fetch(&self) -> Result<PathBuf, String> {
        let Suite { name, version, .. } = self.suite;
        let folder = self.scratch.join(format!("fetch-{name}"));
        let manifest = format!(
            "[package]\nname = \"fetch\"\nversion = \"0.0.0\"\nedition = \"2021\"\n\n\
             [dependencies]\n{name} = \"={version}\"\n\n[workspace]\n"
        );
        let write = || {
            fs::create_dir_all(folder.join("src"))?;
            fs::write(folder.join("src/lib.rs"), "")?;
            fs::write(folder.join("Cargo.toml"), manifest)
        };
        write().map_err(|error| format!("{}: {error}", folder.display()))?;
        let mut cargo = self.plain_cargo("metadata");
        let metadata = metadata(cargo.current_dir(&folder))?;
        let package = packages(&metadata)
            .find(|package| package["name"] == *name && package["version"] == *version)
            .ok_or_else(|| format!("cargo does not find {name} {version}"))?;
        let manifest = package["manifest_path"].as_str().map(Path::new).and_then(Path::parent);
        manifest.map(PathBuf::from).ok_or_else(|| "cargo tells no path".to_owned())
    }

    /// Puts the tests into the package's folder.
    fn fill(&self, source: &Path) -> std::io::Result<()> {
        if self.folder.exists() {
            fs::remove_dir_all(&self.folder)?;
        }
        fs::create_dir_all(&self.folder)?;
        let manifest = match self.suite.kind {
            Kind::OfTokio => {
                copy_folder(&source.join("tests"), &self.folder.join("tests"))?;
                fs::create_dir(self.folder.join("src"))?;
                fs::write(self.folder.join("src/lib.rs"), "")?;
                MANIFEST.replace("VERSION", self.suite.version)
            }
            Kind::Dependent { .. } => {
                copy_folder(source, &self.folder)?;
                self.copy_readme(source)?;
                self.mend_manifest(fs::read_to_string(source.join("Cargo.toml"))?)
            }
        };
        fs::write(self.folder.join("Cargo.toml"), format!("{manifest}\n[workspace]\n"))
    }

    /// Changes the dev-dependencies as the suite says.
    fn mend_manifest(&self, mut manifest: String) -> String {
        for name in self.suite.removed {
            let title = format!("\n[dev-dependencies.{name}]\n");
            if let Some(start) = manifest.find(&title) {
                let end = manifest[start + 1..].find("\n[").map(|end| start + 1 + end);
                manifest.replace_range(start..end.unwrap_or(manifest.len()), "");
            }
        }
        for (name, table) in self.suite.added {
            manifest += &format!("\n[dev-dependencies.{name}]\n{table}\n");
        }
        manifest
    }

    /// Puts the README into the folder above the package, where its repository has it: tests of `tower-http` read it.
    fn copy_readme(&self, source: &Path) -> std::io::Result<()> {
        let readme = source.join("README.md");
        if let (Some(above), true) = (self.folder.parent(), readme.exists()) {
            fs::copy(readme, above.join("README.md"))?;
        }
        Ok(())
    }

    /// Proves that the patch took effect, and returns what cargo says of the package.
    fn check(&self) -> Result<Value, String> {
        let metadata = metadata(&mut self.cargo("metadata"))?;
        let tokios = || packages(&metadata).filter(|package| package["name"] == "tokio");
        let fits = match self.subject {
            Subject::Shim => tokios().count() > 0 && tokios().all(|p| is_in(p, &self.shim)),
            Subject::Real => !tokios().any(|package| is_in(package, &self.shim)),
        };
        if fits {
            let own = packages(&metadata).find(|package| is_in(package, &self.folder));
            return own.cloned().ok_or_else(|| "cargo does not list the package".to_owned());
        }
        let found: Vec<String> = tokios()
            .map(|package| format!("{} from {}", package["version"], package["id"]))
            .collect();
        Err(format!(
            "the patch was not used: the tests of {} would run with tokio {}. The version of the \
             shim is too low, or it lacks the name of a feature.",
            self.title(),
            found.join(" and "),
        ))
    }

    /// The test files that are to be run. Empties the skipped files, so that they cost nothing.
    fn test_files(&self, own: &Value) -> Result<Vec<String>, String> {
        let mut names = Vec::new();
        for target in own["targets"].as_array().into_iter().flatten() {
            let (Some(name), Some(path)) = (target["name"].as_str(), target["src_path"].as_str())
            else {
                continue;
            };
            if target["kind"][0] != "test" {
                continue;
            }
            if self.suite.skipped.iter().any(|(pattern, _)| matches(pattern, name)) {
                fs::write(path, "").map_err(|error| format!("{path}: {error}"))?;
            } else {
                names.push(name.to_owned());
            }
        }
        names.sort();
        Ok(names)
    }

    /// The test files that `patterns` name, or all.
    pub fn targets(&self, patterns: &[String]) -> Result<Vec<String>, String> {
        let is_named = |name: &&String| patterns.iter().any(|pattern| matches(pattern, name));
        let names = self.tests.iter().filter(|name| patterns.is_empty() || is_named(name));
        let names: Vec<String> = names.cloned().collect();
        let units = |pattern: &String| pattern == UNIT_TESTS;
        if names.is_empty() && !patterns.is_empty() && !patterns.iter().any(units) {
            return Err(format!("no test file of {} matches {patterns:?}", self.title()));
        }
        Ok(names)
    }
}

/// Whether the manifest of `package` is in `folder`.
fn is_in(package: &Value, folder: &Path) -> bool {
    package["manifest_path"].as_str().map(Path::new).and_then(Path::parent) == Some(folder)
}

/// Whether `name` is what `pattern` says, which may end in a star.
fn matches(pattern: &str, name: &str) -> bool {
    match pattern.strip_suffix('*') {
        Some(start) => name.starts_with(start),
        None => name == pattern,
    }
}

fn metadata(cargo: &mut Command) -> Result<Value, String> {
    let output = cargo
        .args(["--format-version", "1"])
        .output()
        .map_err(|error| format!("cargo did not start: {error}"))?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into_owned());
    }
    serde_json::from_slice(&output.stdout).map_err(|error| format!("cargo metadata: {error}"))
}

fn packages(metadata: &Value) -> impl Iterator<Item = &Value> {
    metadata["packages"].as_array().into_iter().flatten()
}

fn copy_folder(from: &Path, to: &Path) -> std::io::Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy_folder(&entry.path(), &target)?;
        } else if entry.file_name() != "Cargo.lock" {
            fs::copy(entry.path(), target)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::matches;

    #[test]
    fn a_star_stands_at_the_end() {
        assert!(matches("sync_*", "sync_mpsc") && matches("udp", "udp"));
        assert!(!matches("sync", "sync_mpsc") && !matches("rt_*", "sync_rt_"));
    }
}
