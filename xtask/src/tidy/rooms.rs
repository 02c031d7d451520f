//! Which room of the runtime a file belongs to.

/// Where the rooms are.
pub const ROOMS: &str = "crates/wakeful/src/";

/// The room of a path: `task` for the folder `task` and for a file `task.rs`,
/// `""` for the root of the crate, nothing for a file outside the runtime.
pub fn room_of(path: &str) -> Option<&str> {
    let inside = path.strip_prefix(ROOMS)?;
    Some(match inside.split_once('/') {
        Some((room, _)) => room,
        None => match inside.strip_suffix(".rs") {
            None | Some("lib") => "",
            Some(room) => room,
        },
    })
}

#[cfg(test)]
mod tests {
    use super::room_of;

    #[test]
    fn files_and_folders_are_rooms() {
        assert_eq!(room_of("crates/wakeful/src/task/cell.rs"), Some("task"));
        assert_eq!(room_of("crates/wakeful/src/task/README.md"), Some("task"));
        assert_eq!(room_of("crates/wakeful/src/coop.rs"), Some("coop"));
        assert_eq!(room_of("crates/wakeful/src/lib.rs"), Some(""));
    }

    #[test]
    fn other_crates_have_no_rooms() {
        assert_eq!(room_of("crates/wakeful-macros/src/lib.rs"), None);
        assert_eq!(room_of("xtask/src/main.rs"), None);
    }
}
