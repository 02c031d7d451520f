//! Walks the stack of a thread that is blocked in the kernel, without interrupting it.
//!
//! The walk serves threads in a system call that a signal would end. The kernel shows the stack pointer
//! of such a thread, and the program counter at which it continues. The unwind tables (`.eh_frame`) say
//! where each function keeps its return address. For most functions the stack pointer is enough.
//!
//! Some functions need the frame pointer. The kernel does not show its value, and possibly no inner
//! function has saved it. In that case the walk searches the stack for the frame: a return address right
//! behind an instruction that calls this function. If there is exactly one, the walk takes it. This is
//! wrong if the function was called through a pointer and the stack still has the return address of an
//! earlier call. So the caller of this module must check that a walk with such a step leads to where the
//! thread is known to be ([`Walked::certain`]). Without a frame the walk ends early.
//!
//! The kernel copies the stack, so a thread that continues meanwhile causes no data race. The copy is
//! used only if the thread did not run before the copy was complete. The check is that the thread is in
//! the same system call, and that the kernel has not switched to it in between.

use super::elf::Elf;
use super::{MemoryMap, Program};
use crate::sys::system_call::{self, SystemCall};
use gimli::{
    BaseAddresses, CfaRule, EhFrame, EhFrameHdr, LittleEndian, Register, RegisterRule,
    UnwindContext, UnwindSection, UnwindTableRow,
};
use std::fs::{self, File};
use std::os::unix::fs::FileExt;

/// The maximum size of the copied part of a stack, which begins with the innermost frames.
const MAX_BYTES: u64 = 1 << 20;
const MAX_FRAMES: usize = 64;
/// The maximum distance over which a frame is searched for.
const MAX_FRAME: u64 = 64 << 10;
/// The offset of the frame pointer from the caller's part of the stack. The saved frame pointer and
/// the return address lie in between.
const FRAME_BYTES: i64 = 2 * WORD as i64;
const WORD: usize = size_of::<u64>();

/// Register numbers in the unwind tables.
mod register {
    use gimli::{Register, X86_64};

    pub(super) const STACK_POINTER: Register = X86_64::RSP;
    pub(super) const FRAME_POINTER: Register = X86_64::RBP;
    /// The callee-saved registers.
    pub(super) const PRESERVED: [Register; 6] =
        [X86_64::RBX, X86_64::RBP, X86_64::R12, X86_64::R13, X86_64::R14, X86_64::R15];
}

/// Walks the stack of a blocked thread.
///
/// Returns `None` if the thread runs, or if the kernel does not show its registers.
pub(super) fn walk(thread: i32, map: &MemoryMap<'_>, program: &Program) -> Option<Walked> {
    let memory = File::open("/proc/self/mem").ok()?;
    let (call, stack) = StackCopy::of(thread, map, &memory)?;
    let mut walk = Walk { files: Vec::new(), map, program, memory, stack, has_guessed: false };
    Some(walk.run(&call))
}

/// The return addresses on a stack, innermost first.
#[derive(Default)]
pub(crate) struct Walked {
    pub(crate) addresses: Vec<usize>,
    /// The number of addresses before the first step that searched for a frame.
    pub(crate) certain: usize,
}

/// Returns the number of context switches of the thread.
fn switches(thread: i32) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/self/task/{thread}/status")).ok()?;
    let counts = status.lines().filter_map(|line| line.split_once("voluntary_ctxt_switches:"));
    counts.map(|(_, count)| count.trim().parse::<u64>().ok()).sum()
}

/// The bytes of a stack, from the stack pointer on.
struct StackCopy {
    start: u64,
    bytes: Vec<u8>,
}

impl StackCopy {
    /// Copies the stack of a thread that is blocked in a system call.
    fn of(thread: i32, map: &MemoryMap<'_>, memory: &File) -> Option<(SystemCall, Self)> {
        let before = switches(thread)?;
        let call = system_call::current(thread)?;
        let start = call.stack_pointer;
        let size = (map.find(start)?.end - start).min(MAX_BYTES);
        let mut bytes = vec![0; usize::try_from(size).ok()?];
        memory.read_exact_at(&mut bytes, start).ok()?;
        let is_same = system_call::current(thread) == Some(call) && switches(thread)? == before;
        is_same.then_some((call, Self { start, bytes }))
    }

