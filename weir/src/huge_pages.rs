//! Huge pages for the memory of runs in virtual time.
//!
//! A run of a large fabric touches tens of megabytes in no order, and translating addresses of small pages takes it a tenth
//! of its time and more. glibc asks the kernel for huge pages only if the environment of a program that starts says so:
//! `mallopt` has no such parameter.

use std::env;
use std::os::unix::process::CommandExt;
use std::process::Command;

/// Parameters of glibc (manual, "Tunables").
const TUNABLES: &str = "GLIBC_TUNABLES";
/// Only the first of glibc's heaps gets huge pages; by default each thread has one of its own.
const HUGE_PAGES: &str = "glibc.malloc.hugetlb=1:glibc.malloc.arena_max=1";

/// Starts this program anew in the same process, with huge pages, unless the environment has parameters of glibc, those
/// of this function among them. Returns where that fails: small pages do as well.
pub fn reexec_with_huge_pages() {
    let Ok(program) = env::current_exe() else { return };
    if !cfg!(target_env = "gnu") || env::var_os(TUNABLES).is_some() {
        return;
    }
    let mut arguments = env::args_os();
    let mut anew = Command::new(program);
    if let Some(name) = arguments.next() {
        anew.arg0(name);
    }
    // Returns only if it fails.
    let _ = anew.args(arguments).env(TUNABLES, HUGE_PAGES).exec();
}
