"""Ownership marks of processes and interfaces, so that cleanup removes exactly what Weir created.

- Only one fabric at a time runs in a network namespace. Its lock is an abstract socket, which the kernel removes with the
  process.
- Every process of a fabric has a variable in its environment, every interface an alias. Both outlive the process that
  created them, so the next run finds what a killed run left. `mn -c`, in contrast, kills processes by name.
"""

import json
import os
import signal
import socket
import subprocess
import time
from typing import Dict, Iterator, List

from .plan import SetupError

MARKER_ENV = "WEIR_FABRIC"
ALIAS = "weir-fabric"
SOCKET = "\0weir-fabric"
# Time limit for killed processes to disappear.
KILL_TIMEOUT_S = 5.0


def acquire_lock() -> socket.socket:
    """Locks the namespace for a fabric of this process. Closing the socket, or the end of the process, releases the lock."""
    lock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        lock.bind(SOCKET)
    except OSError:
        lock.close()
        raise SetupError("another Weir run in Mininet is active; wait for it or stop it") from None
    # Child processes inherit the mark.
    os.environ[MARKER_ENV] = namespace()
    return lock


def namespace() -> str:
    """Returns the identity of this process's network namespace, in which the switches run."""
    return os.readlink("/proc/self/ns/net")


def processes() -> Iterator[int]:
    """Yields the processes of the fabric in this namespace, except this process."""
    mark = f"{MARKER_ENV}={namespace()}".encode()
    for entry in os.listdir("/proc"):
        if not entry.isdigit() or int(entry) == os.getpid():
            continue
        try:
            with open(f"/proc/{entry}/environ", "rb") as environ:
                if mark in environ.read().split(b"\0"):
                    yield int(entry)
        except OSError:
            continue  # the process has ended, or is a kernel thread


def interfaces() -> Dict[str, bool]:
    """Returns the interfaces of this namespace, and whether Weir created them."""
    output = subprocess.run(["ip", "-j", "link", "show"], check=True, capture_output=True, text=True).stdout
    return {link["ifname"]: link.get("ifalias") == ALIAS for link in json.loads(output)}


def ip_batch(commands: List[str], prefix: List[str] = (), force: bool = False) -> None:
    """Executes many `ip` commands in one process. `prefix` is a command prefix, such as that of `links.in_namespace`.
    With `force`, failed commands are ignored."""
    if not commands:
        return
    options = ["-force"] if force else []
    result = subprocess.run([*prefix, "ip", *options, "-batch", "-"], input="\n".join(commands) + "\n",
                            capture_output=True, text=True)
    if result.returncode != 0 and not force:
        raise SetupError(f"ip: {result.stderr.strip()}")


def cleanup() -> int:
    """Removes all marked processes and interfaces, and returns their number."""
    removed = 0
    deadline = time.monotonic() + KILL_TIMEOUT_S
    while True:
        remaining = list(processes())
        for pid in remaining:
            removed += 1
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        if not remaining:
            break
        if time.monotonic() > deadline:
            raise SetupError(f"cannot kill processes of an earlier run: {remaining}")
        time.sleep(0.02)
    created = [name for name, is_created_by_weir in interfaces().items() if is_created_by_weir]
    # Deleting one end of a veth pair deletes the other one, whose own deletion then fails; hence `force`.
    ip_batch([f"link del dev {name}" for name in created], force=True)
    return removed + len(created)
