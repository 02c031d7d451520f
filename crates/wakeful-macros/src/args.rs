//! The arguments of `#[main]` and `#[test]`: `flavor = "multi_thread", worker_threads = 4`, ….
//!
//! [`Options::parse`] reads the list, and then checks that the options are compatible. It returns
//! the first error.

use std::num::ParseIntError;
use std::ops::Range;
use std::time::Duration;

use crate::token::{Error, Token, path_len, path_names};

/// The attribute that is being expanded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) kind: Kind,
    pub(crate) target: TargetCrate,
}

/// Whether the function is an entry point or a test.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Main,
    Test,
}

/// The crate whose runtime the expansion uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TargetCrate {
    Wakeful,
    Tokio,
}

impl Entry {
    /// Returns the attribute in the form in which the user writes it.
    pub(crate) fn name(self) -> &'static str {
        match (self.target, self.kind) {
            (TargetCrate::Wakeful, Kind::Main) => "wakeful::main",
            (TargetCrate::Wakeful, Kind::Test) => "wakeful::test",
            (TargetCrate::Tokio, Kind::Main) => "tokio::main",
            (TargetCrate::Tokio, Kind::Test) => "tokio::test",
        }
    }

    /// Returns the name of the crate in the user's Cargo.toml.
    fn crate_name(self) -> &'static str {
        match self.target {
            TargetCrate::Wakeful => "wakeful",
            TargetCrate::Tokio => "tokio",
        }
    }

    /// Returns the error message for the flavor `multi_thread` without the feature
    /// `rt-multi-thread`.
    fn needs_multi_thread(self) -> String {
        let (attribute, package) = (self.name(), self.crate_name());
        let cause = match self.kind {
            Kind::Main => " (the default of this attribute)",
            Kind::Test => "",
        };
        format!(
            "The runtime flavor `multi_thread`{cause} needs the feature `rt-multi-thread` of the \
             crate `{package}`, which is not enabled. Add it in Cargo.toml: \
             `{package} = {{ …, features = [\"rt-multi-thread\"] }}`, or choose the other flavor: \
             `#[{attribute}(flavor = \"current_thread\")]`"
        )
    }

    /// Returns the error message for `start_paused` without the feature `test-util`.
    fn needs_test_util(self) -> String {
        let package = self.crate_name();
        format!(
            "The option `start_paused` needs the feature `test-util` of the crate `{package}`, which \
             is not enabled. Add it in Cargo.toml: \
             `{package} = {{ …, features = [\"test-util\"] }}`, under `[dev-dependencies]` if only \
             tests need it"
        )
    }

    /// Returns whether the attribute has the argument `timeout`: tests do, except for tokio's.
    fn has_timeout(self) -> bool {
        self.kind == Kind::Test && self.target == TargetCrate::Wakeful
    }

    fn unknown_attribute(self, name: &str) -> String {
        let expected = if self.has_timeout() { EXPECTED_OF_TEST } else { EXPECTED };
        format!("Unknown attribute {name} is specified; {expected}")
    }

    fn default_flavor(self) -> Flavor {
        match self.kind {
            Kind::Main => Flavor::MultiThread,
            Kind::Test => Flavor::CurrentThread,
        }
    }
}

/// The Cargo features of wakeful that decide which arguments are allowed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Features {
    /// `rt-multi-thread`: there is a multi-thread runtime.
    pub(crate) multi_thread: bool,
    /// `test-util`: the clock of a runtime can be paused.
    pub(crate) test_util: bool,
}

impl Features {
    /// The features that this build of wakeful has. Its features forward to those of this crate.
    pub(crate) const ENABLED: Self = Self {
        multi_thread: cfg!(feature = "rt-multi-thread"),
        test_util: cfg!(feature = "test-util"),
    };
}

/// `flavor = "…"`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Flavor {
    MultiThread,
    CurrentThread,
    Local,
}

/// `unhandled_panic = "…"`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum UnhandledPanic {
    Ignore,
    ShutdownRuntime,
}

/// `crate = …`: the path of the runtime's crate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum CratePath {
    /// Written as a path: these tokens.
    Tokens(Range<usize>),
    /// Written as a string, the literal at `at`.
    Text { path: String, at: usize },
}

/// The parsed arguments.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Options {
    pub(crate) flavor: Flavor,
    pub(crate) worker_threads: Option<usize>,
    pub(crate) start_paused: Option<bool>,
    pub(crate) unhandled_panic: Option<UnhandledPanic>,
    pub(crate) crate_path: Option<CratePath>,
    /// The literal that names the runtime, by its position.
    pub(crate) name: Option<usize>,
    pub(crate) timeout: Option<Duration>,
}

