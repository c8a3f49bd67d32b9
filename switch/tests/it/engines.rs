//! The packet tests that `p4src/tests/make_stf.py` generates, and those of `programs`, in each engine.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use weir_switch::program::Engine;
use weir_switch::{Program, stf};

fn files(dir: &Path, extension: &str) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
    let paths = entries.map(|entry| entry.path());
    let mut paths: Vec<_> =
        paths.filter(|path| path.extension().is_some_and(|found| found == extension)).collect();
    paths.sort();
    paths
}

/// Generates the packet tests of the programs in `p4src` each time, so that none can be outdated.
fn generate_tests(p4src: &Path) -> PathBuf {
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join("packet-tests");
    let mut generator = Command::new("python3");
    let status = generator.arg(p4src.join("tests/make_stf.py")).arg(&dir).status();
    assert!(
        status.as_ref().is_ok_and(std::process::ExitStatus::success),
        "python3 p4src/tests/make_stf.py: {status:?}; the packet tests need Python 3.9 or later, without packages"
    );
    dir
}

/// The random programs that are compared with BMv2 (docs/differential.md) depend on their seed alone, not on the order
/// of Python's sets, which PYTHONHASHSEED changes.
#[test]
fn a_random_program_depends_only_on_its_seed() {
    const PRINT: &str = "import hashlib, generate\n\
                         for seed in range(30):\n\
                         \x20   program = generate.Program(seed)\n\
                         \x20   text = program.text + repr(list(program.packets(5)))\n\
                         \x20   print(seed, hashlib.sha256(text.encode()).hexdigest())\n";
    let print = |hash_seed: &str| {
        let mut python = Command::new("python3");
        python.args(["-B", "-c", PRINT]).env("PYTHONHASHSEED", hash_seed);
        python.current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/random"));
        let output = python.output().expect("python3 is installed");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    };
    let programs = print("0");
    assert_eq!(programs.lines().count(), 30);
    for hash_seed in ["1", "2"] {
        assert_eq!(print(hash_seed), programs, "PYTHONHASHSEED={hash_seed}");
    }
}

#[test]
fn packet_tests_pass_in_both_engines() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let p4src = root.join("../p4src");
    let generated = generate_tests(&p4src);
    let p4src_programs = files(&p4src.join("build"), "json").into_iter().map(|path| {
        let tests = files(&generated.join(path.file_stem().unwrap()), "stf");
        (path, tests)
    });
    let test_programs = files(&root.join("tests/programs"), "json").into_iter().map(|path| {
        let tests = Some(path.with_extension("stf")).filter(|test| test.exists());
        (path, Vec::from_iter(tests))
    });
    let mut tests = 0;
    for (path, packet_tests) in p4src_programs.chain(test_programs).filter(|(_, tests)| !tests.is_empty()) {
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
