//! `weir link`: emulates links between interfaces, and shows and changes running links.

mod bmv2;
mod report;
mod run;
mod serve;

use crate::console::{Console, Failure};
use crate::output::{ActionOutput, QueryOutput};
pub(super) use report::LinkReport;
pub(super) use serve::{LinkController, serve};
use weir_switch::link::LinkChange;
use weir_testbed::links::{LINKS, LinkRequest};

/// Emulate links (rate, delay, faults) between network interfaces
///
/// One process carries the frames of all links: it reads a frame from one interface and writes it to the
/// other when its last bit would arrive. It needs neither netem nor tc, and works with any software at the
/// interfaces: BMv2, Weir's switch, hosts, and others. `weir run --backend mininet` starts an emulator for
/// switches in separate processes; a single-process fabric emulates its own links. See docs/links.md.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    #[command(subcommand)]
    command: Command,
}

const EXAMPLES: &str = "\
Examples:
  sudo weir link run s1-s2=veth1,veth2,rate=10Mbps,delay=5ms
  sudo weir link run --file links.txt --control lab
  sudo weir link set s1-s2 --delay 20ms --loss 1%
  sudo weir link set s1-s2 --down
  sudo weir link show

Properties:
  rate        bits of frames per second, or `unlimited`
  delay       propagation delay
  queue       queue capacity in bytes; default 1.518 MB
  jitter      maximum additional delay; frames stay in order
  loss, duplicate, corrupt (one inverted bit), reorder (a frame overtakes),
  reorder_by (extra delay of a reordered frame)
              probabilities, as 0.01 or 1%";

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Emulate links until interrupted
    Run(run::Args),
    /// Print properties and counters of the links
    Show {
        #[command(flatten)]
        control: ControlArgs,
        #[command(flatten)]
        output: QueryOutput,
    },
    /// Change running links; frames in flight keep their arrival times
    Set {
        /// Links by name (s1-s2 or s2-s1), a node for all of its links, or `all`
        #[arg(required = true, value_name = "LINK")]
        links: Vec<String>,
        #[command(flatten)]
        change: ChangeArgs,
        #[command(flatten)]
        control: ControlArgs,
        #[command(flatten)]
        output: ActionOutput,
    },
}

#[derive(Debug, clap::Args)]
struct ControlArgs {
    /// Name of the emulator (`weir link run --control`)
    #[arg(long, value_name = "NAME", default_value = LINKS)]
    control: String,
}

#[derive(Debug, clap::Args)]
struct ChangeArgs {
    /// Rate in bits of frames per second, or `unlimited`
    #[arg(long)]
    rate: Option<String>,
    /// Propagation delay
    #[arg(long, value_name = "TIME")]
    delay: Option<String>,
    /// Queue capacity of the transmitter in bytes
    #[arg(long, value_name = "SIZE")]
    queue: Option<String>,
    /// Maximum additional delay
    #[arg(long, value_name = "TIME")]
    jitter: Option<String>,
    /// Probability that a frame is lost
    #[arg(long, value_name = "RATIO")]
    loss: Option<String>,
    /// Probability that a frame is reordered
    #[arg(long, value_name = "RATIO")]
    reorder: Option<String>,
    /// Extra delay of a reordered frame, in which others overtake it
    #[arg(long, value_name = "TIME")]
    reorder_by: Option<String>,
    /// Probability that a frame is duplicated
    #[arg(long, value_name = "RATIO")]
    duplicate: Option<String>,
    /// Probability that one bit of a frame is inverted
    #[arg(long, value_name = "RATIO")]
    corrupt: Option<String>,
    /// Take the links down: all frames are lost, including those in flight
    #[arg(long, conflicts_with = "up")]
    down: bool,
    /// Take the links up
    #[arg(long)]
    up: bool,
}

impl ChangeArgs {
    /// Returns the change that the options describe. Fails if there is none.
    fn parse(&self) -> Result<LinkChange, Failure> {
        let options = [
            ("rate", &self.rate),
            ("delay", &self.delay),
            ("queue", &self.queue),
            ("jitter", &self.jitter),
            ("loss", &self.loss),
            ("reorder", &self.reorder),
            ("reorder_by", &self.reorder_by),
            ("duplicate", &self.duplicate),
            ("corrupt", &self.corrupt),
        ];
        let mut change = LinkChange::default();
        for (key, value) in options.into_iter().filter_map(|(key, value)| Some((key, value.as_ref()?))) {
            change
                .set(key, value)
                .map_err(|reason| Failure::Input(format!("--{}", reason.replace('_', "-"))))?;
        }
        // `None` if neither option is given: the state stays.
        change.up = self.up.then_some(true).or(self.down.then_some(false));
        match change.is_empty() {
            true => Err(Failure::input("nothing to change; specify for example --delay 5ms")),
            false => Ok(change),
        }
    }
}

pub(super) fn run(args: &Args, console: &mut Console) -> Result<(), Failure> {
    let send = |args: &ControlArgs, request: &LinkRequest| request.send::<LinkReport>(&args.control);
    match &args.command {
        Command::Run(args) => run::run(args, console),
        Command::Show { control, output } => {
            console.style(*output);
            send(control, &LinkRequest::Show {})?.print(console)
        }
        Command::Set { links, change, control, output } => {
            console.style(*output);
            let change = change.parse()?.to_string();
            let report = send(control, &LinkRequest::Set { links: links.clone(), change })?;
            if console.style.quiet { Ok(()) } else { report.print(console) }
        }
    }
}
