//! The socket options of [`TcpSocket`].

use super::TcpSocket;
use std::io;
use std::time::Duration;

impl TcpSocket {
    /// Sets whether the kernel sends keepalive probes on idle connections (`SO_KEEPALIVE`).
    ///
    /// # Errors
    ///
    /// Returns the kernel's error.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> std::io::Result<()> {
    /// let socket = wakeful::net::TcpSocket::new_v4()?;
    /// socket.set_keepalive(true)?;
    /// assert!(socket.keepalive()?);
    /// # Ok(())
    /// # }
    /// ```
    pub fn set_keepalive(&self, keepalive: bool) -> io::Result<()> {
        self.socket.set_keepalive(keepalive)
    }

    /// Returns whether the kernel sends keepalive probes on idle connections (`SO_KEEPALIVE`).
    ///
    /// # Errors
    ///
    /// Returns the kernel's error.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> std::io::Result<()> {
    /// let socket = wakeful::net::TcpSocket::new_v4()?;
    /// assert!(!socket.keepalive()?);
    /// socket.set_keepalive(true)?;
    /// assert!(socket.keepalive()?);
    /// # Ok(())
    /// # }
    /// ```
    pub fn keepalive(&self) -> io::Result<bool> {
        self.socket.keepalive()
    }

    /// Sets whether the socket can bind an address that has connections in `TIME_WAIT`
    /// (`SO_REUSEADDR`).
    ///
    /// # Errors
    ///
    /// Returns the kernel's error.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> std::io::Result<()> {
    /// let socket = wakeful::net::TcpSocket::new_v4()?;
    /// socket.set_reuseaddr(true)?;
    /// assert!(socket.reuseaddr()?);
    /// # Ok(())
    /// # }
    /// ```
    pub fn set_reuseaddr(&self, reuseaddr: bool) -> io::Result<()> {
        self.socket.set_reuse_address(reuseaddr)
    }

    /// Returns whether the socket can bind an address that has connections in `TIME_WAIT`
    /// (`SO_REUSEADDR`).
    ///
    /// # Errors
    ///
    /// Returns the kernel's error.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> std::io::Result<()> {
    /// let socket = wakeful::net::TcpSocket::new_v4()?;
    /// socket.set_reuseaddr(true)?;
    /// assert!(socket.reuseaddr()?);
    /// # Ok(())
    /// # }
    /// ```
    pub fn reuseaddr(&self) -> io::Result<bool> {
        self.socket.reuse_address()
    }

    /// Sets whether several sockets may be bound to one port (`SO_REUSEPORT`).
    ///
    /// # Errors
    ///
    /// Returns the kernel's error.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> std::io::Result<()> {
    /// let socket = wakeful::net::TcpSocket::new_v4()?;
    /// socket.set_reuseport(true)?;
    /// assert!(socket.reuseport()?);
    /// # Ok(())
    /// # }
    /// ```
    pub fn set_reuseport(&self, reuseport: bool) -> io::Result<()> {
        self.socket.set_reuse_port(reuseport)
    }

    /// Returns whether several sockets may be bound to one port (`SO_REUSEPORT`).
    ///
    /// # Errors
    ///
    /// Returns the kernel's error.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> std::io::Result<()> {
    /// let socket = wakeful::net::TcpSocket::new_v4()?;
    /// socket.set_reuseport(true)?;
    /// assert!(socket.reuseport()?);
    /// # Ok(())
    /// # }
    /// ```
    pub fn reuseport(&self) -> io::Result<bool> {
        self.socket.reuse_port()
    }

    /// Sets the size of the send buffer (`SO_SNDBUF`).
    ///
    /// Linux doubles the value, and caps it at a system-wide limit.
    ///
    /// # Errors
    ///
    /// Returns the kernel's error.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> std::io::Result<()> {
    /// let socket = wakeful::net::TcpSocket::new_v4()?;
    /// socket.set_send_buffer_size(16 * 1024)?;
    /// assert!(socket.send_buffer_size()? >= 16 * 1024);
    /// # Ok(())
    /// # }
    /// ```
    pub fn set_send_buffer_size(&self, size: u32) -> io::Result<()> {
        self.socket.set_send_buffer_size(size as usize)
    }

