//! Finds the parts of the function under the attribute. Their content is not interpreted.
//!
//! ```text
//! #[a] #[b]   pub async unsafe   fn   name <T: X>   (params)   -> Output   where …   { #![c] body }
//! attributes  before_fn          at   name          params     output                body
//! ```

use std::ops::Range;

use crate::args::Kind;
use crate::token::{Bracket, Error, Token, path_len, path_names};

/// The parts of a function, by position in its tokens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Function {
    /// The outer attributes, one range each.
    pub(crate) attributes: Vec<Range<usize>>,
    /// The `async` keyword.
    pub(crate) r#async: Option<usize>,
    /// The `fn` keyword.
    pub(crate) at: usize,
    /// The name.
    pub(crate) name: usize,
    /// The parameters, in their parentheses.
    pub(crate) params: usize,
    /// The type after `->`.
    pub(crate) output: Option<Range<usize>>,
    /// The braces.
    pub(crate) body: usize,
    /// The number of tokens at the start of the body that are inner attributes (`#![…]`).
    pub(crate) inner_attributes: usize,
}

/// The return type of a function, by where it may be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OutputKind {
    /// No return type: `()`.
    Unit,
    /// A type that may be written anywhere.
    Nameable,
    /// `!`, or a type with `impl Trait`: allowed only after `->`.
    OnlyInSignature,
}

