//! The command line.

use std::net::SocketAddr;
use std::path::PathBuf;

pub const HELP: &str = "\
wakeful beside its peers: nanoseconds per operation and ratios.

  --row NAME       this row only; repeatable; a prefix names all rows that start with it
  --peer NAME      this peer only; repeatable; a prefix likewise (tokio, smol)
  --rounds N       rounds over all cells, the median of which counts (7)
  --instructions   count instructions with callgrind instead of time
  --json           JSON on standard output instead of the table
  --record FILE    write the JSON to FILE as well, with date and machine
  --list           say what the rows are and who takes part
  --report         measure nothing: write charts and tables of the newest records
                   into docs/bench and docs/BENCHMARKS.md
  --help           this text

One cell alone, for perf or callgrind:

  --cell ROW PEER [--batches N]
                   run it in this process; without N it finds its own length

A server of a row about sockets, and what drives it, for perf or strace:

  --serve SERVICE PEER
                   print a port and serve there: echo, busy-echo or http
  --load ADDR N    drive an echo server over N connections
";

/// The command of a call.
#[derive(Debug, PartialEq)]
pub enum Command {
    Help,
    List,
    /// Writes charts and tables of the records.
    Report,
    /// Measures one cell, in a child process.
    Cell {
        row: String,
        peer: String,
        /// Runs exactly this number, untimed. `None` runs as many as a steady figure needs.
        batches: Option<u64>,
    },
    /// The server of a row about sockets.
    Serve {
        service: String,
        peer: String,
    },
    /// The load generator of a row about sockets.
    Load {
        addr: SocketAddr,
        connections: usize,
    },
    Compare(Options),
}

#[derive(Debug, PartialEq)]
pub struct Options {
    /// Names or prefixes; empty means all.
    pub rows: Vec<String>,
    pub peers: Vec<String>,
    pub rounds: usize,
    pub instructions: bool,
    pub json: bool,
    pub record: Option<PathBuf>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            rows: Vec::new(),
            peers: Vec::new(),
            rounds: 7,
            instructions: false,
            json: false,
            record: None,
        }
    }
}

pub fn parse(mut words: impl Iterator<Item = String>) -> Result<Command, String> {
    let mut options = Options::default();
    let mut cell = None;
    let mut batches = None;
    while let Some(word) = words.next() {
        let mut value = || words.next().ok_or_else(|| format!("{word} wants a value; see --help"));
        match word.as_str() {
            "--help" | "-h" => return Ok(Command::Help),
            "--list" => return Ok(Command::List),
            "--report" => return Ok(Command::Report),
            "--row" => options.rows.push(value()?),
            "--peer" => options.peers.push(value()?),
            "--rounds" => options.rounds = number(&word, &value()?)? as usize,
            "--instructions" => options.instructions = true,
            "--json" => options.json = true,
            "--record" => options.record = Some(value()?.into()),
            "--cell" => cell = Some((value()?, value()?)),
            "--serve" => return Ok(Command::Serve { service: value()?, peer: value()? }),
            "--load" => {
                let addr = value()?;
                let addr =
                    addr.parse().map_err(|_| format!("{addr} is not an address with a port"))?;
                let connections = number(&word, &value()?)? as usize;
                return Ok(Command::Load { addr, connections });
            }
            "--batches" => batches = Some(number(&word, &value()?)?),
            _ => return Err(format!("{word} is not an option of this program; see --help")),
        }
    }
    match (cell, batches) {
        (Some((row, peer)), batches) => Ok(Command::Cell { row, peer, batches }),
        (None, Some(_)) => Err("--batches goes with --cell".into()),
        (None, None) => Ok(Command::Compare(options)),
    }
}

fn number(option: &str, text: &str) -> Result<u64, String> {
    match text.parse() {
        Ok(number) if number > 0 => Ok(number),
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
            rows: vec!["spawn".into(), "yield".into()],
            rounds: 3,
            json: true,
            ..Options::default()
        };
        let line = "--row spawn --rounds 3 --row yield --json";
        assert_eq!(parse_line(line), Ok(Command::Compare(expected)));
    }

    #[test]
    fn a_report_needs_nothing_else() {
        assert_eq!(parse_line("--report"), Ok(Command::Report));
    }

    #[test]
    fn a_cell_takes_two_words() {
        let expected =
            Command::Cell { row: "mem0".into(), peer: "tokio-mt".into(), batches: Some(5) };
        assert_eq!(parse_line("--cell mem0 tokio-mt --batches 5"), Ok(expected));
        assert!(parse_line("--cell mem0").is_err());
    }

    #[test]
    fn mistakes_are_named() {
        assert!(parse_line("--fast").unwrap_err().contains("--fast"));
        assert!(parse_line("--rounds 0").unwrap_err().contains("--rounds"));
        assert!(parse_line("--batches 3").unwrap_err().contains("--cell"));
    }
}
