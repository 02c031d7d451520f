//! `cargo wakeful` in small projects.
//!
//! Most of them are built against a fake shim with one function; the last one is built against wakeful.

use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use std::fs;
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// A folder with a project in `project` and a fake shim in `shim`.
struct TestFolder(PathBuf);

impl TestFolder {
    fn new() -> Self {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        let name = format!("cargo-wakeful-{}-{}", std::process::id(), NEXT.fetch_add(1, Relaxed));
        let folder = Self(std::env::temp_dir().join(name));
        folder.write("shim/Cargo.toml", SHIM);
        folder.write("shim/src/lib.rs", "pub fn who() -> &'static str { \"the shim\" }");
        folder
    }

    /// Creates a project with these dependencies.
    fn with(dependencies: &str) -> Self {
        let folder = Self::new();
        let manifest = format!(
            "[workspace]\n[package]\nname = \"project\"\nversion = \"0.1.0\"\nedition = \"2024\"\n\
             [dependencies]\n{dependencies}\n"
        );
        folder.write("project/Cargo.toml", &manifest);
        let main = "fn main() { println!(\"on {} with {}\", tokio::who(), std::env::args().skip(1).collect::<Vec<_>>().join(\" \")); }\n\
                    #[test] fn works() { assert_eq!(tokio::who(), \"the shim\"); }\n";
        folder.write("project/src/main.rs", main);
        folder
    }

    fn write(&self, name: &str, text: &str) {
        let path = self.0.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// Makes named pipes, by which processes wait for each other.
    fn make_pipes(&self, names: &[&str]) {
        for name in names {
            let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
            let kind = rustix::fs::FileType::Fifo;
            rustix::fs::mknodat(rustix::fs::CWD, self.path(name), kind, mode, 0).unwrap();
        }
    }

    fn lock(&self) -> Option<Vec<u8>> {
        fs::read(self.path("project/Cargo.lock")).ok()
    }

    /// Runs cargo in the project.
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
        command.current_dir(self.path("project")).env("WAKEFUL_TOKIO_SHIM", self.path("shim"));
        // The settings of the build that runs this test must not affect the project.
        for name in ["CARGO_TARGET_DIR", "RUSTFLAGS", "CARGO_ENCODED_RUSTFLAGS"] {
            command.env_remove(name);
        }
        command
    }
}

impl Drop for TestFolder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

const SHIM: &str = "[workspace]\n[package]\nname = \"tokio\"\nversion = \"1.54.1\"\nedition = \"2024\"\n\
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
    let folder = TestFolder::with("tokio = { version = \"1\", features = [\"full\"] }");
    let manifest = fs::read(folder.path("project/Cargo.toml")).unwrap();
    let output = folder.wakeful(&["run", "--", "a", "--b"]);
    assert_success(&output);
    assert_eq!(text(&output.stdout), "on the shim with a --b\n");
    assert!(text(&output.stderr).contains("wakeful is in the place of tokio 1.54.1"));
    assert_eq!(folder.lock(), None);
    assert_eq!(fs::read(folder.path("project/Cargo.toml")).unwrap(), manifest);
    assert!(!folder.path("project/target/debug").exists(), "its own target folder");
}

#[test]
fn a_lock_file_with_another_tokio_comes_back_byte_for_byte() {
    let folder = TestFolder::with("tokio = { version = \"1\", features = [\"rt\"] }");
    folder.cargo(&["generate-lockfile"]);
    folder.cargo(&["update", "-p", "tokio", "--precise", "1.50.0"]);
    let lock = folder.lock().unwrap();
    assert!(text(&lock).contains("1.50.0"));
    for arguments in [&["test"][..], &["build"], &["check"], &["run"], &["tree"]] {
        let output = folder.wakeful(arguments);
        assert_success(&output);
        assert_eq!(folder.lock().unwrap(), lock, "{arguments:?}");
    }
    // A failure is returned, and the lock file is restored.
    let output = folder.wakeful(&["test", "--", "--no-such-option"]);
    assert!(!output.status.success());
    folder.write("project/src/main.rs", "fn main() { no such thing }");
    for arguments in [&["run"][..], &["check"]] {
        let output = folder.wakeful(arguments);
        assert_eq!(output.status.code(), Some(101), "{arguments:?}");
        assert_eq!(folder.lock().unwrap(), lock, "{arguments:?}");
    }
}

