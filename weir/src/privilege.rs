//! Drops the privileges that a process no longer needs, before it reads anything from the network.
//!
//! The restrictions are irrevocable and apply to the calling thread and the threads that it starts, so call
//! these functions before other threads exist. Restrictions that the kernel does not support are skipped:
//! Landlock requires Linux 5.13, seccomp filters x86-64, AArch64 or 64-bit RISC-V.

use crate::console::Failure;
use caps::{CapSet, Capability, CapsHashSet};
use landlock::{
    ABI, AccessFs, CompatLevel, Compatible, Ruleset, RulesetAttr, RulesetCreatedAttr, RulesetError,
    path_beneath_rules,
};
use seccompiler::{
    SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule, TargetArch,
};
use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// System calls that neither a switch nor an agent makes: those that execute programs, access other processes, or
/// change namespaces, mounts, kernel modules, the clock or keys; and those that change the owner, mode or attributes of
/// files, which Landlock does not restrict.
const DENIED_CALLS: &[libc::c_long] = &[
    libc::SYS_execve,
    libc::SYS_execveat,
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_pidfd_getfd,
    libc::SYS_setns,
    libc::SYS_unshare,
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_pivot_root,
    libc::SYS_chroot,
    libc::SYS_move_mount,
    libc::SYS_open_tree,
    libc::SYS_fsopen,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_fspick,
    libc::SYS_mount_setattr,
    libc::SYS_open_by_handle_at,
    libc::SYS_mknodat,
    libc::SYS_fchmod,
    libc::SYS_fchmodat,
    FCHMODAT2,
    libc::SYS_fchown,
    libc::SYS_fchownat,
    // Access control lists are extended attributes.
    libc::SYS_setxattr,
    libc::SYS_lsetxattr,
    libc::SYS_fsetxattr,
    SETXATTRAT,
    libc::SYS_removexattr,
    libc::SYS_lremovexattr,
    libc::SYS_fremovexattr,
    REMOVEXATTRAT,
    FILE_SETATTR,
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
    libc::SYS_kexec_load,
    libc::SYS_reboot,
    libc::SYS_swapon,
    libc::SYS_swapoff,
    libc::SYS_settimeofday,
    libc::SYS_clock_settime,
    libc::SYS_clock_adjtime,
    libc::SYS_adjtimex,
    libc::SYS_sethostname,
    libc::SYS_setdomainname,
    libc::SYS_acct,
    libc::SYS_bpf,
    libc::SYS_perf_event_open,
    libc::SYS_userfaultfd,
    libc::SYS_io_uring_setup,
    libc::SYS_add_key,
    libc::SYS_request_key,
    libc::SYS_keyctl,
    libc::SYS_personality,
];

/// Legacy forms of some of these calls, which newer architectures do not have.
#[cfg(target_arch = "x86_64")]
const DENIED_LEGACY_CALLS: &[libc::c_long] =
    &[libc::SYS_mknod, libc::SYS_chmod, libc::SYS_chown, libc::SYS_lchown];
#[cfg(not(target_arch = "x86_64"))]
const DENIED_LEGACY_CALLS: &[libc::c_long] = &[];

// System calls added in Linux 6.6, 6.13 and 6.17. Their numbers are the same on every architecture.
const FCHMODAT2: libc::c_long = 452;
const SETXATTRAT: libc::c_long = 463;
const REMOVEXATTRAT: libc::c_long = 466;
const FILE_SETATTR: libc::c_long = 469;

/// The capabilities that Mininet needs: namespaces (`SYS_ADMIN`, `SYS_CHROOT`, `SYS_PTRACE` to enter those of a
/// host), interfaces and raw sockets, resource limits, processes and files of other users (`KILL`,
/// `DAC_OVERRIDE`, `CHOWN`, `FOWNER`), and tools such as tcpdump that switch to their own user (`SETUID`, `SETGID`).
pub const MININET_CAPABILITIES: &[Capability] = &[
    Capability::CAP_SYS_ADMIN,
    Capability::CAP_SYS_CHROOT,
    Capability::CAP_SYS_PTRACE,
    Capability::CAP_SYS_NICE,
    Capability::CAP_SYS_RESOURCE,
    Capability::CAP_NET_ADMIN,
    Capability::CAP_NET_RAW,
    Capability::CAP_NET_BIND_SERVICE,
    Capability::CAP_KILL,
    Capability::CAP_DAC_OVERRIDE,
    Capability::CAP_CHOWN,
    Capability::CAP_FOWNER,
    Capability::CAP_SETUID,
    Capability::CAP_SETGID,
    Capability::CAP_SETPCAP,
];

