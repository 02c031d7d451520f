//! A chart of ratios to tokio: horizontal bars, a line where both are equal.

use crate::svg::{Anchor, Svg};

const WIDTH: f64 = 800.0;
/// Room for labels: what the longest needs, within limits.
const LEAST_LABELS: f64 = 150.0;
const MOST_LABELS: f64 = 460.0;
/// A character of a label takes about this much.
const CHARACTER: f64 = 6.9;
/// Room for the number after a bar.
const NUMBERS: f64 = 60.0;
const TOP: f64 = 78.0;
const BOTTOM: f64 = 28.0;
const SOURCE_LINE: f64 = 15.0;
const BAR: f64 = 11.0;
const GAP: f64 = 9.0;
/// The axis ends here at least, and here at most: longer bars are cut, and their numbers tell the rest.
const LEAST_END: f64 = 1.2;
const MOST_END: f64 = 2.0;

/// A chart of bars.
pub struct Bars {
    pub title: String,
    pub subtitle: String,
    /// Machine, date and record, one line for each record.
    pub sources: Vec<String>,
    /// One or two names of bars in a row.
    pub series: Vec<String>,
    pub rows: Vec<BarRow>,
}

/// The bars of one row, in the order of the series.
pub struct BarRow {
    pub label: String,
    pub bars: Vec<Option<Bar>>,
}

/// A ratio, and the lowest and highest ratio of single rounds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bar {
    pub ratio: f64,
    pub range: Option<(f64, f64)>,
}

impl Bars {
    /// Draws the chart.
    pub fn draw(&self) -> String {
        let row_height = self.series.len() as f64 * BAR + GAP;
        let bottom = TOP + self.rows.len() as f64 * row_height;
        let height = bottom + BOTTOM + self.sources.len() as f64 * SOURCE_LINE;
        let mut svg = Svg::new(WIDTH, height);
        svg.text((12.0, 24.0), "title", Anchor::Start, &self.title);
        svg.text((12.0, 43.0), "small", Anchor::Start, &self.subtitle);
        let axis = self.axis();
        self.draw_legend(&mut svg, axis.start);
        self.draw_grid(&mut svg, axis, bottom);
        for (number, row) in self.rows.iter().enumerate() {
            let y = TOP + number as f64 * row_height + GAP / 2.0;
            let middle = y + (row_height - GAP) / 2.0 + 4.5;
            svg.text((axis.start - 10.0, middle), "", Anchor::End, &row.label);
            for (place, bar) in row.bars.iter().enumerate() {
                if let Some(bar) = bar {
                    draw_bar(&mut svg, axis, y + place as f64 * BAR, place, *bar);
                }
            }
        }
        for (number, source) in self.sources.iter().enumerate() {
            let y = bottom + BOTTOM + 5.0 + number as f64 * SOURCE_LINE;
            svg.text((12.0, y), "small", Anchor::Start, source);
        }
        svg.finish(&self.title)
    }

    fn axis(&self) -> Axis {
        let ratios = self.rows.iter().flat_map(|row| row.bars.iter().flatten());
        let highest = ratios.map(|bar| bar.ratio).fold(LEAST_END, f64::max);
        let longest = self.rows.iter().map(|row| row.label.chars().count()).max().unwrap_or(0);
        let start = (longest as f64 * CHARACTER + 22.0).clamp(LEAST_LABELS, MOST_LABELS);
        Axis { start, end: ((highest * 5.0).ceil() / 5.0).min(MOST_END) }
    }

    fn draw_legend(&self, svg: &mut Svg, mut x: f64) {
        for (place, name) in self.series.iter().enumerate() {
            svg.rect((x, 54.0), (10.0, 10.0), class(place));
            svg.text((x + 15.0, 63.0), "small", Anchor::Start, name);
            x += 35.0 + name.chars().count() as f64 * 6.5;
        }
    }

