//! The command-line options.

pub struct Options {
    pub only: Option<String>,
    pub tools: Vec<String>,
    pub record: Option<String>,
    pub masters: u64,
    pub twins: u64,
    pub rounds: u64,
}

impl Options {
    pub fn from_args() -> Self {
        let mut options = Self {
            only: None,
            tools: Vec::new(),
            record: None,
            masters: 200,
            twins: 10_000,
            rounds: 5,
        };
        let mut args = std::env::args().skip(1);
        while let Some(arg) = args.next() {
            let value = args.next().unwrap_or_else(|| panic!("{arg} needs a value"));
            let number = || value.parse().unwrap_or_else(|_| panic!("{value:?} is not a number"));
            match arg.as_str() {
                "--only" => options.only = Some(value),
                "--tool" => options.tools.push(value),
                "--record" => options.record = Some(value),
                "--masters" => options.masters = number(),
                "--twins" => options.twins = number(),
                "--rounds" => options.rounds = number(),
                _ => panic!("{arg:?} is not an option; see the top of driver/src/main.rs"),
            }
        }
        options
    }
}
