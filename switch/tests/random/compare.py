#!/usr/bin/env python3
"""Random v1model programs on BMv2 and on the embedded switch: the same bytes by the same ports, in order per port, and with
--cli the same counters and registers at the end.

  compare.py --programs 1000 [--first 0] [--packets 30] [--jobs 2] [--keep DIR] [--cli simple_switch_CLI]

Each number is a program, with random entries, and its packets. p4c-bm2-ss compiles it, simple_switch_grpc (or
simple_switch) reads the packets from a pipe, and what it sends becomes an STF test that `weir stf` must pass. Neither
root nor interfaces are needed. A program that differs is kept and named: `weir trace` shows a packet's path through it.
"""

import argparse
import concurrent.futures
import json
import os
import pathlib
import re
import shutil
import socket
import struct
import subprocess
import sys
import tempfile
import time

from generate import MARKERS, PORTS, Program

ROOT = pathlib.Path(__file__).resolve().parents[3]
TIMEOUT_S = 60
POLL_S = 0.0005
FILE_HEADER, RECORD_HEADER = struct.Struct("<IHHiIII"), struct.Struct("<IIII")
PCAP_HEADER = FILE_HEADER.pack(0xA1B2C3D4, 2, 4, 0, 0, 65535, 1)


class Failure(Exception):
    """The reason why BMv2 gives no result."""


class Output:
    """The frames that a port sends: a pcap file that BMv2 is still writing."""

    def __init__(self, path):
        self.path, self.offset = path, FILE_HEADER.size

    def new_frames(self):
        """Yields the frames since the last call."""
        if not self.path.exists() or self.path.stat().st_size < self.offset + RECORD_HEADER.size:
            return
        with self.path.open("rb") as file:
            file.seek(self.offset)
            while len(head := file.read(RECORD_HEADER.size)) == RECORD_HEADER.size:
                length = RECORD_HEADER.unpack(head)[2]
                frame = file.read(length)
                if len(frame) < length:
                    return
                self.offset = file.tell()
                yield frame


