//! Artificial results for the tests of the report.

use super::{PaperValue, ProgramInfo, RunDescription, TableSelection};
use std::collections::BTreeMap;
use weir_experiment::fct_statistics;
use weir_experiment::results::{
    Fct, FctBucket, FlowRecord, PauseRecord, Percentiles, PortSeries, QueueSummary, RateSeries, Results,
    SchemeSummary, SchemeTrace, SenderSeries, Summary,
};
use weir_units::{Bandwidth, Bytes, Time};

/// Returns the description of the runs.
pub fn run() -> RunDescription {
    let properties =
        [("topology", "dumbbell, 3 switches, 3 hosts, links of 100Gbps and 1.5us"), ("duration", "1 ms")];
    RunDescription {
        name: "quickstart".into(),
        about: Some("Two flows share a bottleneck; the second joins after 300 us.".into()),
        properties: properties.map(|(name, value)| (name.into(), value.into())).into(),
        program: ProgramInfo::default(),
        yaml: "name: quickstart\nseed: 1\n".into(),
        tables: TableSelection { flows: true, queues: true, rates: true, ..TableSelection::default() },
        addresses: BTreeMap::new(),
        charts: Vec::new(),
        paper: vec![
            PaperValue {
                what: "peak queue at the first hop, fncc over hpcc".into(),
                value: "0.625".into(),
                source: "FNCC §5.4.2".into(),
                ours: Some("fncc.queues.s1:3.peak_bytes / hpcc eta=0.95.queues.s1:3.peak_bytes".into()),
                reason: Some("both flows send a window before the first feedback".into()),
            },
            PaperValue {
                what: "first slowdown, fncc (us)".into(),
                value: "300".into(),
                source: "FNCC §5.1".into(),
                ours: Some("fncc.first_slowdown_us".into()),
                reason: None,
            },
        ],
    }
}

/// Returns a selection of all tables except `fct`.
pub fn all_tables() -> TableSelection {
    TableSelection {
        flows: true,
        queues: true,
        rates: true,
        senders: true,
        pauses: true,
        ..TableSelection::default()
    }
}

/// Returns the results of [`dumbbell`] with quantities of senders: the RTT, and a small gauge that falls below zero.
pub fn senders() -> Results {
    let mut results = dumbbell();
    for trace in results.traces.values_mut() {
        for (quantity, scale) in [("rtt", 20.5), ("gradient", 1.25e-7)] {
            let value = |i: u32| (i >= 300).then(|| scale * f64::from(i).cos());
            trace.senders.push(SenderSeries {
                flow: "h2->h3".into(),
                quantity: quantity.into(),
                values: (0..1000).map(value).collect(),
            });
        }
    }
    results
}

/// Returns results with two schemes and two flows over 1 ms.
pub fn dumbbell() -> Results {
    dumbbell_with_samples(1000)
}

/// Returns the results of [`dumbbell`] with this number of samples.
pub fn dumbbell_with_samples(samples: u64) -> Results {
    let schemes = [("fncc", 304.0, 120_000.0, 1.0), ("hpcc eta=0.95", 331.0, 180_000.0, 2.5)];
    results(schemes.map(|(label, slows, peak, unrest)| {
        let trace = dumbbell_trace(samples, slows, peak, unrest);
        (label, dumbbell_summary(slows, peak), trace)
    }))
}

fn dumbbell_summary(slows: f64, peak: f64) -> SchemeSummary {
    let queue = |peak: f64| QueueSummary {
        peak_bytes: peak as u64,
        mean_bytes: peak / 9.0,
        p99_bytes: (peak / 1.2) as u64,
    };
    let ports = ["s1:3", "s2:2", "s3:1"];
    SchemeSummary {
        queues: ports.into_iter().map(String::from).zip([peak, 3036.0, 1518.0].map(queue)).collect(),
        utilisation: ports.into_iter().map(|p| (p.to_owned(), 0.958)).collect(),
        first_slowdown_us: Some(slows),
        jain: Some(0.99912),
        ..SchemeSummary::default()
    }
}