/// Drops all capabilities except `capabilities`, and sets `no_new_privs`, so that programs started by this
/// process cannot gain privileges.
///
/// # Errors
///
/// If the kernel rejects the change.
pub fn retain_capabilities(capabilities: &[Capability]) -> Result<(), Failure> {
    let failed = |error: &dyn std::fmt::Display| Failure::Work(format!("cannot drop privileges: {error}"));
    let permitted = caps::read(None, CapSet::Permitted).map_err(|error| failed(&error))?;
    let retained: CapsHashSet =
        capabilities.iter().copied().filter(|capability| permitted.contains(capability)).collect();
    // Reducing the bounding set requires CAP_SETPCAP. Without it the bounding set is left as it is, which
    // `no_new_privs` makes harmless.
    let bounding = match permitted.contains(&Capability::CAP_SETPCAP) {
        true => caps::read(None, CapSet::Bounding).map_err(|error| failed(&error))?,
        false => CapsHashSet::new(),
    };
    let mut superfluous = bounding.difference(&retained);
    superfluous
        .try_for_each(|&capability| caps::drop(None, CapSet::Bounding, capability))
        .and_then(|()| caps::clear(None, CapSet::Ambient))
        .and_then(|()| caps::clear(None, CapSet::Inheritable))
        .and_then(|()| caps::set(None, CapSet::Effective, &retained))
        .and_then(|()| caps::set(None, CapSet::Permitted, &retained))
        .map_err(|error| failed(&error))?;
    rustix::thread::set_no_new_privs(true).map_err(|error| failed(&error))
}

/// Drops all capabilities except `capabilities`, and forbids the thread to write files outside `dirs` and to
/// execute programs. In `removal_dirs` it may only remove files: sockets that it has bound before.
///
/// `CAP_DAC_OVERRIDE` is kept as well if one of the directories belongs to another user, as with `sudo` in a
/// home directory.
///
/// # Errors
///
/// If the kernel rejects the restrictions.
pub fn sandbox(capabilities: &[Capability], dirs: &[&Path], removal_dirs: &[&Path]) -> Result<(), Failure> {
    let failed = |error: &dyn std::fmt::Display| Failure::Work(format!("cannot drop privileges: {error}"));
    let mut capabilities = capabilities.to_vec();
    let user = rustix::process::geteuid().as_raw();
    if dirs.iter().any(|dir| dir.metadata().is_ok_and(|metadata| metadata.uid() != user)) {
        capabilities.push(Capability::CAP_DAC_OVERRIDE);
    }
    retain_capabilities(&capabilities)?;
    let status = restrict_files(dirs, removal_dirs).map_err(|error| failed(&error))?;
    tracing::debug!(?capabilities, landlock = ?status, "sandbox entered");
    restrict_calls().map_err(|error| failed(&error))
}

