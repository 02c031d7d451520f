//! The rows of the tables: what a program is, and what must be reported about it.

use std::pin::Pin;

use wakeful::inspect::{Certainty, Edge, Report};
use wakeful::runtime::Runtime;

use super::Twin;

type Boxed = Pin<Box<dyn Future<Output = ()>>>;

/// How a program is run.
#[derive(Clone, Copy)]
pub enum Body {
    /// Runs in the `block_on` of one runtime.
    Future(fn(Twin) -> Boxed),
    /// Has the runtime, and may drop it.
    Runtime(fn(Twin, Runtime)),
}

/// A bug, and the report that it must lead to.
pub struct Bug {
    pub name: &'static str,
    pub body: Body,
    source: &'static str,
    file: &'static str,
    wanted: Vec<Wanted>,
    /// What is wanted inside a service instead, if that is something else.
    wanted_in_service: Vec<Wanted>,
    /// The next wanted report is for a service.
    is_for_service: bool,
    /// Kinds that may be reported beside the wanted one.
    tolerated: Vec<&'static str>,
    /// A timer or signal of the program ends it, so nothing may be called proven.
    pub passes: bool,
    pub setting: Setting,
}

/// Where a bug can be found at all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Setting {
    pub current_thread: bool,
    pub multi_thread: bool,
    /// Inside a service, too.
    pub service: bool,
    /// Needs the cores for itself.
    pub busy: bool,
}

/// One report: all of this must be in it.
struct Wanted {
    kind: &'static str,
    certainty: Certainty,
    edges: Vec<WantedEdge>,
    /// Parts of its text; `@marker` is replaced by the file and line of the marker.
    says: Vec<&'static str>,
}

