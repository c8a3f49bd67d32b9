//! Reads a run directory, whichever backend wrote it.

use super::describe::{RunDescription, SectionBuilder, describe};
use super::manifest::{self, Integrity, IntegrityError};
use super::names::{MANIFEST, SUMMARY};
use super::tables::{self, Table};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::{fs, io};
use thiserror::Error;
use weir_experiment::Catalogue;
use weir_experiment::Experiment;
use weir_experiment::file::TableFormat;
use weir_experiment::results::{
    FctStatistic, FlowRecord, PauseRecord, PortSeries, RateSeries, Results, SchemeTrace, SenderSeries,
    Summary,
};
use weir_units::{Bandwidth, Bytes, Time};

/// The reason why a run directory cannot be read.
#[derive(Debug, Error)]
pub enum LoadError {
    /// The directory has no summary.
    #[error("{}: {reason}; expected a directory written by `weir run`, such as runs/quickstart-1", .dir.display())]
    NoRun { dir: PathBuf, reason: String },
    /// The directory is that of a sweep.
    #[error("{}: directory of a sweep; name its runs instead, such as {}/*/", .dir.display(), .dir.display())]
    Sweep { dir: PathBuf },
    /// A file has the wrong format.
    #[error("{}: {reason}; run the experiment again", .file.display())]
    Malformed { file: PathBuf, reason: String },
    /// A file does not match the manifest.
    #[error(
        "{}: {}; the run is damaged or was edited: run the experiment again, or remove {MANIFEST} to read it unverified",
        .0.file.display(), .0.reason
    )]
    Damaged(IntegrityError),
}

/// A run read from its directory.
pub struct LoadedRun {
    /// Name of the directory.
    pub name: String,
    /// Description for the report.
    pub description: RunDescription,
    /// Summary, and the time series for which tables were written.
    pub results: Results,
    /// Result of comparing the files with the manifest.
    pub integrity: Integrity,
    /// Factor by which times are longer than in the file; 1 unless the run is a scale model.
    pub slowdown: f64,
    /// Names of the tables without a file, of which the report has no charts. `fct` is not among them, which the other
    /// tables do not need, nor `senders`, which is written only on request.
    pub missing_tables: Vec<&'static str>,
    /// Factor by which [`rescale`](super::rescale) has divided the times; `None` if they are as in the files.
    pub time_divisor: Option<f64>,
}

/// Summary and experiment file of a run, without its tables.
pub struct RunHeader {
    pub summary: Summary,
    /// Content of `run.yaml`; empty if the file is missing.
    pub yaml: String,
}

impl RunHeader {
    /// Returns the labels of the schemes in the order of the experiment.
    pub fn schemes(&self) -> Vec<String> {
        scheme_order(&self.summary, &self.yaml)
    }
}

/// Reads summary and experiment file of the run in `dir`, and does not compare them with the manifest.
///
/// # Errors
///
/// If `dir` is not a run directory, or the summary is malformed.
pub fn read_header(dir: &Path) -> Result<RunHeader, LoadError> {
    let not_a_run = |reason: String| LoadError::NoRun { dir: dir.to_owned(), reason };
    check_dir(dir).map_err(not_a_run)?;
    let file = dir.join(SUMMARY);
    let text = fs::read_to_string(&file).map_err(|error| not_a_run(format!("{SUMMARY}: {error}")))?;
    let summary = serde_json::from_str(&text)
        .map_err(|error| LoadError::Malformed { file, reason: error.to_string() })?;
    Ok(RunHeader { summary, yaml: fs::read_to_string(dir.join("run.yaml")).unwrap_or_default() })
}

