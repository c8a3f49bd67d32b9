//! `weir link run`: emulates links until it is interrupted.

use super::LinkReport;
use super::bmv2::{Bmv2RateController, Bmv2Switch};
use super::serve::{EmulatorLinks, serve};
use crate::commands::files::read;
use crate::commands::linux::MAX_IFNAME_LEN;
use crate::console::{Console, Failure};
use crate::control::Socket;
use crate::interrupt;
use crate::output::QueryOutput;
use crate::privilege;
use caps::Capability;
use std::collections::BTreeSet;
use std::io::Write;
use std::path::PathBuf;
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::time::Duration;
use weir_switch::driver::{DataplaneError, EmulatedLink, LinkEmulator, StartError};
use weir_switch::link::{LinkChange, LinkParameters};
use weir_testbed::links::{LINKS, socket};
use weir_units::Bytes;

/// Interval at which the state of the emulator thread is checked.
const HEALTH_CHECK_INTERVAL: Duration = Duration::from_secs(1);

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Name of a link, the interfaces that it connects, and its properties
    #[arg(value_name = "NAME=INTERFACE,INTERFACE[,KEY=VALUE...]", value_parser = parse_link)]
    links: Vec<EmulatedLink>,

    /// File with more links, one per line in the same syntax; # begins a comment
    #[arg(long, value_name = "FILE")]
    file: Option<PathBuf>,

    /// Name by which `weir link show` and `set` find the emulator in this network namespace
    #[arg(long, value_name = "NAME", default_value = LINKS)]
    control: String,

    /// Seed of random impairments
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,

    /// Keep ports of a BMv2 switch at the rates of their links: address of its Thrift server, and port and
    /// interface of each link
    ///
    /// BMv2 limits packets per second. The limits of these ports are adapted to the lengths of the queued
    /// frames, so that the bit rate equals that of the link, and queues build up in the switch rather than in
    /// front of the link.
    #[arg(long, value_name = "HOST:PORT=PORT@INTERFACE,...", value_parser = Bmv2Switch::parse)]
    bmv2: Vec<Bmv2Switch>,

    /// Length of a full frame at these ports
    #[arg(long, value_name = "SIZE", default_value_t = weir_host::DEFAULT_MTU, requires = "bmv2")]
    frame: Bytes,

    #[command(flatten)]
    output: QueryOutput,
}

/// Parses `s1-s2=veth1,veth2,rate=10Mbps`.
fn parse_link(text: &str) -> Result<EmulatedLink, String> {
    let syntax_error = || {
        format!(
            "\"{text}\": expected NAME=INTERFACE,INTERFACE[,PROPERTY=VALUE...], for example s1-s2=veth1,veth2,delay=5ms"
        )
    };
    let (name, rest) = text.split_once('=').ok_or_else(syntax_error)?;
    let mut parts = rest.splitn(3, ',');
    let (Some(a), Some(b)) = (parts.next(), parts.next()) else { return Err(syntax_error()) };
    let is_interface = |name: &str| {
        !name.is_empty() && name.len() <= MAX_IFNAME_LEN && !name.contains(['=', '/', ' ', '\0'])
    };
    if name.is_empty() || !is_interface(a) || !is_interface(b) {
        return Err(syntax_error());
    }
    let change: LinkChange =
        parts.next().unwrap_or_default().parse().map_err(|reason| format!("{name}: {reason}"))?;
    Ok(EmulatedLink {
        name: name.to_owned(),
        ends: [a.to_owned(), b.to_owned()],
        parameters: change.apply(LinkParameters::default()),
    })
}

/// Returns a line without its comment. As in a shell, a `#` begins a comment only at the start of a word,
/// because names may contain `#`.
fn without_comment(line: &str) -> &str {
    let begins_word = |index: usize| line[..index].chars().next_back().is_none_or(char::is_whitespace);
    let comment = line.match_indices('#').map(|(index, _)| index).find(|&index| begins_word(index));
    comment.map_or(line, |index| &line[..index])
}

