//! The arguments of `#[sim]`: `seeds = 5_000, strategy = "pct(3)", crate = "path"`.

use crate::args::{CratePath, Given, is_path, literal, set_once};
use crate::token::{Error, Token, path_len};
use std::ops::Range;

/// The parsed arguments.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(crate) struct SimOptions {
    pub(crate) seeds: Option<usize>,
    /// The literal that names the strategy, by its position.
    pub(crate) strategy: Option<usize>,
    pub(crate) crate_path: Option<CratePath>,
}

#[derive(Default)]
struct Collected {
    seeds: Given<usize>,
    strategy: Given<usize>,
    crate_path: Given<CratePath>,
}

impl SimOptions {
    /// Reads the arguments.
    pub(crate) fn parse(tokens: &[Token]) -> Result<Self, Error> {
        let mut collected = Collected::default();
        let mut start = 0;
        while start < tokens.len() {
            let end =
                (start..tokens.len()).find(|&at| tokens[at].is_punct(',')).unwrap_or(tokens.len());
            collected.read(tokens, start..end)?;
            start = end + 1;
        }
        Ok(SimOptions {
            seeds: collected.seeds.map(|(seeds, _)| seeds),
            strategy: collected.strategy.map(|(at, _)| at),
            crate_path: collected.crate_path.map(|(path, _)| path),
        })
    }
}

impl Collected {
    /// Reads one argument: the tokens between two commas.
    fn read(&mut self, tokens: &[Token], argument: Range<usize>) -> Result<(), Error> {
        let (name, value) = match &tokens[argument.clone()] {
            [Token::Ident(name), equals, _, ..] if equals.is_punct('=') => {
                (name.as_str(), argument.start + 2..argument.end)
            }
            _ => {
                let at = argument.start..argument.end.max(argument.start + 1).min(tokens.len());
                return Err(Error::new(at, EXPECTED));
            }
        };
        let wrong = |what: &str| {
            Err(Error::new(value.clone(), format!("the value of `{name}` must be {what}")))
        };
        let given = literal(&tokens[value.clone()]);
        match name {
            "seeds" => match given.and_then(|literal| literal.integer()) {
                Some(Ok(seeds @ 1..)) => set_once(&mut self.seeds, name, seeds, value),
                _ => wrong("a number of seeds, such as 5_000"),
            },
            "strategy" => match given.and_then(|literal| literal.text()) {
                Some(_) => set_once(&mut self.strategy, name, value.start, value),
                None => wrong("a string, such as \"pct(3)\""),
            },
            "crate" => {
                let path = match given.and_then(|literal| literal.text()) {
                    Some(path) if is_path(path) => {
                        CratePath::Text { path: path.to_owned(), at: value.start }
                    }
                    None if path_len(&tokens[value.clone()]) == value.len() => {
                        CratePath::Tokens(value.clone())
                    }
                    _ => return wrong("a path"),
                };
                set_once(&mut self.crate_path, name, path, value)
            }
            _ => Err(Error::new(argument, EXPECTED)),
        }
    }
}

const EXPECTED: &str = "expected one of: `seeds = 5_000`, `strategy = \"…\"`, `crate = \"path\"`";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::token::lex;

    fn error(text: &str) -> (String, Range<usize>) {
        let error = SimOptions::parse(&lex(text)).expect_err(text);
        (error.message, error.at)
    }

    #[test]
    fn every_option_is_understood() {
        assert_eq!(SimOptions::parse(&[]), Ok(SimOptions::default()));
        let tokens = lex("seeds = 5_000, strategy = \"pct(3)\", crate = a::b,");
        let options = SimOptions::parse(&tokens).unwrap();
        assert_eq!((options.seeds, options.strategy), (Some(5_000), Some(6)));
        assert_eq!(options.crate_path, Some(CratePath::Tokens(10..14)));
        let path = SimOptions::parse(&lex("crate = \"a::b\"")).unwrap().crate_path;
        assert_eq!(path, Some(CratePath::Text { path: "a::b".into(), at: 2 }));
    }

    #[test]
    fn errors_point_at_their_tokens() {
        assert_eq!(error("seeds"), (EXPECTED.to_owned(), 0..1));
        assert_eq!(error("seeds = 3, sedes = 3"), (EXPECTED.to_owned(), 4..7));
        assert_eq!(error(","), (EXPECTED.to_owned(), 0..1));
        let seeds = "the value of `seeds` must be a number of seeds, such as 5_000";
        for text in ["seeds = 0", "seeds = \"5\"", "seeds = many", "seeds = 1.5"] {
            assert_eq!(error(text).0, seeds, "{text}");
        }
        let strategy = "the value of `strategy` must be a string, such as \"pct(3)\"";
        assert_eq!(error("strategy = pct(3)"), (strategy.to_owned(), 2..4));
        assert_eq!(error("crate = 5").0, "the value of `crate` must be a path");
        assert_eq!(error("seeds = 1, seeds = 2").0, "`seeds` set multiple times.");
    }
}