/// Checks that `dir` is a directory.
///
/// # Errors
///
/// The reason, for a message that begins with the path.
pub fn check_dir(dir: &Path) -> Result<(), String> {
    match fs::metadata(dir) {
        Ok(metadata) if metadata.is_dir() => Ok(()),
        Ok(_) => {
            let run = dir.parent().filter(|parent| parent.join(SUMMARY).exists());
            Err(run.map_or_else(
                || "is a file".to_owned(),
                |run| format!("is a file of the run {}; name that directory", run.display()),
            ))
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Err("no such directory".to_owned()),
        Err(error) => Err(error.to_string()),
    }
}

/// Reads the run in `dir`. `catalogue` has the schemes and workloads of the experiment; `charts` are further sections
/// of the report.
///
/// # Errors
///
/// If `dir` is not a run directory, or a file does not match the manifest or is malformed.
pub fn load(dir: &Path, catalogue: &Catalogue, charts: &[SectionBuilder]) -> Result<LoadedRun, LoadError> {
    if dir.join("sweep.csv").exists() {
        return Err(LoadError::Sweep { dir: dir.to_owned() });
    }
    check_dir(dir).map_err(|reason| LoadError::NoRun { dir: dir.to_owned(), reason })?;
    let integrity = manifest::verify(dir).map_err(LoadError::Damaged)?;
    let RunHeader { summary, yaml } = read_header(dir)?;
    // `None` for a run of an earlier version with other keys: its results can still be compared.
    let experiment =
        Experiment::parse_with(catalogue, &yaml, "run.yaml", &summary.experiment, &[], None).ok();
    let description = experiment.as_ref().map_or_else(
        || {
            let charts = charts.to_vec();
            RunDescription {
                name: summary.experiment.clone(),
                yaml: yaml.clone(),
                charts,
                ..RunDescription::default()
            }
        },
        |experiment| describe(experiment, charts),
    );
    let order = scheme_order(&summary, &yaml);
    let mut traces: BTreeMap<String, SchemeTrace> =
        order.iter().map(|label| (label.clone(), SchemeTrace::default())).collect();
    flows(dir, &mut traces)?;
    fct(dir, &mut traces)?;
    queues(dir, &mut traces)?;
    rates(dir, &mut traces)?;
    senders(dir, &mut traces)?;
    pauses(dir, &mut traces)?;
    for trace in traces.values_mut() {
        let samples = trace.ports.iter().map(|port| port.queue_bytes.len());
        let samples = samples.chain(trace.rates.iter().map(|flow| flow.rate.len()));
        let samples =
            samples.chain(trace.senders.iter().map(|series| series.values.len())).max().unwrap_or(0);
        let last_sample = trace.interval * samples as u64;
        let flow_ends = trace.flows.iter().filter_map(|flow| Some(flow.start + flow.fct?));
        let pauses = trace.pauses.iter().map(|pause| pause.time);
        let last_event = flow_ends.chain(pauses).fold(last_sample, Time::max);
        // Interrupted runs and runs with `until_idle` may end before `duration`; the last event is an estimate of the
        // end.
        let planned =
            experiment.as_ref().filter(|experiment| !summary.partial && !experiment.spec.until_idle);
        trace.end = planned.map_or(last_event, |experiment| experiment.spec.duration.max(last_event));
    }
    let absolute = dir.canonicalize().unwrap_or_else(|_| dir.to_owned());
    let name =
        absolute.file_name().map_or_else(|| dir.display().to_string(), |n| n.to_string_lossy().into_owned());
    let slowdown = experiment.as_ref().map_or(1.0, |experiment| experiment.scale.slowdown());
    let results = Results { summary, traces, order };
    let missing_tables = missing_tables(dir);
    Ok(LoadedRun { name, description, results, integrity, slowdown, missing_tables, time_divisor: None })
}

/// See [`LoadedRun::missing_tables`].
fn missing_tables(dir: &Path) -> Vec<&'static str> {
    let formats = [TableFormat::Csv, TableFormat::Parquet];
    let has_file = |table: &Table| {
        formats.iter().any(|&format| dir.join(tables::file_name_of(table.name, format)).exists())
    };
    let expected = [tables::FLOWS, tables::QUEUES, tables::RATES, tables::PAUSES];
    expected.iter().filter(|table| !has_file(table)).map(|table| table.name).collect()
}

/// Returns the labels of the schemes in the order of `run.yaml`, then those that it does not have, in alphabetical order.
fn scheme_order(summary: &Summary, yaml: &str) -> Vec<String> {
    let file: Option<serde_yaml::Value> = serde_yaml::from_str(yaml).ok();
    let entries = file.as_ref().and_then(|file| file.get("schemes")?.as_sequence());
    let label = |entry: &serde_yaml::Value| {
        let label = entry.get("label").or_else(|| entry.get("scheme")).unwrap_or(entry);
        label.as_str().map(str::to_owned)
    };
    let mut order: Vec<String> = entries.into_iter().flatten().filter_map(label).collect();
    order.retain(|label| summary.schemes.contains_key(label));
    let others: Vec<String> =
        summary.schemes.keys().filter(|label| !order.contains(label)).cloned().collect();
    order.extend(others);
    order
}

/// Reads the rows of a table, if it was written, and calls `on_row` for each.
fn rows<R: DeserializeOwned>(
    dir: &Path,
    table: &Table,
    on_row: impl FnMut(R) -> Result<(), String>,
) -> Result<(), LoadError> {
    tables::read(dir, table, on_row)
        .map_err(|(name, reason)| LoadError::Malformed { file: dir.join(name), reason })
}

