//! The stack of a thread that is inside a poll, as reports show it.
//!
//! The runtime's frames below the poll are cut off. Frames of libraries ([`library`]) are folded when
//! the stack is printed ([`fold`]), because a reader looks for the program's own frames.

mod fold;
mod library;

use super::symbols::{Detail, Function, SourceSite, functions_at, functions_of_blocked};
use crate::sys::backtrace::{self, NoStack};
pub(crate) use library::is_library_source;
pub(in crate::inspect) use library::is_stdio_source;
use library::{library_of, polls_tasks};
use std::sync::OnceLock;

/// The stack of a thread, up to the future that it polls.
///
/// The functions are looked up when they are first read, because the lookup takes much longer than
/// the capture and the watchdog has other threads to watch.
#[derive(Clone, Debug)]
pub(crate) struct Stack {
    /// The captured return addresses, innermost first.
    addresses: Vec<usize>,
    /// The type of the polled future, if known.
    future: Option<&'static str>,
    functions: OnceLock<Functions>,
}

/// The functions on a stack.
#[derive(Clone, Debug, Default)]
struct Functions {
    /// The functions, innermost first.
    names: Vec<String>,
    /// The origin of each function.
    origins: Vec<Origin>,
    /// Whether the last name is the type of the polled future, because no frame shows the future.
    ends_with_type: bool,
    /// Whether the frames reach the runtime's function that polls the future.
    reaches_poll: bool,
    /// Why there are no frames.
    missing: Option<NoStack>,
}

/// The origin of a function.
#[derive(Clone, Debug, Default)]
struct Origin {
    site: Option<SourceSite>,
    /// The library that it belongs to; `None` for code of the program.
    library: Option<String>,
}

/// A function on a captured stack. Returned by [`Blocked::frames`](super::Blocked::frames).
///
/// # Examples
///
/// ```
/// use std::sync::mpsc;
/// use std::time::Duration;
/// use wakeful::inspect::Report;
/// use wakeful::runtime::Builder;
///
/// # fn main() -> std::io::Result<()> {
/// let (tx, rx) = mpsc::channel();
/// let rt = Builder::new_multi_thread()
///     .report_blocked_after(Some(Duration::from_millis(30)))
///     .on_report(move |report| drop(tx.send(report.clone())))
///     .build()?;
/// rt.block_on(rt.spawn(async move {
///     // Blocks its worker until the report arrives.
///     let Ok(Report::Blocked(blocked)) = rx.recv() else { panic!("another report") };
///     for frame in blocked.frames() {
///         let (file, line) = (frame.file().unwrap_or("?"), frame.line().unwrap_or(0));
///         println!("{} at {file}:{line}", frame.function());
///     }
/// })).unwrap();
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug)]
pub struct StackFrame<'a> {
    name: &'a str,
    origin: &'a Origin,
}

impl<'a> StackFrame<'a> {
    /// Returns the path of the function, or its address if the program has no symbols.
    pub fn function(&self) -> &'a str {
        self.name
    }

    /// Returns the source file, if the program has debug information.
    ///
    /// The path of a file of the program is relative to the folder in which it was compiled.
    pub fn file(&self) -> Option<&'a str> {
        let site = self.origin.site.as_ref()?;
        Some(match self.origin.library {
            None => site.file[site.folder..].trim_start_matches('/'),
            Some(_) => &site.file,
        })
    }

    /// Returns the line in the source file.
    pub fn line(&self) -> Option<u32> {
        Some(self.origin.site.as_ref()?.line)
    }

    /// Returns the column in that line, counted from 1.
    pub fn column(&self) -> Option<u32> {
        self.origin.site.as_ref()?.column
    }

    /// Returns the library that the function belongs to, or `None` for code of the program.
    ///
    /// The library is derived from the path of the source file, or from the crate name.
    pub fn library(&self) -> Option<&'a str> {
        self.origin.library.as_deref()
    }
}

/// Returns the stack of a polling thread as lines of text, or the reason why there is none.
pub(crate) fn stack_text(thread: i32) -> Vec<String> {
    let stack = Stack::capture(thread, None);
    let missing = stack.missing().map(|missing| missing.to_string());
    missing.into_iter().chain(stack.lines(shows_all_frames())).collect()
}

/// Returns whether the user asked to see the frames of libraries.
pub(crate) fn shows_all_frames() -> bool {
    std::env::var_os("WAKEFUL_BACKTRACE").is_some_and(|value| value == "full")
}

