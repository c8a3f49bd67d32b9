//! The documentation as a whole: links, citations in the code, the table of contents.

use std::fs;
use std::path::{Component, Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the workspace").to_owned()
}

/// Every file below `folder` whose name has one of the endings, as a path from the root.
pub fn files(dir: &str, endings: &[&str]) -> Vec<String> {
    let mut found = Vec::new();
    for entry in fs::read_dir(root().join(dir)).expect("a folder") {
        let entry = entry.expect("an entry");
        let name = entry.file_name().into_string().expect("names are UTF-8");
        let path = if dir.is_empty() { name.clone() } else { format!("{dir}/{name}") };
        let is_ours =
            !name.starts_with('.') && !["target", "runs", "build", "logs", "snapshots"].contains(&&*name);
        let kind = entry.file_type().expect("a type");
        if kind.is_symlink() {
            continue; // Its file is read where it is.
        }
        if kind.is_dir() {
            if is_ours {
                found.extend(files(&path, endings));
            }
        } else if endings.iter().any(|ending| name.ends_with(ending)) {
            found.push(path);
        }
    }
    found.sort();
    found
}

pub fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// A page without code blocks and code in lines.
fn prose(text: &str) -> String {
    let mut out = String::new();
    let mut in_block = false;
    for line in text.lines() {
        if line.trim_start().starts_with("```") {
            in_block = !in_block;
        } else if !in_block {
            out.extend(line.split('`').step_by(2).flat_map(|part| [part, " "]));
        }
        out.push('\n');
    }
    out
}

/// The anchors of a page: its headings as Git hosts and mdBook number them, and explicit `<a id="..">`.
fn anchors(text: &str) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    let mut in_block = false;
    for line in text.lines() {
        in_block ^= line.trim_start().starts_with("```");
        if let Some(heading) = line.strip_prefix('#').filter(|_| !in_block) {
            let heading = heading.trim_start_matches('#').trim().to_lowercase();
            let kept = heading.chars().filter(|c| c.is_alphanumeric() || " -_".contains(*c));
            let slug: String = kept.map(|c| if c == ' ' { '-' } else { c }).collect();
            let earlier = found.iter().filter(|other| **other == slug).count();
            found.push(if earlier == 0 { slug } else { format!("{slug}-{earlier}") });
        }
        found.extend(
            line.split("<a id=\"").skip(1).filter_map(|rest| Some(rest.split_once('"')?.0.to_owned())),
        );
    }
    found
}

/// `folder/to` without `..` and `.`.
fn resolve(dir: &Path, to: &str) -> PathBuf {
    let mut path = PathBuf::new();
    for part in dir.join(to).components() {
        match part {
            Component::ParentDir => {
                path.pop();
            }
            Component::CurDir => {}
            other => path.push(other),
        }
    }
    path
}

/// Describes what is wrong with a reference to a file, or to an anchor in a page.
fn fault(path: &Path, anchor: Option<&str>) -> Option<String> {
    if !root().join(path).exists() {
        return Some(format!("there is no {}", path.display()));
    }
    let anchor = anchor?;
    let page = read(&path.display().to_string());
    (!anchors(&page).iter().any(|other| other == anchor))
        .then(|| format!("{} has no anchor #{anchor}", path.display()))
}

pub fn pages() -> Vec<String> {
    let mut pages = files("docs", &[".md"]);
    pages.extend(files("examples", &["README.md"]));
    pages.extend(
        ["README", "ARCHITECTURE", "CONTRIBUTING", "CHANGELOG", "SECURITY"].map(|name| format!("{name}.md")),
    );
    pages
}

/// Returns the targets of a page's links, also those that `[key]: target` defines.
fn links(text: &str) -> Vec<String> {
    let mut found: Vec<String> =
        text.split("](").skip(1).filter_map(|rest| Some(rest.split_once(')')?.0.to_owned())).collect();
    let defined = text.lines().filter(|line| line.starts_with('[')).filter_map(|line| line.split_once("]: "));
    found.extend(defined.map(|(_, target)| target.trim().to_owned()));
    found
}

#[test]
fn every_link_leads_somewhere() {
    let (mut faults, mut checked) = (Vec::new(), 0);
    for page in pages() {
        let text = read(&page);
        let dir = Path::new(&page).parent().expect("a page is in a folder");
        for target in links(&prose(&text)) {
            if target.contains("://") || target.starts_with("mailto:") {
                continue;
            }
            checked += 1;
            let (to, anchor) =
                target.split_once('#').map_or((&*target, None), |(to, anchor)| (to, Some(anchor)));
            let path = if to.is_empty() { PathBuf::from(&page) } else { resolve(dir, to) };
            faults.extend(fault(&path, anchor).map(|reason| format!("{page}: {target}: {reason}")));
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
    assert!(checked > 200, "only {checked} links were checked");
}

/// Comments cite pages as `docs/page.md` or `docs/page.md#anchor`.
#[test]
fn every_citation_in_the_code_resolves() {
    // The pages that a reader cannot reach.
    const LOST: [&str; 4] = ["schemes.md §", "schemes.md` §", "design §", "design.md`"];
    let mut sources = files("", &[".rs", ".p4", ".py", ".lua", ".yaml", ".toml", ".proto", ".stf", ".txt"]);
    sources.retain(|path| !path.ends_with("it/book.rs"));
    sources.push("Makefile".to_owned());
    let (mut faults, mut checked) = (Vec::new(), 0);
    for path in &sources {
        let text = read(path);
        faults.extend(
            LOST.iter().filter(|lost| text.contains(**lost)).map(|lost| format!("{path}: \"{lost}\"")),
        );
        for rest in text.split("docs/").skip(1) {
            let is_part = |c: char| c.is_ascii_alphanumeric() || "-_/.#".contains(c);
            let cited = rest.split(|c| !is_part(c)).next().unwrap_or_default().trim_end_matches('.');
            let (page, anchor) =
                cited.split_once('#').map_or((cited, None), |(page, anchor)| (page, Some(anchor)));
            if page.ends_with(".md") {
                checked += 1;
                let reason = fault(&Path::new("docs").join(page), anchor);
                faults.extend(reason.map(|reason| format!("{path}: docs/{cited}: {reason}")));
            }
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
    assert!(checked > 80, "only {checked} citations were checked");
}

#[test]
fn every_page_is_in_the_summary() {
    let listed: Vec<PathBuf> =
        links(&read("docs/SUMMARY.md")).iter().map(|to| resolve(Path::new("docs"), to)).collect();
    let unlisted: Vec<String> = files("docs", &[".md"])
        .into_iter()
        .filter(|page| page != "docs/SUMMARY.md" && !listed.contains(&PathBuf::from(page)))
        .collect();
    assert!(unlisted.is_empty(), "not in docs/SUMMARY.md: {unlisted:?}");
    let twice = listed.iter().enumerate().find(|(n, page)| listed[..*n].contains(page));
    assert!(twice.is_none(), "twice in docs/SUMMARY.md: {twice:?}");
}