#[test]
fn one_of_several_programs_is_run() {
    let folder = TestFolder::with("tokio = \"1\"");
    folder.write("project/src/bin/other.rs", "fn main() { println!(\"the other\"); }");
    let output = folder.wakeful(&["run"]);
    assert!(!output.status.success());
    let said = text(&output.stderr);
    assert!(said.contains("which one? name it with --bin: "), "{said}");
    let output = folder.wakeful(&["run", "--bin", "other"]);
    assert_eq!(text(&output.stdout), "the other\n");
    let manifest = fs::read_to_string(folder.path("project/Cargo.toml")).unwrap();
    let named = manifest.replace("[dependencies]", "default-run = \"project\"\n[dependencies]");
    folder.write("project/Cargo.toml", &named);
    let output = folder.wakeful(&["run", "--quiet", "an", "--argument"]);
    assert_eq!(text(&output.stdout), "on the shim with an --argument\n");
}

#[test]
fn a_package_that_requires_another_version_is_named() {
    let folder = TestFolder::with("tokio = \"1\"\nhelper = { path = \"../helper\" }");
    let helper = "[package]\nname = \"helper\"\nversion = \"0.3.0\"\nedition = \"2024\"\n\
                  [dependencies]\ntokio = \"=1.50.0\"\n";
    folder.write("helper/Cargo.toml", helper);
    folder.write("helper/src/lib.rs", "");
    folder.cargo(&["generate-lockfile"]);
    let lock = folder.lock().unwrap();
    for arguments in [&["build"][..], &["run"], &["doctor"]] {
        let output = folder.wakeful(arguments);
        assert!(!output.status.success());
        let said = text(&output.stdout) + &text(&output.stderr);
        assert!(said.contains("does not replace tokio"), "{said}");
        assert!(said.contains("helper 0.3.0 requires tokio `=1.50.0`"), "{said}");
        assert_eq!(folder.lock().unwrap(), lock);
    }
    assert!(!folder.path("project/target/wakeful/debug").exists(), "nothing was built");
}

#[test]
fn a_package_that_requires_an_unknown_feature_is_named() {
    // The real tokio has the feature and the fake shim lacks it, so cargo would use the real tokio.
    let folder = TestFolder::with("tokio = { version = \"1\", features = [\"time\"] }");
    let output = folder.wakeful(&["build"]);
    assert!(!output.status.success());
    let said = text(&output.stderr);
    assert!(said.contains("project 0.1.0 requires the feature `time` of tokio"), "{said}");
    assert_eq!(folder.lock(), None);
}

#[test]
fn the_doctor_reports_that_the_locked_tokio_moves_to_another_version() {
    let folder = TestFolder::with("tokio = { version = \"1\", features = [\"rt\"] }");
    folder.cargo(&["generate-lockfile"]);
    folder.cargo(&["update", "-p", "tokio", "--precise", "1.50.0"]);
    // The second call uses the lock file that the first one has cached.
    for _ in 0..2 {
        let output = folder.wakeful(&["doctor"]);
        assert_success(&output);
        let said = text(&output.stdout);
        assert!(said.contains("the locked version moves from 1.50.0 to 1.54.1"), "{said}");
    }
    folder.cargo(&["update", "-p", "tokio", "--precise", "1.54.1"]);
    let said = text(&folder.wakeful(&["doctor"]).stdout);
    assert!(said.contains("yes: ") && !said.contains("moves from"), "{said}");
}

