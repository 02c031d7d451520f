//! Every `unsafe fn`, `unsafe impl` and `unsafe trait` has a safety text.
//!
//! The text is `SAFETY:` or `# Safety` on the same line, or in the comments directly above with only
//! attributes between. clippy checks unsafe blocks.

use super::Finding;
use super::source::words;
use super::tree::{Rust, Tree};

pub fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (file, rust) in tree.rust("") {
        for (line, code) in rust.source.code_lines() {
            if let Some(kind) = unsafe_item(code)
                && !has_contract(rust, line)
            {
                let message = match kind {
                    "impl" => "`unsafe impl` without a `// SAFETY:` comment above it".into(),
                    kind => {
                        format!("`unsafe {kind}` without a `# Safety` or `SAFETY:` text above it")
                    }
                };
                findings.push(Finding::new(&file.path, line, message));
            }
        }
    }
    findings
}

/// Returns the kind of unsafe item that a line of code declares.
///
/// A type such as `unsafe fn(*const ())` declares no item.
fn unsafe_item(code: &str) -> Option<&str> {
    let mut behind = words(code)
        .skip_while(|&(_, word)| word != "unsafe")
        .skip(1)
        .skip_while(|&(_, word)| word == "extern");
    let (at, kind) = behind.next()?;
    let end = at + kind.len();
    match kind {
        "impl" | "trait" => Some(kind),
        "fn" if !code[end..].trim_start().starts_with('(') => Some(kind),
        _ => None,
    }
}

fn has_contract(rust: &Rust, line: usize) -> bool {
    let states_it = |line: usize| {
        let mut comments = rust.source.comments_on(line);
        comments
            .any(|comment| comment.text.contains("SAFETY:") || comment.text.contains("# Safety"))
    };
    let lines: Vec<&str> = rust.source.code.lines().collect();
    let mut at = line;
    loop {
        if states_it(at) {
            return true;
        }
        at -= 1;
        if at == 0 {
            return false;
        }
        let code = lines[at - 1].trim();
        let is_comment = code.is_empty() && rust.source.comments_on(at).next().is_some();
        // An attribute over several lines ends in `]` or `)]`.
        let is_attribute = code.starts_with("#[") || code.ends_with(")]");
        if !is_comment && !is_attribute {
            return false;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::check;
    use crate::tidy::testing::places;

    #[test]
    fn stated_contracts_pass() {
        let text = "// SAFETY: R1.\n// It is fine.\nunsafe impl Send for A {}\n\
                    /// Does.\n///\n/// # Safety\n/// Alive.\n#[inline]\npub unsafe fn f() {}\n\
                    struct V { f: unsafe fn(*const ()), g: unsafe extern \"C\" fn(u8) }\n\
                    unsafe fn g() {} // SAFETY: as above\nfn h() { unsafe { f() } }\n";
        assert_eq!(places(check, &[("a.rs", text)]), [""; 0]);
    }

    #[test]
    fn silent_ones_are_found() {
        let text = "// SAFETY: R1.\nunsafe impl Send for A {}\nunsafe impl Sync for A {}\n\
                    /// Does.\npub(crate) unsafe fn f() {}\n\nunsafe extern \"C\" fn g() {}\n\
                    // # Safety\n\nunsafe trait T {}\n";
        assert_eq!(places(check, &[("a.rs", text)]), ["a.rs:3", "a.rs:5", "a.rs:7", "a.rs:10"]);
    }
}
