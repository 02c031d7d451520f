//! Names the functions at addresses of the program and its libraries.
//!
//! Names come from the symbol tables, which release builds have too. Debug information, if present,
//! adds files, lines and inlined functions.
//!
//! - [`elf`] reads a file. [`debug_info`] reads its lines. [`names`] makes symbols readable.
//! - `unwind` walks the stack of a thread that must not be interrupted.

mod debug_info;
mod elf;
mod names;
#[cfg(target_arch = "x86_64")]
mod unwind;

use crate::sys::backtrace;
use crate::sys::sort::sort_by_key;
use debug_info::DebugInfo;
use elf::Elf;
use std::path::{Path, PathBuf};

/// A function at an address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Function {
    /// The path of the function. If it is unknown, the address in the file and the file's name.
    pub(super) name: String,
    pub(super) site: Option<SourceSite>,
    /// The file name of the shared library that it is in; `None` for the program itself.
    pub(super) object: Option<String>,
}

/// A site in a source file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SourceSite {
    /// The whole path.
    pub(super) file: String,
    /// The length of the prefix of the path that is the compilation directory.
    pub(super) folder: usize,
    pub(super) line: u32,
    pub(super) column: Option<u32>,
}

/// Returns the names of the functions on a thread's stack, innermost first, without inlined ones.
///
/// Empty if the stack can't be captured.
pub(crate) fn stack_of(thread: i32) -> Vec<String> {
    let frames = backtrace::capture(thread).unwrap_or_default();
    let functions = functions_at(&frames, Detail::Symbols);
    functions.into_iter().map(|function| function.name).collect()
}

/// The level of detail for each address.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Detail {
    /// One function, by the symbol table.
    Symbols,
    /// Lines and inlined functions as well, where there is debug information.
    Lines,
}

/// Returns the functions on the stack of a thread that is blocked in a system call, without
/// interrupting it. The list may end early, and is empty if the thread is not blocked.
///
/// `is_end` recognises the function that the thread is known to be in.
#[cfg(target_arch = "x86_64")]
pub(super) fn functions_of_blocked(thread: i32, is_end: impl Fn(&str) -> bool) -> Vec<Function> {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap_or_default();
    let walked = unwind::walk(thread, &MemoryMap::parse(&maps), &Program::find());
    let walked = walked.unwrap_or_default();
    let functions = functions_at(&walked.addresses, Detail::Lines);
    if functions.iter().any(|function| is_end(&function.name)) {
        return functions;
    }
    functions_at(&walked.addresses[..walked.certain], Detail::Lines)
}

/// Returns nothing: only x86-64 is supported.
#[cfg(not(target_arch = "x86_64"))]
pub(super) fn functions_of_blocked(_thread: i32, _is_end: impl Fn(&str) -> bool) -> Vec<Function> {
    Vec::new()
}

/// Names the functions of a stack. `frames` are its return addresses, innermost first.
pub(super) fn functions_at(frames: &[usize], detail: Detail) -> Vec<Function> {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap_or_default();
    let map = MemoryMap::parse(&maps);
    let program = Program::find();
    let mut files: Vec<&str> = map.0.iter().map(|mapping| mapping.path).collect();
    sort_by_key(&mut files, |file| *file);
    files.dedup();
    let mut found: Vec<Vec<Function>> = vec![Vec::new(); frames.len()];
    for file in files {
        let inside = |(nth, address): (usize, &usize)| {
            // All addresses but the first are return addresses, one past the call.
            let address = (*address as u64).saturating_sub(u64::from(nth > 0));
            let mapping = map.at(address).filter(|mapping| mapping.path == file)?;
            Some((nth, address - mapping.start + mapping.offset))
        };
        let offsets: Vec<(usize, u64)> = frames.iter().enumerate().filter_map(inside).collect();
        if !offsets.is_empty() {
            name_functions(file, &program, &offsets, detail, &mut found);
        }
    }
    let unnamed =
        |address: &usize| Function { name: format!("{address:#x}"), site: None, object: None };
    let named = frames.iter().zip(found);
    named
        .flat_map(|(address, functions)| match functions.is_empty() {
            true => vec![unnamed(address)],
            false => functions,
        })
        .collect()
}

/// Names the functions at offsets of one file. `offsets` pairs indices into `found` with offsets.
///
/// If the file can't be read, its functions remain unnamed.
fn name_functions(
    file: &str,
    program: &Program,
    offsets: &[(usize, u64)],
    detail: Detail,
    found: &mut [Vec<Function>],
) {
    let Some(elf) = program.open(file) else { return };
    let addresses: Vec<(usize, u64)> =
        offsets.iter().filter_map(|(nth, offset)| Some((*nth, elf.to_address(*offset)?))).collect();
    let symbols = elf.symbols(&addresses.iter().map(|(_, address)| *address).collect::<Vec<_>>());
    let debug_info = (detail == Detail::Lines).then(|| DebugInfo::of(&elf)).flatten();
    let file_name = Path::new(file).file_name().unwrap_or_default().to_string_lossy();
    let object = (!program.is(file)).then(|| file_name.to_string());
    for ((nth, address), symbol) in addresses.into_iter().zip(symbols) {
        let mut functions =
            debug_info.as_ref().map_or_else(Vec::new, |info| info.functions(address, symbol));
        if functions.is_empty() {
            // Input for `addr2line` with a file that is not stripped.
            let unnamed = || format!("{address:#x} in {file_name}");
            let name = symbol.map_or_else(unnamed, names::readable);
            functions.push(Function { name, site: None, object: None });
        }
        for function in &mut functions {
            function.object.clone_from(&object);
        }
        found[nth] = functions;
    }
}

