"""The link emulator of a fabric: `weir link run`, or the process that runs all switches."""

import json
import os
import selectors
import subprocess
import time
from typing import Dict, List

from .plan import Plan, SetupError, far_interface
from .processes import LOOPBACK, START_TIMEOUT_S, ManagedProcess

# Time limit for replies of the emulator.
REPLY_TIMEOUT_S = 10.0


class Emulator(ManagedProcess):
    """`weir link run`, between the interfaces of switches and hosts."""

    def __init__(self, plan: Plan):
        path = os.path.join(plan.work, "links.txt")
        with open(path, "w", encoding="utf-8") as file:
            for link in plan.links:
                ends = ",".join(far_interface(*end) for end in (link.a, link.b))
                file.write(f"{link.name}={ends},{link.properties}\n")
        command = [plan.weir, "link", "run", "--file", path, "--seed", str(plan.seed), *bmv2_options(plan)]
        super().__init__(plan, "the link emulator", "links", command)

    def start(self) -> None:
        """Starts the emulator and waits for the line that it prints when all links carry frames."""
        super().start(stdout=subprocess.PIPE)
        deadline = time.monotonic() + START_TIMEOUT_S
        with selectors.DefaultSelector() as selector:
            selector.register(self.process.stdout, selectors.EVENT_READ)
            if not selector.select(deadline - time.monotonic()):
                raise SetupError(f"link emulator not ready after {START_TIMEOUT_S:.0f} s{self.stderr_tail()}")
        if not self.process.stdout.readline():
            # End of the stream: the process has failed. `check` reports the reason.
            self.process.wait()
        self.check()


def links(plan: Plan) -> List[Dict]:
    """Returns properties and counters of all links."""
    command = [plan.weir, "link", "show", "--json"]
    try:
        result = subprocess.run(command, capture_output=True, check=True, timeout=REPLY_TIMEOUT_S)
        return json.loads(result.stdout)["links"]
    except subprocess.CalledProcessError as error:
        raise SetupError(error.stderr.decode(errors="replace").strip().replace("error: ", "", 1)) from None
    except subprocess.TimeoutExpired:
        raise SetupError(f"link emulator timed out after {REPLY_TIMEOUT_S:.0f} s") from None


def drops(plan: Plan) -> Dict[str, int]:
    """Returns the number of frames that all links have dropped so far, by reason."""
    dropped: Dict[str, int] = {}
    for link in links(plan):
        for direction in link["directions"]:
            for reason, frames in direction["dropped"].items():
                dropped[reason] = dropped.get(reason, 0) + frames
    return dropped


def bmv2_options(plan: Plan) -> List[str]:
    """Returns the options with which the emulator sets the rates of BMv2's ports. BMv2 limits packets per second, so the
    emulator converts the bit rate of a link."""
    if plan.switch != "bmv2":
        return []
    options = ["--frame", f"{plan.frame}B"]
    for switch in plan.switches:
        ports = [f"{port}@{far_interface(node, port)}" for node, port in plan.ends() if node == switch.name]
        if ports:
            options += ["--bmv2", f"{LOOPBACK}:{switch.thrift_port}={','.join(ports)}"]
    return options
