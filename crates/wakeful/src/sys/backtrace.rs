//! Where another thread is in the program, by a signal that makes it say so.
//!
//! The handler may interrupt anything, a lock of the allocator included, so it must
//! call nothing that locks or allocates. It walks the stack with `_Unwind_Backtrace`.
//! That is safe there if the unwinder finds its tables with `_dl_find_object`, which
//! the C library declares async-signal-safe (glibc 2.35), and not by walking a locked
//! list of libraries; and after it was called once, since its first call makes a table.
//! So: it is used where the C library has that function, and warmed up first. Elsewhere
//! there are no stacks.
//!
//! The signal is SIGURG: whoever does not ask for it does not notice it, and it has no
//! other use today. A program that handles it itself keeps it, and gets no stacks.
//! System calls that the signal interrupts are restarted (SA_RESTART). A thread that is seen
//! in one that cannot be, and would return early with EINTR, is let alone: no stack is worth
//! that. Sleeps and locks are such, too, but Rust's std, and C libraries as a rule, go on with
//! them.
//!
//! One request at a time. `word` says who is to answer:
//!
//! ```text
//!   asker: thread ──────────► handler, on that thread: CLAIMED, fills `frames`, DONE
//!      └── takes it back after a while, unless it is CLAIMED: then it waits for DONE
//! ```
//!
//! "After a while" is not measured by the clock alone. On a busy machine a thread that computes may get no processor
//! for hundreds of milliseconds. It cannot answer then, and it is the thread whose stack is wanted. So the asker gives up
//! early only on a thread that had the processor and did not answer (it blocks the signal), or that is blocked in the
//! kernel: see `Patience`.

#![allow(unsafe_code)]

#[cfg(all(target_env = "gnu", not(any(all(test, loom), miri))))]
mod imp {
    use crate::sys::thread_state;
    use std::cell::Cell;
    use std::ffi::{c_int, c_void};
    use std::mem::MaybeUninit;
    use std::sync::atomic::{AtomicI32, AtomicUsize, Ordering::*};
    use std::sync::{Mutex, OnceLock, PoisonError};
    use std::time::{Duration, Instant};
    use std::{ptr, thread};

    const MOST: usize = 64;
    const SIGNAL: c_int = libc::SIGURG;

    const NOBODY: i32 = 0;
    const CLAIMED: i32 = -1;
    const DONE: i32 = -2;

    /// The thread that is to answer, or how far it is.
    static WORD: AtomicI32 = AtomicI32::new(NOBODY);
    static FRAMES: [AtomicUsize; MOST] = [const { AtomicUsize::new(0) }; MOST];
    static COUNT: AtomicUsize = AtomicUsize::new(0);
    /// Where the signal interrupted the thread: what is further in is the handler's.
    static INTERRUPTED: AtomicUsize = AtomicUsize::new(0);

    type Trace = extern "C" fn(*mut c_void, *mut c_void) -> c_int;

    // SAFETY: the unwinder's interface, as the C++ ABI has it; std links it.
    unsafe extern "C" {
        fn _Unwind_Backtrace(trace: Trace, argument: *mut c_void) -> c_int;
        fn _Unwind_GetIP(context: *mut c_void) -> usize;
    }

    /// Notes one frame; async-signal-safe.
    extern "C" fn note(context: *mut c_void, _argument: *mut c_void) -> c_int {
        let at = COUNT.load(Relaxed);
        if at == MOST {
            return 5; // the end of the stack, as far as the unwinder is told
        }
        // SAFETY: called by the unwinder, with its context.
        FRAMES[at].store(unsafe { _Unwind_GetIP(context) }, Relaxed);
        COUNT.store(at + 1, Relaxed);
        0
    }

    extern "C" fn handle(_signal: c_int, _info: *mut libc::siginfo_t, context: *mut c_void) {
        // SAFETY: no arguments, no effects; and errno is this thread's own.
        let (me, errno) = unsafe { (libc::gettid(), *libc::__errno_location()) };
        if WORD.compare_exchange(me, CLAIMED, AcqRel, Relaxed).is_ok() {
            COUNT.store(0, Relaxed);
            INTERRUPTED.store(program_counter(context), Relaxed);
            // SAFETY: see the top of the file.
            unsafe { _Unwind_Backtrace(note, ptr::null_mut()) };
            WORD.store(DONE, Release);
        }
        // SAFETY: as above.
        unsafe { *libc::__errno_location() = errno };
    }

    #[cfg(target_arch = "x86_64")]
    fn program_counter(context: *mut c_void) -> usize {
        // SAFETY: the third argument of a handler with SA_SIGINFO.
        unsafe {
            (*context.cast::<libc::ucontext_t>()).uc_mcontext.gregs[libc::REG_RIP as usize] as usize
        }
    }

