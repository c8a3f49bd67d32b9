"""The processes of the switches: simple_switch_grpc or Weir's switch, which has the same command line, with one process per
switch; or one process that runs all of Weir's switches and emulates the links."""

import dataclasses
import json
import os
import socket
import subprocess
import time
from typing import List

from mininet.log import error
from mininet.node import Switch as Node

from .plan import Plan, SetupError, Switch, interface
from .processes import LOOPBACK, START_TIMEOUT_S, ManagedProcess

# The text of strerror(EADDRINUSE), which both switches print.
PORT_IN_USE = "Address already in use"
SHARED_PROCESS = "*** one process runs all switches; with --process-per-switch each of them can be stopped and started\n"


class SwitchNode(Node):
    """Mininet's node of a P4 switch, in the namespace that all switches share. The fabric manages the switch's process."""

    def __init__(self, name, **params):
        # Without a dpid, Mininet would derive one from digits in the name. P4 switches have no OpenFlow id.
        Node.__init__(self, name, dpid="1", inNamespace=False, **{k: v for k, v in params.items()
                                                                 if k not in ("inNamespace", "dpid")})
        # The process of this switch; None if one process runs all switches. Used by Mininet's `switch s1 stop` and `start`.
        self.server = None

    def start(self, _controllers=()):
        if self.server:
            self.server.start()
        else:
            error(SHARED_PROCESS)

    def stop(self, deleteIntfs=True):
        """Stops the process. The fabric removes the interfaces of all switches together."""
        if self.server:
            self.server.stop()
        else:
            error(SHARED_PROCESS)


class Server(ManagedProcess):
    """A process that runs one or all switches."""

    def __init__(self, plan: Plan, name: str, switches: List[Switch], command: List[str]):
        super().__init__(plan, name, switches[0].name, command)
        self.plan, self.switches = plan, switches

    def wait_until_ready(self) -> None:
        """Waits until the gRPC and Thrift servers listen."""
        deadline = time.monotonic() + START_TIMEOUT_S
        for switch in self.switches:
            for port in self.server_ports(switch):
                while not is_listening(port):
                    # The ports of the p4 tutorials are in Linux's ephemeral range, so a client may use one for a short time.
                    if self.process.poll() is not None and PORT_IN_USE in self.stderr_tail():
                        time.sleep(0.1)
                        self.start()
                    else:
                        self.check()
                    if time.monotonic() > deadline:
                        raise SetupError(f"{switch.name} does not listen on port {port} after {START_TIMEOUT_S:.0f} s"
                                         f"{self.stderr_tail()}")
                    time.sleep(0.02)
        self.check()

    def server_ports(self, switch: Switch) -> List[int]:
        """Returns the ports on which a switch must listen before the run starts. Runs use Thrift only for BMv2."""
        return [switch.grpc_port] + ([switch.thrift_port] if self.plan.switch == "bmv2" else [])


def servers(plan: Plan) -> List[Server]:
    """Returns the processes of all switches."""
    if not plan.switches:
        return []
    if plan.one_process:
        return [Server(plan, "the process of the switches", plan.switches, fabric_command(plan))]
    notifies = plan.switch == "weir" or sends_notifications(plan.exe)
    return [Server(plan, switch.name, [switch], command(plan, switch, notifies)) for switch in plan.switches]


def sends_notifications(exe: str) -> bool:
    """Returns whether this build of BMv2 supports notifications. Builds without nanomsg lack the option."""
    result = subprocess.run([exe, "--help"], capture_output=True, text=True, timeout=START_TIMEOUT_S, check=False)
    return "--notifications-addr" in result.stdout + result.stderr


def fabric_command(plan: Plan) -> List[str]:
    """Returns the command of the process for all switches. Their ports follow those of the first switch."""
    path = os.path.join(plan.work, "plan.json")
    with open(path, "w", encoding="utf-8") as file:
        json.dump(dataclasses.asdict(plan), file)
    first = plan.switches[0]
    arguments = [plan.exe, "switch", "--plan", path,
                 "--device-id", str(first.device_id), "--thrift-port", str(first.thrift_port)]
    if plan.pcaps:
        arguments.append(f"--pcap={plan.pcaps}")
    return arguments + ["--", "--grpc-server-addr", f"{LOOPBACK}:{first.grpc_port}"]


def command(plan: Plan, switch: Switch, notifies: bool) -> List[str]:
    """Returns the command of the process for one switch. `notifies`: it opens a socket for notifications."""
    ports = sorted(port for link in plan.links for node, port in (link.a, link.b) if node == switch.name)
    arguments = [plan.exe] + (["switch"] if plan.switch == "weir" else [])
    for port in ports:
        arguments += ["-i", f"{port}@{interface(switch.name, port)}"]
    arguments += ["--device-id", str(switch.device_id), "--thrift-port", str(switch.thrift_port)]
    if plan.pcaps:
        arguments.append(f"--pcap={plan.pcaps}")
    if plan.logs:
        arguments += ["--log-file", os.path.join(plan.logs, switch.name), "--log-flush"]
    if plan.switch == "weir":
        arguments += ["--thrift-addr", LOOPBACK] + switch.options
    if notifies:
        # The default is a socket in /tmp, which is not removed and may conflict with another switch of the same device id.
        arguments += ["--notifications-addr", f"ipc://{plan.work}/{switch.name}.ipc"]
    arguments += [switch.program] if switch.program else ["--no-p4"]
    arguments += ["--", "--grpc-server-addr", f"{LOOPBACK}:{switch.grpc_port}"]
    if switch.cpu_port:
        arguments += ["--cpu-port", str(switch.cpu_port)]
    if switch.priorities > 1:
        arguments += ["--priority-queues", str(switch.priorities)]
    return arguments


def is_listening(port: int) -> bool:
    """Returns whether a process listens on this port of the loopback interface."""
    try:
        with socket.create_connection((LOOPBACK, port), 1.0) as connection:
            # If no process listens, Linux may choose the port itself as the source port, and the socket connects to itself
            # (TCP simultaneous open).
            return connection.getsockname() != connection.getpeername()
    except OSError:
        return False
