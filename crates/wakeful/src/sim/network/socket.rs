//! [`SimulatedSocket`]: the replacement for a descriptor in a socket of a simulated host.

use super::connection::Closing;
use super::peers::Half;
use super::state::{Address, EndId, Net, Socket, SocketId, SocketKind, SocketState};
use crate::driver::io_readiness::{IoReadiness, Readiness};
use crate::sim::world::{SimulatedHost, World};
use crate::sys::descriptor::FIRST_SIMULATED;
use rustix::io::{Errno, Result as SysResult};
use rustix::net::sockopt;
use std::any::Any;
use std::fmt;
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::net::{SocketAddr, SocketAddrV4};
use std::os::fd::AsFd;
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// Any socket of the standard library.
trait AnySocket: Any + AsFd + Send + Sync {}

impl<S: Any + AsFd + Send + Sync> AnySocket for S {}

/// A socket of a simulated host. Dropping it closes the socket.
///
/// It has a descriptor only if the program asks for one: a *stand-in*, a kernel socket that is
/// neither bound nor connected. The stand-in keeps the options that the program sets.
///
/// One word, so that it adds nothing to the size of a connecting future. Nothing shares the `Arc`:
/// its drop is out of line, and so adds nothing to the drop of a kernel socket.
pub(crate) struct SimulatedSocket(Arc<Inner>);

struct Inner {
    world: Arc<World>,
    id: SocketId,
    stand_in: OnceLock<Box<dyn AnySocket>>,
}

// The sockets in `net` have these traits, as tokio's do. A panic cannot leave the world half-changed: its state is
// behind a lock, and a panic under the lock fails the run.
impl UnwindSafe for SimulatedSocket {}
impl RefUnwindSafe for SimulatedSocket {}

/// Returns the number of a socket in the waits of tasks.
pub(super) fn number_of(id: SocketId) -> u64 {
    u64::from(FIRST_SIMULATED + id.0)
}

fn v4(addr: SocketAddr) -> io::Result<SocketAddrV4> {
    match addr {
        SocketAddr::V4(addr) => Ok(addr),
        SocketAddr::V6(addr) => Err(io::Error::new(
            io::ErrorKind::Unsupported,
            format!("{addr} is not available in a simulation: its hosts have only IPv4 addresses"),
        )),
    }
}

fn check_not_stopping(world: &World) -> io::Result<()> {
    if !world.is_stopping() {
        return Ok(());
    }
    Err(io::Error::other("the host is being killed: its destructors cannot use the network"))
}

impl SimulatedSocket {
    fn of(world: &Arc<World>, id: SocketId) -> Self {
        Self(Arc::new(Inner { world: world.clone(), id, stand_in: OnceLock::new() }))
    }

    /// Opens a socket on a host.
    ///
    /// # Errors
    ///
    /// Returns an error while the host is being killed.
    pub(crate) fn open(host: &SimulatedHost, kind: SocketKind) -> io::Result<Self> {
        let world = &host.world;
        check_not_stopping(world)?;
        Ok(Self::of(world, world.with_net(|net, _, _| net.open(host.id, kind))))
    }

    /// Opens two Unix sockets that are connected to each other.
    ///
    /// # Errors
    ///
    /// Returns an error while the host is being killed.
    pub(crate) fn pair(host: &SimulatedHost) -> io::Result<[Self; 2]> {
        check_not_stopping(&host.world)?;
        let ids = host.world.with_net(|net, _, _| net.pair(host.id));
        Ok(ids.map(|id| Self::of(&host.world, id)))
    }

    /// Returns the descriptor number that diagnostics show for the socket.
    pub(crate) fn number(&self) -> i32 {
        number_of(self.0.id) as i32
    }

    /// Attaches `source`, through which tasks wait for the socket.
    pub(crate) fn attach(&self, source: &Arc<IoReadiness>) {
        self.0.world.attach_source(self.0.id, source);
    }

    /// Returns what the socket is ready for.
    pub(crate) fn readiness(&self) -> Readiness {
        self.0.world.with_net(|net, _, _| net.readiness(self.0.id))
    }