impl Stack {
    /// Captures the stack of a thread that polls a future. `future` is the future's type, if known.
    pub(crate) fn capture(thread: i32, future: Option<&'static str>) -> Self {
        let (addresses, functions) = match backtrace::capture(thread) {
            Ok(addresses) => (addresses, OnceLock::new()),
            Err(missing) => (Vec::new(), Functions::of_blocked(thread, missing, future).into()),
        };
        Self { addresses, future, functions }
    }

    fn functions(&self) -> &Functions {
        let look_up = || functions_at(&self.addresses, Detail::Lines);
        self.functions.get_or_init(|| Functions::new(look_up(), self.future))
    }

    pub(crate) fn names(&self) -> &[String] {
        &self.functions().names
    }

    pub(crate) fn frames(&self) -> impl Iterator<Item = StackFrame<'_>> {
        self.functions().frames()
    }

    /// Returns why no frame was captured.
    pub(crate) fn missing(&self) -> Option<NoStack> {
        self.functions().missing
    }

    /// Returns the stack as lines of text. With `full`, no frames are folded.
    pub(crate) fn lines(&self, full: bool) -> Vec<String> {
        self.functions().lines(full)
    }
}

impl Functions {
    /// Reads the stack of a thread from outside, without interrupting the thread.
    fn of_blocked(thread: i32, missing: NoStack, future: Option<&str>) -> Self {
        let functions = functions_of_blocked(thread, polls_a_future);
        if !functions.is_empty() {
            return Self::new(functions, future);
        }
        let mut stack = Self { missing: Some(missing), ..Self::default() };
        stack.end_with_type(future);
        stack
    }

    fn new(mut functions: Vec<Function>, future: Option<&str>) -> Self {
        let is_poll = |function: &Function| {
            let file = function.site.as_ref().map(|site| &*site.file);
            polls_a_future(&function.name) || file.is_some_and(polls_tasks)
        };
        let end = functions.iter().position(is_poll);
        if let Some(end) = end {
            // If the compiler has inlined everything into the poll, the poll is all there is.
            functions.truncate(end.max(1));
        }
        let mut stack = Self { reaches_poll: end.is_some(), ..Self::default() };
        for Function { name, site, object } in functions {
            let library = library_of(&name, site.as_ref(), object.as_deref());
            stack.names.push(name);
            stack.origins.push(Origin { site, library });
        }
        stack.end_with_type(future);
        stack
    }

    /// Adds the type of the future, unless a frame is its poll.
    fn end_with_type(&mut self, future: Option<&str>) {
        let Some(future) = future.map(readable_type) else { return };
        let normal = |name: &str| normal_closures(name.trim_start_matches('<'));
        let wanted = normal(&future);
        // A frame has the parameters of a generic type, not its arguments.
        let path = wanted.split('<').next().unwrap_or_default();
        // Either the body of an async block, or the `poll` of a named type.
        let is_poll = |name: &String| {
            let name = normal(name);
            name == wanted || (name.starts_with(path) && name.ends_with("::poll"))
        };
        if !self.names.iter().any(is_poll) {
            self.origins
                .push(Origin { library: library_of(&future, None, None), ..Origin::default() });
            self.names.push(future);
            self.ends_with_type = true;
        }
    }

    fn frames(&self) -> impl Iterator<Item = StackFrame<'_>> {
        let frames = self.names.iter().zip(&self.origins);
        frames.map(|(name, origin)| StackFrame { name, origin })
    }
}

/// Returns whether this function of the runtime polls a task or the future of a `block_on`.
fn polls_a_future(name: &str) -> bool {
    // The two manglings write a method as `Type<T>::method` and as `<Type<T>>::method`.
    let name = name.trim_start_matches('<');
    name.starts_with("wakeful::task::cell::Cell<")
        || name == "wakeful::task::runnable::poll"
        || name.starts_with("wakeful::task::context::poll_block_on")
        || (name.starts_with("wakeful::scheduler::")
            && !name.starts_with("wakeful::scheduler::local_set::"))
}