/// Returns the links of the command line and of the file, with unique names and interfaces.
fn links(args: &Args) -> Result<Vec<EmulatedLink>, Failure> {
    let mut links = args.links.clone();
    if let Some(path) = &args.file {
        for (number, line) in read(path)?.lines().enumerate() {
            let line = without_comment(line).trim();
            if !line.is_empty() {
                let invalid = |reason| Failure::Input(format!("{}:{}: {reason}", path.display(), number + 1));
                links.push(parse_link(line).map_err(invalid)?);
            }
        }
    }
    if links.is_empty() {
        return Err(Failure::input("at least one link is required, for example s1-s2=veth1,veth2,delay=5ms"));
    }
    let (mut names, mut ends) = (BTreeSet::new(), BTreeSet::new());
    for link in &links {
        if !names.insert(link.name.clone()) {
            return Err(Failure::Input(format!("duplicate link name {}", link.name)));
        }
        for end in &link.ends {
            if !ends.insert(end.clone()) {
                return Err(Failure::Input(format!("{}: interface {end} is used by two links", link.name)));
            }
        }
    }
    Ok(links)
}

pub(super) fn run(args: &Args, console: &mut Console) -> Result<(), Failure> {
    console.style(args.output);
    let links = links(args)?;
    let controller = Bmv2RateController::new(&args.bmv2, &links, args.frame).map_err(Failure::Input)?;
    let control = Socket::bind_name(&socket(&args.control))?;
    privilege::sandbox(&[Capability::CAP_NET_RAW], &[], &[])?;
    let (quit_tx, quit_rx) = sync_channel(1);
    interrupt::on_signal(move || {
        // Fails only if a signal is already queued; a second one has no effect.
        let _ = quit_tx.try_send(());
    })?;
    let link_count = links.len();
    let names: Vec<String> = links.iter().map(|link| link.name.clone()).collect();
    let observer = controller.map(Bmv2RateController::start).transpose().map_err(Failure::Work)?;
    let emulator = LinkEmulator::start(links, args.seed, observer).map_err(|error| match error {
        StartError::System(_) => Failure::work(error),
        StartError::Dataplane(DataplaneError::Port { reason, .. }) => Failure::Input(reason),
        other => Failure::input(other),
    })?;
    let handle = emulator.handle();
    let server = serve(control, EmulatorLinks { emulator: handle.clone(), names })?;
    if !console.style.json {
        writeln!(
            console.out,
            "{link_count} links run; `weir link show --control {}` shows them",
            args.control
        )?;
        console.out.flush()?;
    }
    while quit_rx.recv_timeout(HEALTH_CHECK_INTERVAL) == Err(RecvTimeoutError::Timeout) {
        if !emulator.is_running() {
            return Err(Failure::work("the emulator thread panicked; see the message above"));
        }
    }
    drop(server);
    let stats = handle.stats().wait().map_err(Failure::work)?;
    LinkReport::new(&stats, |_| true).print(console)
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_units::Time;

    #[test]
    fn a_comment_begins_at_the_start_of_a_word() {
        for (line, rest) in
            [("# all", ""), ("h1-s1#2=a,b", "h1-s1#2=a,b"), ("l=a,b # one", "l=a,b "), ("l=a,b", "l=a,b")]
        {
            assert_eq!(without_comment(line), rest);
        }
    }

    #[test]
    fn links_are_parsed() {
        let link = parse_link("s1-s2=veth1,veth2,rate=10Mbps,delay=5ms").unwrap();
        assert_eq!((link.name.as_str(), link.ends), ("s1-s2", ["veth1".to_owned(), "veth2".to_owned()]));
        assert_eq!(link.parameters.delay, Time::from_ms(5));
        assert_eq!(parse_link("l=a,b").unwrap().parameters, LinkParameters::default());
        for invalid in ["", "l", "l=a", "l=a,delay=5ms", "=a,b", "l=a,interface-of-20-chars"] {
            assert!(
                parse_link(invalid).unwrap_err().contains("expected NAME=INTERFACE,INTERFACE"),
                "{invalid}"
            );
        }
        assert!(parse_link("l=a,b,lost=1").unwrap_err().contains("l: unknown link property \"lost\""));
    }
}
