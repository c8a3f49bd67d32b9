//! Replaces generated tables between `results:begin` and `results:end` comments of a Markdown file; all other text is
//! preserved.

use super::claims::{Claim, Means};
use std::ops::Range;

const BEGIN: &str = "<!-- results:begin ";
const END: &str = "<!-- results:end -->";
/// Text in place of a value that was not measured yet.
const NOT_MEASURED: &str = "not run yet";

/// The existing content of a section, from which the tables of experiments without new results are preserved.
#[derive(Clone, Copy, Debug, Default)]
pub struct ExistingSection<'a>(&'a str);

impl<'a> ExistingSection<'a> {
    /// Returns the content of a section in `document`; empty if it does not exist.
    pub fn find(document: &'a str, id: &str) -> ExistingSection<'a> {
        ExistingSection(content_range(document, id).ok().flatten().map_or("", |range| &document[range]))
    }

    /// Returns the existing tables of an entry, with their mark.
    fn entry(self, name: &str) -> Option<&'a str> {
        let rest = &self.0[self.0.find(&mark(name))?..];
        // They end at the next comment; `rest` itself begins with a comment, hence the offset of 1.
        Some(rest[..rest[1..].find("<!-- ").map_or(rest.len(), |end| end + 1)].trim_end())
    }
}

/// Returns the comment before the tables of an entry.
fn mark(name: &str) -> String {
    format!("<!-- experiment {name} -->")
}

/// The results of an entry of the list.
pub struct EntryResults {
    /// Name of the entry. A section may have several entries for the same file.
    pub name: String,
    /// Command that reproduces the results.
    pub command: String,
    pub claims: Vec<Claim>,
    /// The table of means; `None` if it could not be computed.
    pub means: Option<Means>,
    /// True if the entry has `columns`, and so a table of means.
    pub has_means_table: bool,
}

impl EntryResults {
    /// Returns whether all runs of the entry are done.
    fn is_complete(&self) -> bool {
        self.claims.iter().all(|claim| claim.ours.is_some()) && self.means.is_some() == self.has_means_table
    }

    /// Returns the command and the tables of the entry.
    fn tables(&self) -> String {
        let mut text = format!("{}\n`{}`\n", mark(&self.name), self.command);
        if !self.claims.is_empty() {
            text.push_str("\n| claim | paper | Weir | reason for difference |\n|---|---|---|---|\n");
        }
        for claim in &self.claims {
            let ours = claim.ours.as_deref().unwrap_or(NOT_MEASURED);
            text.push_str(&row(&[&claim.what, &claim.paper, ours, &claim.reason]));
            text.push('\n');
        }
        if let Some(means) = &self.means {
            text.push('\n');
            text.push_str(&means_table(means));
        }
        text
    }
}

/// Returns the new content of a section.
pub fn content(entries: &[EntryResults], existing: ExistingSection<'_>) -> String {
    let mut text = String::new();
    for entry in entries.iter().filter(|entry| entry.has_means_table || !entry.claims.is_empty()) {
        let tables = match existing.entry(&entry.name) {
            Some(tables) if !entry.is_complete() => tables.to_owned(),
            None if entry.claims.is_empty() && entry.means.is_none() => continue,
            _ => entry.tables(),
        };
        // The comment that marks the section precedes the first one.
        if !text.is_empty() {
            text.push('\n');
        }
        text.push_str(tables.trim_end());
        text.push('\n');
    }
    text
}

fn means_table(means: &Means) -> String {
    let mut text = row(&means.head.iter().map(String::as_str).collect::<Vec<_>>());
    text.push('\n');
    text.push_str(&format!("|{}\n", "---|".repeat(means.head.len())));
    for line in &means.rows {
        text.push_str(&row(&line.iter().map(String::as_str).collect::<Vec<_>>()));
        text.push('\n');
    }
    text
}

fn row(cells: &[&str]) -> String {
    let cells: Vec<String> = cells.iter().map(|text| cell(text)).collect();
    format!("| {} |", cells.join(" | "))
}

/// Escapes text for a table cell.
fn cell(text: &str) -> String {
    text.trim().replace('|', "\\|").replace('\n', " ")
}

/// Returns the byte range of a section's content, between the markers. `None` if the document has no such section.
fn content_range(document: &str, id: &str) -> Result<Option<Range<usize>>, String> {
    let begin = format!("{BEGIN}{id} -->");
    let Some(mark) = document.find(&begin) else { return Ok(None) };
    let from = mark + begin.len();
    let from = from + document[from..].find('\n').map_or(0, |line| line + 1);
    let to = document[from..].find(END).map(|to| from + to);
    match to {
        Some(to) if !document[from..to].contains(BEGIN) => Ok(Some(from..to)),
        _ => Err(format!("missing {END} after {begin}")),
    }
}

