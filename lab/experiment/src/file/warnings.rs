//! What an experiment file says that has no effect, or another one than its author may expect.

use super::experiment::Experiment;
use crate::workload::WorkloadSpec;
use std::sync::Arc;
use weir_units::Time;

impl Experiment {
    /// Returns what is valid but probably not meant; each text begins with the path of its key.
    pub fn warnings(&self) -> Vec<String> {
        let spec = &self.spec;
        let (duration, observe) = (spec.duration, &spec.observe);
        let longer = |key: &str, time: Time, effect: &str| {
            (time > duration).then(|| format!("{key}: {time} is longer than the run ({duration}): {effect}"))
        };
        let pfc = spec.unreachable_pfc_threshold().map(|threshold| match spec.has_default_pfc_threshold() {
            true => format!(
                "buffer: {} is below the PFC threshold ({threshold} by default), so no switch will pause; set \
                 `pfc.threshold`, or write pfc: off",
                spec.buffer
            ),
            // Files of other simulators turn PFC off so.
            false => format!(
                "pfc.threshold: {threshold} exceeds the buffer of a switch, {}, so no switch will pause; lower it, or \
                 write pfc: off",
                spec.buffer
            ),
        });
        let interval = longer("observe.interval", observe.interval, "no sample is taken");
        let window = observe.fairness_window.and_then(|window| {
            longer("observe.fairness_window", window, "Jain's index covers the whole run")
        });
        let delay = self.topology.links.iter().map(|link| link.delay).min().unwrap_or_default();
        let round_trip = (delay * 2 >= duration).then(|| {
            format!(
                "duration: {duration} is not longer than a round trip over one link ({}): no ACK arrives",
                delay * 2
            )
        });
        let warmup = observe
            .warmup
            .and_then(|warmup| longer("observe.warmup", warmup, "no flow counts in completion times"));
        pfc.into_iter()
            .chain(round_trip)
            .chain(interval)
            .chain(window)
            .chain(warmup)
            .chain(self.late_ends())
            .chain(self.idle_workloads())
            .collect()
    }

    /// Warns of ends of flows, workloads and faults that the run does not reach.
    fn late_ends(&self) -> Vec<String> {
        let spec = &self.spec;
        let flows = (0..).zip(&spec.flows);
        let mut ends: Vec<(String, Time)> = flows
            .filter_map(|(i, flow): (usize, _)| Some((format!("flows[{i}].stop"), flow.stop?)))
            .collect();
        // The keys of a workload are those of its kind; all kinds with a `stop` mean the same by it.
        let stop = |workload: &WorkloadSpec| workload.keys.get("stop")?.as_str()?.parse::<Time>().ok();
        let workloads = (0..).zip(&spec.workloads);
        ends.extend(
            workloads.filter_map(|(i, workload): (usize, _)| {
                Some((format!("workloads[{i}].stop"), stop(workload)?))
            }),
        );
        let faults = (0..).zip(&spec.faults);
        ends.extend(
            faults.filter_map(|(i, fault): (usize, _)| Some((format!("faults[{i}].to"), fault.end()?))),
        );
        let is_late = |(_, end): &(String, Time)| *end > spec.duration;
        let text = |(key, end): (String, Time)| {
            format!("{key}: {end} is after the end of the run ({})", spec.duration)
        };
        ends.into_iter().filter(is_late).map(text).collect()
    }

    /// Warns of workloads that start no flow with this seed.
    fn idle_workloads(&self) -> Vec<String> {
        let (feed, duration) = (self.flow_feed(), self.spec.duration);
        let has_flow = |key_path: &str, name: &Arc<str>| {
            let source = self.workloads.iter().position(|workload| workload.key_path == key_path);
            let starts_later = |source| feed.next_start_of(source).is_some_and(|start| start < duration);
            source.map_or_else(|| self.flows.iter().any(|flow| flow.workload == *name), starts_later)
        };
        // The flows of the key `flows` come first.
        let names = self.workload_names.iter().skip(usize::from(!self.spec.flows.is_empty()));
        let workloads = (0..self.spec.workloads.len()).map(|i| format!("workloads[{i}]")).zip(names);
        let idle = workloads.filter(|(key_path, name)| !has_flow(key_path, name));
        let seed = self.spec.seed;
        let text = |(key_path, name): (String, &Arc<str>)| {
            format!("{key_path}: {name} starts no flow before the end of the run ({duration}, seed {seed})")
        };
        idle.map(text).collect()
    }
}

