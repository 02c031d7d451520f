//! Converts symbols to the function names that appear in source code.

/// Returns the path of a Rust function, or the symbol itself if it is not Rust's.
pub(super) fn readable(symbol: &str) -> String {
    demangle(symbol).unwrap_or_else(|| symbol.to_owned())
}

/// Returns the path of a Rust function from its symbol, without hash and generic arguments.
///
/// Returns `None` if the symbol is not Rust's.
pub(super) fn demangle(symbol: &str) -> Option<String> {
    let name = rustc_demangle::try_demangle(symbol).ok()?;
    Some(without_generic_arguments(&format!("{name:#}")))
}

/// Removes `::<…>` from a path. The arguments may be whole futures, and a reader wants the function.
fn without_generic_arguments(path: &str) -> String {
    let mut kept = String::with_capacity(path.len());
    let mut rest = path;
    while let Some(at) = rest.find("::<") {
        let (before, arguments) = rest.split_at(at);
        kept.push_str(before);
        rest = &arguments[closing_bracket(arguments)..];
    }
    kept + rest
}

/// Returns the position after the `>` that closes the first `<` of `text`, or the end of `text`.
fn closing_bracket(text: &str) -> usize {
    let mut depth = 0;
    let mut before = ' ';
    for (at, char) in text.char_indices() {
        match char {
            '<' => depth += 1,
            '>' if before == '-' => {} // the arrow of a function type
            '>' => {
                depth -= 1;
                if depth == 0 {
                    return at + 1;
                }
            }
            _ => {}
        }
        before = char;
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use super::{demangle, without_generic_arguments};

    #[test]
    fn names_are_read_as_they_were_written() {
        let cases = [
            ("_ZN4core3ptr13drop_in_place17h0123456789abcdefE", "core::ptr::drop_in_place"),
            ("_ZN3foo28_$u7b$$u7b$closure$u7d$$u7d$17h0123456789abcdefE", "foo::{{closure}}"),
            (
                "_ZN45_$LT$foo..Bar$u20$as$u20$core..fmt..Debug$GT$3fmt17h0123456789abcdefE",
                "<foo::Bar as core::fmt::Debug>::fmt",
            ),
        ];
        for (mangled, name) in cases {
            assert_eq!(demangle(mangled).as_deref(), Some(name));
        }
        let newer = "_RNvNtNtCsfEOYDRpO4Ta_11miniz_oxide7inflate4core15decompress_fast";
        assert_eq!(demangle(newer).as_deref(), Some("miniz_oxide::inflate::core::decompress_fast"));
        let generic = "_RINvCs1234_4test9run_testsNCNvB2_4main0EB2_";
        assert_eq!(demangle(generic).as_deref(), Some("test::run_tests"));
        assert_eq!(demangle("main"), None);
        assert_eq!(demangle("_ZN9"), None);
    }

    #[test]
    fn generic_arguments_are_left_out() {
        for (path, kept) in [
            ("a::b", "a::b"),
            ("a::b::<c::D<E>, f::G>::{closure#0}", "a::b::{closure#0}"),
            ("a::b::<fn(c) -> d::<E>>::f::<G>", "a::b::f"),
            ("<a::B<C> as d::E>::f", "<a::B<C> as d::E>::f"),
            ("a::b::<c", "a::b"),
        ] {
            assert_eq!(without_generic_arguments(path), kept);
        }
    }
}
