//! The stamp of a report: when it was made, and by which runtime.

use crate::sys::real_time;
use std::fmt;
use std::sync::OnceLock;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The time of a report and the name of its runtime.
#[derive(Clone, Debug)]
pub(super) struct Stamp {
    time: SystemTime,
    /// Set when the report leaves the runtime.
    runtime: OnceLock<String>,
}

impl Stamp {
    /// Stamps a new report with the current time.
    pub(super) fn now() -> Self {
        Self { time: real_time::time_of_day(), runtime: OnceLock::new() }
    }

    pub(super) fn time(&self) -> SystemTime {
        self.time
    }

    pub(super) fn runtime(&self) -> Option<&str> {
        self.runtime.get().map(String::as_str)
    }

    /// Names the runtime. The first name stays.
    pub(super) fn set_runtime(&self, name: &str) {
        self.runtime.get_or_init(|| name.to_owned());
    }
}

/// A time as RFC 3339 in UTC, with milliseconds: `2026-11-18T03:04:05.678Z`.
pub(super) struct Utc(pub(super) SystemTime);

impl fmt::Display for Utc {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // A clock before 1970 has not been set.
        let since_epoch = self.0.duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
        let seconds = since_epoch.as_secs();
        let (year, month, day) = date_of(seconds / 86_400);
        let (hour, minute, second) = (seconds / 3600 % 24, seconds / 60 % 60, seconds % 60);
        let millis = since_epoch.subsec_millis();
        write!(f, "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{millis:03}Z")
    }
}

/// Returns year, month and day of month of a day, counted from 1970-01-01.
fn date_of(mut day: u64) -> (u64, u64, u64) {
    let is_leap = |year: u64| {
        year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400))
    };
    let mut year = 1970;
    loop {
        let days = if is_leap(year) { 366 } else { 365 };
        if day < days {
            break;
        }
        (day, year) = (day - days, year + 1);
    }
    let february = if is_leap(year) { 29 } else { 28 };
    let mut month = 1;
    for days in [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31] {
        if day < days {
            break;
        }
        (day, month) = (day - days, month + 1);
    }
    (year, month, day + 1)
}

#[cfg(test)]
mod tests {
    use super::Utc;
    use std::time::{Duration, UNIX_EPOCH};

    #[test]
    fn times_are_written_as_rfc_3339() {
        let cases = [
            (0, "1970-01-01T00:00:00.000Z"),
            (951_782_400_000, "2000-02-29T00:00:00.000Z"),
            (951_868_799_999, "2000-02-29T23:59:59.999Z"),
            (1_767_225_599_000, "2025-12-31T23:59:59.000Z"),
            (1_794_971_045_678, "2026-11-18T03:04:05.678Z"),
            (4_107_542_400_000, "2100-03-01T00:00:00.000Z"),
        ];
        for (millis, text) in cases {
            assert_eq!(Utc(UNIX_EPOCH + Duration::from_millis(millis)).to_string(), text);
        }
        let before = UNIX_EPOCH - Duration::from_secs(1);
        assert_eq!(Utc(before).to_string(), "1970-01-01T00:00:00.000Z");
    }
}
