//! The packet tests of `p4src/tests`, in each engine.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use weir_switch::program::Engine;
use weir_switch::{Program, stf};

fn files(folder: &Path, kind: &str) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let paths = entries.map(|entry| entry.path());
    let mut paths: Vec<_> =
        paths.filter(|path| path.extension().is_some_and(|found| found == kind)).collect();
    paths.sort();
    paths
}

#[test]
fn packet_tests_pass_in_both_engines() {
    let p4src = Path::new(env!("CARGO_MANIFEST_DIR")).join("../p4src");
    let mut tests = 0;
    for path in files(&p4src.join("build"), "json") {
        let folder = p4src.join("tests").join(path.file_stem().unwrap());
        let packet_tests = files(&folder, "stf");
        if packet_tests.is_empty() {
            continue;
        }
        let text = std::fs::read_to_string(&path).unwrap();
        for engine in [Engine::Compiled, Engine::Interpreter] {
            let program = Program::load(&text, engine).unwrap();
            for test in &packet_tests {
                let name = test.display().to_string();
                let text = std::fs::read_to_string(test).unwrap();
                let outcome = stf::run(Arc::clone(&program), &text, &name).unwrap();
                assert!(outcome.passed(), "{name} in {engine:?}: {:?}", outcome.failures);
                tests += 1;
            }
        }
    }
    assert!(tests > 0);
}