    /// Returns the stand-in, which `make` creates on the first call.
    ///
    /// # Panics
    ///
    /// If the kernel has no free descriptor.
    pub(crate) fn stand_in<S: AsFd + Send + Sync + 'static>(
        &self,
        make: impl FnOnce() -> io::Result<S>,
    ) -> &S {
        let stand_in = self.0.stand_in.get_or_init(|| {
            let made = make().expect("a descriptor for a simulated socket");
            Box::new(made)
        });
        let any: &dyn Any = &**stand_in;
        any.downcast_ref().expect("a socket keeps its kind")
    }

    /// Uses a kernel socket as the stand-in, with its options.
    pub(crate) fn set_stand_in<S: AsFd + Send + Sync + 'static>(&self, stand_in: S) {
        let _ = self.0.stand_in.set(Box::new(stand_in));
    }

    fn call<R>(&self, f: impl FnOnce(&mut Net) -> Result<R, Errno>) -> io::Result<R> {
        Ok(self.0.world.with_net(|net, _, _| f(net))?)
    }

    /// Returns the end of the stream, and records that `task` uses a half of it.
    fn end_for(&self, net: &mut Net, half: Half, task: u64) -> Result<EndId, Errno> {
        let end = Self::end(net, self.0.id)?;
        net.record_use(end, half, task);
        Ok(end)
    }

    fn end(net: &Net, id: SocketId) -> Result<EndId, Errno> {
        match net.socket(id)? {
            Socket { state: SocketState::Stream(end), .. } => Ok(*end),
            _ => Err(Errno::NOTCONN),
        }
    }
}

/// Addresses.
impl SimulatedSocket {
    pub(crate) fn bind(&self, addr: SocketAddr) -> io::Result<()> {
        let addr = v4(addr)?;
        self.call(|net| net.bind(self.0.id, addr))
    }

    pub(crate) fn bind_datagram(&self, addr: SocketAddr) -> io::Result<()> {
        let addr = v4(addr)?;
        self.call(|net| net.bind_datagram(self.0.id, addr))
    }

    pub(crate) fn bind_name(&self, name: &[u8]) -> io::Result<()> {
        self.call(|net| net.bind_name(self.0.id, name))
    }

    pub(crate) fn local_addr(&self) -> io::Result<Address> {
        self.call(|net| net.local_addr(self.0.id))
    }

    pub(crate) fn peer_addr(&self) -> io::Result<Address> {
        self.call(|net| net.peer_addr(self.0.id))
    }

    pub(crate) fn local_inet(&self) -> io::Result<SocketAddr> {
        inet(self.local_addr()?)
    }

    pub(crate) fn peer_inet(&self) -> io::Result<SocketAddr> {
        inet(self.peer_addr()?)
    }

    pub(crate) fn take_error(&self) -> io::Result<Option<io::Error>> {
        Ok(self.0.world.with_net(|net, _, _| net.take_error(self.0.id)).map(io::Error::from))
    }
}

/// Returns the address as IPv4. Returns an error for the address of a Unix socket.
pub(crate) fn inet(address: Address) -> io::Result<SocketAddr> {
    match address {
        Address::Inet(addr) => Ok(addr.into()),
        Address::Unix(_) => Err(Errno::AFNOSUPPORT.into()),
    }
}

/// Returns how many of `len` slices one call processes, as on Linux.
fn len_of_slices(len: usize) -> usize {
    /// `IOV_MAX`.
    const MOST: usize = 1024;
    len.min(MOST)
}

/// Connections.
impl SimulatedSocket {
    /// Starts to connect. The socket becomes writable when it is connected, or when connecting
    /// failed.
    pub(crate) fn connect(&self, target: SocketAddr) -> io::Result<()> {
        let target = v4(target)?;
        Ok(self
            .0
            .world
            .with_net(|net, now_ns, oracle| net.connect(self.0.id, target, now_ns, oracle))?)
    }

    pub(crate) fn connect_name(&self, name: &[u8]) -> io::Result<()> {
        Ok(self
            .0
            .world
            .with_net(|net, now_ns, oracle| net.connect_name(self.0.id, name, now_ns, oracle))?)
    }

    pub(crate) fn listen(&self, backlog: u32) -> io::Result<()> {
        self.call(|net| net.listen(self.0.id, backlog as usize))
    }

    /// Accepts a connection. Returns it with the address of its peer.
    #[cold]
    #[inline(never)]
    pub(crate) fn accept(&self) -> io::Result<(Self, Address)> {
        let accept = |net: &mut Net, now_ns, oracle: &mut dyn super::NetworkOracle| {
            net.accept(self.0.id, now_ns, oracle)
        };
        let (id, peer) = self.0.world.with_net(accept)?;
        Ok((Self::of(&self.0.world, id), peer))
    }