/// Parses microseconds such as `12.48576` without rounding.
fn time(text: &str) -> Result<Time, String> {
    /// Picoseconds are the 6th decimal of microseconds.
    const DIGITS: usize = 6;
    let invalid = || format!("invalid time \"{text}\" (microseconds)");
    let (whole, decimals) = text.split_once('.').unwrap_or((text, ""));
    if decimals.len() > DIGITS {
        return Err(invalid());
    }
    let whole: u64 = whole.parse().map_err(|_| invalid())?;
    let decimals_ps: u64 = format!("{decimals:0<DIGITS$}").parse().map_err(|_| invalid())?;
    whole
        .checked_mul(1_000_000)
        .and_then(|ps| ps.checked_add(decimals_ps))
        .map(Time::from_ps)
        .ok_or_else(invalid)
}

/// Parses a time; an empty text is `None`.
fn optional(text: &str) -> Result<Option<Time>, String> {
    if text.is_empty() { Ok(None) } else { time(text).map(Some) }
}

#[derive(Deserialize)]
struct FlowRow {
    scheme: String,
    flow: String,
    from: String,
    to: String,
    size_bytes: Option<u64>,
    start_us: String,
    fct_us: String,
    ideal_us: String,
    acked_bytes: u64,
    retransmits: u64,
    /// Absent in runs of earlier versions.
    #[serde(default)]
    workload: String,
}

fn flows(dir: &Path, traces: &mut BTreeMap<String, SchemeTrace>) -> Result<(), LoadError> {
    rows(dir, &tables::FLOWS, |row: FlowRow| {
        let Some(trace) = traces.get_mut(&row.scheme) else { return Ok(()) };
        trace.flows.push(FlowRecord {
            ordinal: row.flow.rsplit_once('#').and_then(|(_, ordinal)| ordinal.parse().ok()).unwrap_or(1),
            from: row.from.into(),
            to: row.to.into(),
            port: 0,
            incast: false,
            workload: row.workload.into(),
            size: row.size_bytes.map(Bytes::new),
            start: time(&row.start_us)?,
            fct: optional(&row.fct_us)?,
            error: None,
            ideal: optional(&row.ideal_us)?,
            acked: Bytes::new(row.acked_bytes),
            retransmits: row.retransmits,
        });
        Ok(())
    })
}

#[derive(Deserialize)]
struct FctRow {
    scheme: String,
    workload: String,
    over_bytes: u64,
    upto_bytes: Option<u64>,
    n: u64,
    /// Absent in runs of earlier versions.
    #[serde(default)]
    unfinished: u64,
    quantity: String,
    statistic: String,
    value: Option<f64>,
    low: Option<f64>,
    high: Option<f64>,
}

fn fct(dir: &Path, traces: &mut BTreeMap<String, SchemeTrace>) -> Result<(), LoadError> {
    fct_rows(dir, |scheme, row| {
        if let Some(trace) = traces.get_mut(scheme) {
            trace.fct.push(row);
        }
        Ok(())
    })
}

/// Calls `on_row` with the scheme and the content of each row of the run's [`FCT`](tables::FCT).
///
/// # Errors
///
/// If the file is malformed, or `on_row` fails.
pub fn fct_rows(
    dir: &Path,
    mut on_row: impl FnMut(&str, FctStatistic) -> Result<(), String>,
) -> Result<(), LoadError> {
    rows(dir, &tables::FCT, |row: FctRow| {
        let statistic = FctStatistic {
            workload: row.workload.into(),
            over_bytes: row.over_bytes,
            upto_bytes: row.upto_bytes,
            count: row.n,
            unfinished: row.unfinished,
            quantity: row.quantity.into(),
            statistic: row.statistic.into(),
            value: row.value,
            interval: row.low.zip(row.high),
        };
        on_row(&row.scheme, statistic)
    })
}

#[derive(Deserialize)]
struct QueueRow {
    scheme: String,
    time_us: String,
    port: String,
    towards: String,
    queue_bytes: u64,
    utilisation: f64,
}

fn queues(dir: &Path, traces: &mut BTreeMap<String, SchemeTrace>) -> Result<(), LoadError> {
    rows(dir, &tables::QUEUES, |row: QueueRow| {
        let Some(trace) = traces.get_mut(&row.scheme) else { return Ok(()) };
        if trace.interval == Time::ZERO {
            trace.interval = time(&row.time_us)?; // The first sample is taken after one interval.
        }
        if trace.ports.last().is_none_or(|last| last.port != row.port) {
            let (port, towards) = (row.port, row.towards);
            trace.ports.push(PortSeries { port, towards, queue_bytes: Vec::new(), utilisation: Vec::new() });
        }
        let series = trace.ports.last_mut().expect("a series was pushed above");
        series.queue_bytes.push(row.queue_bytes);
        series.utilisation.push(row.utilisation);
        Ok(())
    })
}

