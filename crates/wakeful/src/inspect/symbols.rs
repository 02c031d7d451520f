//! Names the functions of a stack, by the symbol tables of the program and its libraries.
//!
//! A release build has no other debug information, so the names come without line numbers.

use crate::sys::backtrace;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

/// Returns the functions on a thread's stack, innermost first, up to the task's future.
///
/// Empty if the stack can't be captured. The runtime's own frames below the task are left out.
pub(crate) fn stack_of(thread: i32) -> Vec<String> {
    let frames = backtrace::capture(thread);
    if frames.is_empty() {
        return Vec::new();
    }
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap_or_default();
    let mapped: Vec<Mapping<'_>> = maps.lines().filter_map(Mapping::parse).collect();
    let mut names = vec![None; frames.len()];
    let mut files: Vec<&str> = mapped.iter().map(|mapping| mapping.path).collect();
    files.dedup();
    files.sort_unstable();
    files.dedup();
    for file in files {
        let inside: Vec<(usize, u64)> = frames
            .iter()
            .enumerate()
            .filter_map(|(nth, address)| {
                // All addresses but the first are return addresses, one past the call.
                let address = (*address as u64).saturating_sub(u64::from(nth > 0));
                let mapping = mapped.iter().find(|it| it.path == file && it.contains(address))?;
                Some((nth, address - mapping.start + mapping.offset))
            })
            .collect();
        if !inside.is_empty() {
            // If the file can't be read or is no ELF file, its frames stay without names.
            let _ = name_functions(file, &inside, &mut names);
        }
    }
    let named = frames.iter().zip(names);
    let mut stack: Vec<String> =
        named.map(|(address, name)| name.unwrap_or_else(|| format!("{address:#x}"))).collect();
    if let Some(end) = stack.iter().position(|name| polls_the_task(name)) {
        stack.truncate(end);
    }
    stack
}

/// Returns whether this function of the runtime polls a task or the future of `block_on`.
fn polls_the_task(name: &str) -> bool {
    // The two manglings write a method as `Type<T>::method` and as `<Type<T>>::method`.
    let name = name.trim_start_matches('<');
    name.starts_with("wakeful::task::cell::Cell<")
        || name == "wakeful::task::runnable::poll"
        || name.starts_with("wakeful::scheduler::current_thread::")
}

/// A file mapping of the process.
struct Mapping<'a> {
    start: u64,
    end: u64,
    offset: u64,
    path: &'a str,
}

impl<'a> Mapping<'a> {
    /// Parses a line of `/proc/self/maps`.
    fn parse(line: &'a str) -> Option<Self> {
        let mut words = line.split_ascii_whitespace();
        let (start, end) = words.next()?.split_once('-')?;
        let offset = words.nth(1)?;
        let path = words.nth(2).filter(|path| path.starts_with('/'))?;
        let number = |text: &str| u64::from_str_radix(text, 16).ok();
        Some(Self { start: number(start)?, end: number(end)?, offset: number(offset)?, path })
    }

    fn contains(&self, address: u64) -> bool {
        (self.start..self.end).contains(&address)
    }
}

/// A 64-bit little-endian ELF file.
struct Elf(File);

/// A section header.
#[derive(Clone, Copy)]
struct Section {
    kind: u32,
    offset: u64,
    size: u64,
    link: u32,
}

const SYMTAB: u32 = 2;
const DYNSYM: u32 = 11;
const SYMBOL_BYTES: usize = 24;
const FUNCTION: u8 = 2;

fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes([bytes[at], bytes[at + 1]])
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from(u16_at(bytes, at)) | u32::from(u16_at(bytes, at + 2)) << 16
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from(u32_at(bytes, at)) | u64::from(u32_at(bytes, at + 4)) << 32
}

fn not_elf() -> io::Error {
    io::Error::other("no 64-bit little-endian ELF file")
}

impl Elf {
    fn read(&self, offset: u64, size: u64) -> io::Result<Vec<u8>> {
        let size = usize::try_from(size).map_err(io::Error::other)?;
        let mut bytes = vec![0; size];
        self.0.read_exact_at(&mut bytes, offset)?;
        Ok(bytes)
    }

