//! A module uses only the modules that [`ARROWS`] allows, as `ARCHITECTURE.md` draws them.
//!
//! An arrow is a path in the code of a module that begins at the crate root: `crate::module::…`,
//! `$crate::module::…` or a group `crate::{a::…, b::…}`. A chain of `super::` that leaves the
//! module is one too. So is a name that the crate root re-exports from a module. Tests and models
//! may use every module.

use std::collections::BTreeMap;

use super::Finding;
use super::modules::{MODULES, module_of};
use super::tree::Tree;

/// The modules that each module may use.
///
/// A module that is not listed may use every other. A key may also be one file or folder inside a
/// module, as in `task/local.rs`; the longest key wins.
#[rustfmt::skip]
const ARROWS: &[(&str, &[&str])] = &[
    ("sys",       &[]),
    ("task",      &["sys"]),
    ("task/reexports.rs", &["runtime", "task"]),
    ("wait",      &["sys", "task"]),
    ("queue",     &["sys", "task"]),
    ("driver",    &["sys", "task", "wait", "queue"]),
    ("telemetry", &["sys", "task", "driver"]),
    ("sim",       &["sys", "task", "driver"]),
    // The scheduler notifies the watchdog, which acts on schedulers.
    ("sim/explore", &["sys", "task", "sim", "inspect", "sync", "time"]),
    ("sim/api",   &["sys", "task", "driver", "sim", "inspect", "runtime", "sync"]),
    ("scheduler", &["sys", "task", "wait", "queue", "driver", "telemetry", "sim", "watchdog"]),
    ("watchdog",  &["sys", "task", "wait", "queue", "driver", "telemetry", "scheduler"]),
    ("inspect",   &["sys", "task", "wait", "queue", "driver", "telemetry", "sim", "scheduler", "watchdog"]),
    ("runtime",   &["sys", "task", "wait", "queue", "driver", "telemetry", "sim", "scheduler", "watchdog", "inspect"]),
    ("sync",      &["sys", "task", "wait"]),
    ("time",      &["sys", "task", "wait", "driver", "sim", "scheduler", "runtime", "sync"]),
    ("io",        &["sys", "task", "wait"]),
    ("net",       &["sys", "task", "wait", "driver", "sim", "scheduler", "runtime", "io"]),
    ("fs",        &["sys", "task", "wait", "driver", "sim", "scheduler", "runtime", "io"]),
    // `io::unix::AsyncFd` is implemented by `net`.
    ("io/unix.rs", &["net"]),
    // The standard streams run on the blocking pool.
    ("io/stdio",  &["sys", "task", "wait", "runtime", "io"]),
    ("signal",    &["sys", "task", "wait", "driver", "runtime"]),
    ("process",   &["sys", "task", "wait", "driver", "runtime", "io", "net", "signal"]),
    ("macros",    &["task"]),
];

pub fn check(tree: &Tree) -> Vec<Finding> {
    let root_names = root_names(tree);
    let mut findings = Vec::new();
    for (file, rust) in tree.rust(MODULES) {
        let module = module_of(&file.path).unwrap_or_default();
        let Some(allowed) = allowed_from(&file.path) else {
            continue;
        };
        let tokens = tokens(&rust.source.code);
        for used in used_names(&tokens, module_depth(&file.path)) {
            let name = used.name;
            let target = root_names.get(name).map_or(name, String::as_str);
            let is_arrow = name == "*" || is_module(tree, target);
            if rust.is_test(used.line) || !is_arrow || target == module || allowed.contains(&target)
            {
                continue;
            }
            let message = if name == "*" {
                format!("module `{module}` takes `*` from the crate root, which hides its arrows")
            } else {
                let allowed = allowed.join(", ");
                format!("module `{module}` may not use `{target}` (it may use: {allowed})")
            };
            findings.push(Finding::new(&file.path, used.line, message));
        }
    }
    findings
}

/// Returns the modules that the file at `path` may use, or `None` if it may use all.
fn allowed_from(path: &str) -> Option<&'static [&'static str]> {
    let inside = path.strip_prefix(MODULES)?;
    let covers = |key: &str| {
        let rest = inside.strip_prefix(key);
        rest.is_some_and(|rest| rest.is_empty() || rest == ".rs" || rest.starts_with('/'))
    };
    ARROWS
        .iter()
        .filter(|(key, _)| covers(key))
        .max_by_key(|(key, _)| key.len())
        .map(|&(_, allowed)| allowed)
}

