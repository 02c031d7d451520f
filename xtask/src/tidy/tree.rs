//! Reads the repository: text files with their paths from the workspace root, and Rust files split
//! into code and comments.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::Path;

use super::attrs;
use super::source::Source;

pub struct Tree {
    /// Ordered by path.
    pub files: Vec<File>,
    /// All files and folders, also files that are not text.
    paths: BTreeSet<String>,
}

pub struct File {
    /// From the workspace root, with `/` between the parts.
    pub path: String,
    pub text: String,
    /// Present for Rust files.
    pub rust: Option<Rust>,
}

pub struct Rust {
    pub source: Source,
    /// Whether a line, counted from zero, is part of a test or model.
    tests: Vec<bool>,
}

impl Rust {
    /// Whether `line`, counted from one, is part of a test or model.
    pub fn is_test(&self, line: usize) -> bool {
        self.tests.get(line - 1).copied().unwrap_or(false)
    }
}

/// Returns whether a folder is made by tools. The checks skip such folders.
fn is_foreign(name: &str) -> bool {
    let hidden = name.starts_with('.') && ![".cargo", ".ci", ".github"].contains(&name);
    hidden || ["target", "node_modules"].contains(&name) || name.starts_with("target-")
}

impl Tree {
    pub fn load(root: &Path) -> io::Result<Tree> {
        let mut texts = Vec::new();
        let mut others = Vec::new();
        walk(root, "", &mut texts, &mut others)?;
        Ok(Tree::build(texts, others))
    }

    #[cfg(test)]
    pub fn of(files: &[(&str, &str)]) -> Tree {
        let owned = |&(path, text): &(&str, &str)| (String::from(path), String::from(text));
        Tree::build(files.iter().map(owned).collect(), Vec::new())
    }

    fn build(mut texts: Vec<(String, String)>, others: Vec<String>) -> Tree {
        texts.sort();
        let mut paths = BTreeSet::new();
        for path in texts.iter().map(|(path, _)| path).chain(&others) {
            let folders = path.match_indices('/').map(|(at, _)| &path[..at]);
            paths.extend(folders.map(String::from));
            paths.insert(path.clone());
        }

        let mut test_homes = Vec::new();
        let mut files: Vec<File> = texts
            .into_iter()
            .map(|(path, text)| {
                let rust = path.ends_with(".rs").then(|| {
                    let source = Source::parse(&text);
                    let (tests, outline_mods) = attrs::test_lines(&source);
                    let home = module_home(&path);
                    test_homes.extend(outline_mods.iter().map(|name| format!("{home}/{name}")));
                    Rust { source, tests }
                });
                File { path, text, rust }
            })
            .collect();
        for File { path, rust, .. } in &mut files {
            if let Some(rust) = rust
                && is_test_file(path, &test_homes)
            {
                rust.tests.fill(true);
            }
        }
        Tree { files, paths }
    }

    /// The Rust files whose path begins with `prefix`.
    pub fn rust<'a>(&'a self, prefix: &'a str) -> impl Iterator<Item = (&'a File, &'a Rust)> {
        let inside = move |file: &&File| file.path.starts_with(prefix);
        self.files.iter().filter(inside).filter_map(|file| Some((file, file.rust.as_ref()?)))
    }

    pub fn markdown(&self) -> impl Iterator<Item = &File> {
        self.files.iter().filter(|file| file.path.ends_with(".md"))
    }

    pub fn file(&self, path: &str) -> Option<&File> {
        let index = self.files.binary_search_by(|file| file.path.as_str().cmp(path));
        index.ok().map(|index| &self.files[index])
    }

    /// Returns the path from the workspace root for `path` relative to the folder `from`, if that file
    /// or folder exists.
    pub fn resolve(&self, from: &str, path: &str) -> Option<String> {
        let mut parts: Vec<&str> = Vec::new();
        for part in from.split('/').chain(path.split('/')) {
            match part {
                "" | "." => {}
                ".." => {
                    parts.pop()?;
                }
                part => parts.push(part),
            }
        }
        let path = parts.join("/");
        (path.is_empty() || self.paths.contains(&path)).then_some(path)
    }
}

/// Returns the folder part of a path, `""` at the top.
pub fn folder(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(folder, _)| folder)
}

/// Returns the folder with the modules that the file at `path` declares.
fn module_home(path: &str) -> &str {
    match path.rsplit('/').next() {
        Some("mod.rs" | "lib.rs" | "main.rs") => folder(path),
        _ => path.strip_suffix(".rs").unwrap_or(path),
    }
}

fn is_test_file(path: &str, test_homes: &[String]) -> bool {
    let is_below = |home: &String| {
        path.strip_prefix(home.as_str()).is_some_and(|rest| rest == ".rs" || rest.starts_with('/'))
    };
    path.starts_with("tests/") || path.contains("/tests/") || test_homes.iter().any(is_below)
}

fn walk(
    folder: &Path,
    prefix: &str,
    texts: &mut Vec<(String, String)>,
    others: &mut Vec<String>,
) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let path = format!("{prefix}{name}");
        let kind = entry.file_type()?;
        if kind.is_dir() && !is_foreign(&name) {
            walk(&entry.path(), &format!("{path}/"), texts, others)?;
        } else if kind.is_file() {
            match String::from_utf8(fs::read(entry.path())?) {
                Ok(text) => texts.push((path, text)),
                Err(_) => others.push(path),
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_resolve_from_a_folder() {
        let tree = Tree::of(&[("a/b/c.md", ""), ("a/d.rs", "")]);
        assert_eq!(tree.resolve("a/b", "../d.rs").as_deref(), Some("a/d.rs"));
        assert_eq!(tree.resolve("", "./a/b/").as_deref(), Some("a/b"));
        assert_eq!(tree.resolve("a", "c.md"), None);
        assert_eq!(tree.resolve("a", "../../x"), None);
        assert!(tree.file("a/d.rs").is_some() && tree.file("a").is_none());
    }

    #[test]
    fn a_test_module_in_its_own_file_is_a_test() {
        let tree = Tree::of(&[
            ("src/lib.rs", "mod net;\n"),
            ("src/net.rs", "#[cfg(test)]\nmod tests;\nmod real;\n"),
            ("src/net/real.rs", "fn a() {}\n"),
            ("src/net/tests.rs", "fn a() {}\n"),
            ("src/net/tests/more.rs", "fn a() {}\n"),
            ("tests/all.rs", "fn a() {}\n"),
        ]);
        let is_test = |path: &str| tree.file(path).unwrap().rust.as_ref().unwrap().is_test(1);
        assert!(!is_test("src/net/real.rs") && !is_test("src/lib.rs"));
        assert!(is_test("src/net/tests.rs") && is_test("src/net/tests/more.rs"));
        assert!(is_test("tests/all.rs"));
    }

    #[test]
    fn folders_made_by_tools_are_foreign() {
        assert!(is_foreign("target") && is_foreign("target-loom") && is_foreign(".git"));
        assert!(is_foreign("node_modules"));
        assert!(!is_foreign(".ci") && !is_foreign("crates"));
    }
}
