"""veth pairs, as in the p4 tutorials without offloads and IPv6, and with static neighbour entries.

A link consists of two veth pairs, connected by `weir link`, which emulates rate and delay. If one process runs all switches,
a link to a host is a single pair, and a link between switches has no interfaces.

Mininet runs several shell commands per link; here, a single `ip -batch` creates all links.
"""

import subprocess
from typing import Dict, List

from .ownership import ALIAS, ip_batch
from .plan import HOST_INTERFACE, Plan, SetupError, far_interface, interface

# Work that a host leaves to its NIC. No device does it behind a software switch, so checksums would be wrong and segments
# too long (behavioral-model issues 919, 986, 1228). LRO and UFO are always off on veth interfaces.
OFFLOADS = ["rx", "tx", "sg", "tso", "gso", "gro"]


def in_namespace(pid: int) -> List[str]:
    """Returns a command prefix that runs a command in the network namespace of a process."""
    return ["mnexec", "-a", str(pid)]


def create_links(plan: Plan, hosts: Dict[str, int]) -> None:
    """Creates the interfaces of all links. `hosts` has the pid of a process in each host's namespace."""
    macs = {host.name: host.mac for host in plan.hosts}
    # Commands that create pairs, and interfaces in this namespace, to configure afterwards.
    commands, local = [], []

    def add_pair(name: str, node: str, port: int) -> None:
        """Adds a pair: the interface `name` here, and the interface of the node."""
        if node in hosts:
            peer = f"name {HOST_INTERFACE} mtu {plan.mtu} address {macs[node]} netns {hosts[node]}"
        else:
            peer = f"name {interface(node, port)} mtu {plan.mtu}"
            local.append(interface(node, port))
        local.append(name)
        commands.append(f"link add name {name} mtu {plan.mtu} type veth peer {peer}")

    if plan.one_process:
        for port, host in plan.host_ports():
            add_pair(interface(*port), host, 0)
    else:
        for node, port in plan.ends():
            add_pair(far_interface(node, port), node, port)
    ip_batch(commands + [f"link set dev {name} alias {ALIAS}" for name in local])
    for name in local:
        disable_ipv6(name)
    ip_batch([f"link set dev {name} addrgenmode none up" for name in local])
    for name in local:
        disable_offloads(name, [])


def configure_host(plan: Plan, name: str, pid: int) -> None:
    """Sets the address and the neighbours of a host, after its link was created."""
    # /proc/sys/net refers to the namespace of the process that opens the file.
    subprocess.run([*in_namespace(pid), "sh", "-c", "echo 1 > /proc/sys/net/ipv6/conf/all/disable_ipv6"],
                   stderr=subprocess.DEVNULL)
    host = next(host for host in plan.hosts if host.name == name)
    commands = ["link set dev lo up", f"link set dev {HOST_INTERFACE} up"]
    if host.ip:
        commands += [f"addr add {host.ip} brd + dev {HOST_INTERFACE}"]
    if plan.static_arp:
        commands += [f"neigh replace {other.ip.split('/')[0]} lladdr {other.mac} dev {HOST_INTERFACE} nud permanent"
                     for other in plan.hosts if other.name != name and other.ip]
    ip_batch(commands, in_namespace(pid))
    disable_offloads(HOST_INTERFACE, in_namespace(pid))


def disable_ipv6(name: str) -> None:
    try:
        with open(f"/proc/sys/net/ipv6/conf/{name}/disable_ipv6", "w", encoding="ascii") as file:
            file.write("1")
    except FileNotFoundError:
        pass  # the kernel has no IPv6


def disable_offloads(name: str, prefix: List[str]) -> None:
    options = [word for offload in OFFLOADS for word in (offload, "off")]
    result = subprocess.run([*prefix, "ethtool", "-K", name, *options], capture_output=True, text=True)
    if result.returncode != 0:
        raise SetupError(f"ethtool -K {name}: {result.stderr.strip()}")
