//! Tokens as plain data.
//!
//! The compiler's own tokens exist only while it runs a macro, so a parser of them cannot be
//! tested. `args.rs` and `function.rs` parse these instead, and refer to a token by its position in
//! the list.

use std::ops::Range;

/// One token tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Token {
    /// A name or keyword; `true` and `false` are names too.
    Ident(String),
    /// One character of punctuation.
    Punct(char),
    /// The text of a literal.
    Literal(String),
    /// Tokens between a pair of brackets.
    Group(Bracket, Vec<Token>),
}

/// The kinds of brackets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Bracket {
    Round,
    Square,
    Curly,
}

impl Token {
    /// Returns whether this is the identifier `name`.
    pub(crate) fn is_ident(&self, name: &str) -> bool {
        matches!(self, Token::Ident(ident) if ident == name)
    }

    /// Returns whether this is the punctuation `char`.
    pub(crate) fn is_punct(&self, char: char) -> bool {
        *self == Token::Punct(char)
    }

    /// Returns the tokens between the brackets, if this is a group with brackets of this kind.
    pub(crate) fn inside(&self, bracket: Bracket) -> Option<&[Token]> {
        match self {
            Token::Group(found, tokens) if *found == bracket => Some(tokens),
            _ => None,
        }
    }
}

/// An error message, and the tokens to point at. An empty range points at the attribute itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Error {
    pub(crate) message: String,
    pub(crate) at: Range<usize>,
    /// Whether a Cargo feature is missing. For `#[test]`, that is an error only in a build of tests,
    /// because the feature may be enabled only in `[dev-dependencies]`.
    pub(crate) needs_feature: bool,
}

impl Error {
    pub(crate) fn new(at: Range<usize>, message: impl Into<String>) -> Self {
        Error { message: message.into(), at, needs_feature: false }
    }

    pub(crate) fn needs_feature(at: Range<usize>, message: String) -> Self {
        Error { message, at, needs_feature: true }
    }
}

/// Returns the length of the path at the start of `tokens`, `a::b::c` or `::a::b`; 0 if there is
/// none.
pub(crate) fn path_len(tokens: &[Token]) -> usize {
    let separator_at = |at: usize| matches!(tokens.get(at..at + 2), Some([a, b]) if a.is_punct(':') && b.is_punct(':'));
    let mut len = if separator_at(0) { 2 } else { 0 };
    loop {
        match tokens.get(len) {
            Some(Token::Ident(_)) => len += 1,
            _ => return 0,
        }
        if !separator_at(len) {
            return len;
        }
        len += 2;
    }
}

/// Returns the names in a path.
pub(crate) fn path_names(tokens: &[Token]) -> impl Iterator<Item = &str> {
    tokens.iter().filter_map(|token| match token {
        Token::Ident(name) => Some(name.as_str()),
        _ => None,
    })
}

/// A lexer for the tests of this crate: names, numbers, `"strings"`, `'lifetimes`, punctuation,
/// brackets.
#[cfg(test)]
pub(crate) fn lex(text: &str) -> Vec<Token> {
    fn list(chars: &mut std::iter::Peekable<std::str::Chars<'_>>, end: Option<char>) -> Vec<Token> {
        let mut tokens = Vec::new();
        while let Some(char) = chars.next() {
            if Some(char) == end {
                return tokens;
            }
            let token = match char {
                _ if char.is_whitespace() => continue,
                '(' => Token::Group(Bracket::Round, list(chars, Some(')'))),
                '[' => Token::Group(Bracket::Square, list(chars, Some(']'))),
                '{' => Token::Group(Bracket::Curly, list(chars, Some('}'))),
                '"' => {
                    let inner: String = chars.by_ref().take_while(|&char| char != '"').collect();
                    Token::Literal(format!("\"{inner}\""))
                }
                _ if char.is_alphanumeric() || char == '_' => {
                    let mut word = String::from(char);
                    while let Some(next) = chars.next_if(|c| c.is_alphanumeric() || *c == '_') {
                        word.push(next);
                    }
                    match char.is_ascii_digit() {
                        true => Token::Literal(word),
                        false => Token::Ident(word),
                    }
                }
                _ => Token::Punct(char),
            };
            tokens.push(token);
        }
        assert_eq!(end, None, "unbalanced brackets in a test");
        tokens
    }
    list(&mut text.chars().peekable(), None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_measured_in_tokens() {
        for (text, len) in [
            ("", 0),
            ("a", 1),
            ("a = 1", 1),
            ("a::b", 4),
            ("::a::b::c(x)", 9),
            ("crate::a", 4),
            ("a:b", 1),
            ("a::", 0),
            ("a::1", 0),
            ("1", 0),
            ("::", 0),
        ] {
            assert_eq!(path_len(&lex(text)), len, "{text}");
        }
        assert_eq!(Vec::from_iter(path_names(&lex("::a::b"))), ["a", "b"]);
    }
}