    fn word(&self, address: u64) -> Option<u64> {
        let at = usize::try_from(address.checked_sub(self.start)?).ok()?;
        Some(u64::from_le_bytes(*self.bytes.get(at..)?.first_chunk::<WORD>()?))
    }
}

/// The registers of one frame, as far as they are known.
#[derive(Clone, Copy)]
struct Registers {
    program_counter: u64,
    stack_pointer: u64,
    preserved: [Option<u64>; register::PRESERVED.len()],
}

impl Registers {
    fn get(&self, register: Register) -> Option<u64> {
        if register == register::STACK_POINTER {
            return Some(self.stack_pointer);
        }
        let nth = register::PRESERVED.iter().position(|other| *other == register)?;
        self.preserved[nth]
    }
}

struct Walk<'a> {
    /// The files that were opened.
    files: Vec<(String, Option<Elf>)>,
    map: &'a MemoryMap<'a>,
    program: &'a Program,
    /// The memory of the process, as the kernel reads it.
    memory: File,
    stack: StackCopy,
    /// Whether a frame was searched for.
    has_guessed: bool,
}

impl Walk<'_> {
    fn run(&mut self, call: &SystemCall) -> Walked {
        let mut registers = Registers {
            program_counter: call.program_counter,
            stack_pointer: call.stack_pointer,
            preserved: [None; register::PRESERVED.len()],
        };
        let mut walked = Walked { addresses: Vec::new(), certain: 0 };
        while walked.addresses.len() < MAX_FRAMES {
            walked.addresses.push(registers.program_counter as usize);
            if !self.has_guessed {
                walked.certain = walked.addresses.len();
            }
            let is_innermost = walked.addresses.len() == 1;
            match self.caller(&registers, is_innermost) {
                Some(caller) if caller.program_counter != 0 => registers = caller,
                _ => break,
            }
        }
        walked
    }

    /// Returns the registers of the calling function, at its call.
    fn caller(&mut self, callee: &Registers, is_innermost: bool) -> Option<Registers> {
        // A return address is one past the call, which may be the last instruction of the function.
        let called = callee.program_counter - u64::from(!is_innermost);
        let mapping = self.map.at(called)?;
        let elf = self.open(mapping.path)?;
        let address = elf.to_address(called - mapping.start + mapping.offset)?;
        let mut context = UnwindContext::new();
        let Function { row, start, return_address } = function_at(elf, address, &mut context)?;
        let CfaRule::RegisterAndOffset { register, offset } = *row.cfa() else { return None };
        let base = match callee.get(register) {
            None if register == register::FRAME_POINTER && offset == FRAME_BYTES => {
                self.find_frame(callee.stack_pointer, called - address + start)?
            }
            base => base?,
        };
        // The stack pointer of the caller, after the return.
        let frame = base.checked_add_signed(offset)?;
        if frame <= callee.stack_pointer {
            return None;
        }
        let saved = |register: Register, known: Option<u64>| match row.register(register) {
            None | Some(RegisterRule::SameValue) => known,
            Some(RegisterRule::Offset(offset)) => {
                self.stack.word(frame.checked_add_signed(offset)?)
            }
            Some(RegisterRule::ValOffset(offset)) => frame.checked_add_signed(offset),
            Some(RegisterRule::Register(other)) => callee.get(other),
            _ => None,
        };
        let mut preserved = callee.preserved;
        for (register, value) in register::PRESERVED.iter().zip(&mut preserved) {
            *value = saved(*register, *value);
        }
        let program_counter = saved(return_address, None)?;
        Some(Registers { program_counter, stack_pointer: frame, preserved })
    }

    /// Finds the value of the frame pointer in a function that starts at `function`. The frame is above
    /// `from` on the stack.
    fn find_frame(&mut self, from: u64, function: u64) -> Option<u64> {
        // Calls align the stack to 16 bytes, and a frame pointer is two words below.
        let first = from.next_multiple_of(16);
        let frames = (first..first + MAX_FRAME).step_by(16);
        let is_frame = |frame: &u64| {
            let return_address = self.stack.word(frame + WORD as u64);
            return_address.is_some_and(|address| self.is_after_call_of(address, function))
        };
        let mut found = frames.filter(is_frame);
        let frame = found.next().filter(|_| found.next().is_none());
        self.has_guessed = true;
        frame
    }

    /// Returns whether the instruction before an address is a direct call of the function.
    fn is_after_call_of(&self, address: u64, function: u64) -> bool {
        if address < 6 || self.map.at(address).is_none() {
            return false;
        }
        let mut code = [0; 6];
        if self.memory.read_exact_at(&mut code, address - 6).is_err() {
            return false;
        }
        let [first, second, offset @ ..] = code;
        let target = address.wrapping_add_signed(i64::from(i32::from_le_bytes(offset)));
        match (first, second) {
            // Direct `call`, with the distance to the function.
            (_, 0xe8) => target == function,
            // Indirect `call`, with the distance to a word that has the function's address.
            (0xff, 0x15) => {
                let mut word = [0; WORD];
                let is_read = self.memory.read_exact_at(&mut word, target).is_ok();
                is_read && u64::from_le_bytes(word) == function
            }
            _ => false,
        }
    }

    fn open(&mut self, path: &str) -> Option<&Elf> {
        let known = self.files.iter().position(|(file, _)| file == path);
        let nth = known.unwrap_or_else(|| {
            self.files.push((path.to_owned(), self.program.open(path)));
            self.files.len() - 1
        });
        self.files[nth].1.as_ref()
    }
}

