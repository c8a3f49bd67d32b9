"""The switches: simple_switch_grpc and the embedded one, which takes its command line, in a process each; or all embedded
ones in one process, which carries the links too."""

import dataclasses
import json
import os
import socket
import subprocess
import time
from typing import List

from mininet.log import error
from mininet.node import Switch as Node

from .plan import Plan, Problem, Switch, interface
from .processes import LOOPBACK, START_S, Part

# Of strerror(EADDRINUSE), which both switches print.
PORT_TAKEN = "Address already in use"
SHARED = "*** one process runs all switches; with --process-per-switch each of them can be stopped and started\n"


class SwitchNode(Node):
    """A P4 switch as Mininet sees it, in the namespace that all switches share. What runs it is a part of the fabric."""

    def __init__(self, name, **params):
        # A name need not end in a number, and nothing here has a use for OpenFlow's id.
        Node.__init__(self, name, dpid="1", inNamespace=False, **{k: v for k, v in params.items()
                                                                 if k not in ("inNamespace", "dpid")})
        # Its own process, if it has one: Mininet's `switch s1 stop` ends it, `start` starts it again.
        self.server = None

    def start(self, _controllers=()):
        if self.server:
            self.server.start()
        else:
            error(SHARED)

    def stop(self, deleteIntfs=True):
        """The interfaces are removed by the fabric, all at once."""
        if self.server:
            self.server.stop()
        else:
            error(SHARED)


class Server(Part):
    """A process that runs switches."""

    def __init__(self, plan: Plan, name: str, switches: List[Switch], command: List[str]):
        super().__init__(plan, name, switches[0].name, command)
        self.plan, self.switches = plan, switches

    def wait_until_ready(self) -> None:
        """Asks until its servers answer."""
        deadline = time.monotonic() + START_S
        for switch in self.switches:
            for port in self.servers(switch):
                while not answers(port):
                    # The tutorials' ports are among those that Linux gives to clients, for as long as they talk.
                    if self.process.poll() is not None and PORT_TAKEN in self.last_words():
                        time.sleep(0.1)
                        self.start()
                    else:
                        self.check()
                    if time.monotonic() > deadline:
                        raise Problem(f"{switch.name} does not listen on port {port} after {START_S:.0f} s"
                                      f"{self.last_words()}")
                    time.sleep(0.02)
        self.check()

    def servers(self, switch: Switch) -> List[int]:
        """Where a switch must answer. What the embedded switch is asked, it is asked by P4Runtime."""
        return [switch.grpc_port] + ([switch.thrift_port] if self.plan.switch == "bmv2" else [])


def servers(plan: Plan) -> List[Server]:
    """The processes of all switches."""
    if not plan.switches:
        return []
    if plan.one_process:
        return [Server(plan, "the process of the switches", plan.switches, fabric_command(plan))]
    notifies = plan.switch == "bmv2" and sends_notifications(plan.exe)
    return [Server(plan, switch.name, [switch], command(plan, switch, notifies)) for switch in plan.switches]


def sends_notifications(exe: str) -> bool:
    """Returns whether a build of BMv2 sends notifications: with nanomsg it does, and without it lacks the option."""
    said = subprocess.run([exe, "--help"], capture_output=True, text=True, timeout=START_S, check=False)
    return "--notifications-addr" in said.stdout + said.stderr


def fabric_command(plan: Plan) -> List[str]:
    """One process for all switches. Their servers' ports follow those of the first one."""
    path = os.path.join(plan.work, "plan.json")
    with open(path, "w", encoding="utf-8") as file:
        json.dump(dataclasses.asdict(plan), file)
    first = plan.switches[0]
    words = [plan.exe, "switch", "--plan", path,
             "--device-id", str(first.device_id), "--thrift-port", str(first.thrift_port)]
    if plan.pcaps:
        words.append(f"--pcap={plan.pcaps}")
    return words + ["--", "--grpc-server-addr", f"{LOOPBACK}:{first.grpc_port}"]


def command(plan: Plan, switch: Switch, notifies: bool) -> List[str]:
    """A process for one switch; `notifies`: it opens a socket for notifications."""
    ports = sorted(port for link in plan.links for node, port in (link.a, link.b) if node == switch.name)
    words = [plan.exe] + (["switch"] if plan.switch == "weir" else [])
    for port in ports:
        words += ["-i", f"{port}@{interface(switch.name, port)}"]
    words += ["--device-id", str(switch.device_id), "--thrift-port", str(switch.thrift_port)]
    if plan.pcaps:
        words.append(f"--pcap={plan.pcaps}")
    if plan.logs:
        words += ["--log-file", os.path.join(plan.logs, switch.name), "--log-flush"]
    if plan.switch == "weir":
        words += ["--thrift-addr", LOOPBACK] + switch.options
    elif notifies:
        # Its socket would else be left in /tmp, and meet that of another switch with the same device id.
        words += ["--notifications-addr", f"ipc://{plan.work}/{switch.name}.ipc"]
    words += [switch.program] if switch.program else ["--no-p4"]
    words += ["--", "--grpc-server-addr", f"{LOOPBACK}:{switch.grpc_port}"]
    if switch.cpu_port:
        words += ["--cpu-port", str(switch.cpu_port)]
    if switch.priorities > 1:
        words += ["--priority-queues", str(switch.priorities)]
    return words


def answers(port: int) -> bool:
    """Returns whether something listens. Where nothing does, Linux may choose the port itself as the client's, and the
    connection is one with itself."""
    try:
        with socket.create_connection((LOOPBACK, port), 1.0) as connection:
            return connection.getsockname() != connection.getpeername()
    except OSError:
        return False
