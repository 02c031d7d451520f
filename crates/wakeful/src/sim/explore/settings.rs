//! The environment variables of simulations.

use super::files::{self, ChoicesFile};
use crate::sim::oracle::{Choices, parse_seed};
use std::env::VarError;
use std::ops::Range;
use std::path::PathBuf;

/// Repeats one seed.
pub(super) const SEED: &str = "WAKEFUL_SIM_SEED";
/// Repeats the choices of a file.
pub(super) const REPLAY: &str = "WAKEFUL_SIM_REPLAY";
/// Replaces the seeds of every search.
pub(super) const SEEDS: &str = "WAKEFUL_SIM_SEEDS";
/// Names the file for the answer of a process that confirms a failure.
pub(super) const CONFIRM: &str = "WAKEFUL_SIM_CONFIRM";

/// The runs that the environment variables request.
#[derive(Debug, PartialEq)]
pub(super) enum Repeat {
    Nothing,
    Seeds(Range<u64>),
    Seed(u64),
    Choices {
        seed: u64,
        choices: Choices,
        path: PathBuf,
    },
    Confirm {
        seed: u64,
        choices: Choices,
        answer: PathBuf,
    },
    /// The process repeats another test.
    AnotherTest,
}

/// Reads the environment variables.
///
/// # Panics
///
/// If a value is invalid. A search that ignored it would seem to have repeated the failure.
pub(super) fn repeat(test: &str) -> Repeat {
    let value = |name: &str| match std::env::var(name) {
        Ok(value) => Some(value),
        Err(VarError::NotPresent) => None,
        Err(VarError::NotUnicode(value)) => panic!("{name} is {value:?}, which is not UTF-8"),
    };
    let values = Values {
        seed: value(SEED),
        replay: value(REPLAY),
        seeds: value(SEEDS),
        confirm: value(CONFIRM),
    };
    values.repeat(test).unwrap_or_else(|error| panic!("{error}"))
}

struct Values {
    seed: Option<String>,
    replay: Option<String>,
    seeds: Option<String>,
    confirm: Option<String>,
}

impl Values {
    fn repeat(self, test: &str) -> Result<Repeat, String> {
        if let Some(value) = self.replay {
            let path = files::find(value.as_ref());
            let wrong =
                |error| format!("{REPLAY} is {value:?}, which is not a file of choices: {error}");
            let file = ChoicesFile::read(&path).map_err(wrong)?;
            let ChoicesFile { seed, choices, .. } = file;
            return Ok(match self.confirm {
                _ if file.test != test => Repeat::AnotherTest,
                Some(answer) => Repeat::Confirm { seed, choices, answer: answer.into() },
                None => Repeat::Choices { seed, choices, path },
            });
        }
        if let Some(value) = self.seed {
            return Ok(Repeat::Seed(
                parse_seed(&value).map_err(|error| format!("{SEED}: {error}"))?,
            ));
        }
        match self.seeds {
            Some(value) => {
                Ok(Repeat::Seeds(parse_seeds(&value).map_err(|error| format!("{SEEDS}: {error}"))?))
            }
            None => Ok(Repeat::Nothing),
        }
    }
}

/// Parses a number of seeds, or a range of them.
fn parse_seeds(text: &str) -> Result<Range<u64>, String> {
    let (start, end) = text.split_once("..").unwrap_or(("0", text));
    let range = parse_seed(start)?..parse_seed(end)?;
    if range.is_empty() {
        return Err(format!(
            "{text:?} has no seeds; expected a number or a range, such as 5000..9000"
        ));
    }
    Ok(range)
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn repeat(seed: Option<&str>, seeds: Option<&str>) -> Result<Repeat, String> {
        let owned = |value: Option<&str>| value.map(str::to_owned);
        Values { seed: owned(seed), replay: None, seeds: owned(seeds), confirm: None }.repeat("a")
    }

    #[test]
    fn seeds_are_decimal_or_hexadecimal() {
        assert_eq!(repeat(Some("0x51e3"), None), Ok(Repeat::Seed(0x51e3)));
        assert_eq!(repeat(Some("77"), Some("5")), Ok(Repeat::Seed(77)), "one seed has precedence");
        assert_eq!(repeat(None, Some("500")), Ok(Repeat::Seeds(0..500)));
        assert_eq!(repeat(None, Some("0x10..32")), Ok(Repeat::Seeds(16..32)));
        assert_eq!(repeat(None, None), Ok(Repeat::Nothing));
    }

    #[test]
    fn a_value_that_cannot_be_used_is_an_error() {
        let error = repeat(Some("51e3"), None).unwrap_err();
        assert_eq!(error, "WAKEFUL_SIM_SEED: \"51e3\" is not a seed, such as 0x51e3");
        for seeds in ["5..5", "9..", "many", "0"] {
            assert!(
                repeat(None, Some(seeds)).unwrap_err().starts_with("WAKEFUL_SIM_SEEDS: "),
                "{seeds}"
            );
        }
        let replay = Some("no such file".to_owned());
        let values = Values { seed: None, replay, seeds: None, confirm: None };
        assert!(values.repeat("a").unwrap_err().contains("is not a file of choices"));
    }

    #[test]
    fn a_file_of_choices_is_for_its_own_test() {
        let choices: Choices = "task 1 4 2\n".parse().unwrap();
        let path = files::write_choices("settings::own", 7, &choices).unwrap();
        let values = |confirm: Option<&str>| Values {
            seed: None,
            replay: Some(path.display().to_string()),
            seeds: None,
            confirm: confirm.map(str::to_owned),
        };
        let own = Repeat::Choices { seed: 7, choices: choices.clone(), path: path.clone() };
        assert_eq!(values(None).repeat("settings::own"), Ok(own));
        assert_eq!(values(None).repeat("other"), Ok(Repeat::AnotherTest));
        let confirm = Repeat::Confirm { seed: 7, choices, answer: "answer".into() };
        assert_eq!(values(Some("answer")).repeat("settings::own"), Ok(confirm));
        std::fs::remove_file(path).unwrap();
    }
}
