"""Creates a fabric from a plan as a Mininet network, so that Mininet's CLI can be used."""

import subprocess
from typing import Dict, List, Optional

from mininet.link import Intf
from mininet.net import Mininet
from mininet.node import Host as HostNode

from . import emulator, links, ownership
from .plan import HOST_INTERFACE, Plan, SetupError, interface
from .processes import ManagedProcess
from .switches import SwitchNode, is_listening, servers


class Port(Intf):
    """An existing, configured interface."""

    def config(self, **_params):
        return {}


class VirtualPort(Port):
    """A port on a link between two switches of the same process, which has no interface."""

    def __init__(self, name, node, weir: str, link: str, **params):
        self.weir, self.link_name = weir, link
        super().__init__(name, node, **params)

    def status(self):
        return "OK"

    def ifconfig(self, *args):
        """Implements Mininet's `link s1 s2 down` and `up`, and returns an error message or an empty string."""
        if args not in (("up",), ("down",)):
            return f"{self.name} has no interface: one process runs all switches\n"
        result = subprocess.run([self.weir, "link", "set", "--quiet", self.link_name, f"--{args[0]}"],
                                capture_output=True, text=True, stdin=subprocess.DEVNULL)
        return result.stderr


class LinkStub:
    """An entry of Mininet's list of links. The fabric creates and removes the interfaces of all links together."""

    def __init__(self, intf1, intf2):
        self.intf1, self.intf2 = intf1, intf2
        intf1.link = intf2.link = self

    def stop(self):
        """Does nothing: the fabric removes all links."""

    def status(self):
        return f"({self.intf1.status()} {self.intf2.status()})"

    def __str__(self):
        return f"{self.intf1}<->{self.intf2}"


class Fabric:
    """The hosts, switches and links of a plan. If `start` fails, `stop` removes what it has created."""

    def __init__(self, plan: Plan):
        self.plan = plan
        self.net = None
        self.hosts: Dict[str, HostNode] = {}
        self.switches: List[SwitchNode] = []
        # Processes of switches and links, in the order in which they are stopped.
        self.processes: List[ManagedProcess] = []

    def start(self) -> None:
        plan = self.plan
        # Interfaces of an earlier run of Weir were removed before.
        existing = ownership.interfaces()
        for name in plan.interfaces():
            if name in existing:
                raise SetupError(f"interface {name} already exists and was not created by Weir; if an old Mininet left it, "
                                 "run `sudo mn -c`")
        for switch in plan.switches:
            for port in (switch.grpc_port, switch.thrift_port):
                if is_listening(port):
                    raise SetupError(f"port {port} of {switch.name} is in use by another process")
        # Skip Mininet.init, which raises limits of the whole machine (sysctl, ulimit); Weir does not need them.
        Mininet.inited = True
        self.net = Mininet(build=False, controller=None, waitConnected=False)
        for host in plan.hosts:
            self.hosts[host.name] = self.net.addHost(host.name, cls=HostNode, ip=None, mac=None)
        for switch in plan.switches:
            self.switches.append(self.net.addSwitch(switch.name, cls=SwitchNode))
        pids = {name: host.pid for name, host in self.hosts.items()}
        links.create_links(plan, pids)
        for name, pid in pids.items():
            links.configure_host(plan, name, pid)
        for link in plan.links:
            is_virtual = plan.one_process and not {link.a[0], link.b[0]} & set(self.hosts)
            ends = [self.add_port(*end, virtual_link=link.name if is_virtual else None) for end in (link.a, link.b)]
            self.net.links.append(LinkStub(*ends))
        self.net.built = True
        if not plan.one_process:
            self.processes.append(emulator.Emulator(plan))
            self.processes[0].start()
        switch_processes = servers(plan)
        self.processes = switch_processes + self.processes
        if not plan.one_process:
            for switch, process in zip(self.switches, switch_processes):
                switch.server = process
        for process in switch_processes:
            process.start()
        for process in switch_processes:
            process.wait_until_ready()
        for host in plan.hosts:
            for command in host.commands:
                self.run_command(host.name, command)

    def add_port(self, node: str, number: int, virtual_link: Optional[str]) -> Port:
        """Adds an existing interface to Mininet's node; with `virtual_link`, a port without an interface on this link."""
        name = HOST_INTERFACE if node in self.hosts else interface(node, number)
        # The interface is in the namespace of its node already, so Mininet must not move it.
        params = {"port": number, "moveIntfFn": lambda *_: None}
        if virtual_link:
            return VirtualPort(name, self.net[node], self.plan.weir, virtual_link, **params)
        port = Port(name, self.net[node], **params)
        if node in self.hosts:
            host = next(host for host in self.plan.hosts if host.name == node)
            if host.ip:
                port.ip, port.prefixLen = host.ip.split("/")
            port.mac = host.mac
        return port

    def run_command(self, host: str, command: str) -> None:
        """Runs one of a host's `commands` in the topology.json of the p4 tutorials."""
        result = subprocess.run([*links.in_namespace(self.hosts[host].pid), "sh", "-c", command],
                                capture_output=True, text=True, stdin=subprocess.DEVNULL)
        if result.returncode != 0:
            raise SetupError(f"{host}: \"{command}\" exited with status {result.returncode}: {result.stderr.strip()}")

    def check(self) -> None:
        """Raises SetupError if the process of a switch or the link emulator has ended."""
        for process in self.processes:
            process.check()

    def packets(self) -> Dict[str, Dict[str, int]]:
        """Returns the packet counters of the switches' ports since the start of the fabric."""
        if self.plan.one_process:
            return self.emulator_packets()
        counts = {}
        for name in self.plan.ports():
            files = {key: f"/sys/class/net/{name}/statistics/{key}" for key in ("rx_packets", "tx_packets", "tx_dropped")}
            counts[name] = {}
            for key, path in files.items():
                with open(path, encoding="ascii") as file:
                    counts[name][key] = int(file.read())
        return counts

    def emulator_packets(self) -> Dict[str, Dict[str, int]]:
        """Returns the same counters from the link emulator. `tx_dropped` is 0, because `emulator.drops` counts its drops."""
        switches = {switch.name for switch in self.plan.switches}
        counts = {}
        for link, state in zip(self.plan.links, emulator.links(self.plan)):
            directions = state["directions"]
            for end, sent, received in ((link.a, *directions), (link.b, *reversed(directions))):
                if end[0] in switches:
                    counts[interface(*end)] = {"rx_packets": received["delivered"], "tx_packets": sent["offered"],
                                               "tx_dropped": 0}
        return counts

    def stop(self) -> None:
        """Removes the fabric in any state, for example after a failed `start`."""
        for process in self.processes:
            process.stop()
        for process in self.processes:
            process.wait_until_exited()
        # The kernel removes the namespace of a host with its shell, and the host's interfaces with the namespace.
        for node in [*self.hosts.values(), *self.switches]:
            node.terminate()
        ownership.cleanup()
