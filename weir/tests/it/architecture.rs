//! The invariants of ARCHITECTURE.md that a text can show: who may depend on whom, and what must be
//! absent where nothing may read a clock, open a socket or print.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// The crates of the workspace.
const MEMBERS: [&str; 16] = [
    "units",
    "proto",
    "proto/bfruntime",
    "host",
    "host/agent",
    "switch",
    "switch/server",
    "controller",
    "controller/client",
    "lab/experiment",
    "lab/sim",
    "lab/testbed",
    "lab/report",
    "testkit",
    "weir",
    "python",
];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the workspace").to_owned()
}

/// The crates of ours that a crate's `[dependencies]` name.
fn dependencies(member: &str) -> BTreeSet<String> {
    let manifest = fs::read_to_string(root().join(member).join("Cargo.toml")).expect("a manifest");
    manifest
        .lines()
        .skip_while(|line| line.trim() != "[dependencies]")
        .skip(1)
        .take_while(|line| !line.starts_with('['))
        .filter_map(|line| line.split(['.', '=', ' ']).next())
        .filter_map(|name| match name {
            "p4runtime" => Some("proto"),
            "bfruntime" => Some(name),
            _ => name.strip_prefix("weir-"),
        })
        .map(str::to_owned)
        .collect()
}

#[test]
fn dependencies_point_one_way() {
    let allowed: &[(&str, &[&str])] = &[
        ("units", &[]),
        ("proto", &[]),
        ("proto/bfruntime", &["proto"]),
        ("host", &["units"]),
        ("host/agent", &["units", "host"]),
        ("switch", &["units", "proto"]),
        ("switch/server", &["units", "proto", "switch"]),
        ("controller", &["units", "proto"]),
        ("controller/client", &["units", "proto", "bfruntime", "controller"]),
        ("lab/experiment", &["units", "proto", "host", "switch", "controller"]),
        ("lab/sim", &["units", "proto", "host", "switch", "controller", "experiment"]),
        ("lab/testbed", &["units", "proto", "host", "agent", "controller", "client", "experiment"]),
        ("lab/report", &["units", "experiment"]),
        ("testkit", &["units", "host"]),
        ("python", &["units", "experiment", "sim", "report"]),
        (
            "weir",
            &[
                "units",
                "proto",
                "bfruntime",
                "host",
                "agent",
                "switch",
                "server",
                "controller",
                "client",
                "experiment",
                "sim",
                "testbed",
                "report",
            ],
        ),
    ];
    for (member, may) in allowed {
        let may: BTreeSet<String> = may.iter().map(|s| (*s).to_owned()).collect();
        let has = dependencies(member);
        assert!(has.is_subset(&may), "{member} depends on {:?}", has.difference(&may).collect::<Vec<_>>());
    }
    assert!(!dependencies("lab/sim").is_empty(), "the manifests are read");
}

/// Every Rust file below `folder`, but for those below `drivers` and test files.
fn sources(dir: &Path, drivers: &[&str]) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in fs::read_dir(dir).expect("a folder") {
        let path = entry.expect("an entry").path();
        let name = path.file_name().and_then(|n| n.to_str()).unwrap_or_default().to_owned();
        if drivers.contains(&name.trim_end_matches(".rs")) || name.starts_with("tests") {
            continue;
        }
        if path.is_dir() {
            files.extend(sources(&path, drivers));
        } else if name.ends_with(".rs") {
            files.push(path);
        }
    }
    files
}

/// Source without comments and without the tests at its end.
fn code(path: &Path) -> String {
    let text = fs::read_to_string(path).expect("a source file");
    let body = text.split("#[cfg(test)]").next().unwrap_or_default();
    body.lines().map(|line| line.split("//").next().unwrap_or_default()).collect::<Vec<_>>().join("\n")
}

#[test]
fn protocol_and_pipeline_touch_no_clock_socket_or_console() {
    const ABSENT: &[&str] = &[
        "Instant::now",
        "SystemTime",
        "std::net::UdpSocket",
        "TcpStream",
        "std::thread",
        "println!",
        "eprintln!",
        "tracing::",
        "rand::rng()",
        "thread_rng",
    ];
    let mut seen = 0;
    for (member, drivers) in [("units", &[][..]), ("host", &[]), ("switch", &["driver"]), ("controller", &[])]
    {
        for path in sources(&root().join(member).join("src"), drivers) {
            let code = code(&path);
            for word in ABSENT {
                assert!(!code.contains(word), "{}: {word}", path.display());
            }
            seen += 1;
        }
    }
    assert!(seen > 40, "only {seen} files were read");
}