    /// Reads from a stream. If `peeks`, the bytes stay in the receive buffer.
    #[cold]
    #[inline(never)]
    pub(crate) fn read(&self, space: &mut [MaybeUninit<u8>], peeks: bool) -> SysResult<usize> {
        let mut filled = 0;
        let len = space.len();
        let mut sink = |bytes: &[u8]| {
            space[filled..filled + bytes.len()].write_copy_of_slice(bytes);
            filled += bytes.len();
        };
        let (_, task) = self.0.world.running();
        self.0.world.with_net(|net, _, oracle| {
            let end = self.end_for(net, Half::Read, task)?;
            net.read(end, len, peeks, oracle, &mut sink)
        })
    }

    /// Reads from a stream into several buffers.
    #[cold]
    #[inline(never)]
    pub(crate) fn read_vectored(&self, bufs: &mut [IoSliceMut<'_>]) -> SysResult<usize> {
        let slices = len_of_slices(bufs.len());
        let bufs = &mut bufs[..slices];
        let len = bufs.iter().map(|buf| buf.len()).sum();
        let mut bytes = Vec::new();
        let mut sink = |read: &[u8]| bytes.extend_from_slice(read);
        let (_, task) = self.0.world.running();
        let count = self.0.world.with_net(|net, _, oracle| {
            let end = self.end_for(net, Half::Read, task)?;
            net.read(end, len, false, oracle, &mut sink)
        })?;
        let mut rest = &bytes[..];
        for buf in bufs {
            let (now, later) = rest.split_at(buf.len().min(rest.len()));
            buf[..now.len()].copy_from_slice(now);
            rest = later;
        }
        Ok(count)
    }

    #[cold]
    #[inline(never)]
    pub(crate) fn write(&self, bytes: &[u8]) -> SysResult<usize> {
        let (_, task) = self.0.world.running();
        self.0.world.with_net(|net, now_ns, oracle| {
            let end = self.end_for(net, Half::Write, task)?;
            net.write(end, bytes, now_ns, oracle)
        })
    }

    #[cold]
    #[inline(never)]
    pub(crate) fn write_vectored(&self, bufs: &[IoSlice<'_>]) -> SysResult<usize> {
        let bufs = &bufs[..len_of_slices(bufs.len())];
        let bytes: Vec<u8> = bufs.iter().flat_map(|buf| buf.iter().copied()).collect();
        self.write(&bytes)
    }

    pub(crate) fn shut_down_write(&self) -> io::Result<()> {
        Ok(self.0.world.with_net(|net, now_ns, oracle| {
            net.shut_down_write(Self::end(net, self.0.id)?, now_ns, oracle)
        })?)
    }
}

/// Datagrams.
impl SimulatedSocket {
    pub(crate) fn connect_datagram(&self, peer: SocketAddr) -> io::Result<()> {
        let peer = v4(peer)?;
        self.call(|net| net.connect_datagram(self.0.id, peer))
    }

    /// Sends a datagram to `target`, or to the peer.
    #[cold]
    #[inline(never)]
    pub(crate) fn send(&self, bytes: &[u8], target: Option<SocketAddr>) -> SysResult<usize> {
        let target = match target {
            Some(SocketAddr::V4(target)) => Some(target),
            Some(SocketAddr::V6(_)) => return Err(Errno::AFNOSUPPORT),
            None => None,
        };
        self.0.world.with_net(|net, now_ns, oracle| {
            net.send_datagram(self.0.id, bytes, target, now_ns, oracle)
        })
    }

    /// Receives a datagram. Returns how many of its bytes fitted, and the sender.
    #[cold]
    #[inline(never)]
    pub(crate) fn receive(
        &self,
        space: &mut [MaybeUninit<u8>],
        peeks: bool,
    ) -> SysResult<(usize, SocketAddr)> {
        let len = space.len();
        let mut sink = |bytes: &[u8]| {
            space[..bytes.len()].write_copy_of_slice(bytes);
        };
        let (count, from) = self
            .0
            .world
            .with_net(|net, _, _| net.receive_datagram(self.0.id, len, peeks, &mut sink))?;
        Ok((count, from.into()))
    }
}

impl Inner {
    /// Returns whether closing the socket resets the connection.
    fn has_zero_linger(&self) -> bool {
        let linger =
            self.stand_in.get().and_then(|it| sockopt::socket_linger(&**it).ok().flatten());
        linger == Some(Duration::ZERO)
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        let how = if self.has_zero_linger() { Closing::Abort } else { Closing::Orderly };
        self.world.close_socket(self.id, how);
    }
}

impl fmt::Debug for SimulatedSocket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SimulatedSocket").field("id", &self.0.id.0).finish()
    }
}
