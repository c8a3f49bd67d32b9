//! Measures the time that a fabric of 1,024 hosts and 320 switches takes: topology, routes, proof, plan.

use criterion::{Criterion, criterion_group, criterion_main};
use p4runtime::p4info::Index;
use weir_controller::topology::{FatTree, TopologySpec, build};
use weir_controller::{BaseRtt, PlanOptions, RoutingMethod, plan, routes, verify};
use weir_units::{Bandwidth, Bytes, Time};

fn fabric(c: &mut Criterion) {
    let spec = TopologySpec::FatTree(FatTree {
        k: 16,
        pods: None,
        hosts_per_edge: None,
        rate: Bandwidth::from_gbps(100),
        fabric_rate: None,
        delay: Time::from_us(1),
    });
    let index = Index::from_text(include_str!("../../p4src/build/fncc.p4info.txtpb")).expect("p4c's output");
    let topology = build(&spec).expect("a fat-tree");
    let routed = routes(&topology, RoutingMethod::Ecmp).expect("symmetric");
    let mut group = c.benchmark_group("fat-tree k=16");
    group.sample_size(10);
    group.bench_function("build", |b| b.iter(|| build(&spec)));
    group.bench_function("routes and their proof", |b| b.iter(|| routes(&topology, RoutingMethod::Auto)));
    group.bench_function("proof", |b| b.iter(|| verify(&topology, &routed)));
    group.bench_function("base RTTs", |b| b.iter(|| BaseRtt::new(&topology, &routed, Bytes::new(1000))));
    group.bench_function("plan", |b| b.iter(|| plan(&topology, &routed, &PlanOptions::default(), &index)));
    group.finish();
}

criterion_group!(benches, fabric);
criterion_main!(benches);
