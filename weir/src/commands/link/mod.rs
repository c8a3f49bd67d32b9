//! `weir link`

mod bmv2;
mod report;
mod run;
mod serve;

use crate::console::{Console, Failure};
use crate::output::{ActionOutput, QueryOutput};
pub use report::LinkReport;
pub use serve::{LinkController, serve};
use weir_switch::link::LinkChange;
use weir_testbed::links::{LINKS, LinkRequest};

/// Links of a rate, a length and faults between pairs of interfaces
///
/// One process carries the frames of all links: it takes them from one interface and puts them on the other when their
/// last bit would arrive. It needs no netem and no tc, and does not care what is at the interfaces: BMv2, Weir's switch,
/// hosts, other software. `weir run --on mininet` starts one for switches in processes of their own; a fabric in one
/// process carries its links itself. See docs/links.md.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
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
  queue       bytes that may wait; absent: 1.518 MB
  jitter      more delay, up to this; frames stay in order
  loss, duplicate, corrupt (one inverted bit), reorder (a frame overtakes),
  reorder_by (others overtake it by this time)
              probabilities, as 0.01 or 1%";

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Emulate links until it is interrupted
    Run(run::Args),
    /// Print properties and counters of the links
    Show {
        #[command(flatten)]
        at: At,
        #[command(flatten)]
        output: QueryOutput,
    },
    /// Change links while they run; frames in flight keep their time
    Set {
        /// Links by name (s1-s2 or s2-s1), a node for all its links, or `all`
        #[arg(required = true, value_name = "LINK")]
        links: Vec<String>,
        #[command(flatten)]
        change: Change,
        #[command(flatten)]
        at: At,
        #[command(flatten)]
        output: ActionOutput,
    },
}

#[derive(Debug, clap::Args)]
struct At {
    /// The emulator's name (`weir link run --control`)
    #[arg(long, value_name = "NAME", default_value = LINKS)]
    control: String,
}

#[derive(Debug, clap::Args)]
struct Change {
    /// Bits of frames per second, or `unlimited`
    #[arg(long)]
    rate: Option<String>,
    /// Propagation delay
    #[arg(long, value_name = "TIME")]
    delay: Option<String>,
    /// Bytes that may wait for the transmitter
    #[arg(long, value_name = "SIZE")]
    queue: Option<String>,
    /// Up to this much more delay
    #[arg(long, value_name = "TIME")]
    jitter: Option<String>,
    /// Probability that a frame is lost
    #[arg(long, value_name = "RATIO")]
    loss: Option<String>,
    /// Probability that a frame overtakes others
    #[arg(long, value_name = "RATIO")]
    reorder: Option<String>,
    /// Others overtake it: it arrives this much later
    #[arg(long, value_name = "TIME")]
    reorder_by: Option<String>,
    /// Probability that a frame arrives twice
    #[arg(long, value_name = "RATIO")]
    duplicate: Option<String>,
    /// Probability that one bit of a frame is inverted
    #[arg(long, value_name = "RATIO")]
    corrupt: Option<String>,
    /// Lose every frame, those that are in flight too
    #[arg(long, conflicts_with = "up")]
    down: bool,
    /// Carry frames again
    #[arg(long)]
    up: bool,
}

impl Change {
    fn read(&self) -> Result<LinkChange, Failure> {
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
        change.up = self.up.then_some(true).or(self.down.then_some(false));
        match change.is_empty() {
            true => Err(Failure::input("no change given: name one, such as --delay 5ms")),
            false => Ok(change),
        }
    }
}

/// Executes the command.
pub fn run(args: &Args, console: &mut Console) -> Result<(), Failure> {
    let ask = |at: &At, request: &LinkRequest| request.ask::<LinkReport>(&at.control);
    match &args.command {
        Command::Run(args) => run::run(args, console),
        Command::Show { at, output } => {
            console.style(*output);
            ask(at, &LinkRequest::Show {})?.print(console)
        }
        Command::Set { links, change, at, output } => {
            console.style(*output);
            let change = change.read()?.to_string();
            let report = ask(at, &LinkRequest::Set { links: links.clone(), change })?;
            if console.style.quiet { Ok(()) } else { report.print(console) }
        }
    }
}
