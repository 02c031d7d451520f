//! The state of the screen: pane, cursor, order, filter, and the opened tasks and findings.
//!
//! Keys change this state ([`keys`](super::keys)), answers of the page fill it ([`State::apply`]), and
//! [`view`](super::view) draws it.

use super::details::{self, Details, Line};
use super::fetch::{Answer, Request, Update};
use super::model::{Finding, Group, Overview, Rows, Task, TaskRef};
use crate::page::client::encode;
use std::ops::Range;

/// The rows of tasks that one request asks for, and the step in which this window moves.
const TASK_WINDOW: usize = 300;
const TASK_STEP: usize = 100;
/// The maximum number of groups that are shown, which is the maximum number of rows of an answer.
const MAX_GROUPS: usize = 500;

/// Columns by which the page can sort, and whether the natural order is ascending.
pub const TASK_ORDERS: &[(&str, bool)] = &[
    ("wait", false),
    ("age", false),
    ("busy", false),
    ("polls", false),
    ("wakes", false),
    ("state", false),
    ("name", true),
    ("id", true),
    ("spawned", true),
];
pub const GROUP_ORDERS: &[(&str, bool)] = &[
    ("alive", false),
    ("growth", false),
    ("started", false),
    ("busy", false),
    ("poll_p99", false),
    ("wait_p99", false),
    ("oldest", false),
    ("spawned", true),
];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pane {
    Now,
    Tasks,
    Groups,
    Workers,
}

impl Pane {
    pub const ALL: [Pane; 4] = [Pane::Now, Pane::Tasks, Pane::Groups, Pane::Workers];

    pub fn name(self) -> &'static str {
        ["Now", "Tasks", "Groups", "Workers"][self as usize]
    }
}

/// A position in a list, and the part of the list that is visible.
#[derive(Clone, Debug, Default)]
pub struct Cursor {
    pub at: usize,
    pub first: usize,
    pub height: usize,
}

impl Cursor {
    /// Returns the visible rows of a list with `len` rows, such that the cursor is among them.
    pub fn window(&mut self, height: usize, len: usize) -> Range<usize> {
        self.height = height.max(1);
        self.at = self.at.min(len.saturating_sub(1));
        self.first = self.first.min(self.at).max((self.at + 1).saturating_sub(self.height));
        self.first..len.min(self.first + self.height)
    }

    fn move_by(&mut self, rows: isize, len: usize) {
        self.at = self.at.saturating_add_signed(rows).min(len.saturating_sub(1));
    }
}

/// The order and the filter of a list.
#[derive(Clone, Debug, Default)]
pub struct ListSettings {
    /// The index in the orders of the list.
    order: usize,
    is_reversed: bool,
    pub filter: String,
}

