//! [`Network`]: latencies, faults and partitions between the hosts of a simulation.

use super::{Host, millionths};
use crate::sim::network::{Blocked, LinkRule, Route};
use crate::sim::world::World;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

/// The network between the hosts of a simulation; from [`Sim::network`](super::Sim::network).
///
/// Programs use the sockets of [`crate::net`]. Each host has an IPv4 address, `10.0.0.1` for the first,
/// and its name resolves to that address: `TcpStream::connect("server:80")`. By default, a message between
/// two hosts takes between 0.5 and 2 ms, and none is lost. A message within a host arrives at once.
///
/// - TCP and Unix streams keep their bytes in order. A lost TCP segment is sent again: it arrives 200 ms
///   later, or 600 ms later if it is lost twice, and so on.
/// - UDP datagrams are lost, duplicated and reordered with the probabilities that are set here.
/// - A partition stalls TCP and loses datagrams. As on Linux, a peer with data to send fails with
///   `TimedOut` after 924.6 s, and a connection attempt after 127 s.
///
/// Latencies and probabilities apply to messages that are sent from then on. Partitions and holds also
/// affect messages in flight. When the test has returned, all partitions are healed and no more messages
/// are lost. No [`eventually`](super::Sim::eventually) fails during a partition or a hold.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// use wakeful::io::{AsyncReadExt, AsyncWriteExt};
/// use wakeful::net::{TcpListener, TcpStream};
/// use wakeful::sim::Simulation;
/// use wakeful::time::sleep;
///
/// let outcome = Simulation::new(1).run(|sim| async move {
///     let ms = Duration::from_millis;
///     sim.network().latency(ms(1)..ms(20)).loss(0.01);
///     let server = sim.host("server", || async {
///         let listener = TcpListener::bind("0.0.0.0:80").await?;
///         let (mut stream, _) = listener.accept().await?;
///         stream.write_all(b"hello").await
///     });
///     sleep(ms(1)).await;
///     sim.network().partition([&sim.current_host()], [&server]);
///     let handle = sim.clone();
///     wakeful::spawn(async move {
///         sleep(Duration::from_secs(5)).await;
///         handle.network().heal_all();
///     });
///     let mut stream = TcpStream::connect("server:80").await.unwrap();
///     let mut text = String::new();
///     stream.read_to_string(&mut text).await.unwrap();
///     assert_eq!(text, "hello");
///     assert!(sim.elapsed() > Duration::from_secs(5));
/// });
/// outcome.unwrap();
/// ```
#[derive(Clone)]
pub struct Network {
    pub(super) world: Arc<World>,
}

/// The link between two hosts; from [`Network::link`].
///
/// A setting that is not made here is inherited from the [`Network`].
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// use wakeful::sim::Simulation;
///
/// let outcome = Simulation::new(1).run(|sim| async move {
///     sim.host("far", || async {});
///     let ms = Duration::from_millis;
///     sim.network().link("main", "far").latency(ms(80)..ms(120)).bandwidth(1_000_000);
/// });
/// outcome.unwrap();
/// ```
pub struct Link {
    world: Arc<World>,
    route: Route,
}

/// A host or the name of a host, as an argument of [`Network`]'s methods.
///
/// This trait is sealed: it cannot be implemented outside of this crate.
pub trait NamedHost: sealed::Named {}

mod sealed {
    use super::{Host, Network};

    /// The private part of [`NamedHost`](super::NamedHost).
    pub trait Named {
        fn host_in(&self, network: &Network) -> Host;
    }
}
use sealed::Named;

impl Named for Host {
    fn host_in(&self, _: &Network) -> Host {
        self.clone()
    }
}

impl Named for str {
    #[track_caller]
    fn host_in(&self, network: &Network) -> Host {
        let Some(id) = network.world.host_named(self) else {
            panic!("the simulation has no host named {self:?}")
        };
        Host { world: network.world.clone(), id }
    }
}

impl Named for String {
    #[track_caller]
    fn host_in(&self, network: &Network) -> Host {
        self.as_str().host_in(network)
    }
}

impl<N: Named + ?Sized> Named for &N {
    #[track_caller]
    fn host_in(&self, network: &Network) -> Host {
        (**self).host_in(network)
    }
}

impl<N: Named + ?Sized> NamedHost for N {}

fn range_ns(range: &Range<Duration>) -> (u64, u64) {
    let ns = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
    (ns(range.start), ns(range.end).max(ns(range.start)))
}

impl Network {
    fn change(&self, change: impl FnOnce(&mut LinkRule)) -> &Self {
        self.world.change_link(None, change);
        self
    }

