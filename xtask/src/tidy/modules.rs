//! Tells which module of the runtime a file belongs to.

/// The folder that has the modules.
pub const MODULES: &str = "crates/wakeful/src/";

/// Returns the module of a path: `task` for the folder `task` and for a file `task.rs`.
///
/// The root of the crate is `""`. A file outside the runtime has no module.
pub fn module_of(path: &str) -> Option<&str> {
    let inside = path.strip_prefix(MODULES)?;
    Some(match inside.split_once('/') {
        Some((module, _)) => module,
        None => match inside.strip_suffix(".rs") {
            None | Some("lib") => "",
            Some(module) => module,
        },
    })
}

#[cfg(test)]
mod tests {
    use super::module_of;

    #[test]
    fn files_and_folders_are_modules() {
        assert_eq!(module_of("crates/wakeful/src/task/cell.rs"), Some("task"));
        assert_eq!(module_of("crates/wakeful/src/task/README.md"), Some("task"));
        assert_eq!(module_of("crates/wakeful/src/coop.rs"), Some("coop"));
        assert_eq!(module_of("crates/wakeful/src/lib.rs"), Some(""));
    }

    #[test]
    fn other_crates_have_no_modules() {
        assert_eq!(module_of("crates/wakeful-macros/src/lib.rs"), None);
        assert_eq!(module_of("xtask/src/main.rs"), None);
    }
}
