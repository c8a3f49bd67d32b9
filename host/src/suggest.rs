//! Spelling suggestions for unknown names.

/// Largest Damerau-Levenshtein distance at which a name is suggested.
const MAX_EDIT_DISTANCE: usize = 2;

/// Returns `; did you mean "fncc"?` with the name closest to `word`, or an empty string if no name is close.
pub fn did_you_mean<'a>(word: &str, names: impl IntoIterator<Item = &'a str>) -> String {
    closest_match(word, names).map_or_else(String::new, |name| format!("; did you mean \"{name}\"?"))
}

/// Returns the name closest to `word`; `None` if no name is close.
///
/// A name is close if its edit distance is at most 2 and less than half of its length, both without regard to case. Among
/// equally close names the alphabetically first is returned.
pub fn closest_match<'a>(word: &str, names: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let word = word.to_lowercase();
    let distance = |name: &str| strsim::damerau_levenshtein(&word, &name.to_lowercase());
    let distances = names.into_iter().map(|name| (distance(name), name));
    let near = distances
        .filter(|&(distance, name)| distance <= MAX_EDIT_DISTANCE && distance * 2 < name.chars().count());
    near.min().map(|(_, name)| name)
}

#[cfg(test)]
mod tests {
    use super::did_you_mean;

    #[test]
    fn a_typo_has_a_suggestion_and_another_word_has_none() {
        let names = ["hpcc", "fncc", "dcqcn", "expresspass"];
        assert_eq!(did_you_mean("fnc", names), "; did you mean \"fncc\"?");
        assert_eq!(did_you_mean("dqccn", names), "; did you mean \"dcqcn\"?");
        assert_eq!(did_you_mean("FNCC", names), "; did you mean \"fncc\"?");
        assert_eq!(did_you_mean("h1", ["H1"]), "; did you mean \"H1\"?");
        assert_eq!(did_you_mean("swift", names), "");
        assert_eq!(did_you_mean("h9", ["h1", "h2"]), "", "half of the letters");
    }
}
