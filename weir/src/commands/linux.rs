//! A limit of Linux, and values from `/proc`.

/// Maximum length of an interface name: `IFNAMSIZ` (16) includes the terminating NUL.
#[cfg(feature = "full")]
pub(super) const MAX_IFNAME_LEN: usize = 15;

/// Returns a memory counter of this process in bytes, from `/proc/self/status`: `VmHWM:` is the peak resident
/// set, `VmRSS:` the current one. `None` where there is no such file (not Linux).
pub(super) fn memory_bytes(field: &str) -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix(field))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib << 10)
}

/// Returns the model name of the first processor; `None` where `/proc/cpuinfo` does not list one.
pub(super) fn cpu_model() -> Option<String> {
    let info = std::fs::read_to_string("/proc/cpuinfo").ok()?;
    let (_, name) = info.lines().find(|line| line.starts_with("model name"))?.split_once(':')?;
    Some(name.trim().to_owned())
}
