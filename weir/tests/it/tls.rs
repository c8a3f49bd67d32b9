//! `weir controller` and `weir switch` over TLS, and the metrics that the switch exports meanwhile.

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

const WEIR: &str = env!("CARGO_BIN_EXE_weir");

fn authority() -> CertifiedIssuer<'static, KeyPair> {
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap()
}

/// Writes a certificate and its key to `name.pem` and `name.key`.
fn certificate(dir: &Path, authority: &CertifiedIssuer<'_, KeyPair>, name: &str) {
    let key = KeyPair::generate().unwrap();
    let params = CertificateParams::new(vec![format!("{name}.test")]).unwrap();
    fs::write(dir.join(format!("{name}.pem")), params.signed_by(&key, authority).unwrap().pem()).unwrap();
    fs::write(dir.join(format!("{name}.key")), key.serialize_pem()).unwrap();
}

/// A child process, killed when dropped.
struct ChildGuard(Child);

impl Drop for ChildGuard {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn the_controller_installs_a_plan_over_tls() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path();
    let (ca, other_ca) = (authority(), authority());
    fs::write(path.join("ca.pem"), ca.pem()).unwrap();
    fs::write(path.join("other.pem"), other_ca.pem()).unwrap();
    certificate(path, &ca, "switch");
    certificate(path, &ca, "controller");
    fs::write(path.join("fabric.yaml"), "{kind: star, hosts: 3, rate: 10Mbps}\n").unwrap();

    let mut command = Command::new(WEIR);
    command.current_dir(path).args(["switch", "--no-p4", "--thrift-addr", "127.0.0.1", "--thrift-port", "0"]);
    command.args([
        "--metrics",
        "127.0.0.1:0",
        "--",
        "--grpc-server-addr",
        "127.0.0.1:0",
        "--cpu-port",
        "255",
    ]);
    command.args([
        "--grpc-server-ssl",
        "--grpc-server-cert",
        "switch.pem",
        "--grpc-server-key",
        "switch.key",
    ]);
    command.args(["--grpc-server-with-client-auth", "--grpc-server-cacert", "ca.pem"]);
    let mut switch = ChildGuard(command.stdout(Stdio::piped()).spawn().unwrap());
    let lines = BufReader::new(switch.0.stdout.take().unwrap()).lines().map_while(Result::ok);
    let mut lines = lines.map(|line| line.rsplit(' ').next().unwrap_or_default().to_owned());
    let (address, _thrift, metrics) = (lines.next().unwrap(), lines.next().unwrap(), lines.next().unwrap());

    let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("../p4src/build/fncc.json");
    let apply = |options: &[&str]| -> Output {
        let mut command = Command::new(WEIR);
        command.current_dir(path).args(["controller", "apply", "-t", "fabric.yaml", "--timeout", "5s"]);
        command.arg("-p").arg(&program).args(["--switch", &format!("s1={address}")]).args(options);
        command.output().unwrap()
    };
    let stderr_of = |output: &Output| String::from_utf8_lossy(&output.stderr).into_owned();
    let trust = ["--tls-ca", "ca.pem", "--tls-server-name", "switch.test"];
    let client_identity = ["--tls-cert", "controller.pem", "--tls-key", "controller.key"];
    for (options, expected) in [
        (&[][..], "s1: "),
        (&trust[..], "s1: "),
        (
            &[&["--tls-ca", "other.pem", "--tls-server-name", "switch.test"], &client_identity[..]].concat(),
            "certificate",
        ),
        (
            &[&["--tls-ca", "ca.pem", "--tls-server-name", "else.test"], &client_identity[..]].concat(),
            "certificate",
        ),
    ] {
        let output = apply(options);
        assert_eq!(output.status.code(), Some(1), "{options:?}: {}", stderr_of(&output));
        assert!(stderr_of(&output).contains(expected), "{options:?}: {}", stderr_of(&output));
    }
    for (invalid, expected) in [
        (&["--tls-ca", "absent.pem"][..], "--tls-ca absent.pem: "),
        (&["--tls-cert", "controller.pem", "--tls-key", "controller.key"], "--tls-ca"),
        (&["--tls-ca", "ca.pem", "--tls-cert", "fabric.yaml", "--tls-key", "fabric.yaml"], "--tls-key"),
    ] {
        let output = apply(invalid);
        assert_eq!(output.status.code(), Some(2), "{invalid:?}: {}", stderr_of(&output));
        assert!(stderr_of(&output).contains(expected), "{invalid:?}: {}", stderr_of(&output));
    }
    let output = apply(&[&trust[..], &client_identity[..]].concat());
    assert!(output.status.success(), "{}", stderr_of(&output));

    let host = metrics.strip_prefix("http://").unwrap().strip_suffix("/metrics").unwrap();
    let mut stream = TcpStream::connect(host).unwrap();
    stream.write_all(b"GET /metrics HTTP/1.1\r\n\r\n").unwrap();
    let mut page = String::new();
    stream.read_to_string(&mut page).unwrap();
    let value = |sample: &str| -> u64 {
        let line = page
            .lines()
            .find_map(|line| line.strip_prefix(sample))
            .unwrap_or_else(|| panic!("{sample}: {page}"));
        line.trim().parse().unwrap()
    };
    assert!(value("weir_p4runtime_requests_total{switch=\"0\",method=\"Write\"}") > 0);
    assert_eq!(
        value("weir_p4runtime_requests_total{switch=\"0\",method=\"SetForwardingPipelineConfig\"}"),
        1
    );
    let routes =
        page.lines().find(|line| line.starts_with("weir_table_entries") && line.contains("forward\""));
    assert!(routes.is_some_and(|line| line.ends_with("} 3")), "a route to each host: {routes:?}");
}
