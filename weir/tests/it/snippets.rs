//! The commands, files and source excerpts in the documentation: options exist, experiments are valid, excerpts occur
//! in compiled sources, and the commands of tutorials print the output shown.

use super::book::{files, pages, read};
use clap::CommandFactory;
use clap::error::ErrorKind;
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;
use weir::commands::CommandLine;

/// A fenced block of a page.
struct Block {
    page: String,
    line: usize,
    language: String,
    lines: Vec<String>,
}

impl Block {
    fn location(&self) -> String {
        format!("{}:{}", self.page, self.line)
    }
}

fn blocks(page: &str) -> Vec<Block> {
    let mut blocks: Vec<Block> = Vec::new();
    let mut is_open = false;
    for (number, line) in read(page).lines().enumerate() {
        match line.trim_start().strip_prefix("```") {
            Some(_) if is_open => is_open = false,
            Some(language) => {
                is_open = true;
                let (page, language) = (page.to_owned(), language.trim().to_owned());
                blocks.push(Block { page, line: number + 1, language, lines: Vec::new() });
            }
            None if is_open => blocks.last_mut().expect("a block is open").lines.push(line.to_owned()),
            None => {}
        }
    }
    blocks
}

/// Splits a command as a shell does, up to a comment, a pipe, a redirection or the next command.
fn words(command: &str) -> Vec<String> {
    let (mut words, mut word, mut quote) = (Vec::new(), None::<String>, None);
    for c in command.chars() {
        match quote {
            Some(open) if c == open => quote = None,
            Some(_) => word.get_or_insert_default().push(c),
            None if c == '\'' || c == '"' => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            None if c == ' ' => words.extend(word.take()),
            None if c == '#' && word.is_none() => break,
            None if "|>&;".contains(c) => break,
            None => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    words
}

/// Returns the lines of a block, with lines that end in `\` joined to the next.
fn join_continued(lines: &[String]) -> Vec<String> {
    let mut all: Vec<String> = Vec::new();
    let mut continues = false;
    for line in lines {
        let (text, next) = line.strip_suffix('\\').map_or((&**line, false), |text| (text, true));
        match all.last_mut().filter(|_| continues) {
            Some(last) => last.push_str(text.trim_start()),
            None => all.push(text.to_owned()),
        }
        continues = next;
    }
    all
}

/// Returns the commands of a page: those in blocks with true, and those in backticks within the text with false.
fn commands(page: &str) -> Vec<(bool, String)> {
    let mut commands: Vec<(bool, String)> = Vec::new();
    for block in blocks(page).iter().filter(|block| ["", "sh"].contains(&&*block.language)) {
        for line in join_continued(&block.lines) {
            let mut line = line.trim();
            for prompt in ["$ ", "mininet> ", "sh ", "sudo "] {
                line = line.strip_prefix(prompt).unwrap_or(line);
            }
            commands.push((true, line.to_owned()));
        }
    }
    let text = read(page);
    let in_text = text.split("\n```").step_by(2).flat_map(|part| part.split('`').skip(1).step_by(2));
    commands.extend(in_text.map(|code| (false, code.split_whitespace().collect::<Vec<_>>().join(" "))));
    commands.retain(|(_, line)| line.starts_with("weir "));
    // Placeholders, and the output of `weir --version`.
    commands.retain(|(_, line)| {
        !["..", "<", "[", "$(", "weir 0", "COMMAND"].iter().any(|part| line.contains(part))
    });
    for (_, line) in &mut commands {
        // In help texts a description follows the command.
        line.truncate(line.find("   ").unwrap_or(line.len()));
    }
    commands
}

#[test]
fn every_command_has_the_options_that_pages_use() {
    // Not commands, and former names of options.
    const OTHERS: [&str; 2] = ["ARCHITECTURE.md", "CHANGELOG.md"];
    // Commands of Mininet's command line.
    const IN_MININET: [&str; 3] = ["weir queues", "weir tables s1", "weir trace h1 h3"];
    let (mut faults, mut checked) = (Vec::new(), 0);
    for page in pages().iter().filter(|page| !OTHERS.contains(&page.as_str())) {
        for (is_block, command) in commands(page) {
            if IN_MININET.contains(&command.as_str()) {
                continue;
            }
            checked += 1;
            let Err(error) = CommandLine::command().try_get_matches_from(words(&command)) else { continue };
            // Commands in the text may lack values and arguments.
            let is_accepted = match error.kind() {
                ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => true,
                ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand
                | ErrorKind::InvalidValue
                | ErrorKind::ValueValidation
                | ErrorKind::MissingRequiredArgument
                | ErrorKind::MissingSubcommand => !is_block,
                _ => false,
            };
            if !is_accepted {
                faults.push(format!("{page}: {command}\n{error}"));
            }
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
    assert!(checked > 150, "only {checked} commands were checked");
}

/// The experiment to which fragments of pages are added: a key of a fragment replaces the line with that key.
const BASE: [&str; 5] = [
    "title: The base of fragments",
    "topology: {kind: leaf-spine, leaves: 2, spines: 2, hosts_per_leaf: 5, rate: 100Gbps}",
    "schemes: [fncc, hpcc]",
    "flows: [{from: h1, to: h6}]",
    "duration: 10ms",
];

/// YAML blocks that are not part of an experiment or need other files: page and first line. Comments name the test that
/// covers them.
const OTHER_YAML: [(&str, &str); 6] = [
    ("docs/agent.md", "- {peer:"),            // flows of an agent: host/agent's tests
    ("docs/own-program.md", "program: "),     // two forms of a key, with the user's files: .ci/test
    ("docs/own-program.md", "schemes:"),      // the user's files: lab/sim/tests/it/programs.rs
    ("docs/own-program.md", "entries:"),      // the user's files: weir/tests/it/cli.rs
    ("docs/tofino-controller.md", "ports:"),  // numbers of ports: weir/tests/it/tofino.rs
    ("docs/tutorials/scheme.md", "schemes:"), // the user's scheme: own_scheme of .ci/test
];

#[test]
fn every_experiment_of_a_page_is_valid() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("page.yaml");
    let (mut faults, mut checked) = (Vec::new(), 0);
    for page in pages() {
        for block in blocks(&page).iter().filter(|block| block.language == "yaml") {
            let first = block.lines.first().map_or("", |line| &**line);
            if OTHER_YAML.iter().any(|(page, begin)| block.page == *page && first.starts_with(begin)) {
                continue;
            }
            let is_complete = ["topology:", "duration:"]
                .iter()
                .all(|key| block.lines.iter().any(|line| line.starts_with(key)));
            let mut text = block.lines.join("\n") + "\n";
            for line in BASE.iter().filter(|_| !is_complete) {
                let key = line.split(':').next().expect("a key");
                if !block.lines.iter().any(|line| line.starts_with(&format!("{key}:"))) {
                    text = format!("{line}\n{text}");
                }
            }
            fs::write(&file, text).expect("written");
            let output =
                Command::new(env!("CARGO_BIN_EXE_weir")).args(["run", "--check"]).arg(&file).output();
            let output = output.expect("weir runs");
            checked += 1;
            if !output.status.success() {
                faults.push(format!("{}: {}", block.location(), String::from_utf8_lossy(&output.stderr)));
            }
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
    assert!(checked >= 8, "only {checked} experiments were checked");
}

/// Number of excerpts per page that occur in no source: steps of an exercise, signatures, and calls that need a
/// network.
const OTHER_SOURCE: [(&str, usize); 7] = [
    ("docs/cluster.md", 1),
    ("docs/library.md", 1),
    ("docs/own-experiment.md", 2),
    ("docs/own-program.md", 2),
    ("docs/p4runtime.md", 1),
    ("docs/python.md", 5),
    ("docs/thrift.md", 1),
];

/// All lines of any other excerpt occur in one source file, in the same order; empty lines, comments and lines with
/// `...` are ignored.
#[test]
fn every_excerpt_is_in_a_source() {
    let sources: Vec<Vec<String>> = files("", &[".rs", ".p4", ".py"])
        .iter()
        .filter(|path| !path.ends_with("it/snippets.rs"))
        .map(|path| read(path).lines().map(|line| line.trim().to_owned()).collect())
        .collect();
    for page in pages() {
        let is_code = |block: &&Block| ["rust", "p4", "python", "toml"].contains(&&*block.language);
        let blocks = blocks(&page);
        let missing: Vec<String> = blocks
            .iter()
            .filter(is_code)
            .filter(|block| {
                let lines: Vec<&str> = block.lines.iter().map(|line| line.trim()).collect();
                let is_kept = |line: &&&str| {
                    !line.is_empty()
                        && !line.starts_with("//")
                        && !line.starts_with('#')
                        && !line.contains("...")
                };
                let is_in = |source: &Vec<String>| {
                    let mut rest = source.iter();
                    lines.iter().filter(is_kept).all(|line| rest.any(|other| other == line))
                };
                !sources.iter().any(is_in)
            })
            .map(Block::location)
            .collect();
        let max = OTHER_SOURCE.iter().find(|(other, _)| *other == page).map_or(0, |(_, max)| *max);
        assert!(missing.len() <= max, "in no source: {missing:?}, at most {max}");
    }
}

/// A page whose commands are executed in order, in a directory that contains only the page's experiments.
struct Session {
    page: &'static str,
    /// Commands that are not executed, because they take too long or are explained in another part of the page.
    skipped: &'static [&'static str],
    /// Edits that the text requires: index of the command before which the edit is made, file, old text, new text.
    edits: &'static [(usize, &'static str, &'static str, &'static str)],
}

const SESSIONS: [Session; 5] = [
    Session {
        page: "docs/start/first-experiment.md",
        skipped: &[],
        edits: &[
            (1, "incast.yaml", "schemes: [fncc", "schemes: [fnc"),
            (2, "incast.yaml", "schemes: [fnc", "schemes: [fncc"),
        ],
    },
    Session { page: "docs/tutorials/sweep.md", skipped: &[], edits: &[] },
    Session { page: "docs/experiment-files.md", skipped: &["weir run poisson.yaml"], edits: &[] },
    Session { page: "docs/workloads.md", skipped: &[], edits: &[] },
    Session {
        page: "docs/tutorials/p4-control.md",
        skipped: &[],
        edits: &[(2, "entries.json", "\"ticks\": 2000", "\"ticks\": 4000")],
    },
];

/// Returns true if a line of a page matches a line of the output. `...` matches any text; estimates depend on the
/// machine and are ignored.
fn is_shown(line: &str, printed: &str) -> bool {
    let until_estimate = |text: &str| text.split("; about ").next().unwrap_or_default().trim_end().to_owned();
    let (line, mut rest) = (until_estimate(line), &*until_estimate(printed));
    if !line.contains("...") {
        return line.trim() == rest.trim();
    }
    let mut parts = line.trim().split("...");
    let Some(after) = parts.next().and_then(|first| rest.trim_start().strip_prefix(first)) else {
        return false;
    };
    rest = after;
    parts.all(|part| match rest.split_once(part) {
        Some((_, after)) => {
            rest = after;
            true
        }
        None => false,
    })
}

fn run(session: &Session, faults: &mut Vec<String>) {
    let dir = tempfile::tempdir().expect("a directory");
    let mut directory = dir.path().to_owned();
    // The page about sweeps uses the file of the page about the first experiment.
    for page in ["docs/start/first-experiment.md", session.page] {
        let experiments = blocks(page).into_iter().filter(|block| block.language == "yaml");
        let text = read(page);
        for block in experiments {
            // The file's name is in the next command after the block.
            let after: String = text.lines().skip(block.line).collect::<Vec<_>>().join("\n");
            let name = after.split_whitespace().find(|word| word.ends_with(".yaml") && !word.contains('`'));
            if let Some(name) = name {
                let file = directory.join(name);
                fs::create_dir_all(file.parent().expect("a directory")).expect("created");
                fs::write(file, block.lines.join("\n") + "\n").expect("written");
            }
        }
    }
    let program = Path::new(env!("CARGO_BIN_EXE_weir")).parent().expect("a directory");
    let path = format!("{}:{}", program.display(), std::env::var("PATH").unwrap_or_default());
    let mut number = 0;
    for block in blocks(session.page).iter().filter(|block| block.language.is_empty()) {
        let lines = join_continued(&block.lines);
        let starts: Vec<usize> =
            (0..lines.len()).filter(|index| lines[*index].starts_with("$ ")).chain([lines.len()]).collect();
        for part in starts.windows(2).map(|range| &lines[range[0]..range[1]]) {
            let command = &part[0]["$ ".len()..];
            if let Some(name) = command.strip_prefix("cd ") {
                directory.push(name);
                continue;
            }
            for (_, file, from, to) in session.edits.iter().filter(|edit| edit.0 == number) {
                let file = directory.join(file);
                let text = fs::read_to_string(&file).expect("the file exists");
                assert!(text.contains(from), "{}: {from}", block.location());
                fs::write(&file, text.replace(from, to)).expect("written");
            }
            number += 1;
            if session.skipped.contains(&command) {
                continue;
            }
            let mut shell = Command::new("sh");
            shell.args(["-c", command]).current_dir(&directory).env("PATH", &path).env("COLUMNS", "200");
            let output = shell.output().expect("a shell");
            let printed =
                [output.stdout, output.stderr].map(|it| String::from_utf8_lossy(&it).into_owned()).concat();
            let mut rest = printed.lines();
            let missing =
                part[1..].iter().find(|line| line.trim() != "..." && !rest.any(|it| is_shown(line, it)));
            if let Some(line) = missing {
                faults.push(format!(
                    "{}: {command}\nthe page shows\n{line}\nthe output is\n{printed}",
                    block.location()
                ));
            }
        }
    }
}

#[test]
fn tutorials_print_what_their_pages_show() {
    let mut faults = Vec::new();
    SESSIONS.iter().for_each(|session| run(session, &mut faults));
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

/// Blocks in any other language would not be checked by any test.
#[test]
fn every_language_of_a_block_is_known() {
    let known = ["", "sh", "yaml", "rust", "p4", "python", "toml", "json", "diff"];
    let languages: BTreeSet<String> =
        pages().iter().flat_map(|page| blocks(page)).map(|block| block.language).collect();
    let unknown: Vec<&String> = languages.iter().filter(|it| !known.contains(&it.as_str())).collect();
    assert!(unknown.is_empty(), "{unknown:?}: no test checks such blocks");
}
