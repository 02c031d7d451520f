//! The options of UDP sockets.

use super::UdpSocket;
use socket2::SockRef;
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr};

impl UdpSocket {
    /// Whether it may send to a broadcast address (`SO_BROADCAST`).
    pub fn broadcast(&self) -> io::Result<bool> {
        self.io.broadcast()
    }

    /// Sets whether it may send to a broadcast address (`SO_BROADCAST`).
    pub fn set_broadcast(&self, on: bool) -> io::Result<()> {
        self.io.set_broadcast(on)
    }

    /// Whether packets to a multicast group come back to this host
    /// (`IP_MULTICAST_LOOP`).
    pub fn multicast_loop_v4(&self) -> io::Result<bool> {
        self.io.multicast_loop_v4()
    }

    /// Sets whether packets to a multicast group come back to this host
    /// (`IP_MULTICAST_LOOP`).
    pub fn set_multicast_loop_v4(&self, on: bool) -> io::Result<()> {
        self.io.set_multicast_loop_v4(on)
    }

    /// How far packets to a multicast group go (`IP_MULTICAST_TTL`).
    pub fn multicast_ttl_v4(&self) -> io::Result<u32> {
        self.io.multicast_ttl_v4()
    }

    /// Sets how far packets to a multicast group go (`IP_MULTICAST_TTL`); 1 is the
    /// local network.
    pub fn set_multicast_ttl_v4(&self, ttl: u32) -> io::Result<()> {
        self.io.set_multicast_ttl_v4(ttl)
    }

    /// Whether packets to a multicast group come back to this host
    /// (`IPV6_MULTICAST_LOOP`).
    pub fn multicast_loop_v6(&self) -> io::Result<bool> {
        self.io.multicast_loop_v6()
    }

    /// Sets whether packets to a multicast group come back to this host
    /// (`IPV6_MULTICAST_LOOP`).
    pub fn set_multicast_loop_v6(&self, on: bool) -> io::Result<()> {
        self.io.set_multicast_loop_v6(on)
    }

    /// Takes part in an IPv4 multicast group, on the interface with that address;
    /// on any, if that is `0.0.0.0`.
    pub fn join_multicast_v4(&self, multiaddr: Ipv4Addr, interface: Ipv4Addr) -> io::Result<()> {
        self.io.join_multicast_v4(&multiaddr, &interface)
    }

    /// Takes part in an IPv6 multicast group, on the interface with that number;
    /// on any, if that is 0.
    pub fn join_multicast_v6(&self, multiaddr: &Ipv6Addr, interface: u32) -> io::Result<()> {
        self.io.join_multicast_v6(multiaddr, interface)
    }

    /// Leaves a group that was [joined](Self::join_multicast_v4).
    pub fn leave_multicast_v4(&self, multiaddr: Ipv4Addr, interface: Ipv4Addr) -> io::Result<()> {
        self.io.leave_multicast_v4(&multiaddr, &interface)
    }

    /// Leaves a group that was [joined](Self::join_multicast_v6).
    pub fn leave_multicast_v6(&self, multiaddr: &Ipv6Addr, interface: u32) -> io::Result<()> {
        self.io.leave_multicast_v6(multiaddr, interface)
    }

    /// The time-to-live of packets (`IP_TTL`).
    pub fn ttl(&self) -> io::Result<u32> {
        self.io.ttl()
    }

    /// Sets the time-to-live of packets (`IP_TTL`).
    pub fn set_ttl(&self, ttl: u32) -> io::Result<()> {
        self.io.set_ttl(ttl)
    }

    /// The type of service of IPv4 packets (`IP_TOS`).
    pub fn tos_v4(&self) -> io::Result<u32> {
        SockRef::from(self).tos_v4()
    }

    /// Sets the type of service of IPv4 packets (`IP_TOS`).
    pub fn set_tos_v4(&self, tos: u32) -> io::Result<()> {
        SockRef::from(self).set_tos_v4(tos)
    }

    /// See [`tos_v4`](Self::tos_v4).
    #[doc(hidden)]
    #[deprecated = "it is for IPv4 only: use `tos_v4`"]
    pub fn tos(&self) -> io::Result<u32> {
        self.tos_v4()
    }

    /// See [`set_tos_v4`](Self::set_tos_v4).
    #[doc(hidden)]
    #[deprecated = "it is for IPv4 only: use `set_tos_v4`"]
    pub fn set_tos(&self, tos: u32) -> io::Result<()> {
        self.set_tos_v4(tos)
    }

    /// The traffic class of IPv6 packets (`IPV6_TCLASS`).
    pub fn tclass_v6(&self) -> io::Result<u32> {
        SockRef::from(self).tclass_v6()
    }

    /// Sets the traffic class of IPv6 packets (`IPV6_TCLASS`).
    pub fn set_tclass_v6(&self, tclass: u32) -> io::Result<()> {
        SockRef::from(self).set_tclass_v6(tclass)
    }

    /// The interface that it is bound to (`SO_BINDTODEVICE`).
    pub fn device(&self) -> io::Result<Option<Vec<u8>>> {
        SockRef::from(self).device()
    }

    /// Uses one interface only, or any again (`SO_BINDTODEVICE`).
    pub fn bind_device(&self, interface: Option<&[u8]>) -> io::Result<()> {
        SockRef::from(self).bind_device(interface)
    }
}
