#!/usr/bin/env python3
"""Real BMv2 judges the embedded switch: random packets go through simple_switch, what it sends becomes an STF test, and
`weir stf` must pass it. Same bytes on the same ports, in order per port; counters and registers at the end.

  judge.py --packets 100000 hpcc fncc       (make -C p4src judge)

BMv2's clock cannot be set, so the time of an INT record is not compared: six digits of the record that the switch
itself has written. Queues are empty between packets, since how long BMv2's threads take decides what else would be in
them; instead registers are given random values, and marking is a step, so that nothing depends on chance. What queues
do over time is in the tests of queue_bytes and ecn.

After each packet four frames go out by ports that nothing else uses, one for each egress thread of BMv2 (port modulo
4). An egress thread and the transmit thread keep the order, so once the four are out the packet is through, or dropped.
These frames change nothing that is compared, and the embedded switch never sees them.

simple_switch must be built with nanomsg, and libnanomsg be installed. No root.
"""

import argparse
import itertools
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time

import run_bmv2
from run_bmv2 import Failure, Switch
from stf import EVENTS, REASONS
from traffic import BARRIER_PORTS, COMPUTES, DEFLECTS, PORTS, Traffic, barrier

ROOT = pathlib.Path(__file__).resolve().parents[2]
# Packets of one run of simple_switch, and of one STF file.
CHUNK = 10_000
BARRIER_S = 10
RECORD = 8
TIME_DIGITS = slice(1, 7)
SOJOURN_DIGITS = slice(12, 16)
LINK_IDS = 4
MOST_READ = 2**63 - 1
SOJOURN = 0x02


def masked(program, sent, frame):
    """What is expected, as STF writes it: the frame but for the times in the record that was added to what was sent."""
    text = frame.hex()
    ids = len(frame) - len(sent) - RECORD
    if ids in (0, LINK_IDS) and frame[12:14] == b"\x08\x00":
        # Ethernet, IPv4 with its options, UDP, the Weir header, ids if they were asked for, then the newest record.
        header = 14 + 4 * (frame[14] & 15) + 8
        at = 2 * (header + 24 + ids)
        record = text[at : at + 2 * RECORD]
        stamped = record[: TIME_DIGITS.start] + "*" * 6 + record[TIME_DIGITS.stop :]
        if program == "hpcc_plus" and frame[header + 3] & SOJOURN:
            stamped = stamped[: SOJOURN_DIGITS.start] + "*" * 4
        text = text[:at] + stamped + text[at + 2 * RECORD :]
    return text


class Bmv2:
    """A simple_switch that takes one packet after the other."""

    def __init__(self, options, json_file, folder, rounds):
        self.switch = Switch(options, json_file, folder)
        self.rounds = rounds
        self.serials = itertools.count()

    def pass_through(self, port, frame):
        """Sends a frame in and gives what comes out: [(port, frame)]."""
        wire = self.switch.wire
        wire.send(port, frame)
        frames, deadline = [], time.monotonic() + BARRIER_S
        # A clone is queued when its original leaves: it is through with the second barrier.
        for _ in range(self.rounds):
            waited = set()
            serial = next(self.serials)
            for out in BARRIER_PORTS:
                sent, left = barrier(out, serial)
                wire.send(0, sent)
                waited.add((out, left))
            while waited:
                got = wire.receive(deadline - time.monotonic())
                if got is None:
                    raise Failure(f"simple_switch did not let the barrier pass behind {frame.hex()} by port {port}")
                if got in waited:
                    waited.remove(got)
                else:
                    frames.append(got)
        return frames


def state(switch, program):
    """Statements that all counters and registers are as BMv2 has them."""
    for name, cells in (("drops", REASONS.values()), ("events", EVENTS.values())):
        for cell in sorted(cells):
            yield f"check_counter {name}({cell}) packets == {switch.counter(name, cell)}"
    rates = ("fair_rate",) if program in ("rocc", "rcp") else ()
    for name in ("queue_bytes", "tx_bytes", *rates):
        for port in (0, *PORTS, 9, 255):
            yield f"register_check {name} {port} {switch.register(name, port)}"
    if program in DEFLECTS:
        for name, entry in itertools.product(("dft_flow", "dft_out"), range(8)):
            value = switch.register(name, entry)
            # Thrift's numbers have 63 bits and a sign: what BMv2 reads out of 64 may be its largest instead.
            if value != MOST_READ:
                yield f"register_check {name} {entry} {value}"


def transcript(bmv2, program, traffic, packets):
    """The test that BMv2 passes, line by line."""
    for statement in traffic.tables():
        bmv2.switch.control(statement)
        yield statement
    for kind, *step in traffic.steps(packets):
        if kind == "state":
            bmv2.switch.control(step[0])
            yield step[0]
            continue
        port, frame = step
        yield f"packet {port} {frame.hex()}"
        for out, left in bmv2.pass_through(port, frame):
            yield f"expect {out} {masked(program, frame, left)} $"
    yield from state(bmv2.switch, program)
    yield "no_packet"


def judge(options, program, packets, seed, test):
    """Writes one test and runs it. How many frames BMv2 sent; a Failure if the embedded switch did otherwise."""
    json_file = run_bmv2.PROGRAMS / f"{program}.json"
    sent = 0
    with tempfile.TemporaryDirectory() as folder, test.open("w") as out:
        bmv2 = Bmv2(options, json_file, folder, rounds=2 if program in COMPUTES else 1)
        try:
            for line in transcript(bmv2, program, Traffic(program, seed), packets):
                sent += line.startswith("expect")
                print(line, file=out)
            bmv2.switch.close()
        finally:
            bmv2.switch.end()
    done = subprocess.run([options.weir, "stf", "--quiet", json_file, test], capture_output=True, text=True)
    if done.returncode != 0:
        shown = (done.stdout + done.stderr).splitlines()[:20]
        raise Failure(f"{test}: the embedded switch differs:\n" + "\n".join(shown))
    return sent


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--switch", default="simple_switch")
    parser.add_argument("--cli", default="simple_switch_CLI")
    parser.add_argument("--weir", default=str(ROOT / "target/release/weir"))
    parser.add_argument("--packets", type=int, default=100_000, help="for each program [%(default)s]")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--keep", type=pathlib.Path, help="directory for the tests; those that fail are kept anyway")
    parser.add_argument("programs", nargs="+")
    options = parser.parse_args()
    for command in (options.switch, options.cli, options.weir):
        if not shutil.which(command):
            parser.error(f"{command} is not there; see --help")
    # simple_switch runs in a directory of its own.
    options.switch, options.weir = map(shutil.which, (options.switch, options.weir))
    kept = options.keep or pathlib.Path(tempfile.mkdtemp(prefix="weir-judge-"))
    kept.mkdir(parents=True, exist_ok=True)
    failed = 0
    for program in options.programs:
        packets = sent = wrong = 0
        for number, first in enumerate(range(0, options.packets, CHUNK)):
            chunk = min(CHUNK, options.packets - first)
            test = kept / f"{program}-{options.seed}-{number}.stf"
            try:
                sent += judge(options, program, chunk, f"{options.seed} {number}", test)
                if not options.keep:
                    test.unlink()
            except Failure as failure:
                wrong += 1
                print(f"FAIL {failure}")
            packets += chunk
        failed += wrong
        print(f"{program}: {packets} packets in, {sent} frames out of BMv2, seed {options.seed}: "
              + ("the embedded switch sends the same" if not wrong else f"{wrong} tests differ"), flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
