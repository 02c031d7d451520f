//! Sources use few `cfg`s: the one custom cfg is `loom`, used in the module `sys` and on the `mod` of a
//! model or test. The tokio shim also asks for `tokio_unstable`, which programs set for tokio.
//!
//! wakeful builds on Linux only, so only the files in [`SYSTEM_HOMES`] ask for the system.

use super::Finding;
use super::attrs::{self, Predicate};
use super::source::{Source, words};
use super::tree::Tree;

/// What a `cfg` may ask for, besides anything that starts with `target_`.
const KNOWN: &[&str] = &["debug_assertions", "doc", "feature", "loom", "miri", "test"];

/// The files that may ask for the system: the `compile_error!` of the library, and the program that says
/// whether a project can run on it.
const SYSTEM_HOMES: &[&str] = &["crates/wakeful/src/lib.rs", "crates/cargo-wakeful/src/doctor.rs"];

/// Where `tokio_unstable` may be asked for.
const TOKIO_SHIM: &str = "crates/tokio/";

/// Where `loom` may be asked for anywhere.
const LOOM_HOMES: &[&str] = &["crates/wakeful/src/sys/", "crates/wakeful/src/sys.rs"];

pub fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (file, rust) in tree.rust("") {
        let at_home = LOOM_HOMES.iter().any(|home| file.path.starts_with(home));
        for (line, predicate, declares_tests) in uses(&rust.source) {
            let names = predicate.names();
            for name in &names {
                let is_for_tokio = *name == "tokio_unstable" && file.path.starts_with(TOKIO_SHIM);
                if !KNOWN.contains(name) && !name.starts_with("target_") && !is_for_tokio {
                    let message = format!("`cfg({name})` is not one of ours; decide at run time");
                    findings.push(Finding::new(&file.path, line, message));
                }
            }
            if names.contains(&"target_os") && !SYSTEM_HOMES.contains(&file.path.as_str()) {
                let message = "`cfg(target_os)` has one arm: wakeful builds on Linux only";
                findings.push(Finding::new(&file.path, line, message));
            }
            if names.contains(&"loom") && !at_home && !declares_tests {
                let message =
                    "`cfg(loom)` belongs into the module `sys` or onto the `mod` of a model";
                findings.push(Finding::new(&file.path, line, message));
            }
        }
    }
    findings
}

/// Every cfg of a file: its line, its predicate, and whether it is that of a module of tests or
/// models.
fn uses(source: &Source) -> Vec<(usize, Predicate, bool)> {
    let code = &source.code;
    let mut uses = Vec::new();
    for attr in attrs::attrs(code) {
        if let Some(predicate) = attr.predicate() {
            let on_mod = attr.inner || attrs::item_at(code, attr.end).kind == "mod";
            let declares_tests = on_mod && attr.marks_tests();
            uses.push((source.line_of(attr.start), predicate, declares_tests));
        }
    }
    for (at, word) in words(code) {
        if let Some(inside) = code[at + word.len()..].strip_prefix("!(")
            && word == "cfg"
        {
            uses.push((source.line_of(at), Predicate::parse(inside), false));
        }
    }
    uses
}

#[cfg(test)]
mod tests {
    use super::check;
    use crate::tidy::testing::places;

    const FILE: &str = "crates/wakeful/src/task/cell.rs";

    #[test]
    fn known_cfgs_pass() {
        let text = "#[cfg(all(test, loom))]\nmod loom_state;\n#[cfg(loom)]\npub(crate) mod m {}\n\
                    #[cfg(all(test, not(loom)))]\nmod tests {}\n\
                    #[cfg(any(target_env = \"gnu\", feature = \"rt\"))]\nfn f() {}\n\
                    fn g() -> bool { cfg!(debug_assertions) }\n#[cfg_attr(doc, doc(hidden))]\nfn h() {}\n";
        let sys = "#[cfg(loom)]\nuse loom::sync;\n#[cfg(not(loom))]\nuse std::sync;\n";
        let lib = "#[cfg(not(target_os = \"linux\"))]\ncompile_error!(\"no\");\n";
        let shim = "#[cfg(tokio_unstable)]\npub use wakeful::runtime::TaskMeta;\n";
        let files = [
            (FILE, text),
            ("crates/tokio/src/runtime.rs", shim),
            ("crates/wakeful/src/sys/mod.rs", sys),
            ("crates/wakeful/src/lib.rs", lib),
        ];
        assert_eq!(places(check, &files), [""; 0]);
    }

    #[test]
    fn other_cfgs_are_found() {
        let text = "#[cfg(tokio_unstable)]\nfn f() {}\nfn g() -> bool { cfg!(fast) }\n\
                    #[cfg(version(\"1\"))]\nfn h() {}\n#[cfg(target_os = \"linux\")]\nfn i() {}\n\
                    #[cfg(windows)]\nfn j() {}\n";
        let at = |line| format!("{FILE}:{line}");
        assert_eq!(places(check, &[(FILE, text)]), [at(1), at(3), at(4), at(6), at(8)]);
    }

    #[test]
    fn loom_outside_its_home_is_found() {
        let text =
            "#[cfg(loom)]\nfn f() {}\n#[cfg(not(loom))]\nmod net;\nfn g() -> bool { cfg!(loom) }\n";
        let at = |line| format!("{FILE}:{line}");
        assert_eq!(places(check, &[(FILE, text)]), [at(1), at(3), at(5)]);
    }
}
