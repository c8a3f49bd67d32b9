"""The conversation with `weir`: a line of JSON each way, on two file descriptors of their own, so that the
terminal stays free for Mininet's CLI.

Whichever side ends, the other notices at once: `weir` sees the end of the stream and sweeps, we see it and
take the fabric down.
"""

import json
import os
import signal
import sys
from typing import Dict

from . import emulator, jobs, ours
from .command_line import CommandLine
from .fabric import Fabric
from .plan import Plan, Problem


class Told(Exception):
    """Told to end, by a signal or by the other side's end."""


class Conversation:
    def __init__(self, requests: int, replies: int):
        for fd in (requests, replies):
            os.set_inheritable(fd, False)
        self.requests, self.replies = requests, replies
        self.unread = b""
        self.fabric = None

    def listen(self) -> Dict:
        """The next request; raises when there will be none."""
        while b"\n" not in self.unread:
            more = os.read(self.requests, 1 << 16)
            if not more:
                raise Told()
            self.unread += more
        line, self.unread = self.unread.split(b"\n", 1)
        return json.loads(line)

    def say(self, **words) -> None:
        data = json.dumps(words).encode() + b"\n"
        while data:
            data = data[os.write(self.replies, data):]

    def serve(self) -> None:
        """Answers until told to stop."""
        while True:
            request = self.listen()
            task = request.pop("do")
            if task == "stop":
                return
            try:
                self.say(ok=getattr(self, f"do_{task}")(**request))
            except Problem as problem:
                self.say(error=str(problem))

    def do_up(self, plan):
        ours.sweep()
        self.fabric = Fabric(Plan.read(plan))
        self.fabric.start()

    def do_down(self):
        fabric, self.fabric = self.fabric, None
        fabric.stop()

    def do_ping(self, payload, count, wait_s):
        return jobs.ping_all(self.fabric, payload, count, wait_s)

    def do_run(self, agents):
        return jobs.run_agents(self.fabric, agents, self.told_to_interrupt, self.requests,
                               lambda start: self.say(started=start))

    def told_to_interrupt(self) -> bool:
        return self.listen()["do"] == "interrupt"

    def do_packets(self):
        return self.fabric.packets()

    def do_link_drops(self):
        return emulator.drops(self.fabric.plan)

    def do_interrupt(self):
        """There is nothing to interrupt any more."""

    def do_cli(self, topology):
        signal.signal(signal.SIGINT, signal.default_int_handler)
        try:
            CommandLine(self.fabric, topology)
        finally:
            signal.signal(signal.SIGINT, signal.SIG_IGN)


def serve(requests: int, replies: int) -> int:
    def told(*_):
        raise Told()

    # Ctrl-C reaches the whole foreground; `weir` decides what it means.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, told)
    conversation = Conversation(requests, replies)
    try:
        claim = ours.claim()
    except Problem as problem:
        conversation.listen()
        conversation.say(error=str(problem))
        return 1
    try:
        conversation.serve()
        return 0
    except (Told, BrokenPipeError):
        return 1
    finally:
        # Once is enough; a second signal must not leave half of it.
        for number in (signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)
        if conversation.fabric:
            conversation.fabric.stop()
        claim.close()


def clean() -> int:
    """Removes what a killed run left, and prints how many things; refuses while a run is going on."""
    try:
        claim = ours.claim()
        removed = ours.sweep()
    except Problem as problem:
        print(f"error: {problem}", file=sys.stderr)
        return 1
    claim.close()
    print(removed)
    return 0
