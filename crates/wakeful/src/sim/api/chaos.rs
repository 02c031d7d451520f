//! [`Chaos`]: the kinds and limits of the faults that strike at random times.

use super::millionths;
use crate::sim::world::ChaosLimits;
use std::time::Duration;

/// The kinds and limits of the faults that strike hosts and the network; for
/// [`Sim::chaos`](super::Sim::chaos).
///
/// [`swarm`](Self::swarm) has all kinds of faults, [`none`](Self::none) has none. Each method sets the
/// limit of one kind. A limit of 0 excludes the kind, for a program that does not tolerate it. Each seed
/// switches every kind on or off, and draws its rate.
///
/// - Network faults affect all links between hosts.
/// - Hosts that were added by [`Sim::host`](super::Sim::host) are killed and restarted, paused, and their
///   clocks change. The host of the test and the hosts of [`Sim::client`](super::Sim::client) are not.
/// - The chaos takes 10 s of simulated time, unless [`until`](Self::until) is called. A partition, spike,
///   kill or pause takes between 1/128 and 1/4 of that.
///
/// # Examples
///
/// A counter that a restart resets. The seed decides whether and when the server is killed:
///
/// ```
/// use std::time::Duration;
/// use wakeful::io::{AsyncReadExt, AsyncWriteExt};
/// use wakeful::net::{TcpListener, TcpStream};
/// use wakeful::sim::{Chaos, Explorer, Sim};
///
/// async fn serve() -> std::io::Result<()> {
///     let listener = TcpListener::bind("0.0.0.0:80").await?;
///     for count in 1.. {
///         listener.accept().await?.0.write_u8(count).await?;
///     }
///     Ok(())
/// }
///
/// async fn the_count_only_grows(sim: Sim) {
///     sim.host("server", serve);
///     sim.chaos(Chaos::none().kills(1).until(Duration::from_secs(2)));
///     let mut last = 0;
///     for _ in 0..20 {
///         wakeful::time::sleep(Duration::from_millis(100)).await;
///         let Ok(mut stream) = TcpStream::connect("server:80").await else { continue };
///         let Ok(count) = stream.read_u8().await else { continue };
///         assert!(count > last, "{count} after {last}");
///         last = count;
///     }
/// }
///
/// let error = Explorer::new("the_count_only_grows").seeds(100).run(the_count_only_grows);
/// let text = error.unwrap_err().to_string();
/// assert!(text.contains("faults {") && text.contains("server is killed"), "{text}");
/// ```
#[derive(Clone, Debug)]
#[must_use = "`Sim::chaos` starts it"]
pub struct Chaos {
    pub(super) limits: ChaosLimits,
}

impl Chaos {
    /// Has no faults. Call other methods to add kinds.
    ///
    /// # Examples
    ///
    /// See [`Chaos`].
    pub fn none() -> Self {
        Self {
            limits: ChaosLimits {
                loss: 0,
                duplicate: 0,
                reorder: 0,
                latency_ns: 0,
                partitions: 0,
                kills: 0,
                pauses: 0,
                clock_step_ns: 0,
                drift_ppm: 0,
                until: Duration::from_secs(10),
                exempt: Vec::new(),
            },
        }
    }

    /// Has all kinds of faults. Each seed draws some of them.
    ///
    /// The limits are: probabilities of 20 %, spikes and clock steps of 1 s, a drift of 1 %, and any number
    /// of partitions, kills and pauses at one time.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// use wakeful::sim::{Chaos, Simulation};
    ///
    /// let outcome = Simulation::new(3).run(|sim| async move {
    ///     sim.host("server", || async {});
    ///     // The program does not tolerate moved clocks.
    ///     sim.chaos(Chaos::swarm().clock_steps(Duration::ZERO).kills(1));
    ///     wakeful::time::sleep(Duration::from_secs(10)).await;
    /// });
    /// outcome.unwrap();
    /// ```
    pub fn swarm() -> Self {
        let second = Duration::from_secs(1);
        Self::none()
            .loss(0.2)
            .duplicate(0.2)
            .reorder(0.2)
            .latency_spikes(second)
            .partitions(usize::MAX)
            .kills(usize::MAX)
            .pauses(usize::MAX)
            .clock_steps(second)
            .drift_ppm(10_000)
    }

    fn set(mut self, set: impl FnOnce(&mut ChaosLimits)) -> Self {
        set(&mut self.limits);
        self
    }