class Bmv2:
    """A running BMv2. It reads packets from a pipe. A packet is followed by markers for all egress threads, once per pass
    that it may make; the next packet is sent when all markers have left."""

    def __init__(self, options, program, port_in, folder):
        self.outputs = {port: Output(folder / f"p{port}_out.pcap") for port in PORTS}
        for port in PORTS:
            path = folder / f"p{port}_in.pcap"
            os.mkfifo(path) if port == port_in else path.write_bytes(PCAP_HEADER)
        thrift, grpc = free_ports(2)
        self.cli = options.cli and [options.cli, "--thrift-port", str(thrift)]
        command = [options.switch, "--use-files", "0", "--thrift-port", str(thrift), "--device-id", str(thrift)]
        command += [word for port in PORTS for word in ("-i", f"{port}@p{port}")] + ["--log-level", "off", str(program)]
        if "grpc" in pathlib.Path(options.switch).name:
            command += ["--", "--grpc-server-addr", f"127.0.0.1:{grpc}"]
        self.process = subprocess.Popen(command, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            self.pipe = os.open(folder / f"p{port_in}_in.pcap", os.O_RDWR)
            os.write(self.pipe, PCAP_HEADER)
        except BaseException:
            self.end()
            raise

    def send(self, frame):
        os.write(self.pipe, RECORD_HEADER.pack(1, 0, len(frame), len(frame)) + frame)

    def pass_through(self, frame, passes):
        """Sends a frame that makes at most `passes` passes through the program. Returns the frames that leave: [(port, frame)]."""
        self.send(frame)
        sent, deadline = [], time.monotonic() + TIMEOUT_S
        for _ in range(passes):
            for length in MARKERS:
                self.send(bytes(length))
            waiting = set(MARKERS.values())
            while waiting:
                # Frames sent before the last marker are found in this round or in the next one.
                sent += self.collect(waiting)
                if self.process.poll() is not None:
                    raise Failure("BMv2 has ended")
                if time.monotonic() > deadline:
                    raise Failure("BMv2 does not answer")
                time.sleep(POLL_S * bool(waiting))
        return sent + list(self.collect(waiting))

    def collect(self, waiting):
        """Yields the frames that have left: (port, frame). Removes the ports of markers from `waiting`."""
        for port, output in self.outputs.items():
            for frame in output.new_frames():
                # No other frame is that long, and programs do not shorten markers below it.
                if len(frame) >= 1400:
                    waiting.discard(port)
                else:
                    yield port, frame

    def state(self, program):
        """Yields STF statements that check all counters and registers against the present values."""
        document = json.loads(program.read_text())
        counters = [(it["name"], index) for it in document["counter_arrays"] if not it.get("is_direct") for index in range(it["size"])]
        # Thrift integers are signed.
        registers = [(it["name"], index) for it in document["register_arrays"] if it["bitwidth"] < 64 for index in range(it["size"])]
        commands = [f"counter_read {name} {index}" for name, index in counters]
        commands += [f"register_read {name} {index}" for name, index in registers]
        done = subprocess.run(self.cli, input="\n".join(commands) + "\n", capture_output=True, text=True)
        read = re.findall(r"\]= *(.*)", done.stdout)
        if len(read) != len(commands):
            raise Failure(f"simple_switch_CLI answers {len(read)} of {len(commands)} commands: {done.stderr[-500:]}")
        for (name, index), value in zip(counters, read):
            packets, octets = sorted(map(int, re.findall(r"\d+", value)))
            yield f"check_counter {name}({index}) packets == {packets}"
            yield f"check_counter {name}({index}) bytes == {octets}"
        for (name, index), value in zip(registers, read[len(counters) :]):
            yield f"register_check {name} {index} {value}"

    def end(self):
        self.process.kill()
        self.process.wait()
        if hasattr(self, "pipe"):
            os.close(self.pipe)


def free_ports(count):
    probes = [socket.socket() for _ in range(count)]
    for probe in probes:
        probe.bind(("127.0.0.1", 0))
    ports = [probe.getsockname()[1] for probe in probes]
    for probe in probes:
        probe.close()
    return ports


def compare(options, number):
    """Returns the number of frames that BMv2 sends, and None if the embedded switch sends the same, else a description."""
    program = Program(number)
    folder = pathlib.Path(tempfile.mkdtemp(prefix=f"weir-random-{number}-", dir=options.keep))
    source, compiled, test = (folder / f"program.{kind}" for kind in ("p4", "json", "stf"))
    source.write_text(program.text)
    done = subprocess.run([options.p4c, *options.p4c_flags.split(), "--Wdisable", "-o", str(compiled), str(source)],
                          capture_output=True, text=True)
    if done.returncode:
        return 0, f"{folder}: p4c rejects the program:\n" + done.stderr[:2000]
    lines = []
    bmv2 = Bmv2(options, compiled, program.port_in, folder)
    try:
        for frame in program.packets(options.packets):
            lines.append(f"packet {program.port_in} {frame.hex()}")
            lines += [f"expect {port} {out.hex()} $" for port, out in bmv2.pass_through(frame, program.passes)]
        sent = len(lines) - options.packets
        lines += bmv2.state(compiled) if options.cli else []
    except Failure as failure:
        return 0, f"{folder}: {failure}"
    finally:
        bmv2.end()
    test.write_text("\n".join([*lines, "no_packet"]) + "\n")
    done = subprocess.run([options.weir, "stf", "--quiet", str(compiled), str(test)], capture_output=True, text=True)
    if done.returncode:
        return 0, f"{folder}: the embedded switch differs:\n" + "\n".join((done.stdout + done.stderr).splitlines()[:8])
    shutil.rmtree(folder)
    return sent, None


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--switch", default="simple_switch_grpc")
    parser.add_argument("--p4c", default="p4c-bm2-ss")
    parser.add_argument("--p4c-flags", default="")
    parser.add_argument("--cli", help="simple_switch_CLI; without it, counters and registers are not compared")
    parser.add_argument("--weir", default=str(ROOT / "target/release/weir"))
    parser.add_argument("--programs", type=int, default=1000)
    parser.add_argument("--first", type=int, default=0, help="number of the first program [%(default)s]")
    parser.add_argument("--packets", type=int, default=30, help="for each program [%(default)s]")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--keep", type=pathlib.Path, help="directory for programs that differ")
    options = parser.parse_args()
    for name in ("switch", "p4c", "weir", *(["cli"] if options.cli else [])):
        found = shutil.which(getattr(options, name))
        if not found:
            parser.error(f"{getattr(options, name)} not found; see --help")
        setattr(options, name, str(pathlib.Path(found).resolve()))
    if options.keep:
        options.keep = options.keep.resolve()
        options.keep.mkdir(parents=True, exist_ok=True)
    sent = wrong = 0
    numbers = range(options.first, options.first + options.programs)
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        for number, (frames, failure) in zip(numbers, pool.map(lambda number: compare(options, number), numbers)):
            sent += frames
            if failure:
                wrong += 1
                print(f"program {number}: {failure}", flush=True)
    print(f"{options.programs} programs from {options.first}, {options.packets * options.programs} packets in, {sent} frames out: "
          + ("both switches send the same" if not wrong else f"{wrong} programs differ"))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
