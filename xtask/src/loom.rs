//! `cargo xtask loom`: builds the library with `--cfg loom` and runs its models.
//!
//! A model is a test in a module named `models`. The build has its own target folder, since its flags would otherwise
//! evict the usual one. It is `loom` in the target folder of the workspace, or in `CARGO_TARGET_DIR`.

use std::env;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::time::Instant;

/// How many forced switches between threads loom tries in one execution,
/// unless `LOOM_MAX_PREEMPTIONS` says otherwise.
const MAX_PREEMPTIONS: &str = "3";

/// The part of a test's path that marks it as a model.
const MODEL_MARK: &str = "models::";

pub fn run(root: &Path, names: &[String]) -> ExitCode {
    let start = Instant::now();
    match try_run(root, names) {
        Ok(models) => {
            let seconds = start.elapsed().as_secs_f64();
            println!("loom: every model holds ({models} run), {seconds:.1} s with the build");
            ExitCode::SUCCESS
        }
        Err(message) => {
            let seconds = start.elapsed().as_secs_f64();
            eprintln!("loom: {message} (after {seconds:.1} s)");
            ExitCode::FAILURE
        }
    }
}

/// Lists the models first: a name that matches no model must not pass.
fn try_run(root: &Path, names: &[String]) -> Result<usize, String> {
    let listing = cargo_test(root, &[MODEL_MARK])
        .arg("--list")
        .stderr(Stdio::inherit())
        .output()
        .map_err(|error| format!("cargo did not start: {error}"))?;
    if !listing.status.success() {
        return Err("the library does not build with --cfg loom".into());
    }
    let listing = String::from_utf8_lossy(&listing.stdout);
    let chosen = choose(&models(&listing), names)?;

    let mut filters: Vec<&str> = chosen.clone();
    filters.push("--exact");
    let status = cargo_test(root, &filters)
        .status()
        .map_err(|error| format!("cargo did not start: {error}"))?;
    if status.success() {
        Ok(chosen.len())
    } else {
        Err("a model failed; its execution is printed above".into())
    }
}

fn cargo_test(root: &Path, arguments: &[&str]) -> Command {
    let cargo = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let preemptions = env::var_os("LOOM_MAX_PREEMPTIONS").unwrap_or_else(|| MAX_PREEMPTIONS.into());
    let mut command = Command::new(cargo);
    command
        .current_dir(root)
        .env("RUSTFLAGS", "--cfg loom -C debug-assertions -D warnings")
        .env("LOOM_MAX_PREEMPTIONS", preemptions)
        // Link-time optimisation takes longer than it saves here.
        .env("CARGO_PROFILE_RELEASE_LTO", "off")
        .args(["test", "--release", "--package", "wakeful", "--lib"])
        .arg("--target-dir")
        .arg(target_dir(root, env::var_os("CARGO_TARGET_DIR")))
        .arg("--")
        .args(arguments);
    command
}

/// Returns the folder `loom` under the target folder, which `CARGO_TARGET_DIR` may set.
///
/// A relative `CARGO_TARGET_DIR` counts from the folder in which cargo was started, as it does for cargo.
fn target_dir(root: &Path, from_env: Option<OsString>) -> PathBuf {
    let target = from_env.filter(|path| !path.is_empty()).map(PathBuf::from);
    let target = target.map(|path| std::path::absolute(&path).unwrap_or(path));
    target.unwrap_or_else(|| root.join("target")).join("loom")
}

/// Returns the paths of the tests in a test program's `--list`: its lines `path: test`.
fn models(listing: &str) -> Vec<&str> {
    listing.lines().filter_map(|line| line.trim_end().strip_suffix(": test")).collect()
}

/// Returns the models whose path contains one of `names`, or all models if there are no names.
///
/// # Errors
///
/// If a name matches no model. The message lists the modules of all models.
fn choose<'a>(models: &[&'a str], names: &[String]) -> Result<Vec<&'a str>, String> {
    if models.is_empty() {
        return Err(format!("there are no models; they live in modules named {MODEL_MARK}…"));
    }
    if let Some(name) = names.iter().find(|name| !models.iter().any(|path| path.contains(*name))) {
        let mut modules: Vec<&str> = models
            .iter()
            .map(|path| path.rsplit_once("::").map_or(*path, |(module, _)| module))
            .collect();
        modules.sort_unstable();
        modules.dedup();
        let modules = modules.join("\n  ");
        return Err(format!("there are models in\n  {modules}\nand none has {name:?} in its path"));
    }
    let is_chosen =
        |path: &&str| names.is_empty() || names.iter().any(|name| path.contains(name.as_str()));
    Ok(models.iter().copied().filter(is_chosen).collect())
}

#[cfg(test)]
mod tests {
    use super::{choose, models, target_dir};
    use std::path::Path;

    const LISTING: &str = "task::models::state::wake: test\nqueue::models::ring::steal: test\nqueue::models::ring::pop: test\n\n3 tests, 0 benchmarks\n";

    fn chosen(names: &[&str]) -> Result<Vec<&'static str>, String> {
        let names: Vec<String> = names.iter().map(|name| name.to_string()).collect();
        choose(&models(LISTING), &names)
    }

    #[test]
    fn a_name_is_any_part_of_a_models_path() {
        assert_eq!(chosen(&[]).unwrap().len(), 3);
        assert_eq!(
            chosen(&["models::ring"]).unwrap(),
            ["queue::models::ring::steal", "queue::models::ring::pop"]
        );
        assert_eq!(
            chosen(&["pop", "wake"]).unwrap(),
            ["task::models::state::wake", "queue::models::ring::pop"]
        );
    }

    #[test]
    fn a_name_that_matches_no_model_is_an_error_with_the_list() {
        let error = chosen(&["models::ring", "models::stat_"]).unwrap_err();
        assert!(error.contains("\"models::stat_\""), "{error}");
        assert!(error.contains("in\n  queue::models::ring\n  task::models::state\nand"), "{error}");
    }

    #[test]
    fn a_listing_without_tests_is_an_error() {
        let listing = "\n0 tests, 0 benchmarks\n";
        assert!(choose(&models(listing), &[]).is_err());
    }

    #[test]
    fn the_target_folder_is_the_one_that_cargo_was_given() {
        let root = Path::new("/checkout");
        assert_eq!(target_dir(root, None), Path::new("/checkout/target/loom"));
        assert_eq!(target_dir(root, Some("".into())), Path::new("/checkout/target/loom"));
        assert_eq!(target_dir(root, Some("/tmp/here".into())), Path::new("/tmp/here/loom"));
        let relative = target_dir(root, Some("here".into()));
        assert_eq!(relative, std::env::current_dir().unwrap().join("here/loom"));
    }
}
