//! Converts the results of a scale model (`--rate`) back to the experiment's own rate: times are divided by the
//! factor, rates multiplied.

use super::load::LoadedRun;
use super::unit::ValueUnit;
use serde_json::Value;
use weir_experiment::results::{SchemeSummary, SchemeTrace};
use weir_units::{Bandwidth, Time};

/// Converts all runs, unless all have the same factor, so that runs at different rates can be compared.
pub fn convert(runs: &mut [LoadedRun]) {
    if runs.windows(2).all(|pair| pair[0].slowdown == pair[1].slowdown) {
        return;
    }
    for run in runs.iter_mut().filter(|run| run.slowdown != 1.0) {
        let factor = run.slowdown;
        run.results.summary.virtual_s /= factor;
        run.results.summary.schemes.values_mut().for_each(|scheme| summary(scheme, factor));
        run.results.traces.values_mut().for_each(|scheme| trace(scheme, factor));
        run.time_divisor = Some(factor);
    }
}

/// Converts every value of a summary by the unit that its key names.
fn summary(scheme: &mut SchemeSummary, slowdown: f64) {
    let mut json = serde_json::to_value(&*scheme).expect("a summary is JSON");
    convert_values(&mut json, ValueUnit::None, slowdown);
    *scheme = serde_json::from_value(json).expect("the summary with other numbers");
}

/// `unit` is that of the keys around `json`.
fn convert_values(json: &mut Value, unit: ValueUnit, slowdown: f64) {
    match json {
        // Whole numbers are counts.
        Value::Number(number) if number.is_f64() => {
            *json = number.as_f64().map_or(Value::Null, |value| unit.at_full_speed(value, slowdown).into());
        }
        Value::Array(list) => list.iter_mut().for_each(|value| convert_values(value, unit, slowdown)),
        Value::Object(map) => map.iter_mut().for_each(|(key, value)| {
            convert_values(value, ValueUnit::of_key(key).unwrap_or(unit), slowdown);
        }),
        _ => {}
    }
}

fn trace(scheme: &mut SchemeTrace, factor: f64) {
    let time = |time: Time| Time::from_secs_f64(time.as_secs_f64() / factor);
    let rate = |rate: &mut Bandwidth| *rate = Bandwidth::from_bps_f64(rate.as_bps_f64() * factor);
    scheme.interval = time(scheme.interval);
    scheme.end = time(scheme.end);
    for flow in &mut scheme.flows {
        flow.start = time(flow.start);
        flow.fct = flow.fct.map(time);
        flow.ideal = flow.ideal.map(time);
    }
    for row in &mut scheme.fct {
        let unit = ValueUnit::of_path(&row.quantity);
        row.value = row.value.map(|value| unit.at_full_speed(value, factor));
        let interval = |(low, high)| (unit.at_full_speed(low, factor), unit.at_full_speed(high, factor));
        row.interval = row.interval.map(interval);
    }
    for flow in &mut scheme.rates {
        flow.rate.iter_mut().chain(&mut flow.goodput).for_each(rate);
    }
    for series in &mut scheme.senders {
        let unit = ValueUnit::of_quantity(&series.quantity);
        series.values.iter_mut().flatten().for_each(|value| *value = unit.at_full_speed(*value, factor));
    }
    scheme.pauses.iter_mut().for_each(|pause| pause.time = time(pause.time));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::manifest::Integrity;
    use crate::{RunDescription, fixtures};
    use weir_experiment::results::{FctClass, Percentiles};

    fn run(slowdown: f64) -> LoadedRun {
        let mut results = fixtures::dumbbell();
        let percentiles = Percentiles { mean: 50.0, p50: 50.0, p95: 70.0, p99: 80.0 };
        let class = FctClass { count: 2, fct_us: Some(percentiles), ..FctClass::default() };
        for scheme in results.summary.schemes.values_mut() {
            (scheme.queue_gbps, scheme.fct.classes) = (vec![40.0], vec![class]);
            summary(scheme, 1.0 / slowdown);
        }
        results.traces.values_mut().for_each(|scheme| trace(scheme, 1.0 / slowdown));
        let integrity = Integrity::Verified;
        LoadedRun {
            name: "x".into(),
            description: RunDescription::default(),
            results,
            integrity,
            slowdown,
            missing_tables: Vec::new(),
            time_divisor: None,
        }
    }

    #[test]
    fn a_scale_model_is_converted_if_another_run_has_full_speed() {
        let mut runs = [run(1.0), run(10_000.0)];
        let slow = &runs[1].results.traces["fncc"];
        assert_eq!(
            (slow.interval, slow.end),
            (Time::from_ms(10), Time::from_secs_f64(10.0)),
            "before the conversion"
        );
        assert_eq!(
            (slow.flows[1].start, slow.rates[0].rate[0]),
            (Time::from_secs_f64(3.0), Bandwidth::from_mbps(10))
        );
        convert(&mut runs);
        let [full, model] = &runs;
        assert_eq!((full.time_divisor, model.time_divisor), (None, Some(10_000.0)));
        let summary = &model.results.summary.schemes["fncc"];
        assert_eq!(summary.first_slowdown_us, Some(304.0));
        assert_eq!((summary.queue_gbps[0], summary.fct.classes[0].fct_us.unwrap().p99), (40.0, 80.0));
        let (full, model) = (&full.results.traces["fncc"], &model.results.traces["fncc"]);
        assert_eq!((full.interval, full.end), (model.interval, model.end));
        assert_eq!(full.flows[1].start, model.flows[1].start);
        let highest = |trace: &SchemeTrace| trace.rates[0].rate.iter().max().copied().unwrap();
        assert_eq!(highest(full), highest(model));
    }

    #[test]
    fn models_with_the_same_factor_are_not_converted() {
        let mut runs = [run(100.0), run(100.0)];
        convert(&mut runs);
        assert!(runs.iter().all(|run| run.time_divisor.is_none()));
        assert_eq!(runs[0].results.traces["fncc"].end, Time::from_ms(100));
    }
}
