//! Counts the outcomes of a suite's tests.

use std::collections::BTreeMap;
use std::ops::AddAssign;

use super::reasons;
use super::suite::{Kind, Suite, area_of, areas};

/// The outcome of one test.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    Passed,
    Failed,
    Hung,
    /// The suite itself ignores it.
    Ignored,
    /// It does not pass with the real tokio on this machine either, so it does not count.
    FailsWithTokioToo,
}

/// The outcomes of one test file.
pub struct FileResult {
    pub name: String,
    pub tests: Vec<(String, Outcome)>,
    /// Why it does not compile, if it does not.
    pub refused: Option<String>,
    /// How many tests are lost by that, if known.
    pub lost: usize,
    pub note: Option<String>,
}

impl FileResult {
    pub fn new(name: &str) -> Self {
        Self { name: name.to_owned(), tests: Vec::new(), refused: None, lost: 0, note: None }
    }

    pub fn not_compiling(name: &str, why: String) -> Self {
        Self { refused: Some(why), ..Self::new(name) }
    }

    pub fn counts(&self) -> Counts {
        let mut counts = Counts {
            files: usize::from(self.refused.is_some() || !self.tests.is_empty()),
            not_compiling: self.lost,
            files_not_compiling: usize::from(self.refused.is_some()),
            ..Counts::default()
        };
        for (_, outcome) in &self.tests {
            let place = match outcome {
                Outcome::Passed => &mut counts.passed,
                Outcome::Failed => &mut counts.failed,
                Outcome::Hung => &mut counts.hung,
                Outcome::Ignored => continue,
                Outcome::FailsWithTokioToo => &mut counts.fails_with_tokio_too,
            };
            *place += 1;
        }
        counts
    }

    /// The tests that count and do not pass.
    pub fn not_passing(&self) -> impl Iterator<Item = (&str, Outcome)> {
        let tests = self.tests.iter().map(|(test, outcome)| (test.as_str(), *outcome));
        tests.filter(|(_, outcome)| matches!(outcome, Outcome::Failed | Outcome::Hung))
    }

    pub fn line(&self) -> String {
        let name = &self.name;
        if let Some(why) = &self.refused {
            return format!("  {name:36} does not compile: {why}");
        }
        let Counts { passed, failed, hung, .. } = self.counts();
        let note = self.note.as_deref().unwrap_or_default();
        format!("  {name:36} {passed:4} passed {failed:3} failed {hung:3} hung  {note}")
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Files with tests for this platform.
    pub files: usize,
    pub passed: usize,
    pub failed: usize,
    pub hung: usize,
    /// Tests in files that do not compile, and those files.
    pub not_compiling: usize,
    pub files_not_compiling: usize,
    pub fails_with_tokio_too: usize,
}

impl AddAssign for Counts {
    fn add_assign(&mut self, other: Self) {
        self.files += other.files;
        self.passed += other.passed;
        self.failed += other.failed;
        self.hung += other.hung;
        self.not_compiling += other.not_compiling;
        self.files_not_compiling += other.files_not_compiling;
        self.fails_with_tokio_too += other.fails_with_tokio_too;
    }
}

impl Counts {
    /// The tests that count.
    pub fn total(&self) -> usize {
        self.passed + self.failed + self.hung + self.not_compiling
    }

    pub fn percent(&self) -> f64 {
        100.0 * self.passed as f64 / self.total().max(1) as f64
    }
}

/// The outcomes of one suite.
pub struct SuiteResult {
    pub suite: &'static Suite,
    pub title: String,
    /// Whether it was compiled with `--cfg tokio_unstable`.
    pub unstable: bool,
    pub files: Vec<FileResult>,
    /// What the real tokio does with the same tests.
    pub on_tokio: Option<Counts>,
    /// Tests that pass on wakeful and not with the real tokio.
    pub only_on_wakeful: Vec<String>,
    /// How many reports of each kind wakeful has made.
    pub reports: BTreeMap<String, usize>,
}

impl SuiteResult {
    pub fn new(suite: &'static Suite, title: String, unstable: bool) -> Self {
        let (files, only_on_wakeful, reports) = Default::default();
        Self { suite, title, unstable, files, on_tokio: None, only_on_wakeful, reports }
    }

    /// Counts the lines of the file that wakeful appends its reports to. Each begins with the kind.
    pub fn count_reports(&mut self, lines: &str) {
        for kind in lines.lines().filter_map(|line| line.split('\t').next()) {
            *self.reports.entry(kind.replace('_', " ")).or_default() += 1;
        }
    }

    /// Why the tests cause reports of this kind, where that is intended.
    pub fn report_reason(&self, kind: &str) -> Option<&'static str> {
        reasons::report_reason(self.suite.name, kind)
    }

    pub fn counts(&self) -> Counts {
        sum(self.files.iter())
    }

    /// The numbers of each area that has any.
    pub fn by_area(&self) -> Vec<(&'static str, Counts)> {
        if self.suite.kind != Kind::OfTokio {
            return vec![(self.suite.name, self.counts())];
        }
        areas()
            .map(|area| (area, sum(self.files.iter().filter(|file| area_of(&file.name) == area))))
            .filter(|(_, counts)| counts.files > 0)
            .collect()
    }

