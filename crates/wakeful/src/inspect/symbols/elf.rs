//! An ELF file: the program or one of its libraries.

use crate::sys::mapped_file::MappedFile;
use std::path::Path;

/// A 64-bit little-endian ELF file.
pub(super) struct Elf {
    file: MappedFile,
    loads: Vec<Load>,
    sections: Vec<Section>,
    /// Which section has the names of the sections.
    names: usize,
}

/// A part of the file that is loaded to an address.
struct Load {
    offset: u64,
    address: u64,
    size: u64,
}

/// A section header.
#[derive(Clone, Copy)]
struct Section {
    /// Where its name is in the section of names.
    name: u32,
    kind: u32,
    flags: u64,
    /// The address that it is loaded to, or 0.
    address: u64,
    offset: u64,
    size: u64,
    link: u32,
}

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

/// Returns the entries of a table. The file says where it is, and how long an entry is.
fn table(
    file: &[u8],
    offset: u64,
    entry: u16,
    count: u16,
    least: usize,
) -> Option<impl Iterator<Item = &[u8]>> {
    let bytes = range(file, offset, u64::from(entry) * u64::from(count))?;
    Some(bytes.chunks_exact(usize::from(entry).max(least)))
}

impl Elf {
    /// Opens a file. `None` if it cannot be read, or is no 64-bit little-endian ELF file.
    pub(super) fn open(path: &Path) -> Option<Self> {
        let file = MappedFile::open(path).ok()?;
        if !file.starts_with(b"\x7fELF\x02\x01") {
            return None;
        }
        let (at, entry, count) = (u64_at(&file, 32)?, u16_at(&file, 54)?, u16_at(&file, 56)?);
        let load = |entry: &[u8]| {
            let (offset, address, size) =
                (u64_at(entry, 8)?, u64_at(entry, 16)?, u64_at(entry, 32)?);
            (u32_at(entry, 0)? == LOAD).then_some(Load { offset, address, size })
        };
        let loads = table(&file, at, entry, count, 56)?.filter_map(load).collect();
        let (at, entry, count) = (u64_at(&file, 40)?, u16_at(&file, 58)?, u16_at(&file, 60)?);
        let section = |entry: &[u8]| {
            Some(Section {
                name: u32_at(entry, 0)?,
                kind: u32_at(entry, 4)?,
                flags: u64_at(entry, 8)?,
                address: u64_at(entry, 16)?,
                offset: u64_at(entry, 24)?,
                size: u64_at(entry, 32)?,
                link: u32_at(entry, 40)?,
            })
        };
        let sections = table(&file, at, entry, count, 64)?.filter_map(section).collect();
        let names = usize::from(u16_at(&file, 62)?);
        Some(Self { loads, sections, names, file })
    }

    /// Returns the virtual address of a byte of the file.
    pub(super) fn to_address(&self, offset: u64) -> Option<u64> {
        let contains = |load: &&Load| (load.offset..load.offset + load.size).contains(&offset);
        let load = self.loads.iter().find(contains)?;
        Some(offset - load.offset + load.address)
    }

    fn bytes(&self, section: &Section) -> Option<&[u8]> {
        let has_bytes = section.kind != NOBITS && section.flags & COMPRESSED == 0;
        has_bytes.then(|| range(&self.file, section.offset, section.size))?
    }

    /// Returns a section and the address that it is loaded to. `None` if the file has no such section,
    /// or a compressed one.
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
        let program = Elf::open(Path::new("/proc/self/exe")).unwrap();
        let (address, text) = program.section(".text").unwrap();
        assert!(address > 0 && text.len() > 1000);
        assert!(program.section(".text.nothing").is_none() && program.section("").is_some());
        assert_eq!(program.to_address(0), Some(0), "the file header is loaded");
        assert_eq!(program.to_address(u64::MAX), None);
        assert_eq!(program.symbols(&[0]), [None]);
    }

    #[test]
    fn other_files_are_refused() {
        assert!(Elf::open(Path::new("/proc/self/maps")).is_none());
        assert!(Elf::open(Path::new("Cargo.toml")).is_none());
        assert!(Elf::open(Path::new("/nowhere")).is_none());
    }
}
