//! Asking for memory before it is needed.

#![allow(unsafe_code)]

/// Bytes that one prefetch loads.
pub(crate) const CACHE_LINE: usize = 64;

/// Tells the processor that what `of` points to will be read soon. It changes nothing that a program can see.
///
/// A driver of many switches knows a few events ahead whose packet comes next, when the caches have long forgotten it:
/// waiting for memory was a third of the cost of a packet at 128 hosts (docs/performance.md).
#[inline(always)]
pub fn prefetch<T>(of: &T) {
    prefetch_line(std::ptr::from_ref(of).cast());
}

/// Tells the processor that all of what `of` points to will be read soon.
#[inline(always)]
pub fn prefetch_all<T>(of: &T) {
    for at in (0..size_of::<T>()).step_by(CACHE_LINE) {
        prefetch_line(std::ptr::from_ref(of).cast::<i8>().wrapping_add(at));
    }
}

#[inline(always)]
fn prefetch_line(address: *const i8) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: SSE is part of x86_64, and a prefetch reads nothing and never faults, whatever the address.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(address) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = address;
}