/// Returns the directory of a file; `.` for a name without a directory.
pub fn parent_dir(file: &Path) -> &Path {
    file.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Forbids with Landlock to write files outside `dirs`, to remove files outside these and `removal_dirs`, and to execute
/// programs.
fn restrict_files(dirs: &[&Path], removal_dirs: &[&Path]) -> Result<landlock::RulesetStatus, RulesetError> {
    let writes = AccessFs::from_write(ABI::V5);
    let ruleset = Ruleset::default()
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(writes | AccessFs::Execute)?
        .create()?
        .add_rules(path_beneath_rules(dirs, writes))?
        .add_rules(path_beneath_rules(removal_dirs, AccessFs::RemoveFile))?;
    Ok(ruleset.restrict_self()?.ruleset)
}

/// Makes the denied system calls fail. Skipped on architectures without seccomp filters.
fn restrict_calls() -> Result<(), seccompiler::Error> {
    let Ok(arch) = TargetArch::try_from(std::env::consts::ARCH) else { return Ok(()) };
    let denied = DENIED_CALLS.iter().chain(DENIED_LEGACY_CALLS);
    let mut denied: BTreeMap<_, Vec<SeccompRule>> = denied.map(|&call| (call, vec![])).collect();
    // A new user namespace would give the process all capabilities in it.
    let new_user = libc::CLONE_NEWUSER as u64;
    let condition =
        SeccompCondition::new(0, SeccompCmpArgLen::Dword, SeccompCmpOp::MaskedEq(new_user), new_user)?;
    denied.insert(libc::SYS_clone, vec![SeccompRule::new(vec![condition])?]);
    // A seccomp filter cannot read the flags of clone3, which are behind a pointer. With ENOSYS, libraries
    // fall back to clone.
    let unsupported = BTreeMap::from([(libc::SYS_clone3, vec![])]);
    for (calls, error) in [(denied, libc::EPERM), (unsupported, libc::ENOSYS)] {
        let action = SeccompAction::Errno(error as u32);
        let filter = SeccompFilter::new(calls, SeccompAction::Allow, action, arch)?;
        let program: seccompiler::BpfProgram = filter.try_into()?;
        seccompiler::apply_filter(&program)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::{
        AtFlags, CWD, FileType, Mode, XattrFlags, chmodat, fsetxattr, lsetxattr, mknodat, removexattr,
        setxattr,
    };
    use std::fs::{self, Permissions};
    use std::io::ErrorKind;
    use std::os::unix::fs::{PermissionsExt, chown, fchown, lchown};

    /// Runs in its own thread, so that other tests keep their privileges.
    #[test]
    fn a_sandboxed_thread_writes_only_in_its_directories_and_executes_nothing() {
        #[cfg(target_arch = "x86_64")]
        assert_eq!(FCHMODAT2, libc::SYS_fchmodat2);
        let dirs = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let removal_dir = tempfile::tempdir().unwrap();
        let (inside, outside) = (dirs.0.path().to_owned(), dirs.1.path().to_owned());
        let removable = removal_dir.path().to_owned();
        fs::write(removable.join("socket"), "").unwrap();
        fs::write(outside.join("there"), "kept").unwrap();
        let sandboxed = std::thread::spawn(move || {
            sandbox(&[], &[&inside], &[&removable]).unwrap();
            fs::write(inside.join("draft"), "new").unwrap();
            fs::rename(inside.join("draft"), inside.join("whole")).unwrap();
            fs::remove_file(inside.join("whole")).unwrap();
            fs::remove_file(removable.join("socket")).unwrap();
            assert_eq!(fs::read_to_string(outside.join("there")).unwrap(), "kept");
            let kept = outside.join("there");
            let open = fs::File::open(&kept).unwrap();
            let errors = [
                fs::write(outside.join("new"), "").unwrap_err(),
                fs::write(removable.join("new"), "").unwrap_err(),
                chmodat(CWD, &kept, Mode::RWXU, AtFlags::empty()).unwrap_err().into(),
                fs::set_permissions(&kept, Permissions::from_mode(0o666)).unwrap_err(),
                open.set_permissions(Permissions::from_mode(0o666)).unwrap_err(),
                chown(&kept, Some(0), Some(0)).unwrap_err(),
                lchown(&kept, Some(0), Some(0)).unwrap_err(),
                fchown(&open, Some(0), Some(0)).unwrap_err(),
                setxattr(&kept, "user.weir", b"", XattrFlags::empty()).unwrap_err().into(),
                lsetxattr(&kept, "user.weir", b"", XattrFlags::empty()).unwrap_err().into(),
                fsetxattr(&open, "user.weir", b"", XattrFlags::empty()).unwrap_err().into(),
                removexattr(&kept, "user.weir").unwrap_err().into(),
                mknodat(CWD, inside.join("pipe"), FileType::Fifo, Mode::RWXU, 0).unwrap_err().into(),
                fs::write(outside.join("there"), "").unwrap_err(),
                fs::remove_file(outside.join("there")).unwrap_err(),
                std::process::Command::new("true").spawn().unwrap_err(),
            ];
            assert!(errors.iter().all(|error| error.kind() == ErrorKind::PermissionDenied), "{errors:?}");
            // Threads started by the sandboxed thread inherit its restrictions.
            let sets =
                || [CapSet::Effective, CapSet::Permitted].map(|set| caps::read(None, set).unwrap().len());
            assert_eq!(std::thread::spawn(sets).join().unwrap(), [0, 0]);
            assert!(rustix::thread::no_new_privs().unwrap());
        });
        sandboxed.join().unwrap();
        assert_eq!(fs::read_to_string(dirs.1.path().join("there")).unwrap(), "kept");
    }
}
