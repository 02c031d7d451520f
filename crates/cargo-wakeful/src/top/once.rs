//! `--once`: the state as plain text.

use super::fetch::{Answer, Request, fetch};
use super::format::{self, count};
use super::model::{Overview, Rows, Task};
use crate::Failure;
use crate::page::client::PageUrl;
use std::fmt::Write;

/// The number of listed tasks. The tasks that wait longest are listed.
const TASKS: usize = 20;

/// Requests the state once and returns it as text.
pub fn snapshot(page: &PageUrl) -> Result<String, Failure> {
    let request = Request::Tasks(format!("sort=wait&order=desc&limit={TASKS}"));
    let (overview, answer) = fetch(page, &request)?;
    let tasks = match answer {
        Answer::Tasks(tasks) => tasks,
        _ => Rows::default(),
    };
    Ok(text(&overview, &tasks))
}

fn text(overview: &Overview, tasks: &Rows<Task>) -> String {
    let mut text = format!(
        "{} (process {}), wakeful {}, at {}\n{}: {}\n",
        overview.program,
        overview.pid,
        overview.version,
        overview.now,
        overview.level.name(),
        overview.verdict
    );
    for finding in &overview.findings {
        text.push('\n');
        for line in &finding.message {
            text.push_str(line);
            text.push('\n');
        }
    }
    let mut add = |part: String| text.push_str(&part);
    for runtime in &overview.runtimes {
        add(format!("\n{}\n", format::runtime_line(runtime)));
        let workers = runtime.workers.iter().map(format::worker_cells);
        add(format::table(format::WORKER_COLUMNS, format::WORKER_NUMBERS, workers));
    }
    if !overview.groups.is_empty() {
        add(heading("groups by spawn site", overview.groups.len(), overview.groups_total as usize));
        let groups = overview.groups.iter().map(format::group_cells);
        add(format::table(format::GROUP_COLUMNS, format::GROUP_NUMBERS, groups));
    }
    if !tasks.rows.is_empty() {
        add(heading("tasks that wait longest", tasks.rows.len(), tasks.total));
        let tasks = tasks.rows.iter().map(format::task_cells);
        add(format::table(format::TASK_COLUMNS, format::TASK_NUMBERS, tasks));
    }
    text
}

fn heading(what: &str, shown: usize, total: usize) -> String {
    let mut text = format!("\n{what}");
    if shown < total {
        let _ = write!(text, " ({shown} of {})", count(total as u64)); // a string does not fail
    }
    text.push('\n');
    text
}

#[cfg(test)]
mod tests {
    use super::super::tests::{deadlock_overview, deadlock_tasks};
    use super::*;

    #[test]
    fn the_text_names_the_deadlock_and_its_tasks() {
        let overview = Overview::read(&deadlock_overview());
        let tasks = Rows::read(&deadlock_tasks(), Task::read);
        let text = text(&overview, &tasks);
        for expected in [
            "bank (process 748), wakeful 0.1.0",
            "stuck: 2 tasks can never run again",
            "\ndeadlock (proven): 2 tasks wait for each other\n",
            "\n  fix: acquire locks in the same order",
            "\nruntime 1: multi-thread, 23 tasks alive",
            "1/0    31 % ███░░░░░░░",
            "Mutex::lock, held by task 13 \"report\"",
            "Mutex::lock, held by task 12 \"transfer\"",
            "tasks that wait longest (2 of 1,204)",
        ] {
            assert!(text.contains(expected), "{expected:?} is not in:\n{text}");
        }
        assert!(!text.contains('\u{1b}'));
    }
}
