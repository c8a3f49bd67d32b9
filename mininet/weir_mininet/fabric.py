"""A fabric from a plan, in Mininet's own objects, so that Mininet's CLI works on it."""

import subprocess
from typing import Dict, List, Optional

from mininet.link import Intf
from mininet.net import Mininet
from mininet.node import Host as HostNode

from . import emulator, links, ours
from .plan import HOST_INTERFACE, Plan, Problem, interface
from .processes import Part
from .switches import SwitchNode, answers, servers


class Port(Intf):
    """An interface that is configured already."""

    def config(self, **_params):
        return {}


class InnerPort(Port):
    """A port on a link between two switches of one process: there is no interface."""

    def __init__(self, name, node, weir: str, link: str, **params):
        self.weir, self.of_link = weir, link
        super().__init__(name, node, **params)

    def status(self):
        return "OK"

    def ifconfig(self, *args):
        """Mininet's `link s1 s2 down` and `up`; anything else there is nothing to do it with."""
        if args not in (("up",), ("down",)):
            return f"{self.name} is no interface: one process runs all switches\n"
        done = subprocess.run([self.weir, "link", "set", "--quiet", self.of_link, f"--{args[0]}"],
                              capture_output=True, text=True, stdin=subprocess.DEVNULL)
        return done.stderr


class Cable:
    """A link for Mininet's list; it is made and removed with all others."""

    def __init__(self, intf1, intf2):
        self.intf1, self.intf2 = intf1, intf2
        intf1.link = intf2.link = self

    def stop(self):
        """Nothing left to do."""

    def status(self):
        return f"({self.intf1.status()} {self.intf2.status()})"

    def __str__(self):
        return f"{self.intf1}<->{self.intf2}"


class Fabric:
    """Comes up whole or not at all, and is gone after `stop`."""

    def __init__(self, plan: Plan):
        self.plan = plan
        self.net = None
        self.hosts: Dict[str, HostNode] = {}
        self.switches: List[SwitchNode] = []
        # The processes that the fabric consists of, in the order in which they are stopped.
        self.parts: List[Part] = []

    def start(self) -> None:
        plan = self.plan
        taken = ours.interfaces()
        for name in plan.interfaces():
            if name in taken:
                raise Problem(f"there is an interface {name} already, and it is not ours: is another Mininet running? "
                              "`sudo mn -c` removes what is left of one")
        for switch in plan.switches:
            for port in (switch.grpc_port, switch.thrift_port):
                if answers(port):
                    raise Problem(f"port {port}, for {switch.name}, is in use already")
        # Mininet would raise limits of the whole machine; we need none, and leave things as they are.
        Mininet.inited = True
        self.net = Mininet(build=False, controller=None, waitConnected=False)
        for host in plan.hosts:
            self.hosts[host.name] = self.net.addHost(host.name, cls=HostNode, ip=None, mac=None)
        for switch in plan.switches:
            self.switches.append(self.net.addSwitch(switch.name, cls=SwitchNode))
        pids = {name: host.pid for name, host in self.hosts.items()}
        links.lay(plan, pids)
        for name, pid in pids.items():
            links.settle_host(plan, name, pid)
        for link in plan.links:
            is_inner = plan.one_process and not {link.a[0], link.b[0]} & set(self.hosts)
            ends = [self.port(*end, inner_link=link.name if is_inner else None) for end in (link.a, link.b)]
            self.net.links.append(Cable(*ends))
        self.net.built = True
        if not plan.one_process:
            self.parts.append(emulator.Emulator(plan))
            self.parts[0].start()
        processes = servers(plan)
        self.parts = processes + self.parts
        if not plan.one_process:
            for switch, process in zip(self.switches, processes):
                switch.server = process
        for process in processes:
            process.start()
        for process in processes:
            process.wait_until_ready()
        for host in plan.hosts:
            for command in host.commands:
                self.run_command(host.name, command)

    def port(self, node: str, number: int, inner_link: Optional[str]) -> Port:
        """Tells Mininet of an interface that is there, or of a port on a link that has none."""
        name = HOST_INTERFACE if node in self.hosts else interface(node, number)
        about = {"port": number, "moveIntfFn": lambda *_: None}
        if inner_link:
            return InnerPort(name, self.net[node], self.plan.weir, inner_link, **about)
        port = Port(name, self.net[node], **about)
        if node in self.hosts:
            host = next(host for host in self.plan.hosts if host.name == node)
            if host.ip:
                port.ip, port.prefixLen = host.ip.split("/")
            port.mac = host.mac
        return port

    def run_command(self, host: str, command: str) -> None:
        """A command of the tutorials' topology.json."""
        done = subprocess.run([*links.enter(self.hosts[host].pid), "sh", "-c", command],
                              capture_output=True, text=True, stdin=subprocess.DEVNULL)
        if done.returncode != 0:
            raise Problem(f"{host}: \"{command}\" ended with status {done.returncode}: {done.stderr.strip()}")

    def check(self) -> None:
        """Raises if a switch or the links have ended."""
        for part in self.parts:
            part.check()

    def packets(self) -> Dict[str, Dict[str, int]]:
        """What the ports of the switches have received and sent since they were made."""
        if self.plan.one_process:
            return self.packets_on_links()
        counts = {}
        for name in self.plan.ports():
            files = {key: f"/sys/class/net/{name}/statistics/{key}" for key in ("rx_packets", "tx_packets", "tx_dropped")}
            counts[name] = {}
            for key, path in files.items():
                with open(path, encoding="ascii") as file:
                    counts[name][key] = int(file.read())
        return counts

    def packets_on_links(self) -> Dict[str, Dict[str, int]]:
        """The same by the process that carries the links, which counts what it loses there (`emulator.drops`)."""
        switches = {switch.name for switch in self.plan.switches}
        counts = {}
        for link, seen in zip(self.plan.links, emulator.links(self.plan)):
            for end, sent, received in ((link.a, *seen["directions"]), (link.b, *reversed(seen["directions"]))):
                if end[0] in switches:
                    counts[interface(*end)] = {"rx_packets": received["delivered"], "tx_packets": sent["offered"],
                                               "tx_dropped": 0}
        return counts

    def stop(self) -> None:
        """Takes everything down, whatever state it is in."""
        for part in self.parts:
            part.stop()
        for part in self.parts:
            part.wait_until_gone()
        # The hosts' namespaces go with their shells, their links with the namespaces.
        for node in [*self.hosts.values(), *self.switches]:
            node.terminate()
        ours.sweep()
