"""What is ours on this machine, so that exactly that can be removed.

- One fabric at a time lives in a network namespace: it holds an abstract socket, which nothing leaves behind.
- Every process that a fabric starts carries a mark in its environment, every interface one as its alias. Both
  outlive the process that made them, so a run finds what a killed one left. Nothing of others is touched, in contrast to
  `mn -c`, which kills by name.
"""

import json
import os
import signal
import socket
import subprocess
import time
from typing import Dict, Iterator, List

from .plan import Problem

MARK = "WEIR_FABRIC"
ALIAS = "weir-fabric"
SOCKET = "\0weir-fabric"
# How long a killed process may take to be gone.
PATIENCE_S = 5.0


def claim() -> socket.socket:
    """Makes this process the owner of the fabric; the claim ends with the process."""
    holder = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        holder.bind(SOCKET)
    except OSError:
        holder.close()
        raise Problem("another Mininet run of weir is going on here; wait for it or end it") from None
    os.environ[MARK] = namespace()
    return holder


def namespace() -> str:
    """The network namespace that the switches are in."""
    return os.readlink("/proc/self/ns/net")


def processes() -> Iterator[int]:
    """Processes with our mark, of this namespace's fabric."""
    mark = f"{MARK}={namespace()}".encode()
    for entry in os.listdir("/proc"):
        if not entry.isdigit() or int(entry) == os.getpid():
            continue
        try:
            with open(f"/proc/{entry}/environ", "rb") as environ:
                if mark in environ.read().split(b"\0"):
                    yield int(entry)
        except OSError:
            continue  # gone meanwhile, or a kernel thread


def interfaces() -> Dict[str, bool]:
    """Interfaces here, and whether they are ours."""
    shown = subprocess.run(["ip", "-j", "link", "show"], check=True, capture_output=True, text=True).stdout
    return {link["ifname"]: link.get("ifalias") == ALIAS for link in json.loads(shown)}


def ip_batch(commands: List[str], enter: List[str] = (), force: bool = False) -> None:
    """Many `ip` commands by one process, in a namespace if `enter` leads there."""
    if not commands:
        return
    options = ["-force"] if force else []
    done = subprocess.run([*enter, "ip", *options, "-batch", "-"], input="\n".join(commands) + "\n",
                          capture_output=True, text=True)
    if done.returncode != 0 and not force:
        raise Problem(f"ip: {done.stderr.strip()}")


def sweep() -> int:
    """Removes all that is marked as ours; says how much it was."""
    removed = 0
    deadline = time.monotonic() + PATIENCE_S
    while True:
        left = list(processes())
        for pid in left:
            removed += 1
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        if not left:
            break
        if time.monotonic() > deadline:
            raise Problem(f"processes of an earlier run cannot be killed: {left}")
        time.sleep(0.02)
    ours = [name for name, is_ours in interfaces().items() if is_ours]
    # The other end of a pair goes with the first.
    ip_batch([f"link del dev {name}" for name in ours], force=True)
    return removed + len(ours)
