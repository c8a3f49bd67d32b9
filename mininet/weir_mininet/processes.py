"""Starts switches, links and agents, and stops switches and links."""

import functools
import os
import signal
import subprocess
from typing import List

from .plan import Plan, SetupError

# Listen address of servers; only processes of this machine need them.
LOOPBACK = "127.0.0.1"
# Time limit for the start of a process, ample for a loaded machine.
START_TIMEOUT_S = 30.0
# Time limit for a process to end after SIGTERM, before it is killed.
EXIT_TIMEOUT_S = 2.0
# Length of the tail of standard error in messages.
STDERR_TAIL = 400


def die_with_parent(command: List[str]) -> List[str]:
    """Returns a command that is killed when its parent process ends, even by SIGKILL (PR_SET_PDEATHSIG)."""
    return ["setpriv", "--pdeathsig", "KILL", *command]


@functools.lru_cache(maxsize=None)
def realtime_prefix() -> List[str]:
    """Returns a command prefix for real-time scheduling (`chrt --rr 1`), or `nice -n -10` where that is not allowed.
    Scheduling delays of switches and agents show up in telemetry as a link of varying rate. Linux reserves 5 % of the CPU
    time for other processes in any case (sched_rt_runtime_us)."""
    for prefix in (["chrt", "--rr", "1"], ["nice", "-n", "-10"]):
        if subprocess.run([*prefix, "true"], capture_output=True).returncode == 0:
            return prefix
    return []


def exit_text(status: int) -> str:
    """Says how a process ended. A negative status is a signal, as in subprocess.Popen.returncode."""
    if status == -signal.SIGKILL:
        return "was killed by SIGKILL, which the kernel sends when memory runs out"
    return f"exited with status {status}" if status >= 0 else f"was ended by {signal.Signals(-status).name}"


class ManagedProcess:
    """A process of the fabric. It is an error if it ends before it is stopped."""

    def __init__(self, plan: Plan, name: str, file: str, command: List[str]):
        self.name = name  # in messages
        self.command = command
        self.stderr_path = os.path.join(plan.work, f"{file}.err")
        self.process = None

    def start(self, stdout=None) -> None:
        """Starts the process. Standard output goes to the same file as standard error unless `stdout` is given."""
        with open(self.stderr_path, "wb") as stderr:
            self.process = subprocess.Popen(die_with_parent(realtime_prefix() + self.command), stdin=subprocess.DEVNULL,
                                            stdout=stdout or stderr, stderr=stderr, start_new_session=True)

    def check(self) -> None:
        """Raises SetupError if the process has ended."""
        status = self.process.poll()
        if status is not None:
            raise SetupError(f"{self.name} {exit_text(status)}{self.stderr_tail()}")

    def stderr_tail(self) -> str:
        """Returns the end of standard error as the last part of a message, or an empty string."""
        with open(self.stderr_path, "rb") as stderr:
            tail = stderr.read()[-STDERR_TAIL:].decode(errors="replace").strip()
        return f": {tail}" if tail else ""

    def stop(self) -> None:
        if self.process and self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)

    def wait_until_exited(self) -> None:
        """Waits for the end of the process, and kills it after EXIT_TIMEOUT_S."""
        if not self.process:
            return
        try:
            self.process.communicate(timeout=EXIT_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
