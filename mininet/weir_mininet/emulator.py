"""What carries the links of a fabric: `weir link run`, or the process of all switches."""

import json
import os
import selectors
import subprocess
import time
from typing import Dict, List

from .plan import Plan, Problem, far_interface
from .processes import LOOPBACK, START_S, Part

# How long it may take to answer.
PATIENCE_S = 10.0


class Emulator(Part):
    """`weir link run`, between the interfaces of switches and hosts."""

    def __init__(self, plan: Plan):
        lines = os.path.join(plan.work, "links.txt")
        with open(lines, "w", encoding="utf-8") as file:
            for link in plan.links:
                ends = ",".join(far_interface(*end) for end in (link.a, link.b))
                file.write(f"{link.name}={ends},{link.properties}\n")
        command = [plan.weir, "link", "run", "--file", lines, "--seed", str(plan.seed), *limits(plan)]
        super().__init__(plan, "the link emulator", "links", command)

    def start(self) -> None:
        """Returns once all links carry frames: it says so."""
        super().start(stdout=subprocess.PIPE)
        deadline = time.monotonic() + START_S
        with selectors.DefaultSelector() as selector:
            selector.register(self.process.stdout, selectors.EVENT_READ)
            if not selector.select(deadline - time.monotonic()):
                raise Problem(f"the links are not ready after {START_S:.0f} s{self.last_words()}")
        if not self.process.stdout.readline():
            self.process.wait()
        self.check()


def links(plan: Plan) -> List[Dict]:
    """Properties and counters of all links."""
    command = [plan.weir, "link", "show", "--json"]
    try:
        return json.loads(subprocess.run(command, capture_output=True, check=True, timeout=PATIENCE_S).stdout)["links"]
    except subprocess.CalledProcessError as error:
        raise Problem(error.stderr.decode(errors="replace").strip().replace("error: ", "", 1)) from None
    except subprocess.TimeoutExpired:
        raise Problem(f"what carries the links does not answer within {PATIENCE_S:.0f} s") from None


def drops(plan: Plan) -> Dict[str, int]:
    """Frames that all links have lost so far, by reason."""
    lost: Dict[str, int] = {}
    for link in links(plan):
        for direction in link["directions"]:
            for reason, frames in direction["dropped"].items():
                lost[reason] = lost.get(reason, 0) + frames
    return lost


def limits(plan: Plan) -> List[str]:
    """BMv2 counts packets: the emulator tells it how many of them are the bits of a link."""
    if plan.switch != "bmv2":
        return []
    options = ["--frame", f"{plan.frame}B"]
    for switch in plan.switches:
        ports = [f"{port}@{far_interface(node, port)}" for node, port in plan.ends() if node == switch.name]
        if ports:
            options += ["--bmv2", f"{LOOPBACK}:{switch.thrift_port}={','.join(ports)}"]
    return options
