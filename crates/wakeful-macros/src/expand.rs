//! The expansion. This is the only file that uses the compiler's tokens.
//!
//! The function keeps its own tokens with their spans, so the compiler reports errors in it at the
//! right location. All added code comes from the templates below. Mixed-site hygiene keeps its
//! names apart from those of the function.

use std::ops::Range;

use proc_macro::{Delimiter, Group, Ident, Literal, Span, TokenStream, TokenTree};

use crate::args::{CratePath, Entry, Features, Flavor, Kind, Options, TargetCrate, UnhandledPanic};
use crate::function::{Function, OutputKind};
use crate::sim_args::SimOptions;
use crate::token::{Bracket, Error, Token};

/// The new body. The runtime is declared before the future, so that it outlives the future. The
/// future is pinned where it is created, so that a large future is not moved.
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

/// The first statement of the future. It never runs, but it gives the compiler the type of
/// `return`, `?` and the last expression before it reads them.
const OUTPUT_HINT: &str = r#"
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

/// The type of a test's future. It is the same for all tests with one output type, so `block_on` is
/// compiled once for them.
const PINNED_TYPE: &str = ": ::core::pin::Pin<&mut dyn ::core::future::Future<Output = OUTPUT>>";

/// Expands the attribute `entry` with these arguments on this item.
///
/// The function is expanded also after an error, so that the compiler reports only that error.
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

/// The body of a test in a simulation. The original function is kept unchanged, inside the new one.
const SIM_BODY: &str = r#"
    FUNCTION
    CRATE::sim::run_test(
        ::core::concat!(::core::module_path!(), "::", ::core::stringify!(NAME)),
        SEEDS,
        STRATEGY,
        |sim| { let _ = &sim; NAME(ARGUMENT) },
    )
"#;

/// Expands the attribute `#[sim]` with these arguments on this item.
pub(crate) fn expand_sim(args: TokenStream, item: TokenStream) -> TokenStream {
    let args = Source::new(args);
    let source = Source::new(item.clone());
    let parsed = Function::parse(&source.tokens)
        .and_then(|function| Ok((function.check_sim(&source.tokens)?, function)));
    let (has_argument, function) = match parsed {
        Ok(parsed) => parsed,
        Err(error) => return TokenStream::from_iter([source.compile_error(&error), item]),
    };
    match SimOptions::parse(&args.tokens) {
        Ok(options) => source.sim_test(&function, has_argument, &options, &args),
        Err(error) => TokenStream::from_iter([args.compile_error(&error), item]),
    }
}

/// Tokens in two forms: those of the compiler, and plain data for the parser, at equal positions.
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

    /// Returns `compile_error!("…")` with the span of the tokens that the error points at.
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

    /// Returns the synchronous test, which runs the function in simulations.
    fn sim_test(
        &self,
        function: &Function,
        has_argument: bool,
        options: &SimOptions,
        args: &Source,
    ) -> TokenStream {
        let attributes_end = function.attributes.last().map_or(0, |last| last.end);
        let span = Span::mixed_site().located_at(self.trees[function.name].span());
        let start = function.r#async.unwrap_or(function.at);
        let seeds = match options.seeds {
            Some(seeds) => format!("::core::option::Option::Some({seeds})"),
            None => "::core::option::Option::None".to_owned(),
        };
        let strategy = match options.strategy {
            Some(at) => args.stream(at..at + 1),
            None => TokenTree::from(Literal::string("swarm")).into(),
        };
        let holes = [
            ("FUNCTION", self.stream(start..self.trees.len())),
            ("CRATE", crate_path(TargetCrate::Wakeful, options.crate_path.as_ref(), args)),
            ("NAME", self.stream(function.name..function.name + 1)),
            ("SEEDS", template(&seeds, span, &[])),
            ("STRATEGY", strategy),
            ("ARGUMENT", template(if has_argument { "sim" } else { "" }, span, &[])),
        ];
        let mut expansion = self.stream(0..attributes_end);
        expansion.extend(template("#[::core::prelude::v1::test]", Span::call_site(), &[]));
        expansion.extend(self.stream(function.at..function.name + 1));
        expansion.extend(template("()", span, &[]));
        expansion.extend([braces(template(SIM_BODY, span, &holes), span)]);
        expansion
    }

    /// Returns the synchronous function, which runs the old body on a new runtime.
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

    /// Returns the new body in braces with the span of the old ones.
    fn body(
        &self,
        function: &Function,
        entry: Entry,
        options: &Options,
        args: &Source,
    ) -> TokenTree {
        let TokenTree::Group(old_body) = &self.trees[function.body] else {
            unreachable!("the parser found braces at this position");
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

        let mut future = with_output(OUTPUT_HINT);
        future.extend(statements);
        let pinned_type = match entry.kind {
            Kind::Test => with_output(PINNED_TYPE),
            Kind::Main => TokenStream::new(),
        };
        let name_span = Span::mixed_site().located_at(self.trees[function.name].span());
        let runtime_crate = crate_path(entry.target, options.crate_path.as_ref(), args);
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

/// Returns the calls on the builder for the options.
fn settings(
    entry: Entry,
    options: &Options,
    args: &Source,
    runtime_crate: &TokenStream,
    block_on_name: &str,
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
    call(".block_on_name(VALUE)", TokenTree::from(Literal::string(block_on_name)).into());
    call(".dump_on_signal(true)", TokenStream::new());
    if entry.kind == Kind::Test {
        match options.timeout {
            Some(limit) => {
                let nanos = u64::try_from(limit.as_nanos()).unwrap_or(u64::MAX);
                let some = ".test_timeout(::core::option::Option::Some(\
                            ::core::time::Duration::from_nanos(VALUE)))";
                call(some, TokenTree::from(Literal::u64_unsuffixed(nanos)).into());
            }
            None => call(".test_timeout(::core::option::Option::None)", TokenStream::new()),
        }
        call(".always_end_stuck_block_on(true)", TokenStream::new());
    }
    if entry == (Entry { kind: Kind::Test, target: TargetCrate::Wakeful }) {
        call(".on_orphan(CRATE::runtime::OrphanPolicy::Panic)", TokenStream::new());
    }
    calls
}

/// Returns the path of the crate that has the runtime.
///
/// The default is the crate `::wakeful`. For the tokio shim it is the name `tokio`, resolved where
/// the function is, as with tokio: programs re-export tokio and rely on it.
fn crate_path(target: TargetCrate, path: Option<&CratePath>, args: &Source) -> TokenStream {
    match (path, target) {
        (Some(CratePath::Tokens(range)), _) => args.stream(range.clone()),
        (Some(CratePath::Text { path, at }), _) => template(path, args.trees[*at].span(), &[]),
        (None, TargetCrate::Wakeful) => template("::wakeful", Span::call_site(), &[]),
        (None, TargetCrate::Tokio) => template("tokio", Span::call_site(), &[]),
    }
}

/// Returns the tokens of `text`, all with `span`, with the named holes filled.
fn template(text: &str, span: Span, holes: &[(&str, TokenStream)]) -> TokenStream {
    let stream = text.parse::<TokenStream>().expect("templates have valid tokens");
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

/// Removes the invisible delimiters around fragments of a `macro_rules!` macro, like `$vis`.
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
                Delimiter::None => unreachable!("`flatten` removed these"),
            };
            Token::Group(bracket, Source::new(group.stream()).tokens)
        }
    }
}