fn is_module(tree: &Tree, name: &str) -> bool {
    ARROWS.iter().any(|&(key, _)| key == name)
        || tree.resolve(MODULES, name).is_some()
        || tree.resolve(MODULES, &format!("{name}.rs")).is_some()
}

/// Returns how many `super::` lead from the file's module to the crate root.
fn module_depth(path: &str) -> usize {
    let inside = path.strip_prefix(MODULES).unwrap_or(path);
    let is_folder_file = inside.ends_with("/mod.rs") || inside == "lib.rs";
    inside.matches('/').count() + usize::from(!is_folder_file)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Token<'a> {
    /// A word, `::`, or one other character.
    text: &'a str,
    line: usize,
}

fn tokens(code: &str) -> Vec<Token<'_>> {
    let mut tokens = Vec::new();
    let mut line = 1;
    let mut rest = code;
    while let Some(first) = rest.chars().next() {
        let word = rest.find(|c| !super::source::is_word(c));
        let len = match word.unwrap_or(rest.len()) {
            0 if rest.starts_with("::") => 2,
            0 => first.len_utf8(),
            len => len,
        };
        let (text, tail) = rest.split_at(len);
        line += usize::from(first == '\n');
        if !first.is_whitespace() {
            tokens.push(Token { text, line });
        }
        rest = tail;
    }
    tokens
}

/// A name taken from the crate root.
#[derive(Debug, PartialEq, Eq)]
struct Used<'a> {
    name: &'a str,
    line: usize,
}

/// Returns the names after `crate::`, and after a chain of `super::` that leads to the crate root from
/// a module at `depth`.
fn used_names<'a>(tokens: &[Token<'a>], depth: usize) -> Vec<Used<'a>> {
    let mut used = Vec::new();
    let mut open_braces = 0;
    // For each inline module around the token: the braces open outside of it.
    let mut inline_mods: Vec<usize> = Vec::new();
    let mut at = 0;
    while at < tokens.len() {
        match tokens[at].text {
            "{" => {
                if at >= 2 && tokens[at - 2].text == "mod" {
                    inline_mods.push(open_braces);
                }
                open_braces += 1;
            }
            "}" => {
                open_braces = open_braces.saturating_sub(1);
                inline_mods.pop_if(|outside| *outside == open_braces);
            }
            "crate" if text_at(tokens, at + 1) == "::" => {
                at += 2;
                used.extend(first_names(&tokens[at..]));
                continue;
            }
            "super" => {
                let mut steps = 0;
                while text_at(tokens, at) == "super" && text_at(tokens, at + 1) == "::" {
                    steps += 1;
                    at += 2;
                }
                if steps > 0 {
                    if steps == depth + inline_mods.len() {
                        used.extend(first_names(&tokens[at..]));
                    }
                    continue;
                }
            }
            _ => {}
        }
        at += 1;
    }
    used
}

fn text_at<'a>(tokens: &[Token<'a>], at: usize) -> &'a str {
    tokens.get(at).map_or("", |token| token.text)
}

/// Returns the first name of a path, or of each path of a group.
fn first_names<'a>(tokens: &[Token<'a>]) -> Vec<Used<'a>> {
    let name = |token: &Token<'a>| Used { name: token.text, line: token.line };
    if text_at(tokens, 0) != "{" {
        return tokens.first().map(name).into_iter().collect();
    }
    let mut names = Vec::new();
    let mut depth = 0;
    for pair in tokens.windows(2) {
        match pair[0].text {
            "{" => depth += 1,
            "}" => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            break;
        }
        let begins = pair[0].text == "," || pair[0].text == "{";
        if depth == 1 && begins && pair[1].text != "}" && pair[1].text != "self" {
            names.push(name(&pair[1]));
        }
    }
    names
}

/// Returns the names that the crate root re-exports, each with its module.
fn root_names(tree: &Tree) -> BTreeMap<String, String> {
    let mut names = BTreeMap::new();
    let root = tree.file(&format!("{MODULES}lib.rs"));
    let Some(rust) = root.and_then(|file| file.rust.as_ref()) else {
        return names;
    };
    let tokens = tokens(&rust.source.code);
    let starts = (0..tokens.len()).filter(|&at| tokens[at].text == "use");
    for start in starts {
        let statement = &tokens[start + 1..];
        let len = statement.iter().position(|token| token.text == ";");
        for leaf in leaves(&statement[..len.unwrap_or(statement.len())]) {
            let mut path = leaf.iter().skip_while(|part| ["crate", "self"].contains(part));
            if let (Some(module), Some(name)) = (path.next(), path.last())
                && is_module(tree, module)
                && !is_module(tree, name)
            {
                names.insert((*name).to_owned(), (*module).to_owned());
            }
        }
    }
    names
}

