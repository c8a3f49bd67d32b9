#!/usr/bin/env python3
"""Compares the TNA programs with the v1model programs: sends random packets through the executor, writes its output as an STF
test, and runs the test with `weir stf` on the v1model program.

  compare_tna.py --packets 2000 --weir target/release/weir      (make -C p4src compare-tna)

The tables use only what both support (docs/tofino.md): slices 0 and 16, groups and numbers of trees that are powers of two, no
meters, no queues, no deflection. tx_bytes of every port is set before each packet, because the two count copies and frames for
the controller differently. Times in records are not compared, and txBytes is not compared in FNCC's records.
"""

import argparse
import pathlib
import random
import re
import subprocess
import sys
import tempfile

import tna_stf
from judge import masked
from stf import EVENTS
from switch import Switch
from tna_stf import SPARE_PORT, Test
from traffic import CPU, PORTS, Traffic
from wire import ACK, NACK

ROOT = pathlib.Path(__file__).resolve().parents[2]
TX_DIGITS = slice(2 * 66 + 7, 2 * 66 + 12)
SUPPORTED_BY_BOTH = [("slice:5", "slice:0"), ("slice:8", "slice:16"), ("size:3", "size:2"), ("size:0", "size:1"), ("count:3", "count:2")]
UNSUPPORTED = re.compile(r"meter_set_rates|add deflection|add deflect_port")


def tables(traffic):
    for line in traffic.tables():
        if not UNSUPPORTED.match(line):
            for original, replacement in SUPPORTED_BY_BOTH:
                line = line.replace(original, replacement)
            yield line


def as_v1model(test, port, frame):
    """Returns a frame as the v1model program would send it: (port, bytes)."""
    port = test.port(port)
    if port == CPU:
        frame = (test.port(int.from_bytes(frame[:2], "big")) << 7).to_bytes(2, "big") + frame[2:]
    return port, frame


def expected(program, sent, frame):
    text = masked(program, sent, frame)
    if len(frame) == len(sent) + 8 and frame[12:14] == b"\x08\x00" and frame[42] & 15 in (ACK, NACK):
        text = text[: TX_DIGITS.start] + "*" * 5 + text[TX_DIGITS.stop :]
    return text


def transcript(program, chip, text, packets, seed):
    """Yields the lines of the test that describes the behaviour of the executor."""
    traffic = Traffic(program, seed)
    test = Test(Switch(text, chip), "compare")
    counts = random.Random(seed)
    for line in tables(traffic):
        test.do(line)
        yield line
    for kind, port, *frame in traffic.steps(packets):
        # On the chip, this port is used for recirculation.
        if kind != "packet" or (port == CPU and int.from_bytes(frame[0][:2], "big") >> 7 == SPARE_PORT):
            continue
        frame, = frame
        for out in (*PORTS, 9):
            line = f"register_write tx_bytes {out} {counts.getrandbits(32)}"
            test.do(line)
            yield line
        test.switch.sent.clear()
        line = f"packet {port} {frame.hex()}"
        test.do(line)
        yield line
        for out, frames in test.switch.sent.items():
            for left in frames:
                out, left = as_v1model(test, out, left)
                yield f"expect {out} {expected(program, frame, left)} $"
        yield "wait"
    for event in EVENTS.values():
        yield f"check_counter events({event}) packets == {test.switch.counter_sum('events', event)}"
    yield "no_packet"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--weir", default=str(ROOT / "target/release/weir"))
    parser.add_argument("--packets", type=int, default=2000, help="for each program and chip [%(default)s]")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    failed = 0
    for program, chip, text in tna_stf.programs():
        with tempfile.NamedTemporaryFile("w", suffix=".stf", prefix=f"tna-{program}-", delete=False) as out:
            lines = list(transcript(program, chip, text, options.packets, options.seed))
            print("\n".join(lines), file=out)
        done = subprocess.run([options.weir, "stf", "--quiet", ROOT / "p4src/build" / f"{program}.json", out.name],
                              capture_output=True, text=True, check=False)
        frames = sum(line.startswith("expect") for line in lines)
        what = "the v1model program sends the same" if done.returncode == 0 else f"{out.name}: the v1model program differs"
        print(f"{program}, {tna_stf.NAMES[chip]}: {options.packets} packets in, {frames} frames out, seed {options.seed}: {what}",
              flush=True)
        if done.returncode != 0:
            failed += 1
            print("\n".join((done.stdout + done.stderr).splitlines()[:12]))
        else:
            pathlib.Path(out.name).unlink()
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
