"""The process that emulates all links of a fabric: `weir link run`."""

import json
import os
import selectors
import signal
import subprocess
import time
from typing import Dict, List

from .plan import Plan, Problem, far_interface
from .processes import LAST_WORDS, LOOPBACK, START_S, STOP_S, punctual, tethered


class Emulator:
    def __init__(self, plan: Plan):
        self.weir = plan.weir
        self.words = os.path.join(plan.work, "links.err")
        lines = os.path.join(plan.work, "links.txt")
        with open(lines, "w", encoding="utf-8") as file:
            for link in plan.links:
                ends = ",".join(far_interface(*end) for end in (link.a, link.b))
                file.write(f"{link.name}={ends},{link.properties}\n")
        command = [plan.weir, "link", "run", "--file", lines, "--seed", str(plan.seed), *limits(plan)]
        with open(self.words, "wb") as words:
            self.process = subprocess.Popen(tethered(punctual() + command), stdin=subprocess.DEVNULL,
                                            stdout=subprocess.PIPE, stderr=words, start_new_session=True)

    def wait_until_ready(self) -> None:
        """It says so once all links carry frames."""
        deadline = time.monotonic() + START_S
        with selectors.DefaultSelector() as selector:
            selector.register(self.process.stdout, selectors.EVENT_READ)
            if not selector.select(deadline - time.monotonic()):
                raise Problem(f"the links are not ready after {START_S:.0f} s{self.last_words()}")
        if not self.process.stdout.readline():
            self.process.wait()
        self.check()

    def check(self) -> None:
        """Raises if it has ended."""
        status = self.process.poll()
        if status is not None:
            raise Problem(f"the link emulator ended with status {status}{self.last_words()}")

    def drops(self) -> Dict[str, int]:
        """Frames that all links have lost so far, by reason."""
        shown = subprocess.run([self.weir, "link", "show", "--json"], capture_output=True, text=True)
        if shown.returncode != 0:
            raise Problem(f"the link emulator does not answer: {shown.stderr.strip()}")
        lost: Dict[str, int] = {}
        for link in json.loads(shown.stdout)["links"]:
            for direction in link["directions"]:
                for reason, frames in direction["dropped"].items():
                    lost[reason] = lost.get(reason, 0) + frames
        return lost

    def last_words(self) -> str:
        with open(self.words, "rb") as words:
            said = words.read()[-LAST_WORDS:].decode(errors="replace").strip()
        return f": {said}" if said else ""

    def stop(self) -> None:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        try:
            self.process.communicate(timeout=STOP_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


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