fn dumbbell_trace(samples: u64, slows: f64, peak: f64, unrest: f64) -> SchemeTrace {
    let interval = Time::from_ms(1) / samples;
    let us: Vec<f64> = (1..=samples).map(|i| (interval * i).as_us_f64()).collect();
    let wave = |t: f64| unrest * ((t / 9.0).sin() + (t / 4.1).sin());
    let queue = us.iter().map(|&t| match t {
        t if t < 301.0 => 0,
        t if t < slows + 12.0 => (peak * (t - 301.0) / (slows - 289.0)) as u64,
        t => ((peak * (-(t - slows - 12.0) / 25.0).exp()) + 900.0 * (2.0 * unrest + wave(t))).max(0.0) as u64,
    });
    let rate = |joined: f64, alone: f64| -> Vec<Bandwidth> {
        let gbps = us.iter().map(|&t| match t {
            t if t < joined => 0.0,
            t if t < slows => 100.0,
            t => (47.5 + (alone - 47.5) * (-(t - slows) / 40.0).exp() + wave(t)).clamp(0.0, 100.0),
        });
        gbps.map(|g| Bandwidth::from_bps_f64(g * 1e9)).collect()
    };
    let flow = |flow: &str, start| FlowRecord {
        from: flow[..2].into(),
        to: flow[4..].into(),
        ordinal: 1,
        port: 50_000,
        incast: false,
        workload: "flows".into(),
        size: None,
        start: Time::from_us(start),
        fct: None,
        error: None,
        ideal: None,
        acked: Bytes::from_kb(6_000),
        retransmits: 0,
    };
    let port = |name: &str, towards: &str, queue: Vec<u64>| PortSeries {
        port: name.into(),
        towards: towards.into(),
        utilisation: us
            .iter()
            .map(|&t| if t < slows + 40.0 { 1.0 } else { 0.95 + 0.004 * wave(t) })
            .collect(),
        queue_bytes: queue,
    };
    let rates = [("h1->h3", 0.0, 70.0), ("h2->h3", 300.0, 30.0)].map(|(flow, joined, alone)| {
        let rate = rate(joined, alone);
        RateSeries { flow: flow.into(), goodput: rate.clone(), rate }
    });
    SchemeTrace {
        packets: Vec::new(),
        senders: Vec::new(),
        interval,
        end: Time::from_ms(1),
        // In the order of the topology, not by congestion.
        ports: vec![
            port("s1:3", "s2", queue.collect()),
            port(
                "s2:2",
                "s3",
                us.iter().map(|&t| if (t as u64).is_multiple_of(3) { 3036 } else { 0 }).collect(),
            ),
        ],
        rates: rates.into(),
        pauses: vec![],
        flows: vec![flow("h1->h3", 0), flow("h2->h3", 300)],
        fct: Vec::new(),
    }
}

/// Returns results of an interrupted run with three schemes and a workload of flows with sizes, with drops, pauses
/// and marks.
pub fn workload() -> Results {
    let mut results = results([("fncc", 1.0), ("hpcc", 1.3), ("dcqcn", 2.6)].map(|(label, factor)| {
        let flows = workload_flows(factor);
        (label, workload_summary(factor, &flows), workload_trace(factor, flows))
    }));
    results.summary.partial = true;
    results
}

fn workload_flows(factor: f64) -> Vec<FlowRecord> {
    (0..2000u64)
        .map(|i| {
            let size = Bytes::new(100 * (1 + i % 40).pow(3));
            let ideal = Time::from_ns(12_240 + size.get() / 12);
            let slow = 1.0 + factor * (((i * 7919) % 997) as f64 / 997.0).powi(6) * 8.0;
            FlowRecord {
                from: format!("h{}", i % 16 + 1).into(),
                to: format!("h{}", (i + 5) % 16 + 1).into(),
                ordinal: 1,
                port: 50_000,
                incast: false,
                workload: "poisson".into(),
                size: Some(size),
                start: Time::from_us(i * 5),
                fct: Some(Time::from_secs_f64(ideal.as_secs_f64() * slow)),
                error: None,
                ideal: Some(ideal),
                acked: size,
                retransmits: 0,
            }
        })
        .collect()
}

