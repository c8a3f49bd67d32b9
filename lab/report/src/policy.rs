//! Describes the policies of a run in sentences, for the terminal and the HTML report.

use super::format;
use maud::{Markup, html};
use weir_experiment::results::{PolicySetSummary, PolicySummary, Results};

/// Returns, for each scheme with policies, a sentence for each policy that was set and one about the messages.
pub fn lines(results: &Results) -> Vec<String> {
    let mut all = Vec::new();
    for scheme in &results.order {
        let Some(policy) = results.summary.schemes.get(scheme).and_then(|summary| summary.policy.as_ref())
        else {
            continue;
        };
        let name = if results.order.len() > 1 { format!("{scheme}: ") } else { String::new() };
        all.extend(policy.sets.iter().map(|set| format!("{name}{}", set_sentence(set))));
        all.push(format!("{name}{}", messages_sentence(policy)));
    }
    all
}

fn set_sentence(set: &PolicySetSummary) -> String {
    let PolicySetSummary { at_us, via, id, change, error, hosts, all_after_us, all_after_imin } = set;
    let head = format!("Policy {change} at {via}, {} us", format::significant(*at_us));
    match (error, all_after_us.zip(*all_after_imin)) {
        (Some(error), _) => format!("{head}: rejected, {error}"),
        (None, Some((us, imin))) => format!(
            "{head}: version {id}, all {hosts} hosts ran it after {} us, {} Imin",
            format::significant(us),
            format::significant(imin)
        ),
        (None, None) => format!("{head}: version {id}, {hosts} hosts ran it"),
    }
}

fn messages_sentence(policy: &PolicySummary) -> String {
    let mut text = format!(
        "Policies: {} messages, {} suppressed, {} resets; {} % of the packets through switches, {} % in the second half",
        format::count(policy.sent),
        format::count(policy.suppressed),
        format::count(policy.resets),
        format::significant(policy.fabric_share * 100.0),
        format::significant(policy.fabric_share_late * 100.0)
    );
    let counts = policy.refused.iter().map(|(reason, n)| (reason.as_str(), *n));
    for (what, n) in counts.chain([("lost", policy.lost), ("expired", policy.expired)]) {
        if n > 0 {
            text += &format!("; {what}: {n}");
        }
    }
    text
}

/// Returns these sentences as HTML; empty if the experiment has no policies.
pub fn section(results: &Results) -> Markup {
    let lines = lines(results);
    html! {
        @if !lines.is_empty() {
            section {
                h2 { "Policies" }
                ul { @for line in &lines { li { (line) } } }
            }
        }
    }
}
