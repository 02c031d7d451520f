//! Reads settings from environment variables.

use crate::sim::oracle::parse_seed;
use std::sync::OnceLock;
use std::time::Duration;

/// Returns the duration that the environment variable `name` sets, or its text if it is not a duration.
pub(super) fn duration(name: &str) -> Option<Result<Duration, String>> {
    let text = std::env::var_os(name)?;
    let text = text.to_string_lossy().into_owned();
    Some(parse_duration(&text).ok_or(text))
}

/// Returns the seed in `WAKEFUL_SIM`, which makes every runtime of the process simulated.
///
/// # Panics
///
/// If the value is not a seed. Otherwise a program would run unsimulated and seem to pass a
/// simulation.
pub(super) fn simulation_seed() -> Option<u64> {
    static SEED: OnceLock<Result<Option<u64>, String>> = OnceLock::new();
    let seed = SEED.get_or_init(|| match std::env::var_os("WAKEFUL_SIM") {
        Some(text) => parse_seed(&text.to_string_lossy()).map(Some),
        None => Ok(None),
    });
    seed.clone().unwrap_or_else(|error| panic!("WAKEFUL_SIM: {error}"))
}

/// Parses a duration such as `10s`, `500ms` or `2m`.
///
/// The argument `timeout` of `#[wakeful::test]` has the same format; `args.rs` of the macros parses
/// it at compile time.
fn parse_duration(text: &str) -> Option<Duration> {
    let unit = text.find(|char: char| !char.is_ascii_digit() && char != '.')?;
    let number: f64 = text[..unit].parse().ok()?;
    let seconds = match &text[unit..] {
        "ms" => number / 1000.0,
        "s" => number,
        "m" => number * 60.0,
        _ => return None,
    };
    Duration::try_from_secs_f64(seconds).ok()
}

#[cfg(test)]
mod tests {
    use super::parse_duration;
    use std::time::Duration;

    #[test]
    fn a_time_needs_a_unit() {
        let cases = [("10s", 10_000), ("500ms", 500), ("2m", 120_000), ("1.5s", 1_500)];
        for (text, millis) in cases {
            assert_eq!(parse_duration(text), Some(Duration::from_millis(millis)));
        }
        assert_eq!(["10", "s", "-1s", "10 s", ""].map(parse_duration), [None; 5]);
    }
}