    /// Converts file offsets to virtual addresses.
    fn to_addresses(
        &self,
        header: &[u8],
        offsets: &[(usize, u64)],
    ) -> io::Result<Vec<(usize, u64)>> {
        let (size, count) = (u16_at(header, 54), u16_at(header, 56));
        let table = self.read(u64_at(header, 32), u64::from(size) * u64::from(count))?;
        let loads: Vec<(u64, u64, u64)> = table
            .chunks_exact(usize::from(size.max(56)))
            .filter(|entry| u32_at(entry, 0) == 1)
            .map(|entry| (u64_at(entry, 8), u64_at(entry, 16), u64_at(entry, 32)))
            .collect();
        let address = |offset: u64| {
            let load = loads.iter().find(|(at, _, size)| (*at..at + size).contains(&offset))?;
            Some(offset - load.0 + load.1)
        };
        Ok(offsets.iter().filter_map(|(nth, offset)| Some((*nth, address(*offset)?))).collect())
    }

    fn sections(&self, header: &[u8]) -> io::Result<Vec<Section>> {
        let (size, count) = (u16_at(header, 58), u16_at(header, 60));
        let table = self.read(u64_at(header, 40), u64::from(size) * u64::from(count))?;
        let section = |entry: &[u8]| Section {
            kind: u32_at(entry, 4),
            offset: u64_at(entry, 24),
            size: u64_at(entry, 32),
            link: u32_at(entry, 40),
        };
        Ok(table.chunks_exact(usize::from(size.max(64))).map(section).collect())
    }
}

/// Names the function at each file offset. `offsets` has the index into `names` and the offset.
fn name_functions(
    path: &str,
    offsets: &[(usize, u64)],
    names: &mut [Option<String>],
) -> io::Result<()> {
    let elf = Elf(File::open(path)?);
    let header = elf.read(0, 64)?;
    if !header.starts_with(b"\x7fELF\x02\x01") {
        return Err(not_elf());
    }
    let addresses = elf.to_addresses(&header, offsets)?;
    let sections = elf.sections(&header)?;
    for section in sections.iter().filter(|section| [SYMTAB, DYNSYM].contains(&section.kind)) {
        let Some(strings) = sections.get(section.link as usize) else { continue };
        let symbols = elf.read(section.offset, section.size)?;
        let strings = elf.read(strings.offset, strings.size)?;
        for symbol in symbols.chunks_exact(SYMBOL_BYTES) {
            if symbol[4] & 0xf != FUNCTION {
                continue;
            }
            let (start, size) = (u64_at(symbol, 8), u64_at(symbol, 16));
            for (nth, address) in &addresses {
                if (start..start.saturating_add(size)).contains(address) {
                    names[*nth] = name_at(&strings, u32_at(symbol, 0) as usize);
                }
            }
        }
    }
    Ok(())
}

fn name_at(strings: &[u8], at: usize) -> Option<String> {
    let name = strings.get(at..)?.split(|byte| *byte == 0).next()?;
    let name = std::str::from_utf8(name).ok()?;
    (!name.is_empty()).then(|| demangle(name).unwrap_or_else(|| name.to_owned()))
}

/// Returns the path of a Rust function from its symbol, without hash and generic arguments.
///
/// `None`: the symbol is not Rust's.
fn demangle(symbol: &str) -> Option<String> {
    let name = rustc_demangle::try_demangle(symbol).ok()?;
    Some(without_generic_arguments(&format!("{name:#}")))
}

/// Removes `::<…>` from a path. The arguments may be whole futures, and a reader wants the function.
fn without_generic_arguments(path: &str) -> String {
    let mut kept = String::with_capacity(path.len());
    let mut rest = path;
    while let Some(at) = rest.find("::<") {
        let (before, arguments) = rest.split_at(at);
        kept.push_str(before);
        rest = &arguments[closing_bracket(arguments)..];
    }
    kept + rest
}

