//! Which reports are delivered, and how they are printed: `WAKEFUL_REPORT` and its builder settings.

use super::{Certainty, Report};
use std::sync::OnceLock;

/// Which reports a runtime delivers.
///
/// Set it with [`Builder::report_filter`](crate::runtime::Builder::report_filter) or the environment
/// variable `WAKEFUL_REPORT`. Reports that are not delivered are still counted in the metrics.
///
/// # Examples
///
/// ```
/// use wakeful::inspect::ReportFilter;
/// use wakeful::runtime::Builder;
///
/// let runtime = Builder::new_current_thread().report_filter(ReportFilter::Proven).build()?;
/// # drop(runtime);
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ReportFilter {
    /// No report.
    Off,
    /// Only [proven](Certainty::Proven) reports.
    Proven,
    /// Every report: the default.
    #[default]
    All,
}

impl ReportFilter {
    pub(super) fn admits(self, report: &Report) -> bool {
        match self {
            ReportFilter::Off => false,
            ReportFilter::Proven => report.certainty() >= Certainty::Proven,
            ReportFilter::All => true,
        }
    }
}

/// How reports are printed.
///
/// Set it with [`Builder::report_format`](crate::runtime::Builder::report_format) or the environment
/// variable `WAKEFUL_REPORT`.
///
/// # Examples
///
/// ```
/// use wakeful::inspect::ReportFormat;
/// use wakeful::runtime::Builder;
///
/// let runtime = Builder::new_current_thread().report_format(ReportFormat::Json).build()?;
/// # drop(runtime);
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ReportFormat {
    /// Several lines for people: the default. The first one starts with the time and `wakeful: `.
    #[default]
    Text,
    /// One line, as [`Report::to_json`] returns it.
    Json,
}

/// The settings in `WAKEFUL_REPORT`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Settings {
    filter: Option<ReportFilter>,
    format: Option<ReportFormat>,
}

impl Settings {
    /// Parses a comma-separated list of words. Returns `None` if a word is unknown or contradicts
    /// another.
    fn parse(text: &str) -> Option<Self> {
        let mut settings = Self::default();
        for word in text.split(',').map(str::trim) {
            let is_first = match word {
                "off" => settings.filter.replace(ReportFilter::Off).is_none(),
                "proven" => settings.filter.replace(ReportFilter::Proven).is_none(),
                "all" => settings.filter.replace(ReportFilter::All).is_none(),
                "text" => settings.format.replace(ReportFormat::Text).is_none(),
                "json" => settings.format.replace(ReportFormat::Json).is_none(),
                _ => false,
            };
            if !is_first {
                return None;
            }
        }
        Some(settings)
    }

    /// Reads the environment variable once per process. Prints a message if its value is invalid.
    fn from_env() -> Self {
        static SETTINGS: OnceLock<Settings> = OnceLock::new();
        *SETTINGS.get_or_init(|| {
            let Some(text) = std::env::var_os("WAKEFUL_REPORT") else { return Self::default() };
            let text = text.to_string_lossy();
            Self::parse(&text).unwrap_or_else(|| {
                eprintln!(
                    "wakeful: WAKEFUL_REPORT must be off, proven or all, text or json, or one of each with a \
                     comma between them, but it is {text:?}. All reports are printed as text."
                );
                Self::default()
            })
        })
    }
}

/// The filter and format of one runtime.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Delivery {
    pub(super) filter: ReportFilter,
    pub(super) format: ReportFormat,
}

impl Delivery {
    /// Uses the settings of the builder. Where the builder sets none, the environment variable
    /// decides.
    pub(crate) fn new(filter: Option<ReportFilter>, format: Option<ReportFormat>) -> Self {
        let environment = Settings::from_env();
        Self {
            filter: filter.or(environment.filter).unwrap_or_default(),
            format: format.or(environment.format).unwrap_or_default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{ReportFilter, ReportFormat, Settings};

    #[test]
    fn settings_are_one_of_each_kind_in_any_order() {
        let (proven, json) = (Some(ReportFilter::Proven), Some(ReportFormat::Json));
        for text in ["proven,json", "json, proven"] {
            assert_eq!(Settings::parse(text), Some(Settings { filter: proven, format: json }));
        }
        assert_eq!(Settings::parse("off").unwrap().filter, Some(ReportFilter::Off));
        assert_eq!(Settings::parse("json"), Some(Settings { filter: None, format: json }));
        for text in ["", "none", "proven,", "off,all", "text,json", "PROVEN", "proven json"] {
            assert_eq!(Settings::parse(text), None, "{text}");
        }
    }
}
