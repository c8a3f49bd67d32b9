"""How switches, links and agents are started, and how the former are ended."""

import functools
import os
import signal
import subprocess
from typing import List

from .plan import Plan, Problem

# Where servers listen; nobody else on the network need reach them.
LOOPBACK = "127.0.0.1"
# What a loaded machine may take to start a process.
START_S = 30.0
# And to end it, before it is killed.
STOP_S = 2.0
LAST_WORDS = 400


def tethered(command: List[str]) -> List[str]:
    """A command that ends when the process that started it ends, even by SIGKILL."""
    return ["setpriv", "--pdeathsig", "KILL", *command]


@functools.lru_cache(maxsize=None)
def punctual() -> List[str]:
    """What makes a command run as soon as it has something to do, as far as this machine allows it. Frames and
    agents that wait for a processor show up in telemetry as links that are not steady. Linux leaves the rest of
    the machine 5 % of the time in any case (sched_rt_runtime_us)."""
    for prefix in (["chrt", "--rr", "1"], ["nice", "-n", "-10"]):
        if subprocess.run([*prefix, "true"], capture_output=True).returncode == 0:
            return prefix
    return []


class Part:
    """A process of the fabric that must not end before it is told to."""

    def __init__(self, plan: Plan, name: str, file: str, command: List[str]):
        self.name = name  # in messages
        self.command = command
        self.words = os.path.join(plan.work, f"{file}.err")
        self.process = None

    def start(self, stdout=None) -> None:
        """What it says on stdout is among its last words, unless it goes elsewhere."""
        with open(self.words, "wb") as words:
            self.process = subprocess.Popen(tethered(punctual() + self.command), stdin=subprocess.DEVNULL,
                                            stdout=stdout or words, stderr=words, start_new_session=True)

    def check(self) -> None:
        """Raises if it has ended."""
        status = self.process.poll()
        if status is not None:
            raise Problem(f"{self.name} ended with status {status}{self.last_words()}")

    def last_words(self) -> str:
        with open(self.words, "rb") as words:
            said = words.read()[-LAST_WORDS:].decode(errors="replace").strip()
        return f": {said}" if said else ""

    def stop(self) -> None:
        if self.process and self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)

    def wait_until_gone(self) -> None:
        if not self.process:
            return
        try:
            self.process.communicate(timeout=STOP_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
