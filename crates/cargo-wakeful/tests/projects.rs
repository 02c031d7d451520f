//! `cargo wakeful` in small projects, made for the purpose. Most of them are built against a face that does nothing but
//! say who it is; the last one is built against wakeful.

use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use std::fs;
use std::io::Read;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// A folder with a project in `project` and a face in `face`.
struct Place(PathBuf);

impl Place {
    fn new() -> Self {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        let name = format!("cargo-wakeful-{}-{}", std::process::id(), NEXT.fetch_add(1, Relaxed));
        let place = Self(std::env::temp_dir().join(name));
        place.write("face/Cargo.toml", FACE);
        place.write("face/src/lib.rs", "pub fn who() -> &'static str { \"the face\" }");
        place
    }

    /// A project with these dependencies.
    fn with(dependencies: &str) -> Self {
        let place = Self::new();
        let manifest = format!(
            "[workspace]\n[package]\nname = \"project\"\nversion = \"0.1.0\"\nedition = \"2024\"\n\
             [dependencies]\n{dependencies}\n"
        );
        place.write("project/Cargo.toml", &manifest);
        let main = "fn main() { println!(\"on {} with {}\", tokio::who(), std::env::args().skip(1).collect::<Vec<_>>().join(\" \")); }\n\
                    #[test] fn works() { assert_eq!(tokio::who(), \"the face\"); }\n";
        place.write("project/src/main.rs", main);
        place
    }