const EXPECTED: &str = "expected one of: `flavor`, `worker_threads`, `start_paused`, `crate`, `unhandled_panic`, `name`.";
const EXPECTED_OF_TEST: &str = "expected one of: `flavor`, `worker_threads`, `start_paused`, `crate`, `unhandled_panic`, `name`, `timeout`.";

/// A value, and the tokens that it was parsed from.
pub(crate) type Given<T> = Option<(T, Range<usize>)>;

/// The options read so far, each with its tokens for the error messages of the last checks.
#[derive(Default)]
struct Collected {
    flavor: Given<Flavor>,
    worker_threads: Given<usize>,
    start_paused: Given<bool>,
    unhandled_panic: Given<UnhandledPanic>,
    crate_path: Given<CratePath>,
    name: Given<usize>,
    timeout: Given<Duration>,
}

impl Options {
    /// Returns the options of an attribute without arguments, with a flavor that `features` allow.
    ///
    /// The expansion of an attribute with an error uses them, so that it causes no second error.
    pub(crate) fn default_of(entry: Entry, features: Features) -> Self {
        let mut collected = Collected::default();
        if !features.multi_thread {
            collected.flavor = Some((Flavor::CurrentThread, 0..0));
        }
        collected.check(entry, features).expect("the defaults are compatible")
    }

    /// Reads the arguments of `entry` and checks that `features` allow them.
    pub(crate) fn parse(tokens: &[Token], entry: Entry, features: Features) -> Result<Self, Error> {
        let mut collected = Collected::default();
        let mut start = 0;
        while start < tokens.len() {
            let end =
                (start..tokens.len()).find(|&at| tokens[at].is_punct(',')).unwrap_or(tokens.len());
            collected.read(tokens, start..end, entry)?;
            start = end + 1;
        }
        collected.check(entry, features)
    }
}

impl Collected {
    /// Reads one argument: the tokens between two commas.
    fn read(
        &mut self,
        tokens: &[Token],
        argument: Range<usize>,
        entry: Entry,
    ) -> Result<(), Error> {
        let path_end = argument.start + path_len(&tokens[argument.clone()]);
        let mut names = path_names(&tokens[argument.start..path_end]);
        let (name, more) = match (names.next(), names.next()) {
            (Some(name), more) => {
                (name.to_lowercase(), more.is_some() || path_end != argument.start + 1)
            }
            (None, _) if argument.is_empty() => {
                let comma = argument.start..argument.start + 1;
                return Err(Error::new(comma, "expected an option before this comma"));
            }
            (None, _) => return Err(Error::new(argument, "Unknown attribute inside the macro")),
        };
        match tokens[argument.clone()].get(path_end - argument.start) {
            _ if more => Err(Error::new(argument.start..path_end, "Must have specified ident")),
            None => Err(Error::new(argument, bare_word(&name, entry))),
            Some(token) if token.is_punct('=') => {
                self.set(&name, tokens, path_end + 1..argument.end, argument, entry)
            }
            Some(_) => Err(Error::new(argument, "Unknown attribute inside the macro")),
        }
    }

