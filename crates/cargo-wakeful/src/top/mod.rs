//! `cargo wakeful top`: the live page of a process, in the terminal.
//!
//! - `fetch`: a thread that requests the state from the page, once a second.
//! - `model`, `details`: the answers as types.
//! - `state`: what is visible, and the position of the cursor.
//! - `keys`: changes the state.
//! - `view`, `format`: draws it.
//! - `once`: plain text instead.

mod details;
mod fetch;
mod format;
mod keys;
mod model;
mod once;
mod state;
#[cfg(test)]
mod tests;
mod view;

use crate::Failure;
use crate::page::advertised::{self, Advertised};
use crate::page::client::PageUrl;
use fetch::Order;
use ratatui::crossterm::event::{self, Event};
use state::State;
use std::io::{IsTerminal, stdin, stdout};
use std::process::ExitCode;
use std::time::Duration;

/// The maximum time until a new answer is drawn.
const FRAME: Duration = Duration::from_millis(50);

/// The environment variable that names the page if no argument does. Unlike an argument, other users of the
/// machine cannot read it.
const URL_VARIABLE: &str = "WAKEFUL_PAGE_URL";

/// Removes control characters, and characters that change the direction of text.
///
/// Names and sites come from the inspected program. They must not control the terminal.
pub fn clean(text: &str) -> String {
    let is_shown = |c: &char| {
        let changes_direction = matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
        !c.is_control() && !changes_direction
    };
    text.chars().filter(is_shown).collect()
}

/// The arguments of `top`.
#[derive(Debug, Default, PartialEq, Eq)]
struct Arguments {
    is_once: bool,
    /// A URL or the id of a process.
    page: Option<String>,
}

impl Arguments {
    fn parse(arguments: &[String]) -> Result<Self, Failure> {
        let mut parsed = Self::default();
        for argument in arguments {
            match argument.as_str() {
                "--once" => parsed.is_once = true,
                option if option.starts_with('-') => {
                    return Err(format!("`top` has no option `{}`: it has --once", clean(option)));
                }
                _ if parsed.page.is_some() => {
                    return Err("`top` shows one page: pass one URL or PID".into());
                }
                page => parsed.page = Some(page.to_owned()),
            }
        }
        Ok(parsed)
    }
}

/// Runs the command.
pub fn run(arguments: &[String]) -> Result<ExitCode, Failure> {
    let arguments = Arguments::parse(arguments)?;
    let argument = arguments.page.or_else(|| std::env::var(URL_VARIABLE).ok());
    let page = choose(argument.as_deref(), advertised::all(&advertised::folder()))?;
    if arguments.is_once || !stdout().is_terminal() || !stdin().is_terminal() {
        print!("{}", once::snapshot(&page)?);
    } else {
        // The first answer, so that a wrong URL fails before the screen changes.
        page.get("overview")?;
        show(page).map_err(|error| format!("the terminal cannot be used: {error}"))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Returns the page that the argument names, or the only existing page.
fn choose(argument: Option<&str>, mut pages: Vec<Advertised>) -> Result<PageUrl, Failure> {
    const HINT: &str = "start the program with WAKEFUL_PAGE=1 or by `cargo wakeful run --page`";
    match argument.map(|argument| (argument, argument.parse::<u32>())) {
        Some((_, Ok(pid))) => match pages.into_iter().find(|page| page.pid == pid) {
            Some(page) => Ok(page.url),
            None => Err(format!("process {pid} has no live page that you can read: {HINT}")),
        },
        Some((url, Err(_))) => PageUrl::parse(url),
        None => match pages.len() {
            0 => Err(format!("no process of yours has a live page: {HINT}")),
            1 => Ok(pages.remove(0).url),
            _ => {
                let line = |page: &Advertised| {
                    format!(
                        "\n  cargo wakeful top {:<8} # {}, {}",
                        page.pid,
                        page.program(),
                        page.url.address()
                    )
                };
                let lines: String = pages.iter().map(line).collect();
                Err(format!("several processes have a live page. Pass the id of one:{lines}"))
            }
        },
    }
}

/// Shows the page until the user quits.
fn show(page: PageUrl) -> std::io::Result<()> {
    let mut state = State::new(page.address());
    let order = |state: &State| Order { request: state.request(), is_paused: state.is_paused };
    let mut ordered = order(&state);
    let (orders, updates) = fetch::start(page, ordered.clone());
    let mut terminal = ratatui::try_init()?;
    let result = loop {
        if let Err(error) = terminal.draw(|frame| view::draw(frame, &mut state)) {
            break Err(error);
        }
        match event::poll(FRAME).and_then(|is_ready| is_ready.then(event::read).transpose()) {
            Ok(Some(Event::Key(key))) => keys::press(&mut state, key),
            Ok(_) => {}
            Err(error) => break Err(error),
        }
        updates.try_iter().for_each(|update| state.apply(update));
        if state.is_done {
            break Ok(());
        }
        let wanted = order(&state);
        if wanted != ordered {
            ordered = wanted;
            let _ = orders.send(ordered.clone()); // the thread ends only after this loop
        }
    };
    ratatui::restore();
    result
}
