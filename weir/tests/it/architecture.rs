//! The invariants of ARCHITECTURE.md that are visible in the sources: allowed dependencies between crates, and crates
//! that must not read a clock, open a socket or print.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::LazyLock;

use serde_json::Value;

use crate::modules::Graph;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the workspace").to_owned()
}

/// The packages of the workspace by directory, as `cargo metadata` describes them.
static PACKAGES: LazyLock<BTreeMap<String, Value>> = LazyLock::new(|| {
    let cargo = Command::new(env!("CARGO"))
        .args(["metadata", "--no-deps", "--offline", "--format-version", "1"])
        .current_dir(root())
        .output()
        .expect("cargo metadata runs");
    assert!(cargo.status.success(), "{}", String::from_utf8_lossy(&cargo.stderr));
    let mut metadata: Value = serde_json::from_slice(&cargo.stdout).expect("JSON");
    let packages = metadata["packages"].as_array_mut().expect("an array");
    let dir = |package: &Value| {
        let manifest = Path::new(package["manifest_path"].as_str().expect("a path"));
        let root = root().canonicalize().expect("the workspace exists");
        let dir = manifest.parent().expect("a directory").strip_prefix(root).expect("in the workspace");
        dir.to_str().expect("UTF-8").to_owned()
    };
    packages.drain(..).map(|package| (dir(&package), package)).collect()
});

/// Returns the directories of the workspace crates in a crate's `[dependencies]`.
fn dependencies(member: &str) -> BTreeSet<String> {
    let names = (PACKAGES[member]["dependencies"].as_array().expect("an array").iter())
        .filter(|dependency| dependency["kind"].is_null())
        .map(|dependency| &dependency["name"]);
    names
        .filter_map(|name| PACKAGES.iter().find(|(_, package)| package["name"] == *name))
        .map(|(dir, _)| dir.clone())
        .collect()
}

/// Returns the module graph of each crate.
fn graphs() -> impl Iterator<Item = (&'static str, Graph)> {
    PACKAGES.keys().map(|member| (member.as_str(), Graph::read(&root().join(member).join("src"))))
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
        ("controller/client", &["units", "proto", "proto/bfruntime", "controller"]),
        ("lab/experiment", &["units", "proto", "host", "switch", "controller"]),
        ("lab/sim", &["units", "proto", "host", "switch", "controller", "lab/experiment"]),
        (
            "lab/testbed",
            &["units", "proto", "host", "host/agent", "controller", "controller/client", "lab/experiment"],
        ),
        ("lab/report", &["units", "lab/experiment"]),
        ("testkit", &["units", "host"]),
        ("python", &["units", "host", "lab/experiment", "lab/sim", "lab/report"]),
        (
            "weir",
            &[
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
            ],
        ),
    ];
    let members: Vec<&str> = allowed.iter().map(|(member, _)| *member).collect();
    let unlisted: Vec<_> = PACKAGES.keys().filter(|member| !members.contains(&member.as_str())).collect();
    assert!(unlisted.is_empty(), "add to the list: {unlisted:?}");
    for (member, names) in allowed {
        let names: BTreeSet<String> = names.iter().map(|s| (*s).to_owned()).collect();
        let actual = dependencies(member);
        assert!(
            actual.is_subset(&names),
            "{member} depends on {:?}",
            actual.difference(&names).collect::<Vec<_>>()
        );
    }
    assert!(!dependencies("lab/sim").is_empty(), "the manifests are read");
}

/// The pipeline and the traffic manager do not depend on P4Runtime.
#[test]
fn the_pipeline_knows_no_p4runtime() {
    let graph = Graph::read(&root().join("switch/src"));
    let users = graph.users_of_crate("p4runtime");
    assert!(users.iter().any(|file| file.ends_with("control/mod.rs")), "the names are read: {users:?}");
    let without = ["program", "pipeline", "tm", "engine"].map(|part| root().join("switch/src").join(part));
    let wrong: Vec<_> = users.iter().filter(|file| without.iter().any(|dir| file.starts_with(dir))).collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// Of the crates without I/O, only the switch's driver logs. Printing is a lint of the workspace, clocks, threads and
/// sockets are in `clippy.toml`; that of macros does not heed an `allow` on a module.
#[test]
fn only_drivers_log() {
    for member in ["units", "host", "controller", "switch"] {
        let src = root().join(member).join("src");
        let graph = Graph::read(&src);
        let users = graph.users_of_crate("tracing");
        let wrong: Vec<_> = users.iter().filter(|file| !file.starts_with(src.join("driver"))).collect();
        assert!(wrong.is_empty(), "{wrong:#?}");
        assert_eq!(users.is_empty(), member != "switch", "the names are read");
    }
}

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
    assert!(checked > 15, "only {checked} paths were checked");
}

/// No file uses what depends on it. A `mod.rs` may re-export its children; it may not define what they use.
#[test]
fn no_crate_has_a_cycle_among_its_files() {
    let mut file_count = 0;
    for (member, graph) in graphs() {
        file_count += graph.file_count();
        let edges: Vec<_> = graph.cycles().iter().map(|cycle| graph.edges_within(cycle)).collect();
        assert!(edges.is_empty(), "{member}: these files depend on each other: {edges:#?}");
    }
    assert!(file_count > 500, "only {file_count} files were read");
}

/// Code under `#[cfg(test)]` is left out, wherever it is in a file, and code after it is not.
#[test]
fn cycles_are_found_through_reexports_and_after_tests() {
    let dir = std::env::temp_dir().join(format!("weir-modules-{}", std::process::id()));
    fs::create_dir_all(dir.join("b")).unwrap();
    let files = [
        ("lib.rs", "mod a; mod b; pub use b::leaf::Leaf;"),
        (
            "a.rs",
            "#[cfg(test)] mod tests { use crate::b::Of; }\npub struct A;\nfn f() { use crate::b; b::g() }",
        ),
        ("b/mod.rs", "pub mod leaf; pub struct Of; pub fn g() { leaf::h() }"),
        ("b/leaf.rs", "pub struct Leaf; pub fn h() { vec![super::super::a::A]; }"),
    ];
    for (name, text) in files {
        fs::write(dir.join(name), text).unwrap();
    }
    let cycles = Graph::read(&dir).cycles();
    let acyclic = fs::write(dir.join("b/leaf.rs"), "pub struct Leaf; pub fn h() { crate::Leaf; }");
    let remaining = Graph::read(&dir).cycles();
    fs::remove_dir_all(&dir).unwrap();
    acyclic.unwrap();
    assert_eq!(cycles, [["a.rs", "b/leaf.rs", "b/mod.rs"].map(|name| dir.join(name)).into()]);
    assert!(remaining.is_empty(), "{remaining:?}");
}

/// A published crate contains only its own directory; files from elsewhere must be links in `assets/`.
#[test]
fn crates_include_no_file_from_outside() {
    let (mut outside, mut checked) = (Vec::new(), 0);
    for (member, graph) in graphs() {
        let src = root().join(member).join("src");
        for (path, file) in &graph.included {
            checked += 1;
            let up = file.split('/').take_while(|part| *part == "..").count();
            let depth = path.strip_prefix(&src).expect("below src").components().count();
            // `../` in `src/a.rs` is still inside the crate.
            if up > depth {
                outside.push(format!("{}: {file}", path.display()));
            }
        }
    }
    assert!(outside.is_empty(), "link them from the crate's assets/: {outside:#?}");
    assert!(checked > 20, "only {checked} files");
}