    /// Marks the tests that do not pass with the real tokio either: they do not count.
    pub fn compare(&mut self, baseline: &SuiteResult) {
        self.on_tokio = Some(baseline.counts());
        for theirs in &baseline.files {
            let Some(ours) = self.files.iter_mut().find(|file| file.name == theirs.name) else {
                continue;
            };
            if ours.refused.is_some() {
                ours.lost = theirs.tests.len();
            }
            if theirs.refused.is_some() && ours.refused.take().is_some() {
                ours.note = Some("does not compile with the real tokio either".to_owned());
            }
            for (test, _) in theirs.not_passing() {
                match ours.tests.iter_mut().find(|(name, _)| name == test) {
                    Some((_, Outcome::Passed)) => {
                        self.only_on_wakeful.push(format!("{}::{test}", ours.name));
                    }
                    Some((_, outcome)) if *outcome != Outcome::Ignored => {
                        *outcome = Outcome::FailsWithTokioToo;
                    }
                    _ => {}
                }
            }
        }
    }

    /// Returns whether nothing hangs, everything compiles, and every failure and kind of report has a reason.
    pub fn is_as_expected(&self) -> bool {
        let Counts { hung, files_not_compiling, .. } = self.counts();
        let explained = |file: &FileResult| {
            file.not_passing().all(|(test, _)| self.reason(file, test).is_some())
        };
        let reported = |kind: &String| self.report_reason(kind).is_some();
        hung + files_not_compiling == 0
            && self.files.iter().all(explained)
            && self.reports.keys().all(reported)
    }

    /// Why a test does not pass, where that is intended.
    pub fn reason(&self, file: &FileResult, test: &str) -> Option<&'static str> {
        reasons::reason(self.suite.name, &file.name, test)
    }

    pub fn print(&self) {
        println!("{}", self.title);
        for (area, counts) in self.by_area() {
            println!("  {area:14} {}", line(&counts));
        }
        println!("  {:14} {}, {:.2} %", "all", line(&self.counts()), self.counts().percent());
        for file in &self.files {
            for (test, outcome) in file.not_passing() {
                let why = self.reason(file, test).unwrap_or("NO REASON IS KNOWN");
                println!("  {}::{test}: {outcome:?}: {why}", file.name);
            }
        }
        for (kind, number) in &self.reports {
            let why = self.report_reason(kind).unwrap_or("NO REASON IS KNOWN");
            println!("  reports: {number} {kind}: {why}");
        }
    }
}

fn sum<'f>(files: impl Iterator<Item = &'f FileResult>) -> Counts {
    files.fold(Counts::default(), |mut sum, file| {
        sum += file.counts();
        sum
    })
}

fn line(counts: &Counts) -> String {
    let Counts { passed, failed, hung, files_not_compiling, fails_with_tokio_too, .. } = counts;
    format!(
        "{passed:5} passed {failed:3} failed {hung:3} hung {files_not_compiling:3} files not compiling \
         {fails_with_tokio_too:3} failing with tokio too"
    )
}

#[cfg(test)]
mod tests {
    use super::super::suite::SUITES;
    use super::*;

    fn result(outcomes: [Outcome; 4]) -> SuiteResult {
        let mut result = SuiteResult::new(&SUITES[0], "tokio".into(), false);
        let mut file = FileResult::new("fs");
        file.tests = ["a", "b", "c", "d"].map(str::to_owned).into_iter().zip(outcomes).collect();
        result.files = vec![file];
        result
    }

    #[test]
    fn a_comparison_leaves_what_only_wakeful_fails() {
        use Outcome::{Failed, FailsWithTokioToo, Hung, Passed};
        let mut ours = result([Passed, Passed, Failed, Hung]);
        ours.compare(&result([Passed, Failed, Hung, Passed]));
        let outcomes: Vec<Outcome> = ours.files[0].tests.iter().map(|test| test.1).collect();
        assert_eq!(outcomes, [Passed, Passed, FailsWithTokioToo, Hung]);
        assert_eq!(ours.only_on_wakeful, ["fs::b"]);
        assert_eq!(ours.on_tokio.unwrap().passed, 2);
        assert!(!ours.is_as_expected());
    }

    #[test]
    fn reports_without_a_reason_are_not_expected() {
        let mut ours = result([Outcome::Passed; 4]);
        ours.count_reports("orphan\tprogram\ttime\ttext\nnever_polled\tprogram\ttime\ttext\n");
        ours.count_reports("orphan\tprogram\ttime\ttext\n");
        assert_eq!((ours.reports["orphan"], ours.reports["never polled"]), (2, 1));
        assert!(ours.is_as_expected());
        ours.count_reports("deadlock\tprogram\ttime\ttext\n");
        assert!(!ours.is_as_expected());
    }

    #[test]
    fn what_fails_with_tokio_too_does_not_count() {
        let mut file = FileResult::new("fs_file");
        file.tests = [Outcome::Passed, Outcome::FailsWithTokioToo, Outcome::Ignored, Outcome::Hung]
            .map(|outcome| (format!("{outcome:?}"), outcome))
            .into();
        let counts = file.counts();
        assert_eq!((counts.total(), counts.passed, counts.hung), (2, 1, 1));
        assert_eq!(file.not_passing().collect::<Vec<_>>(), [("Hung", Outcome::Hung)]);
    }
}