/// Returns every path of a `use` tree. After `as`, the new name is the last part.
fn leaves<'a>(tokens: &[Token<'a>]) -> Vec<Vec<&'a str>> {
    let mut found = Vec::new();
    let mut prefixes: Vec<Vec<&str>> = vec![Vec::new()];
    let mut path: Vec<&str> = Vec::new();
    for token in tokens {
        match token.text {
            "::" | "as" => {}
            "{" => prefixes.push(path.clone()),
            "}" | "," => {
                found.push(path);
                if token.text == "}" {
                    prefixes.pop();
                }
                path = prefixes.last().cloned().unwrap_or_default();
            }
            part => path.push(part),
        }
    }
    found.push(path);
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::testing::places;

    const CELL: &str = "crates/wakeful/src/task/cell.rs";
    const RING: &str = "crates/wakeful/src/queue/ring.rs";

    #[test]
    fn allowed_arrows_pass() {
        let files = [
            (RING, "use crate::task::Cell;\nuse crate::{sys, queue::x};\nuse super::Y;\n"),
            (CELL, "//! crate::runtime\n#[cfg(test)]\nmod t {\n  use crate::queue::Q;\n}\n"),
            ("crates/wakeful/src/net/tcp.rs", "use crate::{driver, runtime, io};\n"),
            ("crates/wakeful/src/lib.rs", "mod task;\npub use crate::runtime::R;\n"),
        ];
        assert_eq!(places(check, &files), [""; 0]);
    }

    #[test]
    fn forbidden_arrows_are_found() {
        let files = [
            (
                CELL,
                "use crate::queue::Q;\nuse crate::{sys::A,\n  wait::{B, C}};\nuse super::super::driver;\n",
            ),
            (RING, "fn f() {\n  crate::wait::x();\n}\nuse crate::*;\n"),
            (
                "crates/wakeful/src/macros/join.rs",
                "macro_rules! j {\n () => { $crate::runtime::x() } }\n",
            ),
        ];
        assert_eq!(
            places(check, &files),
            [
                "crates/wakeful/src/macros/join.rs:2",
                "crates/wakeful/src/queue/ring.rs:2",
                "crates/wakeful/src/queue/ring.rs:4",
                "crates/wakeful/src/task/cell.rs:1",
                "crates/wakeful/src/task/cell.rs:3",
                "crates/wakeful/src/task/cell.rs:4",
            ]
        );
    }

    #[test]
    fn a_re_export_does_not_hide_an_arrow() {
        let files = [
            ("crates/wakeful/src/lib.rs", "pub use runtime::{Handle, x::Y as Z};\n"),
            (CELL, "use crate::Handle;\nuse crate::Other;\nuse crate::Z;\n"),
        ];
        assert_eq!(places(check, &files), [format!("{CELL}:1"), format!("{CELL}:3")]);
    }

    #[test]
    fn super_inside_an_inline_module_stays_in_the_module() {
        let files = [(
            "crates/wakeful/src/task/mod.rs",
            "mod a {\n  use super::queue;\n}\nuse super::queue;\n",
        )];
        assert_eq!(places(check, &files), ["crates/wakeful/src/task/mod.rs:4"]);
    }

    /// The one pair that uses each other: schedulers notify the watchdog, which acts on schedulers.
    const MUTUAL: [&str; 2] = ["scheduler", "watchdog"];

    #[test]
    fn the_table_has_no_other_cycle() {
        let mut settled: Vec<&str> = Vec::new();
        for _ in ARROWS {
            let free = |(key, allowed): &&(&str, &[&'static str])| {
                let is_mutual = |module| MUTUAL.contains(key) && MUTUAL.contains(module);
                let is_settled = |module| settled.contains(module) || is_mutual(module);
                !settled.contains(key) && allowed.iter().all(is_settled)
            };
            let next = ARROWS.iter().find(free);
            settled.push(next.expect("some modules use each other in a circle").0);
        }
    }
}
