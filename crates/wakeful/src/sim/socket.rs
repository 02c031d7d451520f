//! The seam between the sockets of `net` and the network of a simulated world.
//!
//! Who calls what:
//!
//! 1. `net` creates a socket: `TcpListener::bind`, `TcpStream::connect`, `UdpSocket::bind` and so on.
//!    Each asks the current runtime for its host in a world (`Environment::simulated`). In a
//!    simulation it calls the world's [`Network`] instead of the kernel. The call is cold: it is made
//!    once per socket.
//! 2. The network creates an endpoint and an `IoReadiness` of its own for it, with the bit
//!    `SIMULATED` beside `SHUT_DOWN` in the readiness word. The endpoint feeds the word: bytes that
//!    arrive call `IoReadiness::add(READABLE)`, which wakes the waiting task.
//! 3. A read or write of the socket tests the word, as for any socket. The mask of the test that leaves
//!    the fast path covers both bits, so a real socket executes the instructions that it did before.
//!    Behind the mask, a cold continuation finds the endpoint and calls it in place of the system
//!    call. If that would block, it waits at the same word.
//! 4. What moves between endpoints is an entry of the event heap: [`World::schedule`], at the time that
//!    the oracle has chosen. Data that is sent goes into the hash of the run with [`World::record`].
//!
//! [`World::schedule`]: crate::sim::world::World::schedule
//! [`World::record`]: crate::sim::world::World::record

use crate::sim::oracle::HostId;
use std::any::Any;

/// The network between the hosts of a world.
///
/// `net` downcasts it to the network's own type: modules to the left of `net` know only what they tell
/// it.
pub(crate) trait Network: Any + Send + Sync {
    /// Tells that a host went down.
    ///
    /// Called before the futures of the host are dropped. From then on nothing that the host sends
    /// arrives, so its destructors have no effect on others.
    fn host_down(&self, host: HostId);

    /// Tells that a host is up again. It has no sockets.
    fn host_up(&self, host: HostId);
}
