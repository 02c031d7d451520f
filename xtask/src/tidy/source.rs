//! Splits a Rust file into code, comments and literals.
//!
//! This is a lexer, not a parser. It knows nested block comments, raw strings, and lifetimes beside
//! character literals. So a check never takes prose or a string for code, or code for prose.

/// One line of a comment.
#[derive(Debug, PartialEq, Eq)]
pub struct Comment {
    /// Counted from one.
    pub line: usize,
    /// Without the marker and the blank after it.
    pub text: String,
    /// Whether rustdoc reads it: `///`, `//!`, `/** */`, `/*! */`.
    pub doc: bool,
}

#[derive(Debug)]
pub struct Source {
    /// The file without comments, the inside of literals blanked. It is ASCII
    /// and has the line breaks of the file, so offsets give line numbers.
    pub code: String,
    /// In the order of the file.
    pub comments: Vec<Comment>,
}

impl Source {
    pub fn parse(text: &str) -> Source {
        let mut lexer = Lexer {
            chars: text.chars().collect(),
            at: 0,
            line: 1,
            source: Source { code: String::with_capacity(text.len()), comments: Vec::new() },
        };
        lexer.run();
        lexer.source
    }

    /// The line, counted from one, that holds the byte at `offset` of `code`.
    pub fn line_of(&self, offset: usize) -> usize {
        1 + self.code.as_bytes()[..offset].iter().filter(|&&byte| byte == b'\n').count()
    }

    /// The lines of `code`, each with its number.
    pub fn code_lines(&self) -> impl Iterator<Item = (usize, &str)> {
        self.code.lines().zip(1..).map(|(code, line)| (line, code))
    }

    /// The comments that stand on `line`.
    pub fn comments_on(&self, line: usize) -> impl Iterator<Item = &Comment> {
        let from = self.comments.partition_point(|comment| comment.line < line);
        self.comments[from..].iter().take_while(move |comment| comment.line == line)
    }
}

pub fn is_word(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}

/// Every identifier, keyword or number of `code` with its offset.
pub fn words(code: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut at = 0;
    std::iter::from_fn(move || {
        let start = at + code[at..].find(is_word)?;
        let rest = &code[start..];
        let len = rest.find(|c| !is_word(c)).unwrap_or(rest.len());
        at = start + len;
        Some((start, &code[start..at]))
    })
}

struct Lexer {
    chars: Vec<char>,
    at: usize,
    line: usize,
    source: Source,
}

impl Lexer {
    fn run(&mut self) {
        while let Some(c) = self.peek(0) {
            match c {
                '/' if self.peek(1) == Some('/') => self.line_comment(),
                '/' if self.peek(1) == Some('*') => self.block_comment(),
                '"' => self.string(),
                '\'' => self.quote(),
                'r' | 'b' | 'c' if !self.inside_word() => self.maybe_prefixed_literal(),
                _ => self.keep(),
            }
        }
    }

    fn peek(&self, ahead: usize) -> Option<char> {
        self.chars.get(self.at + ahead).copied()
    }

    fn inside_word(&self) -> bool {
        self.at > 0 && is_word(self.chars[self.at - 1])
    }

    /// Takes one character as code.
    fn keep(&mut self) {
        let c = self.chars[self.at];
        self.source.code.push(if c.is_ascii() { c } else { ' ' });
        self.line += usize::from(c == '\n');
        self.at += 1;
    }

    /// Takes one character as the inside of a literal.
    fn blank(&mut self) {
        let c = self.chars[self.at];
        self.source.code.push(if c == '\n' { '\n' } else { ' ' });
        self.line += usize::from(c == '\n');
        self.at += 1;
    }

    fn comment(&mut self, text: &str, doc: bool) {
        self.source.comments.push(Comment {
            line: self.line,
            text: text.strip_prefix(' ').unwrap_or(text).to_owned(),
            doc,
        });
    }

    fn line_comment(&mut self) {
        let rest = &self.chars[self.at..];
        let len = rest.iter().position(|&c| c == '\n').unwrap_or(rest.len());
        let text: String = rest[..len].iter().collect();
        let outer = text.starts_with("///") && !text.starts_with("////");
        let doc = outer || text.starts_with("//!");
        self.comment(&text[if doc { 3 } else { 2 }..], doc);
        self.at += len;
    }

