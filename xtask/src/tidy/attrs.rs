//! Reads the attributes of a [`Source`]: their places, their `cfg` predicates, and the extent of the
//! item below them.

use super::source::{Source, is_word, words};

/// One `#[…]` or `#![…]`, as offsets into the code.
#[derive(Debug)]
pub struct Attr<'a> {
    pub start: usize,
    /// The offset after the closing bracket.
    pub end: usize,
    /// Whether it is `#![…]`, about the file or block that contains it.
    pub inner: bool,
    /// The text between the brackets.
    pub text: &'a str,
}

impl<'a> Attr<'a> {
    /// `cfg` of `cfg(test)`, `wakeful::test` of `wakeful::test(flavor = "")`.
    pub fn name(&self) -> &'a str {
        let end = self.text.find(|c| !is_word(c) && c != ':');
        self.text[..end.unwrap_or(self.text.len())].trim()
    }

    /// The predicate of `cfg(…)` or `cfg_attr(…, …)`.
    pub fn predicate(&self) -> Option<Predicate> {
        let name = self.name();
        if name != "cfg" && name != "cfg_attr" {
            return None;
        }
        let open = self.text.find('(')?;
        Some(Predicate::parse(&self.text[open + 1..]))
    }

    /// Whether the item below is compiled only for tests or models.
    pub fn marks_tests(&self) -> bool {
        match self.name() {
            "cfg" => {
                self.predicate().is_some_and(|predicate| predicate.requires(&["test", "loom"]))
            }
            name => name.rsplit("::").next() == Some("test"),
        }
    }
}

pub fn attrs(code: &str) -> Vec<Attr<'_>> {
    let bytes = code.as_bytes();
    let mut found = Vec::new();
    let mut at = 0;
    while let Some(hash) = code[at..].find('#').map(|offset| at + offset) {
        let inner = bytes.get(hash + 1) == Some(&b'!');
        let open = hash + 1 + usize::from(inner);
        at = open;
        if bytes.get(open) != Some(&b'[') {
            continue;
        }
        let end = closing(code, open);
        found.push(Attr { start: hash, end, inner, text: code[open + 1..end - 1].trim() });
        at = end;
    }
    found
}

/// The offset just behind the bracket that closes the one at `open`.
pub fn closing(code: &str, open: usize) -> usize {
    let mut depth = 0;
    for (offset, byte) in code.bytes().enumerate().skip(open) {
        match byte {
            b'(' | b'[' | b'{' => depth += 1,
            b')' | b']' | b'}' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return offset + 1;
        }
    }
    code.len()
}

/// A `cfg` predicate; the value of `key = "value"` is left out.
#[derive(Debug, PartialEq, Eq)]
pub enum Predicate {
    Name(String),
    All(Vec<Predicate>),
    Any(Vec<Predicate>),
    Not(Vec<Predicate>),
}

impl Predicate {
    /// Reads the predicate that `text` begins with.
    pub fn parse(text: &str) -> Predicate {
        Predicate::list(&mut text.trim_start())
            .into_iter()
            .next()
            .unwrap_or(Predicate::Name(String::new()))
    }

    /// Reads predicates up to the closing parenthesis.
    fn list(rest: &mut &str) -> Vec<Predicate> {
        let mut list = Vec::new();
        loop {
            *rest = rest.trim_start_matches(|c: char| c.is_whitespace() || c == ',');
            let len = rest.find(|c| !is_word(c)).unwrap_or(rest.len());
            let (name, tail) = rest.split_at(len);
            *rest = tail.trim_start();
            if name.is_empty() {
                *rest = rest.get(1..).unwrap_or("");
                return list;
            }
            if let Some(inside) = rest.strip_prefix('(') {
                *rest = inside;
                let mut parts = Predicate::list(rest);
                list.push(match name {
                    "all" => Predicate::All(parts),
                    "any" => Predicate::Any(parts),
                    "not" => Predicate::Not(parts),
                    unknown => {
                        parts.push(Predicate::Name(unknown.to_owned()));
                        Predicate::All(parts)
                    }
                });
                continue;
            }
            if let Some(value) = rest.strip_prefix('=') {
                *rest = value.trim_start().trim_start_matches('"');
                let end = rest.find('"').map_or(rest.len(), |quote| quote + 1);
                *rest = &rest[end..];
            }
            list.push(Predicate::Name(name.to_owned()));
        }
    }

    /// Every name asked for, also inside `not`.
    pub fn names(&self) -> Vec<&str> {
        match self {
            Predicate::Name(name) => vec![name],
            Predicate::All(parts) | Predicate::Any(parts) | Predicate::Not(parts) => {
                parts.iter().flat_map(Predicate::names).collect()
            }
        }
    }

    /// Whether it can hold only if one of `wanted` is set.
    pub fn requires(&self, wanted: &[&str]) -> bool {
        match self {
            Predicate::Name(name) => wanted.contains(&name.as_str()),
            Predicate::All(parts) => parts.iter().any(|part| part.requires(wanted)),
            Predicate::Any(parts) => {
                !parts.is_empty() && parts.iter().all(|part| part.requires(wanted))
            }
            Predicate::Not(_) => false,
        }
    }
}

/// Words that begin an item or a statement, so that a comma does not end it.
const ITEM_WORDS: &[&str] = &[
    "async",
    "const",
    "enum",
    "extern",
    "fn",
    "impl",
    "let",
    "macro_rules",
    "mod",
    "static",
    "struct",
    "trait",
    "type",
    "union",
    "unsafe",
    "use",
];

