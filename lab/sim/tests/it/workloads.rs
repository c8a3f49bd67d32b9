//! Workloads that generate flows during a run, on small fabrics.

use std::collections::{BTreeMap, BTreeSet};
use weir_experiment::Experiment;
use weir_experiment::results::{FlowRecord, Results};
use weir_sim::Simulation;
use weir_units::{Bytes, Time};

fn experiment(topology: &str, workloads: &str, rest: &str) -> Experiment {
    let text = format!(
        "topology: {{{topology}}}\nschemes: [dctcp, hpcc]\nworkloads: {workloads}\nobserve: {{interval: 10us}}\n{rest}"
    );
    Experiment::parse(&text, "x.yaml", "x", &[], None).unwrap_or_else(|error| panic!("{error}"))
}

fn flows(results: &Results) -> &[FlowRecord] {
    &results.traces["hpcc"].flows
}

/// The properties of a flow that do not depend on the run.
fn identity(flow: &FlowRecord) -> (String, Option<Bytes>, Time, u16) {
    (flow.name(), flow.size, flow.start, flow.port)
}

#[test]
fn poisson_has_its_load_and_is_the_same_under_every_scheme_on_any_number_of_cores() {
    let experiment = experiment(
        "kind: star, hosts: 8",
        "[{kind: poisson, sizes: {uniform: {least: 1KB, most: 19KB}}, load: 30%, stop: 2ms}]",
        "duration: 4ms\nuntil_idle: true",
    );
    let one = weir_sim::run(&experiment, &mut ()).unwrap();
    let two = weir_sim::run_on(&experiment, &Simulation::new(2), &mut ()).unwrap();
    assert_eq!(one.summary.digest, two.summary.digest);
    assert_eq!(one.order, two.order);
    let under = |scheme: &str| one.traces[scheme].flows.iter().map(identity).collect::<Vec<_>>();
    assert_eq!(under("hpcc"), under("dctcp"));
    // 8 hosts at 30 % of 12.5 GB/s for 2 ms send 60 MB, that is 6,000 flows of 10 KB on average.
    let sent: u64 = flows(&one).iter().filter_map(|flow| flow.size).map(Bytes::get).sum();
    assert!((5_700..6_300).contains(&flows(&one).len()), "{}", flows(&one).len());
    assert!((sent as f64 / 60e6 - 1.0).abs() < 0.05, "{sent}");
    assert!(flows(&one).iter().all(|flow| flow.from != flow.to && flow.start < Time::from_ms(2)));
    let receivers: BTreeSet<_> = flows(&one).iter().map(|flow| flow.to.clone()).collect();
    assert_eq!(receivers.len(), 8);
    // All flows have finished, and the run ended right after that.
    assert_eq!(one.summary.schemes["hpcc"].fct.unfinished, 0);
    let end = one.traces["hpcc"].end;
    let last = flows(&one).iter().filter_map(|flow| Some(flow.start + flow.fct?)).max().unwrap();
    assert!(end >= last && end < last + Time::from_us(1), "{end} after {last}");
}

#[test]
fn every_flow_has_the_name_of_its_workload() {
    let run = |name: &str| {
        let workloads = format!(
            "[{{kind: poisson, {name}sizes: 1KB, load: 10%, count: 7}}, {{kind: incast, senders: 3, size: 2KB, to: h1}}]"
        );
        let rest = "duration: 1ms\nflows: [{from: h1, to: h2, size: 3KB}]";
        let experiment = experiment("kind: star, hosts: 4", &workloads, rest);
        // A testbed lists all flows before the run.
        let mut listed = experiment.all_flows().unwrap();
        let results = weir_sim::run(&experiment, &mut ()).unwrap();
        let mut names: Vec<_> = flows(&results).iter().map(|f| (f.workload.to_string(), f.size)).collect();
        names.sort();
        listed.sort_by_key(|flow| (flow.workload.to_string(), flow.size));
        assert!(listed.iter().map(|flow| (flow.workload.to_string(), flow.size)).eq(names.iter().cloned()));
        (results, names)
    };
    let (unnamed, names) = run("");
    let count = |name: &str, kb| {
        names.iter().filter(|flow| **flow == (name.into(), Some(Bytes::from_kb(kb)))).count()
    };
    assert_eq!((count("poisson", 1), count("incast", 2), count("flows", 3), names.len()), (7, 3, 1, 11));
    assert!(
        unnamed.summary.schemes["hpcc"].fct.workloads.is_empty(),
        "the digest is that of earlier versions"
    );
    let (named, _) = run("name: background, ");
    let workloads = &named.summary.schemes["hpcc"].fct.workloads;
    let counts: Vec<_> = workloads.iter().map(|(name, fct)| (name.as_str(), fct.count)).collect();
    assert_eq!(counts, [("background", 7), ("flows", 1), ("incast", 3)]);
    let fct = &named.traces["hpcc"].fct;
    assert!(fct.iter().any(|row| &*row.workload == "all" && row.count == 11 && row.statistic == "p50"));
}

