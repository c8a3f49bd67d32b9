//! What an experiment file says that has no effect, or another one than its author may expect.

use super::experiment::Experiment;
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
        pfc.into_iter().chain(interval).chain(window).collect()
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
        ] {
            let found = warnings(keys);
            assert!(found.len() == 1 && found[0].starts_with(expected), "{found:?}");
        }
        for keys in [
            "",
            "pfc: {threshold: 32MiB}",
            "buffer: 100KB\npfc: off",
            "observe: {interval: 1ms, fairness_window: 1ms}",
        ] {
            assert_eq!(warnings(keys), [""; 0], "{keys}");
        }
    }
}
