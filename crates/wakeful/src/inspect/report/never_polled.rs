//! Tasks that a runtime dropped before their first poll.

use super::Content;
use super::stamp::Stamp;
use super::text::field;
use crate::inspect::task_info::TaskInfo;
use std::fmt;
use std::panic::Location;

/// Tasks that were dropped at shutdown before their first poll.
///
/// The report is [suspected](super::Certainty::Suspected): the program may abandon the tasks on
/// purpose. There is no report under `#[wakeful::test]`, while the thread panics, or for
/// [`shutdown_background`](crate::runtime::Runtime::shutdown_background) and
/// [`shutdown_timeout`](crate::runtime::Runtime::shutdown_timeout), which abandon tasks by design.
/// Turn the report off with
/// [`Builder::report_lasting_after`](crate::runtime::Builder::report_lasting_after).
///
/// # Examples
///
/// ```
/// use std::sync::mpsc;
/// use wakeful::inspect::Report;
/// use wakeful::runtime::Builder;
///
/// let (tx, rx) = mpsc::channel();
/// let rt = Builder::new_current_thread()
///     .on_report(move |report| drop(tx.send(report.clone())))
///     .build()?;
/// rt.block_on(async {
///     // Nothing awaits the task, and `block_on` returns before it runs.
///     wakeful::spawn(async { println!("saved") });
/// });
/// drop(rt);
/// let Report::NeverPolled(dropped) = rx.recv().unwrap() else { panic!() };
/// assert_eq!(dropped.tasks(), 1);
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct NeverPolled {
    /// Spawn sites with their numbers of tasks. Never empty.
    sites: Vec<(&'static Location<'static>, usize)>,
    stamp: Stamp,
}

/// The maximum number of sites in the text.
const MAX_SITES: usize = 8;

impl NeverPolled {
    pub(crate) fn new(sites: Vec<(&'static Location<'static>, usize)>) -> Self {
        Self { sites, stamp: Stamp::now() }
    }

    /// Returns how many tasks were dropped.
    pub fn tasks(&self) -> usize {
        self.sites.iter().map(|(_, count)| count).sum()
    }

    /// Returns the spawn sites, each with the number of tasks that were spawned there.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::sync::mpsc;
    /// use wakeful::inspect::Report;
    /// use wakeful::runtime::Builder;
    ///
    /// let (tx, rx) = mpsc::channel();
    /// let rt = Builder::new_current_thread()
    ///     .on_report(move |report| drop(tx.send(report.clone())))
    ///     .build()?;
    /// for _ in 0..3 {
    ///     rt.spawn(async {});
    /// }
    /// drop(rt);
    /// let Report::NeverPolled(dropped) = rx.recv().unwrap() else { panic!() };
    /// let [(_site, count)] = dropped.sites() else { panic!("{dropped}") };
    /// assert_eq!(*count, 3);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn sites(&self) -> &[(&'static Location<'static>, usize)] {
        &self.sites
    }
}

impl Content for NeverPolled {
    fn stamp(&self) -> &Stamp {
        &self.stamp
    }

    fn tasks(&self) -> Vec<&TaskInfo> {
        Vec::new() // they are gone
    }
}

impl fmt::Display for NeverPolled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (tasks, was) = match self.tasks() {
            1 => ("1 task".to_owned(), "was"),
            count => (format!("{count} tasks"), "were"),
        };
        writeln!(
            f,
            "never polled (suspected): {tasks} {was} dropped at shutdown without ever being polled"
        )?;
        for (site, count) in self.sites.iter().take(MAX_SITES) {
            let count = if *count == 1 { String::new() } else { format!(" ({count} tasks)") };
            field(f, "    ", "spawned", format_args!("at {site}{count}"))?;
        }
        if let Some(more @ 1..) = self.sites.len().checked_sub(MAX_SITES) {
            writeln!(f, "    and at {more} more sites")?;
        }
        f.write_str(
            "  assumes: the tasks were meant to run.\n  \
             likely cause: the future of block_on returned right after the spawn.\n  \
             fix: await the JoinHandle, or collect the tasks in a JoinSet and join_all, before block_on returns.",
        )
    }
}