/// Returns the position after the `>` that closes the first `<` of `text`, or the end of `text`.
fn closing_bracket(text: &str) -> usize {
    let mut depth = 0;
    let mut before = ' ';
    for (at, char) in text.char_indices() {
        match char {
            '<' => depth += 1,
            '>' if before == '-' => {} // the arrow of a function type
            '>' => {
                depth -= 1;
                if depth == 0 {
                    return at + 1;
                }
            }
            _ => {}
        }
        before = char;
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use super::{demangle, polls_the_task, stack_of, without_generic_arguments};
    use crate::sys::backtrace;
    use std::sync::mpsc;
    use std::thread;

    #[test]
    fn names_are_read_as_they_were_written() {
        let cases = [
            ("_ZN4core3ptr13drop_in_place17h0123456789abcdefE", "core::ptr::drop_in_place"),
            ("_ZN3foo28_$u7b$$u7b$closure$u7d$$u7d$17h0123456789abcdefE", "foo::{{closure}}"),
            (
                "_ZN45_$LT$foo..Bar$u20$as$u20$core..fmt..Debug$GT$3fmt17h0123456789abcdefE",
                "<foo::Bar as core::fmt::Debug>::fmt",
            ),
        ];
        for (mangled, name) in cases {
            assert_eq!(demangle(mangled).as_deref(), Some(name));
        }
        let newer = "_RNvNtNtCsfEOYDRpO4Ta_11miniz_oxide7inflate4core15decompress_fast";
        assert_eq!(demangle(newer).as_deref(), Some("miniz_oxide::inflate::core::decompress_fast"));
        let generic = "_RINvCs1234_4test9run_testsNCNvB2_4main0EB2_";
        assert_eq!(demangle(generic).as_deref(), Some("test::run_tests"));
        assert_eq!(demangle("main"), None);
        assert_eq!(demangle("_ZN9"), None);
    }

    #[test]
    fn generic_arguments_are_left_out() {
        for (path, kept) in [
            ("a::b", "a::b"),
            ("a::b::<c::D<E>, f::G>::{closure#0}", "a::b::{closure#0}"),
            ("a::b::<fn(c) -> d::<E>>::f::<G>", "a::b::f"),
            ("<a::B<C> as d::E>::f", "<a::B<C> as d::E>::f"),
            ("a::b::<c", "a::b"),
        ] {
            assert_eq!(without_generic_arguments(path), kept);
        }
    }

    #[test]
    fn the_frames_that_poll_a_task_are_known_in_both_manglings() {
        for name in [
            "wakeful::task::cell::Cell<F,S>::poll",
            "<wakeful::task::cell::Cell<app::main::{closure#0}, app::S>>::poll",
            "wakeful::scheduler::current_thread::CurrentThread::block_on",
            "<wakeful::scheduler::current_thread::run_loop::CurrentThread>::run",
        ] {
            assert!(polls_the_task(name), "{name}");
        }
        assert!(!polls_the_task("<app::Task as core::future::Future>::poll"));
    }

    #[inline(never)]
    fn waits_in_here(release: &mpsc::Receiver<()>) {
        let _ = release.recv();
    }

    #[test]
    #[cfg(target_env = "gnu")]
    fn the_stack_of_a_waiting_thread_names_its_function() {
        let (release, released) = mpsc::channel::<()>();
        let (tell, told) = mpsc::channel();
        let thread = thread::spawn(move || {
            tell.send(backtrace::current_tid()).unwrap();
            waits_in_here(&released);
        });
        let number = told.recv().unwrap();
        // The thread has sent its id and may not have reached the function yet.
        let stack = loop {
            let stack = stack_of(number);
            assert!(!stack.is_empty(), "the stack is captured");
            if stack.iter().any(|name| name.ends_with("waits_in_here")) {
                break stack;
            }
        };
        assert!(!stack.iter().any(|name| name.contains("backtrace::imp::handle")), "{stack:#?}");
        drop(release);
        thread.join().unwrap();
        assert_eq!(stack_of(number), Vec::<String>::new(), "gone");
    }
}