#[derive(Deserialize)]
struct RateRow {
    scheme: String,
    time_us: String,
    flow: String,
    rate_bps: u64,
    goodput_bps: u64,
}

fn rates(dir: &Path, traces: &mut BTreeMap<String, SchemeTrace>) -> Result<(), LoadError> {
    rows(dir, &tables::RATES, |row: RateRow| {
        let Some(trace) = traces.get_mut(&row.scheme) else { return Ok(()) };
        if trace.interval == Time::ZERO {
            trace.interval = time(&row.time_us)?;
        }
        if trace.rates.last().is_none_or(|last| last.flow != row.flow) {
            trace.rates.push(RateSeries { flow: row.flow, rate: Vec::new(), goodput: Vec::new() });
        }
        let series = trace.rates.last_mut().expect("a series was pushed above");
        series.rate.push(Bandwidth::from_bps(row.rate_bps));
        series.goodput.push(Bandwidth::from_bps(row.goodput_bps));
        Ok(())
    })
}

#[derive(Deserialize)]
struct SenderRow {
    scheme: String,
    time_us: String,
    flow: String,
    quantity: String,
    value: Option<f64>,
}

fn senders(dir: &Path, traces: &mut BTreeMap<String, SchemeTrace>) -> Result<(), LoadError> {
    rows(dir, &tables::SENDERS, |row: SenderRow| {
        let Some(trace) = traces.get_mut(&row.scheme) else { return Ok(()) };
        if trace.interval == Time::ZERO {
            trace.interval = time(&row.time_us)?;
        }
        let is_another = |last: &SenderSeries| last.flow != row.flow || last.quantity != row.quantity;
        if trace.senders.last().is_none_or(is_another) {
            let (flow, quantity) = (row.flow, row.quantity);
            trace.senders.push(SenderSeries { flow, quantity, values: Vec::new() });
        }
        let series = trace.senders.last_mut().expect("a series was pushed above");
        series.values.push(row.value);
        Ok(())
    })
}

#[derive(Deserialize)]
struct PauseRow {
    scheme: String,
    time_us: String,
    switch: String,
    port: u16,
    priority: u8,
    event: String,
}

