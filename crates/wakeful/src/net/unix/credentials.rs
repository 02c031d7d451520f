//! Who is on the other side of a unix socket.

use super::{gid_t, pid_t, uid_t};
use std::io;
use std::os::fd::{AsFd, AsRawFd};

/// Who was on the other side of a unix socket when it was connected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct UCred {
    pid: Option<pid_t>,
    uid: uid_t,
    gid: gid_t,
}

impl UCred {
    /// The user.
    pub fn uid(&self) -> uid_t {
        self.uid
    }

    /// The group.
    pub fn gid(&self) -> gid_t {
        self.gid
    }

    /// The process, on systems that tell. It may be over by now. Linux tells 0 if
    /// the process cannot be seen from here (another namespace).
    pub fn pid(&self) -> Option<pid_t> {
        self.pid
    }

    pub(super) fn of_peer(socket: &impl AsFd) -> io::Result<UCred> {
        let mut found = libc::ucred { pid: 0, uid: 0, gid: 0 };
        let mut len = size_of::<libc::ucred>() as libc::socklen_t;
        // SAFETY: the descriptor is borrowed, so it is open; the system writes at
        // most `len` bytes, which is how large `found` is, and any bytes make one.
        let status = unsafe {
            libc::getsockopt(
                socket.as_fd().as_raw_fd(),
                libc::SOL_SOCKET,
                libc::SO_PEERCRED,
                (&raw mut found).cast(),
                &raw mut len,
            )
        };
        if status != 0 {
            return Err(io::Error::last_os_error());
        }
        assert_eq!(len as usize, size_of::<libc::ucred>(), "credentials are of one size");
        Ok(UCred { pid: Some(found.pid), uid: found.uid, gid: found.gid })
    }
}
