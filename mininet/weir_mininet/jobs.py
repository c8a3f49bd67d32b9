"""What runs in the hosts: pings, and the agents of an experiment."""

import re
import select
import signal
import subprocess
import os
import time
from typing import Callable, Dict, List, Optional

from .fabric import Fabric
from .links import enter
from .plan import HOST_INTERFACE, Problem
from .processes import LAST_WORDS, punctual, tethered

# iputils: "rtt min/avg/max/mdev = 0.045/0.052/0.060/0.007 ms"
PING_RTT = re.compile(r"(?:rtt|round-trip) min/\S+ = ([0-9.]+)/")
# UDP port of the agents (docs/agent.md), as /proc/net/udp writes it.
AGENT_PORT = "5745"
# From the first agent's launch to the common start.
LEAD_S, LEAD_PER_AGENT_S = 2.0, 0.15
# How long agents may take to end after they were interrupted.
PATIENCE_S = 10.0


def in_host(fabric: Fabric, host: str, command: List[str], **options) -> subprocess.Popen:
    # A session of its own: Ctrl-C is ours to pass on.
    return subprocess.Popen([*enter(fabric.hosts[host].pid), *tethered(command)], start_new_session=True, **options)


def ping_all(fabric: Fabric, payload: int, count: int, wait_s: int) -> Dict[str, Dict[str, Optional[float]]]:
    """Every host with an address pings every other. Least round-trip time in ms; none if nothing came back."""
    addresses = {host.name: host.ip.split("/")[0] for host in fabric.plan.hosts if host.ip}
    # One after the other in a host, all hosts at once.
    loop = 'for ip in "$@"; do echo "to $ip"; ping -n -q -c {} -i 0.02 -W {} -s {} -I {} "$ip"; done'
    script = loop.format(count, wait_s, payload, HOST_INTERFACE)
    running = {}
    for name in addresses:
        others = [address for other, address in addresses.items() if other != name]
        running[name] = in_host(fabric, name, ["sh", "-c", script, "ping", *others], text=True,
                                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    names = {address: name for name, address in addresses.items()}
    rtts = {}
    for name, process in running.items():
        said, _ = process.communicate()
        rtts[name] = {other: None for other in addresses if other != name}
        for part in said.split("to ")[1:]:
            found = PING_RTT.search(part)
            if found:
                rtts[name][names[part.split("\n")[0]]] = float(found.group(1))
    fabric.check()
    return rtts


def run_agents(fabric: Fabric, commands: Dict[str, List[str]], told: Callable[[], bool], wake: int,
               started: Callable[[float], None]) -> Dict[str, Dict]:
    """Runs one agent in each host, all with the same start, until all have ended. `told` says whether to
    interrupt them, asked when `wake` can be read; `started` hears the start, in seconds of CLOCK_MONOTONIC."""
    start = time.monotonic() + LEAD_S + LEAD_PER_AGENT_S * len(commands)
    agents = {}
    for host, command in commands.items():
        full = [*punctual(), *command, "--start-at", f"mono:{start:.9f}"]
        agents[host] = in_host(fabric, host, full, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                               stderr=subprocess.PIPE)
    try:
        for host, agent in agents.items():
            wait_until_listening(fabric, host, agent, start)
        started(start)
        wait_for_all(fabric, agents, told, wake)
    finally:
        for agent in agents.values():
            if agent.poll() is None:
                agent.kill()
    words = {host: agent.stderr.read()[-LAST_WORDS:].decode(errors="replace").strip() for host, agent in agents.items()}
    return {host: {"status": agent.wait(), "stderr_tail": words[host]} for host, agent in agents.items()}


def wait_until_listening(fabric: Fabric, host: str, agent: subprocess.Popen, start: float) -> None:
    """The agent holds its UDP port once all it needs is open."""
    while f":{AGENT_PORT} " not in read(f"/proc/{fabric.hosts[host].pid}/net/udp"):
        if agent.poll() is not None:
            said = agent.stderr.read()[-LAST_WORDS:].decode(errors="replace").strip()
            raise Problem(f"the agent of {host} ended with status {agent.returncode}: {said}")
        if time.monotonic() > start:
            raise Problem(f"the agent of {host} was not ready in time: this machine is too busy for {len(fabric.hosts)} hosts")
        time.sleep(0.01)


def read(path: str) -> str:
    with open(path, encoding="ascii", errors="replace") as file:
        return file.read()


def wait_for_all(fabric: Fabric, agents: Dict[str, subprocess.Popen], told: Callable[[], bool], wake: int) -> None:
    ends = {os.pidfd_open(agent.pid): agent for agent in agents.values()}
    parts = {os.pidfd_open(part.process.pid): part for part in fabric.parts}
    deadline = None
    try:
        poll = select.poll()
        for fd in [*ends, *parts, wake]:
            poll.register(fd, select.POLLIN)
        left = set(ends)
        while left:
            timeout = None if deadline is None else max(0.0, deadline - time.monotonic()) * 1000
            ready = poll.poll(timeout)
            if not ready:
                return  # the patience is over; processes that are left are killed
            for fd, _ in ready:
                if fd in left:
                    left.discard(fd)
                    poll.unregister(fd)
                elif fd in parts:
                    parts[fd].check()
                elif fd == wake and told() and deadline is None:
                    deadline = time.monotonic() + PATIENCE_S
                    for agent in agents.values():
                        agent.send_signal(signal.SIGINT)
    finally:
        for fd in [*ends, *parts]:
            os.close(fd)