#[test]
fn another_seed_gives_other_flows_and_a_count_ends_them() {
    let flows = |seed| {
        let text = "topology: {kind: star, hosts: 4}\nschemes: [hpcc]\nduration: 50ms\n\
                    workload: {kind: poisson, sizes: websearch, load: 50%, count: 100}\n";
        let experiment = Experiment::parse(text, "x", "x", &[], Some(seed)).unwrap();
        experiment.all_flows().unwrap()
    };
    assert_eq!(flows(1), flows(1));
    assert_eq!(flows(1).len(), 100);
    assert_ne!(flows(1), flows(2));
}

/// The number of flows depends only on `every`, even if the load is ten times the capacity of the link.
#[test]
fn poisson_by_interval_has_the_same_number_of_flows_for_any_sizes() {
    let experiment = experiment(
        "kind: star, hosts: 4",
        "[{kind: poisson, sizes: {choice: [1KB, 1MB]}, every: 4us, from: h1}]",
        "duration: 4ms",
    );
    let generated = experiment.all_flows().unwrap();
    assert!((900..1_100).contains(&generated.len()), "{}", generated.len());
    assert!(
        generated.windows(2).any(|pair| pair[1].start - pair[0].start > Time::from_us(12)),
        "at random times"
    );
}

#[test]
fn incasts_repeat_with_other_senders_and_receivers() {
    let experiment = experiment(
        "kind: leaf-spine, leaves: 4, spines: 2, hosts_per_leaf: 4",
        "[{kind: incast, senders: 8, size: 4KB, every: 50us, jitter: 10us, stop: 500us, announce: true}]",
        "duration: 1ms",
    );
    let generated = experiment.all_flows().unwrap();
    assert_eq!(generated.len(), 10 * 8);
    let (mut receivers, mut numbers) = (BTreeSet::new(), BTreeSet::new());
    for (n, incast) in (0..).zip(generated.chunks(8)) {
        let begin = Time::from_us(50) * n;
        assert!(incast.iter().all(|f| f.incast && f.to == incast[0].to && f.from != f.to));
        assert!(incast.iter().all(|f| f.start >= begin && f.start < begin + Time::from_us(10)));
        assert_eq!(incast.iter().map(|f| f.from).collect::<BTreeSet<_>>().len(), 8);
        let lists: Vec<_> = incast.iter().map(|f| f.announces.clone().expect("each announces")).collect();
        assert!(lists.iter().all(|list| *list == lists[0] && list.senders.len() == 8));
        assert!(numbers.insert(lists[0].incast_number), "each incast has a number of its own");
        receivers.insert(incast[0].to);
    }
    assert!(receivers.len() > 3, "{receivers:?}");
    let results = weir_sim::run(&experiment, &mut ()).unwrap();
    assert_eq!(results.summary.schemes["hpcc"].fct.count, 80);
}

#[test]
fn an_incast_has_several_flows_of_a_sender() {
    let by_sender = |workload: &str| {
        let experiment = experiment("kind: star, hosts: 5", workload, "duration: 1ms");
        let generated = experiment.all_flows().unwrap();
        let mut flows: BTreeMap<u32, Vec<Time>> = BTreeMap::new();
        generated.iter().for_each(|flow| flows.entry(flow.from.0).or_default().push(flow.start));
        assert!(generated.iter().all(|flow| flow.incast && flow.to == generated[0].to));
        flows
    };
    let counts = |flows: &BTreeMap<u32, Vec<Time>>| flows.values().map(Vec::len).collect::<Vec<_>>();
    // The first three hosts send in turn.
    let once = by_sender("[{kind: incast, to: h5, senders: 3, flows: 7, size: 4KB, interval: 1us}]");
    assert_eq!(counts(&once), [3, 2, 2]);
    assert_eq!(once[&1], [1, 4].map(Time::from_us));
    let again = by_sender("[{kind: incast, to: h5, senders: 4, flows: 10, size: 4KB, every: 600us}]");
    assert_eq!(counts(&again).iter().sum::<usize>(), 20);
    assert!(again.values().all(|flows| (4..=6).contains(&flows.len())), "{again:?}");
}