/// The item below an attribute.
#[derive(Debug)]
pub struct Item<'a> {
    /// Its first word after attributes and visibility.
    pub kind: &'a str,
    /// Its second word, the name of a `mod` or `fn`.
    pub name: &'a str,
    /// Just behind its last character.
    pub end: usize,
    /// `mod name;`, as opposed to `mod name { … }`.
    pub outline: bool,
}

/// The item that begins at or behind `start`, which may have more attributes.
pub fn item_at(code: &str, start: usize) -> Item<'_> {
    let start = skip_visibility(code, skip_attributes(code, start));
    let mut heads = words(&code[start..]);
    let kind = heads.next().map_or("", |(_, word)| word);
    let name = heads.next().map_or("", |(_, word)| word);
    let comma_ends = !ITEM_WORDS.contains(&kind);
    let mut depth = 0;
    let mut end = code.len();
    let mut outline = false;
    for (offset, byte) in code.bytes().enumerate().skip(start) {
        let ends = match byte {
            b'(' | b'[' | b'{' => {
                depth += 1;
                false
            }
            b')' | b']' | b'}' => {
                depth -= 1;
                depth < 0 || (depth == 0 && byte == b'}')
            }
            b';' => depth == 0,
            b',' => depth == 0 && comma_ends,
            _ => false,
        };
        if ends {
            end = offset + 1;
            outline = byte == b';';
            break;
        }
    }
    Item { kind, name, end, outline }
}

fn skip_blanks(code: &str, at: usize) -> usize {
    at + code[at..].len() - code[at..].trim_start().len()
}

fn skip_attributes(code: &str, at: usize) -> usize {
    let mut at = skip_blanks(code, at);
    while code[at..].starts_with("#[") {
        at = skip_blanks(code, closing(code, at + 1));
    }
    at
}

fn skip_visibility(code: &str, at: usize) -> usize {
    let Some(rest) = code[at..].strip_prefix("pub") else {
        return at;
    };
    if rest.starts_with(is_word) {
        return at;
    }
    let at = skip_blanks(code, at + 3);
    if code[at..].starts_with('(') { skip_blanks(code, closing(code, at)) } else { at }
}

/// Returns which lines of a file are tests or models (indexed from zero), and the names of test
/// modules with files of their own.
pub fn test_lines(source: &Source) -> (Vec<bool>, Vec<String>) {
    let mut lines = vec![false; source.code.lines().count() + 1];
    let mut outline_mods = Vec::new();
    for attr in attrs(&source.code) {
        if !attr.marks_tests() {
            continue;
        }
        if attr.inner {
            lines.fill(true);
            continue;
        }
        let item = item_at(&source.code, attr.end);
        if item.kind == "mod" && item.outline {
            outline_mods.push(item.name.to_owned());
        }
        let from = source.line_of(attr.start) - 1;
        let to = source.line_of(item.end) - 1;
        lines[from..=to].fill(true);
    }
    (lines, outline_mods)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn predicate(text: &str) -> Predicate {
        attrs(text)[0].predicate().unwrap()
    }

    #[test]
    fn predicates_tell_what_they_need() {
        let tests = &["test", "loom"][..];
        assert!(predicate("#[cfg(test)]").requires(tests));
        assert!(predicate("#[cfg(all(test, not(loom)))]").requires(tests));
        assert!(predicate("#[cfg(any(test, loom))]").requires(tests));
        assert!(!predicate("#[cfg(any(test, unix))]").requires(tests));
        assert!(!predicate("#[cfg(not(test))]").requires(tests));
        assert_eq!(
            predicate("#[cfg(all(feature = \"  \", not(miri)))]").names(),
            ["feature", "miri"]
        );
        assert_eq!(predicate("#[cfg_attr(loom, allow(x))]").names(), ["loom"]);
    }

    #[test]
    fn an_item_ends_where_it_ends() {
        let code = "pub(crate) fn f<A, B>(a: A) { { } } x";
        assert_eq!(&code[item_at(code, 0).end..], " x");
        let code = "field: u32, other: u32";
        assert_eq!(&code[item_at(code, 0).end..], " other: u32");
        let code = " #[path = \"\"] pub mod deep; x";
        let item = item_at(code, 0);
        assert_eq!((item.kind, item.name, item.outline), ("mod", "deep", true));
    }

    #[test]
    fn test_items_are_marked_and_others_are_not() {
        let source = Source::parse(
            "fn a() {}\n#[cfg(test)]\nmod tests {\n  fn b() {}\n}\nfn c() {}\n\
             #[cfg(all(test, loom))]\nmod loom_x;\n#[wakeful::test]\nfn d() {}\nfn e() {}\n",
        );
        let (lines, outline) = test_lines(&source);
        let marked: Vec<usize> = (1..12).filter(|line| lines[line - 1]).collect();
        assert_eq!(marked, [2, 3, 4, 5, 7, 8, 9, 10]);
        assert_eq!(outline, ["loom_x"]);
    }

    #[test]
    fn an_inner_attribute_marks_the_whole_file() {
        let (lines, _) = test_lines(&Source::parse("//! m\n#![cfg(loom)]\nfn a() {}\n"));
        assert!(lines.iter().all(|&test| test));
    }
}
