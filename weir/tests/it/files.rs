//! Files that commands write where something else is already: devices, pipes, links, files of other users.

use assert_cmd::cargo::cargo_bin;
use rustix::fs::{CWD, FileType, Mode, makedev, mknodat};
use std::fs::{self, File};
use std::os::unix::fs::{FileTypeExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::thread::JoinHandle;
use tempfile::TempDir;

const TINY: &str = "\
name: tiny
topology: {kind: dumbbell, switches: 2, senders: 2, receivers: 1, rate: 100Gbps, delay: 1us}
schemes: [fncc]
flows: [{from: h1, to: h3, size: 100KB}]
duration: 60us
";

fn folder() -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("tiny.yaml"), TINY).unwrap();
    fs::create_dir(dir.path().join("d")).unwrap();
    dir
}

fn program() -> String {
    let path: PathBuf = Path::new(env!("CARGO_MANIFEST_DIR")).join("../p4src/build/fncc.json");
    path.display().to_string()
}

fn command(dir: &Path, arguments: &str) -> Command {
    let mut command = Command::new(cargo_bin("weir"));
    command.current_dir(dir).args(arguments.split_whitespace());
    command
}

fn weir(dir: &Path, arguments: &str) -> Output {
    command(dir, arguments).output().unwrap()
}