    #[cfg(target_arch = "aarch64")]
    fn program_counter(context: *mut c_void) -> usize {
        // SAFETY: the third argument of a handler with SA_SIGINFO.
        unsafe { (*context.cast::<libc::ucontext_t>()).uc_mcontext.pc as usize }
    }

    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    fn program_counter(_context: *mut c_void) -> usize {
        0
    }

    /// Whether threads can be asked; the first call sees to it.
    fn is_installed() -> bool {
        static INSTALLED: OnceLock<bool> = OnceLock::new();
        *INSTALLED.get_or_init(install)
    }

    fn install() -> bool {
        // SAFETY: a name that ends, and the flag for all libraries.
        let found = unsafe { libc::dlsym(libc::RTLD_DEFAULT, c"_dl_find_object".as_ptr()) };
        if found.is_null() {
            return false;
        }
        // SAFETY: as in the handler; there is no other request before this has ended.
        unsafe { _Unwind_Backtrace(note, ptr::null_mut()) };
        // SAFETY: plain data; what sigaction fills or reads.
        unsafe {
            let mut old = MaybeUninit::<libc::sigaction>::zeroed();
            if libc::sigaction(SIGNAL, ptr::null(), old.as_mut_ptr()) != 0 {
                return false;
            }
            let taken = old.assume_init().sa_sigaction;
            if taken != libc::SIG_DFL && taken != libc::SIG_IGN {
                return false;
            }
            let mut new: libc::sigaction = MaybeUninit::zeroed().assume_init();
            let handler: extern "C" fn(c_int, *mut libc::siginfo_t, *mut c_void) = handle;
            new.sa_sigaction = handler as usize;
            new.sa_flags = libc::SA_SIGINFO | libc::SA_RESTART | libc::SA_ONSTACK;
            libc::sigaction(SIGNAL, &new, ptr::null_mut()) == 0
        }
    }

    /// How long the asker waits for an answer.
    #[derive(Clone, Copy)]
    pub(super) struct Patience {
        /// For a thread that could have answered.
        pub(super) usual: Duration,
        /// For a thread that is runnable and gets no processor.
        pub(super) starved: Duration,
    }

    /// The watchdog waits this long. It rescues no worker meanwhile, so there is a limit for starved threads too.
    const PATIENCE: Patience =
        Patience { usual: Duration::from_millis(100), starved: Duration::from_secs(2) };
    /// A thread that got this much processor time after the request has had its chance: the signal comes first.
    const CHANCE: Duration = Duration::from_millis(10);

    impl Patience {
        /// Returns whether the asker stops waiting. `had`: the processor time of the thread since the request.
        pub(super) fn is_over(self, waited: Duration, had: Duration, is_waiting: bool) -> bool {
            let is_starved = had < CHANCE && !is_waiting;
            waited >= if is_starved { self.starved } else { self.usual }
        }
    }

    pub(crate) fn capture(thread: i32) -> Vec<usize> {
        ask(thread, PATIENCE)
    }

    pub(super) fn ask(thread: i32, patience: Patience) -> Vec<usize> {
        static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
        let _one = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
        if thread <= 0 || !is_installed() || !thread_state::tolerates_signal(thread) {
            return Vec::new();
        }
        let cpu_time = || thread_state::cpu_time(thread).unwrap_or(Duration::MAX);
        let (asked_at, had_before) = (Instant::now(), cpu_time());
        WORD.store(thread, Release);
        // SAFETY: sends a signal to a thread of this process; one that is gone gives
        // an error, and any other ignores it, as its number is not in the word.
        unsafe { libc::syscall(libc::SYS_tgkill, libc::getpid(), thread, SIGNAL) };
        while WORD.load(Acquire) != DONE {
            let waited = asked_at.elapsed();
            // What the kernel says of the thread is asked for only once it matters.
            if waited >= patience.usual {
                let had = cpu_time().saturating_sub(had_before);
                if patience.is_over(waited, had, thread_state::is_blocked(thread)) {
                    break;
                }
            }
            thread::sleep(Duration::from_millis(1));
        }
        if WORD.compare_exchange(thread, NOBODY, AcqRel, Acquire).is_ok() {
            return Vec::new(); // it does not answer
        }
        while WORD.load(Acquire) != DONE {
            thread::yield_now();
        }
        WORD.store(NOBODY, Release);
        let count = COUNT.load(Relaxed).min(MOST);
        let frames: Vec<usize> = FRAMES[..count].iter().map(|frame| frame.load(Relaxed)).collect();
        let interrupted = INTERRUPTED.load(Relaxed);
        let first = frames.iter().position(|frame| *frame == interrupted).unwrap_or(0);
        frames[first..].to_vec()
    }

    pub(crate) fn current_tid() -> i32 {
        thread_local! {
            static NUMBER: Cell<i32> = const { Cell::new(0) };
        }
        NUMBER.with(|number| {
            if number.get() == 0 {
                // SAFETY: no arguments, no effects.
                number.set(unsafe { libc::gettid() });
            }
            number.get()
        })
    }
}

