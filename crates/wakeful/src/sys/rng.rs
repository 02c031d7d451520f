//! Small, fast, seeded random numbers: xorshift64* on one word. Not for secrets.
//!
//! The order of stealing, the first branch of `select!` and the next task of a shuffled run are
//! drawn from generators that the runtime seeds. So a run can be repeated from its seed.

/// A random number generator. The scheduler copies one into the context of its threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Rng(u64);

impl Rng {
    pub(crate) const fn from_seed(seed: u64) -> Self {
        // One round of splitmix64, so that seeds 1, 2, 3 give unrelated streams. The state of
        // an xorshift must not be zero.
        let mut z = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^= z >> 31;
        Self(if z == 0 { 0x9e37_79b9_7f4a_7c15 } else { z })
    }

    pub(crate) fn next_u64(&mut self) -> u64 {
        let mut x = self.0;
        x ^= x >> 12;
        x ^= x << 25;
        x ^= x >> 27;
        self.0 = x;
        x.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    /// Returns a number below `n`, or 0 if `n` is 0.
    pub(crate) fn below(&mut self, n: u32) -> u32 {
        ((u64::from((self.next_u64() >> 32) as u32) * u64::from(n)) >> 32) as u32
    }
}

#[cfg(test)]
mod tests {
    use super::Rng;

    #[test]
    fn same_seed_same_stream_and_other_seed_other_stream() {
        let stream = |seed| {
            let mut rng = Rng::from_seed(seed);
            (0..16).map(|_| rng.next_u64()).collect::<Vec<_>>()
        };
        assert_eq!(stream(7), stream(7));
        assert_ne!(stream(7), stream(8));
    }

    #[test]
    fn below_stays_below_and_reaches_every_value() {
        let mut rng = Rng::from_seed(1);
        let mut seen = [0u32; 7];
        for _ in 0..7_000 {
            seen[rng.below(7) as usize] += 1;
        }
        assert!(seen.iter().all(|&count| count > 700), "uneven: {seen:?}");
    }
}
