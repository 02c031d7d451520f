//! The command line.

use std::path::PathBuf;

pub const HELP: &str = "\
Applications on tokio and on wakeful, side by side.

  --only ROW       this row only; repeatable; a prefix names all rows that start with it
  --rounds N       rounds, of which the medians count (3)
  --seconds S      length of a measurement (2)
  --pin            the load generator gets the last core, the servers get the others
  --record FILE    write the record to FILE; without it and without --only, the
                   record is written to bench/records/DATE-apps.json
  --list           say what the rows are
  --help           this text

All rows take about 20 minutes with the defaults, and grow with N and S.
";

/// What was asked for.
#[derive(Debug, PartialEq)]
pub enum Command {
    Help,
    List,
    Compare(Options),
}

#[derive(Debug, PartialEq)]
pub struct Options {
    /// Names or prefixes; empty means all.
    pub rows: Vec<String>,
    pub rounds: usize,
    pub seconds: f64,
    pub pin: bool,
    pub record: Option<PathBuf>,
}

impl Default for Options {
    fn default() -> Self {
        Self { rows: Vec::new(), rounds: 3, seconds: 2.0, pin: false, record: None }
    }
}

pub fn parse(mut words: impl Iterator<Item = String>) -> Result<Command, String> {
    let mut options = Options::default();
    while let Some(word) = words.next() {
        let mut value = || words.next().ok_or_else(|| format!("{word} wants a value; see --help"));
        match word.as_str() {
            "--help" | "-h" => return Ok(Command::Help),
            "--list" => return Ok(Command::List),
            "--only" => options.rows.push(value()?),
            "--rounds" => options.rounds = positive(&word, &value()?)?,
            "--seconds" => {
                options.seconds = positive(&word, &value()?)?;
            }
            "--pin" => options.pin = true,
            "--record" => options.record = Some(value()?.into()),
            _ => return Err(format!("{word} is not an option of this program; see --help")),
        }
    }
    Ok(Command::Compare(options))
}

fn positive<N: std::str::FromStr + PartialOrd + Default>(
    option: &str,
    text: &str,
) -> Result<N, String> {
    match text.parse() {
        Ok(number) if number > N::default() => Ok(number),
        _ => Err(format!("{option} wants a positive number, not {text:?}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse_line(line: &str) -> Result<Command, String> {
        parse(line.split_whitespace().map(String::from))
    }

    #[test]
    fn options_are_read() {
        let expected = Options {
            rows: vec!["hello".into(), "redis".into()],
            rounds: 5,
            seconds: 0.5,
            pin: true,
            record: Some("here.json".into()),
        };
        let line = "--only hello --rounds 5 --seconds 0.5 --only redis --pin --record here.json";
        assert_eq!(parse_line(line), Ok(Command::Compare(expected)));
        assert_eq!(parse_line(""), Ok(Command::Compare(Options::default())));
    }

    #[test]
    fn mistakes_are_named() {
        assert!(parse_line("--fast").unwrap_err().contains("--fast"));
        assert!(parse_line("--rounds 0").unwrap_err().contains("--rounds"));
        assert!(parse_line("--seconds -1").unwrap_err().contains("--seconds"));
        assert!(parse_line("--only").unwrap_err().contains("--only"));
    }
}