    /// Returns the size of the send buffer (`SO_SNDBUF`).
    ///
    /// The kernel doubles the size that was set, for its own bookkeeping.
    ///
    /// # Errors
    ///
    /// Returns the kernel's error.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> std::io::Result<()> {
    /// let socket = wakeful::net::TcpSocket::new_v4()?;
    /// socket.set_send_buffer_size(64 * 1024)?;
    /// assert!(socket.send_buffer_size()? >= 64 * 1024);
    /// # Ok(())
    /// # }
    /// ```
    pub fn send_buffer_size(&self) -> io::Result<u32> {
        self.socket.send_buffer_size().map(|size| size as u32)
    }

    /// Sets the size of the receive buffer (`SO_RCVBUF`).
    ///
    /// Linux doubles the value, and caps it at a system-wide limit.
    ///
    /// # Errors
    ///
    /// Returns the kernel's error.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> std::io::Result<()> {
    /// let socket = wakeful::net::TcpSocket::new_v4()?;
    /// socket.set_recv_buffer_size(16 * 1024)?;
    /// assert!(socket.recv_buffer_size()? >= 16 * 1024);
    /// # Ok(())
    /// # }
    /// ```
    pub fn set_recv_buffer_size(&self, size: u32) -> io::Result<()> {
        self.socket.set_recv_buffer_size(size as usize)
    }

    /// Returns the size of the receive buffer (`SO_RCVBUF`).
    ///
    /// The kernel doubles the size that was set, for its own bookkeeping.
    ///
    /// # Errors
    ///
    /// Returns the kernel's error.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> std::io::Result<()> {
    /// let socket = wakeful::net::TcpSocket::new_v4()?;
    /// socket.set_recv_buffer_size(64 * 1024)?;
    /// assert!(socket.recv_buffer_size()? >= 64 * 1024);
    /// # Ok(())
    /// # }
    /// ```
    pub fn recv_buffer_size(&self) -> io::Result<u32> {
        self.socket.recv_buffer_size().map(|size| size as u32)
    }

    /// Sets how long closing the socket waits for unsent data to be sent (`SO_LINGER`).
    ///
    /// A nonzero value blocks the thread that closes the socket, which is usually a worker.
    ///
    /// # Errors
    ///
    /// Returns the kernel's error.
    #[deprecated = "a nonzero linger time blocks the thread that closes the socket; use \
                    `set_zero_linger`"]
    pub fn set_linger(&self, dur: Option<Duration>) -> io::Result<()> {
        self.socket.set_linger(dur)
    }

    /// Makes closing the socket discard unsent data and reset the connection (`SO_LINGER` of zero).
    ///
    /// # Errors
    ///
    /// Returns the kernel's error.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> std::io::Result<()> {
    /// use std::time::Duration;
    ///
    /// let socket = wakeful::net::TcpSocket::new_v4()?;
    /// socket.set_zero_linger()?;
    /// assert_eq!(socket.linger()?, Some(Duration::ZERO));
    /// # Ok(())
    /// # }
    /// ```
    pub fn set_zero_linger(&self) -> io::Result<()> {
        self.socket.set_linger(Some(Duration::ZERO))
    }

    /// Returns how long closing the socket waits for unsent data to be sent (`SO_LINGER`).
    ///
    /// `None` means that closing returns immediately, and the kernel sends the data in the
    /// background.
    ///
    /// # Errors
    ///
    /// Returns the kernel's error.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> std::io::Result<()> {
    /// use std::time::Duration;
    ///
    /// let socket = wakeful::net::TcpSocket::new_v4()?;
    /// assert_eq!(socket.linger()?, None);
    /// socket.set_zero_linger()?;
    /// assert_eq!(socket.linger()?, Some(Duration::ZERO));
    /// # Ok(())
    /// # }
    /// ```
    pub fn linger(&self) -> io::Result<Option<Duration>> {
        self.socket.linger()
    }

    /// Sets whether Nagle's algorithm is disabled, so that small writes are sent immediately
    /// (`TCP_NODELAY`).
    ///
    /// # Errors
    ///
    /// Returns the kernel's error.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> std::io::Result<()> {
    /// let socket = wakeful::net::TcpSocket::new_v4()?;
    /// socket.set_nodelay(true)?;
    /// assert!(socket.nodelay()?);
    /// # Ok(())
    /// # }
    /// ```
    pub fn set_nodelay(&self, nodelay: bool) -> io::Result<()> {
        self.socket.set_tcp_nodelay(nodelay)
    }

