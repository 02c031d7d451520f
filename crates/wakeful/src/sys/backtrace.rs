//! Captures the stack of another thread: a signal handler on that thread walks it.
//!
//! The handler may interrupt any code, even inside a lock of the allocator. So it must not lock or
//! allocate. It walks the stack with `_Unwind_Backtrace`, which is async-signal-safe on two
//! conditions. The unwinder must find its tables with `_dl_find_object`, which the C library
//! declares async-signal-safe (glibc 2.35), and not by walking a locked list of libraries. And it
//! must have been called once before, since its first call builds a table. So stacks are captured
//! only if the C library has that function, and the unwinder is called once before. On other
//! systems no stack is captured.
//!
//! The signal is SIGURG, which is ignored by default and which few programs use. If the program
//! handles SIGURG, its handler stays installed and no stack is captured. Interrupted system calls
//! are restarted (SA_RESTART). A thread in a system call that cannot be restarted would see EINTR,
//! so it gets no signal; `inspect::symbols` reads its stack from outside. Sleeps and locks cannot
//! be restarted either, but Rust's std and most C libraries repeat them.
//!
//! One request at a time. `REQUEST` holds the id of the thread that must answer:
//!
//! ```text
//!   requester: thread id ────► handler, on that thread: CLAIMED, fills FRAMES, DONE
//!      └── withdraws it after a timeout, unless it is CLAIMED: then it waits for DONE
//! ```
//!
//! The timeout depends on more than the clock. On a busy machine, a CPU-bound thread may get no CPU
//! for hundreds of milliseconds. It cannot answer then, although its stack is the wanted one. So the
//! requester gives up early only in two cases (`AnswerTimeout`). Either the thread had CPU time and
//! did not answer, because it blocks the signal, or it is blocked in the kernel.

#![allow(unsafe_code)]

/// The reason why a stack was not captured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(
    not(all(target_env = "gnu", not(any(all(test, loom), miri)))),
    allow(dead_code, reason = "no stack is captured here")
)]
pub(crate) enum NoStack {
    /// The signal would end the thread's system call with EINTR.
    WouldInterrupt,
    /// The thread did not handle the signal in time: it blocks the signal, or gets no CPU.
    NoAnswer,
    /// The system has no way to signal the thread, or the program handles the signal itself.
    Unavailable,
}

#[cfg(all(target_env = "gnu", not(any(all(test, loom), miri))))]
mod imp {
    use super::NoStack;
    use crate::sys::{signal_mask, thread_state};
    use std::cell::Cell;
    use std::ffi::{c_int, c_void};
    use std::mem::MaybeUninit;
    use std::sync::atomic::{AtomicI32, AtomicUsize, Ordering::*};
    use std::sync::{Mutex, OnceLock, PoisonError};
    use std::time::{Duration, Instant};
    use std::{ptr, thread};

    const MAX_FRAMES: usize = 64;
    const SIGNAL: c_int = libc::SIGURG;

    const IDLE: i32 = 0;
    const CLAIMED: i32 = -1;
    const DONE: i32 = -2;

    /// The id of the thread that must answer, or one of the values above.
    static REQUEST: AtomicI32 = AtomicI32::new(IDLE);
    static FRAMES: [AtomicUsize; MAX_FRAMES] = [const { AtomicUsize::new(0) }; MAX_FRAMES];
    static COUNT: AtomicUsize = AtomicUsize::new(0);
    /// The program counter at which the signal interrupted the thread. Frames further in belong to
    /// the handler.
    static INTERRUPTED: AtomicUsize = AtomicUsize::new(0);

    type Trace = extern "C" fn(*mut c_void, *mut c_void) -> c_int;

    // SAFETY: the interface of the unwinder, as the C++ ABI declares it. std links it.
    unsafe extern "C" {
        fn _Unwind_Backtrace(trace: Trace, argument: *mut c_void) -> c_int;
        fn _Unwind_GetIP(context: *mut c_void) -> usize;
    }

    /// `_URC_END_OF_STACK`, which stops the unwinder.
    const END_OF_STACK: c_int = 5;

    /// Stores one frame. Async-signal-safe.
    extern "C" fn store_frame(context: *mut c_void, _argument: *mut c_void) -> c_int {
        let at = COUNT.load(Relaxed);
        if at == MAX_FRAMES {
            return END_OF_STACK;
        }
        // SAFETY: the unwinder calls this with its context.
        let address = unsafe { _Unwind_GetIP(context) };
        if address == 0 {
            return END_OF_STACK; // the thread's start function has no caller
        }
        FRAMES[at].store(address, Relaxed);
        COUNT.store(at + 1, Relaxed);
        0
    }

