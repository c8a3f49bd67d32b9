//! Checks the key `pfc`.

use super::error::ExperimentError;
use super::spec::ExperimentSpec;
use weir_switch::tm::PfcConfig;
use weir_units::Time;

/// Checks the threshold and the times of PFC.
pub(super) fn check(
    spec: &ExperimentSpec,
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
    Ok(())
}
