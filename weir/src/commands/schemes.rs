//! `weir schemes`: lists the congestion control schemes and their parameters.

use crate::console::{Console, Failure};
use crate::output::QueryOutput;
use comfy_table::{ContentArrangement, Table, presets};
use serde_json::json;
use std::io::Write;
use weir_host::parameter::Parameter;
use weir_host::scheme::{SchemeConfig, TelemetrySource};
use weir_report::table::fit;

/// List the congestion control schemes, or the parameters of one
///
/// Parameters are set in an experiment file: `schemes: [{scheme: fncc, set: {lhcs: off}}]`. The source of
/// each default is listed.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  weir schemes\n  weir schemes fncc")]
pub(super) struct Args {
    /// Scheme whose parameters are shown
    name: Option<String>,

    #[command(flatten)]
    output: QueryOutput,
}

pub(super) fn run(args: &Args, console: &mut Console) -> Result<(), Failure> {
    console.style(args.output);
    match &args.name {
        None => list(console),
        Some(name) => {
            let scheme = console.extensions.catalogue.schemes.get(name).map_err(Failure::input)?;
            show(scheme.as_ref(), console)
        }
    }
}

fn list(console: &mut Console) -> Result<(), Failure> {
    let schemes: Vec<_> = console.extensions.catalogue.schemes.schemes().collect();
    if console.style.json {
        let list: Vec<_> =
            schemes.iter().map(|scheme| json!({"name": scheme.name(), "about": scheme.about()})).collect();
        return console.print_json(&list);
    }
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_content_arrangement(ContentArrangement::Disabled);
    for scheme in &schemes {
        table.add_row([scheme.name(), scheme.about()]);
    }
    for (column, right_padding) in table.column_iter_mut().zip([2, 0]) {
        column.set_padding((0, right_padding));
    }
    fit(&mut table, console.width);
    Ok(writeln!(console.out, "{}", table.trim_fmt())?)
}

fn show(scheme: &dyn SchemeConfig, console: &mut Console) -> Result<(), Failure> {
    let needs = scheme.needs();
    let telemetry = match needs.telemetry {
        TelemetrySource::None => "no telemetry",
        TelemetrySource::Data => "telemetry on data packets",
        TelemetrySource::DataOncePerRtt => "telemetry on one data packet per round trip",
        TelemetrySource::DataOnCongestion => {
            "telemetry on one data packet per round trip, and on all where ports are congested"
        }
        TelemetrySource::Probes => "telemetry on probes",
        TelemetrySource::Acks => "telemetry on ACKs",
        TelemetrySource::RateNotifications => "rates from switches",
    };
    if console.style.json {
        let parameters = scheme.parameters().into_iter().map(|Parameter { info, default, .. }| {
            // `-` means that the parameter has no symbol or no unit.
            let optional = |text: &'static str| (text != "-").then_some(text);
            json!({
                "name": info.name, "default": default, "symbol": optional(info.symbol), "unit": optional(info.unit),
                "help": info.help, "range": info.range.to_string(), "source": info.source,
            })
        });
        return console.print_json(&json!({
            "name": scheme.name(), "about": scheme.about(), "telemetry": telemetry, "ecn": needs.ecn.is_some(),
            "parameters": parameters.collect::<Vec<_>>(),
        }));
    }
    let out = &mut console.out;
    writeln!(out, "{}", scheme.about())?;
    writeln!(out, "Requires {telemetry}{}.", if needs.ecn.is_some() { " and ECN marks" } else { "" })?;
    for Parameter { info, default, .. } in scheme.parameters() {
        // `-` means that the parameter has no symbol or no unit.
        let unit = if info.unit == "-" { String::new() } else { format!(", in {}", info.unit) };
        let suffix = match info.symbol {
            "-" => unit.trim_start_matches(", ").to_owned(),
            symbol => format!("{symbol}{unit}"),
        };
        let suffix = if suffix.is_empty() { suffix } else { format!("  ({suffix})") };
        writeln!(out, "\n  {} = {}{suffix}", info.name, default)?;
        writeln!(out, "      {}", info.help)?;
        writeln!(out, "      range    {}", info.range)?;
        writeln!(out, "      default  {}", info.source)?;
    }
    Ok(())
}
