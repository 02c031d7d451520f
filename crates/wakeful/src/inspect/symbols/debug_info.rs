//! Lines and inlined functions, from the debug information of a file.
//!
//! Debug information is read again for each report: reports are rare, and a program that makes none
//! pays nothing. Only the compilation units of functions on the stack are decoded.

use super::elf::Elf;
use super::names::demangle;
use super::{Function, SourceSite};
use addr2line::Context;
use gimli::{Dwarf, EndianSlice, LittleEndian};

type Bytes<'a> = EndianSlice<'a, LittleEndian>;

/// How many bytes before an instruction without a line the nearest line is searched.
const MAX_DISTANCE: u64 = 128;

/// The debug information of one file.
pub(super) struct DebugInfo<'a>(Context<Bytes<'a>>);

impl<'a> DebugInfo<'a> {
    /// Returns `None` if the file has no debug information, or none that can be read.
    pub(super) fn of(elf: &'a Elf) -> Option<Self> {
        let section = |name| elf.section(name).map_or(&[][..], |(_, bytes)| bytes);
        if section(gimli::SectionId::DebugInfo.name()).is_empty() {
            return None;
        }
        let load = |id: gimli::SectionId| {
            Ok::<_, gimli::Error>(EndianSlice::new(section(id.name()), LittleEndian))
        };
        let dwarf = Dwarf::load(load).ok()?;
        Some(Self(Context::from_dwarf(dwarf).ok()?))
    }

    /// Returns the functions at an address, innermost first: the inlined ones, then the one they are
    /// inlined into.
    ///
    /// `symbol` is the name of the last one in the symbol table. The list is empty if nothing is
    /// known.
    pub(super) fn functions(&self, address: u64, symbol: Option<&str>) -> Vec<Function> {
        let mut functions = self.frames(address);
        if let Some((_, None)) = functions.first() {
            functions[0].1 = self.site_before(address, &functions);
        }
        let last = functions.len().saturating_sub(1);
        let named = functions.into_iter().enumerate().map(|(nth, (name, site))| {
            // Line tables have names without paths. The symbol table has the path of the outermost
            // function.
            let name = match (name.as_deref().map(demangle), symbol) {
                (Some(Some(path)), _) => path,
                (_, Some(symbol)) if nth == last => super::names::readable(symbol),
                (_, _) => without_arguments(&name.unwrap_or_else(|| "(unnamed)".to_owned())),
            };
            Function { name, site, object: None }
        });
        named.collect()
    }

    /// Returns the names and sites of the functions at an address, innermost first.
    fn frames(&self, address: u64) -> Vec<(Option<String>, Option<SourceSite>)> {
        let Ok(mut frames) = self.0.find_frames(address).skip_all_loads() else {
            return Vec::new();
        };
        let unit = self.0.find_dwarf_and_unit(address).skip_all_loads();
        let folder = unit.and_then(|unit| unit.comp_dir).and_then(|folder| folder.to_string().ok());
        let mut functions = Vec::new();
        while let Ok(Some(frame)) = frames.next() {
            let name = frame.function.as_ref().and_then(|name| name.raw_name().ok());
            let site = frame.location.and_then(|location| {
                let file = location.file?.to_owned();
                let folder = folder.unwrap_or_default();
                let folder = if file.starts_with(folder) { folder.len() } else { 0 };
                Some(SourceSite { file, folder, line: location.line?, column: location.column })
            });
            functions.push((name.map(|name| name.into_owned()), site));
        }
        functions
    }

    /// Returns the site of the nearest code before `address` that belongs to the same function, inlined into the
    /// same functions.
    ///
    /// Some instructions belong to no line, and a signal may interrupt any instruction.
    fn site_before(
        &self,
        address: u64,
        functions: &[(Option<String>, Option<SourceSite>)],
    ) -> Option<SourceSite> {
        let has_names = functions.iter().all(|(name, _)| name.is_some());
        (1..=MAX_DISTANCE).filter(|_| has_names).find_map(|distance| {
            let mut others = self.frames(address.checked_sub(distance)?);
            let names = |(function, other): (&(Option<String>, _), &(Option<String>, _))| {
                function.0 == other.0
            };
            let is_same =
                functions.len() == others.len() && functions.iter().zip(&others).all(names);
            others.first_mut().and_then(|(_, site)| site.take()).filter(|_| is_same)
        })
    }
}

/// Returns the name of a function without its generic arguments.
fn without_arguments(name: &str) -> String {
    name.find('<').filter(|at| *at > 0).map_or(name, |at| &name[..at]).to_owned()
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::without_arguments;

    #[test]
    fn names_in_line_tables_lose_their_arguments() {
        for (name, short) in [
            ("poll", "poll"),
            ("{closure#0}<app::A, b::C<D>>", "{closure#0}"),
            ("<impl>", "<impl>"),
        ] {
            assert_eq!(without_arguments(name), short);
        }
    }
}