#[test]
fn the_version_is_printed_without_a_project() {
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
fn the_doctor_reports_what_the_project_would_lack() {
    let folder = TestFolder::with("tokio = { version = \"1\", features = [\"rt\", \"tracing\"] }");
    let output = folder.wakeful(&["doctor"]);
    assert_success(&output);
    let said = text(&output.stdout);
    assert!(said.contains("yes:     wakeful is in the place of tokio 1.54.1"), "{said}");
    assert!(said.contains("the feature `tracing` has no effect"), "{said}");
    let config = "[build]\nrustflags = [\"--cfg\", \"tokio_unstable\"]\n";
    folder.write("project/.cargo/config.toml", config);
    // What works needs no note.
    assert_eq!(text(&folder.wakeful(&["doctor"]).stdout), said);

    let folder = TestFolder::with("");
    let output = folder.wakeful(&["doctor"]);
    assert!(!output.status.success());
    assert!(text(&output.stdout).contains("does not depend on tokio"));
    let shim = folder.path("nowhere");
    let program = env!("CARGO_BIN_EXE_cargo-wakeful");
    let output =
        folder.command(program).arg("doctor").env("WAKEFUL_TOKIO_SHIM", shim).output().unwrap();
    assert!(text(&output.stderr).contains("set WAKEFUL_TOKIO_SHIM"), "{}", text(&output.stderr));
}

/// Starts `cargo wakeful` in a project whose build script never ends.
fn stuck(folder: &TestFolder, what: &str) -> Child {
    folder.make_pipes(&["begun", "never"]);
    let script = "fn main() {\n    std::fs::write(\"../begun\", \"x\").unwrap();\n    \
                  std::fs::read(\"../never\").unwrap();\n}\n";
    folder.write("project/build.rs", script);
    let child = folder
        .command(env!("CARGO_BIN_EXE_cargo-wakeful"))
        .args(["wakeful", what])
        .process_group(0)
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    // This waits until the build script has opened the other end.
    let mut begun = fs::File::open(folder.path("begun")).unwrap();
    begun.read_exact(&mut [0]).unwrap();
    child
}

#[test]
fn signals_restore_the_lock_file() {
    type End = fn(Pid) -> rustix::io::Result<()>;
    // A terminal sends SIGINT to all its processes; SIGTERM reaches one.
    let ends: [End; 2] =
        [|id| kill_process_group(id, Signal::INT), |id| kill_process(id, Signal::TERM)];
    for (end, what) in ends.into_iter().flat_map(|end| [(end, "build"), (end, "run")]) {
        let folder = TestFolder::with("tokio = \"1\"");
        folder.cargo(&["generate-lockfile"]);
        let lock = folder.lock().unwrap();
        let mut child = stuck(&folder, what);
        assert_ne!(folder.lock().unwrap(), lock, "swapped while cargo runs");
        let id = Pid::from_child(&child);
        end(id).unwrap();
        assert!(!child.wait().unwrap().success());
        assert_eq!(folder.lock().unwrap(), lock);
        // End what cargo has left running.
        let _ = kill_process_group(id, Signal::KILL);
    }
}

/// A program that advertises its page as wakeful does, answers one request, and waits until it is ended.
const PAGE_PROGRAM: &str = r#"
use std::io::{Read, Write};
use std::os::unix::fs::DirBuilderExt;

fn main() {
    assert_eq!(tokio::who(), "the shim");
    assert_eq!(std::env::var("WAKEFUL_PAGE").unwrap(), "1");
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let (address, pid) = (listener.local_addr().unwrap(), std::process::id());
    let folder = std::path::PathBuf::from(std::env::var("XDG_RUNTIME_DIR").unwrap());
    std::fs::DirBuilder::new().mode(0o700).recursive(true).create(folder.join("wakeful")).unwrap();
    let token = "token=00112233445566778899aabbccddeeff";
    let url = format!("http://{address}/?{token}\nhttp://{address}/?code=ffeeddccbbaa99887766554433221100\n");
    std::fs::write(folder.join("wakeful").join(pid.to_string()), url).unwrap();
    let mut client = listener.accept().unwrap().0;
    client.read(&mut [0; 1024]).unwrap();
    write!(client, "HTTP/1.1 200 OK\r\n\r\n{{\"process\":{{\"pid\":{pid}}}}}").unwrap();
    drop(client);
    std::fs::read(folder.join("end")).unwrap();
}

#[test]
fn serves() {
    main();
}
"#;

#[test]
fn the_page_of_a_program_is_opened_in_the_browser() {
    let folder = TestFolder::with("tokio = \"1\"");
    folder.write("project/src/main.rs", PAGE_PROGRAM);
    folder.write("bin/xdg-open", "#!/bin/sh\nprintf %s \"$1\" > \"$XDG_RUNTIME_DIR/opened\"\n");
    let script = folder.path("bin/xdg-open");
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
    folder.make_pipes(&["opened", "end"]);
    let path = std::env::var("PATH").unwrap();
    for arguments in [["run", "--page"], ["test", "--page"]] {
        let mut child = folder
            .command(env!("CARGO_BIN_EXE_cargo-wakeful"))
            .args(arguments)
            .env("PATH", format!("{}:{path}", folder.path("bin").display()))
            .env("XDG_RUNTIME_DIR", &folder.0)
            .env("DISPLAY", ":0")
            .env_remove("WAKEFUL_PAGE")
            .process_group(0)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        // Ends when the browser is opened. The time limit ends this test if it never is.
        let opened =
            Command::new("timeout").args(["300", "cat"]).arg(folder.path("opened")).output();
        let url = text(&opened.unwrap().stdout);
        if url.is_empty() {
            let _ = kill_process_group(Pid::from_child(&child), Signal::KILL);
        } else {
            fs::write(folder.path("end"), "").unwrap();
        }
        let status = child.wait().unwrap();
        // Other users can see the arguments of a browser.
        assert!(
            url.ends_with("/?code=ffeeddccbbaa99887766554433221100") && !url.contains("token"),
            "{arguments:?}: {url:?}"
        );
        assert!(status.success(), "{arguments:?}");
    }
}

#[test]
fn a_program_with_a_page_runs_without_a_browser() {
    let folder = TestFolder::with("tokio = \"1\"");
    folder.write(
        "project/src/main.rs",
        "fn main() { println!(\"{:?} {}\", std::env::var(\"WAKEFUL_PAGE\"), tokio::who()); }",
    );
    let run = |page: Option<&str>| {
        let mut command = folder.command(env!("CARGO_BIN_EXE_cargo-wakeful"));
        command.args(["run", "--page"]).env_remove("DISPLAY").env_remove("WAYLAND_DISPLAY");
        command.env_remove("WAKEFUL_PAGE").envs(page.map(|page| ("WAKEFUL_PAGE", page)));
        let output = command.output().unwrap();
        assert_success(&output);
        text(&output.stdout)
    };
    assert_eq!(run(None), "Ok(\"1\") the shim\n");
    // What the user has set stays.
    assert_eq!(run(Some("off")), "Ok(\"off\") the shim\n");
}

#[test]
fn top_says_how_to_get_a_page() {
    let folder = TestFolder::new();
    let mut command = Command::new(env!("CARGO_BIN_EXE_cargo-wakeful"));
    let output =
        command.args(["wakeful", "top"]).env("XDG_RUNTIME_DIR", &folder.0).output().unwrap();
    assert_eq!(output.status.code(), Some(101));
    assert!(text(&output.stderr).contains("start the program with WAKEFUL_PAGE=1"));
}

#[test]
fn a_tokio_program_runs_on_wakeful() {
    let folder = TestFolder::with("tokio = { version = \"1.40\", features = [\"full\"] }");
    let main = "#[tokio::main]\nasync fn main() {\n    let task = tokio::spawn(async { 6 * 7 });\n    \
                let name = std::any::type_name::<tokio::task::JoinHandle<()>>();\n    \
                println!(\"{} by {name}\", task.await.unwrap());\n}\n";
    folder.write("project/src/main.rs", main);
    let output = folder
        .command(env!("CARGO_BIN_EXE_cargo-wakeful"))
        .args(["wakeful", "run"])
        .env_remove("WAKEFUL_TOKIO_SHIM")
        // Wakeful itself is built once, not for each run of this test.
        .env("CARGO_TARGET_DIR", env!("CARGO_TARGET_TMPDIR"))
        .output()
        .unwrap();
    assert_success(&output);
    assert!(text(&output.stdout).starts_with("42 by wakeful::"), "{}", text(&output.stdout));
    assert_eq!(folder.lock(), None);
}