impl Function {
    /// Finds the parts of a function in its tokens.
    pub(crate) fn parse(tokens: &[Token]) -> Result<Self, Error> {
        let attributes = outer_attributes(tokens);
        let start = attributes.last().map_or(0, |last| last.end);
        let expected = |what: &str, at: usize| {
            let at = at.min(tokens.len().saturating_sub(1));
            Error::new(at..tokens.len().min(at + 1), format!("expected {what}"))
        };

        // Before `fn`: visibility (`pub(in …)`) and qualifiers (`async`, `unsafe`, `extern "C"`).
        let at = (start..tokens.len())
            .take_while(|&at| match &tokens[at] {
                Token::Ident(word) => word != "fn",
                Token::Literal(_) => true,
                token => token.inside(Bracket::Round).is_some(),
            })
            .last()
            .map_or(start, |last| last + 1);
        if !tokens.get(at).is_some_and(|token| token.is_ident("fn")) {
            return Err(expected("an async function under this attribute", start));
        }
        let r#async = (start..at).find(|&at| tokens[at].is_ident("async"));

        let name = at + 1;
        if !matches!(tokens.get(name), Some(Token::Ident(_))) {
            return Err(expected("the name of the function", name));
        }
        let params = skip_generics(tokens, name + 1);
        if tokens.get(params).and_then(|token| token.inside(Bracket::Round)).is_none() {
            return Err(expected("the parameters of the function", params));
        }
        let body = tokens.len() - 1;
        let Some(inside) = tokens[body].inside(Bracket::Curly) else {
            return Err(Error::new(
                body..body + 1,
                "expected a body: there is nothing here to run",
            ));
        };
        let output = match &tokens[params + 1..body] {
            [dash, arrow, ..] if dash.is_punct('-') && arrow.is_punct('>') => {
                let end =
                    (params + 3..body).find(|&at| tokens[at].is_ident("where")).unwrap_or(body);
                Some(params + 3..end)
            }
            _ => None,
        };
        let inner_attributes = inner_attributes(inside);
        Ok(Function { attributes, r#async, at, name, params, output, body, inner_attributes })
    }

    /// Checks that this function can be a main function or a test.
    pub(crate) fn check(&self, tokens: &[Token], kind: Kind) -> Result<(), Error> {
        // This check comes first: a test attribute has already removed the `async`.
        let second = self
            .attributes
            .iter()
            .find(|attribute| is_test_attribute(&tokens[(*attribute).clone()]));
        if let (Kind::Test, Some(at)) = (kind, second) {
            let message = "second test attribute is supplied, \
                           consider removing or changing the order of your test attributes";
            return Err(Error::new(at.clone(), message));
        }
        if self.r#async.is_none() {
            let message = "the `async` keyword is missing from the function declaration";
            return Err(Error::new(self.at..self.at + 1, message));
        }
        let has_params = tokens[self.params] != Token::Group(Bracket::Round, Vec::new());
        if kind == Kind::Main && tokens[self.name].is_ident("main") && has_params {
            let message = "the main function cannot accept arguments";
            return Err(Error::new(self.params..self.params + 1, message));
        }
        Ok(())
    }

    /// Checks that this function can be a test in a simulation. Returns whether it has an argument.
    pub(crate) fn check_sim(&self, tokens: &[Token]) -> Result<bool, Error> {
        self.check(tokens, Kind::Test)?;
        let params = tokens[self.params].inside(Bracket::Round).unwrap_or_default();
        let commas = params.iter().filter(|token| token.is_punct(',')).count();
        let has_trailing_comma = params.last().is_some_and(|token| token.is_punct(','));
        if commas > usize::from(has_trailing_comma) || self.params != self.name + 1 {
            let message =
                "a test in a simulation has no generics, and at most one argument: the `Sim`";
            return Err(Error::new(self.params..self.params + 1, message));
        }
        Ok(!params.is_empty())
    }

    /// Returns the kind of the return type.
    pub(crate) fn output_kind(&self, tokens: &[Token]) -> OutputKind {
        fn has_impl(tokens: &[Token]) -> bool {
            tokens.iter().any(|token| match token {
                Token::Group(_, inside) => has_impl(inside),
                token => token.is_ident("impl"),
            })
        }
        match self.output.clone().map(|output| &tokens[output]) {
            None => OutputKind::Unit,
            Some([never]) if never.is_punct('!') => OutputKind::OnlyInSignature,
            Some(output) if has_impl(output) => OutputKind::OnlyInSignature,
            Some(_) => OutputKind::Nameable,
        }
    }
}

/// Returns the attributes at the start of an item: pairs of `#` and `[…]`.
fn outer_attributes(tokens: &[Token]) -> Vec<Range<usize>> {
    let is_attribute =
        |pair: &&[Token]| pair[0].is_punct('#') && pair[1].inside(Bracket::Square).is_some();
    let count = tokens.chunks_exact(2).take_while(is_attribute).count();
    (0..count).map(|nth| nth * 2..nth * 2 + 2).collect()
}

/// Returns the number of tokens of the `#![…]` attributes at the start of a body.
fn inner_attributes(body: &[Token]) -> usize {
    let is_attribute = |triple: &&[Token]| {
        triple[0].is_punct('#')
            && triple[1].is_punct('!')
            && triple[2].inside(Bracket::Square).is_some()
    };
    body.chunks_exact(3).take_while(is_attribute).count() * 3
}

/// Returns the position after the generics at `start`, if there are any. The `>` of `->` and `=>`
/// closes nothing.
fn skip_generics(tokens: &[Token], start: usize) -> usize {
    let mut depth = 0;
    for at in start..tokens.len() {
        match &tokens[at] {
            Token::Punct('<') => depth += 1,
            Token::Punct('>') if !matches!(tokens[at - 1], Token::Punct('-' | '=')) => depth -= 1,
            _ if depth == 0 => return at,
            _ => {}
        }
    }
    tokens.len()
}

/// Returns whether an attribute is `#[test]`, by that name or by its path in the standard library.
fn is_test_attribute(attribute: &[Token]) -> bool {
    let [_, Token::Group(_, inside)] = attribute else { return false };
    let path = &inside[..path_len(inside)];
    match &path_names(path).collect::<Vec<_>>()[..] {
        ["test"] => path.len() == 1,
        ["core" | "std", "prelude", _, "test"] => true,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::token::lex;

    fn parse(text: &str) -> (Vec<Token>, Function) {
        let tokens = lex(text);
        let function = Function::parse(&tokens).unwrap_or_else(|error| panic!("{text}: {error:?}"));
        (tokens, function)
    }

    /// Asserts that the parser finds these parts of a function.
    #[track_caller]
    fn assert_parts(text: &str, name: &str, output: Option<&str>, kind: OutputKind) {
        let (tokens, function) = parse(text);
        assert!(tokens[function.at].is_ident("fn"), "{text}");
        assert!(tokens[function.name].is_ident(name), "{text}");
        assert!(tokens[function.params].inside(Bracket::Round).is_some(), "{text}");
        assert_eq!(function.body, tokens.len() - 1, "{text}");
        assert_eq!(
            function.output.clone().map(|at| &tokens[at]),
            output.map(lex).as_deref(),
            "{text}"
        );
        assert_eq!(function.output_kind(&tokens), kind, "{text}");
        assert_eq!(function.check(&tokens, Kind::Main), Ok(()), "{text}");
    }

    #[test]
    fn plain_functions() {
        assert_parts("async fn main() {}", "main", None, OutputKind::Unit);
        assert_parts("pub(in a::b) async fn f(x: u8) {}", "f", None, OutputKind::Unit);
        assert_parts(
            "async unsafe extern \"C\" fn f() -> u8 { 1 }",
            "f",
            Some("u8"),
            OutputKind::Nameable,
        );
        assert_parts("async fn f(self) -> Self {}", "f", Some("Self"), OutputKind::Nameable);
    }

    #[test]
    fn arrows_do_not_close_generics() {
        assert_parts(
            "async fn f<T: Iterator<Item = Option<fn() -> ()>>>(_: T) {}",
            "f",
            None,
            OutputKind::Unit,
        );
        assert_parts("async fn f<const N: usize = { 1 + 1 }>() {}", "f", None, OutputKind::Unit);
        assert_parts(
            "async fn f<T>() -> Result<(), Box<dyn Error + 'static>> where T: Fn() -> u8, {}",
            "f",
            Some("Result<(), Box<dyn Error + 'static>>"),
            OutputKind::Nameable,
        );
        assert_parts("async fn f<T>() where T: Fn() -> u8 {}", "f", None, OutputKind::Unit);
        assert_parts(
            "async fn f() -> Option<fn() -> ()> {}",
            "f",
            Some("Option<fn() -> ()>"),
            OutputKind::Nameable,
        );
    }

    #[test]
    fn some_outputs_are_allowed_only_in_the_signature() {
        let kind = OutputKind::OnlyInSignature;
        assert_parts("async fn f() -> ! {}", "f", Some("!"), kind);
        assert_parts("async fn f() -> impl Iterator {}", "f", Some("impl Iterator"), kind);
        assert_parts("async fn f() -> (u8, [impl A; 2]) {}", "f", Some("(u8, [impl A; 2])"), kind);
        assert_parts("async fn f() -> fn() -> ! {}", "f", Some("fn() -> !"), OutputKind::Nameable);
    }

    #[test]
    fn attributes_are_found_outside_and_inside() {
        let (_, function) = parse(
            "#[doc = \"x\"] #[should_panic] async fn f() { #![allow(a)] #![deny(b)] #[c] let x; }",
        );
        assert_eq!(function.attributes, [0..2, 2..4]);
        assert_eq!(function.r#async, Some(4));
        assert_eq!(function.inner_attributes, 6);
    }

    #[test]
    fn items_other_than_functions_with_a_body_are_refused() {
        for (text, message) in [
            ("struct S;", "expected an async function under this attribute"),
            ("", "expected an async function under this attribute"),
            ("#[a] async", "expected an async function under this attribute"),
            ("async fn", "expected the name of the function"),
            ("async fn f", "expected the parameters of the function"),
            ("async fn f<T", "expected the parameters of the function"),
            ("async fn f();", "expected a body: there is nothing here to run"),
        ] {
            let tokens = lex(text);
            let error = Function::parse(&tokens).expect_err(text);
            assert_eq!(error.message, message, "{text}");
            assert!(error.at.end <= tokens.len(), "{text}");
        }
        for (text, at) in
            [("pub struct S;", 0..1), ("#[a] pub struct S;", 2..3), ("async fn f();", 4..5)]
        {
            assert_eq!(Function::parse(&lex(text)).unwrap_err().at, at, "{text}");
        }
    }

    #[test]
    fn errors_point_at_their_tokens() {
        let check = |text: &str, kind| {
            let (tokens, function) = parse(text);
            function.check(&tokens, kind).map_err(|error| (error.message, error.at))
        };
        let no_async = "the `async` keyword is missing from the function declaration".to_owned();
        assert_eq!(check("pub fn f() {}", Kind::Test), Err((no_async, 1..2)));

        let arguments = "the main function cannot accept arguments".to_owned();
        assert_eq!(check("async fn main(x: u8) {}", Kind::Main), Err((arguments, 3..4)));
        assert_eq!(check("async fn other(x: u8) {}", Kind::Main), Ok(()));
        assert_eq!(check("async fn main(x: u8) {}", Kind::Test), Ok(()));
    }

    #[test]
    fn a_test_in_a_simulation_has_at_most_one_argument() {
        let check = |text: &str| {
            let (tokens, function) = parse(text);
            function.check_sim(&tokens).map_err(|error| error.at)
        };
        assert_eq!(check("async fn f() {}"), Ok(false));
        assert_eq!(check("async fn f(sim: Sim) -> u8 {}"), Ok(true));
        assert_eq!(check("async fn f(Sim { .. }: Sim<(u8, u8)>,) {}"), Ok(true));
        assert_eq!(check("async fn f(a: Sim, b: u8) {}"), Err(3..4));
        assert_eq!(check("async fn f<T>(a: T) {}"), Err(6..7));
        assert_eq!(check("fn f() {}"), Err(0..1));
    }

    #[test]
    fn a_second_test_attribute_is_refused_whatever_its_path() {
        let second = |attribute: &str| {
            let (tokens, function) = parse(&format!("#[ignore] #[{attribute}] async fn f() {{}}"));
            assert_eq!(function.check(&tokens, Kind::Main), Ok(()));
            function.check(&tokens, Kind::Test).err().map(|error| error.at)
        };
        for attribute in ["test", "::core::prelude::v1::test", "std::prelude::rust_2024::test"] {
            assert_eq!(second(attribute), Some(2..4), "{attribute}");
        }
        let (tokens, function) = parse("#[::core::prelude::v1::test] fn expanded_before() {}");
        assert_eq!(
            function.check(&tokens, Kind::Test).unwrap_err().at,
            0..2,
            "rather than the missing async"
        );
        for attribute in ["my::test", "test_case", "should_panic", "cfg(test)", "::test"] {
            assert_eq!(second(attribute), None, "{attribute}");
        }
    }
}