    extern "C" fn handle(_signal: c_int, _info: *mut libc::siginfo_t, context: *mut c_void) {
        // SAFETY: `gettid` has no arguments and no effects, and errno is thread-local.
        let (me, errno) = unsafe { (libc::gettid(), *libc::__errno_location()) };
        if REQUEST.compare_exchange(me, CLAIMED, AcqRel, Relaxed).is_ok() {
            COUNT.store(0, Relaxed);
            INTERRUPTED.store(program_counter(context), Relaxed);
            // SAFETY: async-signal-safe here, as the module documentation says.
            unsafe { _Unwind_Backtrace(store_frame, ptr::null_mut()) };
            REQUEST.store(DONE, Release);
        }
        // SAFETY: errno is thread-local.
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

    /// Installs the signal handler on the first call. Returns whether it is installed.
    fn ensure_installed() -> bool {
        static INSTALLED: OnceLock<bool> = OnceLock::new();
        *INSTALLED.get_or_init(install)
    }

    fn install() -> bool {
        // SAFETY: a nul-terminated name, and the handle for all libraries.
        let found = unsafe { libc::dlsym(libc::RTLD_DEFAULT, c"_dl_find_object".as_ptr()) };
        if found.is_null() {
            return false;
        }
        // SAFETY: this is not a signal handler, and requests start only after `install` returns.
        unsafe { _Unwind_Backtrace(store_frame, ptr::null_mut()) };
        // SAFETY: plain data that `sigaction` writes or reads.
        unsafe {
            let mut old = MaybeUninit::<libc::sigaction>::zeroed();
            if libc::sigaction(SIGNAL, ptr::null(), old.as_mut_ptr()) != 0 {
                return false;
            }
            let current = old.assume_init().sa_sigaction;
            if current != libc::SIG_DFL && current != libc::SIG_IGN {
                return false;
            }
            let mut new: libc::sigaction = MaybeUninit::zeroed().assume_init();
            let handler: extern "C" fn(c_int, *mut libc::siginfo_t, *mut c_void) = handle;
            new.sa_sigaction = handler as usize;
            signal_mask::set_own_handler(SIGNAL, new.sa_sigaction);
            new.sa_flags = libc::SA_SIGINFO | libc::SA_RESTART | libc::SA_ONSTACK;
            libc::sigaction(SIGNAL, &new, ptr::null_mut()) == 0
        }
    }

    /// How long the requester waits for an answer before it gives up.
    #[derive(Clone, Copy)]
    pub(super) struct AnswerTimeout {
        /// For a thread that could have answered.
        pub(super) usual: Duration,
        /// For a thread that is runnable but gets no CPU.
        pub(super) starved: Duration,
    }

    /// The timeouts of the watchdog. It rescues no worker while it waits, so the wait for starved
    /// threads is limited too.
    const ANSWER_TIMEOUT: AnswerTimeout =
        AnswerTimeout { usual: Duration::from_millis(100), starved: Duration::from_secs(2) };
    /// A thread that got this much CPU time since the request could have answered, because a
    /// pending signal is handled first.
    const ENOUGH_CPU: Duration = Duration::from_millis(10);

    impl AnswerTimeout {
        /// Returns whether the requester gives up. `cpu` is the thread's CPU time since the
        /// request.
        pub(super) fn is_over(self, waited: Duration, cpu: Duration, is_blocked: bool) -> bool {
            let is_starved = cpu < ENOUGH_CPU && !is_blocked;
            waited >= if is_starved { self.starved } else { self.usual }
        }
    }

    /// Returns the return addresses on the stack of a thread of this process, innermost first.
    pub(crate) fn capture(thread: i32) -> Result<Vec<usize>, NoStack> {
        capture_within(thread, ANSWER_TIMEOUT)
    }

    pub(super) fn capture_within(
        thread: i32,
        timeout: AnswerTimeout,
    ) -> Result<Vec<usize>, NoStack> {
        static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
        let _one = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
        if thread <= 0 || !ensure_installed() {
            return Err(NoStack::Unavailable);
        }
        if !thread_state::tolerates_signal(thread) {
            return Err(NoStack::WouldInterrupt);
        }
        let cpu_time = || thread_state::cpu_time(thread).unwrap_or(Duration::MAX);
        let (requested_at, cpu_before) = (Instant::now(), cpu_time());
        REQUEST.store(thread, Release);
        // SAFETY: sends a signal to a thread of this process. If the thread has ended, the call
        // fails. A new thread with its id would answer with its own stack, which does no harm.
        unsafe { libc::syscall(libc::SYS_tgkill, libc::getpid(), thread, SIGNAL) };
        while REQUEST.load(Acquire) != DONE {
            let waited = requested_at.elapsed();
            // Query the kernel about the thread only once the answer matters.
            if waited >= timeout.usual {
                let cpu = cpu_time().saturating_sub(cpu_before);
                if timeout.is_over(waited, cpu, thread_state::is_blocked(thread)) {
                    break;
                }
            }
            thread::sleep(Duration::from_millis(1));
        }
        if REQUEST.compare_exchange(thread, IDLE, AcqRel, Acquire).is_ok() {
            return Err(NoStack::NoAnswer); // the request is withdrawn
        }
        while REQUEST.load(Acquire) != DONE {
            thread::yield_now();
        }
        REQUEST.store(IDLE, Release);
        let count = COUNT.load(Relaxed).min(MAX_FRAMES);
        let frames: Vec<usize> = FRAMES[..count].iter().map(|frame| frame.load(Relaxed)).collect();
        let interrupted = INTERRUPTED.load(Relaxed);
        let first = frames.iter().position(|frame| *frame == interrupted).unwrap_or(0);
        Ok(frames[first..].to_vec())
    }

    /// Returns the kernel thread id of the calling thread.
    pub(crate) fn current_tid() -> i32 {
        thread_local! {
            static TID: Cell<i32> = const { Cell::new(0) };
        }
        TID.with(|tid| {
            if tid.get() == 0 {
                // SAFETY: no arguments, no effects.
                tid.set(unsafe { libc::gettid() });
            }
            tid.get()
        })
    }
}

#[cfg(not(all(target_env = "gnu", not(any(all(test, loom), miri)))))]
mod imp {
    pub(crate) fn capture(_thread: i32) -> Result<Vec<usize>, super::NoStack> {
        Err(super::NoStack::Unavailable)
    }

