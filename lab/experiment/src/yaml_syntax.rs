//! Says what is wrong with a text that is not YAML, where the parser says what it expected.

/// Returns line and column (from 1) and the reason for an error of the parser: `parser_reason` at this line and column.
pub(crate) fn explain(text: &str, line: usize, column: usize, parser_reason: &str) -> (usize, usize, String) {
    let lines: Vec<&str> = text.lines().collect();
    let content = line.checked_sub(1).and_then(|index| lines.get(index)).copied().unwrap_or("");
    let indent = indent_of(content);
    let before = &lines[..lines.len().min(line.saturating_sub(1))];
    let line_above = before.iter().rposition(|above| is_content(above));
    let here = |reason: String| (line, indent + 1, reason);
    let is_about_tab = parser_reason.to_lowercase().contains("tab")
        || parser_reason.contains("must be followed by a valid YAML whitespace");
    // The parser may be at the value before the line with the tab.
    let mut lines_with_tab =
        lines.iter().enumerate().skip(line.saturating_sub(1)).filter(|(_, text)| text.contains('\t'));
    if is_about_tab && let Some((index, text)) = lines_with_tab.next() {
        let tab = text.chars().position(|c| c == '\t').unwrap_or(0);
        let is_indentation = text.chars().take(tab).all(char::is_whitespace);
        let reason = match is_indentation {
            true => "this line is indented by a tab; YAML permits only spaces",
            false => "a tab; write a space instead",
        };
        return (index + 1, tab + 1, reason.to_owned());
    }
    match parser_reason {
        // The parser is at the colon of `key:`; a colon before it is that of the key that has this value.
        "mapping values are not allowed in this context" => {
            let prefix: String = content.chars().take(column.saturating_sub(1)).collect();
            match line_above.map(|index| (index + 1, indent_of(lines[index]))) {
                Some((above, above_indent)) if !prefix.contains(": ") && indent > above_indent => {
                    here(format!(
                        "this line is indented by {}, deeper than line {above} ({above_indent}), whose key already has a value",
                        columns(indent)
                    ))
                }
                _ => (line, column, "a second `: ` in one value; write the value in quotes".to_owned()),
            }
        }
        "while parsing a block mapping, did not find expected key"
        | "while parsing a block collection, did not find expected '-' indicator" => {
            let mut indents: Vec<usize> =
                before.iter().filter(|above| is_content(above)).flat_map(|above| indents_of(above)).collect();
            indents.sort_unstable();
            indents.dedup();
            if !indents.contains(&indent) {
                let known: Vec<String> = indents.iter().map(usize::to_string).collect();
                return here(format!(
                    "this line is indented by {}, as nothing above it ({})",
                    columns(indent),
                    known.join(", ")
                ));
            }
            if content.trim_start().starts_with("- ") {
                return here(
                    "a list entry among keys; indent it below the key that it belongs to".to_owned(),
                );
            }
            here(
                "this line continues neither the list nor the keys above it; check its indentation"
                    .to_owned(),
            )
        }
        "comment intercepting the multiline text" => {
            let after = lines.iter().enumerate().skip(line).find(|(_, text)| is_content(text));
            let (next, text) = after.map_or((line, content), |(index, text)| (index + 1, *text));
            let reason = format!(
                "this line is indented by {}, deeper than line {line} ({indent}), and so continues its value",
                columns(indent_of(text))
            );
            (next, indent_of(text) + 1, reason)
        }
        // The parser is at the line after the key.
        "simple key expect ':'" | "simple key expected ':'" => match line_above {
            Some(index) if column <= indent + 1 => {
                let reason = "expected `key: value`, with a space after the colon".to_owned();
                (index + 1, indent_of(lines[index]) + 1, reason)
            }
            _ => here("expected `key: value`, with a space after the colon".to_owned()),
        },
        "invalid indentation in quoted scalar"
        | "while scanning a quoted scalar, found unexpected end of stream" => (
            line,
            column,
            "the quote that begins here has no end, or a line that continues it is not indented".to_owned(),
        ),
        "illegal placement of ':' indicator"
        | "invalid indentation in flow construct"
        | "while parsing a flow sequence, expected ',' or ']'"
        | "while parsing a flow mapping, did not find expected ',' or '}'" => {
            (line, column, "expected `,` or a closing `]` or `}`; is one missing before this?".to_owned())
        }
        // The character is quoted: `@'.
        _ => match parser_reason.strip_prefix("unexpected character: `").and_then(|rest| rest.chars().next())
        {
            Some(character) => {
                (line, column, format!("a value cannot begin with `{character}`; write it in quotes"))
            }
            None => (line, column, format!("not YAML: {parser_reason}")),
        },
    }
}

/// Returns line, column and reason if a list entry in the lines `first` to `last`, which YAML reads as one text, has a line
/// that begins with `-`: it was meant to be an entry of its own.
pub(crate) fn continued_entry(text: &str, first: usize, last: usize) -> Option<(usize, usize, String)> {
    let above = indent_of(text.lines().nth(first.checked_sub(1)?)?);
    let is_meant_as_entry = |line: &str| line.trim_start().starts_with("- ") && indent_of(line) > above;
    let mut lines = text.lines().enumerate().take(last).skip(first);
    let (index, line) = lines.find(|(_, line)| is_meant_as_entry(line))?;
    let indent = indent_of(line);
    let reason = format!(
        "this line is indented by {}, deeper than the list entry in line {first} ({above}), and so continues its text; give \
         both the same indentation",
        columns(indent)
    );
    Some((index + 1, indent + 1, reason))
}

/// Number of spaces at the beginning of a line.
fn indent_of(line: &str) -> usize {
    line.len() - line.trim_start_matches(' ').len()
}

/// Returns the indentation of a line, and that of the keys in `- key: value`.
fn indents_of(line: &str) -> Vec<usize> {
    let mut indents = vec![indent_of(line)];
    let mut rest = line.trim_start();
    while let Some(entry) = rest.strip_prefix("- ").map(str::trim_start) {
        if entry.contains(": ") && !entry.starts_with(['{', '[', '"']) {
            indents.push(line.len() - entry.len());
        }
        rest = entry;
    }
    indents
}

fn columns(count: usize) -> String {
    if count == 1 { "1 column".to_owned() } else { format!("{count} columns") }
}

/// Returns whether a line is neither empty nor a comment.
fn is_content(line: &str) -> bool {
    !matches!(line.trim_start().chars().next(), None | Some('#'))
}
