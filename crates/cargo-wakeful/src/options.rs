//! The command line.

use crate::page::browser::WATCH_COMMAND;

/// The help text.
pub const USAGE: &str = "\
Builds a tokio project on wakeful, without editing it.

usage: cargo wakeful run|test|bench|build|check|clippy|doc|tree [arguments of that command]
       cargo wakeful run|test|bench --page [arguments of that command]
       cargo wakeful top [URL|PID] [--once]
       cargo wakeful doctor [--manifest-path …] [--features …]
       cargo wakeful --version

--page turns the program's live page on (WAKEFUL_PAGE=1) and opens it in the browser.
top shows the live page of a running program in the terminal: its state, findings, workers, groups and tasks. URL is
what the program printed; since other users can read arguments, and it has a token, better pass it as the environment
variable WAKEFUL_PAGE_URL. Without URL and PID, top shows the only process of the user that has a page. --once prints the
state once. Press ? for the keys.

The manifest and the lock file stay as they are. Build output goes to the folder `wakeful` in the target folder.
WAKEFUL_TOKIO_SHIM is the folder of the tokio shim, the package that replaces tokio. The default is crates/tokio of the
checkout that this program was installed from.";

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    Help,
    /// Prints the version of this program.
    Version,
    /// Reports whether the project can run on wakeful, and what would be missing.
    Doctor,
    /// Builds a program and executes it in this process.
    Run,
    /// Shows the live page of a process in the terminal.
    Top,
    /// Opens the page of a program in the browser; an internal command.
    WatchPage,
    /// Another command of cargo.
    Cargo(String),
}

#[derive(Debug)]
pub struct Options {
    pub action: Action,
    /// The arguments after the command, up to `--`.
    pub arguments: Vec<String>,
    /// The arguments after `--`.
    pub rest: Vec<String>,
    /// Whether to turn the live page on and open it.
    pub page: bool,
}

/// The option that turns the live page on. It is not passed to cargo.
const PAGE_OPTION: &str = "--page";

/// Options that affect the dependencies, and whether they take a value.
///
/// They are passed to every call of cargo.
const DEPENDENCY_OPTIONS: &[(&str, bool)] = &[
    ("--manifest-path", true),
    ("--features", true),
    ("-F", true),
    ("--all-features", false),
    ("--no-default-features", false),
    ("--offline", false),
    ("--frozen", false),
    ("--config", true),
];

/// Other options of `cargo run` that take a value.
#[rustfmt::skip]
const WITH_VALUE: &[&str] = &[
    "--bin", "--example", "-p", "--package", "--target", "--target-dir", "--profile", "--message-format", "-j", "--jobs",
    "--color", "-Z", "-C",
];

/// Returns the position of the program's first own argument, if `run` has any without `--`.
///
/// It is the first argument that is neither an option nor the value of an option.
fn program_arguments_start(arguments: &[String]) -> Option<usize> {
    let takes_value = |option: &str| {
        let is_dependency_option =
            DEPENDENCY_OPTIONS.iter().any(|(name, takes_value)| *takes_value && *name == option);
        is_dependency_option || WITH_VALUE.contains(&option)
    };
    let mut at = 0;
    while let Some(argument) = arguments.get(at) {
        if argument == "--" {
            return None;
        }
        if !argument.starts_with('-') {
            return Some(at);
        }
        at += if takes_value(argument) { 2 } else { 1 };
    }
    None
}

impl Options {
    pub fn parse(arguments: impl Iterator<Item = String>) -> Result<Self, String> {
        let mut arguments = arguments.peekable();
        // cargo passes the name of the command as the first argument.
        arguments.next_if(|first| first == "wakeful");
        let action = match arguments.next().as_deref() {
            None | Some("help" | "-h" | "--help") => Action::Help,
            Some("version" | "-V" | "--version") => Action::Version,
            Some("doctor") => Action::Doctor,
            Some("run" | "r") => Action::Run,
            Some("top") => Action::Top,
            Some(WATCH_COMMAND) => Action::WatchPage,
            Some("test" | "t") => Action::Cargo("test".into()),
            Some("build" | "b") => Action::Cargo("build".into()),
            Some("check" | "c") => Action::Cargo("check".into()),
            Some(command @ ("bench" | "clippy" | "doc" | "tree")) => Action::Cargo(command.into()),
            Some(other) => {
                return Err(format!("cargo wakeful: no such command: `{other}`\n\n{USAGE}"));
            }
        };
        let all: Vec<String> = arguments.collect();
        let dashes = all.iter().position(|argument| argument == "--");
        let program = if action == Action::Run { program_arguments_start(&all) } else { None };
        let (end, begin) = match (program, dashes) {
            (Some(start), _) => (start, start),
            (None, Some(dashes)) => (dashes, dashes + 1),
            (None, None) => (all.len(), all.len()),
        };
        if all[..end].iter().any(|argument| argument == "--locked" || argument == "--frozen") {
            return Err("cargo wakeful: `--locked` and `--frozen` are not possible: the lock file must name wakeful's \
                        tokio shim while cargo runs. It is restored afterwards."
                .into());
        }
        let rest = all[begin..].to_vec();
        let mut arguments = all[..end].to_vec();
        arguments.retain(|argument| argument != PAGE_OPTION);
        let page = arguments.len() < end;
        let runs_code = match &action {
            Action::Run => true,
            Action::Cargo(command) => command == "test" || command == "bench",
            _ => false,
        };
        if page && !runs_code {
            return Err("cargo wakeful: `--page` is for `run`, `test` and `bench`".into());
        }
        Ok(Self { action, arguments, rest, page })
    }

