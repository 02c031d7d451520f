//! Draws the state on the screen.

use super::details::Line as DetailLine;
use super::format::{self, count};
use super::keys::HELP;
use super::model::{Level, Overview};
use super::state::{Cursor, GROUP_ORDERS, ListSettings, Opened, Pane, State, Subject, TASK_ORDERS};
use ratatui::Frame;
use ratatui::layout::{Alignment, Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style, Stylize};
use ratatui::text::{Line, Span, Text};
use ratatui::widgets::{Block, Cell, Clear, Paragraph, Row, Table};
use std::ops::Range;

/// The row of the cursor.
const SELECTED: Style = Style::new().add_modifier(Modifier::REVERSED);
const HEADING: Style = Style::new().add_modifier(Modifier::BOLD).fg(Color::Cyan);

/// Draws everything.
pub fn draw(frame: &mut Frame<'_>, state: &mut State) {
    let rows = [Constraint::Length(2), Constraint::Fill(1), Constraint::Length(1)];
    let [top, body, bottom] = Layout::vertical(rows).areas(frame.area());
    header(frame, top, state);
    if state.opened.is_empty() {
        match state.pane {
            Pane::Now => now(frame, body, state),
            Pane::Tasks => tasks(frame, body, state),
            Pane::Groups => groups(frame, body, state),
            Pane::Workers => workers(frame, body, state),
        }
    } else {
        opened(frame, body, state);
    }
    frame.render_widget(footer(state), bottom);
    if state.shows_help {
        help(frame);
    }
}

fn header(frame: &mut Frame<'_>, area: Rect, state: &State) {
    let [first, second] = Layout::vertical([Constraint::Length(1); 2]).areas(area);
    let mut tabs = Vec::new();
    for (number, pane) in (1..).zip(Pane::ALL) {
        let is_shown = pane == state.pane;
        let style = if is_shown { SELECTED } else { Style::new() };
        tabs.push(Span::styled(format!(" {number} {} ", pane.name()), style));
    }
    let tabs = Line::from(tabs);
    let widths = [Constraint::Fill(1), Constraint::Length(tabs.width() as u16)];
    let [left, right] = Layout::horizontal(widths).areas(first);
    let title = match &state.overview {
        Some(overview) => format!(" {} (process {})", overview.program, overview.pid),
        None => format!(" {}", state.address),
    };
    frame.render_widget(Line::from(title).bold(), left);
    frame.render_widget(tabs, right);
    frame.render_widget(verdict(state.overview.as_ref()), second);
}

fn verdict(overview: Option<&Overview>) -> Line<'static> {
    let Some(overview) = overview else { return Line::from(" waiting for the first answer") };
    let color = match overview.level {
        Level::Ok => Color::Green,
        Level::Warning => Color::Yellow,
        Level::Stuck => Color::Red,
    };
    let level = Span::styled(format!(" {} ", overview.level.name()), SELECTED.fg(color).bold());
    Line::from(vec![
        Span::raw(" "),
        level,
        Span::styled(format!(" {}", overview.verdict), Style::new().bold()),
    ])
}

fn footer(state: &State) -> Line<'static> {
    if let Some(error) = &state.connection_error {
        return Line::from(format!(" connection lost, trying again: {error}")).red();
    }
    if state.is_typing {
        let list = if state.pane == Pane::Groups { &state.group_list } else { &state.task_list };
        return Line::from(format!(" filter: {}▏  Enter keeps it, Esc removes it", list.filter))
            .yellow();
    }
    let paused = if state.is_paused { " PAUSED " } else { "" };
    let keys = match (state.opened.is_empty(), state.pane) {
        (false, _) => " Enter open  Esc back  ? help  q quit",
        (true, Pane::Tasks | Pane::Groups) => {
            " Enter open  / filter  s sort  r reverse  p pause  ? help  q quit"
        }
        (true, _) => " Enter open  Tab next  p pause  ? help  q quit",
    };
    Line::from(vec![Span::styled(paused, SELECTED), Span::raw(keys)])
}