/// A function in the unwind tables.
struct Function<'a> {
    /// How to find the caller at the given address.
    row: &'a UnwindTableRow<usize>,
    start: u64,
    return_address: Register,
}

/// Finds the function at an address of a file.
fn function_at<'a>(
    elf: &Elf,
    address: u64,
    context: &'a mut UnwindContext<usize>,
) -> Option<Function<'a>> {
    let (table_at, table) = elf.section(".eh_frame_hdr")?;
    let (frames_at, frames) = elf.section(".eh_frame")?;
    let text_at = elf.section(".text").map_or(0, |(at, _)| at);
    let bases = BaseAddresses::default()
        .set_eh_frame_hdr(table_at)
        .set_eh_frame(frames_at)
        .set_text(text_at);
    let header = EhFrameHdr::new(table, LittleEndian).parse(&bases, WORD as u8).ok()?;
    let frames = EhFrame::new(frames, LittleEndian);
    let function =
        header.table()?.fde_for_address(&frames, &bases, address, |section, bases, at| {
            section.cie_from_offset(bases, at)
        });
    let function = function.ok()?;
    let (start, return_address) =
        (function.initial_address(), function.cie().return_address_register());
    let row = function.unwind_info_for_address(&frames, &bases, context, address).ok()?;
    Some(Function { row, start, return_address })
}

#[cfg(all(test, not(any(loom, miri)), target_env = "gnu"))]
mod tests {
    use super::super::{MemoryMap, Program, functions_of_blocked};
    use super::walk;
    use crate::sys::backtrace::current_tid;
    use rustix::event::{PollFd, PollFlags, poll};
    use std::os::unix::net::UnixStream;
    use std::{fs, sync::mpsc, thread};

    #[inline(never)]
    fn waits_in_poll(socket: &UnixStream) -> usize {
        poll(&mut [PollFd::new(socket, PollFlags::IN)], None).unwrap()
    }

    #[test]
    fn the_stack_of_a_blocked_thread_is_read_from_outside() {
        if !fs::exists("/proc/thread-self/syscall").unwrap() {
            return eprintln!("the kernel does not show system calls: not tested");
        }
        let (near, far) = UnixStream::pair().unwrap();
        let (tx, rx) = mpsc::channel();
        let waiter = thread::spawn(move || {
            tx.send(current_tid()).unwrap();
            waits_in_poll(&near)
        });
        let number = rx.recv().unwrap();
        let is_known = |name: &str| name.ends_with("waits_in_poll");
        // The thread has sent its id and may not have reached the call yet.
        let functions = loop {
            let functions = functions_of_blocked(number, is_known);
            if functions.iter().any(|function| is_known(&function.name)) {
                break functions;
            }
            thread::yield_now();
        };
        drop(far);
        assert_eq!(waiter.join().unwrap(), 1, "the call was not interrupted");
        assert!(functions.len() > 2, "the callers are there too: {functions:#?}");
        let maps = fs::read_to_string("/proc/self/maps").unwrap();
        let (map, program) = (MemoryMap::parse(&maps), Program::find());
        assert!(walk(number, &map, &program).is_none(), "it has ended");
    }
}
