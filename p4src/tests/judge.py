#!/usr/bin/env python3
"""Compares the embedded switch with BMv2: sends random packets through simple_switch, writes its output as an STF test, and runs
the test with `weir stf`. Compared are the frames of each port in order, and counters and registers at the end.

  judge.py --packets 100000 hpcc fncc       (make -C p4src judge)

BMv2's clock cannot be set, so the time in an INT record that the switch has written is not compared (six digits). Queues are
empty between packets, because otherwise their content would depend on the timing of BMv2's threads; instead, registers are set
to random values. Marking is a step function, so that it does not depend on random numbers. Queues over time are covered by the
tests of queue_bytes and ecn.

After each packet, four barrier frames are sent to ports without other traffic, one for each egress thread of BMv2 (port
modulo 4). Egress threads and the transmit thread preserve the order, so when the four frames have left, the packet has left or
was dropped. Barrier frames do not affect what is compared, and are not sent to the embedded switch.

Requires a simple_switch with nanomsg, and libnanomsg; no root.
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
# Packets per run of simple_switch and per STF file.
CHUNK = 10_000
BARRIER_S = 10
RECORD = 8
TIME_DIGITS = slice(1, 7)
SOJOURN_DIGITS = slice(12, 16)
LINK_IDS = 4
MAX_READABLE = 2**63 - 1
SOJOURN = 0x02


def masked(program, sent, frame):
    """Returns an expected frame in STF syntax, with wildcards for the times in the record that the switch has added to `sent`."""
    text = frame.hex()
    ids = len(frame) - len(sent) - RECORD
    if ids in (0, LINK_IDS) and frame[12:14] == b"\x08\x00":
        # Ethernet, IPv4 with options, UDP, Weir header, ids if they were requested, newest record.
        header = 14 + 4 * (frame[14] & 15) + 8
        start = 2 * (header + 24 + ids)
        record = text[start : start + 2 * RECORD]
        masked_record = record[: TIME_DIGITS.start] + "*" * 6 + record[TIME_DIGITS.stop :]
        if program == "hpcc_plus" and frame[header + 3] & SOJOURN:
            masked_record = masked_record[: SOJOURN_DIGITS.start] + "*" * 4
        text = text[:start] + masked_record + text[start + 2 * RECORD :]
    return text


class Bmv2:
    """A simple_switch that processes one packet at a time."""

    def __init__(self, options, json_file, directory, rounds):
        self.switch = Switch(options, json_file, directory)
        self.rounds = rounds
        self.serials = itertools.count()

    def pass_through(self, port, frame):
        """Sends a frame and returns the output: [(port, frame)]."""
        wire = self.switch.wire
        wire.send(port, frame)
        frames, deadline = [], time.monotonic() + BARRIER_S
        # A clone is queued when its original leaves, so it leaves before the second round of barrier frames.
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
                    raise Failure(f"simple_switch did not send the barrier frames after {frame.hex()} from port {port}")
                if got in waited:
                    waited.remove(got)
                else:
                    frames.append(got)
        return frames


def state(switch, program):
    """Yields statements that compare all counters and registers with the values of BMv2."""
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
            # Thrift's integers are signed; BMv2 returns the maximum for larger 64-bit values.
            if value != MAX_READABLE:
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
    """Writes one test and runs it. Returns the number of frames that BMv2 sent; raises Failure if the embedded switch differs."""
    json_file = run_bmv2.PROGRAMS / f"{program}.json"
    sent = 0
    with tempfile.TemporaryDirectory() as directory, test.open("w") as out:
        bmv2 = Bmv2(options, json_file, directory, rounds=2 if program in COMPUTES else 1)
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
            parser.error(f"{command} not found; see --help")
    # Absolute paths, because simple_switch runs in another directory.
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
