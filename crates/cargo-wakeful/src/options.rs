//! What stands on the command line.

/// What there is to be said about the command line.
pub const USAGE: &str = "\
Builds a tokio project on wakeful, without editing it.

usage: cargo wakeful run|test|bench|build|check|clippy|doc|tree [arguments of that command]
       cargo wakeful doctor [--manifest-path …] [--features …]
       cargo wakeful --version

The manifest and the lock file stay as they are; what is built goes to the folder `wakeful` in the target folder.
WAKEFUL_TOKIO_SHIM names the folder of the package that goes in tokio's place, if it is not the one beside the sources that
this program was installed from.";

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    Help,
    /// Prints the version of this program.
    Version,
    /// Says whether the project can run, and what would be missing.
    Doctor,
    /// Builds a program and becomes it.
    Run,
    /// Another command of cargo's.
    Cargo(String),
}

#[derive(Debug)]
pub struct Options {
    pub action: Action,
    /// What comes after the command, up to `--`.
    pub arguments: Vec<String>,
    /// What comes after `--`.
    pub rest: Vec<String>,
}

/// Options that say which part of the dependencies is meant; they are for every call of cargo's.
const ABOUT_THE_PROJECT: &[(&str, bool)] = &[
    ("--manifest-path", true),
    ("--features", true),
    ("-F", true),
    ("--all-features", false),
    ("--no-default-features", false),
    ("--offline", false),
    ("--frozen", false),
    ("--config", true),
];

/// Options of `cargo run` that take a value, beside those above.
#[rustfmt::skip]
const WITH_VALUE: &[&str] = &[
    "--bin", "--example", "-p", "--package", "--target", "--target-dir", "--profile", "--message-format", "-j", "--jobs",
    "--color", "-Z", "-C",
];

/// Where the arguments of the program begin that `run` is to run, if they begin without `--`: at the first that is
/// neither an option nor the value of one.
fn first_of_the_program(arguments: &[String]) -> Option<usize> {
    let takes_value = |option: &str| {
        let about =
            ABOUT_THE_PROJECT.iter().any(|(name, takes_value)| *takes_value && *name == option);
        about || WITH_VALUE.contains(&option)
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
        // Called by cargo, the first is the name of the command.
        arguments.next_if(|first| first == "wakeful");
        let action = match arguments.next().as_deref() {
            None | Some("help" | "-h" | "--help") => Action::Help,
            Some("version" | "-V" | "--version") => Action::Version,
            Some("doctor") => Action::Doctor,
            Some("run" | "r") => Action::Run,
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
        let own = if action == Action::Run { first_of_the_program(&all) } else { None };
        let (end, begin) = match (own, dashes) {
            (Some(own), _) => (own, own),
            (None, Some(dashes)) => (dashes, dashes + 1),
            (None, None) => (all.len(), all.len()),
        };
        if all[..end].iter().any(|argument| argument == "--locked" || argument == "--frozen") {
            return Err("cargo wakeful: `--locked` and `--frozen` cannot be held: the lock file must name wakeful's \
                        face while cargo runs. It is put back afterwards."
                .into());
        }
        let rest = all[begin..].to_vec();
        Ok(Self { action, arguments: all[..end].to_vec(), rest })
    }

    /// The arguments that every call of cargo's needs to be about the same dependencies.
    pub fn about_the_project(&self) -> Vec<String> {
        let mut chosen = Vec::new();
        let mut arguments = self.arguments.iter();
        while let Some(argument) = arguments.next() {
            let (name, has_value_inside) = match argument.split_once('=') {
                Some((name, _)) => (name, true),
                None => (argument.as_str(), false),
            };
            let Some((_, takes_value)) = ABOUT_THE_PROJECT.iter().find(|(known, _)| *known == name)
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
        assert_eq!(options.about_the_project(), ["--features", "x,y"]);
    }

    #[test]
    fn a_programs_arguments_need_no_dashes() {
        let options = parse("run --release --bin a -F x one --two -- three");
        assert_eq!(options.arguments, ["--release", "--bin", "a", "-F", "x"]);
        assert_eq!(options.rest, ["one", "--two", "--", "three"]);
        // Of other commands, they are cargo's.
        let options = parse("test one -- two");
        assert_eq!((options.arguments, options.rest), (vec!["one".into()], vec!["two".into()]));
    }

    #[test]
    fn some_arguments_are_for_every_call() {
        let options =
            parse("test -p a --manifest-path=b/Cargo.toml --all-features --offline --release -F c");
        let expected = ["--manifest-path=b/Cargo.toml", "--all-features", "--offline", "-F", "c"];
        assert_eq!(options.about_the_project(), expected);
    }

    #[test]
    fn what_cannot_be_done_is_refused() {
        for text in ["wakeful fly", "test --locked", "run --frozen"] {
            Options::parse(text.split_whitespace().map(str::to_owned)).unwrap_err();
        }
        assert_eq!(parse("run -- --locked").rest, ["--locked"]);
    }
}
