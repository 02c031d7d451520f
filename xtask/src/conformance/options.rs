//! The arguments of `cargo xtask conformance`.

use std::time::Duration;

use super::suite::{SUITES, Suite};

pub const USAGE: &str = "\
  conformance [option…] [file…]
                   run the tests of tokio, tokio-stream, tokio-test and tokio-util on the face; a file is the
                   name of a test file and may end in *. Without files, docs/CONFORMANCE.md is written.
                   --suite NAME       one suite only
                   --baseline         run what does not pass with the real tokio too
                   --jobs N           of cargo (all processors)      --threads N        of a test process (2)
                   --limit SECONDS    for one file (60)              --test-limit SECONDS  for one test (20)
";

pub struct Options {
    pub suites: Vec<&'static Suite>,
    pub files: Vec<String>,
    pub baseline: bool,
    pub jobs: Option<usize>,
    pub threads: usize,
    pub limit: Duration,
    pub test_limit: Duration,
}

impl Options {
    pub fn parse(args: &[String]) -> Result<Self, String> {
        let mut options = Self {
            suites: SUITES.iter().collect(),
            files: Vec::new(),
            baseline: false,
            jobs: None,
            threads: 2,
            limit: Duration::from_secs(60),
            test_limit: Duration::from_secs(20),
        };
        let mut args = args.iter();
        while let Some(arg) = args.next() {
            let mut value = || args.next().ok_or_else(|| format!("{arg} needs a value"));
            match arg.as_str() {
                "--suite" => options.suites = vec![suite(value()?)?],
                "--baseline" => options.baseline = true,
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

    /// Everything was run, so the report can be written.
    pub fn is_whole(&self) -> bool {
        self.files.is_empty() && self.suites.len() == SUITES.len()
    }
}

fn suite(name: &str) -> Result<&'static Suite, String> {
    SUITES.iter().find(|suite| suite.name == name).ok_or_else(|| {
        let names: Vec<&str> = SUITES.iter().map(|suite| suite.name).collect();
        format!("no suite {name}; there are {}", names.join(", "))
    })
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
    fn everything_is_run_unless_something_is_named() {
        assert!(parse("--baseline --jobs 2").unwrap().is_whole());
        assert!(!parse("sync_*").unwrap().is_whole());
        assert!(!parse("--suite tokio-test").unwrap().is_whole());
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        for line in ["--suite none", "--jobs 0", "--jobs", "--limit soon", "--fast"] {
            assert!(parse(line).is_err(), "{line}");
        }
    }
}