    /// Sets how long the chaos takes, in simulated time. 10 s by default.
    ///
    /// # Examples
    ///
    /// See [`Chaos`].
    pub fn until(self, duration: Duration) -> Self {
        self.set(|limits| limits.until = duration)
    }

    /// Sets the highest probability that a packet is lost; see [`Network::loss`](super::Network::loss).
    ///
    /// # Panics
    ///
    /// If `probability` is not between 0 and 1.
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::sim::Chaos;
    ///
    /// // At most one of a hundred packets is lost. Datagrams arrive once, and in any order.
    /// let chaos = Chaos::none().loss(0.01).reorder(0.1);
    /// # drop(chaos);
    /// ```
    #[track_caller]
    pub fn loss(self, probability: f64) -> Self {
        let loss = millionths(probability);
        self.set(|limits| limits.loss = loss)
    }

    /// Sets the highest probability that a datagram arrives twice.
    ///
    /// # Panics
    ///
    /// If `probability` is not between 0 and 1.
    ///
    /// # Examples
    ///
    /// See [`loss`](Self::loss).
    #[track_caller]
    pub fn duplicate(self, probability: f64) -> Self {
        let duplicate = millionths(probability);
        self.set(|limits| limits.duplicate = duplicate)
    }

    /// Sets the highest probability that later datagrams can overtake a datagram.
    ///
    /// # Panics
    ///
    /// If `probability` is not between 0 and 1.
    ///
    /// # Examples
    ///
    /// See [`loss`](Self::loss).
    #[track_caller]
    pub fn reorder(self, probability: f64) -> Self {
        let reorder = millionths(probability);
        self.set(|limits| limits.reorder = reorder)
    }

    /// Makes all messages from and to a host take longer for a while, by up to `most`.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// use wakeful::sim::Chaos;
    ///
    /// let chaos = Chaos::none().latency_spikes(Duration::from_millis(300)).partitions(1);
    /// # drop(chaos);
    /// ```
    pub fn latency_spikes(self, most: Duration) -> Self {
        let latency_ns = u64::try_from(most.as_nanos()).unwrap_or(u64::MAX);
        self.set(|limits| limits.latency_ns = latency_ns)
    }

    /// Sets the highest number of partitions at one time.
    ///
    /// A partition isolates a host or a group of hosts, in one direction or both.
    ///
    /// # Examples
    ///
    /// See [`latency_spikes`](Self::latency_spikes).
    pub fn partitions(self, most: usize) -> Self {
        self.set(|limits| limits.partitions = most)
    }

    /// Kills hosts and restarts them later; `most` is the highest number of killed hosts at one time.
    ///
    /// A host that the program kills itself is not counted, and not restarted.
    ///
    /// # Examples
    ///
    /// See [`Chaos`].
    pub fn kills(self, most: usize) -> Self {
        self.set(|limits| limits.kills = most)
    }

    /// Pauses hosts for a while; `most` is the highest number of paused hosts at one time.
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::sim::Chaos;
    ///
    /// let chaos = Chaos::none().pauses(1).drift_ppm(200).exempt(["clock server"]);
    /// # drop(chaos);
    /// ```
    pub fn pauses(self, most: usize) -> Self {
        self.set(|limits| limits.pauses = most)
    }

    /// Moves the wall clocks of hosts, forward or back, by up to `most` at a time.
    ///
    /// # Examples
    ///
    /// See [`swarm`](Self::swarm).
    pub fn clock_steps(self, most: Duration) -> Self {
        let clock_step_ns = u64::try_from(most.as_nanos()).unwrap_or(u64::MAX);
        self.set(|limits| limits.clock_step_ns = clock_step_ns)
    }

    /// Lets the clocks of hosts run faster or slower, by up to `most` millionths.
    ///
    /// # Panics
    ///
    /// If `most` is 1,000,000 or more, since a clock could stop.
    ///
    /// # Examples
    ///
    /// See [`pauses`](Self::pauses).
    #[track_caller]
    pub fn drift_ppm(self, most: u32) -> Self {
        assert!(most < 1_000_000, "a clock with a drift of -{most} ppm would stand still");
        self.set(|limits| limits.drift_ppm = most)
    }

    /// Exempts hosts: they are not killed or paused, and their clocks do not change.
    ///
    /// Network faults affect them like other hosts.
    ///
    /// # Examples
    ///
    /// See [`pauses`](Self::pauses).
    pub fn exempt<N: Into<String>>(self, hosts: impl IntoIterator<Item = N>) -> Self {
        self.set(|limits| limits.exempt.extend(hosts.into_iter().map(N::into)))
    }
}
