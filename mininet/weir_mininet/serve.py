"""Executes requests of `weir`. Requests and replies are lines of JSON on two separate file descriptors, so that the
terminal is free for Mininet's CLI.

If either process ends, the other one notices: `weir` sees the end of the stream and cleans up, this process removes the
fabric.
"""

import json
import os
import signal
import sys
from typing import Dict

from . import emulator, jobs, ownership
from .command_line import CommandLine
from .fabric import Fabric
from .plan import Plan, SetupError


class Shutdown(Exception):
    """Ends the session: a signal arrived, or `weir` has closed the stream of requests."""


class Session:
    def __init__(self, requests: int, replies: int):
        for fd in (requests, replies):
            os.set_inheritable(fd, False)
        self.requests, self.replies = requests, replies
        self.unread = b""  # the part of the next request that has arrived
        self.fabric = None

    def receive(self) -> Dict:
        """Returns the next request. Raises Shutdown at the end of the stream."""
        while b"\n" not in self.unread:
            chunk = os.read(self.requests, 1 << 16)
            if not chunk:
                raise Shutdown()
            self.unread += chunk
        line, self.unread = self.unread.split(b"\n", 1)
        return json.loads(line)

    def send(self, **reply) -> None:
        data = json.dumps(reply).encode() + b"\n"
        while data:
            data = data[os.write(self.replies, data):]

    def serve(self) -> None:
        """Executes requests until `stop`."""
        while True:
            request = self.receive()
            task = request.pop("do")
            if task == "stop":
                return
            try:
                self.send(ok=getattr(self, f"do_{task}")(**request))
            except SetupError as error:
                self.send(error=str(error))

    def do_up(self, plan):
        ownership.cleanup()
        self.fabric = Fabric(Plan.read(plan))
        self.fabric.start()

    def do_down(self):
        fabric, self.fabric = self.fabric, None
        fabric.stop()

    def do_ping(self, payload, count, wait_s):
        return jobs.ping_all(self.fabric, payload, count, wait_s)

    def do_ping_alone(self, pairs, payload, count, wait_s):
        return jobs.ping_alone(self.fabric, pairs, payload, count, wait_s)

    def do_run(self, agents):
        return jobs.run_agents(self.fabric, agents, self.receive_interrupt, self.requests,
                               lambda start: self.send(started=start))

    def receive_interrupt(self) -> bool:
        """Returns whether the next request is `interrupt`."""
        return self.receive()["do"] == "interrupt"

    def do_packets(self):
        return self.fabric.packets()

    def do_link_drops(self):
        return emulator.drops(self.fabric.plan)

    def do_interrupt(self):
        """Does nothing: the run ended before the request arrived."""

    def do_cli(self, topology):
        signal.signal(signal.SIGINT, signal.default_int_handler)
        try:
            CommandLine(self.fabric, topology)
        finally:
            signal.signal(signal.SIGINT, signal.SIG_IGN)


def serve(requests: int, replies: int) -> int:
    def shut_down(*_):
        raise Shutdown()

    # Ctrl-C reaches all foreground processes; `weir` handles it and sends a request.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, shut_down)
    session = Session(requests, replies)
    try:
        lock = ownership.acquire_lock()
    except SetupError as error:
        # The error is the reply to the first request.
        session.receive()
        session.send(error=str(error))
        return 1
    try:
        session.serve()
        return 0
    except (Shutdown, BrokenPipeError):
        return 1
    finally:
        # A second signal must not interrupt the removal of the fabric.
        for number in (signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)
        if session.fabric:
            session.fabric.stop()
        lock.close()


def clean() -> int:
    """Cleans up after a killed run, and prints the number of removed processes and interfaces. Fails if a run is active."""
    try:
        lock = ownership.acquire_lock()
        removed = ownership.cleanup()
    except SetupError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    lock.close()
    print(removed)
    return 0
