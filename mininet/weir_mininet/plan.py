"""The plan of a fabric: what `weir` sends. Unknown keys are errors, so that the two cannot drift apart."""

from dataclasses import dataclass, field
from typing import Dict, List, Optional, Tuple


class Problem(Exception):
    """Something that the user can do something about: one sentence, place and remedy."""


@dataclass
class Host:
    name: str
    ip: Optional[str]  # with prefix length; none: a host without an address
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
    program: Optional[str] = None  # BMv2 JSON to start with; none: a P4Runtime client brings it
    options: List[str] = field(default_factory=list)  # of the embedded switch only


@dataclass
class Link:
    a: Tuple[str, int]  # node and port; a host's port is 0
    b: Tuple[str, int]
    name: str
    properties: str  # rate and delay, as `weir link run` reads them


@dataclass
class Plan:
    work: str  # a directory of ours, removed after the run
    switch: str  # "weir" or "bmv2"
    one_process: bool  # runs all switches and carries the links
    exe: str  # its program
    weir: str  # the program that emulates links
    seed: int  # of what happens at random on links
    frame: int  # bytes of a full frame of data behind a switch
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
            parts = {
                "hosts": [Host(**host) for host in tree["hosts"]],
                "switches": [Switch(**switch) for switch in tree["switches"]],
                "links": [Link(**link) for link in tree["links"]],
            }
            return Plan(**{**tree, **parts})
        except (KeyError, TypeError) as error:
            raise Problem(f"the plan of the fabric does not fit this version of weir_mininet: {error}") from None

    def ends(self) -> List[Tuple[str, int]]:
        return [end for link in self.links for end in (link.a, link.b)]

    def ports(self) -> List[str]:
        """Ports of the switches, as their interfaces are named."""
        switches = {switch.name for switch in self.switches}
        return [interface(*end) for end in self.ends() if end[0] in switches]

    def to_hosts(self) -> List[Tuple[Tuple[str, int], str]]:
        """Ports of switches that lead to hosts, and the hosts."""
        hosts = {host.name for host in self.hosts}
        directions = [ends for link in self.links for ends in ((link.a, link.b), (link.b, link.a))]
        return [(here, there[0]) for here, there in directions if there[0] in hosts and here[0] not in hosts]

    def interfaces(self) -> List[str]:
        """Interfaces that will be made in the namespace that switches and links share."""
        if self.one_process:
            return [interface(*port) for port, _ in self.to_hosts()]
        return self.ports() + [far_interface(*end) for end in self.ends()]


def interface(node: str, port: int) -> str:
    """The tutorials' names: port N of s1 is s1-ethN."""
    return f"{node}-eth{port}"


def far_interface(node: str, port: int) -> str:
    """What the interface of a port is joined to: the end of the link that `weir link` emulates."""
    return f"_{interface(node, port)}"


# A host's only interface; the tutorials rename it too.
HOST_INTERFACE = "eth0"
