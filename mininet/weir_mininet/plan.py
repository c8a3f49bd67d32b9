"""The plan of a fabric, as sent by `weir`. Unknown keys are errors, which detects that the versions differ."""

from dataclasses import dataclass, field
from typing import Dict, List, Optional, Tuple


class SetupError(Exception):
    """An error that `weir` shows to the user: one sentence with location and remedy."""


@dataclass
class Host:
    name: str
    ip: Optional[str]  # with prefix length; None: no address
    mac: str
    commands: List[str] = field(default_factory=list)


@dataclass
class Switch:
    name: str
    device_id: int
    grpc_port: int
    thrift_port: int
    cpu_port: Optional[int] = None
    priorities: int = 1
    program: Optional[str] = None  # BMv2 JSON to load at start; None: a P4Runtime client loads the program
    options: List[str] = field(default_factory=list)  # further options of `weir switch`


@dataclass
class Link:
    a: Tuple[str, int]  # node and port (0 for hosts)
    b: Tuple[str, int]
    name: str
    properties: str  # rate and delay, in the syntax of `weir link run`


@dataclass
class Plan:
    work: str  # temporary directory of the run, removed by `weir`
    switch: str  # "weir" or "bmv2"
    one_process: bool  # one process runs all switches and emulates the links
    exe: str  # program of the switches
    weir: str  # `weir`, for the link emulator and the CLI
    seed: int  # for random events on links
    frame: int  # bytes of a full data frame after a switch
    mtu: int
    hosts: List[Host]
    switches: List[Switch]
    links: List[Link]
    static_arp: bool = True
    pcaps: Optional[str] = None
    logs: Optional[str] = None

    @staticmethod
    def read(tree: Dict) -> "Plan":
        try:
            lists = {
                "hosts": [Host(**host) for host in tree["hosts"]],
                "switches": [Switch(**switch) for switch in tree["switches"]],
                "links": [Link(**link) for link in tree["links"]],
            }
            return Plan(**{**tree, **lists})
        except (KeyError, TypeError) as error:
            raise SetupError(f"weir_mininet does not match this version of weir: {error}") from None

    def ends(self) -> List[Tuple[str, int]]:
        return [end for link in self.links for end in (link.a, link.b)]

    def ports(self) -> List[str]:
        """Returns the interface names of the switches' ports."""
        switches = {switch.name for switch in self.switches}
        return [interface(*end) for end in self.ends() if end[0] in switches]

    def host_ports(self) -> List[Tuple[Tuple[str, int], str]]:
        """Returns the ports of switches that connect hosts, each with the name of its host."""
        hosts = {host.name for host in self.hosts}
        directions = [ends for link in self.links for ends in ((link.a, link.b), (link.b, link.a))]
        return [(port, peer[0]) for port, peer in directions if peer[0] in hosts and port[0] not in hosts]

    def interfaces(self) -> List[str]:
        """Returns the names of the interfaces to create in the namespace of the switches and the link emulator."""
        if self.one_process:
            return [interface(*port) for port, _ in self.host_ports()]
        return self.ports() + [far_interface(*end) for end in self.ends()]


def interface(node: str, port: int) -> str:
    """Returns the name of a port's interface, as in the p4 tutorials: port N of s1 is s1-ethN."""
    return f"{node}-eth{port}"


def far_interface(node: str, port: int) -> str:
    """Returns the name of the veth peer of a port's interface, which the link emulator opens."""
    return f"_{interface(node, port)}"


# The only interface of a host, with the same name as in the p4 tutorials.
HOST_INTERFACE = "eth0"