/// The file of the program.
struct Program {
    path: Option<PathBuf>,
}

impl Program {
    fn find() -> Self {
        let path = std::fs::read_link("/proc/self/exe").ok();
        let path = path.map(|path| match path.to_str().and_then(|it| it.strip_suffix(DELETED)) {
            Some(before) => PathBuf::from(before),
            None => path,
        });
        Self { path }
    }

    fn is(&self, file: &str) -> bool {
        self.path.as_deref() == Some(Path::new(file))
    }

    /// Opens the program or a library.
    fn open(&self, file: &str) -> Option<Elf> {
        if self.is(file) { Elf::open_program() } else { Elf::open_library(Path::new(file)) }
    }
}

/// The suffix that the kernel appends to the path of a deleted or replaced file.
const DELETED: &str = " (deleted)";

/// The mappings of the process: memory and files.
struct MemoryMap<'a>(Vec<Mapping<'a>>);

impl<'a> MemoryMap<'a> {
    /// Parses `/proc/self/maps`.
    fn parse(maps: &'a str) -> Self {
        Self(maps.lines().filter_map(Mapping::parse).collect())
    }

    fn find(&self, address: u64) -> Option<&Mapping<'a>> {
        self.0.iter().find(|mapping| mapping.contains(address))
    }

    /// Returns the file mapping at an address.
    fn at(&self, address: u64) -> Option<&Mapping<'a>> {
        self.find(address).filter(|mapping| !mapping.path.is_empty())
    }
}

/// A mapping of the process.
struct Mapping<'a> {
    start: u64,
    end: u64,
    offset: u64,
    /// Empty if no file is mapped.
    path: &'a str,
}

impl<'a> Mapping<'a> {
    /// Parses a line of `/proc/self/maps`.
    fn parse(line: &'a str) -> Option<Self> {
        let path = line.find('/').map_or("", |at| &line[at..]);
        let mut words = line.split_ascii_whitespace();
        let (start, end) = words.next()?.split_once('-')?;
        let offset = words.nth(1)?;
        let number = |text: &str| u64::from_str_radix(text, 16).ok();
        let path = path.strip_suffix(DELETED).unwrap_or(path);
        Some(Self { start: number(start)?, end: number(end)?, offset: number(offset)?, path })
    }

    fn contains(&self, address: u64) -> bool {
        (self.start..self.end).contains(&address)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::{Detail, Mapping, functions_at, stack_of};
    use crate::sys::backtrace;
    use std::sync::mpsc;
    use std::thread;

    #[test]
    fn the_lines_of_the_memory_map_are_read() {
        let line = "55d0-55e0 r-xp 0000f000 08:01 1234    /a folder/program (deleted)";
        let mapping = Mapping::parse(line).unwrap();
        let numbers = (mapping.start, mapping.end, mapping.offset);
        assert_eq!((numbers, mapping.path), ((0x55d0, 0x55e0, 0xf000), "/a folder/program"));
        let stack = Mapping::parse("55d0-55e0 rw-p 00000000 00:00 0    [stack]").unwrap();
        assert_eq!((stack.end, stack.path), (0x55e0, ""));
        assert!(Mapping::parse("").is_none());
    }

    #[test]
    #[cfg(not(miri))]
    fn an_address_without_a_symbol_has_its_file() {
        static NO_FUNCTION: u64 = 7;
        let program = std::env::current_exe().unwrap();
        let program = program.file_name().unwrap().to_str().unwrap();
        let [found] = &functions_at(&[&raw const NO_FUNCTION as usize], Detail::Symbols)[..] else {
            panic!("one function for one address");
        };
        let (address, file) = found.name.split_once(" in ").unwrap();
        assert!(address.starts_with("0x") && file == program, "{}", found.name);
        // It still counts as code of the program.
        assert_eq!(found.object, None);
    }

    #[inline(never)]
    fn waits_in_here(release: &mpsc::Receiver<()>) {
        waits_inlined(release);
        std::hint::black_box(()); // keeps the call above from being a jump, with optimization
    }

    #[inline(always)]
    fn waits_inlined(release: &mpsc::Receiver<()>) {
        let _ = release.recv();
    }

    /// The line of the call in `waits_inlined`.
    const LINE: u32 = line!() - 4;

    #[test]
    #[cfg(all(target_env = "gnu", not(miri)))]
    fn the_stack_of_a_waiting_thread_names_its_functions() {
        let (release, released) = mpsc::channel::<()>();
        let (tx, rx) = mpsc::channel();
        let thread = thread::spawn(move || {
            tx.send(backtrace::current_tid()).unwrap();
            waits_in_here(&released);
        });
        let number = rx.recv().unwrap();
        // The thread has sent its id and may not have reached the function yet.
        let stack = loop {
            let stack = stack_of(number);
            assert!(!stack.is_empty(), "the stack is captured");
            if stack.iter().any(|name| name.ends_with("waits_in_here")) {
                break stack;
            }
        };
        assert!(!stack.iter().any(|name| name.contains("backtrace::imp::handle")), "{stack:#?}");
        let frames = backtrace::capture(number).unwrap();
        let functions = functions_at(&frames, Detail::Lines);
        drop(release);
        thread.join().unwrap();
        assert_eq!(stack_of(number), Vec::<String>::new(), "gone");
        if cfg!(debug_assertions) {
            let at = functions.iter().position(|it| it.name.ends_with("waits_inlined")).unwrap();
            let site = functions[at].site.as_ref().unwrap();
            assert_eq!((&site.file[site.folder..], site.line), (&*format!("/{}", file!()), LINE));
            assert!(functions[at + 1].name.ends_with("waits_in_here"), "{functions:#?}");
        }
    }
}