    /// Returns whether Nagle's algorithm is disabled (`TCP_NODELAY`).
    ///
    /// # Errors
    ///
    /// Returns the kernel's error.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> std::io::Result<()> {
    /// let socket = wakeful::net::TcpSocket::new_v4()?;
    /// socket.set_nodelay(true)?;
    /// assert!(socket.nodelay()?);
    /// # Ok(())
    /// # }
    /// ```
    pub fn nodelay(&self) -> io::Result<bool> {
        self.socket.tcp_nodelay()
    }

    /// Returns the traffic class of IPv6 packets (`IPV6_TCLASS`).
    ///
    /// # Errors
    ///
    /// Returns the kernel's error.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # fn main() -> std::io::Result<()> {
    /// let socket = wakeful::net::TcpSocket::new_v6()?;
    /// socket.set_tclass_v6(0x10)?;
    /// assert_eq!(socket.tclass_v6()?, 0x10);
    /// # Ok(())
    /// # }
    /// ```
    pub fn tclass_v6(&self) -> io::Result<u32> {
        self.socket.tclass_v6()
    }

    /// Sets the traffic class of IPv6 packets (`IPV6_TCLASS`).
    ///
    /// # Errors
    ///
    /// Returns the kernel's error.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # fn main() -> std::io::Result<()> {
    /// let socket = wakeful::net::TcpSocket::new_v6()?;
    /// socket.set_tclass_v6(0x10)?; // low delay
    /// # Ok(())
    /// # }
    /// ```
    pub fn set_tclass_v6(&self, tclass: u32) -> io::Result<()> {
        self.socket.set_tclass_v6(tclass)
    }

    /// Returns the type of service of IPv4 packets (`IP_TOS`).
    ///
    /// # Errors
    ///
    /// Returns the kernel's error.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> std::io::Result<()> {
    /// let socket = wakeful::net::TcpSocket::new_v4()?;
    /// socket.set_tos_v4(0x10)?; // low delay
    /// assert_eq!(socket.tos_v4()?, 0x10);
    /// # Ok(())
    /// # }
    /// ```
    pub fn tos_v4(&self) -> io::Result<u32> {
        self.socket.tos_v4()
    }

    /// Returns the type of service of IPv4 packets; renamed to [`tos_v4`](Self::tos_v4).
    ///
    /// # Errors
    ///
    /// Returns the kernel's error.
    #[deprecated = "concerns IPv4 only; use `tos_v4`"]
    pub fn tos(&self) -> io::Result<u32> {
        self.tos_v4()
    }

    /// Sets the type of service of IPv4 packets (`IP_TOS`).
    ///
    /// # Errors
    ///
    /// Returns the kernel's error.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> std::io::Result<()> {
    /// let socket = wakeful::net::TcpSocket::new_v4()?;
    /// socket.set_tos_v4(0x10)?; // low delay
    /// assert_eq!(socket.tos_v4()?, 0x10);
    /// # Ok(())
    /// # }
    /// ```
    pub fn set_tos_v4(&self, tos: u32) -> io::Result<()> {
        self.socket.set_tos_v4(tos)
    }

    /// Sets the type of service of IPv4 packets; renamed to [`set_tos_v4`](Self::set_tos_v4).
    ///
    /// # Errors
    ///
    /// Returns the kernel's error.
    #[deprecated = "concerns IPv4 only; use `set_tos_v4`"]
    pub fn set_tos(&self, tos: u32) -> io::Result<()> {
        self.set_tos_v4(tos)
    }

    /// Returns the network interface to which the socket is bound (`SO_BINDTODEVICE`).
    ///
    /// # Errors
    ///
    /// Returns the kernel's error.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> std::io::Result<()> {
    /// let socket = wakeful::net::TcpSocket::new_v4()?;
    /// assert_eq!(socket.device()?, None);
    /// # Ok(())
    /// # }
    /// ```
    pub fn device(&self) -> io::Result<Option<Vec<u8>>> {
        self.socket.device()
    }

    /// Binds the socket to a network interface, or to all with `None` (`SO_BINDTODEVICE`).
    ///
    /// # Errors
    ///
    /// Returns the kernel's error.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # fn main() -> std::io::Result<()> {
    /// let socket = wakeful::net::TcpSocket::new_v4()?;
    /// socket.bind_device(Some(b"eth0"))?;
    /// assert_eq!(socket.device()?, Some(b"eth0".to_vec()));
    /// # Ok(())
    /// # }
    /// ```
    pub fn bind_device(&self, interface: Option<&[u8]>) -> io::Result<()> {
        self.socket.bind_device(interface)
    }
}