    /// Returns the arguments that every call of cargo needs to resolve the same dependencies.
    pub fn dependency_options(&self) -> Vec<String> {
        let mut chosen = Vec::new();
        let mut arguments = self.arguments.iter();
        while let Some(argument) = arguments.next() {
            let (name, has_value_inside) = match argument.split_once('=') {
                Some((name, _)) => (name, true),
                None => (argument.as_str(), false),
            };
            let Some((_, takes_value)) =
                DEPENDENCY_OPTIONS.iter().find(|(known, _)| *known == name)
            else {
                continue;
            };
            chosen.push(argument.clone());
            if *takes_value && !has_value_inside {
                chosen.extend(arguments.next().cloned());
            }
        }
        chosen
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Options {
        Options::parse(text.split_whitespace().map(str::to_owned)).unwrap()
    }

    #[test]
    fn cargo_names_the_command_twice() {
        for text in ["wakeful run", "run", "wakeful r"] {
            assert_eq!(parse(text).action, Action::Run);
        }
        assert_eq!(parse("wakeful").action, Action::Help);
        assert_eq!(parse("wakeful t").action, Action::Cargo("test".into()));
    }

    #[test]
    fn arguments_end_at_the_dashes() {
        let options = parse("run --bin a --features x,y -- --features z -- w");
        assert_eq!(options.arguments, ["--bin", "a", "--features", "x,y"]);
        assert_eq!(options.rest, ["--features", "z", "--", "w"]);
        assert_eq!(options.dependency_options(), ["--features", "x,y"]);
    }

    #[test]
    fn arguments_of_the_program_need_no_dashes() {
        let options = parse("run --release --bin a -F x one --two -- three");
        assert_eq!(options.arguments, ["--release", "--bin", "a", "-F", "x"]);
        assert_eq!(options.rest, ["one", "--two", "--", "three"]);
        // For other commands, they belong to cargo.
        let options = parse("test one -- two");
        assert_eq!((options.arguments, options.rest), (vec!["one".into()], vec!["two".into()]));
    }

    #[test]
    fn dependency_options_are_found() {
        let options =
            parse("test -p a --manifest-path=b/Cargo.toml --all-features --offline --release -F c");
        let expected = ["--manifest-path=b/Cargo.toml", "--all-features", "--offline", "-F", "c"];
        assert_eq!(options.dependency_options(), expected);
    }

    #[test]
    fn the_page_is_an_option_before_the_dashes() {
        let options = parse("run --page --bin a -- --page");
        assert!(options.page);
        assert_eq!(
            (options.arguments, options.rest),
            (vec!["--bin".into(), "a".into()], vec!["--page".into()])
        );
        assert!(parse("test --lib --page").page && parse("bench --page").page);
        let options = parse("run program --page");
        assert_eq!((options.page, options.rest.len()), (false, 2));
        for text in ["build --page", "doctor --page"] {
            Options::parse(text.split_whitespace().map(str::to_owned)).unwrap_err();
        }
    }

    #[test]
    fn top_has_arguments_of_its_own() {
        let options = parse("wakeful top 17 --once");
        assert_eq!(options.action, Action::Top);
        assert_eq!(options.arguments, ["17", "--once"]);
    }

    #[test]
    fn unknown_commands_and_locked_are_refused() {
        for text in ["wakeful fly", "test --locked", "run --frozen"] {
            Options::parse(text.split_whitespace().map(str::to_owned)).unwrap_err();
        }
        assert_eq!(parse("run -- --locked").rest, ["--locked"]);
    }
}
