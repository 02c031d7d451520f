//! The PostgreSQL server of the row `postgres`, from the system's packages.

use std::fs;
use std::io::{self, BufRead, BufReader};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;

/// A running database. Dropping it ends the process.
pub struct Database {
    process: Child,
    folder: PathBuf,
}

impl Database {
    /// Starts a database with its data and its socket in a folder of `scratch`.
    pub fn start(scratch: &Path) -> Result<Self, String> {
        start(scratch).map_err(|error| format!("{error} (apt-get install postgresql)"))
    }

    /// How clients connect.
    pub fn config(&self) -> String {
        format!("host={} user=postgres dbname=postgres", self.folder.display())
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        // SIGINT: PostgreSQL ends its clients' processes too.
        let _ = Command::new("kill").args(["-INT", &self.process.id().to_string()]).status();
        let _ = self.process.wait();
    }
}

fn start(scratch: &Path) -> io::Result<Database> {
    let programs = programs()?;
    let folder = scratch.join("postgres");
    fs::create_dir(&folder)?;
    // PostgreSQL refuses to run as root. The user that it gets instead has to write here.
    fs::set_permissions(&folder, PermissionsExt::from_mode(0o777))?;
    let is_root = fs::metadata("/proc/self")?.uid() == 0;
    let user = if is_root { Some(user_id()?) } else { None };
    let command = |program: &str| {
        let mut command = Command::new(programs.join(program));
        command.args(["-D", "data"]).current_dir(&folder).stdin(Stdio::null());
        if let Some(user) = user {
            command.uid(user).gid(user);
        }
        command
    };
    let made = command("initdb")
        .args(["-U", "postgres", "-A", "trust", "--no-sync", "--locale=C.UTF-8"])
        .output()?;
    if !made.status.success() {
        return Err(io::Error::other(String::from_utf8_lossy(&made.stderr).into_owned()));
    }
    let mut process = command("postgres")
        .args(["-c", "listen_addresses=", "-c", "fsync=off", "-k"])
        .arg(&folder)
        .stderr(Stdio::piped())
        .spawn()?;
    let log = process.stderr.take().expect("asked for above");
    let database = Database { process, folder };
    let mut lines = BufReader::new(log).lines();
    for line in lines.by_ref() {
        if line?.contains("ready to accept connections") {
            // The server goes on writing its log.
            thread::spawn(move || lines.for_each(drop));
            return Ok(database);
        }
    }
    Err(io::Error::other("PostgreSQL ended at its start"))
}

/// The folder of `initdb` and `postgres`. Debian's is not in the path.
fn programs() -> io::Result<PathBuf> {
    let in_path = std::env::var_os("PATH").unwrap_or_default();
    let versions = fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    std::env::split_paths(&in_path)
        .chain(versions.map(|version| version.path().join("bin")))
        .find(|folder| folder.join("initdb").exists() && folder.join("postgres").exists())
        .ok_or_else(|| io::Error::other("no PostgreSQL server is installed"))
}

fn user_id() -> io::Result<u32> {
    let output = Command::new("id").args(["-u", "postgres"]).output()?;
    let id = String::from_utf8_lossy(&output.stdout).trim().parse();
    id.map_err(|_| io::Error::other("there is no user postgres"))
}
