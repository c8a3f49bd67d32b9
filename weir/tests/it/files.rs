//! Output files of commands where something else already exists: devices, pipes, links, files of other users.

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

fn test_dir() -> TempDir {
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

fn output_text(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

/// Creates a named pipe. The thread returns what is written into the pipe.
fn pipe(path: &Path) -> JoinHandle<String> {
    mknodat(CWD, path, FileType::Fifo, Mode::from_raw_mode(0o600), 0).unwrap();
    let path = path.to_owned();
    std::thread::spawn(move || fs::read_to_string(path).unwrap())
}

/// Returns all commands that write a file chosen by the user and do not need root; `FILE` stands for the file.
fn commands_with_output_file() -> [String; 2] {
    let trace = format!("trace {} --hex 00 --perfetto FILE", program());
    ["report r --quiet --out FILE".to_owned(), trace]
}

/// Returns all commands that write files into the directory `d`, each with the name of one of these files.
fn commands_with_output_dir() -> [(String, &'static str); 5] {
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
fn devices_and_pipes_are_not_replaced() {
    let dir = test_dir();
    let path_of = |name: &str| dir.path().join(name);
    assert!(weir(dir.path(), "run tiny.yaml --quiet --out r").status.success());
    for arguments in commands_with_output_file() {
        let reader = pipe(&path_of("pipe"));
        let output = weir(dir.path(), &arguments.replace("FILE", "pipe"));
        assert!(output.status.success(), "{arguments}: {}", output_text(&output));
        assert!(reader.join().unwrap().len() > 100, "{arguments}");
        assert!(fs::metadata(path_of("pipe")).unwrap().file_type().is_fifo(), "{arguments}");
        fs::remove_file(path_of("pipe")).unwrap();
        // Only root can create a device.
        let null = mknodat(
            CWD,
            path_of("null"),
            FileType::CharacterDevice,
            Mode::from_raw_mode(0o600),
            makedev(1, 3),
        );
        if null.is_ok() {
            symlink("null", path_of("link")).unwrap();
            for name in ["null", "link"] {
                let output = weir(dir.path(), &arguments.replace("FILE", name));
                assert!(output.status.success(), "{arguments}: {}", output_text(&output));
            }
            assert!(
                fs::symlink_metadata(path_of("null")).unwrap().file_type().is_char_device(),
                "{arguments}"
            );
            assert!(path_of("link").is_symlink(), "{arguments}");
            fs::remove_file(path_of("null")).unwrap();
            fs::remove_file(path_of("link")).unwrap();
        }
    }
    for (arguments, name) in commands_with_output_dir() {
        // It replaces only its own files, so it rejects a pipe.
        if name == "simple_switch_grpc" {
            continue;
        }
        let reader = pipe(&path_of("d").join(name));
        let output = weir(dir.path(), &arguments);
        assert!(output.status.success(), "{arguments}: {}", output_text(&output));
        assert!(reader.join().unwrap().len() > 10, "{arguments}");
        assert!(fs::metadata(path_of("d").join(name)).unwrap().file_type().is_fifo(), "{arguments}");
    }
}

#[test]
fn dev_stdout_is_an_output_file() {
    let dir = test_dir();
    assert!(weir(dir.path(), "run tiny.yaml --quiet --out r").status.success());
    let report = "report r --out /dev/stdout";
    let piped = String::from_utf8(weir(dir.path(), report).stdout).unwrap();
    assert!(piped.starts_with("<!DOCTYPE html>") && piped.ends_with("</html>"));
    let page = dir.path().join("page.html");
    assert!(command(dir.path(), report).stdout(File::create(&page).unwrap()).status().unwrap().success());
    assert_eq!(fs::read_to_string(page).unwrap(), piped, "the redirected file itself was written");
}

#[test]
fn only_links_named_by_the_user_are_followed() {
    let dir = test_dir();
    let path_of = |name: &str| dir.path().join(name);
    assert!(weir(dir.path(), "run tiny.yaml --quiet --out r").status.success());
    fs::create_dir(path_of("elsewhere")).unwrap();
    symlink("elsewhere/page", path_of("page")).unwrap();
    for arguments in commands_with_output_file() {
        let arguments = arguments.replace("FILE", "page");
        let output = weir(dir.path(), &arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments}: {}", output_text(&output));
        assert!(
            output_text(&output).contains(" page: symbolic link to a file that"),
            "{}",
            output_text(&output)
        );
        fs::write(path_of("elsewhere/page"), "old").unwrap();
        let output = weir(dir.path(), &arguments);
        assert!(
            output.status.success() && path_of("page").is_symlink(),
            "{arguments}: {}",
            output_text(&output)
        );
        assert_ne!(fs::read_to_string(path_of("elsewhere/page")).unwrap(), "old", "{arguments}");
        fs::remove_file(path_of("elsewhere/page")).unwrap();
    }
    for (arguments, name) in commands_with_output_dir() {
        for victim in ["important", ""] {
            fs::write(path_of("victim"), victim).unwrap();
            if victim.is_empty() {
                fs::remove_file(path_of("victim")).unwrap();
            }
            symlink("../victim", path_of("d").join(name)).unwrap();
            let output = weir(dir.path(), &arguments);
            assert!(
                !output.status.success() && output_text(&output).contains(name),
                "{arguments}: {}",
                output_text(&output)
            );
            assert_eq!(fs::read_to_string(path_of("victim")).unwrap_or_default(), victim, "{arguments}");
            assert_eq!(path_of("victim").exists(), !victim.is_empty(), "{arguments}");
            fs::remove_file(path_of("d").join(name)).unwrap();
        }
    }
}

#[test]
fn a_report_does_not_replace_a_file_of_a_run() {
    let dir = test_dir();
    assert!(weir(dir.path(), "run tiny.yaml --quiet --out r").status.success());
    let before = fs::read(dir.path().join("r/report.html")).unwrap();
    for name in ["r/report.html", "r/fct-new.txt", "./r/SHA256SUMS"] {
        let output = weir(dir.path(), &format!("report r --out {name}"));
        assert_eq!(output.status.code(), Some(2), "{}", output_text(&output));
        assert!(
            output_text(&output).contains(&format!("--out {name}: is a file of a run")),
            "{}",
            output_text(&output)
        );
    }
    assert_eq!(fs::read(dir.path().join("r/report.html")).unwrap(), before);
    let output = weir(dir.path(), "report r --quiet --out r/mine.html");
    assert!(output.status.success() && output.stderr.is_empty(), "{}", output_text(&output));
    assert!(weir(dir.path(), "report r --quiet --out again.html").status.success(), "the run is undamaged");
}

#[test]
fn a_run_into_a_dangling_link_fails_before_it_begins() {
    let dir = test_dir();
    symlink("nowhere", dir.path().join("link")).unwrap();
    // The runs would take hours.
    let long = "--set duration=1000s --out link";
    for arguments in [format!("run tiny.yaml {long}"), format!("sweep tiny.yaml --over seed=1..2 {long}")] {
        let output = weir(dir.path(), &arguments);
        assert_eq!(output.status.code(), Some(2), "{}", output_text(&output));
        assert!(
            output_text(&output).contains("--out link: symbolic link to a directory"),
            "{}",
            output_text(&output)
        );
    }
    assert!(dir.path().join("link").is_symlink() && !dir.path().join("nowhere").exists());
}

/// An attacker could place such a link where root runs weir, to a file that only root may write.
#[test]
fn a_link_in_place_of_a_lock_is_not_followed() {
    let dir = test_dir();
    let victim = dir.path().join("victim");
    fs::write(&victim, "important").unwrap();
    for (out_dir, arguments) in [
        ("x.partial", "run tiny.yaml --quiet --out x"),
        ("s", "sweep tiny.yaml --over seed=1..2 --quiet --out s"),
    ] {
        let lock = dir.path().join(out_dir).join(".lock");
        fs::create_dir(dir.path().join(out_dir)).unwrap();
        for target in ["victim", "new"] {
            symlink(dir.path().join(target), &lock).unwrap();
            let output = weir(dir.path(), arguments);
            assert!(!output.status.success(), "{}", output_text(&output));
            assert!(output_text(&output).contains("a symbolic link"), "{}", output_text(&output));
            fs::remove_file(&lock).unwrap();
        }
        assert_eq!(fs::read(&victim).unwrap(), b"important");
        assert!(!dir.path().join("new").exists());
        assert!(weir(dir.path(), arguments).status.success());
    }
}
