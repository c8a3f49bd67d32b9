//! Suggestions for names that do not exist.

/// The largest distance of two names at which one may be a misspelling of the other (Damerau and Levenshtein).
const MAX_EDIT_DISTANCE: usize = 2;

/// Returns `; did you mean "fncc"?` for the name [`closest_match`] to `word`, or nothing if there is none.
pub fn did_you_mean<'a>(word: &str, names: impl IntoIterator<Item = &'a str>) -> String {
    closest_match(word, names).map_or_else(String::new, |name| format!("; did you mean \"{name}\"?"))
}

/// Returns the name that is most like `word`, `Open` if none is like it.
///
/// A name is like it if at most two letters, and less than half of them, were left out, added, changed or swapped.
pub fn closest_match<'a>(word: &str, names: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let distances = names.into_iter().map(|name| (strsim::damerau_levenshtein(word, name), name));
    let near = distances
        .filter(|&(distance, name)| distance <= MAX_EDIT_DISTANCE && distance * 2 < name.chars().count());
    near.min().map(|(_, name)| name)
}

#[cfg(test)]
mod tests {
    use super::did_you_mean;

    #[test]
    fn a_slip_has_a_suggestion_and_another_word_has_none() {
        let names = ["hpcc", "fncc", "dcqcn", "expresspass"];
        assert_eq!(did_you_mean("fnc", names), "; did you mean \"fncc\"?");
        assert_eq!(did_you_mean("dqccn", names), "; did you mean \"dcqcn\"?");
        assert_eq!(did_you_mean("swift", names), "");
        assert_eq!(did_you_mean("h9", ["h1", "h2"]), "", "half of the letters");
    }
}
