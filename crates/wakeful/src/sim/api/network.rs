//! [`Network`]: how messages travel between the hosts of a simulation.

use super::Host;
use crate::sim::network::{Blocked, LinkRule, Route};
use crate::sim::world::World;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

/// The network of a simulation; from [`Sim::network`](super::Sim::network).
///
/// Sockets are those of [`crate::net`]. Every host has an IPv4 address, `10.0.0.1` for the first, and
/// its name resolves to it: `TcpStream::connect("server:80")`. Without any setting, a message between
/// two hosts takes between 0.5 and 2 ms, and none is lost. On one host it arrives at once.
///
/// - TCP and Unix streams keep their bytes in order. A lost TCP segment is sent again: it arrives 200 ms
///   later, or 600 ms later if it is lost twice, and so on.
/// - UDP datagrams are lost, duplicated and reordered, with the probabilities that are set here.
/// - A partition stalls TCP. After 924.6 s, an end that has something to send fails with `TimedOut`, and a
///   connection attempt after 127 s, as on Linux. Datagrams are lost.
///
/// When the test has returned, everything is healed and no more messages are lost. While a partition
/// or a hold is open, no [`eventually`](super::Sim::eventually) fails.
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
///     let healing = sim.clone();
///     wakeful::spawn(async move {
///         sleep(Duration::from_secs(5)).await;
///         healing.network().heal_all();
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

/// The link between two hosts; from [`Network::link`]. What is not set here is that of the [`Network`].
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

/// A host, or the name of one, as the methods of [`Network`] take it.
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
        let Some(id) = network.world.host_of_name(self) else {
            panic!("the simulation has no host of the name {self:?}")
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

#[track_caller]
fn millionths(probability: f64) -> u32 {
    assert!((0.0..=1.0).contains(&probability), "{probability} is not a probability");
    (probability * 1e6).round() as u32
}

impl Network {
    fn change(&self, change: impl FnOnce(&mut LinkRule)) -> &Self {
        self.world.change_link(None, change);
        self
    }

    /// Sets how long messages between two hosts take. The least is the usual choice.
    ///
    /// # Examples
    ///
    /// See [`Network`].
    pub fn latency(&self, range: Range<Duration>) -> &Self {
        self.change(|rule| rule.latency_ns = Some(range_ns(&range)))
    }

    /// Sets the probability that a packet is lost. A TCP segment is sent again, and arrives later.
    ///
    /// A datagram of more than 1,472 bytes is sent in several packets. All of them have to arrive.
    ///
    /// # Panics
    ///
    /// If it is not between 0 and 1.
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
    /// If it is not between 0 and 1.
    ///
    /// # Examples
    ///
    /// See [`Network`].
    #[track_caller]
    pub fn duplicate(&self, probability: f64) -> &Self {
        let duplicate = millionths(probability);
        self.change(|rule| rule.duplicate = Some(duplicate))
    }

    /// Sets the probability that a datagram is so late that others overtake it.
    ///
    /// Datagrams also overtake each other because their latencies differ.
    ///
    /// # Panics
    ///
    /// If it is not between 0 and 1.
    ///
    /// # Examples
    ///
    /// See [`Network`].
    #[track_caller]
    pub fn reorder(&self, probability: f64) -> &Self {
        let reorder = millionths(probability);
        self.change(|rule| rule.reorder = Some(reorder))
    }

    /// Sets how many bytes per second pass from one host to another. 0 stands for no limit.
    ///
    /// # Examples
    ///
    /// See [`Link`].
    pub fn bandwidth(&self, bytes_per_sec: u64) -> &Self {
        self.change(|rule| rule.bandwidth = Some(bytes_per_sec))
    }

    /// Returns the link between two hosts, in both directions. The two may be the same host.
    ///
    /// # Panics
    ///
    /// If there is no host of the name.
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

    /// Cuts the routes between the hosts of both groups, in both directions.
    ///
    /// # Panics
    ///
    /// If there is no host of the name.
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

    /// Cuts the routes from the first hosts to the others. Messages in the other direction arrive.
    ///
    /// A TCP peer whose acknowledgements do not arrive also gives up after 924.6 s.
    ///
    /// # Panics
    ///
    /// If there is no host of the name.
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::net::UdpSocket;
    /// use wakeful::sim::Simulation;
    ///
    /// let outcome = Simulation::new(1).run(|sim| async move {
    ///     let (received, is_received) = wakeful::sync::oneshot::channel();
    ///     let mut received = Some(received);
    ///     sim.host("server", move || {
    ///         let received = received.take();
    ///         async move {
    ///             let socket = UdpSocket::bind("0.0.0.0:53").await.unwrap();
    ///             let (_, from) = socket.recv_from(&mut [0; 8]).await.unwrap();
    ///             socket.send_to(b"lost", from).await.unwrap();
    ///             received.unwrap().send(()).unwrap();
    ///         }
    ///     });
    ///     wakeful::task::yield_now().await;
    ///     sim.network().partition_one_way(["server"], ["main"]);
    ///     let socket = UdpSocket::bind("0.0.0.0:0").await.unwrap();
    ///     wakeful::time::sleep(std::time::Duration::from_millis(1)).await;
    ///     socket.send_to(b"hello", "server:53").await.unwrap();
    ///     is_received.await.unwrap();
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

    /// Keeps all messages between two hosts until [`release`](Self::release). None is lost.
    ///
    /// Each message has a new latency then. TCP gives up after 924.6 s, as in a partition.
    ///
    /// # Panics
    ///
    /// If there is no host of the name.
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

    /// Lets the messages between two hosts pass that [`hold`](Self::hold) kept.
    ///
    /// # Panics
    ///
    /// If there is no host of the name.
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

    /// Sets how long messages take; see [`Network::latency`].
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
    /// If it is not between 0 and 1.
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
    /// If it is not between 0 and 1.
    ///
    /// # Examples
    ///
    /// See [`Link`].
    #[track_caller]
    pub fn duplicate(&self, probability: f64) -> &Self {
        let duplicate = millionths(probability);
        self.change(|rule| rule.duplicate = Some(duplicate))
    }

    /// Sets the probability that a datagram is overtaken; see [`Network::reorder`].
    ///
    /// # Panics
    ///
    /// If it is not between 0 and 1.
    ///
    /// # Examples
    ///
    /// See [`Link`].
    #[track_caller]
    pub fn reorder(&self, probability: f64) -> &Self {
        let reorder = millionths(probability);
        self.change(|rule| rule.reorder = Some(reorder))
    }

    /// Sets how many bytes per second pass in each direction. 0 stands for no limit.
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
