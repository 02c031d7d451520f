//! Latency by load: a small panel for each application, with a logarithmic axis.

use crate::svg::{Anchor, Svg};

const WIDTH: f64 = 800.0;
const COLUMNS: usize = 3;
const PANEL: (f64, f64) = (262.0, 190.0);
const TOP: f64 = 84.0;
const BOTTOM: f64 = 24.0;
/// Room inside of a panel for its name and its axes.
const INSET: (f64, f64) = (48.0, 26.0);
const PLOT: (f64, f64) = (200.0, 130.0);

/// A chart of panels.
pub struct Curves {
    pub title: String,
    pub subtitle: String,
    pub source: String,
    pub panels: Vec<Panel>,
}

/// The curves of one application.
pub struct Panel {
    pub label: String,
    pub curves: Vec<Curve>,
}

/// A latency of a runtime.
pub struct Curve {
    pub is_ours: bool,
    pub quantile: Quantile,
    /// The share of the peak, from 0 to 1, and the latency in microseconds.
    pub points: Vec<(f64, f64)>,
}

/// Which latency a curve shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Quantile {
    P50,
    P99,
    P999,
}

impl Quantile {
    pub const ALL: [Quantile; 3] = [Quantile::P50, Quantile::P99, Quantile::P999];

    /// Its name in records.
    pub fn key(self) -> &'static str {
        match self {
            Quantile::P50 => "p50_us",
            Quantile::P99 => "p99_us",
            Quantile::P999 => "p999_us",
        }
    }

    fn label(self) -> &'static str {
        match self {
            Quantile::P50 => "p50",
            Quantile::P99 => "p99",
            Quantile::P999 => "p99.9",
        }
    }

    fn class(self) -> &'static str {
        match self {
            Quantile::P50 => "dotted",
            Quantile::P99 => "",
            Quantile::P999 => "dashed",
        }
    }
}

impl Curves {
    /// Draws the chart.
    pub fn draw(&self) -> String {
        let lines = self.panels.len().div_ceil(COLUMNS);
        let height = TOP + lines as f64 * PANEL.1 + BOTTOM;
        let mut svg = Svg::new(WIDTH, height);
        svg.text((12.0, 24.0), "title", Anchor::Start, &self.title);
        svg.text((12.0, 43.0), "small", Anchor::Start, &self.subtitle);
        draw_legend(&mut svg);
        for (number, panel) in self.panels.iter().enumerate() {
            let x = 6.0 + (number % COLUMNS) as f64 * PANEL.0;
            let y = TOP + (number / COLUMNS) as f64 * PANEL.1;
            panel.draw(&mut svg, (x, y));
        }
        svg.text((12.0, height - 10.0), "small", Anchor::Start, &self.source);
        svg.finish(&self.title)
    }
}

fn draw_legend(svg: &mut Svg) {
    let mut x = 12.0;
    for (name, class) in [("wakeful", "ours"), ("tokio", "theirs")] {
        for quantile in Quantile::ALL {
            svg.line(&[(x, 62.0), (x + 24.0, 62.0)], &format!("{class} {}", quantile.class()));
            let label = format!("{name} {}", quantile.label());
            svg.text((x + 29.0, 66.0), "small", Anchor::Start, &label);
            x += 122.0;
        }
    }
}

impl Panel {
    fn draw(&self, svg: &mut Svg, (x, y): (f64, f64)) {
        let origin = (x + INSET.0, y + INSET.1);
        svg.text((origin.0, y + 16.0), "", Anchor::Start, &self.label);
        let Some(axis) = LogAxis::of(self.curves.iter().flat_map(|curve| &curve.points)) else {
            return;
        };
        let place = |(share, us): (f64, f64)| {
            (origin.0 + share * PLOT.0, origin.1 + (1.0 - axis.share(us)) * PLOT.1)
        };
        for us in axis.ticks() {
            let (left, right) = (place((0.0, us)), place((1.0, us)));
            svg.line(&[left, right], "grid");
            svg.text((left.0 - 5.0, left.1 + 4.0), "small", Anchor::End, &duration(us));
        }
        for (percent, unit) in [(25, ""), (50, ""), (75, ""), (90, " %")] {
            let (x, _) = place((f64::from(percent) / 100.0, axis.low_us));
            let y = origin.1 + PLOT.1 + 14.0;
            svg.text((x, y), "small", Anchor::Middle, &format!("{percent}{unit}"));
        }
        for curve in &self.curves {
            let points: Vec<_> = curve.points.iter().copied().map(place).collect();
            let side = if curve.is_ours { "ours" } else { "theirs" };
            svg.line(&points, format!("{side} {}", curve.quantile.class()).trim_end());
        }
    }
}