#[test]
fn all_to_all_has_every_pair_once_and_few_at_a_time() {
    let experiment = experiment(
        "kind: star, hosts: 6",
        "[{kind: all-to-all, size: 20KB, parallel: 2, hosts: h1-h5}]",
        "duration: 2ms\nuntil_idle: true",
    );
    let results = weir_sim::run(&experiment, &mut ()).unwrap();
    let pairs: BTreeSet<_> = flows(&results).iter().map(|f| (f.from.clone(), f.to.clone())).collect();
    assert_eq!((flows(&results).len(), pairs.len()), (20, 20));
    assert!(at_a_time(flows(&results)).values().all(|&max| max == 2));
    assert!(experiment.all_flows().is_err(), "flows that start when others end are not known in advance");
}

/// The maximum number of active flows of each host.
fn at_a_time(flows: &[FlowRecord]) -> BTreeMap<String, usize> {
    let end = |flow: &FlowRecord| flow.fct.map_or(Time::MAX, |fct| flow.start + fct);
    let mut max = BTreeMap::new();
    for flow in flows {
        let beside = flows
            .iter()
            .filter(|other| other.from == flow.from && other.start <= flow.start && end(other) > flow.start);
        let seen = max.entry(flow.from.to_string()).or_insert(0);
        *seen = beside.count().max(*seen);
    }
    max
}

#[test]
fn back_to_back_starts_the_next_flow_at_once() {
    let experiment = experiment(
        "kind: star, hosts: 4",
        "[{kind: back-to-back, sizes: 50KB, from: 'h1,h2', to: h3-h4}]",
        "duration: 500us",
    );
    let results = weir_sim::run(&experiment, &mut ()).unwrap();
    assert_eq!(at_a_time(flows(&results)), [("h1".to_owned(), 1), ("h2".to_owned(), 1)].into());
    for host in ["h1", "h2"] {
        let own: Vec<_> = flows(&results).iter().filter(|flow| &*flow.from == host).collect();
        assert!(own.len() > 10, "{}", own.len());
        for pair in own.windows(2) {
            assert_eq!(pair[0].start + pair[0].fct.unwrap(), pair[1].start);
        }
    }
}

#[test]
fn jobs_are_barriers() {
    let experiment = experiment(
        "kind: star, hosts: 12",
        "[{kind: jobs, jobs: 2, servers: 5, request: 2KB, response: 64KB, count: 6}]",
        "duration: 5ms\nuntil_idle: true",
    );
    let results = weir_sim::run(&experiment, &mut ()).unwrap();
    let all = flows(&results);
    let of_size = |kb| all.iter().filter(move |flow| flow.size == Some(Bytes::from_kb(kb)));
    assert_eq!((of_size(2).count(), of_size(64).count()), (30, 30));
    let jobs = results.summary.schemes["hpcc"].jobs.unwrap();
    assert_eq!(jobs.count, 6);
    // Five responses of 64 KB over one link of 100 Gbit/s take 25.6 us.
    assert!(jobs.p50_us > 25.6 && jobs.p99_us < 200.0, "{jobs:?}");
    // All requests of a job start together, and each response goes from the server back to the client.
    for response in of_size(64) {
        let request =
            of_size(2).find(|f| f.from == response.to && f.to == response.from && f.start < response.start);
        assert!(request.is_some(), "{}", response.name());
    }
    let started: BTreeSet<_> = of_size(2).map(|flow| (flow.start, flow.from.clone())).collect();
    assert_eq!(started.len(), 6, "{started:?}");
}

