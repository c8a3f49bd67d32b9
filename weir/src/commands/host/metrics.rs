//! The metrics that an agent exports to Prometheus.

use crate::metrics::Page;
use weir_agent::Status;

/// Returns the metrics page of a host.
pub(super) fn page(host: &str, status: &Status) -> Page {
    let mut page = Page::default();
    let flows = [("waiting", status.waiting), ("sending", status.sending), ("finished", status.finished)];
    for (state, count) in flows {
        let labels = [("host", host), ("state", state)];
        page.gauge("weir_host_flows", "Flows of the agent's list, by state.", &labels, count as u64);
    }
    for (event, &count) in &status.transport {
        let help = "Counters of the transport, as in the agent's results.";
        page.counter("weir_host_transport_total", help, &[("host", host), ("event", event)], count);
    }
    for &(reason, count) in &status.drops {
        let help = "Frames dropped by the host, by reason.";
        page.counter("weir_host_dropped_frames_total", help, &[("host", host), ("reason", reason)], count);
    }
    let nic = &status.nic;
    let directions =
        [("out", nic.frames_sent, nic.bytes_sent), ("in", nic.frames_received, nic.bytes_received)];
    for (direction, frames, bytes) in directions {
        let labels = [("host", host), ("direction", direction)];
        page.counter("weir_host_frames_total", "Frames through the raw socket.", &labels, frames);
        page.counter("weir_host_bytes_total", "Bytes through the raw socket.", &labels, bytes);
    }
    for (reason, count) in [
        ("queue_full", nic.queue_full),
        ("queue_drops", nic.queue_drops),
        ("down", nic.down),
        ("too_long", nic.too_long),
        ("other", nic.other_errors),
    ] {
        let help = "Frames rejected, delayed or lost by the raw socket, by reason.";
        page.counter("weir_host_socket_refusals_total", help, &[("host", host), ("reason", reason)], count);
    }
    if let Some(policy) = &status.policy {
        let labels = [("host", host)];
        // Versions of policies start at 1.
        let version = policy.runs.map_or(0, |(version, _)| version);
        page.gauge(
            "weir_host_policy_version",
            "Version of the policy in use by the host; 0: none.",
            &labels,
            version,
        );
        for (event, &count) in &policy.counts {
            let help = "Policy packets and timer events.";
            page.counter("weir_host_policy_events_total", help, &[("host", host), ("event", event)], count);
        }
    }
    page
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flows_transport_and_drops_are_shown() {
        let status = Status {
            sending: 2,
            transport: [("marked", 5), ("retransmits", 1)].into(),
            drops: vec![("bad_checksum", 3)],
            ..Status::default()
        };
        let page = page("10.0.0.1", &status).to_string();
        for line in [
            "weir_host_flows{host=\"10.0.0.1\",state=\"sending\"} 2",
            "weir_host_transport_total{host=\"10.0.0.1\",event=\"marked\"} 5",
            "weir_host_dropped_frames_total{host=\"10.0.0.1\",reason=\"bad_checksum\"} 3",
        ] {
            assert!(page.contains(&format!("\n{line}\n")), "{line}: {page}");
        }
        assert!(!page.contains("policy"), "policies are disabled");
    }
}
