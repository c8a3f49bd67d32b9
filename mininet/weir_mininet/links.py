"""veth pairs as the tutorials have them: no offloads, no IPv6, neighbours known from the start. A link is two of them,
with `weir link` between: it has the rate and the length. Where one process runs all switches, it is one, to a host;
between switches there is none.

Mininet runs a shell command for each step of each link; here one `ip -batch` makes them all.
"""

import subprocess
from typing import Dict, List

from .ours import ALIAS, ip_batch
from .plan import HOST_INTERFACE, Plan, Problem, far_interface, interface

# What a NIC would do for its host. Behind a software switch nobody does it, so checksums would be wrong and
# segments too long (behavioral-model issues 919, 986, 1228). LRO and UFO are off on every veth.
OFFLOADS = ["rx", "tx", "sg", "tso", "gso", "gro"]


def enter(pid: int) -> List[str]:
    return ["mnexec", "-a", str(pid)]


def lay(plan: Plan, hosts: Dict[str, int]) -> None:
    """Makes all links. `hosts`: the process that holds each host's namespace."""
    macs = {host.name: host.mac for host in plan.hosts}
    made, up = [], []

    def pair(near: str, node: str, port: int) -> None:
        if node in hosts:
            peer = f"name {HOST_INTERFACE} mtu {plan.mtu} address {macs[node]} netns {hosts[node]}"
        else:
            peer = f"name {interface(node, port)} mtu {plan.mtu}"
            up.append(interface(node, port))
        up.append(near)
        made.append(f"link add name {near} mtu {plan.mtu} type veth peer {peer}")

    if plan.one_process:
        for port, host in plan.to_hosts():
            pair(interface(*port), host, 0)
    else:
        for node, port in plan.ends():
            pair(far_interface(node, port), node, port)
    ip_batch(made + [f"link set dev {name} alias {ALIAS}" for name in up])
    for name in up:
        no_ipv6(name)
    ip_batch([f"link set dev {name} addrgenmode none up" for name in up])
    for name in up:
        no_offloads(name, [])


def settle_host(plan: Plan, name: str, pid: int) -> None:
    """Address and neighbours of a host, once its link is there."""
    # /proc/sys/net shows the namespace of the process that opens it.
    subprocess.run([*enter(pid), "sh", "-c", "echo 1 > /proc/sys/net/ipv6/conf/all/disable_ipv6"],
                   stderr=subprocess.DEVNULL)
    host = next(host for host in plan.hosts if host.name == name)
    commands = ["link set dev lo up", f"link set dev {HOST_INTERFACE} up"]
    if host.ip:
        commands += [f"addr add {host.ip} brd + dev {HOST_INTERFACE}"]
    if plan.static_arp:
        commands += [f"neigh replace {other.ip.split('/')[0]} lladdr {other.mac} dev {HOST_INTERFACE} nud permanent"
                     for other in plan.hosts if other.name != name and other.ip]
    ip_batch(commands, enter(pid))
    no_offloads(HOST_INTERFACE, enter(pid))


def no_ipv6(name: str) -> None:
    try:
        with open(f"/proc/sys/net/ipv6/conf/{name}/disable_ipv6", "w", encoding="ascii") as switch:
            switch.write("1")
    except FileNotFoundError:
        pass  # a kernel without IPv6


def no_offloads(name: str, where: List[str]) -> None:
    options = [word for offload in OFFLOADS for word in (offload, "off")]
    done = subprocess.run([*where, "ethtool", "-K", name, *options], capture_output=True, text=True)
    if done.returncode != 0:
        raise Problem(f"ethtool -K {name}: {done.stderr.strip()}")
