"""A switch process on its own veth pairs, and the far ends of these pairs."""

import itertools
import os
import select
import signal
import socket
import struct
import subprocess
import sys
import time

from control import P4Runtime, Thrift

TIMEOUT_S = 20
START_TIMEOUT_S = 20
POLL_S = 0.01
ETH_P_ALL, SOL_PACKET, PACKET_IGNORE_OUTGOING = 3, 263, 23
SO_RCVBUFFORCE, SO_TIMESTAMPNS, RECEIVE_BUFFER = 33, 35, 1 << 24
TIMESPEC = struct.Struct("qq")
SIDE_IDS = itertools.count(1)
FIRST_THRIFT_PORT, FIRST_GRPC_PORT = 20_000, 30_000


class Difference(Exception):
    """The switches behave differently, or not as expected."""


def require(condition, what):
    if not condition:
        raise Difference(what)


def enter_namespace():
    """Runs the program again in new network and PID namespaces. All switches end with it."""
    if "WEIR_LIVE_NAMESPACE" not in os.environ:
        os.environ["WEIR_LIVE_NAMESPACE"] = "1"
        os.execvp("unshare", ["unshare", "--net", "--pid", "--fork", "--kill-child", sys.executable, *sys.argv])
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)


def real_time():
    """Returns a command prefix for real-time scheduling, as in Mininet runs; empty if it is not permitted."""
    prefix = ["chrt", "--rr", "1"]
    return prefix if subprocess.run([*prefix, "true"], capture_output=True).returncode == 0 else []


class Side:
    """A switch with `ports`, started when the block is entered. `frames` has the frames that it sends: (port, frame, ns)."""

    def __init__(self, command, info, program, ports, loads=False):
        """The switch gets its program by P4Runtime, or, if `loads` is true, from its command line."""
        self.number = next(SIDE_IDS)
        self.info, self.program, self.ports, self.loads = info, program, ports, loads
        self.thrift_port, self.grpc_port = FIRST_THRIFT_PORT + self.number, FIRST_GRPC_PORT + self.number
        self.command = [*command, *(word for port in ports for word in ("-i", f"{port}@s{self.number}p{port}"))]
        self.command += ["--device-id", "0", "--thrift-port", str(self.thrift_port), "--log-level", "off"]
        self.command += [str(program)] if loads else ["--no-p4"]
        self.command += ["--", "--grpc-server-addr", f"127.0.0.1:{self.grpc_port}", "--priority-queues", "8"]
        self.frames, self.clients = [], []

    def __enter__(self):
        self.create_links()
        self.process = subprocess.Popen(self.command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        try:
            self.wait_for(self.thrift_port)
            if not self.loads:
                self.wait_for(self.grpc_port)
                self.p4runtime = self.client(P4Runtime(self.grpc_port, self.info, self.program))
            self.thrift = self.client(Thrift(self.thrift_port, self.info))
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        for client in self.clients:
            client.close()
        self.process.kill()
        self.process.communicate()
        for end in self.ends.values():
            end.close()
        # Deleting one end of a veth pair deletes the other.
        subprocess.run(["ip", "-batch", "-"], input="".join(f"link del h{self.number}p{port}\n" for port in self.ports), text=True)

    def client(self, client):
        self.clients.append(client)
        return client

    def create_links(self):
        lines, ends = [], []
        for port in self.ports:
            pair = f"s{self.number}p{port}", f"h{self.number}p{port}"
            lines.append(f"link add {pair[0]} type veth peer name {pair[1]}")
            lines += [f"link set {end} addrgenmode none up" for end in pair]
            ends += pair
        subprocess.run(["ip", "-batch", "-"], input="\n".join(lines) + "\n", text=True, check=True)
        for end in ends:
            # With segmentation offload, libpcap's ring has few slots for long frames.
            subprocess.run(["ethtool", "-K", end, "tso", "off", "gso", "off", "gro", "off"], check=True, capture_output=True)
        self.ends = {port: self.open_socket(f"h{self.number}p{port}") for port in self.ports}
        self.poll = select.poll()
        for end in self.ends.values():
            self.poll.register(end, select.POLLIN)

    def open_socket(self, interface):
        end = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
        end.setsockopt(SOL_PACKET, PACKET_IGNORE_OUTGOING, 1)
        end.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, RECEIVE_BUFFER)
        end.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
        end.bind((interface, ETH_P_ALL))
        end.setblocking(False)
        return end

    def wait_for(self, port):
        deadline = time.monotonic() + START_TIMEOUT_S
        while True:
            try:
                return socket.create_connection(("127.0.0.1", port), 1).close()
            except OSError:
                if self.process.poll() is not None or time.monotonic() > deadline:
                    raise Difference(f"{' '.join(self.command)} does not start") from None
                time.sleep(POLL_S)

    def send(self, port, *frames):
        for frame in frames:
            self.ends[port].send(frame)

    def receive(self, seconds=0.0):
        """Moves received frames to `frames`; waits for at most `seconds` if there are none."""
        self.poll.poll(seconds * 1000)
        for port, end in self.ends.items():
            try:
                while True:
                    frame, ancillary, _, _ = end.recvmsg(2048, 64)
                    seconds, nanoseconds = TIMESPEC.unpack(ancillary[0][2])
                    self.frames.append((port, frame, seconds * 1_000_000_000 + nanoseconds))
            except BlockingIOError:
                pass

    def wait(self, count, what="frames"):
        """Waits until `count` frames have arrived since the last call, and returns them."""
        deadline = time.monotonic() + TIMEOUT_S
        while len(self.frames) < count:
            require(self.process.poll() is None, "the switch has ended")
            require(time.monotonic() < deadline, f"{len(self.frames)} of {count} {what} arrived")
            self.receive(POLL_S)
        received, self.frames = self.frames, []
        return received

    def stop(self):
        self.process.send_signal(signal.SIGSTOP)

    def resume(self):
        self.process.send_signal(signal.SIGCONT)
