//! Huge pages for the heap of runs in virtual time.
//!
//! A run of a large fabric accesses tens of megabytes at random, and spends a tenth of its time or more on
//! address translation with small pages. glibc requests huge pages only if the environment says so at program
//! start; `mallopt` has no such parameter.

use std::env;
use std::os::unix::process::CommandExt;
use std::process::Command;

/// Variable with the parameters of glibc (manual, "Tunables").
const TUNABLES: &str = "GLIBC_TUNABLES";
/// Only the main heap gets huge pages; `arena_max=1` makes all threads use it instead of one heap each.
const HUGE_PAGES: &str = "glibc.malloc.hugetlb=1:glibc.malloc.arena_max=1";

/// Re-executes this program with [`TUNABLES`] set for huge pages. Does nothing if the variable is already
/// set, which also ends the recursion. Returns if exec fails: the program works with small pages, too.
pub(crate) fn reexec_with_huge_pages() {
    let Ok(program) = env::current_exe() else { return };
    if !cfg!(target_env = "gnu") || env::var_os(TUNABLES).is_some() {
        return;
    }
    let mut arguments = env::args_os();
    let mut command = Command::new(program);
    if let Some(name) = arguments.next() {
        command.arg0(name);
    }
    // `exec` returns only on failure.
    let _ = command.args(arguments).env(TUNABLES, HUGE_PAGES).exec();
}
