#!/usr/bin/env python3
"""Runs STF tests on BMv2's simple_switch, the reference for the behaviour of the programs.

  run_bmv2.py [--switch simple_switch] [--cli simple_switch_CLI] [--log DIR] hpcc/*.stf fncc/*.stf

The program is the name of the directory that a test is in. Packets go in and out through simple_switch's
nanomsg socket (--packet-in), tables, registers and counters through simple_switch_CLI. No root, no
interfaces; simple_switch must be built with nanomsg, and libnanomsg be installed. Beyond p4c's STF:

  register_check NAME INDEX VALUE     compares a register with a value
  queue_rate PPS [PORT [PRIORITY]]    packets per second, as set_queue_rate in simple_switch_CLI
  queue_depth PACKETS [PORT]          as set_queue_depth there
  time 1.5s                           waits in real time, because BMv2's clock cannot be set

A test that says "embedded switch only" is skipped.
"""

import argparse
import ctypes
import ctypes.util
import json
import pathlib
import re
import socket
import struct
import subprocess
import sys
import tempfile
import time

PROGRAMS = pathlib.Path(__file__).resolve().parent.parent / "build"
SETTLE_S = 0.15          # time for packets to pass the threads of simple_switch
START_S = 20


class Failure(Exception):
    """A test failed."""


def statements(test):
    """Yields the statements of a test with their line numbers."""
    for number, line in enumerate(test.splitlines(), start=1):
        text = line.split("#")[0].strip()
        if text:
            yield number, text


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Wire:
    """The nanomsg socket for packets of simple_switch. A message is {type, port, length} and the frame."""

    AF_SP, NN_PAIR, NN_SOL_SOCKET, NN_SNDTIMEO, NN_RCVTIMEO = 1, 16, 0, 4, 5
    SEND_MS = 5000
    PACKET_IN, PACKET_OUT = 3, 4
    HEADER = struct.Struct("=iii")

    def __init__(self, address):
        self.library = ctypes.CDLL(ctypes.util.find_library("nanomsg"), use_errno=True)
        self.socket = self.library.nn_socket(self.AF_SP, self.NN_PAIR)
        if self.socket < 0 or self.library.nn_connect(self.socket, address.encode()) < 0:
            raise Failure(f"cannot connect to {address}")
        self.set(self.NN_SNDTIMEO, self.SEND_MS)
        self.buffer = ctypes.create_string_buffer(65536)
        self.frames = {}
        self.wait = None

    def set(self, option, milliseconds):
        value = ctypes.byref(ctypes.c_int(milliseconds))
        self.library.nn_setsockopt(self.socket, self.NN_SOL_SOCKET, option, value, 4)

    def send(self, port, frame):
        message = self.HEADER.pack(self.PACKET_IN, port, len(frame)) + frame
        if self.library.nn_send(self.socket, message, len(message), 0) < 0:
            raise Failure("simple_switch does not accept packets; it may have crashed")

    def receive(self, seconds):
        """Returns the next frame as (port, bytes); None if no frame arrives within `seconds`."""
        wait = max(0, int(seconds * 1000))
        if wait != self.wait:
            self.wait = wait
            self.set(self.NN_RCVTIMEO, wait)
        while (size := self.library.nn_recv(self.socket, self.buffer, len(self.buffer), 0)) >= 0:
            message = ctypes.string_at(self.buffer, size)
            kind, port, _ = self.HEADER.unpack_from(message)
            if kind == self.PACKET_OUT:
                return port, message[self.HEADER.size :]
        return None

    def collect(self, seconds):
        """Receives frames until none arrives for `seconds`, and stores them by port, in hexadecimal."""
        while (received := self.receive(seconds)) is not None:
            port, frame = received
            self.frames.setdefault(port, []).append(frame.hex())

    def close(self):
        self.library.nn_close(self.socket)


