//! The layout that all report texts share.

use std::fmt;
use std::time::Duration;

/// Writes one line: a label and the text next to it.
pub(super) fn field(
    f: &mut fmt::Formatter<'_>,
    indent: &str,
    name: &str,
    text: impl fmt::Display,
) -> fmt::Result {
    writeln!(f, "{indent}{name:<11} {text}")
}

/// The last sentence of the advice about an unobserved panic.
pub(super) const POLICY_HINT: &str = " To shut the runtime down or abort the process on such a panic, set \
                                      Builder::unhandled_panic or WAKEFUL_ON_PANIC.";

/// A duration with up to three digits: `150 ms`, `1.2 s`, `310 s`.
pub(in crate::inspect) struct Short(pub(in crate::inspect) Duration);

impl fmt::Display for Short {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.as_millis() {
            ms @ 0..1_000 => write!(f, "{ms} ms"),
            ms @ 1_000..100_000 => write!(f, "{}.{} s", ms / 1_000, ms % 1_000 / 100),
            ms => write!(f, "{} s", ms / 1_000),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Short;
    use std::time::Duration;

    #[test]
    fn durations_are_short() {
        let texts =
            [7, 999, 1_250, 99_999, 310_500].map(|ms| Short(Duration::from_millis(ms)).to_string());
        assert_eq!(texts, ["7 ms", "999 ms", "1.2 s", "99.9 s", "310 s"]);
    }
}
