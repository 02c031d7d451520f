//! The arguments of `cargo xtask conformance`.

use std::time::Duration;

use super::build::UNIT_TESTS;
use super::suite::{SUITES, Suite};

pub const USAGE: &str = "\
  conformance [option…] [file…]
                   run the tests that tokio and crates built on it are published with on the tokio shim, and again
                   with the real tokio. A file is the name of a test file (lib: the unit tests) and may end in *.
                   Without files, the results are written to docs/CONFORMANCE.md.
                   --suite NAME       one suite only, or all (default: the four of tokio's repository)
                   --list             print the suites
                   --baseline         with the real tokio too, although files are named
                   --unstable         compile with --cfg tokio_unstable; the results have a row of their own
                   --jobs N           of cargo (all processors)      --threads N        of a test process (2)
                   --limit SECONDS    for one file (120)             --test-limit SECONDS  for one test (60)
";

pub struct Options {
    pub suites: Vec<&'static Suite>,
    pub files: Vec<String>,
    baseline: bool,
    /// Everything is compiled with `--cfg tokio_unstable`.
    pub unstable: bool,
    pub list: bool,
    pub jobs: Option<usize>,
    pub threads: usize,
    pub limit: Duration,
    pub test_limit: Duration,
}

impl Options {
    pub fn parse(args: &[String]) -> Result<Self, String> {
        let mut options = Self {
            suites: SUITES.iter().filter(|suite| suite.is_default()).collect(),
            files: Vec::new(),
            baseline: false,
            unstable: false,
            list: false,
            jobs: None,
            threads: 2,
            limit: Duration::from_secs(120),
            test_limit: Duration::from_secs(60),
        };
        let mut args = args.iter();
        while let Some(arg) = args.next() {
            let mut value = || args.next().ok_or_else(|| format!("{arg} needs a value"));
            match arg.as_str() {
                "--suite" => options.suites = suites(value()?)?,
                "--list" => {
                    options.list = true;
                    options.suites = SUITES.iter().collect();
                }
                "--baseline" => options.baseline = true,
                "--unstable" => options.unstable = true,
                "--jobs" => options.jobs = Some(number(value()?)?),
                "--threads" => options.threads = number(value()?)?,
                "--limit" => options.limit = Duration::from_secs(number(value()?)? as u64),
                "--test-limit" => {
                    options.test_limit = Duration::from_secs(number(value()?)? as u64)
                }
                option if option.starts_with('-') => {
                    return Err(format!("unknown option {option}"));
                }
                file => options.files.push(file.to_owned()),
            }
        }
        Ok(options)
    }

    /// Returns whether the tests also run on the real tokio, for comparison.
    pub fn has_baseline(&self) -> bool {
        self.baseline || self.files.is_empty()
    }

    /// Returns whether the results are written to the document. Only results of whole suites are.
    pub fn is_recorded(&self) -> bool {
        self.files.is_empty()
    }

    /// Returns whether the unit tests of the library run.
    pub fn has_unit_tests(&self) -> bool {
        self.files.is_empty() || self.files.iter().any(|file| file == UNIT_TESTS)
    }
}

fn suites(name: &str) -> Result<Vec<&'static Suite>, String> {
    let named: Vec<_> = SUITES.iter().filter(|suite| name == "all" || suite.name == name).collect();
    if named.is_empty() {
        let names: Vec<&str> = SUITES.iter().map(|suite| suite.name).collect();
        return Err(format!("no suite {name}; there are {}", names.join(", ")));
    }
    Ok(named)
}

fn number(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(0) | Err(_) => Err(format!("{text} is not a positive number")),
        Ok(number) => Ok(number),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Options, String> {
        Options::parse(&line.split_whitespace().map(str::to_owned).collect::<Vec<_>>())
    }

    #[test]
    fn suites_are_named() {
        assert_eq!(parse("").unwrap().suites.len(), 4);
        assert_eq!(parse("--suite axum").unwrap().suites[0].name, "axum");
        assert_eq!(parse("--suite all").unwrap().suites.len(), SUITES.len());
    }

    #[test]
    fn whole_suites_are_compared_with_tokio() {
        assert!(parse("--jobs 2").unwrap().has_baseline());
        assert!(!parse("sync_*").unwrap().has_baseline());
        assert!(parse("--baseline lib").unwrap().has_baseline());
    }

    #[test]
    fn whole_suites_are_recorded() {
        assert!(parse("--jobs 2").unwrap().is_recorded());
        assert!(!parse("sync_*").unwrap().is_recorded());
        assert!(parse("--unstable").unwrap().is_recorded());
    }

    #[test]
    fn unit_tests_run_unless_other_files_are_named() {
        assert!(parse("").unwrap().has_unit_tests() && parse("lib").unwrap().has_unit_tests());
        assert!(!parse("sync_*").unwrap().has_unit_tests());
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        for line in ["--suite none", "--jobs 0", "--jobs", "--limit soon", "--fast"] {
            assert!(parse(line).is_err(), "{line}");
        }
    }
}
