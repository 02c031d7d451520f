//! Tests of `args.rs`: accepted arguments, and the message and tokens of each error.

use super::*;
use crate::token::lex;

const MAIN: Entry = Entry { kind: Kind::Main, target: TargetCrate::Wakeful };
const TEST: Entry = Entry { kind: Kind::Test, target: TargetCrate::Wakeful };
const TOKIO_TEST: Entry = Entry { kind: Kind::Test, target: TargetCrate::Tokio };

/// The features of a build with `full` and `test-util`.
const ALL: Features = Features { multi_thread: true, test_util: true };

fn parse(text: &str, entry: Entry) -> Options {
    Options::parse(&lex(text), entry, ALL).unwrap_or_else(|error| panic!("{text}: {error:?}"))
}

/// Returns the message, and the tokens that it points at, separated by spaces.
fn error(text: &str, entry: Entry, features: Features) -> (String, String) {
    let tokens = lex(text);
    let error = Options::parse(&tokens, entry, features).expect_err(text);
    assert_eq!(error.needs_feature, features != ALL, "{text}");
    let at = tokens[error.at].iter().map(|token| match token {
        Token::Ident(text) | Token::Literal(text) => text.clone(),
        Token::Punct(char) => char.to_string(),
        Token::Group(..) => "(…)".to_owned(),
    });
    (error.message, at.collect::<Vec<_>>().join(" "))
}

#[track_caller]
fn assert_error(text: &str, entry: Entry, message: &str, at: &str) {
    assert_eq!(error(text, entry, ALL), (message.to_owned(), at.to_owned()), "{text}");
}

#[test]
fn without_arguments_main_is_multi_thread_and_test_is_current_thread() {
    assert_eq!(parse("", MAIN).flavor, Flavor::MultiThread);
    assert_eq!(parse("", TEST).flavor, Flavor::CurrentThread);
    assert_eq!(parse("", TOKIO_TEST), Options::default_of(TOKIO_TEST, ALL));
    let nothing = parse("", MAIN);
    assert_eq!((nothing.worker_threads, nothing.start_paused, nothing.name), (None, None, None));
    assert_eq!((nothing.crate_path, nothing.unhandled_panic), (None, None));
    assert_eq!(nothing.timeout, None);
}