fn workload_summary(factor: f64, flows: &[FlowRecord]) -> SchemeSummary {
    let percentiles =
        |slow: f64| Percentiles { mean: 1.2 * slow, p50: slow, p95: 1.0 + 2.4 * slow, p99: 1.0 + 4.1 * slow };
    let by_size = (0..20u32)
        .map(|i| FctBucket {
            upto_bytes: 100 * u64::from(2 * i + 2).pow(3),
            count: flows.len() as u64 / 20,
            slowdown: percentiles(1.0 + 0.1 * factor * f64::from(i)),
        })
        .collect();
    SchemeSummary {
        queues: BTreeMap::from([(
            "s1:1".to_owned(),
            QueueSummary { peak_bytes: 400_000, mean_bytes: 30_000.0 * factor, p99_bytes: 220_000 },
        )]),
        utilisation: BTreeMap::from([("s1:1".to_owned(), 0.51)]),
        drops: BTreeMap::from([("no_route".to_owned(), 2), ("ttl_expired".to_owned(), 1)]),
        marks: (12_345.0 * (factor - 1.0)) as u64,
        pauses: (20.0 * (factor - 1.0)) as u64,
        retransmits: 3,
        fct: Fct {
            count: flows.len() as u64,
            unfinished: 12,
            failed: Default::default(),
            slowdown: Some(percentiles(factor)),
            by_size,
            classes: vec![],
            workloads: BTreeMap::new(),
        },
        ..SchemeSummary::default()
    }
}

fn workload_trace(factor: f64, flows: Vec<FlowRecord>) -> SchemeTrace {
    let interval = Time::from_us(10);
    let queue: Vec<u64> = (0..1000u64).map(|i| ((i * 7919 + 13) % 1000) * (40.0 * factor) as u64).collect();
    let utilisation = queue.iter().map(|&q| if q > 20_000 { 1.0 } else { 0.4 }).collect();
    let pause = |i: u64| PauseRecord {
        time: Time::from_us(i * 237),
        switch: "s1".into(),
        port: 2,
        priority: 0,
        is_pause: i.is_multiple_of(2),
    };
    let rate = |flow: u64| -> Vec<Bandwidth> {
        (0..1000u64).map(|i| Bandwidth::from_gbps(10 + (i / 50 * (flow + 3)) % 30)).collect()
    };
    SchemeTrace {
        packets: Vec::new(),
        senders: Vec::new(),
        interval,
        end: Time::from_ms(10),
        ports: vec![PortSeries {
            port: "s1:1".into(),
            towards: "h1".into(),
            queue_bytes: queue,
            utilisation,
        }],
        rates: (0..12)
            .map(|i| RateSeries { flow: format!("h{}->h1", i + 2), rate: rate(i), goodput: rate(i) })
            .collect(),
        pauses: (0..(40.0 * (factor - 1.0)) as u64).map(pause).collect(),
        fct: fct_statistics::statistics(&flows, &[Bytes::from_kb(100)], &["poisson".into()]),
        flows,
    }
}

fn results<const N: usize>(schemes: [(&str, SchemeSummary, SchemeTrace); N]) -> Results {
    let order: Vec<String> = schemes.iter().map(|(label, ..)| (*label).to_owned()).collect();
    let (mut summaries, mut traces) = (BTreeMap::new(), BTreeMap::new());
    for (label, summary, trace) in schemes {
        summaries.insert(label.to_owned(), summary);
        traces.insert(label.to_owned(), trace);
    }
    let summary = Summary {
        experiment: "quickstart".into(),
        program: Some(ProgramInfo::default().to_string()),
        backend: "sim".into(),
        seed: 1,
        digest: "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d".into(),
        virtual_s: 0.002,
        wall_s: 0.21,
        packet_hops: 148_512,
        partial: false,
        schemes: summaries,
    };
    Results { summary, traces, order }
}
