//! Latencies in buckets whose width is below one percent of their values.

/// Each power of two has `1 << BITS` buckets.
const BITS: u32 = 7;

/// Counts of values, in logarithmic groups of linear buckets.
#[derive(Clone, Debug, Default)]
pub struct Histogram {
    counts: Vec<u64>,
    count: u64,
    max: u64,
}

impl Histogram {
    pub fn record(&mut self, value: u64) {
        let bucket = bucket_of(value);
        if bucket >= self.counts.len() {
            self.counts.resize(bucket + 1, 0);
        }
        self.counts[bucket] += 1;
        self.count += 1;
        self.max = self.max.max(value);
    }

    pub fn count(&self) -> u64 {
        self.count
    }

    /// The value that a `share` of all values does not exceed, rounded up to its bucket; zero without values.
    pub fn quantile(&self, share: f64) -> u64 {
        let rank = ((share * self.count as f64).ceil() as u64).clamp(1, self.count.max(1));
        let mut seen = 0;
        for (bucket, count) in self.counts.iter().enumerate() {
            seen += count;
            if seen >= rank {
                return highest_in(bucket).min(self.max);
            }
        }
        self.max
    }
}

fn bucket_of(value: u64) -> usize {
    let shift = shift_of(value);
    ((u64::from(shift) << BITS) + (value >> shift)) as usize
}

/// Low bits of a value that its bucket leaves out.
fn shift_of(value: u64) -> u32 {
    (u64::BITS - value.leading_zeros()).saturating_sub(BITS + 1)
}

fn highest_in(bucket: usize) -> u64 {
    let bucket = bucket as u64;
    // Values below two times `1 << BITS` have a bucket each.
    let shift = (bucket >> BITS).saturating_sub(1);
    let mantissa = u128::from(bucket - (shift << BITS));
    (((mantissa + 1) << shift) - 1).min(u128::from(u64::MAX)) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_are_narrow_and_in_order() {
        let mut last = None;
        for exponent in 0..64 {
            for value in [1u64 << exponent, (1 << exponent) + (1 << exponent) / 3] {
                let bucket = bucket_of(value);
                assert!(last <= Some(bucket), "{value}");
                last = Some(bucket);
                let highest = highest_in(bucket);
                assert!(highest >= value, "{value} is above the end {highest} of its bucket");
                assert!((highest - value) as f64 <= value as f64 / 100.0, "{value}: {highest}");
                assert_eq!(bucket_of(highest), bucket);
                if let Some(next) = highest.checked_add(1) {
                    assert_eq!(bucket_of(next), bucket + 1, "no gap after {highest}");
                }
            }
        }
        assert_eq!(bucket_of(0), 0);
        assert_eq!(highest_in(bucket_of(u64::MAX)), u64::MAX);
    }

    #[test]
    fn quantiles_of_known_values() {
        let mut histogram = Histogram::default();
        assert_eq!(histogram.quantile(0.99), 0);
        for value in 1..=1000 {
            histogram.record(value * 1000);
        }
        assert_eq!(histogram.count(), 1000);
        for (share, exact) in [(0.5, 500_000), (0.99, 990_000), (0.999, 999_000), (1.0, 1_000_000)]
        {
            let found = histogram.quantile(share);
            assert!(found >= exact && found <= exact + exact / 100, "{share}: {found}");
        }
        assert_eq!(histogram.quantile(1.0), 1_000_000, "the highest value is exact");
    }

    #[test]
    fn one_slow_request_of_a_hundred_is_not_in_p99_but_in_p999() {
        let mut histogram = Histogram::default();
        (0..99).for_each(|_| histogram.record(10));
        histogram.record(1_000_000);
        assert_eq!(histogram.quantile(0.99), 10);
        assert_eq!(histogram.quantile(0.999), 1_000_000);
    }
}