impl ListSettings {
    /// Returns the column, and whether the order is ascending.
    pub fn order(&self, orders: &[(&'static str, bool)]) -> (&'static str, bool) {
        let (column, is_ascending) = orders[self.order];
        (column, is_ascending != self.is_reversed)
    }

    fn parameters(&self, orders: &[(&'static str, bool)]) -> String {
        let (column, is_ascending) = self.order(orders);
        let order = if is_ascending { "asc" } else { "desc" };
        let filter = match self.filter.as_str() {
            "" => String::new(),
            filter => format!("&q={}", encode(filter)),
        };
        format!("sort={column}&order={order}{filter}")
    }
}

/// A task or a finding that is shown instead of the pane.
#[derive(Clone, Debug)]
pub struct Opened {
    pub what: Subject,
    pub cursor: Cursor,
}

#[derive(Clone, Debug)]
pub enum Subject {
    /// A task, with its details once they have arrived.
    Task(TaskRef, Option<Box<Details>>),
    Finding(Finding),
}

impl Subject {
    pub fn lines(&self) -> Vec<Line> {
        match self {
            Subject::Task(_, Some(details)) => details.lines(),
            Subject::Task(_, None) => Vec::new(),
            Subject::Finding(finding) => details::finding_lines(finding),
        }
    }
}

#[derive(Debug)]
pub struct State {
    /// The address of the page.
    pub address: String,
    pub overview: Option<Overview>,
    pub tasks: Rows<Task>,
    pub groups: Rows<Group>,
    pub pane: Pane,
    cursors: [Cursor; 4],
    pub task_list: ListSettings,
    pub group_list: ListSettings,
    /// The spawn site whose tasks are shown; all if empty.
    pub site: String,
    pub opened: Vec<Opened>,
    /// Whether the user is typing a filter.
    pub is_typing: bool,
    pub is_paused: bool,
    pub shows_help: bool,
    /// Why the last request failed.
    pub connection_error: Option<String>,
    pub is_done: bool,
    /// Whether the next answer is for the same list, so that the cursor stays on the same task or group.
    keeps_row: bool,
}

impl State {
    pub fn new(address: String) -> Self {
        Self {
            address,
            overview: None,
            tasks: Rows::default(),
            groups: Rows::default(),
            pane: Pane::Now,
            cursors: Default::default(),
            task_list: ListSettings::default(),
            group_list: ListSettings::default(),
            site: String::new(),
            opened: Vec::new(),
            is_typing: false,
            is_paused: false,
            shows_help: false,
            connection_error: None,
            is_done: false,
            keeps_row: false,
        }
    }

    /// Returns the request for the visible part of the state.
    pub fn request(&self) -> Request {
        if let Some(Opened { what: Subject::Task(task, _), .. }) = self.opened.last() {
            return Request::Task { runtime: task.runtime, key: task.key.clone() };
        }
        match self.pane {
            Pane::Now | Pane::Workers => Request::Overview,
            Pane::Tasks => {
                let offset = (self.cursor().at / TASK_STEP).saturating_sub(1) * TASK_STEP;
                let site = match self.site.as_str() {
                    "" => String::new(),
                    site => format!("&site={}", encode(site)),
                };
                let parameters = self.task_list.parameters(TASK_ORDERS);
                let window = format!("offset={offset}&limit={TASK_WINDOW}");
                Request::Tasks(format!("{parameters}{site}&{window}"))
            }
            Pane::Groups => {
                let parameters = self.group_list.parameters(GROUP_ORDERS);
                Request::Groups(format!("{parameters}&limit={MAX_GROUPS}"))
            }
        }
    }

    /// Applies an answer of the page. The cursor stays on the same task or group.
    pub fn apply(&mut self, update: Update) {
        let (overview, answer) = match update.result {
            Ok(answers) => answers,
            Err(failure) => {
                self.connection_error = Some(failure);
                return;
            }
        };
        self.connection_error = None;
        for opened in &mut self.opened {
            if let Subject::Finding(finding) = &mut opened.what
                && let Some(now) = overview.findings.iter().find(|it| it.is_same(finding))
            {
                *finding = now.clone();
            }
        }
        self.overview = Some(overview);
        if update.request != self.request() {
            return; // The user has changed the view since the request.
        }
        match answer {
            Answer::Overview => return,
            Answer::Tasks(tasks) => {
                let at = &mut self.cursors[Pane::Tasks as usize].at;
                let selected = self.tasks.get(*at).map(|task| task.task.clone());
                let selected = selected.filter(|_| self.keeps_row);
                if let Some(position) =
                    tasks.rows.iter().position(|it| Some(&it.task) == selected.as_ref())
                {
                    *at = tasks.offset + position;
                }
                self.tasks = tasks;
            }
            Answer::Groups(groups) => {
                let at = &mut self.cursors[Pane::Groups as usize].at;
                let key = |group: &Group| (group.runtime, group.spawned_at.clone());
                let selected = self.groups.get(*at).map(key).filter(|_| self.keeps_row);
                if let Some(position) = groups.rows.iter().position(|it| Some(key(it)) == selected)
                {
                    *at = position;
                }
                self.groups = groups;
            }
            Answer::Task(details) => {
                if let Some(Opened { what: Subject::Task(_, shown), .. }) = self.opened.last_mut() {
                    *shown = Some(details);
                }
                return;
            }
        }
        self.keeps_row = true;
    }

    /// Moves the cursor to the first row, after the list was sorted or filtered in a new way.
    fn reset_cursor(&mut self) {
        self.keeps_row = false;
        *self.cursor_mut() = Cursor::default();
    }

    pub fn cursor(&self) -> &Cursor {
        match self.opened.last() {
            Some(opened) => &opened.cursor,
            None => &self.cursors[self.pane as usize],
        }
    }

    pub fn cursor_mut(&mut self) -> &mut Cursor {
        match self.opened.last_mut() {
            Some(opened) => &mut opened.cursor,
            None => &mut self.cursors[self.pane as usize],
        }
    }

    /// Returns the number of rows that the cursor can be on.
    pub fn len(&self) -> usize {
        if let Some(opened) = self.opened.last() {
            return opened.what.lines().len();
        }
        let overview = self.overview.as_ref();
        match self.pane {
            Pane::Now => overview.map_or(0, |it| it.findings.len() + it.groups.len()),
            Pane::Tasks => self.tasks.matched,
            Pane::Groups => self.groups.rows.len(),
            Pane::Workers => overview.map_or(0, |it| it.workers().count()),
        }
    }

    pub fn move_by(&mut self, rows: isize) {
        let len = self.len();
        self.cursor_mut().move_by(rows, len);
    }

    /// Moves the cursor by screens.
    pub fn move_by_pages(&mut self, pages: isize) {
        let height = self.cursor().height.max(1) as isize;
        self.move_by(pages.saturating_mul(height));
    }

    pub fn show(&mut self, pane: Pane) {
        self.opened.clear();
        self.pane = pane;
    }

    /// Shows the next pane, or with -1 the previous one.
    pub fn step_pane(&mut self, step: isize) {
        let count = Pane::ALL.len() as isize;
        let next = (self.pane as isize + step).rem_euclid(count);
        self.show(Pane::ALL[next as usize]);
    }

    /// Opens the item under the cursor.
    pub fn open(&mut self) {
        let at = self.cursor().at;
        let link = match self.opened.last() {
            Some(opened) => opened.what.lines().into_iter().nth(at).and_then(|line| line.link),
            None => match self.pane {
                Pane::Now => return self.open_from_now(at),
                Pane::Tasks => self.tasks.get(at).map(|task| task.task.clone()),
                Pane::Groups => return self.show_group(self.groups.get(at).cloned()),
                Pane::Workers => {
                    let worker = self.overview.as_ref().and_then(|it| it.workers().nth(at));
                    worker.and_then(|worker| worker.task.clone())
                }
            },
        };
        if let Some(task) = link {
            self.push(Subject::Task(task, None));
        }
    }

    fn open_from_now(&mut self, at: usize) {
        let Some(overview) = &self.overview else { return };
        match overview.findings.get(at) {
            Some(finding) => self.push(Subject::Finding(finding.clone())),
            None => self.show_group(overview.groups.get(at - overview.findings.len()).cloned()),
        }
    }

    fn push(&mut self, what: Subject) {
        self.opened.push(Opened { what, cursor: Cursor::default() });
    }

    /// Shows the tasks of a group.
    fn show_group(&mut self, group: Option<Group>) {
        if let Some(group) = group {
            self.site = group.spawned_at;
            self.task_list.filter.clear();
            self.show(Pane::Tasks);
            self.reset_cursor();
        }
    }

    /// Goes back: closes the help or the last opened item, or removes the filter.
    pub fn back(&mut self) {
        if self.shows_help {
            self.shows_help = false;
        } else if self.opened.pop().is_none() {
            match self.pane {
                Pane::Tasks => {
                    self.site.clear();
                    self.task_list.filter.clear();
                }
                Pane::Groups => self.group_list.filter.clear(),
                Pane::Now | Pane::Workers => {}
            }
        }
    }

    /// Sorts by the next column.
    pub fn sort_by_next(&mut self) {
        if let Some((list, orders)) = self.list_mut() {
            list.order = (list.order + 1) % orders;
            list.is_reversed = false;
            self.reset_cursor();
        }
    }

    pub fn reverse_order(&mut self) {
        if let Some((list, _)) = self.list_mut() {
            list.is_reversed = !list.is_reversed;
            self.reset_cursor();
        }
    }

    /// Begins to type a filter. A pane without a filter is replaced with the tasks.
    pub fn begin_filter(&mut self) {
        if !self.opened.is_empty() || !matches!(self.pane, Pane::Tasks | Pane::Groups) {
            self.show(Pane::Tasks);
        }
        self.is_typing = true;
    }

    /// Changes the filter while the user types it.
    pub fn edit_filter(&mut self, edit: impl FnOnce(&mut String)) {
        if let Some((list, _)) = self.list_mut() {
            edit(&mut list.filter);
            self.reset_cursor();
        }
    }

    /// Returns the settings of the visible list, and its number of orders.
    fn list_mut(&mut self) -> Option<(&mut ListSettings, usize)> {
        match self.pane {
            _ if !self.opened.is_empty() => None,
            Pane::Tasks => Some((&mut self.task_list, TASK_ORDERS.len())),
            Pane::Groups => Some((&mut self.group_list, GROUP_ORDERS.len())),
            Pane::Now | Pane::Workers => None,
        }
    }
}
