"""Programs in the hosts: pings, and the agents of an experiment."""

import re
import select
import signal
import subprocess
import os
import time
from typing import Callable, Dict, List, Optional

from .fabric import Fabric
from .links import in_namespace
from .plan import HOST_INTERFACE, SetupError
from .processes import STDERR_TAIL, die_with_parent, exit_text, realtime_prefix

# iputils: "rtt min/avg/max/mdev = 0.045/0.052/0.060/0.007 ms"
PING_RTT = re.compile(r"(?:rtt|round-trip) min/\S+ = ([0-9.]+)/")
# UDP port of the agents (docs/agent.md) in hexadecimal, as in /proc/net/udp.
AGENT_PORT = "5745"
# Time from the launch of the first agent to the common start of the traffic.
LEAD_S, LEAD_PER_AGENT_S = 2.0, 0.15
# Time limit for agents to end after SIGINT.
STOP_TIMEOUT_S = 10.0


def in_host(fabric: Fabric, host: str, command: List[str], **options) -> subprocess.Popen:
    # In its own session, so that Ctrl-C in the terminal does not reach the command; this process sends SIGINT.
    full = [*in_namespace(fabric.hosts[host].pid), *die_with_parent(command)]
    return subprocess.Popen(full, start_new_session=True, **options)


def ping_all(fabric: Fabric, payload: int, count: int, wait_s: int) -> Dict[str, Dict[str, Optional[float]]]:
    """Every host with an address pings every other. Returns minimum round-trip times in ms by source and destination;
    None: no reply."""
    addresses = {host.name: host.ip.split("/")[0] for host in fabric.plan.hosts if host.ip}
    # Hosts ping in parallel, each its destinations in sequence.
    running = {}
    for name in addresses:
        others = [address for other, address in addresses.items() if other != name]
        running[name] = start_pings(fabric, name, others, payload, count, wait_s)
    names = {address: name for name, address in addresses.items()}
    rtts = {}
    for name, process in running.items():
        output, _ = process.communicate()
        rtts[name] = {other: None for other in addresses if other != name}
        for section in output.split("to ")[1:]:
            rtt = PING_RTT.search(section)
            if rtt:
                rtts[name][names[section.split("\n")[0]]] = float(rtt.group(1))
    fabric.check()
    return rtts


def ping_alone(fabric: Fabric, pairs: List[List[str]], payload: int, count: int, wait_s: int) -> List[Optional[float]]:
    """Pings from the first host of each pair to the second, one pair after the other, so that no ping waits for another.
    Returns the minimum round-trip time of each pair in ms; None: no reply."""
    addresses = {host.name: host.ip.split("/")[0] for host in fabric.plan.hosts if host.ip}
    rtts = []
    for source, destination in pairs:
        output, _ = start_pings(fabric, source, [addresses[destination]], payload, count, wait_s).communicate()
        rtt = PING_RTT.search(output)
        rtts.append(float(rtt.group(1)) if rtt else None)
    fabric.check()
    return rtts


def start_pings(fabric: Fabric, source: str, addresses: List[str], payload: int, count: int, wait_s: int) -> subprocess.Popen:
    """Pings the addresses one after the other. The output of each begins with a line "to ADDRESS"."""
    loop = 'for ip in "$@"; do echo "to $ip"; ping -n -q -c {} -i 0.02 -W {} -s {} -I {} "$ip"; done'
    script = loop.format(count, wait_s, payload, HOST_INTERFACE)
    return in_host(fabric, source, ["sh", "-c", script, "ping", *addresses], text=True, stdin=subprocess.DEVNULL,
                   stdout=subprocess.PIPE, stderr=subprocess.STDOUT)


def run_agents(fabric: Fabric, commands: Dict[str, List[str]], receive_interrupt: Callable[[], bool], requests: int,
               on_start: Callable[[float], None]) -> Dict[str, Dict]:
    """Runs one agent in each host until all have ended; all start their traffic at the same time. Returns exit status and
    tail of standard error by host.

    When the file descriptor `requests` is readable, `receive_interrupt` is called; if it returns True, the agents are
    interrupted. `on_start` is called with the time of the start, in seconds of CLOCK_MONOTONIC."""
    start = time.monotonic() + LEAD_S + LEAD_PER_AGENT_S * len(commands)
    agents = {}
    for host, command in commands.items():
        full = [*realtime_prefix(), *command, "--start-at", f"mono:{start:.9f}"]
        agents[host] = in_host(fabric, host, full, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                               stderr=subprocess.PIPE)
    try:
        for host, agent in agents.items():
            wait_until_listening(fabric, host, agent, start)
        on_start(start)
        wait_for_all(fabric, agents, receive_interrupt, requests)
    finally:
        for agent in agents.values():
            if agent.poll() is None:
                agent.kill()
    tails = {host: stderr_tail(agent) for host, agent in agents.items()}
    return {host: {"status": agent.wait(), "stderr_tail": tails[host]} for host, agent in agents.items()}


def stderr_tail(agent: subprocess.Popen) -> str:
    return agent.stderr.read()[-STDERR_TAIL:].decode(errors="replace").strip()


def wait_until_listening(fabric: Fabric, host: str, agent: subprocess.Popen, start: float) -> None:
    """Waits until the agent has opened its UDP port, which it does last."""
    while f":{AGENT_PORT} " not in read(f"/proc/{fabric.hosts[host].pid}/net/udp"):
        if agent.poll() is not None:
            raise SetupError(f"agent of {host} {exit_text(agent.returncode)}: {stderr_tail(agent)}")
        if time.monotonic() > start:
            raise SetupError(f"agent of {host} not ready in time; the machine is overloaded ({len(fabric.hosts)} hosts)")
        time.sleep(0.01)


def read(path: str) -> str:
    with open(path, encoding="ascii", errors="replace") as file:
        return file.read()


def wait_for_all(fabric: Fabric, agents: Dict[str, subprocess.Popen], receive_interrupt: Callable[[], bool],
                 requests: int) -> None:
    """Waits until all agents have ended, or until STOP_TIMEOUT_S after an interrupt. Raises SetupError if a process of the
    fabric ends."""
    # A pidfd becomes readable when its process ends.
    agent_fds = {os.pidfd_open(agent.pid): agent for agent in agents.values()}
    process_fds = {os.pidfd_open(process.process.pid): process for process in fabric.processes}
    deadline = None
    try:
        poll = select.poll()
        for fd in [*agent_fds, *process_fds, requests]:
            poll.register(fd, select.POLLIN)
        running = set(agent_fds)
        while running:
            timeout = None if deadline is None else max(0.0, deadline - time.monotonic()) * 1000
            ready = poll.poll(timeout)
            if not ready:
                return  # timed out; the caller kills the agents that still run
            for fd, _ in ready:
                if fd in running:
                    running.discard(fd)
                    poll.unregister(fd)
                elif fd in process_fds:
                    process_fds[fd].check()
                elif fd == requests and receive_interrupt() and deadline is None:
                    deadline = time.monotonic() + STOP_TIMEOUT_S
                    for agent in agents.values():
                        agent.send_signal(signal.SIGINT)
    finally:
        for fd in [*agent_fds, *process_fds]:
            os.close(fd)