#[test]
fn two_workloads_run_beside_listed_flows_and_bring_their_scheme() {
    let text = "topology: {kind: star, hosts: 6}\nschemes: [{scheme: dctcp, set: {form: window}}]\nduration: 300us\n\
                flows: [{from: h1, to: h6}]\nworkloads:\n\
                - {kind: poisson, sizes: 10KB, load: 10%, from: 'h2,h3', scheme: amp}\n\
                - {kind: incast, senders: 2, size: 8KB, every: 100us, from: 'h4,h5', to: h6}\n";
    let experiment = Experiment::parse(text, "x", "x", &[], None).unwrap();
    let results = weir_sim::run(&experiment, &mut ()).unwrap();
    let senders: BTreeSet<_> = results.traces["dctcp"].flows.iter().map(|f| f.from.to_string()).collect();
    assert_eq!(senders, ["h1", "h2", "h3", "h4", "h5"].map(String::from).into());
    assert_eq!(results.traces["dctcp"].rates.len(), 1, "only rates of flows of the file are recorded");
    let clash = text.replace("from: 'h4,h5'", "from: 'h3,h4'");
    let error = Experiment::parse(&clash, "x", "x", &[], None).err().unwrap().to_string();
    assert!(error.contains("workloads[1].scheme") && error.contains("h3"), "{error}");
}

#[test]
fn flow_files_give_the_flows_they_list() {
    let dir = std::env::temp_dir().join(format!("weir-flow-file-{}", std::process::id()));
    std::fs::create_dir_all(&dir).unwrap();
    let text = "5\n0 2 3 100 1000000 2.000000\n1 2 3 200 64000 2.000100000001\n3 2 3 200 64000 2.000100\n\
                1 0 3 100 1 2.0001\n4 0 3 100 2000 2.000150\n";
    std::fs::write(dir.join("flow.txt"), text).unwrap();
    std::fs::write(
        dir.join("topology.txt"),
        "6 1 5\n5\n0 5 100Gbps 0.001ms 0\n1 5 100Gbps 0.001ms 0\n\
        2 5 100Gbps 0.001ms 0\n3 5 100Gbps 0.001ms 0\n4 5 100Gbps 0.001ms 0\n",
    )
    .unwrap();
    let yaml = "topology: {kind: file, path: topology.txt}\nschemes: [hpcc]\nduration: 1ms\nuntil_idle: true\n\
                workload: {kind: file, path: flow.txt}\n";
    let file = dir.join("x.yaml");
    std::fs::write(&file, yaml).unwrap();
    let experiment = Experiment::load(&file, &[], None).unwrap();
    let generated = experiment.all_flows().unwrap();
    let seen: Vec<_> =
        generated.iter().map(|flow| (flow.name.as_str(), flow.start.as_ps(), flow.incast)).collect();
    let us = 1_000_000;
    assert_eq!(
        seen,
        [
            ("h0->h2", 0, false),
            ("h3->h2", 100 * us, true),
            ("h1->h0", 100 * us, false),
            ("h1->h2", 100 * us + 1, true),
            ("h4->h0", 150 * us, false)
        ]
    );
    let results = weir_sim::run(&experiment, &mut ()).unwrap();
    assert_eq!(results.summary.schemes["hpcc"].fct.count, 5);
    // The resolved file has absolute paths, so it loads from any directory.
    let again =
        Experiment::parse(&experiment.resolved_yaml(), "/elsewhere/run.yaml", "x", &[], None).unwrap();
    assert_eq!(again.all_flows().unwrap(), generated);
    // conweave-ns3's flows have no port.
    std::fs::write(dir.join("flow.txt"), "2\n0 1 3 12000 2.000000100\n1 2 3 500 2.000001\n").unwrap();
    let generated = Experiment::load(&file, &[], None).unwrap().all_flows().unwrap();
    let seen: Vec<_> = generated
        .iter()
        .map(|flow| (flow.name.as_str(), flow.start.as_ns(), flow.size, flow.incast))
        .collect();
    let size = |bytes| Some(Bytes::new(bytes));
    assert_eq!(seen, [("h0->h1", 100, size(12_000), false), ("h1->h2", 1_000, size(500), false)]);
    for (text, reason) in [
        ("2\n0 2 3 100 1000 2\n0 9 3 100 1000 2\n", "line 3: \"9\" is not the id of a host"),
        (
            "1\n0 2 3 1000\n",
            "line 2: a flow is \"source destination priority port bytes start\", with or without",
        ),
        ("Nodes 4\nConnections 1\n0->1 start 0 size 1000\n", "htsim's .cm files are not yet"),
        ("0\n", "has no flows"),
        ("1\n0 2 3 1000 2.5\n", "its first flow starts at 500ms, not before the end of the run, 1ms"),
    ] {
        std::fs::write(dir.join("flow.txt"), text).unwrap();
        let error = Experiment::load(&file, &[], None).err().unwrap().to_string();
        assert!(error.contains("workload.path: ") && error.contains(reason), "{error}");
    }
    std::fs::remove_dir_all(&dir).unwrap();
}

