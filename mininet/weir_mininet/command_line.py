"""Mininet's command line, with additional commands of Weir."""

import shlex
import subprocess
from typing import List, Optional

from mininet.cli import CLI
from mininet.log import error

from .fabric import Fabric

USAGE = """weir queues               bytes queued at every port
weir tables [SWITCH ...]  table entries of the switches
weir trace FROM TO        path of a packet between two hosts, step by step
weir link show            properties and counters of the links
weir link set LINK ...    change links: weir link set s1-s2 --delay 5ms --loss 1%
weir top                  live view of queues, rates, drops and marks; q quits
"""


class CommandLine(CLI):
    """Runs until the user exits. `topology` is a file for `weir controller --topology`."""

    def __init__(self, fabric: Fabric, topology: str):
        self.weir = fabric.plan.weir
        self.topology_option = ["--topology", topology]
        super().__init__(fabric.net)

    def do_weir(self, line: str) -> None:
        """Shows queues, tables, links and the path of a packet; `weir` without arguments lists the commands."""
        try:
            words = shlex.split(line)
        except ValueError as reason:
            error(f"*** {reason}\n")
            return
        command = self.command(words)
        if command is None:
            error(USAGE)
            return
        try:
            subprocess.call([self.weir, *command])
        except KeyboardInterrupt:
            pass

    def command(self, words: List[str]) -> Optional[List[str]]:
        """Returns the arguments of `weir` for these words; None: invalid."""
        if words[:1] == ["queues"] and len(words) == 1:
            return ["controller", "registers", "queue_bytes", *self.topology_option]
        if words[:1] == ["tables"]:
            return ["controller", "tables", *words[1:], *self.topology_option]
        if words[:1] == ["trace"] and len(words) >= 3:
            return ["trace", *self.topology_option, "--from", words[1], "--to", words[2], *words[3:]]
        if words[:1] == ["link"] and words[1:2] in (["show"], ["set"]):
            return words
        if words == ["top"]:
            return ["top", *self.topology_option]
        return None
