//! Starts the server that a suite's tests talk to, and ends it after them.

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::thread;

/// The servers that suites need. They come from the system's packages.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// PostgreSQL on the port that `tokio-postgres` expects, with the users and extensions of its tests.
    PostgreSql,
}

const POSTGRESQL_PORT: &str = "5433";

/// The access rules of `tokio-postgres`'s tests: one user for each way to prove a password.
const ACCESS: &str = "\
host all pass_user all password
host all md5_user all md5
host all scram_user all scram-sha-256
host all all all trust
local all all trust
";

const USERS: &str = "\
CREATE ROLE pass_user LOGIN PASSWORD 'password';
SET password_encryption TO 'md5';
CREATE ROLE md5_user LOGIN PASSWORD 'password';
SET password_encryption TO 'scram-sha-256';
CREATE ROLE scram_user LOGIN PASSWORD 'password';
CREATE EXTENSION hstore;
CREATE EXTENSION citext;
CREATE EXTENSION ltree;
";

impl Kind {
    /// What tests read from their environment to find the server.
    pub fn variables(self) -> &'static [(&'static str, &'static str)] {
        match self {
            Kind::PostgreSql => &[
                ("PG__HOST", "127.0.0.1"),
                ("PG__PORT", POSTGRESQL_PORT),
                ("PG__USER", "postgres"),
                ("PG__DBNAME", "postgres"),
            ],
        }
    }

    /// Starts the server, and returns when it accepts connections.
    pub fn start(self) -> Result<Server, String> {
        let started = match self {
            Kind::PostgreSql => start_postgresql(),
        };
        started.map_err(|error| match self {
            Kind::PostgreSql => format!("PostgreSQL: {error} (apt-get install postgresql)"),
        })
    }
}

/// A running server. Dropping it ends the process and removes the data.
pub struct Server {
    process: Child,
    _home: Home,
}

impl Drop for Server {
    fn drop(&mut self) {
        // SIGINT: PostgreSQL ends its clients' processes too.
        let _ = Command::new("kill").args(["-INT", &self.process.id().to_string()]).status();
        let _ = self.process.wait();
    }
}

/// The folder with a server's data.
struct Home(PathBuf);

impl Home {
    /// Makes a folder that every user can write to: PostgreSQL does not run as root, and gets another user then.
    fn new() -> std::io::Result<Self> {
        let path = std::env::temp_dir().join(format!("conformance-server-{}", std::process::id()));
        fs::create_dir(&path)?;
        let home = Self(path);
        fs::set_permissions(&home.0, PermissionsExt::from_mode(0o777))?;
        Ok(home)
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn start_postgresql() -> std::io::Result<Server> {
    let programs = postgresql_programs()?;
    let is_root = fs::metadata("/proc/self")?.uid() == 0;
    let user = if is_root { Some(user_id("postgres")?) } else { None };
    let home = Home::new()?;
    let command = |program: &str| {
        let mut command = Command::new(programs.join(program));
        command.current_dir(&home.0).stdin(Stdio::null());
        if let Some(user) = user {
            command.uid(user).gid(user);
        }
        command
    };
    let new = ["-D", "data", "-U", "postgres", "-A", "trust", "--no-sync", "--locale=C.UTF-8"];
    expect(command("initdb").args(new))?;
    fs::write(home.0.join("data/pg_hba.conf"), ACCESS)?;
    let settings = ["-D", "data", "-p", POSTGRESQL_PORT, "-k", "", "-c", "fsync=off"];
    let mut process = command("postgres").args(settings).stderr(Stdio::piped()).spawn()?;
    let log = process.stderr.take();
    let server = Server { process, _home: home };
    wait_for_line(log, "ready to accept connections")?;
    let psql = ["-h", "127.0.0.1", "-p", POSTGRESQL_PORT, "-U", "postgres", "-q", "-c", USERS];
    expect(Command::new("psql").args(psql))?;
    Ok(server)
}

/// The folder of `initdb` and `postgres`. Debian's is not in the path.
fn postgresql_programs() -> std::io::Result<PathBuf> {
    let in_path = std::env::var_os("PATH").unwrap_or_default();
    let versions = fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    std::env::split_paths(&in_path)
        .chain(versions.map(|version| version.path().join("bin")))
        .find(|folder| folder.join("initdb").exists() && folder.join("postgres").exists())
        .ok_or_else(|| std::io::Error::other("not installed"))
}

fn user_id(name: &str) -> std::io::Result<u32> {
    let output = Command::new("id").args(["-u", name]).output()?;
    let id = String::from_utf8_lossy(&output.stdout).trim().parse();
    id.map_err(|_| std::io::Error::other(format!("there is no user {name}")))
}

/// Runs a program that has to succeed.
fn expect(command: &mut Command) -> std::io::Result<()> {
    let output = command.output()?;
    if output.status.success() {
        return Ok(());
    }
    Err(std::io::Error::other(String::from_utf8_lossy(&output.stderr).into_owned()))
}

/// Reads the log until a line contains `text`, and leaves a thread that reads the rest.
fn wait_for_line(log: Option<impl Read + Send + 'static>, text: &str) -> std::io::Result<()> {
    let mut lines = log.into_iter().flat_map(|log| BufReader::new(log).lines());
    let mut last = "it has no log".to_owned();
    for line in lines.by_ref() {
        last = line?;
        if last.contains(text) {
            thread::spawn(move || lines.for_each(drop));
            return Ok(());
        }
    }
    Err(std::io::Error::other(last))
}