/// Draws lines. `selected` is the range of lines of the row with the cursor.
fn scroll(
    frame: &mut Frame<'_>,
    area: Rect,
    cursor: &mut Cursor,
    lines: Vec<Line<'static>>,
    selected: Range<usize>,
) {
    // The cursor counts rows. There are more lines: headings, and rows that are wrapped.
    let mut by_line = Cursor { at: selected.end.saturating_sub(1), ..cursor.clone() };
    let height = area.height as usize;
    by_line.window(height, lines.len());
    by_line.at = selected.start;
    let window = by_line.window(height, lines.len());
    *cursor = Cursor { at: cursor.at, ..by_line };
    let style = |(at, mut line): (usize, Line<'static>)| {
        if selected.contains(&at) {
            line.style = line.style.patch(SELECTED);
        }
        line
    };
    let shown = lines.into_iter().enumerate().skip(window.start).take(window.len());
    let shown: Vec<_> = shown.map(style).collect();
    frame.render_widget(Paragraph::new(Text::from(shown)), area);
}

/// Splits a text into lines of at most `width` characters, at spaces where there are any.
fn wrap(text: &str, width: usize) -> Vec<String> {
    let characters: Vec<char> = text.chars().collect();
    let indent = characters.iter().take_while(|c| **c == ' ').count().min(width / 2) + 2;
    let mut lines = Vec::new();
    let mut rest = characters.as_slice();
    let mut prefix = String::new();
    loop {
        let room = width.saturating_sub(prefix.len()).max(1);
        if rest.len() <= room {
            lines.push(prefix + &String::from_iter(rest));
            return lines;
        }
        // Not in the indentation of the first line, which would leave an empty one.
        let first = rest.iter().position(|c| *c != ' ').unwrap_or(0);
        let space = rest[..=room].iter().rposition(|c| *c == ' ').filter(|at| *at > first);
        let (line, after) = rest.split_at(space.unwrap_or(room));
        lines.push(prefix + &String::from_iter(line));
        rest = after.strip_prefix(&[' ']).unwrap_or(after);
        prefix = " ".repeat(indent.min(width / 2));
    }
}

fn now(frame: &mut Frame<'_>, area: Rect, state: &mut State) {
    let at = state.cursor().at;
    let Some(overview) = &state.overview else { return };
    let heading = |text: String| Line::styled(text, HEADING);
    let mut lines =
        vec![Line::default(), heading(format!(" Findings ({})", overview.findings.len()))];
    let findings_at = lines.len();
    for finding in &overview.findings {
        lines.push(Line::from(format!("   {}", finding.headline)));
    }
    if overview.findings.is_empty() {
        lines.push(
            Line::from("   none: deadlocks, orphans and blocked workers would be shown here").dim(),
        );
    }
    for runtime in &overview.runtimes {
        lines.extend([
            Line::default(),
            heading(format!(" Workers of {}", format::runtime_line(runtime))),
        ]);
        let workers = runtime.workers.iter().map(format::worker_cells);
        let table = format::table(format::WORKER_COLUMNS, format::WORKER_NUMBERS, workers);
        lines.extend(table.lines().skip(1).map(|line| Line::from(line.to_owned())));
    }
    let shown = overview.groups.len();
    let total = overview.groups_total;
    lines.extend([
        Line::default(),
        heading(format!(" Largest groups ({shown} of {})", count(total))),
    ]);
    let groups = overview.groups.iter().map(format::group_cells);
    let table = format::table(format::GROUP_COLUMNS, format::GROUP_NUMBERS, groups);
    let groups_at = lines.len() + 1;
    lines.extend(table.lines().map(|line| Line::from(line.to_owned())));
    let findings = overview.findings.len();
    let selected = if at < findings { findings_at + at } else { groups_at + at - findings };
    let height = usize::from(findings + shown > 0);
    scroll(frame, area, state.cursor_mut(), lines, selected..selected + height);
}