class Cli:
    """A simple_switch_CLI process, which executes one command per line."""

    PROMPT = "RuntimeCmd: "

    def __init__(self, command, thrift_port):
        self.process = subprocess.Popen([command, "--thrift-port", str(thrift_port)], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, bufsize=0)
        self.read_reply()

    def read_reply(self):
        """Returns the output up to the next prompt."""
        text = ""
        while not text.endswith(self.PROMPT):
            char = self.process.stdout.read(1)
            if not char:
                raise Failure(f"simple_switch_CLI exited: {text}")
            text += char
        return text[: -len(self.PROMPT)]

    def __call__(self, line):
        self.process.stdin.write(line + "\n")
        text = self.read_reply()
        if re.search(r"Invalid|Error|Unknown|unknown|exception|Could not", text):
            raise Failure(f"simple_switch_CLI rejected `{line}`: {text.strip()}")
        return text

    def close(self):
        self.process.stdin.close()
        self.process.wait(5)


class Program:
    """The tables and actions of a compiled program. Translates STF entries to commands of simple_switch_CLI."""

    def __init__(self, path):
        document = json.loads(path.read_text())
        self.tables = {table["name"]: table for pipeline in document["pipelines"] for table in pipeline["tables"]}
        self.actions = {action["id"]: action for action in document["actions"]}

    def table(self, name):
        return next(table for full, table in self.tables.items() if full == name or full.endswith("." + name))

    def action(self, table, name):
        actions = [self.actions[number] for number in table["action_ids"]]
        return next(action for action in actions if action["name"] == name or action["name"].endswith("." + name))

    def call(self, table, text):
        name, arguments = re.fullmatch(r"(\w+)\((.*)\)", text).groups()
        action = self.action(table, name)
        values = dict(re.findall(r"(\w+)\s*:\s*(\w+)", arguments))
        return action["name"], " ".join(values[parameter["name"]] for parameter in action["runtime_data"])

    def add(self, text):
        name, keys, action = re.fullmatch(r"add (\w+) (.*?) (\w+\(.*\))", text).groups()
        table = self.table(name)
        values = dict(re.findall(r"(\w+):([\w/]+)", keys))
        action, arguments = self.call(table, action)
        match = " ".join(values[key["name"]] for key in table["key"])
        return f"table_add {table['name']} {action} {match} => {arguments}"

    def set_default(self, text):
        name, action = re.fullmatch(r"setdefault (\w+) (\w+\(.*\))", text).groups()
        table = self.table(name)
        action, arguments = self.call(table, action)
        return f"table_set_default {table['name']} {action} {arguments}"


def matches(expected, got):
    exact = expected.endswith("$")
    expected = expected.rstrip("$").lower()
    if len(got) < len(expected) or (exact and len(got) != len(expected)):
        return False
    return all(e in ("*", g) for e, g in zip(expected, got))


