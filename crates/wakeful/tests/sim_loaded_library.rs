//! A library that a run of a search loads, with a thread-local.

use std::ffi::{CStr, CString, c_void};
use std::path::Path;
use std::process::Command;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
use wakeful::sim::{Explorer, Sim};

/// Compiles a library that counts the calls of each thread. Returns its path.
fn library() -> CString {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let (source, library) = (folder.join("counter.c"), folder.join("libcounter.so"));
    let text = "static __thread int calls; int count_call(void) { return ++calls; }";
    std::fs::write(&source, text).unwrap();
    let mut compiler = Command::new("cc");
    compiler.args(["-shared", "-fPIC", "-o"]).arg(&library).arg(&source);
    assert!(compiler.status().unwrap().success());
    CString::new(library.to_str().unwrap()).unwrap()
}

/// Loads the library and calls its function.
fn count_call(library: &CStr) -> i32 {
    // SAFETY: the library has no constructor, and is never unloaded. The function has this type.
    unsafe {
        let handle = libc::dlopen(library.as_ptr(), libc::RTLD_NOW);
        assert!(!handle.is_null());
        let function = libc::dlsym(handle, c"count_call".as_ptr());
        let function = std::mem::transmute::<*mut c_void, extern "C" fn() -> i32>(function);
        function()
    }
}

#[test]
fn no_run_finds_the_thread_local_of_an_earlier_one() {
    static RUNS: AtomicU32 = AtomicU32::new(0);
    static FOUND: AtomicU32 = AtomicU32::new(0);
    static LIBRARY: OnceLock<CString> = OnceLock::new();
    LIBRARY.set(library()).unwrap();
    let program = |_: Sim| async {
        // In a run that shares its thread with the next one.
        if RUNS.fetch_add(1, SeqCst) >= 5 && count_call(LIBRARY.get().unwrap()) > 1 {
            FOUND.fetch_add(1, SeqCst);
        }
    };
    Explorer::new("loaded_library").seeds(20).run(program).unwrap();
    assert_eq!(FOUND.load(SeqCst), 0);
}