#[cfg(not(all(target_env = "gnu", not(any(all(test, loom), miri)))))]
mod imp {
    pub(crate) fn capture(_thread: i32) -> Vec<usize> {
        Vec::new()
    }

    pub(crate) fn current_tid() -> i32 {
        0
    }
}

/// The return addresses on the stack of a thread of this process, innermost first;
/// none if the thread does not answer, or the system has no way to ask. And the
/// system's number of the calling thread, 0 if that is not needed.
pub(crate) use imp::{capture, current_tid};

#[cfg(all(test, target_env = "gnu", not(any(loom, miri))))]
mod tests {
    use super::current_tid;
    use super::imp::{Patience, ask};
    use crate::sys::thread_state::cpu_time;
    use std::mem::{self, MaybeUninit};
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering::*};
    use std::sync::mpsc;
    use std::thread;
    use std::time::{Duration, Instant};

    const USUAL: Duration = Duration::from_millis(100);

    /// Pins the calling thread to one core, the same for all.
    fn pin() {
        // SAFETY: plain data, which the kernel fills and reads; 0 is the calling thread.
        unsafe {
            let mut cores: libc::cpu_set_t = MaybeUninit::zeroed().assume_init();
            let size = mem::size_of_val(&cores);
            assert_eq!(libc::sched_getaffinity(0, size, &mut cores), 0);
            let is_allowed = |core: &usize| libc::CPU_ISSET(*core, &cores);
            let first = (0..libc::CPU_SETSIZE as usize).find(is_allowed).unwrap();
            libc::CPU_ZERO(&mut cores);
            libc::CPU_SET(first, &mut cores);
            assert_eq!(libc::sched_setaffinity(0, size, &cores), 0);
        }
    }

    /// A thread that computes until `stop`, after `prepare`, and its number.
    fn computes(
        stop: &Arc<AtomicBool>,
        prepare: impl FnOnce() + Send + 'static,
    ) -> (thread::JoinHandle<()>, i32) {
        let (tell, told) = mpsc::channel();
        let stop = stop.clone();
        let thread = thread::spawn(move || {
            prepare();
            tell.send(current_tid()).unwrap();
            while !stop.load(Relaxed) {}
        });
        (thread, told.recv().unwrap())
    }

    /// Beside two busy threads on one core, a thread of low priority runs a few milliseconds in every 150. It
    /// computes, so its stack is wanted, and only the system keeps it from answering.
    #[test]
    fn a_thread_that_gets_no_processor_is_waited_for() {
        let stop = Arc::new(AtomicBool::new(false));
        let (starved, number) = computes(&stop, || {
            pin();
            // SAFETY: only numbers; 0 is the calling thread.
            assert_eq!(unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, 15) }, 0);
        });
        let busy = [computes(&stop, pin), computes(&stop, pin)];
        // In the test, a starved thread may take as long as the machine wants.
        let usual = Duration::from_millis(20);
        let patience = Patience { usual, starved: Duration::from_secs(600) };
        // Most of these are made when its turn is far off.
        for nth in 0..5 {
            assert!(!ask(number, patience).is_empty(), "no answer to request {nth}");
        }
        stop.store(true, Relaxed);
        starved.join().unwrap();
        busy.into_iter().for_each(|(thread, _)| thread.join().unwrap());
    }

    /// A thread that blocks the signal is given up once it had the processor.
    #[test]
    fn a_thread_that_does_not_answer_is_given_up() {
        let stop = Arc::new(AtomicBool::new(false));
        let (deaf, number) = computes(&stop, || {
            // SAFETY: plain data, which the functions fill and read; for the calling thread.
            unsafe {
                let mut signals: libc::sigset_t = MaybeUninit::zeroed().assume_init();
                libc::sigfillset(&mut signals);
                libc::pthread_sigmask(libc::SIG_SETMASK, &signals, std::ptr::null_mut());
            }
        });
        let (asked_at, before) = (Instant::now(), cpu_time(number).unwrap());
        let patience = Patience { usual: USUAL, starved: Duration::from_secs(600) };
        assert!(ask(number, patience).is_empty(), "it cannot answer");
        assert!(asked_at.elapsed() >= USUAL);
        assert!(cpu_time(number).unwrap() > before, "it had its chance");
        stop.store(true, Relaxed);
        deaf.join().unwrap();
    }

    #[test]
    fn only_a_starved_thread_gets_more_time() {
        let patience = Patience { usual: USUAL, starved: 20 * USUAL };
        let ms = Duration::from_millis;
        for (waited, had, is_waiting, is_over) in [
            (50, 50, true, false),
            (100, 50, false, true), // it ran, and did not answer
            (100, 0, true, true),   // it is blocked in the kernel
            (100, 1, false, false), // it got no processor
            (1999, 1, false, false),
            (2000, 1, false, true),
        ] {
            let said = patience.is_over(ms(waited), ms(had), is_waiting);
            assert_eq!(said, is_over, "{waited} {had} {is_waiting}");
        }
    }
}
