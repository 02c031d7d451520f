//! Finds the live pages of the user's processes.
//!
//! A process with a page writes its URL to a file named after its process id, in a folder that only
//! the user can read. `wakeful::inspect::page` documents that folder.

use super::client::PageUrl;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// A process with a live page.
#[derive(Debug)]
pub struct Advertised {
    pub pid: u32,
    pub url: PageUrl,
}

impl Advertised {
    /// Returns the name of the program.
    pub fn program(&self) -> String {
        let name = fs::read_to_string(format!("/proc/{}/comm", self.pid)).unwrap_or_default();
        crate::top::clean(name.trim_end())
    }
}

/// Returns the folder in which processes of this user write their URLs.
pub fn folder() -> PathBuf {
    match std::env::var_os("XDG_RUNTIME_DIR") {
        Some(runtime) if !runtime.is_empty() => Path::new(&runtime).join("wakeful"),
        _ => std::env::temp_dir().join(format!("wakeful-{}", rustix::process::getuid().as_raw())),
    }
}

/// Returns the running processes that have a page, by process id.
///
/// A folder that another user owns or can write to counts as empty: a URL in it may lead anywhere.
pub fn all(folder: &Path) -> Vec<Advertised> {
    let mut all = Vec::new();
    if !is_private(folder) {
        return all;
    }
    for file in fs::read_dir(folder).into_iter().flatten().flatten() {
        let pid = file.file_name().to_str().and_then(|name| name.parse::<u32>().ok());
        let Some(pid) = pid.filter(|pid| Path::new(&format!("/proc/{pid}")).exists()) else {
            continue;
        };
        // A file that is being written has no complete URL yet.
        let url = fs::read_to_string(file.path()).ok().and_then(|url| PageUrl::parse(&url).ok());
        all.extend(url.map(|url| Advertised { pid, url }));
    }
    all.sort_by_key(|page| page.pid);
    all
}

fn is_private(folder: &Path) -> bool {
    fs::symlink_metadata(folder).is_ok_and(|metadata| {
        let is_own = metadata.uid() == rustix::process::getuid().as_raw();
        metadata.is_dir() && is_own && metadata.mode() & 0o077 == 0
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::Permissions;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn running_processes_with_a_whole_url_are_found() {
        let folder =
            std::env::temp_dir().join(format!("wakeful-advertised-{}", std::process::id()));
        fs::create_dir(&folder).unwrap();
        fs::set_permissions(&folder, Permissions::from_mode(0o700)).unwrap();
        let own = std::process::id();
        let url = "http://127.0.0.1:7000/?token=00112233445566778899aabbccddeeff";
        fs::write(folder.join(own.to_string()), url).unwrap();
        fs::write(folder.join("1"), "http://127.0.0.1:70").unwrap(); // not yet whole
        fs::write(folder.join("4294967295"), url).unwrap(); // no such process
        fs::write(folder.join("notes"), url).unwrap();
        let pids = || all(&folder).iter().map(|page| page.pid).collect::<Vec<_>>();
        assert_eq!(pids(), [own]);
        // Another user may write to this folder.
        fs::set_permissions(&folder, Permissions::from_mode(0o777)).unwrap();
        assert!(pids().is_empty());
        fs::remove_dir_all(&folder).unwrap();
    }
}
