//! Prints a stack, with frames of libraries folded into single lines.

use super::{Functions, StackFrame};
use std::fmt;

impl Functions {
    /// Returns the stack as lines of text. With `full`, no frames are folded.
    pub(super) fn lines(&self, full: bool) -> Vec<String> {
        let frames: Vec<StackFrame<'_>> = self.frames().collect();
        let is_shown = |nth: &usize| full || is_shown(&frames, *nth);
        let mut lines = Vec::new();
        let mut nth = 0;
        while nth < frames.len() {
            let folded = (nth..frames.len()).take_while(|nth| !is_shown(nth)).count();
            if folded > 1 {
                lines.push(Folded(&frames[nth..nth + folded]).to_string());
                nth += folded;
                continue;
            }
            let mut line = format!("{nth:>2}: {}", frames[nth].name);
            if (full || frames[nth].library().is_none())
                && let (Some(file), Some(at)) = (frames[nth].file(), frames[nth].line())
            {
                line += &format!(" at {file}:{at}");
                if let Some(column) = frames[nth].column() {
                    line += &format!(":{column}");
                }
            }
            if self.ends_with_type && nth + 1 == frames.len() {
                line += match self.reaches_poll {
                    true => " (the type of the future; the compiler has inlined its poll)",
                    false => " (the type of the future)",
                };
            }
            lines.push(line);
            nth += 1;
        }
        lines
    }
}

/// How many of the innermost frames are always shown: the system call, and the function that calls it.
const INNERMOST: usize = 2;
/// How many innermost frames are shown if all frames belong to libraries.
const INNERMOST_OF_LIBRARIES: usize = 8;

/// Returns whether a frame is shown when frames of libraries are folded.
///
/// These are the frames of the program, the library functions that they call, and the innermost ones.
fn is_shown(frames: &[StackFrame<'_>], nth: usize) -> bool {
    let is_own = |nth: usize| frames.get(nth).is_some_and(|frame| frame.library().is_none());
    let has_own = (0..frames.len()).any(is_own);
    let innermost = if has_own { INNERMOST } else { INNERMOST_OF_LIBRARIES };
    // The last frame is that of the future, or the nearest to it.
    nth < innermost || is_own(nth) || is_own(nth + 1) || nth + 1 == frames.len()
}

/// A line for several frames of libraries.
struct Folded<'a>(&'a [StackFrame<'a>]);

/// The number of libraries that a line lists.
const MAX_LIBRARIES: usize = 5;

impl fmt::Display for Folded<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut libraries: Vec<&str> = Vec::new();
        for library in self.0.iter().filter_map(StackFrame::library) {
            if !libraries.contains(&library) {
                libraries.push(library);
            }
        }
        write!(f, " … {} frames of ", self.0.len())?;
        let more = libraries.len().saturating_sub(MAX_LIBRARIES);
        f.write_str(&libraries[..libraries.len() - more].join(", "))?;
        if more > 0 {
            write!(f, " and {more} more")?;
        }
        Ok(())
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::super::{Function, Functions, SourceSite};

    const REGISTRY: &str = "/build/.cargo/registry/src/index.crates.io-1949cf8c6b5b557f";

    fn function(name: &str, file: &str, line: u32) -> Function {
        let site = SourceSite { file: file.to_owned(), folder: 0, line, column: None };
        Function { name: name.to_owned(), site: (line > 0).then_some(site), object: None }
    }

    /// A handler of axum that sleeps, as a debug build shows it.
    fn handler() -> Vec<Function> {
        let library = |name: &str, package: &str| {
            function(name, &format!("{REGISTRY}/{package}/src/lib.rs"), 7)
        };
        let std = "/rustc/59807616e1fa/library/std/src/thread/functions.rs";
        let mut functions = vec![
            Function { object: Some("libc.so.6".to_owned()), ..function("clock_nanosleep", "", 0) },
            function("std::thread::functions::sleep", std, 5),
            function("app::query", "/build/app/src/main.rs", 12),
            function("app::handler::{{closure}}", "/build/app/src/main.rs", 20),
        ];
        for nth in 0..10 {
            functions.push(library("<F as axum::handler::Handler<M>>::call", "axum-0.8.4"));
            functions.push(library("tower::util::oneshot", "tower-0.5.2"));
            functions.push(library("hyper::proto::h1::dispatch", "hyper-1.6.0"));
            if nth == 0 {
                functions.push(library("h2::proto::streams", "h2-0.4.10"));
            }
        }
        functions.push(function("wakeful::task::cell::Cell<F,S>::poll::{{closure}}", "x.rs", 9));
        functions.push(function("wakeful::task::runnable::poll", "x.rs", 9));
        functions
    }

    #[test]
    fn frames_of_libraries_are_folded() {
        let future = "hyper_util::server::Connection<app::Service, fn(u8) -> u8>";
        let stack = Functions::new(handler(), Some(future));
        let lines = [
            " 0: clock_nanosleep",
            " 1: std::thread::functions::sleep",
            " 2: app::query at build/app/src/main.rs:12",
            " 3: app::handler::{{closure}} at build/app/src/main.rs:20",
            " … 31 frames of axum, tower, hyper, h2",
            "35: hyper_util::server::Connection<…> (the type of the future; the compiler has inlined \
             its poll)",
        ];
        assert_eq!(stack.lines(false), lines);
        let all = stack.lines(true);
        assert_eq!(all.len(), 36);
        assert_eq!(
            all[4],
            format!(
                " 4: <F as axum::handler::Handler<M>>::call at {REGISTRY}/axum-0.8.4/src/lib.rs:7"
            )
        );
    }

    #[test]
    fn the_library_function_that_the_program_calls_is_shown() {
        let mut functions = vec![function("syscall", "", 0)];
        functions.extend((0..5).map(|_| function("std::sync::mpmc::inner", "", 0)));
        functions.push(function("std::sync::mpsc::Receiver<T>::recv", "", 0));
        functions.push(function("app::work", "", 0));
        let lines = [
            " 0: syscall",
            " 1: std::sync::mpmc::inner",
            " … 4 frames of std",
            " 6: std::sync::mpsc::Receiver<T>::recv",
            " 7: app::work",
        ];
        assert_eq!(Functions::new(functions, None).lines(false), lines);
    }
}
