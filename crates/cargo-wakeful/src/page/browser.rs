//! `--page`: opens the live page of a program in the browser, once the program serves it.
//!
//! The program writes its URL to the folder of [`super::advertised`]. A watcher looks there for a
//! descendant of the process that `cargo wakeful` starts. For `test` and `bench`, that process is cargo,
//! and the watcher is a thread. `run` replaces this process with the program, so the watcher is another
//! process, which must not be a child of the program.
//!
//! The URL has a code in place of the token, because other users can see the arguments of a browser. The
//! page accepts the code once, from a process of the same user.
//!
//! Without a display or `xdg-open`, the program only prints its URL. A run never fails because no
//! browser opens.

use super::advertised::{self, Advertised};
use std::fs;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

/// The environment variable that turns the page on.
const VARIABLE: &str = "WAKEFUL_PAGE";
/// The internal command of the watcher for `run`.
pub const WATCH_COMMAND: &str = "watch-page";
/// The time between two scans of the folder.
const STEP: Duration = Duration::from_millis(100);

/// Turns the page of a command on, unless the user has set the variable.
pub fn enable_page(command: &mut Command) {
    if std::env::var_os(VARIABLE).is_none() {
        command.env(VARIABLE, "1");
    }
}

/// Starts a thread that opens the page of the first descendant of `root` that has one.
pub fn watch_in_thread(root: u32) {
    if can_open() {
        thread::spawn(move || open_page_of(root));
    }
}

/// Starts a process that opens the page of this process, after this process has become the program.
pub fn watch_this_process() {
    let Ok(program) = std::env::current_exe() else { return };
    if can_open() {
        let mut starter = Command::new(program);
        starter.args([WATCH_COMMAND, &std::process::id().to_string(), "start"]);
        let _ = quiet(&mut starter).status(); // the program runs without a browser
    }
}

/// Executes the internal command: `watch-page PID start` starts `watch-page PID` and ends.
pub fn watch_command(arguments: &[String]) {
    let Some(root) = arguments.first().and_then(|pid| pid.parse().ok()) else { return };
    match (arguments.get(1), std::env::current_exe()) {
        (Some(_), Ok(program)) => {
            // Its parent ends at once, so the program gets no child that it did not start.
            let mut watcher = Command::new(program);
            watcher.args([WATCH_COMMAND, &arguments[0]]);
            let _ = quiet(&mut watcher).spawn(); // the program runs without a browser
        }
        _ => open_page_of(root),
    }
}

/// Detaches a command from the terminal, so that Ctrl-C ends the program and not the browser.
fn quiet(command: &mut Command) -> &mut Command {
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).process_group(0)
}

/// Returns whether a browser can be opened: there is a display, and the program that opens URLs.
fn can_open() -> bool {
    let is_set = |name| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    let path = std::env::var_os("PATH").unwrap_or_default();
    let has_opener = || std::env::split_paths(&path).any(|folder| folder.join("xdg-open").exists());
    (is_set("DISPLAY") || is_set("WAYLAND_DISPLAY")) && has_opener()
}

/// Waits until `root` or a descendant serves a page, and opens it. Returns early if `root` ends.
fn open_page_of(root: u32) {
    let began = start_time(root);
    // Another process with the same id has started later.
    while began.is_some() && start_time(root) == began {
        let pages = advertised::all(&advertised::folder());
        let mut own = pages.iter().filter(|page| is_descendant(page.pid, root) && is_served(page));
        if let Some(url) = own.find_map(|page| page.url.for_browser()) {
            let _ = quiet(Command::new("xdg-open").arg(url)).status(); // the URL is printed as well
            return;
        }
        thread::sleep(STEP);
    }
}

/// Returns whether the page belongs to the process: an earlier process with its id may have left the file.
fn is_served(page: &Advertised) -> bool {
    page.url.get("overview").is_ok_and(|overview| overview["process"]["pid"] == page.pid)
}

fn is_descendant(pid: u32, root: u32) -> bool {
    let mut pid = pid;
    // The parents may change meanwhile, so the walk is bounded.
    for _ in 0..64 {
        if pid == root {
            return true;
        }
        match parent(pid) {
            Some(parent) if parent > 1 => pid = parent,
            _ => return false,
        }
    }
    false
}

fn parent(pid: u32) -> Option<u32> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    status.lines().find_map(|line| line.strip_prefix("PPid:"))?.trim().parse().ok()
}

/// Returns when a process was started, in ticks since the system's start.
fn start_time(pid: u32) -> Option<u64> {
    let stat = fs::read_to_string(Path::new("/proc").join(pid.to_string()).join("stat")).ok()?;
    // The name is in parentheses and may contain any character. The start time is the 20th field after it.
    stat.rsplit_once(") ")?.1.split(' ').nth(19)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn descendants_are_found_by_their_parents() {
        let own = std::process::id();
        let mut child = Command::new("cat").stdin(Stdio::piped()).spawn().unwrap();
        assert!(is_descendant(child.id(), own) && is_descendant(own, own));
        assert!(!is_descendant(own, child.id()));
        assert!(start_time(child.id()) >= start_time(own) && start_time(own).is_some());
        drop(child.stdin.take());
        child.wait().unwrap();
    }
}