/// Task, kind and marker of the wait, and holder and marker of the acquisition.
type WantedEdge = (&'static str, &'static str, &'static str, &'static str, &'static str);

/// Makes a row of a function of this module that takes a [`Twin`].
///
/// With `with a runtime`, the function takes the runtime as well.
macro_rules! bug {
    ($name:ident) => {
        bug!($name, $crate::program::Body::Future(|twin| Box::pin($name(twin))))
    };
    ($name:ident, with a runtime) => {
        bug!($name, $crate::program::Body::Runtime($name))
    };
    ($name:ident, $body:expr) => {
        $crate::program::Bug::new(
            stringify!($name),
            $body,
            file!(),
            include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../", file!())),
        )
    };
}
pub(crate) use bug;

impl Bug {
    pub fn new(name: &'static str, body: Body, file: &'static str, source: &'static str) -> Self {
        let setting =
            Setting { current_thread: true, multi_thread: true, service: true, busy: false };
        let (wanted, wanted_in_service, tolerated) = (Vec::new(), Vec::new(), Vec::new());
        let (is_for_service, passes) = (false, false);
        Self {
            name,
            body,
            source,
            file,
            wanted,
            wanted_in_service,
            is_for_service,
            tolerated,
            passes,
            setting,
        }
    }

    /// Wants a report of this kind that is at least this certain.
    pub fn reports(mut self, kind: &'static str, certainty: Certainty) -> Self {
        let (edges, says) = (Vec::new(), Vec::new());
        self.rows().push(Wanted { kind, certainty, edges, says });
        self
    }

    /// Says that the rows that follow are wanted inside a service, and those before are not.
    pub fn in_a_service(mut self) -> Self {
        self.is_for_service = true;
        self
    }

    fn rows(&mut self) -> &mut Vec<Wanted> {
        if self.is_for_service { &mut self.wanted_in_service } else { &mut self.wanted }
    }

    fn last(&mut self) -> &mut Wanted {
        self.rows().last_mut().expect("`reports` comes first")
    }

    fn wanted(&self, is_service: bool) -> &[Wanted] {
        if is_service && self.is_for_service { &self.wanted_in_service } else { &self.wanted }
    }

    /// Wants an edge: the waiting task, the call and its marker, the holder and its marker, or `""`.
    pub fn edge(
        mut self,
        (task, kind, at): (&'static str, &'static str, &'static str),
        (holder, acquired_at): (&'static str, &'static str),
    ) -> Self {
        self.last().edges.push((task, kind, at, holder, acquired_at));
        self
    }

    /// Wants this in the text of the last report; `@marker` is the file and line of the marker.
    pub fn says(mut self, text: &'static str) -> Self {
        self.last().says.push(text);
        self
    }

    /// Accepts other reports of this kind.
    pub fn tolerates(mut self, kind: &'static str) -> Self {
        self.tolerated.push(kind);
        self
    }

    /// Says that a timer or a signal can end the wait.
    pub fn passes(mut self) -> Self {
        self.passes = true;
        self
    }

    /// Says that nothing can be told inside a service, where any event may bring the end.
    pub fn only_alone(mut self) -> Self {
        self.setting.service = false;
        self
    }

    pub fn only_multi_thread(mut self) -> Self {
        self.setting.current_thread = false;
        self
    }

    /// Says that it needs the cores for itself.
    pub fn busy(mut self) -> Self {
        self.setting.busy = true;
        self
    }

    /// Returns what is wrong with the reports so far: `Ok(true)` if all wanted ones are there.
    pub fn check(&self, reports: &[Report], is_service: bool) -> Result<bool, String> {
        let mut wanted: Vec<&Wanted> = self.wanted(is_service).iter().collect();
        for report in reports {
            if self.passes && report.certainty() == Certainty::Proven {
                return Err(format!("proven, although a timer ends it: {report}"));
            }
            let found = wanted.iter().position(|wanted| wanted.kind == report.kind());
            match found {
                Some(nth) => {
                    self.compare(wanted[nth], report)?;
                    wanted.remove(nth);
                }
                // A second report of a wanted kind, or the end of a `block_on` that waits for the bug.
                None if self.is_tolerated(report, is_service) => {}
                None => return Err(format!("not expected: {report}")),
            }
        }
        Ok(wanted.is_empty())
    }

    fn is_tolerated(&self, report: &Report, is_service: bool) -> bool {
        let kind = report.kind();
        let same_kind = self.wanted(is_service).iter().any(|wanted| wanted.kind == kind);
        // A closure that drives the `block_on` panics with it.
        let ends =
            ["stuck_block_on", "unobserved_panic"].contains(&kind) && !is_service && !self.passes;
        same_kind || ends || self.tolerated.contains(&kind)
    }

    fn compare(&self, wanted: &Wanted, report: &Report) -> Result<(), String> {
        if report.certainty() < wanted.certainty {
            return Err(format!("only {:?}: {report}", report.certainty()));
        }
        let edges: &[Edge] = match report {
            Report::Deadlock(deadlock) => deadlock.edges(),
            Report::Futurelock(futurelock) => futurelock.edges(),
            _ => &[],
        };
        for &(task, kind, at, holder, acquired_at) in &wanted.edges {
            let is_it = |edge: &&Edge| {
                let acquired =
                    edge.acquired_at().map_or(String::new(), |at| site(at.file(), at.line()));
                edge.task().name() == Some(task)
                    && edge.kind() == kind
                    && site(edge.site().file(), edge.site().line()) == self.site_of(at)
                    && edge.holder().name() == Some(holder)
                    && (acquired_at.is_empty() || acquired == self.site_of(acquired_at))
            };
            if edges.iter().find(is_it).is_none() {
                let (at, from) = (self.site_of(at), acquired_at);
                let from = if from.is_empty() { String::new() } else { self.site_of(from) };
                return Err(format!(
                    "no edge {task:?} in {kind} at {at} to {holder:?} since {from}: {report}"
                ));
            }
        }
        if !wanted.edges.is_empty() && edges.len() != wanted.edges.len() {
            return Err(format!("{} edges wanted: {report}", wanted.edges.len()));
        }
        let text = report.to_string();
        for says in &wanted.says {
            let says = self.with_sites(says);
            if !text.contains(&says) {
                return Err(format!("does not say {says:?}: {report}"));
            }
        }
        Ok(())
    }

    /// Replaces `@marker` by the site of the marker. A marker is one word.
    fn with_sites(&self, text: &str) -> String {
        let Some((before, rest)) = text.split_once('@') else { return text.to_owned() };
        let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len());
        format!("{before}{}:{}", self.site_of(&rest[..end]), self.with_sites(&rest[end..]))
    }

    /// Returns the file and line of `//@ marker`, the first below the program's own line.
    ///
    /// A marker on a line of its own stands for the line before: rustfmt puts it there after a `{`.
    fn site_of(&self, marker: &str) -> String {
        let comment = format!("//@ {marker}");
        let begins = format!("fn {}(", self.name);
        let lines = self.source.lines().zip(1..);
        let mut lines = lines.skip_while(|(line, _)| !line.contains(&begins));
        let found = lines.find(|(line, _)| line.ends_with(&comment));
        let (_, line) = found.unwrap_or_else(|| panic!("{} has no marker {marker}", self.name));
        let is_alone = self.source.lines().nth(line as usize - 1).map(str::trim) == Some(&comment);
        site(self.file, line - u32::from(is_alone))
    }
}

fn site(file: &str, line: u32) -> String {
    format!("{file}:{line}")
}

/// A program that looks suspicious and is not.
pub struct Innocent {
    pub name: &'static str,
    pub body: Body,
    /// The kinds of suspected reports that are literally true of it.
    may_be: &'static [&'static str],
    pub only_multi_thread: bool,
    pub busy: bool,
}

/// Makes a row of a function of this module that returns a future.
macro_rules! innocent {
    ($name:ident) => {
        $crate::program::Innocent::new(
            stringify!($name),
            $crate::program::Body::Future(|_| Box::pin($name())),
        )
    };
}
pub(crate) use innocent;

impl Innocent {
    pub fn new(name: &'static str, body: Body) -> Self {
        Self { name, body, may_be: &[], only_multi_thread: false, busy: false }
    }

    /// Allows suspected reports of these kinds.
    pub fn may_be(mut self, kinds: &'static [&'static str]) -> Self {
        self.may_be = kinds;
        self
    }

    pub fn only_multi_thread(mut self) -> Self {
        self.only_multi_thread = true;
        self
    }

    /// Says that it needs the cores for itself.
    pub fn busy(mut self) -> Self {
        self.busy = true;
        self
    }

    /// Returns what is wrong with a report about this program.
    pub fn check(&self, report: &Report) -> Result<(), String> {
        match report.certainty() {
            Certainty::Suspected if self.may_be.contains(&report.kind()) => Ok(()),
            _ => Err(format!("reported, although nothing is wrong: {report}")),
        }
    }
}