    fn write(&self, name: &str, text: &str) {
        let path = self.0.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    fn lock(&self) -> Option<Vec<u8>> {
        fs::read(self.path("project/Cargo.lock")).ok()
    }

    /// cargo itself, in the project.
    fn cargo(&self, arguments: &[&str]) {
        let output = self.command("cargo").args(arguments).output().unwrap();
        assert!(output.status.success(), "{arguments:?}: {}", text(&output.stderr));
    }

    fn wakeful(&self, arguments: &[&str]) -> Output {
        let program = env!("CARGO_BIN_EXE_cargo-wakeful");
        self.command(program).arg("wakeful").args(arguments).output().unwrap()
    }

    fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        command.current_dir(self.path("project")).env("WAKEFUL_TOKIO_SHIM", self.path("face"));
        // The project's, not those of the build that this test is part of.
        for name in ["CARGO_TARGET_DIR", "RUSTFLAGS", "CARGO_ENCODED_RUSTFLAGS"] {
            command.env_remove(name);
        }
        command
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

const FACE: &str = "[workspace]\n[package]\nname = \"tokio\"\nversion = \"1.54.1\"\nedition = \"2024\"\n\
                    [features]\nfull = []\nrt = []\ntracing = []\n";

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[track_caller]
fn assert_success(output: &Output) {
    assert!(output.status.success(), "{}{}", text(&output.stdout), text(&output.stderr));
}

#[test]
fn a_project_without_a_lock_file_has_none_afterwards() {
    let place = Place::with("tokio = { version = \"1\", features = [\"full\"] }");
    let manifest = fs::read(place.path("project/Cargo.toml")).unwrap();
    let output = place.wakeful(&["run", "--", "a", "--b"]);
    assert_success(&output);
    assert_eq!(text(&output.stdout), "on the face with a --b\n");
    assert!(text(&output.stderr).contains("wakeful is in the place of tokio 1.54.1"));
    assert_eq!(place.lock(), None);
    assert_eq!(fs::read(place.path("project/Cargo.toml")).unwrap(), manifest);
    assert!(!place.path("project/target/debug").exists(), "its own target folder");
}

#[test]
fn a_lock_file_with_another_tokio_comes_back_byte_for_byte() {
    let place = Place::with("tokio = { version = \"1\", features = [\"rt\"] }");
    place.cargo(&["generate-lockfile"]);
    place.cargo(&["update", "-p", "tokio", "--precise", "1.50.0"]);
    let lock = place.lock().unwrap();
    assert!(text(&lock).contains("1.50.0"));
    for arguments in [&["test"][..], &["build"], &["check"], &["run"], &["tree"]] {
        let output = place.wakeful(arguments);
        assert_success(&output);
        assert_eq!(place.lock().unwrap(), lock, "{arguments:?}");
    }
    // A failure is passed on, and the lock file comes back all the same.
    let output = place.wakeful(&["test", "--", "--no-such-option"]);
    assert!(!output.status.success());
    place.write("project/src/main.rs", "fn main() { no such thing }");
    for arguments in [&["run"][..], &["check"]] {
        let output = place.wakeful(arguments);
        assert_eq!(output.status.code(), Some(101), "{arguments:?}");
        assert_eq!(place.lock().unwrap(), lock, "{arguments:?}");
    }
}

#[test]
fn one_of_several_programs_is_run() {
    let place = Place::with("tokio = \"1\"");
    place.write("project/src/bin/other.rs", "fn main() { println!(\"the other\"); }");
    let output = place.wakeful(&["run"]);
    assert!(!output.status.success());
    let said = text(&output.stderr);
    assert!(said.contains("which one? name it with --bin: "), "{said}");
    let output = place.wakeful(&["run", "--bin", "other"]);
    assert_eq!(text(&output.stdout), "the other\n");
    let manifest = fs::read_to_string(place.path("project/Cargo.toml")).unwrap();
    let named = manifest.replace("[dependencies]", "default-run = \"project\"\n[dependencies]");
    place.write("project/Cargo.toml", &named);
    let output = place.wakeful(&["run", "--quiet", "an", "--argument"]);
    assert_eq!(text(&output.stdout), "on the face with an --argument\n");
}

#[test]
fn who_asks_for_another_version_is_named() {
    let place = Place::with("tokio = \"1\"\nhelper = { path = \"../helper\" }");
    let helper = "[package]\nname = \"helper\"\nversion = \"0.3.0\"\nedition = \"2024\"\n\
                  [dependencies]\ntokio = \"=1.50.0\"\n";
    place.write("helper/Cargo.toml", helper);
    place.write("helper/src/lib.rs", "");
    place.cargo(&["generate-lockfile"]);
    let lock = place.lock().unwrap();
    for arguments in [&["build"][..], &["run"], &["doctor"]] {
        let output = place.wakeful(arguments);
        assert!(!output.status.success());
        let said = text(&output.stdout) + &text(&output.stderr);
        assert!(said.contains("NOT in the place of tokio"), "{said}");
        assert!(said.contains("helper 0.3.0 asks for tokio `=1.50.0`"), "{said}");
        assert_eq!(place.lock().unwrap(), lock);
    }
    assert!(!place.path("project/target/wakeful/debug").exists(), "nothing was built");
}

#[test]
fn who_asks_for_an_unknown_feature_is_named() {
    // The real tokio has it, and the face of this test has not: cargo would take the real one.
    let place = Place::with("tokio = { version = \"1\", features = [\"time\"] }");
    let output = place.wakeful(&["build"]);
    assert!(!output.status.success());
    let said = text(&output.stderr);
    assert!(said.contains("project 0.1.0 asks for the feature `time` of tokio"), "{said}");
    assert_eq!(place.lock(), None);
}

#[test]
fn the_doctor_says_from_which_version_to_which_the_locked_tokio_moves() {
    let place = Place::with("tokio = { version = \"1\", features = [\"rt\"] }");
    place.cargo(&["generate-lockfile"]);
    place.cargo(&["update", "-p", "tokio", "--precise", "1.50.0"]);
    // The second time, the lock file with wakeful is the file that the first call has kept.
    for _ in 0..2 {
        let output = place.wakeful(&["doctor"]);
        assert_success(&output);
        let said = text(&output.stdout);
        assert!(said.contains("the locked version moves from 1.50.0 to 1.54.1"), "{said}");
    }
    place.cargo(&["update", "-p", "tokio", "--precise", "1.54.1"]);
    let said = text(&place.wakeful(&["doctor"]).stdout);
    assert!(said.contains("yes: ") && !said.contains("moves from"), "{said}");
}

#[test]
fn the_version_is_told_without_a_project() {
    for argument in ["--version", "-V", "version"] {
        let program = env!("CARGO_BIN_EXE_cargo-wakeful");
        let mut command = Command::new(program);
        let output = command.args(["wakeful", argument]).current_dir("/").output().unwrap();
        assert_success(&output);
        assert_eq!(
            text(&output.stdout),
            concat!("cargo-wakeful ", env!("CARGO_PKG_VERSION"), "\n")
        );
    }
}

#[test]
fn the_doctor_says_what_would_be_missing() {
    let place = Place::with("tokio = { version = \"1\", features = [\"rt\", \"tracing\"] }");
    let output = place.wakeful(&["doctor"]);
    assert_success(&output);
    let said = text(&output.stdout);
    assert!(said.contains("yes:     wakeful is in the place of tokio 1.54.1"), "{said}");
    assert!(said.contains("the feature `tracing` does nothing here"), "{said}");
    assert!(!said.contains("tokio_unstable"), "{said}");
    let config = "[build]\nrustflags = [\"--cfg\", \"tokio_unstable\"]\n";
    place.write("project/.cargo/config.toml", config);
    let said = text(&place.wakeful(&["doctor"]).stdout);
    assert!(said.contains(".cargo/config.toml sets `tokio_unstable`"), "{said}");

    let place = Place::with("");
    let output = place.wakeful(&["doctor"]);
    assert!(!output.status.success());
    assert!(text(&output.stdout).contains("does not depend on tokio"));
    let face = place.path("nowhere");
    let program = env!("CARGO_BIN_EXE_cargo-wakeful");
    let output =
        place.command(program).arg("doctor").env("WAKEFUL_TOKIO_SHIM", face).output().unwrap();
    assert!(text(&output.stderr).contains("set WAKEFUL_TOKIO_SHIM"), "{}", text(&output.stderr));
}

/// A project whose build waits for ever, and cargo wakeful that builds it.
fn stuck(place: &Place, what: &str) -> Child {
    for name in ["begun", "never"] {
        let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
        let kind = rustix::fs::FileType::Fifo;
        rustix::fs::mknodat(rustix::fs::CWD, place.path(name), kind, mode, 0).unwrap();
    }
    let script = "fn main() {\n    std::fs::write(\"../begun\", \"x\").unwrap();\n    \
                  std::fs::read(\"../never\").unwrap();\n}\n";
    place.write("project/build.rs", script);
    let child = place
        .command(env!("CARGO_BIN_EXE_cargo-wakeful"))
        .args(["wakeful", what])
        .process_group(0)
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    // This waits until the build script has opened the other end.
    let mut begun = fs::File::open(place.path("begun")).unwrap();
    begun.read_exact(&mut [0]).unwrap();
    child
}

#[test]
fn whoever_ends_it_finds_the_lock_file_back() {
    type End = fn(Pid) -> rustix::io::Result<()>;
    // Ctrl-C is for all programs of the terminal; a request to end, for one.
    let ends: [End; 2] =
        [|id| kill_process_group(id, Signal::INT), |id| kill_process(id, Signal::TERM)];
    for (end, what) in ends.into_iter().flat_map(|end| [(end, "build"), (end, "run")]) {
        let place = Place::with("tokio = \"1\"");
        place.cargo(&["generate-lockfile"]);
        let lock = place.lock().unwrap();
        let mut child = stuck(&place, what);
        assert_ne!(place.lock().unwrap(), lock, "swapped while cargo runs");
        let id = Pid::from_child(&child);
        end(id).unwrap();
        assert!(!child.wait().unwrap().success());
        assert_eq!(place.lock().unwrap(), lock);
        // What cargo left behind.
        let _ = kill_process_group(id, Signal::KILL);
    }
}

#[test]
fn a_program_of_tokios_runs_on_wakeful() {
    let place = Place::with("tokio = { version = \"1.40\", features = [\"full\"] }");
    let main = "#[tokio::main]\nasync fn main() {\n    let task = tokio::spawn(async { 6 * 7 });\n    \
                let name = std::any::type_name::<tokio::task::JoinHandle<()>>();\n    \
                println!(\"{} by {name}\", task.await.unwrap());\n}\n";
    place.write("project/src/main.rs", main);
    let output = place
        .command(env!("CARGO_BIN_EXE_cargo-wakeful"))
        .args(["wakeful", "run"])
        .env_remove("WAKEFUL_TOKIO_SHIM")
        // Wakeful itself is built once, not for each run of this test.
        .env("CARGO_TARGET_DIR", env!("CARGO_TARGET_TMPDIR"))
        .output()
        .unwrap();
    assert_success(&output);
    assert!(text(&output.stdout).starts_with("42 by wakeful::"), "{}", text(&output.stdout));
    assert_eq!(place.lock(), None);
}
