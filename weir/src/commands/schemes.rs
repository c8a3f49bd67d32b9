//! `weir schemes`

use crate::console::{Console, Failure};
use std::io::Write;
use weir_host::scheme::{SchemeConfig, TelemetryOn};
use weir_host::schemes;

/// List the congestion control schemes, or the knobs of one
///
/// Knobs are set in an experiment file: `schemes: [{scheme: fncc, set: {lhcs: off}}]`. Each default
/// names where it comes from.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  weir schemes\n  weir schemes fncc")]
pub struct Args {
    /// Scheme whose knobs to show
    name: Option<String>,
}

/// Does it.
pub fn run(args: &Args, console: &mut Console) -> Result<(), Failure> {
    match &args.name {
        None => list(console),
        Some(name) => {
            let scheme = schemes::from_name_and_knobs::<&str, &str>(name, &[]).map_err(Failure::input)?;
            show(scheme.as_ref(), console)
        }
    }
}

fn list(console: &mut Console) -> Result<(), Failure> {
    let all: Vec<_> = schemes::registry().iter().map(|make| make()).collect();
    let width = all.iter().map(|scheme| scheme.name().len()).max().unwrap_or(0);
    for scheme in &all {
        writeln!(console.out, "{:width$}  {}", scheme.name(), scheme.about())?;
    }
    Ok(())
}

fn show(scheme: &dyn SchemeConfig, console: &mut Console) -> Result<(), Failure> {
    let out = &mut console.out;
    let needs = scheme.needs();
    let telemetry = match needs.telemetry {
        TelemetryOn::Nothing => "no telemetry",
        TelemetryOn::Data => "telemetry on data packets",
        TelemetryOn::DataOncePerRtt => "telemetry on one data packet per round trip",
        TelemetryOn::Probes => "telemetry on probes",
        TelemetryOn::Acks => "telemetry on ACKs",
        TelemetryOn::Notices => "rates from switches",
    };
    writeln!(out, "{}", scheme.about())?;
    writeln!(out, "Wants {telemetry}{}.", if needs.ecn.is_some() { " and ECN marks" } else { "" })?;
    for knob in scheme.knobs() {
        // A dash stands for no symbol and no unit.
        let unit = if knob.unit == "-" { String::new() } else { format!(", in {}", knob.unit) };
        let aside = match knob.symbol {
            "-" => unit.trim_start_matches(", ").to_owned(),
            symbol => format!("{symbol}{unit}"),
        };
        let aside = if aside.is_empty() { aside } else { format!("  ({aside})") };
        writeln!(out, "\n  {} = {}{aside}", knob.name, knob.default)?;
        writeln!(out, "      {}", knob.help)?;
        writeln!(out, "      takes    {}", knob.range)?;
        writeln!(out, "      default  {}", knob.source)?;
    }
    Ok(())
}
