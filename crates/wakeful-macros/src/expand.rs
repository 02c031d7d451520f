//! From the compiler's tokens to the compiler's tokens: the only file that touches them.
//!
//! The function keeps its own tokens, spans and all, so whatever is wrong in it is reported where it stands. What is
//! added comes from the templates below; its names do not meet those of the function (mixed-site hygiene).

use std::ops::Range;

use proc_macro::{Delimiter, Group, Ident, Literal, Span, TokenStream, TokenTree};

use crate::args::{CratePath, Entry, Face, Features, Flavor, Kind, Options, UnhandledPanic};
use crate::function::{Function, OutputKind};
use crate::token::{Bracket, Error, Token};

/// The new body. The runtime comes before the future, so that it outlives it; the future is pinned where it is made,
/// so that it is not moved around however large it is.
const BODY: &str = r#"
    #[allow(clippy::expect_used, clippy::unwrap_in_result)]
    let runtime = CRATE::runtime::Builder::CONSTRUCTOR()
        .enable_all()
        SETTINGS
        .BUILD
        .expect("Failed building the Runtime");
    let body PINNED_TYPE = ::core::pin::pin!(async FUTURE);
    runtime.block_on(body)
"#;

/// What the future begins with: never run, but it tells the compiler what `return`, `?` and the last expression are
/// to be, before it has read any of them.
const OUTPUT_IS: &str = r#"
    #[allow(
        unreachable_code,
        clippy::diverging_sub_expression,
        clippy::empty_loop,
        clippy::let_unit_value,
        clippy::needless_return
    )]
    if false {
        let output: OUTPUT = loop {};
        return output;
    }
"#;

/// A test's future, behind one type for all tests with the same output: `block_on` is compiled once for them.
const PINNED_TYPE: &str = ": ::core::pin::Pin<&mut dyn ::core::future::Future<Output = OUTPUT>>";

/// Expands the attribute `entry` with these arguments on this item.
///
/// After a mistake the function is expanded all the same, so that the mistake is the only thing that is reported.
pub(crate) fn expand(entry: Entry, args: TokenStream, item: TokenStream) -> TokenStream {
    let args = Source::new(args);
    let source = Source::new(item.clone());

    let function = match Function::parse(&source.tokens) {
        Ok(function) => function,
        Err(error) => return TokenStream::from_iter([source.compile_error(&error), item]),
    };
    let mut expansion = TokenStream::new();
    if let Err(error) = function.check(&source.tokens, entry.kind) {
        expansion.extend(source.compile_error(&error));
    }
    let features = Features::ENABLED;
    let options = Options::parse(&args.tokens, entry, features).unwrap_or_else(|error| {
        if error.needs_feature && entry.kind == Kind::Test {
            expansion.extend(template("#[cfg(test)]", Span::call_site(), &[]));
        }
        expansion.extend(args.compile_error(&error));
        Options::default_of(entry, features)
    });
    expansion.extend(source.function(&function, entry, &options, &args));
    expansion
}

/// Tokens twice: as the compiler has them, and as plain data to parse. Position by position they are the same.
struct Source {
    trees: Vec<TokenTree>,
    tokens: Vec<Token>,
}

impl Source {
    fn new(stream: TokenStream) -> Self {
        let mut trees = Vec::new();
        flatten(stream, &mut trees);
        let tokens = trees.iter().map(to_token).collect();
        Source { trees, tokens }
    }

    fn stream(&self, range: Range<usize>) -> TokenStream {
        self.trees[range].iter().cloned().collect()
    }

    /// `compile_error!("…")`, underlining the tokens that the error points at.
    fn compile_error(&self, error: &Error) -> TokenStream {
        let at = &self.trees[error.at.clone()];
        let start = at.first().map_or_else(Span::call_site, TokenTree::span);
        let end = at.last().map_or_else(Span::call_site, TokenTree::span);
        let message = TokenTree::from(Literal::string(&error.message));
        let mut tokens = Vec::from_iter(template("::core::compile_error!", start, &[]));
        let mut group = Group::new(Delimiter::Brace, template_tree(message, end).into());
        group.set_span(end);
        tokens.push(group.into());
        TokenStream::from_iter(tokens)
    }

