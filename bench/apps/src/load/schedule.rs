//! When requests are due: independent arrivals at an average rate.
//!
//! The gaps are exponential, as those of clients that know nothing of each other. The times come from a fixed
//! seed, so both runtimes get the same ones, and nothing that a server does can change them.

/// Times at which requests are due, in nanoseconds from the start.
#[derive(Clone, Debug)]
pub struct Schedule {
    mean_gap_ns: f64,
    /// The time of the request that is due next.
    next_ns: f64,
    end_ns: f64,
    random: u64,
}

impl Schedule {
    /// Requests for `seconds`, on average `per_s` each second.
    pub fn new(per_s: f64, seconds: f64) -> Self {
        assert!(per_s > 0.0, "a schedule has requests");
        let mut schedule =
            Self { mean_gap_ns: 1e9 / per_s, next_ns: 0.0, end_ns: seconds * 1e9, random: 0x5EED };
        schedule.step();
        schedule
    }

    /// The time of the next request, or none after the end.
    pub fn peek_ns(&self) -> Option<u64> {
        (self.next_ns < self.end_ns).then_some(self.next_ns as u64)
    }

    fn step(&mut self) {
        // 53 bits, as many as a float has: from 0 to just below 1.
        let uniform = (self.next_random() >> 11) as f64 / (1u64 << 53) as f64;
        self.next_ns += -(1.0 - uniform).ln() * self.mean_gap_ns;
    }

    /// SplitMix64.
    fn next_random(&mut self) -> u64 {
        self.random = self.random.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.random;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }
}

impl Iterator for Schedule {
    type Item = u64;

    fn next(&mut self) -> Option<u64> {
        let due_ns = self.peek_ns()?;
        self.step();
        Some(due_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rate_is_met_and_the_times_are_in_order_and_repeat() {
        let times: Vec<u64> = Schedule::new(10_000.0, 2.0).collect();
        assert!((19_500..20_500).contains(&times.len()), "{} of 20,000", times.len());
        assert!(times.is_sorted());
        assert!(times.last() < Some(&2_000_000_000));
        assert!(times.iter().copied().eq(Schedule::new(10_000.0, 2.0)));
    }

    #[test]
    fn gaps_vary_as_those_of_independent_clients() {
        let times: Vec<u64> = Schedule::new(1000.0, 20.0).collect();
        let above_mean = times.windows(2).filter(|pair| pair[1] - pair[0] > 1_000_000).count();
        let share = above_mean as f64 / times.len() as f64;
        // An exponential gap exceeds its mean with probability 1/e.
        assert!((share - (-1.0f64).exp()).abs() < 0.02, "{share}");
    }

    #[test]
    fn the_end_is_the_end() {
        let mut schedule = Schedule::new(1.0, 0.0);
        assert_eq!(schedule.peek_ns(), None);
        assert_eq!(schedule.next(), None);
    }
}
