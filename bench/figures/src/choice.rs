//! Names and prefixes on the command line.

/// Returns the names of `known` that a word of `wanted` matches, exactly or else by prefix.
///
/// Without words, returns all names. A word that matches nothing is an error.
pub fn choose<'a>(
    kind: &str,
    wanted: &[String],
    known: &[&'a str],
) -> Result<Vec<&'a str>, String> {
    let mut chosen = Vec::new();
    for word in wanted {
        let exact = known.iter().any(|name| name == word);
        let hits = known
            .iter()
            .filter(|name| if exact { *name == word } else { name.starts_with(word.as_str()) });
        let before = chosen.len();
        chosen.extend(hits);
        if chosen.len() == before {
            return Err(format!("no {kind} is named {word}; there are: {}", known.join(", ")));
        }
    }
    if wanted.is_empty() {
        chosen.extend(known);
    }
    Ok(chosen)
}

#[cfg(test)]
mod tests {
    use super::choose;

    #[test]
    fn a_name_beats_a_prefix() {
        let known = ["yield", "yield_wake", "yield_one", "block_on"];
        let pick = |word: &str| choose("row", &[word.into()], &known);
        assert_eq!(pick("yield"), Ok(vec!["yield"]));
        assert_eq!(pick("yield_"), Ok(vec!["yield_wake", "yield_one"]));
        assert!(pick("sleep").unwrap_err().contains("block_on"));
        assert_eq!(choose("row", &[], &known), Ok(known.to_vec()));
    }
}
