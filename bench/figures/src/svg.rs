//! Writes SVG: a few shapes, with colours for a light and a dark page.

use std::fmt::Write;

/// Colours by class. The second block holds on a dark page, also where a page shows the file as an image.
const STYLE: &str = "\
text{font:13px system-ui,sans-serif;fill:#1f2328}\
.title{font-size:16px;font-weight:600}\
.small{font-size:11px;fill:#59636e}\
.grid{stroke:#d1d9e0;fill:none}\
.base{stroke:#59636e;stroke-width:1.5;fill:none}\
.range{stroke:#1f2328;stroke-width:1;opacity:.55}\
.first{fill:#0969da}.second{fill:#80b8f0}\
.ours{stroke:#0969da;fill:none;stroke-width:2}\
.theirs{stroke:#bc4c00;fill:none;stroke-width:2}\
.dotted{stroke-dasharray:2 3}.dashed{stroke-dasharray:6 3}\
@media(prefers-color-scheme:dark){\
text{fill:#f0f6fc}.small{fill:#9198a1}.grid{stroke:#3d444d}.base{stroke:#9198a1}\
.range{stroke:#f0f6fc}.first{fill:#4493f8}.second{fill:#1f4f86}\
.ours{stroke:#4493f8}.theirs{stroke:#f0883e}}";

/// Which end or middle of a text is at its place.
#[derive(Clone, Copy)]
pub enum Anchor {
    Start,
    Middle,
    End,
}

impl Anchor {
    fn name(self) -> &'static str {
        match self {
            Anchor::Start => "start",
            Anchor::Middle => "middle",
            Anchor::End => "end",
        }
    }
}

/// A drawing that grows shape by shape. `class` names colours of the style.
pub struct Svg {
    width: f64,
    height: f64,
    body: String,
}

impl Svg {
    pub fn new(width: f64, height: f64) -> Self {
        Self { width, height, body: String::new() }
    }

    pub fn text(&mut self, (x, y): (f64, f64), class: &str, anchor: Anchor, text: &str) {
        let (x, y, anchor) = (place(x), place(y), anchor.name());
        let text = escape(text);
        let _ = writeln!(
            self.body,
            "<text class=\"{class}\" x=\"{x}\" y=\"{y}\" text-anchor=\"{anchor}\">{text}</text>"
        );
    }

    pub fn rect(&mut self, (x, y): (f64, f64), (width, height): (f64, f64), class: &str) {
        let (x, y, width, height) = (place(x), place(y), place(width.max(0.0)), place(height));
        let _ = writeln!(
            self.body,
            "<rect class=\"{class}\" x=\"{x}\" y=\"{y}\" width=\"{width}\" height=\"{height}\"/>"
        );
    }

    /// Draws a line through points; nothing without points.
    pub fn line(&mut self, points: &[(f64, f64)], class: &str) {
        let points: Vec<_> =
            points.iter().map(|&(x, y)| format!("{},{}", place(x), place(y))).collect();
        if !points.is_empty() {
            let points = points.join(" ");
            let _ = writeln!(self.body, "<polyline class=\"{class}\" points=\"{points}\"/>");
        }
    }

    /// The whole drawing. `title` is for readers who do not see it.
    pub fn finish(self, title: &str) -> String {
        let (width, height, title) = (place(self.width), place(self.height), escape(title));
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" \
             width=\"{width}\" height=\"{height}\" role=\"img\">\n<title>{title}</title>\n\
             <style>{STYLE}</style>\n{}</svg>\n",
            self.body
        )
    }
}

/// A coordinate to a tenth, so that equal drawings are equal files.
fn place(value: f64) -> String {
    assert!(value.is_finite(), "a coordinate is a number");
    let text = format!("{value:.1}");
    text.strip_suffix(".0").map_or(text.clone(), String::from)
}

/// Text as it stands in XML and HTML.
pub fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            other => escaped.push(other),
        }
    }
    escaped
}

/// Checks that every tag of a document is closed in order.
#[cfg(test)]
pub fn expect_balanced(text: &str) {
    let mut open = Vec::new();
    for tag in text.split('<').skip(1) {
        let tag = tag.split('>').next().expect("a split has a first part");
        if let Some(name) = tag.strip_prefix('/') {
            assert_eq!(open.pop(), Some(name.to_owned()), "in {text}");
        } else if !tag.ends_with('/') && !tag.starts_with('!') {
            open.extend(tag.split_whitespace().next().map(String::from));
        }
    }
    assert!(open.is_empty(), "{open:?} are open in {text}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_drawing_is_xml_with_both_colours() {
        let mut svg = Svg::new(100.0, 50.0);
        svg.text((1.0, 2.05), "small", Anchor::End, "a < b & \"c\"");
        svg.rect((0.0, 0.0), (-3.0, 10.0), "first");
        svg.line(&[(0.0, 1.0), (2.26, 3.0)], "base");
        svg.line(&[], "base");
        let text = svg.finish("A <title>");
        expect_balanced(&text);
        assert!(text.contains("a &lt; b &amp; &quot;c&quot;"), "{text}");
        assert!(text.contains("width=\"0\" height=\"10\""), "no width is below zero: {text}");
        assert!(text.contains("points=\"0,1 2.3,3\""), "{text}");
        assert_eq!(text.matches("<polyline").count(), 1);
        assert!(text.contains("prefers-color-scheme:dark"));
        assert!(text.contains("viewBox=\"0 0 100 50\""));
    }

    #[test]
    #[should_panic(expected = "a coordinate is a number")]
    fn a_missing_number_is_not_drawn() {
        Svg::new(1.0, 1.0).rect((f64::NAN, 0.0), (1.0, 1.0), "first");
    }
}
