//! Reads ELF files: the program and its libraries.

use crate::sys::mapped_file::MappedFile;
use std::borrow::Cow;
use std::cell::OnceCell;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// A 64-bit little-endian ELF file.
pub(super) struct Elf {
    content: Content,
    loads: Vec<Load>,
    sections: Vec<Section>,
    /// The index of the section that has the names of the sections.
    names: usize,
}

/// The bytes of a file.
enum Content {
    /// The running program. The kernel refuses writes to its file. Otherwise a truncated file would take
    /// away the running code as well.
    Mapped(MappedFile),
    /// A library. Its file may be truncated at any time, and access to a mapping beyond the end raises
    /// SIGBUS. So the needed sections are copied.
    Copied(File),
}

impl Content {
    /// Returns `size` bytes at `offset`, or `None` if the file is shorter.
    fn range(&self, offset: u64, size: u64) -> Option<Cow<'_, [u8]>> {
        match self {
            Content::Mapped(file) => range(file, offset, size).map(Cow::Borrowed),
            Content::Copied(_) if size > MAX_COPY => None,
            Content::Copied(file) => {
                let mut bytes = vec![0; usize::try_from(size).ok()?];
                file.read_exact_at(&mut bytes, offset).ok()?;
                Some(Cow::Owned(bytes))
            }
        }
    }

    /// Returns the entries of a table whose position and entry size the file states.
    fn table<T>(
        &self,
        (offset, entry, count): (u64, u16, u16),
        least: usize,
        read: impl FnMut(&[u8]) -> Option<T>,
    ) -> Option<Vec<T>> {
        let bytes = self.range(offset, u64::from(entry) * u64::from(count))?;
        Some(bytes.chunks_exact(usize::from(entry).max(least)).filter_map(read).collect())
    }
}

/// The maximum size of a section that is copied from a library. Only debug information is larger.
const MAX_COPY: u64 = 64 << 20;

/// A segment of the file, and the address that it is loaded to.
struct Load {
    offset: u64,
    address: u64,
    size: u64,
}

/// A section header.
struct Section {
    /// The offset of its name in the section of names.
    name: u32,
    kind: u32,
    flags: u64,
    /// The address that it is loaded to, or 0.
    address: u64,
    offset: u64,
    size: u64,
    link: u32,
    /// The bytes, once copied. `None` if they cannot be copied.
    copy: OnceCell<Option<Vec<u8>>>,
}

const HEADER_BYTES: u64 = 64;
const LOAD: u32 = 1;
const SYMTAB: u32 = 2;
const NOBITS: u32 = 8;
const DYNSYM: u32 = 11;
const COMPRESSED: u64 = 0x800;
const SYMBOL_BYTES: usize = 24;
const FUNCTION: u8 = 2;

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

/// Returns `size` bytes at `offset`, or `None` if the file is shorter.
fn range(file: &[u8], offset: u64, size: u64) -> Option<&[u8]> {
    let (offset, size) = (usize::try_from(offset).ok()?, usize::try_from(size).ok()?);
    file.get(offset..)?.get(..size)
}

impl Elf {
    /// Opens the running program. Returns `None` if it cannot be read, or is not a 64-bit little-endian ELF
    /// file.
    pub(super) fn open_program() -> Option<Self> {
        // This name leads to the running program even after its file was replaced.
        Self::read(Content::Mapped(MappedFile::open(Path::new("/proc/self/exe")).ok()?))
    }

    /// Opens a library. Returns `None` if it cannot be read, or is not a 64-bit little-endian ELF file.
    pub(super) fn open_library(path: &Path) -> Option<Self> {
        Self::read(Content::Copied(File::open(path).ok()?))
    }

    fn read(content: Content) -> Option<Self> {
        let header = content.range(0, HEADER_BYTES)?;
        if !header.starts_with(b"\x7fELF\x02\x01") {
            return None;
        }
        let place = (u64_at(&header, 32)?, u16_at(&header, 54)?, u16_at(&header, 56)?);
        let load = |entry: &[u8]| {
            let (offset, address, size) =
                (u64_at(entry, 8)?, u64_at(entry, 16)?, u64_at(entry, 32)?);
            (u32_at(entry, 0)? == LOAD).then_some(Load { offset, address, size })
        };
        let loads = content.table(place, 56, load)?;
        let place = (u64_at(&header, 40)?, u16_at(&header, 58)?, u16_at(&header, 60)?);
        let section = |entry: &[u8]| {
            Some(Section {
                name: u32_at(entry, 0)?,
                kind: u32_at(entry, 4)?,
                flags: u64_at(entry, 8)?,
                address: u64_at(entry, 16)?,
                offset: u64_at(entry, 24)?,
                size: u64_at(entry, 32)?,
                link: u32_at(entry, 40)?,
                copy: OnceCell::new(),
            })
        };
        let sections = content.table(place, 64, section)?;
        let names = usize::from(u16_at(&header, 62)?);
        drop(header);
        Some(Self { content, loads, sections, names })
    }