#[test]
fn invalid_values_are_reported_with_their_location() {
    let error = |workload: &str| {
        let text = format!(
            "topology: {{kind: star, hosts: 4}}\nschemes: [hpcc]\nduration: 1ms\nworkload: {workload}\n"
        );
        Experiment::parse(&text, "x.yaml", "x", &[], None).err().expect("an error").to_string()
    };
    for (workload, parts) in [
        ("{kind: poisson, sizes: web, load: 50%}", ["workload.sizes", "use websearch"]),
        ("{kind: poisson, sizes: 1KB, load: 120%}", ["workload.load", "120 % is more than 100 %"]),
        ("{kind: poisson, sizes: 1KB}", ["workload.load", "missing; specify"]),
        ("{kind: poisson, sizes: 1KB, load: 5%, every: 1us}", ["workload.load", "mutually exclusive"]),
        ("{kind: poisson, sizes: 1KB, every: 0us}", ["workload.every", "positive"]),
        ("{kind: poisson, sizes: 1KB, load: 50%, from: h1-h9}", ["workload.from", "\"h9\""]),
        ("{kind: poisson, sizes: 1KB, load: 50%, from: h1, to: h1}", ["workload.to", "also a sender"]),
        (
            "{kind: poisson, sizes: 1KB, load: 50%, start: 2ms}",
            ["workload.start", "not before the end of the run"],
        ),
        ("{kind: incast, senders: 4, size: 1KB, every: 1us}", ["workload.senders", "1 to 3"]),
        ("{kind: incast, senders: 2, size: 1KB, every: 1us, load: 5%}", ["workload.load", "every"]),
        (
            "{kind: jobs, jobs: 1, servers: 4, request: 1KB, response: 1KB}",
            ["workload.servers", "number of hosts, found 4"],
        ),
        ("{kind: all-to-all, size: 0B}", ["workload.size", "at least 1B"]),
        ("{kind: file, path: nowhere.txt}", ["workload.path", "nowhere.txt"]),
        (
            "{kind: storm}",
            ["x.yaml:4:18: workload.kind", "unknown workload kind \"storm\"; expected one of all-to-all"],
        ),
    ] {
        let text = error(workload);
        assert!(parts.iter().all(|part| text.contains(part)), "{workload}: {text}");
    }
}

#[test]
fn ranges_of_hosts_may_have_names_with_dashes() {
    let topology = "kind: custom, hosts: [srv-1, srv-2, srv-3, a], switches: [s1], \
        links: [[srv-1, s1], [srv-2, s1], [srv-3, s1], [a, s1]]";
    for (hosts, count) in [("srv-1-srv-3", 3), ("srv-2 - a", 3), ("srv-1, srv-3", 2), ("srv-1-srv-3/2", 2)] {
        let workload = format!("[{{kind: permutation, hosts: \"{hosts}\", size: 1KB}}]");
        assert_eq!(experiment(topology, &workload, "duration: 1ms").flows.len(), count, "{hosts}");
    }
}

/// This record is the only memory that a finished flow takes.
#[test]
fn a_finished_flow_is_a_small_record() {
    assert!(size_of::<FlowRecord>() <= 144, "{}", size_of::<FlowRecord>());
}

/// An incast of 6 MB keeps packets at 10 Gbit/s for 5 ms. The timeout follows the NIC's rate, so that nothing is sent twice,
/// unless the experiment shortens it.
#[test]
fn a_lossless_incast_does_not_time_out() {
    let text = "\
name: incast
topology: {kind: leaf-spine, leaves: 17, spines: 4, hosts_per_leaf: 48, rate: 10Gbps, delay: 1us}
pfc: {threshold: 15KB}
schemes: [dcqcn]
workload: {kind: incast, to: h1, from: h49-h816, senders: 760, size: 8KB, jitter: 100us}
duration: 100ms
until_idle: true
";
    let retransmits = |overrides: &[String]| {
        let experiment = Experiment::parse(text, "incast.yaml", "incast", overrides, None).unwrap();
        let scheme = weir_sim::run(&experiment, &mut ()).unwrap().summary.schemes.remove("dcqcn").unwrap();
        scheme.retransmits
    };
    assert_eq!(retransmits(&[]), 0);
    assert!(retransmits(&["transport.rto=4ms".to_owned()]) > 0);
}