    /// Stores `name = value`.
    fn set(
        &mut self,
        name: &str,
        tokens: &[Token],
        value: Range<usize>,
        argument: Range<usize>,
        entry: Entry,
    ) -> Result<(), Error> {
        let Some(literal) = literal(&tokens[value.clone()]) else {
            if name == "crate"
                && !value.is_empty()
                && path_len(&tokens[value.clone()]) == value.len()
            {
                return set_once(
                    &mut self.crate_path,
                    name,
                    CratePath::Tokens(value.clone()),
                    value,
                );
            }
            let at = if value.is_empty() { argument } else { value };
            return Err(Error::new(at, "Must be a literal"));
        };
        let wrong = |what: &str| {
            Error::new(value.clone(), format!("Failed to parse value of `{name}` as {what}"))
        };
        match name {
            "flavor" => {
                let text = literal.text().ok_or_else(|| wrong("string."))?;
                let flavor = flavor(text).map_err(|message| Error::new(value.clone(), message))?;
                set_once(&mut self.flavor, name, flavor, value)
            }
            "worker_threads" => {
                let threads = literal.integer().ok_or_else(|| wrong("integer."))?;
                let threads = threads.map_err(|error| wrong(&format!("integer: {error}")))?;
                set_once(&mut self.worker_threads, name, threads, value)
            }
            "start_paused" => {
                let paused = literal.bool().ok_or_else(|| wrong("bool."))?;
                set_once(&mut self.start_paused, name, paused, value)
            }
            "unhandled_panic" => {
                let text = literal.text().ok_or_else(|| wrong("string."))?;
                let policy =
                    unhandled_panic(text).map_err(|message| Error::new(value.clone(), message))?;
                set_once(&mut self.unhandled_panic, name, policy, value)
            }
            "crate" => {
                let path = literal.text().ok_or_else(|| wrong("path."))?;
                if !is_path(path) {
                    return Err(wrong(&format!("path: \"{path}\"")));
                }
                let path = CratePath::Text { path: path.to_owned(), at: value.start };
                set_once(&mut self.crate_path, name, path, value)
            }
            "name" => {
                literal.text().ok_or_else(|| wrong("string."))?;
                set_once(&mut self.name, name, value.start, value)
            }
            "timeout" if entry.has_timeout() => {
                let text = literal.text().ok_or_else(|| wrong("string."))?;
                let limit = timeout(text).map_err(|message| Error::new(value.clone(), message))?;
                set_once(&mut self.timeout, name, limit, value)
            }
            "core_threads" => {
                Err(Error::new(argument, "Attribute `core_threads` is renamed to `worker_threads`"))
            }
            _ => Err(Error::new(argument, entry.unknown_attribute(name))),
        }
    }

    /// Checks that the options are compatible and that `features` allow them.
    fn check(self, entry: Entry, features: Features) -> Result<Options, Error> {
        let flavor_at = self.flavor.as_ref().map_or(0..0, |(_, at)| at.clone());
        let flavor = self.flavor.map_or(entry.default_flavor(), |(flavor, _)| flavor);
        let requires = |option: &str, flavor: &str, at: &Range<usize>| {
            let attribute = entry.name();
            Err(Error::new(
                at.clone(),
                format!(
                    "The `{option}` option requires the `{flavor}` runtime flavor. \
                     Use `#[{attribute}(flavor = \"{flavor}\")]`"
                ),
            ))
        };
        if flavor == Flavor::MultiThread {
            if let Some((_, at)) = &self.start_paused {
                return requires("start_paused", "current_thread", at);
            }
            if let Some((_, at)) = &self.unhandled_panic {
                return requires("unhandled_panic", "current_thread", at);
            }
        } else if let Some((_, at)) = &self.worker_threads {
            return requires("worker_threads", "multi_thread", at);
        }
        if flavor == Flavor::MultiThread && !features.multi_thread {
            return Err(Error::needs_feature(flavor_at, entry.needs_multi_thread()));
        }
        if let Some((_, at)) = &self.start_paused
            && !features.test_util
        {
            return Err(Error::needs_feature(at.clone(), entry.needs_test_util()));
        }
        Ok(Options {
            flavor,
            worker_threads: self.worker_threads.map(|(threads, _)| threads),
            start_paused: self.start_paused.map(|(paused, _)| paused),
            unhandled_panic: self.unhandled_panic.map(|(policy, _)| policy),
            crate_path: self.crate_path.map(|(path, _)| path),
            name: self.name.map(|(at, _)| at),
            timeout: self.timeout.map(|(limit, _)| limit),
        })
    }
}

/// Sets an option. Returns an error if it is already set.
pub(crate) fn set_once<T>(
    option: &mut Given<T>,
    name: &str,
    value: T,
    at: Range<usize>,
) -> Result<(), Error> {
    match option {
        Some(_) => Err(Error::new(at, format!("`{name}` set multiple times."))),
        None => {
            *option = Some((value, at));
            Ok(())
        }
    }
}

/// Returns the error message for an argument without a value.
fn bare_word(name: &str, entry: Entry) -> String {
    let attribute = entry.name();
    match name {
        "threaded_scheduler" | "multi_thread" => {
            format!("Set the runtime flavor with #[{attribute}(flavor = \"multi_thread\")].")
        }
        "basic_scheduler" | "current_thread" | "single_threaded" => {
            format!("Set the runtime flavor with #[{attribute}(flavor = \"current_thread\")].")
        }
        "local" => format!("Set the runtime flavor with #[{attribute}(flavor = \"local\")]."),
        "flavor" | "worker_threads" | "start_paused" | "crate" | "unhandled_panic" | "name" => {
            format!("The `{name}` attribute requires an argument.")
        }
        "timeout" if entry.has_timeout() => {
            "The `timeout` attribute requires an argument.".to_owned()
        }
        _ => entry.unknown_attribute(name),
    }
}

