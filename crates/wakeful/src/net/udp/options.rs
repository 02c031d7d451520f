//! The socket options of [`UdpSocket`].

use super::UdpSocket;
use crate::runtime::poll_evented::Io;
use crate::runtime::simulated::refused;
use socket2::SockRef;
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr};

impl UdpSocket {
    /// Returns whether the socket may send to a broadcast address (`SO_BROADCAST`).
    ///
    /// # Errors
    ///
    /// Returns the kernel's error.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[wakeful::main(flavor = "current_thread")]
    /// # async fn main() -> std::io::Result<()> {
    /// let socket = wakeful::net::UdpSocket::bind("127.0.0.1:0").await?;
    /// assert!(!socket.broadcast()?);
    /// socket.set_broadcast(true)?;
    /// assert!(socket.broadcast()?);
    /// # Ok(())
    /// # }
    /// ```
    pub fn broadcast(&self) -> io::Result<bool> {
        self.io.broadcast()
    }

    /// Sets whether the socket may send to a broadcast address (`SO_BROADCAST`).
    ///
    /// # Errors
    ///
    /// Returns the kernel's error.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[wakeful::main(flavor = "current_thread")]
    /// # async fn main() -> std::io::Result<()> {
    /// let socket = wakeful::net::UdpSocket::bind("127.0.0.1:0").await?;
    /// socket.set_broadcast(true)?;
    /// assert!(socket.broadcast()?);
    /// # Ok(())
    /// # }
    /// ```
    pub fn set_broadcast(&self, on: bool) -> io::Result<()> {
        self.io.set_broadcast(on)
    }

    /// Returns whether the host receives its own IPv4 multicast packets (`IP_MULTICAST_LOOP`).
    ///
    /// # Errors
    ///
    /// Returns the kernel's error.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[wakeful::main(flavor = "current_thread")]
    /// # async fn main() -> std::io::Result<()> {
    /// let socket = wakeful::net::UdpSocket::bind("127.0.0.1:0").await?;
    /// assert!(socket.multicast_loop_v4()?); // the kernel's default
    /// # Ok(())
    /// # }
    /// ```
    pub fn multicast_loop_v4(&self) -> io::Result<bool> {
        self.io.multicast_loop_v4()
    }

    /// Sets whether the host receives its own IPv4 multicast packets (`IP_MULTICAST_LOOP`).
    ///
    /// # Errors
    ///
    /// Returns the kernel's error.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[wakeful::main(flavor = "current_thread")]
    /// # async fn main() -> std::io::Result<()> {
    /// let socket = wakeful::net::UdpSocket::bind("127.0.0.1:0").await?;
    /// socket.set_multicast_loop_v4(false)?;
    /// assert!(!socket.multicast_loop_v4()?);
    /// # Ok(())
    /// # }
    /// ```
    pub fn set_multicast_loop_v4(&self, on: bool) -> io::Result<()> {
        self.io.set_multicast_loop_v4(on)
    }

    /// Returns the time-to-live of IPv4 multicast packets (`IP_MULTICAST_TTL`).
    ///
    /// # Errors
    ///
    /// Returns the kernel's error.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[wakeful::main(flavor = "current_thread")]
    /// # async fn main() -> std::io::Result<()> {
    /// let socket = wakeful::net::UdpSocket::bind("127.0.0.1:0").await?;
    /// assert_eq!(socket.multicast_ttl_v4()?, 1); // the kernel's default: this network only
    /// # Ok(())
    /// # }
    /// ```
    pub fn multicast_ttl_v4(&self) -> io::Result<u32> {
        self.io.multicast_ttl_v4()
    }

    /// Sets the time-to-live of IPv4 multicast packets (`IP_MULTICAST_TTL`).
    ///
    /// A value of 1 restricts packets to the local network.
    ///
    /// # Errors
    ///
    /// Returns the kernel's error.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[wakeful::main(flavor = "current_thread")]
    /// # async fn main() -> std::io::Result<()> {
    /// let socket = wakeful::net::UdpSocket::bind("127.0.0.1:0").await?;
    /// socket.set_multicast_ttl_v4(2)?;
    /// assert_eq!(socket.multicast_ttl_v4()?, 2);
    /// # Ok(())
    /// # }
    /// ```
    pub fn set_multicast_ttl_v4(&self, ttl: u32) -> io::Result<()> {
        self.io.set_multicast_ttl_v4(ttl)
    }

    /// Returns whether the host receives its own IPv6 multicast packets (`IPV6_MULTICAST_LOOP`).
    ///
    /// # Errors
    ///
    /// Returns the kernel's error.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # #[wakeful::main(flavor = "current_thread")]
    /// # async fn main() -> std::io::Result<()> {
    /// let socket = wakeful::net::UdpSocket::bind("[::1]:0").await?;
    /// assert!(socket.multicast_loop_v6()?); // the kernel's default
    /// # Ok(())
    /// # }
    /// ```
    pub fn multicast_loop_v6(&self) -> io::Result<bool> {
        self.io.multicast_loop_v6()
    }