    /// Returns the virtual address of a byte of the file.
    pub(super) fn to_address(&self, offset: u64) -> Option<u64> {
        let contains = |load: &&Load| (load.offset..load.offset + load.size).contains(&offset);
        let load = self.loads.iter().find(contains)?;
        Some(offset - load.offset + load.address)
    }

    fn bytes<'a>(&'a self, section: &'a Section) -> Option<&'a [u8]> {
        if section.kind == NOBITS || section.flags & COMPRESSED != 0 {
            return None;
        }
        if let Content::Mapped(file) = &self.content {
            return range(file, section.offset, section.size);
        }
        let copy = || self.content.range(section.offset, section.size).map(Cow::into_owned);
        section.copy.get_or_init(copy).as_deref()
    }

    /// Returns a section and the address that it is loaded to.
    ///
    /// Returns `None` if there is no such section, or if it is compressed.
    pub(super) fn section(&self, name: &str) -> Option<(u64, &[u8])> {
        let names = self.bytes(self.sections.get(self.names)?)?;
        let is_named = |section: &&Section| {
            let rest = names.get(section.name as usize..).unwrap_or_default();
            rest.strip_prefix(name.as_bytes()).is_some_and(|rest| rest.first() == Some(&0))
        };
        let section = self.sections.iter().find(is_named)?;
        Some((section.address, self.bytes(section)?))
    }

    /// Returns the symbol of the function at each address.
    pub(super) fn symbols(&self, addresses: &[u64]) -> Vec<Option<&str>> {
        let mut found = vec![None; addresses.len()];
        for section in self.sections.iter().filter(|it| [SYMTAB, DYNSYM].contains(&it.kind)) {
            let strings = self.sections.get(section.link as usize);
            let strings = strings.and_then(|strings| self.bytes(strings)).unwrap_or_default();
            let symbols = self.bytes(section).unwrap_or_default();
            for symbol in symbols.chunks_exact(SYMBOL_BYTES) {
                if symbol[4] & 0xf != FUNCTION {
                    continue;
                }
                let (Some(start), Some(size)) = (u64_at(symbol, 8), u64_at(symbol, 16)) else {
                    continue;
                };
                for (address, found) in addresses.iter().zip(&mut found) {
                    if address.wrapping_sub(start) < size {
                        *found = u32_at(symbol, 0).and_then(|at| name_at(strings, at)).or(*found);
                    }
                }
            }
        }
        found
    }
}

fn name_at(strings: &[u8], at: u32) -> Option<&str> {
    let name = strings.get(at as usize..)?.split(|byte| *byte == 0).next()?;
    std::str::from_utf8(name).ok().filter(|name| !name.is_empty())
}

#[cfg(all(test, not(any(loom, miri))))]
mod tests {
    use super::Elf;
    use std::path::Path;

    #[test]
    fn the_running_program_is_read() {
        let as_library = Elf::open_library(Path::new("/proc/self/exe"));
        for program in [Elf::open_program(), as_library].map(Option::unwrap) {
            let (address, text) = program.section(".text").unwrap();
            assert!(address > 0 && text.len() > 1000);
            assert!(program.section(".text.nothing").is_none() && program.section("").is_some());
            assert_eq!(program.to_address(0), Some(0), "the file header is loaded");
            assert_eq!(program.to_address(u64::MAX), None);
            assert_eq!(program.symbols(&[0]), [None]);
        }
    }

    /// A mapping would end the process here.
    #[test]
    fn a_library_that_is_overwritten_meanwhile_is_not_read() {
        let path = std::env::temp_dir().join(format!("wakeful-elf-{}", std::process::id()));
        std::fs::copy("/proc/self/exe", &path).unwrap();
        let library = Elf::open_library(&path).unwrap();
        let names = library.section(".text").unwrap().1.len();
        std::fs::File::create(&path).unwrap();
        assert_eq!(library.symbols(&[0]), [None]);
        assert!(library.section(".symtab").is_none() && library.section(".dynstr").is_none());
        assert_eq!(library.section(".text").unwrap().1.len(), names, "it was copied before");
        std::fs::remove_file(&path).unwrap();
    }

    #[test]
    fn other_files_are_refused() {
        for path in ["/proc/self/maps", "Cargo.toml", "/nowhere"] {
            assert!(Elf::open_library(Path::new(path)).is_none(), "{path}");
        }
    }
}
