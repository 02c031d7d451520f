//! `cargo xtask stress`: runs the kinds of `crates/wakeful/examples/stress` for long, each in a process of its own.
//!
//! The program is built with the address sanitizer where the toolchain has it. That needs `RUSTC_BOOTSTRAP=1` on a
//! stable compiler, and a target folder of its own, since the flags would otherwise evict the usual build.

use std::env;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, ExitStatus, Stdio};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

pub const USAGE: &str = "  \
  stress           run the stress kinds under the address sanitizer, if the toolchain has it
      --kind NAME      one kind only; may be given several times
      --seed N         the seed of the first round (default: a new one)
      --rounds N       rounds of each kind (default: 200)
      --seconds N      seconds of each kind, instead of rounds
      --no-sanitizer   a plain build
      --list           name the kinds
";

const DEFAULT_ROUNDS: u64 = 200;

/// What the command line asks for.
#[derive(Debug, PartialEq, Eq)]
struct Options {
    kinds: Vec<String>,
    seed: Option<u64>,
    /// The flag and its number, as the program takes them.
    amount: (&'static str, u64),
    sanitizer: bool,
    list: bool,
}

fn parse(args: &[String]) -> Result<Options, String> {
    let mut options = Options {
        kinds: Vec::new(),
        seed: None,
        amount: ("--rounds", DEFAULT_ROUNDS),
        sanitizer: true,
        list: false,
    };
    let mut args = args.iter();
    while let Some(flag) = args.next() {
        let mut value = || args.next().ok_or(format!("{flag} needs a value"));
        let number = |text: &String| {
            text.parse::<u64>().map_err(|_| format!("{flag} needs a number, not {text}"))
        };
        match flag.as_str() {
            "--kind" => options.kinds.push(value()?.clone()),
            "--seed" => options.seed = Some(number(value()?)?),
            "--rounds" => options.amount = ("--rounds", number(value()?)?),
            "--seconds" => options.amount = ("--seconds", number(value()?)?),
            "--no-sanitizer" => options.sanitizer = false,
            "--list" => options.list = true,
            _ => return Err(format!("there is no option {flag}")),
        }
    }
    Ok(options)
}

/// Returns success if every kind has passed.
pub fn run(root: &Path, args: &[String]) -> ExitCode {
    let outcome = parse(args).and_then(|options| try_run(root, &options));
    match outcome {
        Ok(0) => ExitCode::SUCCESS,
        Ok(_) => ExitCode::FAILURE,
        Err(message) => {
            eprintln!("stress: {message}");
            ExitCode::from(2)
        }
    }
}

/// Returns how many kinds have failed.
fn try_run(root: &Path, options: &Options) -> Result<usize, String> {
    let sanitizer = if options.list { None } else { Sanitizer::find(root, options.sanitizer)? };
    let program = build(root, sanitizer.as_ref())?;
    let listing = output(Command::new(&program).arg("--list"))?;
    if options.list {
        print!("{listing}");
        return Ok(0);
    }
    let known: Vec<&str> =
        listing.lines().filter_map(|line| line.split_whitespace().next()).collect();
    let kinds: Vec<&str> = if options.kinds.is_empty() {
        known
    } else {
        options.kinds.iter().map(String::as_str).collect()
    };
    let seed = options.seed.unwrap_or_else(new_seed);
    let mut failed = 0;
    for kind in &kinds {
        let mut command = Command::new(&program);
        command.args(["--kind", kind, "--seed", &seed.to_string()]);
        command.arg(options.amount.0).arg(options.amount.1.to_string());
        if let Some(sanitizer) = &sanitizer {
            command.env("ASAN_OPTIONS", sanitizer.settings());
        }
        failed += usize::from(!run_kind(kind, &mut command)?);
    }
    println!("{} passed, {failed} failed", kinds.len() - failed);
    Ok(failed)
}

fn new_seed() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos() as u64)
}

/// Runs one kind. Returns whether it has passed, and prints the line that repeats the round that has not.
fn run_kind(kind: &str, command: &mut Command) -> Result<bool, String> {
    let start = Instant::now();
    let mut child = command
        .stdout(Stdio::piped())
        .spawn()
        .map_err(|error| format!("{kind} did not start: {error}"))?;
    let stdout = child.stdout.take().expect("it is piped");
    let (mut last, mut passed) = (String::new(), None);
    for line in BufReader::new(stdout).lines().map_while(Result::ok) {
        match line.strip_prefix("passed: ") {
            Some(figures) => passed = Some(figures.to_owned()),
            None => last = line,
        }
    }
    let status = child.wait().map_err(|error| format!("{kind} cannot be waited for: {error}"))?;
    let seconds = start.elapsed().as_secs_f64();
    if let (true, Some(figures)) = (status.success(), &passed) {
        println!("{kind}: passed in {seconds:.1} s: {figures}");
        return Ok(true);
    }
    println!("{kind}: FAILED after {seconds:.1} s: {}", why(status, passed.is_some()));
    match seed_of(&last) {
        Some(seed) => println!(
            "to repeat its last round: cargo xtask stress --kind {kind} --seed {seed} --rounds 1"
        ),
        None => println!("it ended before its first round"),
    }
    Ok(false)
}

fn why(status: ExitStatus, rounds_passed: bool) -> String {
    if rounds_passed {
        format!("every round has passed, but the process ended with a leak or a crash ({status})")
    } else {
        format!("a round has failed ({status})")
    }
}