    /// Sets whether the host receives its own IPv6 multicast packets (`IPV6_MULTICAST_LOOP`).
    ///
    /// # Errors
    ///
    /// Returns the kernel's error.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # #[wakeful::main(flavor = "current_thread")]
    /// # async fn main() -> std::io::Result<()> {
    /// let socket = wakeful::net::UdpSocket::bind("[::1]:0").await?;
    /// socket.set_multicast_loop_v6(false)?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn set_multicast_loop_v6(&self, on: bool) -> io::Result<()> {
        self.io.set_multicast_loop_v6(on)
    }

    /// Joins an IPv4 multicast group on the interface with address `interface`.
    ///
    /// `0.0.0.0` lets the kernel choose an interface.
    ///
    /// # Errors
    ///
    /// Returns the kernel's error.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # #[wakeful::main(flavor = "current_thread")]
    /// # async fn main() -> std::io::Result<()> {
    /// use std::net::Ipv4Addr;
    /// use wakeful::net::UdpSocket;
    ///
    /// let socket = UdpSocket::bind("0.0.0.0:5353").await?;
    /// socket.join_multicast_v4(Ipv4Addr::new(224, 0, 0, 251), Ipv4Addr::UNSPECIFIED)?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn join_multicast_v4(&self, multiaddr: Ipv4Addr, interface: Ipv4Addr) -> io::Result<()> {
        match self.io.io() {
            Io::Kernel(io) => io.join_multicast_v4(&multiaddr, &interface),
            Io::Simulated(_) => Err(refused("`join_multicast_v4`")),
        }
    }

    /// Joins an IPv6 multicast group on the interface with index `interface`.
    ///
    /// 0 lets the kernel choose an interface.
    ///
    /// # Errors
    ///
    /// Returns the kernel's error.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # #[wakeful::main(flavor = "current_thread")]
    /// # async fn main() -> std::io::Result<()> {
    /// let socket = wakeful::net::UdpSocket::bind("[::]:5353").await?;
    /// socket.join_multicast_v6(&"ff02::fb".parse().unwrap(), 0)?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn join_multicast_v6(&self, multiaddr: &Ipv6Addr, interface: u32) -> io::Result<()> {
        match self.io.io() {
            Io::Kernel(io) => io.join_multicast_v6(multiaddr, interface),
            Io::Simulated(_) => Err(refused("`join_multicast_v6`")),
        }
    }

    /// Leaves an IPv4 multicast group; see [`join_multicast_v4`](Self::join_multicast_v4).
    ///
    /// # Errors
    ///
    /// Returns the kernel's error.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # #[wakeful::main(flavor = "current_thread")]
    /// # async fn main() -> std::io::Result<()> {
    /// use std::net::Ipv4Addr;
    ///
    /// let socket = wakeful::net::UdpSocket::bind("0.0.0.0:5353").await?;
    /// let group = Ipv4Addr::new(224, 0, 0, 251);
    /// socket.join_multicast_v4(group, Ipv4Addr::UNSPECIFIED)?;
    /// socket.leave_multicast_v4(group, Ipv4Addr::UNSPECIFIED)?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn leave_multicast_v4(&self, multiaddr: Ipv4Addr, interface: Ipv4Addr) -> io::Result<()> {
        match self.io.io() {
            Io::Kernel(io) => io.leave_multicast_v4(&multiaddr, &interface),
            Io::Simulated(_) => Err(refused("`leave_multicast_v4`")),
        }
    }

    /// Leaves an IPv6 multicast group; see [`join_multicast_v6`](Self::join_multicast_v6).
    ///
    /// # Errors
    ///
    /// Returns the kernel's error.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # #[wakeful::main(flavor = "current_thread")]
    /// # async fn main() -> std::io::Result<()> {
    /// let socket = wakeful::net::UdpSocket::bind("[::]:5353").await?;
    /// let group = "ff02::fb".parse().unwrap();
    /// socket.join_multicast_v6(&group, 0)?;
    /// socket.leave_multicast_v6(&group, 0)?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn leave_multicast_v6(&self, multiaddr: &Ipv6Addr, interface: u32) -> io::Result<()> {
        match self.io.io() {
            Io::Kernel(io) => io.leave_multicast_v6(multiaddr, interface),
            Io::Simulated(_) => Err(refused("`leave_multicast_v6`")),
        }
    }

    /// Returns the time-to-live of packets (`IP_TTL`).
    ///
    /// # Errors
    ///
    /// Returns the kernel's error.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[wakeful::main(flavor = "current_thread")]
    /// # async fn main() -> std::io::Result<()> {
    /// let socket = wakeful::net::UdpSocket::bind("127.0.0.1:0").await?;
    /// socket.set_ttl(8)?;
    /// assert_eq!(socket.ttl()?, 8);
    /// # Ok(())
    /// # }
    /// ```
    pub fn ttl(&self) -> io::Result<u32> {
        self.io.ttl()
    }

    /// Sets the time-to-live of packets (`IP_TTL`).
    ///
    /// # Errors
    ///
    /// Returns the kernel's error.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[wakeful::main(flavor = "current_thread")]
    /// # async fn main() -> std::io::Result<()> {
    /// let socket = wakeful::net::UdpSocket::bind("127.0.0.1:0").await?;
    /// socket.set_ttl(100)?;
    /// assert_eq!(socket.ttl()?, 100);
    /// # Ok(())
    /// # }
    /// ```
    pub fn set_ttl(&self, ttl: u32) -> io::Result<()> {
        self.io.set_ttl(ttl)
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
    /// # #[wakeful::main(flavor = "current_thread")]
    /// # async fn main() -> std::io::Result<()> {
    /// let socket = wakeful::net::UdpSocket::bind("127.0.0.1:0").await?;
    /// assert_eq!(socket.tos_v4()?, 0); // the kernel's default
    /// # Ok(())
    /// # }
    /// ```
    pub fn tos_v4(&self) -> io::Result<u32> {
        SockRef::from(self).tos_v4()
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
    /// # #[wakeful::main(flavor = "current_thread")]
    /// # async fn main() -> std::io::Result<()> {
    /// let socket = wakeful::net::UdpSocket::bind("127.0.0.1:0").await?;
    /// socket.set_tos_v4(0x10)?; // low delay
    /// assert_eq!(socket.tos_v4()?, 0x10);
    /// # Ok(())
    /// # }
    /// ```
    pub fn set_tos_v4(&self, tos: u32) -> io::Result<()> {
        SockRef::from(self).set_tos_v4(tos)
    }

    /// Returns the type of service of IPv4 packets; renamed to [`tos_v4`](Self::tos_v4).
    ///
    /// # Errors
    ///
    /// Returns the kernel's error.
    #[doc(hidden)]
    #[deprecated = "concerns IPv4 only; use `tos_v4`"]
    pub fn tos(&self) -> io::Result<u32> {
        self.tos_v4()
    }

    /// Sets the type of service of IPv4 packets; renamed to [`set_tos_v4`](Self::set_tos_v4).
    ///
    /// # Errors
    ///
    /// Returns the kernel's error.
    #[doc(hidden)]
    #[deprecated = "concerns IPv4 only; use `set_tos_v4`"]
    pub fn set_tos(&self, tos: u32) -> io::Result<()> {
        self.set_tos_v4(tos)
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
    /// # #[wakeful::main(flavor = "current_thread")]
    /// # async fn main() -> std::io::Result<()> {
    /// let socket = wakeful::net::UdpSocket::bind("[::1]:0").await?;
    /// assert_eq!(socket.tclass_v6()?, 0); // the kernel's default
    /// # Ok(())
    /// # }
    /// ```
    pub fn tclass_v6(&self) -> io::Result<u32> {
        SockRef::from(self).tclass_v6()
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
    /// # #[wakeful::main(flavor = "current_thread")]
    /// # async fn main() -> std::io::Result<()> {
    /// let socket = wakeful::net::UdpSocket::bind("[::1]:0").await?;
    /// socket.set_tclass_v6(0x10)?; // low delay
    /// # Ok(())
    /// # }
    /// ```
    pub fn set_tclass_v6(&self, tclass: u32) -> io::Result<()> {
        SockRef::from(self).set_tclass_v6(tclass)
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
    /// # #[wakeful::main(flavor = "current_thread")]
    /// # async fn main() -> std::io::Result<()> {
    /// let socket = wakeful::net::UdpSocket::bind("127.0.0.1:0").await?;
    /// assert_eq!(socket.device()?, None);
    /// # Ok(())
    /// # }
    /// ```
    pub fn device(&self) -> io::Result<Option<Vec<u8>>> {
        SockRef::from(self).device()
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
    /// # #[wakeful::main(flavor = "current_thread")]
    /// # async fn main() -> std::io::Result<()> {
    /// let socket = wakeful::net::UdpSocket::bind("0.0.0.0:0").await?;
    /// socket.bind_device(Some(b"eth0"))?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn bind_device(&self, interface: Option<&[u8]>) -> io::Result<()> {
        SockRef::from(self).bind_device(interface)
    }
}