    fn block_comment(&mut self) {
        let start: String = self.chars[self.at..].iter().take(4).collect();
        let outer = start.starts_with("/**") && start != "/***" && start != "/**/";
        let doc = outer || start.starts_with("/*!");
        self.at += if doc { 3 } else { 2 };
        let mut depth = 1;
        let mut text = String::new();
        while let Some(c) = self.peek(0) {
            match (c, self.peek(1)) {
                ('/', Some('*')) => {
                    depth += 1;
                    text.push_str("/*");
                    self.at += 2;
                }
                ('*', Some('/')) => {
                    depth -= 1;
                    self.at += 2;
                    if depth == 0 {
                        break;
                    }
                    text.push_str("*/");
                }
                ('\n', _) => {
                    self.block_line(&text, doc);
                    text.clear();
                    self.keep();
                }
                _ => {
                    text.push(c);
                    self.at += 1;
                }
            }
        }
        self.block_line(&text, doc);
        // What stands before and after the comment must not grow together.
        self.source.code.push(' ');
    }

    fn block_line(&mut self, text: &str, doc: bool) {
        let bare = text.trim_start();
        let bare = bare.strip_prefix("* ").unwrap_or(bare).trim_end();
        if !bare.is_empty() && bare != "*" {
            self.comment(bare, doc);
        }
    }

    fn string(&mut self) {
        self.keep();
        while let Some(c) = self.peek(0) {
            match c {
                '"' => return self.keep(),
                '\\' if self.peek(1).is_some() => {
                    self.blank();
                    self.blank();
                }
                _ => self.blank(),
            }
        }
    }

    /// A character literal or a lifetime.
    fn quote(&mut self) {
        self.keep();
        let escaped = self.peek(0) == Some('\\');
        if !escaped && self.peek(1) != Some('\'') {
            return;
        }
        if escaped {
            self.blank();
        }
        self.blank();
        while self.peek(0).is_some_and(|c| c != '\'' && c != '\n') {
            self.blank();
        }
        if self.peek(0) == Some('\'') {
            self.keep();
        }
    }

    /// At an `r`, `b` or `c` that may begin `r#"…"#`, `br"…"`, `b"…"`, `c"…"`.
    fn maybe_prefixed_literal(&mut self) {
        let mut ahead = 1;
        let mut raw = self.peek(0) == Some('r');
        if !raw && self.peek(1) == Some('r') {
            raw = true;
            ahead = 2;
        }
        if !raw {
            // `b"` and `b'` go on as their unprefixed kind.
            return self.keep();
        }
        let mut hashes = 0;
        while self.peek(ahead + hashes) == Some('#') {
            hashes += 1;
        }
        if self.peek(ahead + hashes) != Some('"') {
            return self.keep();
        }
        for _ in 0..=ahead + hashes {
            self.keep();
        }
        while let Some(c) = self.peek(0) {
            if c == '"' && (1..=hashes).all(|i| self.peek(i) == Some('#')) {
                for _ in 0..=hashes {
                    self.keep();
                }
                return;
            }
            self.blank();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code(text: &str) -> String {
        Source::parse(text).code
    }

    fn comments(text: &str) -> Vec<(usize, String, bool)> {
        let comments = Source::parse(text).comments;
        comments.into_iter().map(|c| (c.line, c.text, c.doc)).collect()
    }

    #[test]
    fn strings_are_blanked_and_comments_leave_the_code() {
        assert_eq!(code("a(\"x // y\"); // z\nb"), "a(\"      \"); \nb");
        assert_eq!(code(r##"r#"a " b"# c"##), r##"r#"     "# c"##);
        assert_eq!(code("\"a\\\"b\" c"), "\"    \" c");
        assert_eq!(code("b\"x\" br\"y\" r#type"), "b\" \" br\" \" r#type");
    }

    #[test]
    fn a_lifetime_is_not_a_character() {
        assert_eq!(code("&'a str, '\"', '\\'', 'x"), "&'a str, ' ', '  ', 'x");
        assert_eq!(code("<'a>('/', '/')"), "<'a>(' ', ' ')");
    }

    #[test]
    fn comments_know_their_line_and_kind() {
        assert_eq!(
            comments("//! top\nfn f() {} // plain\n/// doc\n//// rule\n"),
            [
                (1, "top".into(), true),
                (2, "plain".into(), false),
                (3, "doc".into(), true),
                (4, "// rule".into(), false),
            ]
        );
    }

    #[test]
    fn block_comments_nest_and_span_lines() {
        let text = "a/* one\n * two /* in */\n */b";
        assert_eq!(code(text), "a\n\n b");
        assert_eq!(comments(text), [(1, "one".into(), false), (2, "two /* in */".into(), false)]);
    }

    #[test]
    fn a_string_over_lines_keeps_the_line_numbers() {
        let source = Source::parse("let s = \"a\nb\";\nfn f() {}");
        let at = source.code.find("fn").unwrap();
        assert_eq!(source.line_of(at), 3);
    }

    #[test]
    fn words_come_with_their_offsets() {
        let found: Vec<_> = words("use a::b2;").collect();
        assert_eq!(found, [(0, "use"), (4, "a"), (7, "b2")]);
    }
}
