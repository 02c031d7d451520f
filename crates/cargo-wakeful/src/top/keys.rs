//! The effect of each key.

use super::state::{Pane, State};
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

/// The help: keys and their effects.
pub const HELP: &[(&str, &str)] = &[
    ("1 2 3 4, Tab", "now, tasks, groups, workers"),
    ("j k, arrows", "move"),
    ("PgUp PgDn", "move by a screen"),
    ("g G, Home End", "move to the first or last row"),
    ("Enter", "open a finding or task, follow a line with an arrow, show the tasks of a group"),
    ("Esc", "back; in a list: remove the filter"),
    ("/", "filter tasks or groups: name, site, kind of wait"),
    ("s", "sort by the next column"),
    ("r", "reverse the order"),
    ("p, Space", "pause and continue"),
    ("?", "this help"),
    ("q, Ctrl-C", "quit"),
];

/// Handles a key.
pub fn press(state: &mut State, key: KeyEvent) {
    if key.kind == KeyEventKind::Release {
        return;
    }
    if key.modifiers.contains(KeyModifiers::CONTROL) {
        state.is_done |= key.code == KeyCode::Char('c');
    } else if state.is_typing {
        type_filter(state, key.code);
    } else if state.shows_help {
        state.is_done |= key.code == KeyCode::Char('q');
        state.shows_help = false;
    } else {
        command(state, key.code);
    }
}

fn type_filter(state: &mut State, key: KeyCode) {
    match key {
        KeyCode::Enter | KeyCode::Down => state.is_typing = false,
        KeyCode::Esc => {
            state.edit_filter(String::clear);
            state.is_typing = false;
        }
        KeyCode::Backspace => state.edit_filter(|filter| {
            filter.pop();
        }),
        KeyCode::Char(character) => state.edit_filter(|filter| filter.push(character)),
        _ => {}
    }
}

fn command(state: &mut State, key: KeyCode) {
    match key {
        KeyCode::Char('q') => state.is_done = true,
        KeyCode::Char('?') => state.shows_help = true,
        KeyCode::Char(digit @ '1'..='4') => state.show(Pane::ALL[digit as usize - '1' as usize]),
        KeyCode::Tab => state.step_pane(1),
        KeyCode::BackTab => state.step_pane(-1),
        KeyCode::Char('j') | KeyCode::Down => state.move_by(1),
        KeyCode::Char('k') | KeyCode::Up => state.move_by(-1),
        KeyCode::PageDown => state.move_by_pages(1),
        KeyCode::PageUp => state.move_by_pages(-1),
        KeyCode::Char('g') | KeyCode::Home => state.move_by(isize::MIN),
        KeyCode::Char('G') | KeyCode::End => state.move_by(isize::MAX),
        KeyCode::Enter => state.open(),
        KeyCode::Esc | KeyCode::Backspace => state.back(),
        KeyCode::Char('/') => state.begin_filter(),
        KeyCode::Char('s') => state.sort_by_next(),
        KeyCode::Char('r') => state.reverse_order(),
        KeyCode::Char('p' | ' ') => state.is_paused = !state.is_paused,
        _ => {}
    }
}
