//! Checks the key `pfc`, and the key `buffer` where PFC sets parts of it aside.

use super::error::ExperimentError;
use super::scale::host_rate;
use super::spec::ExperimentSpec;
use weir_controller::topology::Topology;
use weir_switch::tm::{PfcConfig, PfcPort};
use weir_units::{Bytes, Time};

/// Checks the threshold, the times of PFC, and that the buffer is larger than headroom and reserve of all ports.
pub(super) fn check(
    spec: &ExperimentSpec,
    topology: &Topology,
    invalid: &impl Fn(&str, String) -> ExperimentError,
) -> Result<(), ExperimentError> {
    /// PFC frames of all eight classes, which have the minimum size of Ethernet frames.
    const PFC_FRAMES: u64 = 8 * 64;
    /// Bytes in the time of a unit of `quanta`, 512 bits.
    const UNIT: u64 = 64;
    let Some(pfc) = spec.pfc.on() else { return Ok(()) };
    // A pause is refreshed after half of the time, and the frame may then wait for a data frame and for other classes.
    let min = (2 * (spec.mtu.get() + PFC_FRAMES)).div_ceil(UNIT);
    if let Some(quanta) = pfc.quanta.filter(|quanta| u64::from(quanta.get()) < min) {
        let reason = format!(
            "{quanta} is too short: the pause would expire before it is refreshed; choose {min} or more"
        );
        return Err(invalid("pfc.quanta", reason));
    }
    let resume_offset = pfc.resume_offset.unwrap_or(PfcConfig::RESUME_OFFSET);
    if let Some(threshold) = pfc.threshold.filter(|&threshold| threshold <= resume_offset) {
        let reason = format!(
            "{threshold} is not above the resume offset, {resume_offset}, so that a pause would never end; raise the threshold"
        );
        return Err(invalid("pfc.threshold", reason));
    }
    if pfc.watchdog == Some(Time::ZERO) {
        return Err(invalid("pfc.watchdog", "must be greater than zero, for example 1ms".to_owned()));
    }
    if pfc.threshold.is_some() {
        return Ok(());
    }
    let slowest = host_rate(topology);
    let reserved = |ix| -> Bytes {
        let links = topology.switch(ix).ports().map(|(_, link)| topology.link(link));
        let headroom = links.map(|link| PfcPort::for_link(link.rate, link.delay, slowest).headroom);
        headroom.map(|headroom| headroom + PfcConfig::RESERVE).sum()
    };
    let most = topology.switch_ixs().map(|ix| (reserved(ix), ix)).max();
    match most.filter(|(reserved, _)| *reserved >= spec.buffer) {
        Some((reserved, ix)) => {
            let key = if spec.has_default_buffer() { "pfc" } else { "buffer" };
            let reason = format!(
                "without a threshold, PFC sets {reserved} of switch {} aside as headroom and reserve, and its buffer \
                 has {}; enlarge `buffer`, or set `pfc.threshold`",
                topology.switch(ix).name,
                spec.buffer
            );
            Err(invalid(key, reason))
        }
        None => Ok(()),
    }
}
