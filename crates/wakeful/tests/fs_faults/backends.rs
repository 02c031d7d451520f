//! Which backend is chosen, also where io_uring is forbidden.

use wakeful::runtime::{Builder, FileBackend};

use super::{assert_passed, both, child_folder, in_child, some_of_everything};
use crate::support::files::{Folder, has_uring};

#[test]
fn the_backend_is_chosen_and_reported() {
    let there = if has_uring() { FileBackend::Uring } else { FileBackend::Pool };
    for (backend, used) in [
        (FileBackend::Auto, there),
        (FileBackend::Uring, there),
        (FileBackend::Pool, FileBackend::Pool),
    ] {
        for runtime in both(backend) {
            assert_eq!(runtime.metrics().file_backend(), used, "before the first operation");
            let folder = Folder::new();
            let task = runtime.spawn(some_of_everything(folder.path().to_owned()));
            runtime.block_on(task).unwrap();
            let metrics = runtime.handle().metrics();
            assert_eq!(metrics.file_backend(), used);
            assert_eq!(metrics.file_operations_in_uring() > 0, used == FileBackend::Uring);
            assert!(metrics.file_operations_in_pool() > 0, "no ring writes a whole file at once");
        }
    }
}

#[test]
fn the_environment_chooses_if_the_builder_does_not() {
    if child_folder().is_some() {
        let runtime = Builder::new_current_thread().enable_all().build().unwrap();
        assert_eq!(runtime.metrics().file_backend(), FileBackend::Pool);
        let mut builder = Builder::new_current_thread();
        let asked = builder.enable_all().file_backend(FileBackend::Uring).build().unwrap();
        let there = if has_uring() { FileBackend::Uring } else { FileBackend::Pool };
        return assert_eq!(asked.metrics().file_backend(), there);
    }
    let test = "backends::the_environment_chooses_if_the_builder_does_not";
    let folder = Folder::new();
    assert_passed(&in_child(test, "export WAKEFUL_FILE_BACKEND=pool", folder.path()));
    let wrong = in_child(test, "export WAKEFUL_FILE_BACKEND=fast", folder.path());
    let text = String::from_utf8_lossy(&wrong.stderr).into_owned();
    assert!(text.contains("must be auto, uring or pool, but it is \"fast\""), "{text}");
}

#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
mod forbidden {
    use super::*;

    /// Makes a system call fail on this thread and on threads that it starts.
    fn forbid(call: libc::c_long, error: i32) {
        use libc::{BPF_ABS, BPF_JEQ, BPF_JMP, BPF_K, BPF_LD, BPF_RET, BPF_W};
        let step = |code: u32, jt, jf, k| libc::sock_filter { code: code as u16, jt, jf, k };
        let mut filter = [
            step(BPF_LD | BPF_W | BPF_ABS, 0, 0, 0), // the number of the call
            step(BPF_JMP | BPF_JEQ | BPF_K, 0, 1, call as u32),
            step(BPF_RET | BPF_K, 0, 0, libc::SECCOMP_RET_ERRNO | error as u32),
            step(BPF_RET | BPF_K, 0, 0, libc::SECCOMP_RET_ALLOW),
        ];
        let program = libc::sock_fprog { len: filter.len() as u16, filter: filter.as_mut_ptr() };
        // SAFETY: the program is a valid one and lives until the calls return.
        let done = unsafe {
            libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
                + libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &program)
        };
        assert_eq!(done, 0, "{}", std::io::Error::last_os_error());
    }

    fn works_without_ring(test: &str, call: libc::c_long, error: i32) {
        let Some(folder) = child_folder() else {
            let folder = Folder::new();
            return assert_passed(&in_child(test, ":", folder.path()));
        };
        forbid(call, error);
        for backend in [FileBackend::Auto, FileBackend::Uring] {
            for runtime in both(backend) {
                for _ in 0..3 {
                    let task = runtime.spawn(some_of_everything(folder.clone()));
                    runtime.block_on(task).unwrap();
                }
                if call == libc::SYS_io_uring_setup {
                    assert_eq!(runtime.metrics().file_backend(), FileBackend::Pool);
                    assert_eq!(runtime.metrics().file_operations_in_uring(), 0);
                }
                assert!(runtime.metrics().file_operations_in_pool() > 0);
            }
        }
    }

    #[test]
    fn setting_up_a_ring() {
        let call = libc::SYS_io_uring_setup;
        works_without_ring("backends::forbidden::setting_up_a_ring", call, libc::EPERM);
    }

    #[test]
    fn setting_up_a_ring_as_on_an_old_kernel() {
        let (call, test) = (
            libc::SYS_io_uring_setup,
            "backends::forbidden::setting_up_a_ring_as_on_an_old_kernel",
        );
        works_without_ring(test, call, libc::ENOSYS);
    }

    /// The kernel sets up the ring and refuses submissions.
    #[test]
    fn submitting_to_a_ring() {
        let call = libc::SYS_io_uring_enter;
        works_without_ring("backends::forbidden::submitting_to_a_ring", call, libc::EPERM);
    }

    #[test]
    fn asking_a_ring_what_it_can_do() {
        let call = libc::SYS_io_uring_register;
        works_without_ring("backends::forbidden::asking_a_ring_what_it_can_do", call, libc::EPERM);
    }

    /// Without `openat2`, opens do not come from memory.
    #[test]
    fn opening_from_memory() {
        works_without_ring(
            "backends::forbidden::opening_from_memory",
            libc::SYS_openat2,
            libc::ENOSYS,
        );
    }

    #[test]
    fn reading_from_memory() {
        works_without_ring(
            "backends::forbidden::reading_from_memory",
            libc::SYS_preadv2,
            libc::ENOSYS,
        );
    }
}
