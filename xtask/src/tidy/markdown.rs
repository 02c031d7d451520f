//! Reads the parts of Markdown that the checks need: fences, headings, links and code spans.

/// One fenced block.
#[derive(Debug, PartialEq, Eq)]
pub struct Block<'a> {
    /// The words after the opening fence.
    pub info: &'a str,
    /// The lines inside, each with its number.
    pub lines: Vec<(usize, &'a str)>,
}

/// Splits numbered lines into those outside of fences and the fenced blocks.
pub fn split<'a>(
    lines: impl Iterator<Item = (usize, &'a str)>,
) -> (Vec<(usize, &'a str)>, Vec<Block<'a>>) {
    let mut prose = Vec::new();
    let mut blocks: Vec<Block> = Vec::new();
    let mut fence: Option<&str> = None;
    for (number, line) in lines {
        let bare = line.trim_start();
        let mark = &bare[..bare.len() - bare.trim_start_matches(['`', '~']).len()];
        match fence {
            Some(open) if mark.starts_with(open) && bare.trim_end() == mark => fence = None,
            Some(_) => {
                let block = blocks.last_mut().expect("an open fence has a block");
                block.lines.push((number, line));
            }
            None if mark.starts_with("```") || mark.starts_with("~~~") => {
                fence = Some(mark);
                blocks.push(Block { info: bare[mark.len()..].trim(), lines: Vec::new() });
            }
            None => prose.push((number, line)),
        }
    }
    (prose, blocks)
}

/// The lines of a document, each with its number.
pub fn numbered(text: &str) -> impl Iterator<Item = (usize, &str)> {
    text.lines().zip(1..).map(|(line, number)| (number, line))
}

/// Returns the anchors of a document: its headings as slugs, and explicit ids.
pub fn anchors(text: &str) -> Vec<String> {
    let mut anchors: Vec<String> = Vec::new();
    for (_, line) in split(numbered(text)).0 {
        for key in ["id=\"", "name=\""] {
            let ids = line.split(key).skip(1);
            anchors.extend(ids.filter_map(|rest| Some(rest.split_once('"')?.0.to_owned())));
        }
        let title = line.trim_start_matches('#');
        let level = line.len() - title.len();
        if !(1..=6).contains(&level) || !title.starts_with(' ') {
            continue;
        }
        let base = slug(title);
        let mut unique = base.clone();
        let mut copies = 0;
        while anchors.contains(&unique) {
            copies += 1;
            unique = format!("{base}-{copies}");
        }
        anchors.push(unique);
    }
    anchors
}

/// A heading's anchor: lower case, punctuation gone, blanks as hyphens.
fn slug(title: &str) -> String {
    let kept = |c: &char| c.is_alphanumeric() || " -_".contains(*c);
    let text = visible_text(title.trim());
    text.chars()
        .filter(kept)
        .flat_map(char::to_lowercase)
        .map(|c| if c == ' ' { '-' } else { c })
        .collect()
}

/// `[text](target)` as `text`.
fn visible_text(title: &str) -> String {
    let mut text = title.to_owned();
    while let Some(middle) = text.find("](") {
        let Some(end) = text[middle..].find(')').map(|end| middle + end) else {
            break;
        };
        text.replace_range(middle..=end, "");
    }
    text
}

/// A link or a code span of a line.
#[derive(Debug, PartialEq, Eq)]
pub enum Mark<'a> {
    /// The target of `[text](target)` or `[id]: target`.
    Link(&'a str),
    /// The inside of a code span.
    Code(&'a str),
}

/// The links and code spans of a line, in order.
pub fn marks(line: &str) -> Vec<Mark<'_>> {
    let mut marks = Vec::new();
    if let Some((id, target)) = line.trim_start().split_once("]: ")
        && id.starts_with('[')
        && !id.contains(']')
    {
        marks.extend(target.split_whitespace().next().map(Mark::Link));
    }
    let mut rest = line;
    while let Some(at) = rest.find(['`', ']']) {
        let found = &rest[at..];
        if let Some(target) = found.strip_prefix("](") {
            let end = target.find(')').unwrap_or(target.len());
            // A title may stand behind the target.
            marks.extend(target[..end].split_whitespace().next().map(Mark::Link));
            rest = &target[end..];
        } else if found.starts_with('`') {
            let ticks = found.len() - found.trim_start_matches('`').len();
            let inside = &found[ticks..];
            let Some(end) = inside.find(&found[..ticks]) else {
                break;
            };
            marks.push(Mark::Code(inside[..end].trim()));
            rest = &inside[end + ticks..];
        } else {
            rest = &found[1..];
        }
    }
    marks
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fences_are_kept_apart_from_prose() {
        let text = "a\n```text diagram\nb\n```\nc\n";
        let (prose, blocks) = split(numbered(text));
        assert_eq!(prose, [(1, "a"), (5, "c")]);
        assert_eq!(blocks[0].info, "text diagram");
        assert_eq!(blocks[0].lines, [(3, "b")]);
    }

    #[test]
    fn headings_become_anchors() {
        let text =
            "# The `task` module, drawn\n## Why?\n## Why?\n```\n# not one\n```\n<a id=\"x\">\n";
        assert_eq!(anchors(text), ["the-task-module-drawn", "why", "why-1", "x"]);
    }

    #[test]
    fn links_and_code_are_found_and_told_apart() {
        assert_eq!(
            marks("see [a](b.md#c \"t\") and `d.rs`, ``e `f` ``, not `[g](h)`"),
            [Mark::Link("b.md#c"), Mark::Code("d.rs"), Mark::Code("e `f`"), Mark::Code("[g](h)"),]
        );
        assert_eq!(marks("[id]: x.md"), [Mark::Link("x.md")]);
        assert_eq!(marks("[`a`](b)"), [Mark::Code("a"), Mark::Link("b")]);
        assert_eq!(marks("an ` alone"), []);
    }
}