fn opened(frame: &mut Frame<'_>, area: Rect, state: &mut State) {
    let Some(Opened { what, cursor }) = state.opened.last_mut() else { return };
    let title = match what {
        Subject::Task(task, _) => task.label.clone(),
        Subject::Finding(finding) => finding.headline.clone(),
    };
    let block = Block::bordered().title(format!(" {title} "));
    let inner = block.inner(area);
    frame.render_widget(block, area);
    let rows = what.lines();
    if rows.is_empty() {
        frame.render_widget(Line::from(" waiting for the answer"), inner);
        return;
    }
    let at = cursor.at.min(rows.len() - 1);
    let mut lines = Vec::new();
    let mut selected = 0..0;
    for (position, row) in rows.into_iter().enumerate() {
        let first = lines.len();
        lines.extend(detail_lines(&row, inner.width as usize));
        if position == at {
            selected = first..lines.len();
        }
    }
    scroll(frame, inner, cursor, lines, selected);
}

fn detail_lines(row: &DetailLine, width: usize) -> impl Iterator<Item = Line<'static>> {
    let arrow = if row.link.is_some() { "→ " } else { "  " };
    let style = if row.is_heading { HEADING } else { Style::new() };
    let lines = wrap(&format!("{arrow}{}", row.text), width);
    lines.into_iter().map(move |line| Line::styled(line, style))
}

fn tasks(frame: &mut Frame<'_>, area: Rect, state: &mut State) {
    let (total, matched) = (state.tasks.total, state.tasks.matched);
    let mut title = list_title("Tasks", matched, total, &state.task_list, TASK_ORDERS);
    if !state.site.is_empty() {
        title.push_str(&format!(", spawned at {}", state.site));
    }
    let widths = [
        Constraint::Fill(2),
        Constraint::Length(8),
        Constraint::Length(9),
        Constraint::Length(9),
        Constraint::Length(9),
        Constraint::Length(8),
        Constraint::Fill(4),
        Constraint::Fill(3),
    ];
    let body = titled(frame, area, title);
    let window = state.cursor_mut().window(body.height.saturating_sub(1) as usize, matched);
    let first = window.start;
    let cells = |at: usize| state.tasks.get(at).map(format::task_cells);
    let rows: Vec<_> = window.map(|at| cells(at).unwrap_or_default()).collect();
    let selected = state.cursor().at - first;
    table(frame, body, format::TASK_COLUMNS, format::TASK_NUMBERS, &widths, (rows, selected));
}

fn groups(frame: &mut Frame<'_>, area: Rect, state: &mut State) {
    let (total, shown) = (state.groups.total, state.groups.rows.len());
    let title = list_title("Groups by spawn site", shown, total, &state.group_list, GROUP_ORDERS);
    let widths = [
        Constraint::Length(9),
        Constraint::Length(10),
        Constraint::Length(9),
        Constraint::Length(9),
        Constraint::Length(9),
        Constraint::Length(9),
        Constraint::Length(15),
        Constraint::Fill(2),
        Constraint::Fill(3),
    ];
    let body = titled(frame, area, title);
    let window = state.cursor_mut().window(body.height.saturating_sub(1) as usize, shown);
    let selected = state.cursor().at - window.start;
    let rows = state.groups.rows[window].iter().map(format::group_cells).collect();
    table(frame, body, format::GROUP_COLUMNS, format::GROUP_NUMBERS, &widths, (rows, selected));
}

fn workers(frame: &mut Frame<'_>, area: Rect, state: &mut State) {
    let Some(overview) = &state.overview else { return };
    let all: Vec<_> = overview.workers().map(format::worker_cells).collect();
    let widths = [
        Constraint::Length(7),
        Constraint::Length(6),
        Constraint::Length(10),
        Constraint::Length(7),
        Constraint::Length(7),
        Constraint::Length(7),
        Constraint::Length(12),
        Constraint::Fill(1),
        Constraint::Fill(1),
    ];
    let body = titled(frame, area, format!("Workers ({}), as runtime/worker", all.len()));
    let window = state.cursor_mut().window(body.height.saturating_sub(1) as usize, all.len());
    let selected = state.cursor().at - window.start;
    let rows = all[window].to_vec();
    table(frame, body, format::WORKER_COLUMNS, format::WORKER_NUMBERS, &widths, (rows, selected));
}