fn pauses(dir: &Path, traces: &mut BTreeMap<String, SchemeTrace>) -> Result<(), LoadError> {
    rows(dir, &tables::PAUSES, |row: PauseRow| {
        let Some(trace) = traces.get_mut(&row.scheme) else { return Ok(()) };
        let (time, is_pause) = (time(&row.time_us)?, row.event == "pause");
        trace.pauses.push(PauseRecord {
            time,
            switch: row.switch,
            port: row.port,
            priority: row.priority,
            is_pause,
        });
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{TableSelection, fixtures};

    #[test]
    fn values_are_read_as_they_were_written() {
        for format in [TableFormat::Csv, TableFormat::Parquet] {
            for results in [fixtures::dumbbell(), fixtures::workload(), fixtures::senders()] {
                let dir = tempfile::tempdir().unwrap();
                let tables = TableSelection { format, ..fixtures::all_tables() };
                crate::write(dir.path(), &RunDescription { tables, ..fixtures::run() }, &results).unwrap();
                let loaded = load(dir.path(), &Catalogue::builtin(), &[]).unwrap();
                assert_eq!(loaded.results.summary, results.summary);
                for (label, trace) in &results.traces {
                    let read = &loaded.results.traces[label];
                    assert_eq!(read.interval, trace.interval, "{label}");
                    assert_eq!(read.flows.len(), trace.flows.len());
                    let fcts = |trace: &SchemeTrace| {
                        trace.flows.iter().map(|f| (f.start, f.fct)).collect::<Vec<_>>()
                    };
                    assert_eq!(fcts(read), fcts(trace));
                    let groups = |trace: &SchemeTrace| {
                        let rows = trace.fct.iter();
                        rows.map(|row| (row.count, row.upto_bytes, row.interval.is_some()))
                            .collect::<Vec<_>>()
                    };
                    assert_eq!(groups(read), groups(trace));
                    let queues = |trace: &SchemeTrace| {
                        trace.ports.iter().map(|p| p.queue_bytes.clone()).collect::<Vec<_>>()
                    };
                    assert_eq!(queues(read), queues(trace));
                    assert_eq!(read.rates.len(), trace.rates.len());
                    let senders = |trace: &SchemeTrace| {
                        let series = trace.senders.iter();
                        series.map(|s| (s.quantity.clone(), s.values.clone())).collect::<Vec<_>>()
                    };
                    assert_eq!(senders(read), senders(trace));
                    assert_eq!(read.pauses.len(), trace.pauses.len());
                }
            }
        }
    }

    #[test]
    fn flows_of_earlier_versions_have_no_workload() {
        let dir = tempfile::tempdir().unwrap();
        let tables = TableSelection { flows: true, ..TableSelection::default() };
        crate::write(dir.path(), &RunDescription { tables, ..fixtures::run() }, &fixtures::workload())
            .unwrap();
        let workloads = || {
            let traces = load(dir.path(), &Catalogue::builtin(), &[]).unwrap().results.traces;
            traces["fncc"].flows.iter().map(|flow| flow.workload.to_string()).collect::<Vec<_>>()
        };
        assert_eq!(workloads()[0], "poisson");
        let file = dir.path().join("flows.csv");
        let text =
            fs::read_to_string(&file).unwrap().replace(",workload\n", "\n").replace(",poisson\n", "\n");
        fs::write(&file, text).unwrap();
        assert_eq!(workloads()[0], "");
    }

    #[test]
    fn a_run_with_until_idle_ends_at_its_last_event() {
        let planned = Time::from_ms(500);
        let mut results = fixtures::workload();
        results.summary.partial = false;
        let ends = |keys: &str| {
            let dir = tempfile::tempdir().unwrap();
            let yaml = format!(
                "topology: {{kind: star, hosts: 3}}\nschemes: [fncc]\nflows: [{{from: h1, to: h2, size: 1KB}}]\nduration: {planned}\n{keys}"
            );
            crate::write(dir.path(), &RunDescription { yaml, ..fixtures::run() }, &results).unwrap();
            load(dir.path(), &Catalogue::builtin(), &[])
                .unwrap()
                .results
                .traces
                .into_values()
                .map(|trace| trace.end)
                .collect::<Vec<_>>()
        };
        assert!(ends("").iter().all(|&end| end == planned));
        assert!(ends("until_idle: true\n").iter().all(|&end| end < planned));
    }

    #[test]
    fn times_are_exact_and_errors_name_the_file() {
        assert_eq!(time("12.48576").unwrap(), Time::from_ps(12_485_760));
        assert_eq!(time("300").unwrap(), Time::from_us(300));
        for invalid in ["", "x", "1.2345678", "-1", "99999999999999999999"] {
            assert!(time(invalid).is_err(), "{invalid}");
        }
        let dir = tempfile::tempdir().unwrap();
        let error = |dir: &Path| load(dir, &Catalogue::builtin(), &[]).err().expect("no run").to_string();
        let file = dir.path().join("x.yaml");
        fs::write(&file, "").unwrap();
        assert!(error(&file).contains("x.yaml: is a file; expected a directory"), "{}", error(&file));
        let missing = dir.path().join("missing");
        assert!(error(&missing).contains("missing: no such directory; expected"), "{}", error(&missing));
        assert!(error(dir.path()).contains("summary.json") && error(dir.path()).contains("weir run"));
        crate::write(dir.path(), &fixtures::run(), &fixtures::dumbbell()).unwrap();
        let page = error(&dir.path().join("report.html"));
        assert!(page.contains("is a file of the run ") && page.contains("name that directory"), "{page}");
        fs::write(dir.path().join("queues.csv"), "scheme,time_us\nfncc,1\n").unwrap();
        assert!(error(dir.path()).contains("queues.csv"), "{}", error(dir.path()));
        fs::remove_file(dir.path().join("queues.csv")).unwrap();
        fs::write(dir.path().join("queues.parquet"), "PAR1 or not").unwrap();
        assert!(error(dir.path()).contains("queues.parquet"), "{}", error(dir.path()));
    }

    /// Even if this version cannot read the experiment.
    #[test]
    fn schemes_are_in_the_order_of_the_experiment() {
        let summary = fixtures::dumbbell().summary;
        let order = |yaml: &str| scheme_order(&summary, yaml);
        assert_eq!(
            order("schemes: [{scheme: hpcc, label: hpcc eta=0.95}, fncc]\nunknown: 1"),
            ["hpcc eta=0.95", "fncc"]
        );
        assert_eq!(order("schemes: [{scheme: fncc}, other]"), ["fncc", "hpcc eta=0.95"]);
        assert_eq!(order(""), ["fncc", "hpcc eta=0.95"]);
    }
}