/// Returns whether the document has a section.
pub fn has_section(document: &str, id: &str) -> bool {
    document.contains(&format!("{BEGIN}{id} -->"))
}

/// Returns the document with `content` as the content of section `id`. A missing section is appended with the heading `title`.
///
/// # Errors
///
/// If the end marker is missing, or the section is duplicate.
pub fn replace_section(document: &str, id: &str, title: &str, content: &str) -> Result<String, String> {
    Ok(match content_range(document, id)? {
        Some(range) => format!("{}{content}{}", &document[..range.start], &document[range.end..]),
        None => {
            format!("{}\n\n## {title}\n\n{BEGIN}{id} -->\n{content}{END}\n", document.trim_end())
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn claim(what: &str, ours: Option<&str>) -> Claim {
        Claim {
            what: what.into(),
            paper: "1 (Fig. 1)".into(),
            ours: ours.map(str::to_owned),
            reason: "a | b".into(),
        }
    }

    fn entries(claims: Vec<Claim>, mean: Option<&str>) -> Vec<EntryResults> {
        let means = mean.map(|mean| Means {
            head: vec!["scheme".into(), "queue".into()],
            rows: vec![vec!["fncc".into(), mean.into()]],
        });
        let command = "weir sweep x.yaml".into();
        vec![EntryResults { name: "x".into(), command, claims, means, has_means_table: true }]
    }

    #[test]
    fn text_is_preserved_and_tables_are_replaced() {
        let document =
            "# Results\n\nBefore.\n\n<!-- results:begin a -->\nold\n<!-- results:end -->\n\nAfter.\n";
        let text = content(
            &entries(vec![claim("queue", Some("2"))], Some("7")),
            ExistingSection::find(document, "a"),
        );
        let new = replace_section(document, "a", "A", &text).unwrap();
        assert!(
            new.starts_with("# Results\n\nBefore.\n")
                && new.ends_with("\n\nAfter.\n")
                && !new.contains("old")
        );
        assert!(
            new.contains("`weir sweep x.yaml`\n\n| claim | ")
                && new.contains("| queue | 1 (Fig. 1) | 2 | a \\| b |\n")
        );
        assert!(new.contains("| scheme | queue |\n|---|---|\n| fncc | 7 |\n"), "{new}");
        assert_eq!(replace_section(&new, "a", "A", &text).unwrap(), new, "a second time changes nothing");
        let elsewhere = replace_section(&new, "b", "B", "x\n").unwrap();
        assert!(elsewhere.ends_with("## B\n\n<!-- results:begin b -->\nx\n<!-- results:end -->\n"));
        assert!(
            replace_section("<!-- results:begin a -->\n", "a", "A", "").unwrap_err().contains("results:end")
        );
    }

    /// Two entries run the same file with different loads. A second, interrupted command has results of one entry only.
    #[test]
    fn tables_of_entries_with_the_same_file_are_distinguished() {
        let named =
            |name: &str, mean| EntryResults { name: name.into(), ..entries(Vec::new(), mean).remove(0) };
        let tables = |light, heavy| [named("x", light), named("x+", heavy)];
        let empty = "<!-- results:begin a -->\n<!-- results:end -->\n";
        let both = content(&tables(Some("2"), Some("7")), ExistingSection::find(empty, "a"));
        let document = replace_section(empty, "a", "A", &both).unwrap();
        assert_eq!(content(&tables(None, None), ExistingSection::find(&document, "a")), both);
        let heavy = content(&tables(None, Some("8")), ExistingSection::find(&document, "a"));
        assert_eq!(heavy, both.replace("| fncc | 7 |", "| fncc | 8 |"));
    }

    #[test]
    fn an_experiment_with_missing_runs_keeps_its_tables() {
        let update = |document: &str, entries: &[EntryResults]| {
            let text = content(entries, ExistingSection::find(document, "a"));
            replace_section(document, "a", "A", &text).unwrap()
        };
        let (queue, rate) = (|ours| claim("queue", ours), |ours| claim("rate", ours));
        let empty = "<!-- results:begin a -->\n<!-- results:end -->\n";
        assert_eq!(update(empty, &entries(Vec::new(), None)), empty);
        let first = update(empty, &entries(vec![queue(Some("2")), rate(None)], None));
        assert!(first.contains("| rate | 1 (Fig. 1) | not run yet |"), "{first}");
        let whole = update(&first, &entries(vec![queue(Some("2")), rate(Some("3"))], Some("7")));
        assert!(!whole.contains("not run yet") && whole.contains("| fncc | 7 |"), "{whole}");
        assert_eq!(update(&whole, &entries(vec![queue(Some("4")), rate(None)], None)), whole);
        assert_eq!(update(&whole, &entries(vec![queue(Some("4")), rate(Some("3"))], None)), whole);
    }
}