    pub(crate) fn current_tid() -> i32 {
        0
    }
}

pub(crate) use imp::{capture, current_tid};

#[cfg(all(test, target_env = "gnu", not(any(loom, miri))))]
mod tests {
    use super::imp::{AnswerTimeout, capture_within};
    use super::{NoStack, current_tid};
    use crate::sys::thread_state::cpu_time;
    use std::mem::{self, MaybeUninit};
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering::*};
    use std::sync::mpsc;
    use std::thread;
    use std::time::{Duration, Instant};

    const USUAL: Duration = Duration::from_millis(100);

    /// Pins the calling thread to one core, the same for all callers.
    fn pin() {
        // SAFETY: plain data that the kernel writes and reads. 0 is the calling thread.
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

    /// Starts a thread that runs `prepare` and then spins until `stop`. Returns it with its id.
    fn start_computing(
        stop: &Arc<AtomicBool>,
        prepare: impl FnOnce() + Send + 'static,
    ) -> (thread::JoinHandle<()>, i32) {
        let (tx, rx) = mpsc::channel();
        let stop = stop.clone();
        let thread = thread::spawn(move || {
            prepare();
            tx.send(current_tid()).unwrap();
            while !stop.load(Relaxed) {}
        });
        (thread, rx.recv().unwrap())
    }

    /// Next to two busy threads on one core, a thread of low priority gets a few milliseconds in
    /// every 150. It is CPU-bound, so its stack is wanted, and only the lack of CPU time delays its
    /// answer.
    #[test]
    fn a_starved_thread_gets_the_longer_timeout() {
        let stop = Arc::new(AtomicBool::new(false));
        let (starved, tid) = start_computing(&stop, || {
            pin();
            // SAFETY: only numbers. 0 is the calling thread.
            assert_eq!(unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, 15) }, 0);
        });
        let busy = [start_computing(&stop, pin), start_computing(&stop, pin)];
        // The starved thread may take as long as the machine needs.
        let usual = Duration::from_millis(20);
        let timeout = AnswerTimeout { usual, starved: Duration::from_secs(600) };
        // For most of these requests, the thread's next time slice is far off.
        for nth in 0..5 {
            assert!(capture_within(tid, timeout).is_ok(), "no answer to request {nth}");
        }
        stop.store(true, Relaxed);
        starved.join().unwrap();
        busy.into_iter().for_each(|(thread, _)| thread.join().unwrap());
    }

    /// The requester gives up on a thread that blocks the signal, once the thread had CPU time.
    #[test]
    fn a_thread_that_blocks_the_signal_gets_the_usual_timeout() {
        let stop = Arc::new(AtomicBool::new(false));
        let (deaf, tid) = start_computing(&stop, || {
            // SAFETY: plain data that the functions write and read, for the calling thread.
            unsafe {
                let mut signals: libc::sigset_t = MaybeUninit::zeroed().assume_init();
                libc::sigfillset(&mut signals);
                libc::pthread_sigmask(libc::SIG_SETMASK, &signals, std::ptr::null_mut());
            }
        });
        let (requested_at, before) = (Instant::now(), cpu_time(tid).unwrap());
        let timeout = AnswerTimeout { usual: USUAL, starved: Duration::from_secs(600) };
        assert_eq!(capture_within(tid, timeout), Err(NoStack::NoAnswer), "it cannot answer");
        assert!(requested_at.elapsed() >= USUAL);
        assert!(cpu_time(tid).unwrap() > before, "it had CPU time");
        stop.store(true, Relaxed);
        deaf.join().unwrap();
    }

    #[test]
    fn only_a_starved_thread_has_the_longer_timeout() {
        let timeout = AnswerTimeout { usual: USUAL, starved: 20 * USUAL };
        let ms = Duration::from_millis;
        for (waited, cpu, is_blocked, is_over) in [
            (50, 50, true, false),
            (100, 50, false, true), // it ran, but did not answer
            (100, 0, true, true),   // it is blocked in the kernel
            (100, 1, false, false), // it got no CPU
            (1999, 1, false, false),
            (2000, 1, false, true),
        ] {
            let found = timeout.is_over(ms(waited), ms(cpu), is_blocked);
            assert_eq!(found, is_over, "{waited} {cpu} {is_blocked}");
        }
    }
}
