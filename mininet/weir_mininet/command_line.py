"""Mininet's command line, with commands that ask Weir about the fabric."""

import shlex
import subprocess
from typing import List, Optional

from mininet.cli import CLI
from mininet.log import error

from .fabric import Fabric

USAGE = """weir queues               bytes queued at every port
weir tables [SWITCH ...]  entries that the switches hold
weir trace FROM TO        a packet's path from host to host, step by step
weir link show            properties and counters of the links
weir link set LINK ...    changes links: weir link set s1-s2 --delay 5ms --loss 1%
weir top                  queues, rates, drops and marks, until you press q
"""


class CommandLine(CLI):
    """Runs until the user leaves it; `topology` is a file that `weir controller --topology` takes."""

    def __init__(self, fabric: Fabric, topology: str):
        self.weir = fabric.plan.weir
        self.of_topology = ["--topology", topology]
        super().__init__(fabric.net)

    def do_weir(self, line: str) -> None:
        """Queues, tables, links and a packet's path: `weir` lists the commands."""
        try:
            words = shlex.split(line)
        except ValueError as why:
            error(f"*** {why}\n")
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
        """The arguments of `weir` that do what `words` say."""
        if words[:1] == ["queues"] and len(words) == 1:
            return ["controller", "registers", "queue_bytes", *self.of_topology]
        if words[:1] == ["tables"]:
            return ["controller", "tables", *words[1:], *self.of_topology]
        if words[:1] == ["trace"] and len(words) >= 3:
            return ["trace", *self.of_topology, "--from", words[1], "--to", words[2], *words[3:]]
        if words[:1] == ["link"] and words[1:2] in (["show"], ["set"]):
            return words
        if words == ["top"]:
            return ["top", *self.of_topology]
        return None
