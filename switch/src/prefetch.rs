//! Prefetching of memory into the processor's cache.

#![allow(unsafe_code)]

/// Size of a cache line in bytes.
pub(crate) const CACHE_LINE: usize = 64;

/// Prefetches the first cache line of `value`. It has no effect on the program's state.
///
/// A driver of many switches knows the next packets a few events ahead, but these packets have left the cache
/// since they were last used: cache misses were a third of the cost of a packet at 128 hosts
/// (docs/performance.md).
#[inline(always)]
pub fn prefetch<T>(value: &T) {
    prefetch_line(std::ptr::from_ref(value).cast());
}

/// Prefetches all cache lines of `value`.
#[inline(always)]
pub fn prefetch_all<T>(value: &T) {
    for offset in (0..size_of::<T>()).step_by(CACHE_LINE) {
        prefetch_line(std::ptr::from_ref(value).cast::<i8>().wrapping_add(offset));
    }
}

#[inline(always)]
fn prefetch_line(address: *const i8) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: SSE is part of x86-64, and a prefetch accesses no memory architecturally: it never faults,
        // whatever the address.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(address) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = address;
}
