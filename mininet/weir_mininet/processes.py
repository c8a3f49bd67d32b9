"""How switches, links and agents are started."""

import functools
import subprocess
from typing import List

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