    /// Sets the range of message latencies between hosts. 0.5 to 2 ms by default.
    ///
    /// The usual choice is `range.start`. If the range is empty, all messages take that time.
    ///
    /// # Examples
    ///
    /// See [`Network`].
    pub fn latency(&self, range: Range<Duration>) -> &Self {
        self.change(|rule| rule.latency_ns = Some(range_ns(&range)))
    }

    /// Sets the probability that a packet is lost. A lost TCP segment is sent again and arrives later.
    ///
    /// A datagram of more than 1,472 bytes is sent in several packets, and arrives only if all of them do.
    ///
    /// # Panics
    ///
    /// If `probability` is not between 0 and 1.
    ///
    /// # Examples
    ///
    /// See [`Network`].
    #[track_caller]
    pub fn loss(&self, probability: f64) -> &Self {
        let loss = millionths(probability);
        self.change(|rule| rule.loss = Some(loss))
    }

    /// Sets the probability that a datagram arrives twice.
    ///
    /// # Panics
    ///
    /// If `probability` is not between 0 and 1.
    ///
    /// # Examples
    ///
    /// See [`Network`].
    #[track_caller]
    pub fn duplicate(&self, probability: f64) -> &Self {
        let duplicate = millionths(probability);
        self.change(|rule| rule.duplicate = Some(duplicate))
    }

    /// Sets the probability that a datagram is delayed enough for later ones to overtake it.
    ///
    /// Datagrams also overtake each other because their latencies differ.
    ///
    /// # Panics
    ///
    /// If `probability` is not between 0 and 1.
    ///
    /// # Examples
    ///
    /// See [`Network`].
    #[track_caller]
    pub fn reorder(&self, probability: f64) -> &Self {
        let reorder = millionths(probability);
        self.change(|rule| rule.reorder = Some(reorder))
    }

    /// Limits the bytes per second from one host to another. 0 means no limit.
    ///
    /// # Examples
    ///
    /// See [`Link`].
    pub fn bandwidth(&self, bytes_per_sec: u64) -> &Self {
        self.change(|rule| rule.bandwidth = Some(bytes_per_sec))
    }

    /// Returns the link between two hosts, which covers both directions. `a` and `b` may be the same host.
    ///
    /// # Panics
    ///
    /// If no host has the given name.
    ///
    /// # Examples
    ///
    /// See [`Link`].
    #[track_caller]
    pub fn link(&self, a: impl NamedHost, b: impl NamedHost) -> Link {
        Link { world: self.world.clone(), route: self.route(a, b) }
    }

    #[track_caller]
    fn route(&self, a: impl NamedHost, b: impl NamedHost) -> Route {
        (a.host_in(self).id, b.host_in(self).id)
    }

    #[track_caller]
    fn routes<A: NamedHost, B: NamedHost>(
        &self,
        from: impl IntoIterator<Item = A>,
        to: impl IntoIterator<Item = B>,
    ) -> Vec<Route> {
        let from: Vec<_> = from.into_iter().map(|host| host.host_in(self).id).collect();
        let to: Vec<_> = to.into_iter().map(|host| host.host_in(self).id).collect();
        from.iter().flat_map(|from| to.iter().map(|to| (*from, *to))).collect()
    }

    /// Cuts the routes between two groups of hosts, in both directions.
    ///
    /// # Panics
    ///
    /// If no host has a given name.
    ///
    /// # Examples
    ///
    /// See [`Network`].
    #[track_caller]
    pub fn partition<A: NamedHost, B: NamedHost>(
        &self,
        one: impl IntoIterator<Item = A>,
        other: impl IntoIterator<Item = B>,
    ) -> &Self {
        let mut routes = self.routes(one, other);
        routes.extend(routes.clone().iter().map(|(from, to)| (*to, *from)));
        self.world.set_blocked(&routes, Blocked::Partition, true);
        self
    }

    /// Cuts the routes from the hosts `from` to the hosts `to`. Messages in the other direction arrive.
    ///
    /// A TCP sender that gets no acknowledgements also gives up after 924.6 s.
    ///
    /// # Panics
    ///
    /// If no host has a given name.
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::net::UdpSocket;
    /// use wakeful::sim::Simulation;
    ///
    /// let outcome = Simulation::new(1).run(|sim| async move {
    ///     let (received_tx, received_rx) = wakeful::sync::oneshot::channel();
    ///     let mut received_tx = Some(received_tx);
    ///     sim.host("server", move || {
    ///         let received_tx = received_tx.take();
    ///         async move {
    ///             let socket = UdpSocket::bind("0.0.0.0:53").await.unwrap();
    ///             let (_, from) = socket.recv_from(&mut [0; 8]).await.unwrap();
    ///             socket.send_to(b"lost", from).await.unwrap();
    ///             received_tx.unwrap().send(()).unwrap();
    ///         }
    ///     });
    ///     wakeful::task::yield_now().await;
    ///     sim.network().partition_one_way(["server"], ["main"]);
    ///     let socket = UdpSocket::bind("0.0.0.0:0").await.unwrap();
    ///     wakeful::time::sleep(std::time::Duration::from_millis(1)).await;
    ///     socket.send_to(b"hello", "server:53").await.unwrap();
    ///     received_rx.await.unwrap();
    ///     assert!(socket.try_recv(&mut [0; 8]).is_err());
    /// });
    /// outcome.unwrap();
    /// ```
    #[track_caller]
    pub fn partition_one_way<A: NamedHost, B: NamedHost>(
        &self,
        from: impl IntoIterator<Item = A>,
        to: impl IntoIterator<Item = B>,
    ) -> &Self {
        let routes = self.routes(from, to);
        self.world.set_blocked(&routes, Blocked::Partition, true);
        self
    }

