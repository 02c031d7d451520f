//! From addresses to the names of functions, by the symbol tables of the program
//! and its libraries. A release build has no other information about its code; so
//! these are names without lines, and no debugger's library is needed for them.

use crate::sys::backtrace;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

/// The functions that a thread is in, the innermost first; empty if there is no way
/// to know. Frames of the runtime's own below the task are left out.
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
                // But for the first, an address is where a call returns to.
                let address = (*address as u64).saturating_sub(u64::from(nth > 0));
                let mapping = mapped.iter().find(|it| it.path == file && it.holds(address))?;
                Some((nth, address - mapping.start + mapping.offset))
            })
            .collect();
        if !inside.is_empty() {
            // A file that cannot be read, or is no program, has no names to give.
            let _ = name_functions(file, &inside, &mut names);
        }
    }
    let named = frames.iter().zip(names);
    let mut stack: Vec<String> =
        named.map(|(address, name)| name.unwrap_or_else(|| format!("{address:#x}"))).collect();
    let is_ours = |name: &String| {
        name.starts_with("wakeful::task::cell::Cell<")
            || name == "wakeful::task::runnable::poll"
            || name.starts_with("wakeful::scheduler::current_thread::CurrentThread::")
    };
    if let Some(end) = stack.iter().position(is_ours) {
        stack.truncate(end);
    }
    stack
}

/// A piece of a file in memory.
struct Mapping<'a> {
    start: u64,
    end: u64,
    offset: u64,
    path: &'a str,
}

impl<'a> Mapping<'a> {
    /// From a line of `/proc/self/maps`.
    fn parse(line: &'a str) -> Option<Self> {
        let mut words = line.split_ascii_whitespace();
        let (start, end) = words.next()?.split_once('-')?;
        let offset = words.nth(1)?;
        let path = words.nth(2).filter(|path| path.starts_with('/'))?;
        let number = |text: &str| u64::from_str_radix(text, 16).ok();
        Some(Self { start: number(start)?, end: number(end)?, offset: number(offset)?, path })
    }

    fn holds(&self, address: u64) -> bool {
        (self.start..self.end).contains(&address)
    }
}

/// A 64-bit little-endian ELF file.
struct Elf(File);

/// A section: its kind, its place in the file, and the section it refers to.
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

fn not_ours() -> io::Error {
    io::Error::other("no 64-bit little-endian ELF file")
}

impl Elf {
    fn read(&self, offset: u64, size: u64) -> io::Result<Vec<u8>> {
        let size = usize::try_from(size).map_err(io::Error::other)?;
        let mut bytes = vec![0; size];
        self.0.read_exact_at(&mut bytes, offset)?;
        Ok(bytes)
    }

    /// From places in the file to addresses as the file has them.
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

/// Finds the function for each place in the file, by its number.
fn name_functions(
    path: &str,
    offsets: &[(usize, u64)],
    names: &mut [Option<String>],
) -> io::Result<()> {
    let elf = Elf(File::open(path)?);
    let header = elf.read(0, 64)?;
    if !header.starts_with(b"\x7fELF\x02\x01") {
        return Err(not_ours());
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

/// The path in a name as Rust mangles it by default: `_ZN`, then each part with its
/// length before it, a hash at the end, `E`.
fn demangle(name: &str) -> Option<String> {
    if let Some(path) = name.strip_prefix("_R") {
        return identifiers(path);
    }
    let mut rest = name.strip_prefix("_ZN")?;
    let mut parts = Vec::new();
    while !rest.starts_with('E') {
        let digits = rest.find(|char: char| !char.is_ascii_digit())?;
        let (length, after) = rest.split_at(digits);
        let length: usize = length.parse().ok()?;
        parts.push(plain(after.get(..length)?));
        rest = &after[length..];
    }
    let is_hash = |part: &String| part.len() == 17 && part.starts_with('h');
    if parts.last().is_some_and(is_hash) {
        parts.pop();
    }
    Some(parts.join("::"))
}

/// The names in a path as Rust's newer scheme mangles it, in their order: each with its
/// length before it, and codes in between, of which those with an argument are skipped up
/// to the end of that. What the codes say (which trait, which types) is left out.
fn identifiers(mut rest: &str) -> Option<String> {
    let mut names = Vec::new();
    while let Some(first) = rest.chars().next() {
        if first.is_ascii_digit() {
            let digits = rest.find(|char: char| !char.is_ascii_digit())?;
            let (length, after) = rest.split_at(digits);
            // A name that begins with a digit or `_` has a `_` before it.
            let after = after.strip_prefix('_').unwrap_or(after);
            let length: usize = length.parse().ok()?;
            names.push(after.get(..length)?);
            rest = &after[length..];
        } else if ['s', 'B'].contains(&first) {
            rest = &rest[rest.find('_')? + 1..];
        } else {
            rest = rest.get(first.len_utf8()..)?;
        }
    }
    names.retain(|name| !name.is_empty());
    (!names.is_empty()).then(|| names.join("::"))
}

/// A part of a path, with what stands for signs put back.
fn plain(part: &str) -> String {
    const SIGNS: [(&str, &str); 9] = [
        ("$LT$", "<"),
        ("$GT$", ">"),
        ("$LP$", "("),
        ("$RP$", ")"),
        ("$C$", ","),
        ("$RF$", "&"),
        ("$BP$", "*"),
        ("$u20$", " "),
        ("..", "::"),
    ];
    let part = part.strip_prefix('_').filter(|rest| rest.starts_with('$')).unwrap_or(part);
    let mut text = part.to_owned();
    for (code, sign) in SIGNS {
        text = text.replace(code, sign);
    }
    for (code, sign) in [
        ("$u7b$", "{"),
        ("$u7d$", "}"),
        ("$u27$", "'"),
        ("$u5b$", "["),
        ("$u5d$", "]"),
        ("$u3b$", ";"),
        ("$u2b$", "+"),
    ] {
        text = text.replace(code, sign);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::{demangle, stack_of};
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
        assert_eq!(demangle("main"), None);
        assert_eq!(demangle("_ZN9"), None);
    }

    #[inline(never)]
    fn waits_in_here(release: &mpsc::Receiver<()>) {
        let _ = release.recv();
    }

    #[test]
    #[cfg(target_env = "gnu")]
    fn a_thread_that_waits_says_where() {
        let (release, released) = mpsc::channel::<()>();
        let (tell, told) = mpsc::channel();
        let thread = thread::spawn(move || {
            tell.send(backtrace::current_tid()).unwrap();
            waits_in_here(&released);
        });
        let number = told.recv().unwrap();
        // It has told its number, and is on its way.
        let stack = loop {
            let stack = stack_of(number);
            assert!(!stack.is_empty(), "it answers");
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