/// The pipeline and the traffic manager know nothing of P4Runtime.
#[test]
fn the_pipeline_knows_no_p4runtime() {
    for part in ["program", "pipeline", "tm", "engine"] {
        for path in sources(&root().join("switch/src").join(part), &[]) {
            assert!(!code(&path).contains("p4runtime"), "{}", path.display());
        }
    }
}

/// The paths in ARCHITECTURE.md exist.
#[test]
fn the_paths_in_architecture_md_exist() {
    let map = fs::read_to_string(root().join("ARCHITECTURE.md")).expect("the map");
    let mut checked = 0;
    for word in map.split('`').skip(1).step_by(2) {
        let is_path = word.contains('/') && !word.contains(' ') && !word.starts_with('/');
        if is_path && (word.ends_with('/') || word.contains('.')) {
            assert!(root().join(word).exists(), "ARCHITECTURE.md points to {word}");
            checked += 1;
        }
    }
    assert!(checked > 15, "only {checked} places were checked");
}

/// The modules at the top of a crate, and those that each refers to as `crate::other` or, in a file beside lib.rs, as
/// `super::other`.
fn modules(src: &Path) -> BTreeMap<String, BTreeSet<String>> {
    let mut modules: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for path in sources(src, &["lib", "main"]) {
        let inside = path.strip_prefix(src).expect("it was found there");
        let top = inside.iter().next().expect("a name").to_string_lossy().trim_end_matches(".rs").to_owned();
        let mut refers = |text: &str, before: &str| {
            for rest in text.split(before).skip(1) {
                // `crate::a` or `crate::{a, b::c}`.
                let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len());
                let list = rest.strip_prefix('{').and_then(|rest| rest.split('}').next());
                let names = list.map_or(vec![&rest[..end]], |list| list.split(',').collect());
                let first = |name: &str| name.trim().split("::").next().unwrap_or_default().to_owned();
                modules.entry(top.clone()).or_default().extend(names.into_iter().map(first));
            }
        };
        let code = code(&path);
        refers(&code, "crate::");
        if inside.iter().count() == 1 {
            refers(&code, "super::");
        }
    }
    modules
}

/// No top-level module of a crate depends on itself through others.
#[test]
fn no_crate_has_a_cycle_among_its_modules() {
    for member in MEMBERS {
        let mut left = modules(&root().join(member).join("src"));
        let mut seen = left.len();
        // Modules that refer to none of those left are in no cycle.
        loop {
            let names: BTreeSet<String> = left.keys().cloned().collect();
            left.retain(|name, refers| refers.iter().any(|other| other != name && names.contains(other)));
            if left.len() == seen {
                break;
            }
            seen = left.len();
        }
        assert!(left.is_empty(), "{member}: these modules depend on each other: {left:?}");
    }
}

/// A crate that is published has its own folder only; what it takes from elsewhere is a link in `assets/`.
#[test]
fn crates_include_no_file_from_outside() {
    let (mut outside, mut checked) = (Vec::new(), 0);
    for member in MEMBERS {
        let src = root().join(member).join("src");
        for path in sources(&src, &[]) {
            let text = code(&path);
            let files = ["include_str!(\"", "include_bytes!(\""];
            let included = files
                .iter()
                .flat_map(|macro_| text.split(macro_).skip(1))
                .filter_map(|it| it.split('"').next());
            for file in included {
                checked += 1;
                let up = file.split('/').take_while(|part| *part == "..").count();
                let depth = path.strip_prefix(&src).expect("below src").components().count();
                // From `src/a.rs` one step up is still the crate's.
                if up > depth {
                    outside.push(format!("{}: {file}", path.display()));
                }
            }
        }
    }
    assert!(outside.is_empty(), "link them from the crate's assets/: {outside:#?}");
    assert!(checked > 20, "only {checked} files");
}
