"""veth pairs as the tutorials have them: no offloads, no IPv6, neighbours known from the start.

Mininet runs a shell command for each step of each link; here one `ip -batch` makes them all.
"""

import subprocess
from typing import Dict, List

from .ours import ALIAS, ip_batch
from .plan import HOST_INTERFACE, Link, Plan, Problem, interface

# What a NIC would do for its host. Behind a software switch nobody does it, so checksums would be wrong and
# segments too long (behavioral-model issues 919, 986, 1228). LRO and UFO are off on every veth.
OFFLOADS = ["rx", "tx", "sg", "tso", "gso", "gro"]
# Room for what is under way on a delayed link, in packets.
UNDER_WAY = 100_000


def enter(pid: int) -> List[str]:
    return ["mnexec", "-a", str(pid)]


def lay(plan: Plan, hosts: Dict[str, int]) -> None:
    """Makes all links. `hosts`: the process that holds each host's namespace."""
    made, up = [], []
    for link in plan.links:
        # A host, if there is one, comes first.
        a, b = (link.a, link.b) if link.a[0] in hosts else (link.b, link.a)
        there = interface(*b)
        if a[0] in hosts:
            mac = next(host.mac for host in plan.hosts if host.name == a[0])
            peer = f"name {HOST_INTERFACE} mtu {plan.mtu} address {mac} netns {hosts[a[0]]}"
        else:
            peer = f"name {interface(*a)} mtu {plan.mtu}"
            up.append(interface(*a))
        up.append(there)
        made.append(f"link add name {there} mtu {plan.mtu} type veth peer {peer}")
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
    commands = ["link set dev lo up", f"link set dev {HOST_INTERFACE} up",
                f"addr add {host.ip} brd + dev {HOST_INTERFACE}"]
    if plan.static_arp:
        commands += [f"neigh replace {other.ip.split('/')[0]} lladdr {other.mac} dev {HOST_INTERFACE} nud permanent"
                     for other in plan.hosts if other.name != name]
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


def shape(link: Link, hosts: Dict[str, int]) -> None:
    """What `tc` is asked to do at both ends of a link."""
    for node, port in (link.a, link.b):
        where, name = (enter(hosts[node]), HOST_INTERFACE) if node in hosts else ([], interface(node, port))
        parent = ["root"]
        if link.rate_kbit and node in hosts:
            # A switch keeps its own ports to the rate: the queue is to be in the switch.
            tc(where, name, ["root", "handle", "1:", "htb", "default", "1"])
            subprocess.run([*where, "tc", "class", "add", "dev", name, "parent", "1:", "classid", "1:1", "htb",
                            "rate", f"{link.rate_kbit}kbit", "burst", "15k"], check=True)
            parent = ["parent", "1:1"]
        if link.delay_us:
            tc(where, name, [*parent, "netem", "delay", f"{link.delay_us}us", "limit", str(UNDER_WAY)])


def tc(where: List[str], name: str, qdisc: List[str]) -> None:
    done = subprocess.run([*where, "tc", "qdisc", "add", "dev", name, *qdisc], capture_output=True, text=True)
    if done.returncode != 0:
        raise Problem(f"tc qdisc {' '.join(qdisc)} on {name}: {done.stderr.strip()} (does this kernel have it?)")