fn list_title(
    what: &str,
    matched: usize,
    total: usize,
    list: &ListSettings,
    orders: &[(&'static str, bool)],
) -> String {
    let (column, is_ascending) = list.order(orders);
    let arrow = if is_ascending { "▲" } else { "▼" };
    let mut title = format!(
        "{what} ({} of {}), by {column} {arrow}",
        count(matched as u64),
        count(total as u64)
    );
    if !list.filter.is_empty() {
        title.push_str(&format!(", with \"{}\"", list.filter));
    }
    title
}

/// Draws a title and returns the area below it.
fn titled(frame: &mut Frame<'_>, area: Rect, title: String) -> Rect {
    let rows = [Constraint::Length(1), Constraint::Length(1), Constraint::Fill(1)];
    let [_, line, body] = Layout::vertical(rows).areas(area);
    frame.render_widget(Line::styled(format!(" {title}"), HEADING), line);
    body
}

/// Draws rows with one of them selected.
fn table<const N: usize>(
    frame: &mut Frame<'_>,
    area: Rect,
    columns: [&str; N],
    numbers: &[usize],
    widths: &[Constraint],
    (rows, selected): (Vec<[String; N]>, usize),
) {
    // The table divides the area in this way, too.
    let areas = Layout::horizontal(widths.iter().copied()).spacing(1).split(area);
    let cell = |column: usize, text: String| {
        let alignment = if numbers.contains(&column) { Alignment::Right } else { Alignment::Left };
        let is_site = columns[column] == format::SITE_COLUMN;
        let width = areas.get(column).map_or(0, |area| area.width as usize);
        let text = if is_site { keep_end(text, width) } else { text };
        Cell::from(Text::from(text).alignment(alignment))
    };
    let row = |cells: [String; N]| {
        Row::new(cells.into_iter().enumerate().map(|(at, text)| cell(at, text)))
    };
    let rows = rows.into_iter().enumerate().map(|(at, cells)| {
        let style = if at == selected { SELECTED } else { Style::new() };
        row(cells).style(style)
    });
    let head =
        row(columns.map(str::to_owned)).style(Style::new().add_modifier(Modifier::UNDERLINED));
    frame.render_widget(Table::new(rows, widths).header(head).column_spacing(1), area);
}

/// Cuts the beginning of a site that is too long, because the line at its end matters more than the folder.
fn keep_end(text: String, width: usize) -> String {
    let excess = text.chars().count().saturating_sub(width);
    if excess == 0 { text } else { "…".chars().chain(text.chars().skip(excess + 1)).collect() }
}

fn help(frame: &mut Frame<'_>) {
    let area = frame.area();
    let (width, height) = (area.width.min(96), area.height.min(HELP.len() as u16 + 2));
    let area = area.centered(Constraint::Length(width), Constraint::Length(height));
    let line = |(key, what): &(&str, &str)| {
        Line::from(vec![
            Span::styled(format!(" {key:<14} "), HEADING),
            Span::raw((*what).to_owned()),
        ])
    };
    let text = Text::from(HELP.iter().map(line).collect::<Vec<_>>());
    frame.render_widget(Clear, area);
    frame.render_widget(Paragraph::new(text).block(Block::bordered().title(" Keys ")), area);
}

#[cfg(test)]
mod tests {
    use super::{keep_end, wrap};

    #[test]
    fn the_end_of_a_long_site_is_kept() {
        assert_eq!(keep_end("src/bank.rs:12:5".into(), 12), "…ank.rs:12:5");
        assert_eq!(keep_end("src/bank.rs:12:5".into(), 16), "src/bank.rs:12:5");
        assert_eq!(keep_end("ab".into(), 0), "…");
    }

    #[test]
    fn long_texts_are_wrapped_at_spaces() {
        assert_eq!(wrap("  fix: use one order", 12), ["  fix: use", "    one", "    order"]);
        assert_eq!(wrap("short", 12), ["short"]);
        assert_eq!(wrap("  abcdefghijkl", 8), ["  abcdef", "    ghij", "    kl"]);
        assert_eq!(wrap("", 0), [""]);
        assert_eq!(wrap("ab", 0), ["a", "b"]);
    }
}
