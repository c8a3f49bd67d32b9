"""A fabric from a plan, in Mininet's own objects, so that Mininet's CLI works on it."""

import subprocess
from typing import Dict, List

from mininet.link import Intf
from mininet.net import Mininet
from mininet.node import Host as HostNode

from . import links, ours
from .plan import HOST_INTERFACE, Plan, Problem, interface
from .emulator import Emulator
from .switches import SwitchNode, answers


class Port(Intf):
    """An interface that is configured already."""

    def config(self, **_params):
        return {}


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
        self.emulator = None
        self.hosts: Dict[str, HostNode] = {}
        self.switches: List[SwitchNode] = []

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
            node = self.net.addSwitch(switch.name, cls=SwitchNode, plan=plan, switch=switch)
            self.switches.append(node)
        pids = {name: host.pid for name, host in self.hosts.items()}
        links.lay(plan, pids)
        for name, pid in pids.items():
            links.settle_host(plan, name, pid)
        for link in plan.links:
            self.net.links.append(Cable(self.port(*link.a), self.port(*link.b)))
        self.net.built = True
        self.emulator = Emulator(plan)
        self.emulator.wait_until_ready()
        for switch in self.switches:
            switch.start()
        for switch in self.switches:
            switch.wait_until_ready()
        for host in plan.hosts:
            for command in host.commands:
                self.run_command(host.name, command)

    def port(self, node: str, number: int) -> Port:
        """Tells Mininet of an interface that is there."""
        name = HOST_INTERFACE if node in self.hosts else interface(node, number)
        port = Port(name, self.net[node], port=number, moveIntfFn=lambda *_: None)
        if node in self.hosts:
            host = next(host for host in self.plan.hosts if host.name == node)
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
        self.emulator.check()
        for switch in self.switches:
            switch.check()

    def packets(self) -> Dict[str, Dict[str, int]]:
        """What the interfaces of the switches have received and sent since they were made."""
        counts = {}
        for name in self.plan.ports():
            files = {key: f"/sys/class/net/{name}/statistics/{key}" for key in ("rx_packets", "tx_packets", "tx_dropped")}
            counts[name] = {}
            for key, path in files.items():
                with open(path, encoding="ascii") as file:
                    counts[name][key] = int(file.read())
        return counts

    def stop(self) -> None:
        """Takes everything down, whatever state it is in."""
        for switch in self.switches:
            switch.stop()
        for switch in self.switches:
            switch.wait_until_gone()
        if self.emulator:
            self.emulator.stop()
        # The hosts' namespaces go with their shells, their links with the namespaces.
        for node in [*self.hosts.values(), *self.switches]:
            node.terminate()
        ours.sweep()
