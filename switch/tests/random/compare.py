#!/usr/bin/env python3
"""Random v1model programs on BMv2 and on both engines of the embedded switch, the compiled one and the interpreter: the same
bytes by the same ports, in order per port, the same log messages; with --cli the same counters and registers at the end, and
with --digests the same digests in the same order.

  compare.py --programs 1000 [--first 0] [--packets 30] [--jobs 2] [--keep DIR] [--cli simple_switch_CLI]

Each number is a program, with random entries, and its packets. p4c-bm2-ss compiles it, simple_switch_grpc (or
simple_switch) reads the packets from a pipe, and what it sends becomes an STF test that `weir stf` must pass with both
engines. Neither root nor interfaces are needed. A program that differs is kept and named: `weir trace` shows a packet's path
through it. With --cli, BMv2 also gets clone sessions, multicast groups and meters; without it, there are none in either
switch. --digests needs libnanomsg, which BMv2 is built with, and p4runtime-shell from PyPI. With --switch none, the interpreter
takes BMv2's place.
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
PROMPT = b"RuntimeCmd: "
ENGINES = ["compiled", "interpreter"]
# A log message that a generated program writes: the value's name, and two numbers.
LOGGED = re.compile(r"\b((?:meta|hdr\.\w+)\.o\d+ \d+ \d+)$", re.MULTILINE)
FILE_HEADER, RECORD_HEADER = struct.Struct("<IHHiIII"), struct.Struct("<IIII")
PCAP_HEADER = FILE_HEADER.pack(0xA1B2C3D4, 2, 4, 0, 0, 65535, 1)


class Failure(Exception):
    """The reason why BMv2 gives no result."""


class Difference(Exception):
    """What the embedded switch does otherwise."""


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


class Cli:
    """A running simple_switch_CLI."""

    def __init__(self, command, port):
        # It does not wait for the server.
        deadline = time.monotonic() + TIMEOUT_S
        while True:
            try:
                socket.create_connection(("127.0.0.1", port)).close()
                break
            except OSError:
                if time.monotonic() > deadline:
                    raise Failure("BMv2 has no Thrift server") from None
                time.sleep(10 * POLL_S)
        self.process = subprocess.Popen([command, "--thrift-port", str(port)], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=subprocess.DEVNULL, env={**os.environ, "PYTHONUNBUFFERED": "1"})
        self.answers(1)

    def ask(self, commands):
        """Returns the answers."""
        self.process.stdin.write("".join(f"{command}\n" for command in commands).encode())
        self.process.stdin.flush()
        return self.answers(len(commands))

    def answers(self, count):
        read = b""
        while read.count(PROMPT) < count:
            part = os.read(self.process.stdout.fileno(), 1 << 16)
            if not part:
                raise Failure(f"simple_switch_CLI has ended: {read[-500:].decode()}")
            read += part
        return [answer.decode().strip() for answer in read.split(PROMPT)[:count]]

    def end(self):
        self.process.kill()
        self.process.wait()


class Bmv2:
    """A running BMv2. It reads packets from a pipe. A packet is followed by markers for all egress threads, once per pass
    that it may make; the next packet is sent when all markers have left."""

    def __init__(self, options, program, port_in, folder, logs, setup):
        self.outputs = {port: Output(folder / f"p{port}_out.pcap") for port in PORTS}
        for port in PORTS:
            path = folder / f"p{port}_in.pcap"
            os.mkfifo(path) if port == port_in else path.write_bytes(PCAP_HEADER)
        thrift, grpc = free_ports(2)
        command = [options.switch, "--use-files", "0", "--thrift-port", str(thrift), "--device-id", str(thrift)]
        command += [word for port in PORTS for word in ("-i", f"{port}@p{port}")] + ["--notifications-addr", notes(folder)]
        command += ["--log-level", "info", "--log-flush", "--log-file", "log"] if logs else ["--log-level", "off"]
        command += [str(program)]
        if "grpc" in pathlib.Path(options.switch).name:
            command += ["--", "--grpc-server-addr", f"127.0.0.1:{grpc}"]
        self.process = subprocess.Popen(command, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            self.pipe = os.open(folder / f"p{port_in}_in.pcap", os.O_RDWR)
            os.write(self.pipe, PCAP_HEADER)
            self.cli = Cli(options.cli, thrift) if options.cli else None
            for command, answer in zip(setup, self.cli.ask(setup) if setup else []):
                if re.search("error|invalid|exception|usage", answer, re.IGNORECASE):
                    raise Failure(f"simple_switch_CLI answers {command!r} with {answer!r}")
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
                if is_marker(frame):
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
        found = [re.search(r"\]= *(.*)", answer) for answer in self.cli.ask(commands)]
        if None in found:
            raise Failure(f"simple_switch_CLI does not answer {commands[found.index(None)]!r}")
        read = [match[1].strip() for match in found]
        for (name, index), value in zip(counters, read):
            packets, octets = sorted(map(int, re.findall(r"\d+", value)))
            yield f"check_counter {name}({index}) packets == {packets}"
            yield f"check_counter {name}({index}) bytes == {octets}"
        for (name, index), value in zip(registers, read[len(counters) :]):
            yield f"register_check {name} {index} {value}"

    def end(self):
        if getattr(self, "cli", None):
            self.cli.end()
        self.process.kill()
        self.process.wait()
        if hasattr(self, "pipe"):
            os.close(self.pipe)


def is_marker(frame):
    # No other frame is that long, and programs do not shorten markers below it.
    return len(frame) >= 1400


def notes(folder):
    return f"ipc://{folder}/notes"


def free_ports(count):
    probes = [socket.socket() for _ in range(count)]
    for probe in probes:
        probe.bind(("127.0.0.1", 0))
    ports = [probe.getsockname()[1] for probe in probes]
    for probe in probes:
        probe.close()
    return ports


def weir(options, *words):
    """Runs a command of weir. Returns its output, or raises a Difference."""
    done = subprocess.run([options.weir, *map(str, words)], capture_output=True, text=True)
    if done.returncode:
        raise Difference("\n".join((done.stdout + done.stderr).splitlines()[:8]))
    return done.stdout


def cells(compiled):
    """Returns statements that print all counters and registers."""
    document = json.loads(compiled.read_text())
    kinds = [("counter", it) for it in document["counter_arrays"] if not it.get("is_direct")]
    kinds += [("register", it) for it in document["register_arrays"]]
    return [f"{kind}_read {it['name']} {index}" for kind, it in kinds for index in range(it["size"])]


def interpreted(options, program, compiled, folder):
    """Returns the statements of a test that expects what the interpreter does."""
    lines, test = setup(options, program), folder / "packets.stf"
    packets = [f"packet {program.port_in} {frame.hex()}" for frame in program.frames]
    test.write_text("\n".join([*lines, *packets]) + "\n")
    # One section for each packet: what leaves is followed by a hex dump, with offsets.
    traces = re.split(r"^packet \d+ .*\n", weir(options, "trace", compiled, "--stf", test), flags=re.MULTILINE)[1:]
    for packet, trace in zip(packets, traces, strict=True):
        lines.append(packet)
        for port, dump in re.findall(r"^leaves by port (\d+): .*\n((?:    [0-9a-f]{4}  .*\n?)*)", trace, re.MULTILINE):
            data = "".join(line.split("  ", 3)[-1] for line in dump.splitlines())
            lines.append(f"expect {port} {data.replace(' ', '')} $")
    return lines


def judged(options, program, compiled, folder):
    """Returns the statements of a test that expects what BMv2 does, and its digests; None if they are not compared."""
    lines, learned = setup(options, program), None
    bmv2 = Bmv2(options, compiled, program.port_in, folder, "log_msg" in program.text, lines)
    try:
        received = digests.Bmv2Digests(notes(folder), program.digest) if options.digests and program.digest else None
        for frame in program.frames:
            lines.append(f"packet {program.port_in} {frame.hex()}")
            lines += [f"expect {port} {out.hex()} $" for port, out in bmv2.pass_through(frame, program.passes)]
        lines += bmv2.state(compiled) if options.cli else []
        if received:
            learned = received.collect()
            received.end()
    finally:
        bmv2.end()
    return lines, learned


def setup(options, program):
    """Returns the statements before the packets, which BMv2 gets by its CLI."""
    return list(program.setup) if options.cli or options.switch == "none" else []


def digests_of_weir(options, program, compiled, folder, expected):
    """Returns the digests of the embedded switch. It gets the frames as packet-outs, each followed by markers as in BMv2, so
    that a packet that comes again is not overtaken by the next one: registers and the order of digests would differ."""
    thrift, grpc = free_ports(2)
    others = [port for port in PORTS if port != program.port_in]
    for port in others:
        (folder / f"w{port}_in.pcap").write_bytes(PCAP_HEADER)
    command = [options.weir, "switch", "--use-files", "0", "--thrift-port", thrift, "--log-level", "off"]
    command += [word for port in others for word in ("-i", f"{port}@w{port}")]
    command += [compiled, "--", "--grpc-server-addr", f"127.0.0.1:{grpc}", "--cpu-port", program.port_in]

    marker, marked = next((bytes(length), port) for length, port in MARKERS.items() if port != program.port_in)
    output = Output(folder / f"w{marked}_out.pcap")

    def wait_for(frame):
        deadline = time.monotonic() + TIMEOUT_S
        while is_marker(frame) and not any(is_marker(it) for it in output.new_frames()):
            if time.monotonic() > deadline:
                raise Failure("weir switch does not pass a marker")
            time.sleep(POLL_S)

    def prepare():
        if statements := setup(options, program):
            cli = Cli(options.cli, thrift)
            try:
                cli.ask(statements)
            finally:
                cli.end()

    frames = [it for frame in program.frames for it in [frame, *[marker] * program.passes]]
    return digests.weir_digests(list(map(str, command)), compiled, folder / "p4info.txtpb", grpc, frames, prepare, wait_for, expected)


def compare(options, number):
    """Returns the number of frames that BMv2 sends, and None if the embedded switch sends the same, else a description."""
    program = Program(number)
    program.frames = list(program.packets(options.packets))
    folder = pathlib.Path(tempfile.mkdtemp(prefix=f"weir-random-{number}-", dir=options.keep))
    source, compiled, test = (folder / f"program.{kind}" for kind in ("p4", "json", "stf"))
    reads = folder / "state.stf"
    source.write_text(program.text)
    done = subprocess.run([options.p4c, *options.p4c_flags.split(), "--Wdisable", "--p4runtime-files", str(folder / "p4info.txtpb"),
                           "-o", str(compiled), str(source)], capture_output=True, text=True)
    if done.returncode:
        return 0, f"{folder}: p4c rejects the program:\n" + done.stderr[:2000]
    try:
        if options.switch == "none":
            lines, learned = interpreted(options, program, compiled, folder), None
        else:
            lines, learned = judged(options, program, compiled, folder)
        test.write_text("\n".join([*lines, "no_packet"]) + "\n")
        reads.write_text("\n".join([*lines, *cells(compiled)]) + "\n")
        found = []
        for engine in ENGINES:
            try:
                weir(options, "stf", "--quiet", "--engine", engine, compiled, test)
                found.append(json.loads(weir(options, "stf", "--json", "--engine", engine, compiled, reads))["tests"][0]["notes"])
            except Difference as difference:
                raise Difference(f"the {engine} engine differs:\n{difference}") from None
        if wrong := [pair for pair in zip(*found) if pair[0] != pair[1]]:
            raise Difference(f"the engines differ: {wrong[:4]}")
        if learned is not None:
            received = digests_of_weir(options, program, compiled, folder, len(learned))
            if learned != received:
                at = next((i for i, pair in enumerate(zip(learned, received)) if pair[0] != pair[1]), min(len(learned), len(received)))
                raise Difference(f"the digests differ from number {at}: BMv2 has {learned[at:][:4]}, weir {received[at:][:4]}")
        if (log := folder / "log.txt").exists():
            left, right = (sorted(LOGGED.findall(text)) for text in (log.read_text(), weir(options, "trace", compiled, "--stf", test)))
            if left != right:
                raise Difference(f"the log messages differ: BMv2 has {sorted(set(left) - set(right))[:4]}, weir {sorted(set(right) - set(left))[:4]}")
    except (Failure, TimeoutError) as failure:
        return 0, f"{folder}: {failure}"
    except Difference as difference:
        return 0, f"{folder}: {difference}"
    shutil.rmtree(folder)
    return sum(line.startswith("expect") for line in lines), None


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--switch", default="simple_switch_grpc", help='BMv2, or "none" [%(default)s]')
    parser.add_argument("--p4c", default="p4c-bm2-ss")
    parser.add_argument("--p4c-flags", default="")
    parser.add_argument("--cli", help="simple_switch_CLI; without it, counters and registers are not compared")
    parser.add_argument("--digests", action="store_true", help="compare digests too")
    parser.add_argument("--weir", default=str(ROOT / "target/release/weir"))
    parser.add_argument("--programs", type=int, default=1000)
    parser.add_argument("--first", type=int, default=0, help="number of the first program [%(default)s]")
    parser.add_argument("--packets", type=int, default=30, help="for each program [%(default)s]")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--keep", type=pathlib.Path, help="directory for programs that differ")
    options = parser.parse_args()
    if options.digests:
        global digests
        import digests
    for name in ("switch", "p4c", "weir", *(["cli"] if options.cli else [])):
        found = shutil.which(getattr(options, name))
        if not found and (name, options.switch) != ("switch", "none"):
            parser.error(f"{getattr(options, name)} not found; see --help")
        if found:
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
          + (f"{'BMv2 and ' * (options.switch != 'none')}both engines do the same" if not wrong else f"{wrong} programs differ"))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
