"""The two switches, as nodes of Mininet: simple_switch_grpc and the embedded one, which takes its command line."""

import os
import signal
import socket
import subprocess
import time
from typing import List

from mininet.node import Switch as Node

from .plan import Plan, Problem, Switch, interface
from .processes import LAST_WORDS, LOOPBACK, START_S, STOP_S, punctual, tethered

# Of strerror(EADDRINUSE), which both switches print.
PORT_TAKEN = "Address already in use"


class SwitchNode(Node):
    """A P4 switch in the namespace that all switches share."""

    def __init__(self, name, plan: Plan, switch: Switch, **params):
        # A name need not end in a number, and nothing here has a use for OpenFlow's id.
        Node.__init__(self, name, dpid="1", inNamespace=False, **{k: v for k, v in params.items()
                                                                 if k not in ("inNamespace", "dpid")})
        self.plan, self.switch = plan, switch
        self.process = None
        self.words = os.path.join(plan.work, f"{name}.err")

    def command(self) -> List[str]:
        plan, switch = self.plan, self.switch
        ports = sorted(port for link in plan.links for node, port in (link.a, link.b) if node == switch.name)
        command = [plan.exe] + (["switch"] if plan.switch == "weir" else [])
        for port in ports:
            command += ["-i", f"{port}@{interface(switch.name, port)}"]
        command += ["--device-id", str(switch.device_id), "--thrift-port", str(switch.thrift_port)]
        if plan.pcaps:
            command.append(f"--pcap={plan.pcaps}")
        if plan.logs:
            command += ["--log-file", os.path.join(plan.logs, switch.name), "--log-flush"]
        if plan.switch == "weir":
            command += ["--thrift-addr", LOOPBACK] + switch.options
        else:
            # Its socket would else be left in /tmp, and meet that of another switch with the same device id.
            command += ["--notifications-addr", f"ipc://{plan.work}/{switch.name}.ipc"]
        command += [switch.program] if switch.program else ["--no-p4"]
        command += ["--", "--grpc-server-addr", f"{LOOPBACK}:{switch.grpc_port}"]
        if switch.cpu_port:
            command += ["--cpu-port", str(switch.cpu_port)]
        if switch.priorities > 1:
            command += ["--priority-queues", str(switch.priorities)]
        return command

    def start(self, _controllers=()):
        with open(self.words, "wb") as words:
            self.process = subprocess.Popen(tethered(punctual() + self.command()), stdin=subprocess.DEVNULL,
                                            stdout=words, stderr=words, start_new_session=True)

    def wait_until_ready(self) -> None:
        """Asks until its servers answer."""
        deadline = time.monotonic() + START_S
        for port in self.servers():
            while not answers(port):
                # The tutorials' ports are among those that Linux gives to clients, for as long as they talk.
                if self.process.poll() is not None and PORT_TAKEN in self.last_words():
                    time.sleep(0.1)
                    self.start()
                else:
                    self.check()
                if time.monotonic() > deadline:
                    raise Problem(f"{self.name} does not listen on port {port} after {START_S:.0f} s{self.last_words()}")
                time.sleep(0.02)
        self.check()

    def servers(self) -> List[int]:
        """Where it must answer. What the embedded switch is asked, it is asked by P4Runtime."""
        return [self.switch.grpc_port] + ([self.switch.thrift_port] if self.plan.switch == "bmv2" else [])

    def check(self) -> None:
        """Raises if the switch has ended."""
        status = self.process.poll()
        if status is not None:
            raise Problem(f"{self.name} ended with status {status}{self.last_words()}")

    def last_words(self) -> str:
        with open(self.words, "rb") as words:
            said = words.read()[-LAST_WORDS:].decode(errors="replace").strip()
        return f": {said}" if said else ""

    def stop(self, deleteIntfs=True):
        """The interfaces are removed by the fabric, all at once."""
        if self.process and self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)

    def wait_until_gone(self) -> None:
        if not self.process:
            return
        try:
            self.process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


def answers(port: int) -> bool:
    """Returns whether something listens. Where nothing does, Linux may choose the port itself as the client's, and the
    connection is one with itself."""
    try:
        with socket.create_connection((LOOPBACK, port), 1.0) as connection:
            return connection.getsockname() != connection.getpeername()
    except OSError:
        return False