    fn draw_grid(&self, svg: &mut Svg, axis: Axis, bottom: f64) {
        let steps = (axis.end * 5.0).round() as usize;
        for step in 0..=steps {
            let value = step as f64 / 5.0;
            let x = axis.place(value);
            let class = if step == 5 { "base" } else { "grid" };
            svg.line(&[(x, TOP - 4.0), (x, bottom)], class);
            svg.text((x, bottom + 12.0), "small", Anchor::Middle, &format!("{value:.1}"));
        }
    }
}

#[derive(Clone, Copy)]
struct Axis {
    /// Where the bars begin.
    start: f64,
    /// The ratio at its end.
    end: f64,
}

impl Axis {
    fn place(self, ratio: f64) -> f64 {
        self.start + ratio.clamp(0.0, self.end) / self.end * (WIDTH - self.start - NUMBERS)
    }
}

fn class(place: usize) -> &'static str {
    if place == 0 { "first" } else { "second" }
}

fn draw_bar(svg: &mut Svg, axis: Axis, y: f64, place: usize, bar: Bar) {
    let end = axis.place(bar.ratio);
    svg.rect((axis.start, y), (end - axis.start, BAR - 1.0), class(place));
    let mut after = end;
    if let Some((low, high)) = bar.range {
        let middle = y + (BAR - 1.0) / 2.0;
        svg.line(&[(axis.place(low), middle), (axis.place(high), middle)], "range");
        after = after.max(axis.place(high));
    }
    let number = format!("{:.2}", bar.ratio);
    svg.text((after + 5.0, y + BAR - 1.5), "small", Anchor::Start, &number);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::svg::expect_balanced;

    fn chart(ratio: f64) -> String {
        let bar = Bar { ratio, range: Some((ratio / 2.0, ratio * 2.0)) };
        let rows = vec![
            BarRow { label: "mpsc <1>".into(), bars: vec![Some(bar), None] },
            BarRow { label: "mutex".into(), bars: vec![Some(Bar { range: None, ..bar }); 2] },
        ];
        let series = vec!["multi-thread".into(), "current-thread".into()];
        Bars { title: "T".into(), subtitle: "S".into(), sources: vec!["M".into()], series, rows }
            .draw()
    }

    /// The widths of bars, in order.
    fn widths(svg: &str) -> Vec<f64> {
        let bars =
            svg.lines().filter(|line| line.starts_with("<rect") && !line.contains("y=\"54\""));
        bars.filter_map(|line| line.split("width=\"").nth(1)?.split('"').next()?.parse().ok())
            .collect()
    }

    #[test]
    fn a_chart_has_a_bar_for_each_ratio_and_a_line_at_one() {
        let svg = chart(0.5);
        expect_balanced(&svg);
        assert_eq!(widths(&svg).len(), 3);
        assert_eq!(svg.matches("class=\"base\"").count(), 1);
        assert_eq!(svg.matches("class=\"range\"").count(), 1);
        assert_eq!(svg.matches(">0.50<").count(), 3);
        assert!(svg.contains("mpsc &lt;1&gt;"));
    }

    #[test]
    fn bars_are_as_long_as_their_ratios() {
        let (half, whole) = (widths(&chart(0.5))[0], widths(&chart(1.0))[0]);
        assert!((whole - 2.0 * half).abs() < 0.2, "{half} {whole}");
    }

    #[test]
    fn a_bar_that_is_too_long_is_cut_and_keeps_its_number() {
        let svg = chart(7.25);
        assert_eq!(widths(&svg)[0], WIDTH - LEAST_LABELS - NUMBERS);
        assert!(svg.contains(">7.25<"));
    }

    #[test]
    fn long_labels_have_room() {
        let start = |label: &str| {
            let rows = vec![BarRow { label: label.into(), bars: vec![None] }];
            let (title, subtitle) = (String::new(), String::new());
            let bars =
                Bars { title, subtitle, sources: Vec::new(), series: vec!["x".into()], rows };
            bars.axis().start
        };
        assert_eq!(start("mutex"), LEAST_LABELS);
        assert!(start(&"m".repeat(40)) > 40.0 * CHARACTER);
        assert_eq!(start(&"m".repeat(400)), MOST_LABELS);
    }
}
