//! Checks of the options before anything is started.

use super::options::{Options, TargetOptions};
use crate::console::Failure;
use std::io::Write;

/// Rejects invalid combinations of options before anything is started.
pub(super) fn check(args: &Options, target: &TargetOptions, has_program: bool) -> Result<(), Failure> {
    let reject = |reason: &str| Err(Failure::input(reason));
    if args.debugger || args.debugger_addr.is_some() {
        return reject(
            "--debugger: not supported; use `weir trace` or -L trace to see a packet's path through the program",
        );
    }
    if args.restore_state.is_some() && (args.fabric.is_some() || args.plan.is_some()) {
        return reject("--restore-state restores the state of one switch; it cannot be used with --fabric");
    }
    if args.packet_in.is_some() {
        return reject("--packet-in: not supported; use interfaces (-i) or files (--use-files)");
    }
    if target.dp_grpc_server_addr.is_some() {
        return reject("--dp-grpc-server-addr: not supported; use interfaces (-i) or files (--use-files)");
    }
    if target.load_modules.is_some() {
        return reject("--load-modules: not supported; only the externs of v1model are available");
    }
    if args.control.is_some() && args.fabric.is_none() && args.plan.is_none() {
        return reject("--control requires --fabric");
    }
    if !has_program && !args.no_p4 && args.plan.is_none() {
        return reject("specify a program (BMv2 JSON) or --no-p4");
    }
    if target.cpu_port == Some(target.drop_port) {
        return reject("CPU port and drop port must differ");
    }
    target.grpc.check()
}

/// Returns warnings about options that are accepted without effect.
pub(super) fn warnings(args: &Options, target: &TargetOptions, has_program: bool) -> Vec<String> {
    let mut warnings = Vec::new();
    let mut warn_if = |condition: bool, message: &str| warnings.extend(condition.then(|| message.to_owned()));
    warn_if(args.nanolog.is_some(), "--nanolog is ignored; events are logged as text, see --log-file");
    warn_if(
        args.notifications_addr.is_some() && (args.fabric.is_some() || args.plan.is_some()),
        "--notifications-addr has no effect with several switches: their digests are sent over P4Runtime",
    );
    warn_if(
        args.restore_state.is_some() && (args.no_p4 || !has_program),
        "--restore-state has no effect without a program",
    );
    warn_if(args.no_p4 && has_program, "the program is not loaded, because of --no-p4");
    warn_if(args.log_file.is_none() && args.log_flush, "--log-flush has no effect without --log-file");
    warn_if(
        target.grpc.has_pem_without_ssl(),
        "the certificate options have no effect without --grpc-server-ssl",
    );
    warnings
}

/// Prints a warning on standard error.
pub(super) fn warn(message: &str) -> std::io::Result<()> {
    writeln!(std::io::stderr(), "warning: {message}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    /// The options before `--`, as a command of their own.
    #[derive(Debug, Parser)]
    struct SwitchCommand {
        #[command(flatten)]
        options: Options,
    }

    /// Returns the warnings about a command line, or the error; `None` if the command line only prints help or a
    /// version.
    fn outcome(line: &str) -> Option<Result<Vec<String>, String>> {
        let (switch_words, target) = line.split_once("-- ").unwrap_or((line, ""));
        let words = |line: &str| -> Vec<String> { line.split_whitespace().map(str::to_owned).collect() };
        let only_prints = |kind: clap::error::ErrorKind| {
            matches!(kind, clap::error::ErrorKind::DisplayHelp | clap::error::ErrorKind::DisplayVersion)
        };
        let switch_words =
            [vec!["switch".to_owned()], words(switch_words), vec!["--no-p4".to_owned()]].concat();
        let args = match SwitchCommand::try_parse_from(switch_words) {
            Ok(command) => command.options,
            Err(error) if only_prints(error.kind()) => return None,
            Err(error) => return Some(Err(error.to_string())),
        };
        let target = [vec!["--".to_owned()], words(target)].concat();
        let target = match TargetOptions::try_parse_from(target) {
            Ok(target) => target,
            Err(error) => return Some(Err(error.to_string())),
        };
        let result = check(&args, &target, false).map(|()| warnings(&args, &target, false));
        Some(result.map_err(|failure| failure.to_string()))
    }

    #[test]
    fn options_of_bmv2_are_handled_as_documented() {
        let table = include_str!("../../../assets/switch-options.md");
        let mut rows = 0;
        for row in table.lines().filter_map(|line| line.strip_prefix("| `-")) {
            let mut cells = row.split('|').map(str::trim);
            let line = format!("-{}", cells.next().unwrap().trim_end_matches('`'));
            let line = line.replace("--no-p4", "");
            let outcome = outcome(&line);
            match cells.next().unwrap() {
                "as BMv2" => assert!(matches!(&outcome, None | Some(Ok(_))), "{line}: {outcome:?}"),
                "no effect" => {
                    let option = line.trim_start_matches("-- ").split(' ').next().unwrap();
                    let Some(Ok(warnings)) = outcome else { panic!("{line}: {outcome:?}") };
                    assert!(
                        warnings.iter().any(|warning| warning.starts_with(option)),
                        "{line}: {warnings:?}"
                    );
                }
                "rejected" => {
                    let option = line.trim_start_matches("-- ").split(' ').next().unwrap().to_owned();
                    let Some(Err(reason)) = outcome else { panic!("{line}: {outcome:?}") };
                    assert!(option.starts_with(reason.split(':').next().unwrap()), "{line}: {reason}");
                }
                other => panic!("{line}: \"{other}\""),
            }
            rows += 1;
        }
        assert_eq!(rows, 36, "every row of the table was found");
    }
}
