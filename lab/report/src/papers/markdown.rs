//! Replaces generated tables between `results:begin` and `results:end` comments of a Markdown file; all other text is
//! preserved.

use super::claims::{Claim, Means};
use std::ops::Range;

const BEGIN: &str = "<!-- results:begin ";
const END: &str = "<!-- results:end -->";
/// Text in place of a value that was not measured yet.
const NOT_MEASURED: &str = "not run yet";

/// The existing content of a section, from which rows without new results are preserved.
#[derive(Clone, Copy, Debug, Default)]
pub struct ExistingSection<'a>(&'a str);

impl<'a> ExistingSection<'a> {
    /// Returns the content of a section in `document`; empty if it does not exist.
    pub fn find(document: &'a str, id: &str) -> ExistingSection<'a> {
        ExistingSection(content_range(document, id).ok().flatten().map_or("", |range| &document[range]))
    }

    /// Returns the existing table row of a claim.
    fn claim(self, what: &str, paper: &str) -> Option<&'a str> {
        let first_cells = format!("| {} | {} |", cell(what), cell(paper));
        self.0.lines().find(|line| line.starts_with(&first_cells))
    }

    /// Returns the existing table of means of an entry.
    fn means(self, name: &str) -> Option<&'a str> {
        let rest = &self.0[self.0.find(&means_mark(name))?..];
        // The table ends at the next comment; `rest` itself begins with a comment, hence the offset of 1.
        Some(rest[..rest[1..].find("<!-- ").map_or(rest.len(), |end| end + 1)].trim_end())
    }
}

/// Returns the comment that marks the table of means of an entry.
fn means_mark(name: &str) -> String {
    format!("<!-- means of {name} -->")
}

/// The results of an entry of the list.
pub struct EntryResults {
    /// Name of the entry. A section may have several entries for the same file.
    pub name: String,
    pub claims: Vec<Claim>,
    /// The table of means; `None` if it could not be computed.
    pub means: Option<Means>,
    /// True if the entry has `columns`, and so a table of means.
    pub has_means_table: bool,
}

/// Returns the new content of a section.
pub fn content(entries: &[EntryResults], existing: ExistingSection<'_>) -> String {
    let mut text = String::new();
    let claims: Vec<&Claim> = entries.iter().flat_map(|entry| &entry.claims).collect();
    if !claims.is_empty() {
        text.push_str(
            "| claim | paper | measured | command | reason for difference |\n|---|---|---|---|---|\n",
        );
        for claim in claims {
            let line = match (&claim.ours, existing.claim(&claim.what, &claim.paper)) {
                (None, Some(line)) => line.to_owned(),
                (ours, _) => {
                    let ours = ours.as_deref().unwrap_or(NOT_MEASURED);
                    let command = format!("`{}`", claim.command);
                    row(&[&claim.what, &claim.paper, ours, &command, &claim.reason])
                }
            };
            text.push_str(&line);
            text.push('\n');
        }
    }
    for entry in entries.iter().filter(|entry| entry.has_means_table) {
        let table = match (&entry.means, existing.means(&entry.name)) {
            (Some(means), _) => {
                format!("{}\n`{}`\n\n{}", means_mark(&entry.name), means.command, means_table(means))
            }
            (None, Some(table)) => table.to_owned(),
            (None, None) => continue,
        };
        text.push('\n');
        text.push_str(table.trim_end());
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
            command: "weir run x.yaml".into(),
            reason: "a | b".into(),
        }
    }

    fn entries(claims: Vec<Claim>, mean: Option<&str>) -> Vec<EntryResults> {
        let means = mean.map(|mean| Means {
            command: "weir sweep x.yaml".into(),
            head: vec!["scheme".into(), "queue".into()],
            rows: vec![vec!["fncc".into(), mean.into()]],
        });
        vec![EntryResults { name: "x".into(), claims, means, has_means_table: true }]
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
        assert!(new.contains("| queue | 1 (Fig. 1) | 2 | `weir run x.yaml` | a \\| b |\n"), "{new}");
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
    fn rows_without_new_results_are_preserved() {
        let empty = "<!-- results:begin a -->\n<!-- results:end -->\n";
        let first = content(
            &entries(vec![claim("queue", Some("2")), claim("rate", None)], Some("7")),
            ExistingSection::find(empty, "a"),
        );
        assert!(first.contains("| rate | 1 (Fig. 1) | not run yet |"));
        let document = replace_section(empty, "a", "A", &first).unwrap();
        let second = content(
            &entries(vec![claim("queue", None), claim("rate", Some("3"))], None),
            ExistingSection::find(&document, "a"),
        );
        assert!(
            second.contains("| queue | 1 (Fig. 1) | 2 |") && second.contains("| rate | 1 (Fig. 1) | 3 |")
        );
        assert!(second.contains("| fncc | 7 |"), "{second}");
        let document = replace_section(&document, "a", "A", &second).unwrap();
        assert_eq!(
            content(
                &entries(vec![claim("queue", None), claim("rate", None)], None),
                ExistingSection::find(&document, "a")
            ),
            second
        );
    }
}
