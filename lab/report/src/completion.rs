//! The table of completion times by workload and size class, for the report.

use crate::format::{decimal, size_range};
use maud::{Markup, html};
use weir_experiment::file::ALL_WORKLOADS;
use weir_experiment::results::{FctStatistic, Results};

/// With fewer flows, the 99th percentile is the maximum or close to it.
pub const ENOUGH_FOR_P99: u64 = 100;
/// The same for the 95th percentile.
pub const ENOUGH_FOR_P95: u64 = 20;

/// Returns the number of samples of which at least one lies above a percentile of this rank; `None` for the median and
/// lower ones, which few samples estimate as well as the mean.
pub(crate) fn enough_for(rank: u8) -> Option<u64> {
    (50 < rank && rank < 100).then(|| 100 / u64::from(100 - rank))
}

/// The statistics in the columns of the table.
const STATISTICS: [&str; 4] = ["mean", "p50", "p95", "p99"];

/// A workload and size class. `None`: no upper bound.
type Group<'r> = (&'r str, u64, Option<u64>);

fn group_of(row: &FctStatistic) -> Group<'_> {
    (&row.workload, row.over_bytes, row.upto_bytes)
}

/// Returns the name of a group: the workload, if the run has several, and the sizes.
fn name_of((workload, over, upto): Group<'_>, groups: &[Group<'_>]) -> String {
    let sizes = size_range(over, upto);
    match groups.iter().all(|group| group.0 == workload) {
        true => sizes,
        false if workload == ALL_WORKLOADS => format!("all workloads, {sizes}"),
        false => format!("{workload}, {sizes}"),
    }
}

/// Returns the groups of all schemes, in the order of the tables.
fn groups(results: &Results) -> Vec<Group<'_>> {
    let mut groups = Vec::new();
    for row in results.order.iter().filter_map(|label| results.traces.get(label)).flat_map(|trace| &trace.fct)
    {
        if !groups.contains(&group_of(row)) {
            groups.push(group_of(row));
        }
    }
    groups
}

/// Returns each group with fewer flows than [`ENOUGH_FOR_P99`] under any scheme, with the least number of flows.
pub(crate) fn small_groups(results: &Results) -> Vec<(String, u64)> {
    let groups = groups(results);
    let rows = || results.traces.values().flat_map(|trace| &trace.fct);
    let count = |group: &Group<'_>| rows().filter(|row| group_of(row) == *group).map(|row| row.count).min();
    let small =
        |group: &Group<'_>| Some((name_of(*group, &groups), count(group).filter(|n| *n < ENOUGH_FOR_P99)?));
    groups.iter().filter_map(small).collect()
}

/// Returns the section with the table; empty if the flows are not divided.
pub(crate) fn section(results: &Results) -> Markup {
    let groups = groups(results);
    let schemes: Vec<_> =
        results.order.iter().filter_map(|label| Some((label, &results.traces.get(label)?.fct))).collect();
    let find = |rows: &[FctStatistic], group: &Group<'_>, statistic: &str| {
        let is_same = |row: &&FctStatistic| group_of(row) == *group && row.quantity == "slowdown";
        rows.iter().filter(is_same).find(|row| row.statistic == statistic).cloned()
    };
    let has_unfinished = schemes.iter().any(|(_, rows)| rows.iter().any(|row| row.unfinished > 0));
    html! {
        @if groups.len() > 1 {
            section {
                h2 { "Completion times by workload and size" }
                p.note {
                    "Slowdown of finished flows, with 95 % confidence intervals where there are enough flows for them. "
                    @if has_unfinished { "Flows that had not finished at the end of the run are in no mean or percentile, which are therefore too low. " }
                    code { "fct.csv" } " has these numbers, and completion times."
                }
                div.scroll {
                    table.many {
                        thead { tr {
                            th scope="col" { "flows" } th scope="col" { "scheme" } th scope="col" { "n" }
                            @if has_unfinished { th scope="col" { "unfinished" } }
                            @for statistic in STATISTICS { th scope="col" { (statistic) } }
                        } }
                        @for group in &groups {
                            tbody {
                                @for (index, (label, rows)) in schemes.iter().enumerate() {
                                    tr {
                                        @if index == 0 { th scope="rowgroup" rowspan=(schemes.len()) { (name_of(*group, &groups)) } }
                                        th scope="row" { (label) }
                                        td { (find(rows, group, "mean").map_or(0, |row| row.count)) }
                                        @if has_unfinished { td { (find(rows, group, "mean").map_or(0, |row| row.unfinished)) } }
                                        @for statistic in STATISTICS { (cell(find(rows, group, statistic).as_ref())) }
                                    }
                                }
                            }
                        }
                    }
                }
                @if !small_groups(results).is_empty() {
                    p.note { "* over fewer than " (ENOUGH_FOR_P99) " flows: close to the slowest flow." }
                }
            }
        }
    }
}

fn cell(row: Option<&FctStatistic>) -> Markup {
    html! {
        td {
            @if let Some((row, value)) = row.and_then(|row| Some((row, row.value?))) {
                (decimal(value, 2))
                @if row.statistic == "p99" && row.count < ENOUGH_FOR_P99 { "*" }
                @if let Some((low, high)) = row.interval {
                    " " span.unit { (decimal(low, 2)) " to " (decimal(high, 2)) }
                }
            } @else { "-" }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures;
    use weir_experiment::fct_statistics::statistics;
    use weir_units::Bytes;

    #[test]
    fn a_p99_of_few_flows_is_marked() {
        let mut results = fixtures::workload();
        assert!(small_groups(&results).is_empty());
        for trace in results.traces.values_mut() {
            for flow in &mut trace.flows[..20] {
                flow.workload = "incast".into();
            }
            let workloads = ["poisson".into(), "incast".into()];
            trace.fct = statistics(&trace.flows, &[Bytes::from_kb(1_000)], &workloads);
        }
        let names: Vec<String> = small_groups(&results).into_iter().map(|(name, _)| name).collect();
        assert_eq!(names, ["incast, all sizes", "incast, up to 1 MB"]);
        let page = section(&results).into_string();
        assert!(
            page.contains("poisson, above 1 MB") && page.contains("* over fewer than 100 flows"),
            "{page}"
        );
        let marked = page.matches("*").count();
        assert_eq!(marked, 2 * results.order.len() + 1, "two groups, and the note: {page}");
    }

    #[test]
    fn unfinished_flows_have_a_column_if_there_are_any() {
        let mut results = fixtures::workload();
        assert!(!section(&results).into_string().contains("unfinished"));
        let trace = results.traces.get_mut("fncc").unwrap();
        trace.flows[..20].iter_mut().for_each(|flow| flow.fct = None);
        trace.fct = statistics(&trace.flows, &[Bytes::from_kb(100)], &["poisson".into()]);
        let page = section(&results).into_string();
        assert!(page.contains("had not finished at the end") && page.contains("<td>20</td>"), "{page}");
    }

    #[test]
    fn runs_without_groups_have_no_table() {
        assert!(section(&fixtures::dumbbell()).into_string().is_empty());
    }
}