#[test]
fn every_option_is_understood() {
    let options = parse(
        r#"flavor = "multi_thread", worker_threads = 4, name = "mine", crate = "a::b","#,
        TEST,
    );
    assert_eq!(options.flavor, Flavor::MultiThread);
    assert_eq!(options.worker_threads, Some(4));
    assert_eq!(options.name, Some(10), "the position of the literal");
    assert_eq!(options.crate_path, Some(CratePath::Text { path: "a::b".into(), at: 14 }));

    let options = parse(
        r#"start_paused = true, unhandled_panic = "shutdown_runtime", flavor = "current_thread""#,
        MAIN,
    );
    assert_eq!(options.flavor, Flavor::CurrentThread);
    assert_eq!(options.start_paused, Some(true));
    assert_eq!(options.unhandled_panic, Some(UnhandledPanic::ShutdownRuntime));

    let options =
        parse(r#"flavor = "local", start_paused = false, unhandled_panic = "ignore""#, MAIN);
    assert_eq!(options.flavor, Flavor::Local);
    assert_eq!(options.start_paused, Some(false));
    assert_eq!(options.unhandled_panic, Some(UnhandledPanic::Ignore));
}

#[test]
fn the_crate_may_be_a_path_too() {
    assert_eq!(parse("crate = renamed", MAIN).crate_path, Some(CratePath::Tokens(2..3)));
    assert_eq!(
        parse("crate = ::a::b, worker_threads = 1", MAIN).crate_path,
        Some(CratePath::Tokens(2..8))
    );
    for text in ["a", "::a", "a::b", " a :: b ", "r#crate_1::x", "crate", "self::a"] {
        assert!(is_path(text), "{text}");
    }
    for text in ["", "456", "a:b", "a::", "a b", "::", "a::_", "a-b", "a::1"] {
        assert!(!is_path(text), "{text}");
    }
}

#[test]
fn literals_are_read_as_rust_writes_them() {
    assert_eq!(parse("worker_threads = 1_0", MAIN).worker_threads, Some(10));
    assert_eq!(parse("worker_threads = 8usize", MAIN).worker_threads, Some(8));
    assert_eq!(Literal(r####"r##"local"##"####).text(), Some("local"));
    assert_eq!(Literal(r#"r"local""#).text(), Some("local"));
    assert_eq!(Literal(r#"b"local""#).text(), None);
    assert_eq!(Literal("'x'").text(), None);
    for (text, value) in [("0x1F", 31), ("0b1_0u8", 2), ("0o17", 15), ("3_i64", 3), ("0", 0)] {
        assert_eq!(Literal(text).integer(), Some(Ok(value)), "{text}");
    }
    for text in ["1.5", "\"4\"", "'4'", "1e3", "0x", "true"] {
        assert_eq!(Literal(text).integer(), None, "{text}");
    }
}

#[test]
fn unknown_and_bare_words_say_what_would_be_right() {
    let expected = "Unknown attribute foo is specified; expected one of: `flavor`, `worker_threads`, \
                    `start_paused`, `crate`, `unhandled_panic`, `name`.";
    assert_error("foo", MAIN, expected, "foo");
    let expected_of_test = expected.replace("`name`.", "`name`, `timeout`.");
    assert_error("foo = 123", TEST, &expected_of_test, "foo = 123");
    assert_error(r#"flavor = "local", foo = 1, name = "x""#, TEST, &expected_of_test, "foo = 1");
    assert_error("foo = 123", TOKIO_TEST, expected, "foo = 123");
    assert_error("threadpool::bar", MAIN, "Must have specified ident", "threadpool : : bar");
    assert_error("::bar = 1", MAIN, "Must have specified ident", ": : bar");
    assert_error("foo(1)", MAIN, "Unknown attribute inside the macro", "foo (…)");
    assert_error(
        "\"multi_thread\"",
        MAIN,
        "Unknown attribute inside the macro",
        "\"multi_thread\"",
    );
    assert_error(
        "multi_thread",
        TOKIO_TEST,
        "Set the runtime flavor with #[tokio::test(flavor = \"multi_thread\")].",
        "multi_thread",
    );
    assert_error(
        "current_thread",
        MAIN,
        "Set the runtime flavor with #[wakeful::main(flavor = \"current_thread\")].",
        "current_thread",
    );
    assert_error(
        "start_paused",
        TEST,
        "The `start_paused` attribute requires an argument.",
        "start_paused",
    );
    assert_error(
        "core_threads = 2",
        MAIN,
        "Attribute `core_threads` is renamed to `worker_threads`",
        "core_threads = 2",
    );
    assert_error(
        "worker_threads = 1,, name = \"x\"",
        MAIN,
        "expected an option before this comma",
        ",",
    );
}

#[test]
fn values_of_the_wrong_kind_are_pointed_at() {
    assert_error("flavor = 123", TEST, "Failed to parse value of `flavor` as string.", "123");
    assert_error(
        "flavor = \"foo\"",
        TEST,
        "No such runtime flavor `foo`. The runtime flavors are `current_thread`, `local`, and `multi_thread`.",
        "\"foo\"",
    );
    assert_error(
        "flavor = \"basic_scheduler\"",
        TEST,
        "The `basic_scheduler` runtime flavor has been renamed to `current_thread`.",
        "\"basic_scheduler\"",
    );
    assert_error(
        r#"flavor = "multi_thread", worker_threads = "foo""#,
        TEST,
        "Failed to parse value of `worker_threads` as integer.",
        "\"foo\"",
    );
    assert_error(
        "worker_threads = 99999999999999999999999",
        MAIN,
        "Failed to parse value of `worker_threads` as integer: number too large to fit in target type",
        "99999999999999999999999",
    );
    assert_error("start_paused = 1", TEST, "Failed to parse value of `start_paused` as bool.", "1");
    assert_error("name = true", TEST, "Failed to parse value of `name` as string.", "true");
    assert_error("crate = 456", TEST, "Failed to parse value of `crate` as path.", "456");
    assert_error(
        "crate = \"456\"",
        TEST,
        "Failed to parse value of `crate` as path: \"456\"",
        "\"456\"",
    );
    assert_error("crate = a + b", TEST, "Must be a literal", "a + b");
    assert_error("worker_threads = COUNT", MAIN, "Must be a literal", "COUNT");
    assert_error("worker_threads = 1 + 1", MAIN, "Must be a literal", "1 + 1");
    assert_error("worker_threads =", MAIN, "Must be a literal", "worker_threads =");
    assert_error(
        "unhandled_panic = \"explode\"",
        TEST,
        "No such unhandled panic behavior `explode`. \
         The unhandled panic behaviors are `ignore` and `shutdown_runtime`.",
        "\"explode\"",
    );
}

#[test]
fn a_test_may_have_a_timeout() {
    let cases = [("10s", 10_000), ("500ms", 500), ("2m", 120_000), ("1.5s", 1_500)];
    for (text, millis) in cases {
        let options = parse(&format!("timeout = {text:?}"), TEST);
        assert_eq!(options.timeout, Some(Duration::from_millis(millis)), "{text}");
    }
    for text in ["10", "s", "-1s", "10 s", "", "0s", "1e999s", "5 minutes"] {
        assert_error(
            &format!("timeout = {text:?}"),
            TEST,
            &format!(
                "`timeout` must be a duration such as \"5s\", \"500ms\" or \"2m\", but it is {text:?}."
            ),
            &format!("{text:?}"),
        );
    }
    assert_error("timeout = 5", TEST, "Failed to parse value of `timeout` as string.", "5");
    assert_error("timeout", TEST, "The `timeout` attribute requires an argument.", "timeout");
    assert_error(
        r#"timeout = "1s", timeout = "2s""#,
        TEST,
        "`timeout` set multiple times.",
        "\"2s\"",
    );
}

#[test]
fn only_tests_of_wakeful_have_a_timeout() {
    let unknown = "Unknown attribute timeout is specified; expected one of: `flavor`, `worker_threads`, \
                   `start_paused`, `crate`, `unhandled_panic`, `name`.";
    assert_error(r#"timeout = "5s""#, MAIN, unknown, "timeout = \"5s\"");
    assert_error(r#"timeout = "5s""#, TOKIO_TEST, unknown, "timeout = \"5s\"");
    assert_error("timeout", TOKIO_TEST, unknown, "timeout");
}

#[test]
fn options_that_do_not_go_together_name_the_flavor_that_would() {
    assert_error(
        r#"flavor = "multi_thread", start_paused = false"#,
        TOKIO_TEST,
        "The `start_paused` option requires the `current_thread` runtime flavor. \
         Use `#[tokio::test(flavor = \"current_thread\")]`",
        "false",
    );
    assert_error(
        "start_paused = true",
        MAIN,
        "The `start_paused` option requires the `current_thread` runtime flavor. \
         Use `#[wakeful::main(flavor = \"current_thread\")]`",
        "true",
    );
    for text in ["worker_threads = 4", r#"flavor = "local", worker_threads = 4"#] {
        assert_error(
            text,
            TEST,
            "The `worker_threads` option requires the `multi_thread` runtime flavor. \
             Use `#[wakeful::test(flavor = \"multi_thread\")]`",
            "4",
        );
    }
    assert_error(
        r#"flavor = "multi_thread", unhandled_panic = "shutdown_runtime""#,
        TOKIO_TEST,
        "The `unhandled_panic` option requires the `current_thread` runtime flavor. \
         Use `#[tokio::test(flavor = \"current_thread\")]`",
        "\"shutdown_runtime\"",
    );
}

#[test]
fn each_option_may_be_set_once() {
    for (text, name, second) in [
        (r#"flavor = "local", flavor = "current_thread""#, "flavor", "\"current_thread\""),
        ("worker_threads = 1, worker_threads = 2", "worker_threads", "2"),
        ("start_paused = true, start_paused = false", "start_paused", "false"),
        ("crate = a, crate = b", "crate", "b"),
        (r#"name = "a", name = "b""#, "name", "\"b\""),
        (
            r#"unhandled_panic = "ignore", unhandled_panic = "ignore""#,
            "unhandled_panic",
            "\"ignore\"",
        ),
    ] {
        assert_error(text, MAIN, &format!("`{name}` set multiple times."), second);
    }
}

#[test]
fn multi_thread_without_its_feature_names_the_feature_and_the_other_flavor() {
    let features = Features { multi_thread: false, ..ALL };
    let (message, at) = error("", MAIN, features);
    assert_eq!(
        message,
        "The runtime flavor `multi_thread` (the default of this attribute) needs the feature \
         `rt-multi-thread` of the crate `wakeful`, which is not enabled. Add it in Cargo.toml: \
         `wakeful = { …, features = [\"rt-multi-thread\"] }`, or choose the other flavor: \
         `#[wakeful::main(flavor = \"current_thread\")]`"
    );
    assert_eq!(at, "", "there is no argument to point at");

    let (message, at) = error(r#"flavor = "multi_thread""#, TOKIO_TEST, features);
    assert_eq!(
        message,
        "The runtime flavor `multi_thread` needs the feature `rt-multi-thread` of the crate \
         `tokio`, which is not enabled. Add it in Cargo.toml: \
         `tokio = { …, features = [\"rt-multi-thread\"] }`, or choose the other flavor: \
         `#[tokio::test(flavor = \"current_thread\")]`"
    );
    assert_eq!(at, "\"multi_thread\"");

    for (text, entry) in [("", TEST), (r#"flavor = "local""#, MAIN)] {
        assert!(Options::parse(&lex(text), entry, features).is_ok(), "{text}");
    }
    assert_eq!(Options::default_of(MAIN, features).flavor, Flavor::CurrentThread);
}

#[test]
fn start_paused_without_its_feature_names_the_feature() {
    let features = Features { test_util: false, ..ALL };
    for text in ["start_paused = true", "start_paused = false"] {
        let (message, at) = error(text, TEST, features);
        assert_eq!(
            message,
            "The option `start_paused` needs the feature `test-util` of the crate `wakeful`, which \
             is not enabled. Add it in Cargo.toml: \
             `wakeful = { …, features = [\"test-util\"] }`, under `[dev-dependencies]` if only tests \
             need it"
        );
        assert!(text.ends_with(&at), "{at}");
    }
    assert!(Options::parse(&lex(r#"name = "mine""#), TEST, features).is_ok());
}