    /// The function, made synchronous, with its old body run on a new runtime.
    fn function(
        &self,
        function: &Function,
        entry: Entry,
        options: &Options,
        args: &Source,
    ) -> TokenStream {
        let attributes_end = function.attributes.last().map_or(0, |last| last.end);
        let mut expansion = self.stream(0..attributes_end);
        if entry.kind == Kind::Test {
            expansion.extend(template("#[::core::prelude::v1::test]", Span::call_site(), &[]));
        }
        let header = attributes_end..function.body;
        let header = header.filter(|&at| Some(at) != function.r#async);
        expansion.extend(header.map(|at| self.trees[at].clone()));
        expansion.extend([self.body(function, entry, options, args)]);
        expansion
    }

    /// The new body in its braces, which are where the old ones are.
    fn body(
        &self,
        function: &Function,
        entry: Entry,
        options: &Options,
        args: &Source,
    ) -> TokenTree {
        let TokenTree::Group(old_body) = &self.trees[function.body] else {
            unreachable!("the parser has found the braces here");
        };
        let mut statements = old_body.stream().into_iter();
        let inner_attributes =
            statements.by_ref().take(function.inner_attributes).collect::<TokenStream>();

        let output_span = match &function.output {
            Some(output) => self.trees[output.start].span(),
            None => self.trees[function.name].span(),
        };
        let output_span = Span::mixed_site().located_at(output_span);
        let output = match function.output_kind(&self.tokens) {
            OutputKind::Unit => Some(template("()", output_span, &[])),
            OutputKind::Nameable => function.output.clone().map(|output| self.stream(output)),
            OutputKind::OnlyInSignature => None,
        };
        let with_output = |text: &str| match &output {
            Some(output) => template(text, output_span, &[("OUTPUT", output.clone())]),
            None => TokenStream::new(),
        };

        let mut future = with_output(OUTPUT_IS);
        future.extend(statements);
        let pinned_type = match entry.kind {
            Kind::Test => with_output(PINNED_TYPE),
            Kind::Main => TokenStream::new(),
        };
        let name_span = Span::mixed_site().located_at(self.trees[function.name].span());
        let runtime_crate = crate_path(entry, options, args);
        let name = self.trees[function.name].to_string();
        let constructor = match options.flavor {
            Flavor::MultiThread => "new_multi_thread",
            Flavor::CurrentThread | Flavor::Local => "new_current_thread",
        };
        let build = match options.flavor {
            Flavor::Local => "build_local(::core::default::Default::default())",
            Flavor::MultiThread | Flavor::CurrentThread => "build()",
        };
        let holes = [
            ("CONSTRUCTOR", template(constructor, name_span, &[])),
            ("SETTINGS", settings(entry, options, args, &runtime_crate, &name, name_span)),
            ("BUILD", template(build, name_span, &[])),
            ("PINNED_TYPE", pinned_type),
            ("FUTURE", braces(future, old_body.span()).into()),
            ("CRATE", runtime_crate),
        ];
        let mut body = inner_attributes;
        body.extend(template(BODY, name_span, &holes));
        braces(body, old_body.span())
    }
}

/// The calls on the builder that the options ask for.
fn settings(
    entry: Entry,
    options: &Options,
    args: &Source,
    runtime_crate: &TokenStream,
    root_name: &str,
    span: Span,
) -> TokenStream {
    let mut calls = TokenStream::new();
    let mut call = |text: &str, value: TokenStream| {
        calls.extend(template(text, span, &[("CRATE", runtime_crate.clone()), ("VALUE", value)]));
    };
    if let Some(threads) = options.worker_threads {
        call(".worker_threads(VALUE)", TokenTree::from(Literal::usize_unsuffixed(threads)).into());
    }
    if let Some(paused) = options.start_paused {
        call(".start_paused(VALUE)", TokenTree::from(Ident::new(&paused.to_string(), span)).into());
    }
    if let Some(at) = options.name {
        call(".name(VALUE)", args.stream(at..at + 1));
    }
    if let Some(policy) = options.unhandled_panic {
        let variant = match policy {
            UnhandledPanic::Ignore => "Ignore",
            UnhandledPanic::ShutdownRuntime => "ShutdownRuntime",
        };
        let call_with_path = ".unhandled_panic(CRATE::runtime::UnhandledPanic::VALUE)";
        call(call_with_path, TokenTree::from(Ident::new(variant, span)).into());
    }
    call(".root_name(VALUE)", TokenTree::from(Literal::string(root_name)).into());
    if entry.kind == Kind::Main {
        call(".dump_on_signal(true)", TokenStream::new());
    }
    if entry == (Entry { kind: Kind::Test, face: Face::Wakeful }) {
        call(".on_orphan(CRATE::runtime::OrphanPolicy::Panic)", TokenStream::new());
        call(".always_end_quiescent(true)", TokenStream::new());
    }
    calls
}

/// The path of the crate that has the runtime.
///
/// By default that is the crate `wakeful`, whatever else is called so where the function is; but for the tokio face it
/// is whatever `tokio` means there, as it is with tokio, because programs re-export tokio and rely on it.
fn crate_path(entry: Entry, options: &Options, args: &Source) -> TokenStream {
    match (&options.crate_path, entry.face) {
        (Some(CratePath::Tokens(range)), _) => args.stream(range.clone()),
        (Some(CratePath::Text { path, at }), _) => template(path, args.trees[*at].span(), &[]),
        (None, Face::Wakeful) => template("::wakeful", Span::call_site(), &[]),
        (None, Face::Tokio) => template("tokio", Span::call_site(), &[]),
    }
}

/// The tokens of `text`, all at `span`, with the named holes filled.
fn template(text: &str, span: Span, holes: &[(&str, TokenStream)]) -> TokenStream {
    let stream = text.parse::<TokenStream>().expect("a template is made of valid tokens");
    fill(stream, span, holes)
}

fn fill(stream: TokenStream, span: Span, holes: &[(&str, TokenStream)]) -> TokenStream {
    let mut filled = TokenStream::new();
    for tree in stream {
        match tree {
            TokenTree::Ident(ident) => {
                let name = ident.to_string();
                match holes.iter().find(|(hole, _)| *hole == name) {
                    Some((_, content)) => filled.extend(content.clone()),
                    None => filled.extend([template_tree(ident.into(), span)]),
                }
            }
            TokenTree::Group(group) => {
                let inside = fill(group.stream(), span, holes);
                filled.extend([template_tree(Group::new(group.delimiter(), inside).into(), span)]);
            }
            tree => filled.extend([template_tree(tree, span)]),
        }
    }
    filled
}

fn template_tree(mut tree: TokenTree, span: Span) -> TokenTree {
    tree.set_span(span);
    tree
}

fn braces(inside: TokenStream, span: Span) -> TokenTree {
    template_tree(Group::new(Delimiter::Brace, inside).into(), span)
}

/// Takes away the invisible brackets around what a `macro_rules!` macro has passed on (`$vis`, `$body`, …).
fn flatten(stream: TokenStream, into: &mut Vec<TokenTree>) {
    for tree in stream {
        match tree {
            TokenTree::Group(group) if group.delimiter() == Delimiter::None => {
                flatten(group.stream(), into)
            }
            tree => into.push(tree),
        }
    }
}

fn to_token(tree: &TokenTree) -> Token {
    match tree {
        TokenTree::Ident(ident) => Token::Ident(ident.to_string()),
        TokenTree::Punct(punct) => Token::Punct(punct.as_char()),
        TokenTree::Literal(literal) => Token::Literal(literal.to_string()),
        TokenTree::Group(group) => {
            let bracket = match group.delimiter() {
                Delimiter::Parenthesis => Bracket::Round,
                Delimiter::Bracket => Bracket::Square,
                Delimiter::Brace => Bracket::Curly,
                Delimiter::None => unreachable!("these were taken away"),
            };
            Token::Group(bracket, Source::new(group.stream()).tokens)
        }
    }
}