    /// Holds all messages between two hosts until [`release`](Self::release). No message is lost.
    ///
    /// On release, each message gets a new latency. TCP gives up after 924.6 s, as in a partition.
    ///
    /// # Panics
    ///
    /// If no host has a given name.
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::sim::Simulation;
    ///
    /// let outcome = Simulation::new(1).run(|sim| async move {
    ///     sim.host("server", || async {});
    ///     sim.network().hold("main", "server");
    ///     sim.network().release("main", "server");
    /// });
    /// outcome.unwrap();
    /// ```
    #[track_caller]
    pub fn hold(&self, a: impl NamedHost, b: impl NamedHost) -> &Self {
        self.set_hold(self.route(a, b), true)
    }

    /// Releases the messages that [`hold`](Self::hold) kept between two hosts.
    ///
    /// # Panics
    ///
    /// If no host has a given name.
    ///
    /// # Examples
    ///
    /// See [`hold`](Self::hold).
    #[track_caller]
    pub fn release(&self, a: impl NamedHost, b: impl NamedHost) -> &Self {
        self.set_hold(self.route(a, b), false)
    }

    fn set_hold(&self, (a, b): Route, is_held: bool) -> &Self {
        self.world.set_blocked(&[(a, b), (b, a)], Blocked::Hold, is_held);
        self
    }

    /// Ends all partitions and holds.
    ///
    /// # Examples
    ///
    /// See [`Network`].
    pub fn heal_all(&self) -> &Self {
        self.world.heal_all();
        self
    }
}

impl Link {
    fn change(&self, change: impl FnOnce(&mut LinkRule)) -> &Self {
        self.world.change_link(Some(self.route), change);
        self
    }

    /// Sets the range of message latencies; see [`Network::latency`].
    ///
    /// # Examples
    ///
    /// See [`Link`].
    pub fn latency(&self, range: Range<Duration>) -> &Self {
        self.change(|rule| rule.latency_ns = Some(range_ns(&range)))
    }

    /// Sets the probability that a packet is lost; see [`Network::loss`].
    ///
    /// # Panics
    ///
    /// If `probability` is not between 0 and 1.
    ///
    /// # Examples
    ///
    /// See [`Link`].
    #[track_caller]
    pub fn loss(&self, probability: f64) -> &Self {
        let loss = millionths(probability);
        self.change(|rule| rule.loss = Some(loss))
    }

    /// Sets the probability that a datagram arrives twice.
    ///
    /// # Panics
    ///
    /// If `probability` is not between 0 and 1.
    ///
    /// # Examples
    ///
    /// See [`Link`].
    #[track_caller]
    pub fn duplicate(&self, probability: f64) -> &Self {
        let duplicate = millionths(probability);
        self.change(|rule| rule.duplicate = Some(duplicate))
    }

    /// Sets the probability that later datagrams can overtake a datagram; see [`Network::reorder`].
    ///
    /// # Panics
    ///
    /// If `probability` is not between 0 and 1.
    ///
    /// # Examples
    ///
    /// See [`Link`].
    #[track_caller]
    pub fn reorder(&self, probability: f64) -> &Self {
        let reorder = millionths(probability);
        self.change(|rule| rule.reorder = Some(reorder))
    }

    /// Limits the bytes per second in each direction. 0 means no limit.
    ///
    /// # Examples
    ///
    /// See [`Link`].
    pub fn bandwidth(&self, bytes_per_sec: u64) -> &Self {
        self.change(|rule| rule.bandwidth = Some(bytes_per_sec))
    }
}

impl fmt::Debug for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Network").finish_non_exhaustive()
    }
}

impl fmt::Debug for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = |id| self.world.host_name(id);
        f.debug_struct("Link")
            .field("a", &name(self.route.0))
            .field("b", &name(self.route.1))
            .finish()
    }
}