/// Returns the name of a future's type without generic arguments, and without the runtime's wrapper.
fn readable_type(name: &str) -> String {
    let member = name.strip_prefix("wakeful::scheduler::local_set::Member<");
    let name = member.and_then(|name| name.strip_suffix('>')).unwrap_or(name);
    let Some(start) = name.find('<').filter(|start| *start > 0) else { return name.to_owned() };
    let mut depth = 0usize;
    let mut readable = name[..start].to_owned();
    let mut before = ' ';
    for char in name[start..].chars() {
        match char {
            '<' => {
                if depth == 0 {
                    readable.push_str("<…>");
                }
                depth += 1;
            }
            '>' if before != '-' => depth = depth.saturating_sub(1),
            char if depth == 0 => readable.push(char),
            _ => {}
        }
        before = char;
    }
    readable
}

/// Normalizes the closures and async blocks of a path, which the two manglings write differently.
fn normal_closures(path: &str) -> String {
    let segment = |segment: &str| match segment.starts_with('{') {
        true => "{{closure}}".to_owned(),
        false => segment.to_owned(),
    };
    path.split("::").map(segment).collect::<Vec<_>>().join("::")
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::{Function, Functions, polls_a_future, readable_type};
    use crate::sys::backtrace::NoStack;

    fn stack(names: &[&str], future: Option<&str>) -> Functions {
        let function =
            |name: &&str| Function { name: (*name).to_owned(), site: None, object: None };
        Functions::new(names.iter().map(function).collect(), future)
    }

    #[test]
    fn a_stack_is_never_empty() {
        let poll = "wakeful::task::cell::Cell<F,S>::poll";
        let inlined = stack(&[poll], Some("app::main::{{closure}}"));
        assert_eq!(inlined.names, [poll, "app::main::{{closure}}"]);
        let block_on = "wakeful::scheduler::current_thread::CurrentThread::block_on";
        assert_eq!(stack(&[block_on], None).names, [block_on]);
        let mut missing =
            Functions { missing: Some(NoStack::WouldInterrupt), ..Functions::default() };
        missing.end_with_type(Some("app::main::{{closure}}"));
        assert_eq!(missing.lines(false), [" 0: app::main::{{closure}} (the type of the future)"]);
        // Only libraries: some of them are shown.
        assert_eq!(stack(&["core::hint::spin_loop"; 20], None).lines(false).len(), 10);
    }

    #[test]
    fn a_frame_that_is_the_future_is_recognised_in_both_manglings() {
        for (frame, future) in [
            ("app::main::{{closure}}", "app::main::{{closure}}"),
            ("app::main::{closure#0}", "app::main::{{closure}}"),
            ("app::main::{async_block#0}", "app::main::{{closure}}"),
            ("<app::Task as core::future::future::Future>::poll", "app::Task"),
            ("app::f::{{closure}}", "wakeful::scheduler::local_set::Member<app::f::{{closure}}>"),
            (
                "<core::future::poll_fn::PollFn<F> as core::future::future::Future>::poll",
                "core::future::poll_fn::PollFn<app::main::{{closure}}>",
            ),
        ] {
            assert_eq!(stack(&[frame], Some(future)).names, [frame]);
        }
        let other = stack(&["app::other"], Some("app::main::{{closure}}"));
        assert_eq!(other.names.len(), 2);
    }

    #[test]
    fn the_frames_that_poll_a_task_are_known_in_both_manglings() {
        for name in [
            "wakeful::task::cell::Cell<F,S>::poll",
            "<wakeful::task::cell::Cell<app::main::{closure#0}, app::S>>::poll",
            "wakeful::scheduler::current_thread::CurrentThread::block_on",
            "<wakeful::scheduler::current_thread::run_loop::CurrentThread>::run",
            "wakeful::scheduler::external_block_on::<impl wakeful::scheduler::base::SchedulerBase>::block_on",
            "wakeful::task::context::poll_block_on",
        ] {
            assert!(polls_a_future(name), "{name}");
        }
        for name in [
            "<app::Task as core::future::Future>::poll",
            "wakeful::scheduler::local_set::LocalScheduler::in_poll",
        ] {
            assert!(!polls_a_future(name), "{name}");
        }
    }

    #[test]
    fn types_are_shown_without_generic_arguments() {
        for (name, readable) in [
            ("app::main::{{closure}}", "app::main::{{closure}}"),
            ("a::B<c::D<E>, fn() -> F>::g::{{closure}}", "a::B<…>::g::{{closure}}"),
            ("<a::B as c::D>::f::{{closure}}", "<a::B as c::D>::f::{{closure}}"),
        ] {
            assert_eq!(readable_type(name), readable);
        }
    }
}
