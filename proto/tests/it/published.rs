//! Compares the `.proto` files with the published ones, using the descriptors of the Python package.

use std::path::Path;
use std::process::Command;

/// Needs Python with the `p4runtime` package: `PYTHON=venv/bin/python cargo test -p p4runtime -- --ignored`.
#[test]
#[ignore = "needs Python with `pip install p4runtime`"]
fn every_fact_is_the_published_one() {
    let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join("descriptors.bin");
    std::fs::write(&file, p4runtime::DESCRIPTORS).unwrap();
    let python = std::env::var("PYTHON").unwrap_or_else(|_| "python3".into());
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/check_against_pypi.py");
    let output = Command::new(python).arg(script).arg(&file).output().unwrap();
    let output_text = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{output_text}");
}
