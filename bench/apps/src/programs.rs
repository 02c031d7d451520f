//! The two programs under comparison: builds them, and starts their servers.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::{fs, io};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::retry_on_intr;
use serde_json::Value;

/// A program that is silent for this long is broken.
const PATIENCE: Timespec = Timespec { tv_sec: 60, tv_nsec: 0 };

/// A runtime, by the name that its program tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Peer {
    Tokio,
    Wakeful,
}

impl Peer {
    pub const ALL: [Peer; 2] = [Peer::Tokio, Peer::Wakeful];

    pub fn name(self) -> &'static str {
        match self {
            Peer::Tokio => "tokio",
            Peer::Wakeful => "wakeful",
        }
    }
}

/// Where the two programs are.
pub struct Programs {
    tokio: PathBuf,
    wakeful: PathBuf,
}

impl Programs {
    /// Builds both programs, which takes minutes for the first time.
    pub fn build() -> Result<Self, String> {
        Ok(Self { tokio: build(Peer::Tokio)?, wakeful: build(Peer::Wakeful)? })
    }

    pub fn path(&self, peer: Peer) -> &Path {
        match peer {
            Peer::Tokio => &self.tokio,
            Peer::Wakeful => &self.wakeful,
        }
    }
}

fn build(peer: Peer) -> Result<PathBuf, String> {
    eprintln!("building the applications on {}", peer.name());
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("on-{}", peer.name()));
    let output = Command::new("cargo")
        .args(["build", "--release", "--message-format=json-render-diagnostics"])
        .current_dir(&folder)
        .stderr(Stdio::inherit())
        .output()
        .map_err(|error| format!("cargo doesn't start: {error}"))?;
    if !output.status.success() {
        return Err(format!("the applications on {} do not build; see above", peer.name()));
    }
    let text = String::from_utf8_lossy(&output.stdout);
    let executable = text
        .lines()
        .filter_map(|line| serde_json::from_str::<Value>(line).ok())
        .find_map(|message| message["executable"].as_str().map(PathBuf::from));
    executable.ok_or_else(|| format!("cargo named no program in {}", folder.display()))
}

/// A server in a process of its own, which ends when this is dropped.
pub struct Server {
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
    hello: Value,
}

impl Server {
    /// Starts a program, and returns when it is ready. `scratch` is its folder for temporary files.
    pub fn start(
        programs: &Programs,
        peer: Peer,
        arguments: &[&str],
        scratch: &Path,
    ) -> Result<Self, String> {
        let mut child = Command::new(programs.path(peer))
            .args(arguments)
            .env("TMPDIR", scratch)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|error| format!("{} doesn't start: {error}", programs.path(peer).display()))?;
        let (input, output) = (child.stdin.take(), child.stdout.take());
        let output = BufReader::new(output.expect("asked for above"));
        let mut server = Self { child, input, output, hello: Value::Null };
        let line = server.line()?;
        server.hello = serde_json::from_str(&line).map_err(|_| format!("not JSON: {line}"))?;
        match server.hello["runtime"].as_str() {
            Some(name) if name == peer.name() => Ok(server),
            other => Err(format!("a program for {} runs on {other:?}", peer.name())),
        }
    }

    /// The line that the program printed first.
    pub fn hello(&self) -> &Value {
        &self.hello
    }

    pub fn port(&self) -> Result<u16, String> {
        let port = self.hello["port"].as_u64().and_then(|port| port.try_into().ok());
        port.ok_or_else(|| format!("the server told no port: {}", self.hello))
    }

    /// The certificate of a server with TLS.
    pub fn certificate(&self) -> Option<Vec<u8>> {
        let bytes = self.hello["certificate"].as_array()?;
        bytes.iter().map(|byte| byte.as_u64().and_then(|byte| byte.try_into().ok())).collect()
    }

    /// The processor time that the server has taken so far.
    pub fn cpu_ns(&mut self) -> Result<f64, String> {
        let input = self.input.as_mut().expect("open until the end");
        writeln!(input, "cpu").map_err(|error| format!("the server has ended: {error}"))?;
        self.line()?.parse().map_err(|_| "the server told no processor time".to_owned())
    }

    /// The resident memory of the server.
    pub fn resident_bytes(&self) -> Result<f64, String> {
        let path = format!("/proc/{}/status", self.child.id());
        let status = fs::read_to_string(&path).map_err(|error| format!("{path}: {error}"))?;
        resident_bytes(&status).ok_or_else(|| format!("{path} has no VmRSS"))
    }

    fn line(&mut self) -> Result<String, String> {
        // It prints one line at a time, so none is in the buffer.
        let mut output = [PollFd::new(self.output.get_ref(), PollFlags::IN)];
        match retry_on_intr(|| poll(&mut output, Some(&PATIENCE))) {
            Ok(0) => return Err(format!("the server said nothing for {} s", PATIENCE.tv_sec)),
            Ok(_) => {}
            Err(error) => return Err(format!("the server: {error}")),
        }
        let mut line = String::new();
        match self.output.read_line(&mut line) {
            Ok(0) => Err("the server ended without a word; see above".into()),
            Ok(_) => Ok(line.trim().to_owned()),
            Err(error) => Err(format!("the server: {error}")),
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.input = None;
        // A server whose threads are all busy may be slow to see that. An error means that it has ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn resident_bytes(status: &str) -> Option<f64> {
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    line.trim().strip_suffix(" kB")?.parse::<f64>().ok().map(|kib| kib * 1024.0)
}

/// A folder for temporary files, which is removed with its contents when this is dropped.
pub struct Scratch(PathBuf);

impl Scratch {
    pub fn new() -> io::Result<Self> {
        let path = std::env::temp_dir().join(format!("wakeful-apps-{}", std::process::id()));
        fs::create_dir(&path)?;
        Ok(Self(path))
    }

    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::resident_bytes;

    #[test]
    fn resident_memory_is_read_from_the_status() {
        let status = "Name:\tx\nVmHWM:\t   90 kB\nVmRSS:\t   12 kB\nThreads:\t1\n";
        assert_eq!(resident_bytes(status), Some(12288.0));
        assert_eq!(resident_bytes("Name:\tx\n"), None);
    }
}