fn said(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

/// A pipe of this name, and what comes out of it.
fn pipe(path: &Path) -> JoinHandle<String> {
    mknodat(CWD, path, FileType::Fifo, Mode::from_raw_mode(0o600), 0).unwrap();
    let path = path.to_owned();
    std::thread::spawn(move || fs::read_to_string(path).unwrap())
}

/// Every command that writes a file where the user says, as far as it needs no root: `FILE` is the file.
fn named() -> [String; 2] {
    let trace = format!("trace {} --hex 00 --perfetto FILE", program());
    ["report r --quiet --out FILE".to_owned(), trace]
}

/// Every command that writes files into a directory, and one of them.
fn known() -> [(String, &'static str); 5] {
    let plan = format!("controller plan --topology tiny.yaml --program {}", program());
    [
        ("export tiny.yaml --out d".to_owned(), "topology.txt"),
        (format!("{plan} --format runtime-json --out d"), "s1-runtime.json"),
        ("switch --install-as d".to_owned(), "simple_switch_grpc"),
        ("wireshark --install d".to_owned(), "weir.lua"),
        ("man d".to_owned(), "weir-run.1"),
    ]
}

#[test]
fn devices_and_pipes_stay_what_they_are() {
    let dir = folder();
    let at = |name: &str| dir.path().join(name);
    assert!(weir(dir.path(), "run tiny.yaml --quiet --out r").status.success());
    for arguments in named() {
        let reader = pipe(&at("pipe"));
        let output = weir(dir.path(), &arguments.replace("FILE", "pipe"));
        assert!(output.status.success(), "{arguments}: {}", said(&output));
        assert!(reader.join().unwrap().len() > 100, "{arguments}");
        assert!(fs::metadata(at("pipe")).unwrap().file_type().is_fifo(), "{arguments}");
        fs::remove_file(at("pipe")).unwrap();
        // Only root can make one.
        let null =
            mknodat(CWD, at("null"), FileType::CharacterDevice, Mode::from_raw_mode(0o600), makedev(1, 3));
        if null.is_ok() {
            symlink("null", at("link")).unwrap();
            for name in ["null", "link"] {
                let output = weir(dir.path(), &arguments.replace("FILE", name));
                assert!(output.status.success(), "{arguments}: {}", said(&output));
            }
            assert!(fs::symlink_metadata(at("null")).unwrap().file_type().is_char_device(), "{arguments}");
            assert!(at("link").is_symlink(), "{arguments}");
            fs::remove_file(at("null")).unwrap();
            fs::remove_file(at("link")).unwrap();
        }
    }
    for (arguments, name) in known() {
        // Foreign files have no place among programs.
        if name == "simple_switch_grpc" {
            continue;
        }
        let reader = pipe(&at("d").join(name));
        let output = weir(dir.path(), &arguments);
        assert!(output.status.success(), "{arguments}: {}", said(&output));
        assert!(reader.join().unwrap().len() > 10, "{arguments}");
        assert!(fs::metadata(at("d").join(name)).unwrap().file_type().is_fifo(), "{arguments}");
    }
}

#[test]
fn standard_output_has_a_name() {
    let dir = folder();
    assert!(weir(dir.path(), "run tiny.yaml --quiet --out r").status.success());
    let report = "report r --out /dev/stdout";
    let piped = String::from_utf8(weir(dir.path(), report).stdout).unwrap();
    assert!(piped.starts_with("<!DOCTYPE html>") && piped.ends_with("</html>"));
    let page = dir.path().join("page.html");
    assert!(command(dir.path(), report).stdout(File::create(&page).unwrap()).status().unwrap().success());
    assert_eq!(fs::read_to_string(page).unwrap(), piped, "the shell's file, not another in its place");
}

#[test]
fn a_link_is_followed_where_it_was_named_and_nowhere_else() {
    let dir = folder();
    let at = |name: &str| dir.path().join(name);
    assert!(weir(dir.path(), "run tiny.yaml --quiet --out r").status.success());
    fs::create_dir(at("elsewhere")).unwrap();
    symlink("elsewhere/page", at("page")).unwrap();
    for arguments in named() {
        let arguments = arguments.replace("FILE", "page");
        let output = weir(dir.path(), &arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments}: {}", said(&output));
        assert!(said(&output).contains(" page: symbolic link to a file that"), "{}", said(&output));
        fs::write(at("elsewhere/page"), "old").unwrap();
        let output = weir(dir.path(), &arguments);
        assert!(output.status.success() && at("page").is_symlink(), "{arguments}: {}", said(&output));
        assert_ne!(fs::read_to_string(at("elsewhere/page")).unwrap(), "old", "{arguments}");
        fs::remove_file(at("elsewhere/page")).unwrap();
    }
    for (arguments, name) in known() {
        for victim in ["important", ""] {
            fs::write(at("victim"), victim).unwrap();
            if victim.is_empty() {
                fs::remove_file(at("victim")).unwrap();
            }
            symlink("../victim", at("d").join(name)).unwrap();
            let output = weir(dir.path(), &arguments);
            assert!(
                !output.status.success() && said(&output).contains(name),
                "{arguments}: {}",
                said(&output)
            );
            assert_eq!(fs::read_to_string(at("victim")).unwrap_or_default(), victim, "{arguments}");
            assert_eq!(at("victim").exists(), !victim.is_empty(), "{arguments}");
            fs::remove_file(at("d").join(name)).unwrap();
        }
    }
}

#[test]
fn a_report_takes_no_file_of_a_run() {
    let dir = folder();
    assert!(weir(dir.path(), "run tiny.yaml --quiet --out r").status.success());
    let before = fs::read(dir.path().join("r/report.html")).unwrap();
    for name in ["r/report.html", "r/fct-new.txt", "./r/SHA256SUMS"] {
        let output = weir(dir.path(), &format!("report r --out {name}"));
        assert_eq!(output.status.code(), Some(2), "{}", said(&output));
        assert!(said(&output).contains(&format!("--out {name}: is a file of a run")), "{}", said(&output));
    }
    assert_eq!(fs::read(dir.path().join("r/report.html")).unwrap(), before);
    let output = weir(dir.path(), "report r --quiet --out r/mine.html");
    assert!(output.status.success() && output.stderr.is_empty(), "{}", said(&output));
    assert!(weir(dir.path(), "report r --quiet --out again.html").status.success(), "the run is whole");
}

#[test]
fn a_run_into_a_link_to_nothing_fails_before_it_begins() {
    let dir = folder();
    symlink("nowhere", dir.path().join("link")).unwrap();
    // It would take hours.
    let long = "--set duration=1000s --out link";
    for arguments in [format!("run tiny.yaml {long}"), format!("sweep tiny.yaml --over seed=1..2 {long}")] {
        let output = weir(dir.path(), &arguments);
        assert_eq!(output.status.code(), Some(2), "{}", said(&output));
        assert!(said(&output).contains("--out link: symbolic link to a directory"), "{}", said(&output));
    }
    assert!(dir.path().join("link").is_symlink() && !dir.path().join("nowhere").exists());
}

/// Somebody else puts it where root runs: as a link to a file that only root may write.
#[test]
fn a_link_in_place_of_a_lock_is_not_followed() {
    let dir = folder();
    let victim = dir.path().join("victim");
    fs::write(&victim, "important").unwrap();
    for (folder, arguments) in [
        ("x.partial", "run tiny.yaml --quiet --out x"),
        ("s", "sweep tiny.yaml --over seed=1..2 --quiet --out s"),
    ] {
        let lock = dir.path().join(folder).join(".lock");
        fs::create_dir(dir.path().join(folder)).unwrap();
        for target in ["victim", "new"] {
            symlink(dir.path().join(target), &lock).unwrap();
            let output = weir(dir.path(), arguments);
            assert!(!output.status.success(), "{}", said(&output));
            assert!(said(&output).contains("a symbolic link"), "{}", said(&output));
            fs::remove_file(&lock).unwrap();
        }
        assert_eq!(fs::read(&victim).unwrap(), b"important");
        assert!(!dir.path().join("new").exists());
        assert!(weir(dir.path(), arguments).status.success());
    }
}
