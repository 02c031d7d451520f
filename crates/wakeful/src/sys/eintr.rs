//! Repeats system calls that a signal interrupted (EINTR).

use rustix::io::Errno;
use std::io;

/// An error type that can represent an interrupted call.
pub(crate) trait MaybeInterrupted: Into<io::Error> {
    fn is_interrupted(&self) -> bool;
}

impl MaybeInterrupted for Errno {
    #[inline]
    fn is_interrupted(&self) -> bool {
        *self == Errno::INTR
    }
}

impl MaybeInterrupted for io::Error {
    #[inline]
    fn is_interrupted(&self) -> bool {
        self.kind() == io::ErrorKind::Interrupted
    }
}

/// Repeats `operation` until no signal interrupts it.
#[inline]
pub(crate) fn uninterrupted<R, E: MaybeInterrupted>(
    mut operation: impl FnMut() -> Result<R, E>,
) -> io::Result<R> {
    loop {
        match operation() {
            Err(error) if error.is_interrupted() => {}
            result => return result.map_err(E::into),
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::uninterrupted;
    use rustix::io::Errno;
    use std::io;

    #[test]
    fn only_an_interrupted_call_is_repeated() {
        let mut results = [Err(Errno::INTR), Err(Errno::INTR), Ok(1)].into_iter();
        assert_eq!(uninterrupted(|| results.next().unwrap()).unwrap(), 1);
        let mut results = [Err(Errno::INTR), Err(Errno::AGAIN), Ok(1)].into_iter();
        let error = uninterrupted(|| results.next().unwrap()).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
        let mut results = [io::ErrorKind::Interrupted, io::ErrorKind::NotFound].into_iter();
        let next = || Err::<(), _>(io::Error::from(results.next().unwrap()));
        assert_eq!(uninterrupted(next).unwrap_err().kind(), io::ErrorKind::NotFound);
    }
}