class Switch:
    """A simple_switch process with its packet socket and its CLI. The socket is in `directory`."""

    def __init__(self, options, json_file, directory, log=None):
        thrift_port, address = free_port(), f"ipc://{directory}/packets"
        command = [options.switch, "--packet-in", address, "--thrift-port", str(thrift_port)]
        command += ["--device-id", str(thrift_port)]
        command += ["--log-file", str(log), "--log-flush"] if log else ["--log-level", "off"]
        command += [str(json_file), "--", "--priority-queues", "8"]
        self.process = subprocess.Popen(command, cwd=directory, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            self.wait_for(thrift_port)
            self.program = Program(json_file)
            self.cli = Cli(options.cli, thrift_port)
            self.wire = Wire(address)
        except BaseException:
            self.end()
            raise

    def wait_for(self, thrift_port):
        deadline = time.monotonic() + START_S
        while True:
            try:
                return socket.create_connection(("127.0.0.1", thrift_port), 1).close()
            except OSError:
                if self.process.poll() is not None or time.monotonic() > deadline:
                    raise Failure("simple_switch did not start") from None
                time.sleep(0.05)

    def control(self, text):
        """Executes an STF statement other than those about packets."""
        word = text.split()[0]
        if word == "add":
            return self.cli(self.program.add(text))
        if word == "setdefault":
            return self.cli(self.program.set_default(text))
        if word in ("register_write", "register_reset"):
            return self.cli(text)
        if word in ("queue_rate", "queue_depth"):
            return self.cli(f"set_{text}")
        if word == "mirroring_add" or word.startswith(("mc_", "meter_")):
            return self.cli(text)
        if word == "time":
            return time.sleep(seconds(text))
        raise Failure(f"unknown statement: {text}")

    def register(self, name, index):
        return number(self.cli(f"register_read {name} {index}"), r"= (-?\d+)") % 2**64

    def counter(self, name, index):
        return number(self.cli(f"counter_read {name} {index}"), r"(\d+) packets")

    def close(self):
        """Closes CLI and packet socket of a working switch. `end` terminates the process in any state."""
        self.cli.close()
        self.wire.close()

    def end(self):
        self.process.terminate()
        self.process.wait()


def seconds(text):
    """Returns the seconds of a statement such as `time 40us`."""
    amount, unit = re.fullmatch(r"time ([\d.]+)(s|ms|us|ns)", text).groups()
    return float(amount) * {"s": 1, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}[unit]


def number(text, pattern):
    return int(re.search(pattern, text).group(1))


class Run:
    def __init__(self, path, options, directory):
        self.lines = list(statements(path.read_text()))
        log = options.log and pathlib.Path(options.log).resolve() / f"{path.parent.name}-{path.stem}"
        self.switch = Switch(options, PROGRAMS / f"{path.parent.name}.json", directory, log)
        self.expected = {}

    def step(self, text):
        word = text.split()[0]
        if word == "packet":
            _, port, data = text.split(None, 2)
            self.switch.wire.send(int(port), bytes.fromhex(data.replace(" ", "")))
            self.dirty = True
            return
        if word == "expect":
            _, port, data = text.split(None, 2)
            self.expected.setdefault(int(port), []).append(data.replace(" ", ""))
            return
        if self.dirty and word != "time":
            self.switch.wire.collect(SETTLE_S)
            self.dirty = False
        if word == "wait":
            self.switch.wire.collect(SETTLE_S)
        elif word == "time":
            end = time.monotonic() + seconds(text)
            while (remaining := end - time.monotonic()) > 0:
                self.switch.wire.collect(min(remaining, SETTLE_S))
        elif word == "register_check":
            _, name, index, value = text.split()
            got = self.switch.register(name, index)
            if got != int(value, 0):
                raise Failure(f"{name}[{index}]: expected {value}, found {got}")
        elif word == "check_counter":
            name, index, value = re.fullmatch(r"check_counter (\w+)\((\d+)\) packets == (\d+)", text).groups()
            got = self.switch.counter(name, index)
            if got != int(value):
                raise Failure(f"{name}({index}): expected {value}, found {got}")
        else:
            self.switch.control(text)

    def check_outputs(self):
        for port in sorted({*self.expected, *self.switch.wire.frames}):
            got, expected = self.switch.wire.frames.get(port, []), self.expected.get(port, [])
            for number, (want, frame) in enumerate(zip(expected, got), start=1):
                if not matches(want, frame):
                    raise Failure(f"port {port}, packet {number}:\n  expected {want}\n  got      {frame}")
            if len(got) != len(expected):
                raise Failure(f"port {port}: expected {len(expected)} packets, got {len(got)}: {got[len(expected):]}")

    def run(self):
        self.dirty = False
        try:
            for line, text in self.lines:
                try:
                    self.step(text)
                except Failure as failure:
                    raise Failure(f"line {line}: {failure}") from None
            self.switch.wire.collect(SETTLE_S)
            self.switch.close()
        finally:
            self.switch.end()
        self.check_outputs()


def needs_embedded_switch(path):
    """Returns whether the heading of a test, possibly wrapped, says "embedded switch only"."""
    return "embedded switch only" in re.sub(r"\s*\n#\s*", " ", path.read_text())


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--switch", default="simple_switch")
    parser.add_argument("--cli", default="simple_switch_CLI")
    parser.add_argument("--log", help="directory for simple_switch's logs")
    parser.add_argument("tests", nargs="+", type=pathlib.Path)
    options = parser.parse_args()
    failed = skipped = 0
    for path in options.tests:
        if needs_embedded_switch(path):
            skipped += 1
            continue
        try:
            with tempfile.TemporaryDirectory() as directory:
                Run(path.resolve(), options, directory).run()
        except Failure as failure:
            failed += 1
            print(f"FAIL {path}: {failure}")
    print(f"{len(options.tests) - failed - skipped} passed, {failed} failed, {skipped} skipped")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