/// The seed in a line `round N seed S`.
fn seed_of(line: &str) -> Option<u64> {
    line.rsplit_once(" seed ")?.1.parse().ok()
}

/// The address sanitizer of this toolchain.
struct Sanitizer {
    /// It has to be named: a build for the host by default would sanitize build scripts too.
    target: String,
    finds_leaks: bool,
}

impl Sanitizer {
    /// Compiles and runs an empty program with it. Says on stdout what the stress runs with.
    fn find(root: &Path, wanted: bool) -> Result<Option<Self>, String> {
        if !wanted {
            println!("stress: a plain build, as asked for");
            return Ok(None);
        }
        let version = output(Command::new("rustc").arg("-vV"))?;
        let host = version.lines().find_map(|line| line.strip_prefix("host: "));
        let target = host.ok_or("rustc does not name its host")?.to_owned();
        let folder = target_dir(root);
        fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        let (source, probe) = (folder.join("probe.rs"), folder.join("probe"));
        fs::write(&source, "fn main() {}\n")
            .map_err(|error| format!("{}: {error}", source.display()))?;
        let mut compile = Command::new("rustc");
        compile.env("RUSTC_BOOTSTRAP", "1").args([
            "-Zsanitizer=address",
            "--target",
            &target,
            "-o",
        ]);
        if !succeeds(compile.arg(&probe).arg(&source)) || !succeeds(&mut probe_with(&probe, false))
        {
            println!(
                "stress: this toolchain has no address sanitizer for {target}; a plain build runs instead"
            );
            return Ok(None);
        }
        let finds_leaks = succeeds(&mut probe_with(&probe, true));
        let leaks = if finds_leaks {
            "with leak detection"
        } else {
            "without leak detection, which does not work here"
        };
        println!("stress: address sanitizer, {leaks}");
        Ok(Some(Self { target, finds_leaks }))
    }

    fn settings(&self) -> String {
        format!("detect_leaks={}:abort_on_error=0", u8::from(self.finds_leaks))
    }
}

fn probe_with(probe: &Path, leaks: bool) -> Command {
    let mut command = Command::new(probe);
    command.env("ASAN_OPTIONS", format!("detect_leaks={}", u8::from(leaks)));
    command
}

fn succeeds(command: &mut Command) -> bool {
    let status = command.stdout(Stdio::null()).stderr(Stdio::null()).status();
    status.is_ok_and(|status| status.success())
}

fn output(command: &mut Command) -> Result<String, String> {
    let output = command.output().map_err(|error| format!("{command:?} did not start: {error}"))?;
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

fn target_dir(root: &Path) -> PathBuf {
    root.join("target").join("stress")
}

/// Builds the program, optimised and with debug assertions. Returns its path.
fn build(root: &Path, sanitizer: Option<&Sanitizer>) -> Result<PathBuf, String> {
    let cargo = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let folder = target_dir(root);
    let mut command = Command::new(cargo);
    command
        .current_dir(root)
        // Link-time optimisation takes long, and reports want line numbers.
        .env("CARGO_PROFILE_RELEASE_LTO", "off")
        .env("CARGO_PROFILE_RELEASE_CODEGEN_UNITS", "16")
        .env("CARGO_PROFILE_RELEASE_DEBUG", "line-tables-only")
        .env("CARGO_PROFILE_RELEASE_DEBUG_ASSERTIONS", "true")
        .args(["build", "--quiet", "--release", "--package", "wakeful", "--example", "stress"])
        .arg("--target-dir")
        .arg(&folder);
    let mut program = folder.clone();
    if let Some(sanitizer) = sanitizer {
        command
            .env("RUSTC_BOOTSTRAP", "1")
            .env("RUSTFLAGS", "-Zsanitizer=address -Cforce-frame-pointers=yes")
            .args(["--target", &sanitizer.target]);
        program.push(&sanitizer.target);
    }
    let status = command.status().map_err(|error| format!("cargo did not start: {error}"))?;
    if !status.success() {
        return Err("the stress program does not build".into());
    }
    Ok(program.join("release").join("examples").join("stress"))
}

#[cfg(test)]
mod tests {
    use super::{parse, seed_of};

    fn args(text: &str) -> Vec<String> {
        text.split_whitespace().map(str::to_owned).collect()
    }

    #[test]
    fn options_are_read() {
        let options =
            parse(&args("--kind a --seed 7 --seconds 3 --kind b --no-sanitizer")).unwrap();
        assert_eq!(options.kinds, ["a", "b"]);
        assert_eq!((options.seed, options.amount), (Some(7), ("--seconds", 3)));
        assert!(!options.sanitizer && !options.list);
        assert_eq!(parse(&[]).unwrap().amount, ("--rounds", super::DEFAULT_ROUNDS));
    }

    #[test]
    fn wrong_options_are_named() {
        for (text, message) in [
            ("--rounds", "--rounds needs a value"),
            ("--seed x", "--seed needs a number, not x"),
            ("--often", "there is no option --often"),
        ] {
            assert_eq!(parse(&args(text)).unwrap_err(), message);
        }
    }

    #[test]
    fn the_seed_is_read_from_the_line_of_a_round() {
        assert_eq!(seed_of("round 12 seed 345"), Some(345));
        assert_eq!(seed_of("nothing of the kind"), None);
    }
}