#[cfg(test)]
mod tests {
    use crate::Experiment;

    fn warnings(keys: &str) -> Vec<String> {
        let text = format!(
            "topology: {{kind: star, hosts: 2}}\nschemes: [fncc]\nflows: [{{from: h1, to: h2}}]\nduration: 1ms\n{keys}\n"
        );
        Experiment::parse(&text, "x.yaml", "x", &[], None).unwrap().warnings()
    }

    #[test]
    fn what_has_no_effect_is_a_warning() {
        for (keys, expected) in [
            ("buffer: 100KB", "buffer: 100KB is below the PFC threshold (500KB by default)"),
            (
                "pfc: {threshold: 100MB}",
                "pfc.threshold: 100MB exceeds the buffer of a switch, 32MiB, so no switch will pause",
            ),
            ("buffer: 1MB\npfc: {threshold: 2MB}", "pfc.threshold: 2MB exceeds the buffer of a switch, 1MB"),
            (
                "observe: {interval: 2ms}",
                "observe.interval: 2ms is longer than the run (1ms): no sample is taken",
            ),
            ("observe: {fairness_window: 2ms}", "observe.fairness_window: 2ms is longer than the run (1ms)"),
            (
                "workload: {kind: poisson, sizes: 1KB, load: 10%, stop: 2ms}",
                "workloads[0].stop: 2ms is after the end of the run (1ms)",
            ),
            (
                "faults: [{kind: down, links: [h1], from: 0us, to: 5ms}]",
                "faults[0].to: 5ms is after the end of the run (1ms)",
            ),
            (
                "workload: {kind: poisson, sizes: 1GB, load: 0.001%}",
                "workloads[0]: poisson starts no flow before the end of the run (1ms, seed 1)",
            ),
            (
                "workload: {kind: poisson, sizes: 1KB, load: 10%, count: 0}",
                "workloads[0]: poisson starts no flow",
            ),
            (
                "workload: {kind: messages, size: 1GB, load: 0.001%}",
                "workloads[0]: messages starts no flow before the end of the run (1ms, seed 1)",
            ),
            ("observe: {warmup: 2ms}", "observe.warmup: 2ms is longer than the run (1ms)"),
        ] {
            let found = warnings(keys);
            assert!(found.len() == 1 && found[0].starts_with(expected), "{found:?}");
        }
        let stop = "flows: [{from: h1, to: h2, stop: 2ms}]";
        let text = format!("topology: {{kind: star, hosts: 2}}\nschemes: [fncc]\n{stop}\nduration: 1ms\n");
        let slow = text.replace("hosts: 2", "hosts: 2, delay: 1ms").replace(", stop: 2ms", "");
        let slow = Experiment::parse(&slow, "x.yaml", "x", &[], None).unwrap().warnings();
        assert_eq!(
            slow,
            ["duration: 1ms is not longer than a round trip over one link (2ms): no ACK arrives"]
        );
        let stops = Experiment::parse(&text, "x.yaml", "x", &[], None).unwrap().warnings();
        assert_eq!(stops, ["flows[0].stop: 2ms is after the end of the run (1ms)"]);
        for keys in [
            "",
            "pfc: {threshold: 32MiB}",
            "workload: {kind: poisson, sizes: 1KB, load: 10%, stop: 1ms}",
            "buffer: 100KB\npfc: off",
            "observe: {interval: 1ms, fairness_window: 1ms}",
        ] {
            assert_eq!(warnings(keys), [""; 0], "{keys}");
        }
    }
}
