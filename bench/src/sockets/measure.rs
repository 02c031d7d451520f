//! One cell: a server and a load generator in their own processes, pinned as the row
//! says, and the figures that come of them.

use std::env;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use serde_json::{Map, Value};

use super::Service;

/// The cores of the server and of the load generator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Placement {
    /// Both on one core.
    Together,
    /// Each on its own core.
    Apart,
    /// Where the kernel schedules them.
    Free,
}

impl Placement {
    fn server_cores(self) -> Option<&'static str> {
        (self != Placement::Free).then_some("0")
    }

    fn load_cores(self) -> Option<&'static str> {
        match self {
            Placement::Together => Some("0"),
            Placement::Apart => Some("1"),
            Placement::Free => None,
        }
    }
}

/// The settings of a row.
#[derive(Clone, Copy, Debug)]
pub struct Setting {
    pub service: Service,
    pub connections: usize,
    pub placement: Placement,
}

/// Starts the server, loads it, and returns the figures by name: see `rows::sockets::FIGURES`.
pub fn figures(setting: Setting, peer: &str) -> Result<Map<String, Value>, String> {
    let service = setting.service.name();
    let mut server = Helper::start(setting.placement.server_cores(), &["--serve", service, peer])?;
    let port: u16 = server.line()?.parse().map_err(|_| "the server printed no port".to_owned())?;
    match setting.service {
        Service::Http => under_wrk(setting, &mut server, port),
        Service::Echo | Service::BusyEcho => under_load(setting, &mut server, port),
    }
}

fn under_load(
    setting: Setting,
    server: &mut Helper,
    port: u16,
) -> Result<Map<String, Value>, String> {
    let addr = format!("127.0.0.1:{port}");
    let connections = setting.connections.to_string();
    let mut load = Helper::start(setting.placement.load_cores(), &["--load", &addr, &connections])?;
    if load.line()? != "warm" {
        return Err("the load generator did not warm up".into());
    }
    let before = server.cpu_ns()?;
    load.say("go")?;
    let said = load.line()?;
    let after = server.cpu_ns()?;
    complete(&said, after - before)
}

/// Runs wrk once as a warm-up, and once for the figures.
fn under_wrk(
    setting: Setting,
    server: &mut Helper,
    port: u16,
) -> Result<Map<String, Value>, String> {
    let script = env::temp_dir().join(format!("wakeful-bench-{}.lua", std::process::id()));
    fs::write(&script, include_str!("wrk.lua"))
        .map_err(|error| format!("{}: {error}", script.display()))?;
    let wrk = || {
        let mut command = pinned(setting.placement.load_cores(), "wrk".as_ref());
        let connections = format!("-c{}", setting.connections);
        command.args(["-t1", &connections, "-d1s", "-s"]).arg(&script);
        command.arg(format!("http://127.0.0.1:{port}/"));
        let output = command.output().map_err(|error| format!("wrk doesn't start: {error}"))?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        match text.lines().find(|line| line.starts_with('{')) {
            Some(figures) => Ok(figures.to_owned()),
            None => Err(format!("wrk said nothing of use: {text}")),
        }
    };
    let measured = wrk().and_then(|_| {
        let before = server.cpu_ns()?;
        let said = wrk()?;
        Ok((said, server.cpu_ns()? - before))
    });
    // The script is a temporary file, so an error does no harm.
    let _ = fs::remove_file(&script);
    let (said, cpu_ns) = measured?;
    complete(&said, cpu_ns)
}

/// Whether wrk can be started.
pub fn has_wrk() -> bool {
    Command::new("wrk").arg("-v").output().is_ok()
}

/// Adds the figures of the server to those of the generator.
fn complete(said: &str, cpu_ns: f64) -> Result<Map<String, Value>, String> {
    let Ok(Value::Object(mut figures)) = serde_json::from_str(said) else {
        return Err(format!("the load generator printed no figures: {said:?}"));
    };
    let number =
        |key: &str| figures.get(key).and_then(Value::as_f64).filter(|&number| number > 0.0);
    let (Some(requests), Some(seconds)) = (number("requests"), number("seconds")) else {
        return Err(format!("no request was answered: {said}"));
    };
    figures.insert("cpu_ns_per_op".into(), (cpu_ns / requests).into());
    figures.insert("per_s".into(), (requests / seconds).into());
    figures.insert("per_cpu_s".into(), (requests / cpu_ns * 1e9).into());
    Ok(figures)
}

/// Returns a command that runs on these cores only.
fn pinned(cores: Option<&str>, program: &std::ffi::OsStr) -> Command {
    match cores {
        None => Command::new(program),
        Some(cores) => {
            let mut command = Command::new("taskset");
            command.args(["-c", cores]).arg(program);
            command
        }
    }
}

/// A process of this binary in another role. Dropping it ends the process.
struct Helper {
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
}

impl Helper {
    fn start(cores: Option<&str>, arguments: &[&str]) -> Result<Self, String> {
        let binary = env::current_exe().map_err(|error| format!("this binary: {error}"))?;
        let mut child = pinned(cores, binary.as_os_str())
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|error| format!("{} doesn't start: {error}", arguments[0]))?;
        let (input, output) = (child.stdin.take(), child.stdout.take());
        let output = BufReader::new(output.expect("asked for above"));
        Ok(Self { child, input, output })
    }

    fn say(&mut self, word: &str) -> Result<(), String> {
        let input = self.input.as_mut().expect("open until the end");
        writeln!(input, "{word}").map_err(|error| format!("a helper has ended: {error}"))
    }

    fn line(&mut self) -> Result<String, String> {
        let mut line = String::new();
        match self.output.read_line(&mut line) {
            Ok(0) => Err("a helper ended without a word; see above".into()),
            Ok(_) => Ok(line.trim().to_owned()),
            Err(error) => Err(format!("a helper: {error}")),
        }
    }

    /// The processor time that the server has taken so far.
    fn cpu_ns(&mut self) -> Result<f64, String> {
        self.say("cpu")?;
        self.line()?.parse().map_err(|_| "the server printed no time".to_owned())
    }
}

impl Drop for Helper {
    fn drop(&mut self) {
        self.input = None;
        // A server with only busy threads may notice the closed input late, so it is killed. An
        // error means that it has ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