/// A logarithmic axis from a power of ten to a power of ten.
struct LogAxis {
    low_us: f64,
    high_us: f64,
}

impl LogAxis {
    /// An axis for the latencies of points; none, if there are none above zero.
    fn of<'p>(points: impl Iterator<Item = &'p (f64, f64)>) -> Option<Self> {
        let latencies: Vec<f64> = points.map(|&(_, us)| us).filter(|&us| us > 0.0).collect();
        let low = latencies.iter().copied().min_by(f64::total_cmp)?;
        let high = latencies.iter().copied().max_by(f64::total_cmp)?;
        let low_us = 10f64.powf(low.log10().floor());
        let high_us = 10f64.powf(high.log10().ceil()).max(low_us * 10.0);
        Some(Self { low_us, high_us })
    }

    /// Where a latency is on the axis, from 0 to 1.
    fn share(&self, us: f64) -> f64 {
        let share = (us / self.low_us).log10() / (self.high_us / self.low_us).log10();
        share.clamp(0.0, 1.0)
    }

    fn ticks(&self) -> impl Iterator<Item = f64> {
        let decades = (self.high_us / self.low_us).log10().round() as i32;
        (0..=decades).map(|decade| self.low_us * 10f64.powi(decade))
    }
}

fn duration(us: f64) -> String {
    match us {
        us if us >= 999_999.0 => format!("{:.0} s", us / 1e6),
        us if us >= 999.0 => format!("{:.0} ms", us / 1e3),
        us => format!("{us:.0} µs"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::svg::expect_balanced;

    #[test]
    fn each_curve_is_a_line_that_rises_with_the_latency() {
        let curve = |is_ours, quantile| Curve {
            is_ours,
            quantile,
            points: vec![(0.25, 40.0), (0.9, 4000.0)],
        };
        let curves = vec![curve(true, Quantile::P50), curve(false, Quantile::P99)];
        let panel = Panel { label: "hello".into(), curves };
        let empty = Panel { label: "nothing".into(), curves: Vec::new() };
        let panels = vec![panel, empty];
        let chart = Curves { title: "T".into(), subtitle: "S".into(), source: "M".into(), panels };
        let svg = chart.draw();
        expect_balanced(&svg);
        // One line of the legend, and one of the panel.
        assert_eq!(svg.matches("class=\"ours dotted\"").count(), 2);
        assert_eq!(svg.matches("class=\"theirs\"").count(), 1);
        let curve =
            svg.lines().rfind(|line| line.contains("class=\"theirs\"")).expect("it is there");
        let points = curve.split("points=\"").nth(1).and_then(|rest| rest.split('"').next());
        let heights: Vec<f64> = points
            .expect("it has points")
            .split(' ')
            .filter_map(|point| point.split(',').nth(1)?.parse().ok())
            .collect();
        assert!(heights[1] < heights[0], "up is a smaller y: {heights:?}");
    }

    #[test]
    fn the_axis_has_whole_decades() {
        let axis = LogAxis::of([(0.25, 40.0), (0.9, 4000.0)].iter()).expect("it has points");
        let ticks: Vec<String> = axis.ticks().map(duration).collect();
        assert_eq!(ticks, ["10 µs", "100 µs", "1 ms", "10 ms"]);
        assert!((axis.share(10.0), axis.share(10_000.0)) == (0.0, 1.0));
        assert!((axis.share(100.0) - 1.0 / 3.0).abs() < 1e-9);
        assert!(LogAxis::of([(0.5, 0.0)].iter()).is_none());
    }
}