/// Parses a time like `5s`, `500ms` or `2m`, in the form of `WAKEFUL_TEST_TIMEOUT`.
fn timeout(text: &str) -> Result<Duration, String> {
    let unit = text.find(|char: char| !char.is_ascii_digit() && char != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(unit);
    let seconds_per_unit = match unit {
        "ms" => Some(0.001),
        "s" => Some(1.0),
        "m" => Some(60.0),
        _ => None,
    };
    let seconds = number.parse::<f64>().ok().zip(seconds_per_unit).map(|(n, unit)| n * unit);
    let limit = seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    limit.filter(|limit| !limit.is_zero()).ok_or_else(|| {
        format!(
            "`timeout` must be a duration such as \"5s\", \"500ms\" or \"2m\", but it is {text:?}."
        )
    })
}

fn flavor(text: &str) -> Result<Flavor, String> {
    match text {
        "multi_thread" => Ok(Flavor::MultiThread),
        "current_thread" => Ok(Flavor::CurrentThread),
        "local" => Ok(Flavor::Local),
        "single_thread" => {
            Err("The single threaded runtime flavor is called `current_thread`.".into())
        }
        "basic_scheduler" => {
            Err("The `basic_scheduler` runtime flavor has been renamed to `current_thread`.".into())
        }
        "threaded_scheduler" => {
            Err("The `threaded_scheduler` runtime flavor has been renamed to `multi_thread`."
                .into())
        }
        _ => Err(format!(
            "No such runtime flavor `{text}`. The runtime flavors are `current_thread`, `local`, and `multi_thread`."
        )),
    }
}

fn unhandled_panic(text: &str) -> Result<UnhandledPanic, String> {
    match text {
        "ignore" => Ok(UnhandledPanic::Ignore),
        "shutdown_runtime" => Ok(UnhandledPanic::ShutdownRuntime),
        _ => Err(format!(
            "No such unhandled panic behavior `{text}`. \
             The unhandled panic behaviors are `ignore` and `shutdown_runtime`."
        )),
    }
}

/// A literal; `true` and `false` included.
pub(crate) struct Literal<'t>(&'t str);

/// Returns the literal, if `tokens` are exactly one.
pub(crate) fn literal(tokens: &[Token]) -> Option<Literal<'_>> {
    match tokens {
        [Token::Literal(text)] => Some(Literal(text)),
        [Token::Ident(word)] if word == "true" || word == "false" => Some(Literal(word)),
        _ => None,
    }
}

impl<'t> Literal<'t> {
    /// Returns the content of a string literal. Escapes stay as they are: no valid value has any.
    pub(crate) fn text(&self) -> Option<&'t str> {
        let unquoted = |text: &'t str| text.strip_prefix('"')?.strip_suffix('"');
        match self.0.strip_prefix('r') {
            Some(raw) => unquoted(raw.trim_matches('#')),
            None => unquoted(self.0),
        }
    }

    /// Returns the value of an integer literal.
    ///
    /// It may have any base, and a suffix such as `usize`.
    pub(crate) fn integer(&self) -> Option<Result<usize, ParseIntError>> {
        let text = self.0.replace('_', "");
        let (radix, digits) = match text.get(..2) {
            Some("0x") => (16, &text[2..]),
            Some("0o") => (8, &text[2..]),
            Some("0b") => (2, &text[2..]),
            _ => (10, &text[..]),
        };
        let end = digits.find(|char: char| !char.is_digit(radix)).unwrap_or(digits.len());
        let (digits, suffix) = digits.split_at(end);
        let is_integer =
            !digits.is_empty() && (suffix.is_empty() || suffix.starts_with(['u', 'i']));
        is_integer.then(|| usize::from_str_radix(digits, radix))
    }

    fn bool(&self) -> Option<bool> {
        self.0.parse().ok()
    }
}

/// Returns whether `text` is a path: names with `::` between them, optionally after a leading `::`.
pub(crate) fn is_path(text: &str) -> bool {
    let is_name = |name: &str| {
        let name = name.trim();
        let mut chars = name.strip_prefix("r#").unwrap_or(name).chars();
        let starts_well = chars.next().is_some_and(|char| char.is_alphabetic() || char == '_');
        starts_well && name != "_" && chars.all(|char| char.is_alphanumeric() || char == '_')
    };
    text.trim().strip_prefix("::").unwrap_or(text).split("::").all(is_name)
}

#[cfg(test)]
#[path = "args_tests.rs"]
mod tests;
