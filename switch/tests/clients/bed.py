"""A `weir switch` process for the tests with third-party P4Runtime clients."""

import os
import pathlib
import signal
import subprocess
import sys

PROGRAMS = pathlib.Path(__file__).resolve().parent.parent / "programs"
P4INFO = str(PROGRAMS / "p4runtime.p4info.txtpb")
JSON = str(PROGRAMS / "p4runtime.json")
CPU_PORT = 255
DEVICE = 1


class Switch:
    """The process, without interfaces, on a free port. It is stopped when the block is left."""

    def __enter__(self):
        command = [os.environ["WEIR"], "switch", "--no-p4", "--device-id", str(DEVICE)]
        command += ["--", "--grpc-server-addr", "127.0.0.1:0", "--cpu-port", str(CPU_PORT)]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        line = self.process.stdout.readline()
        if not line.startswith("Server listening on "):
            self.process.kill()
            raise RuntimeError(f"unexpected output of weir switch: {line!r}")
        self.address = line.split()[-1]
        return self

    def __exit__(self, *_):
        self.process.send_signal(signal.SIGINT)
        try:
            status = self.process.wait(timeout=20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            raise
        if status != 0:
            raise RuntimeError(f"weir switch ended with {status}")


def frame(destination, source, ethertype=0x88B5):
    """An Ethernet frame."""
    return destination.to_bytes(6, "big") + source.to_bytes(6, "big") + ethertype.to_bytes(2, "big") + bytes(46)


def mac(number):
    """Formats a MAC address."""
    return ":".join(f"{byte:02x}" for byte in number.to_bytes(6, "big"))


def report(passed, failed):
    """Prints the last line, which `.ci/test` parses, and exits."""
    word = "FAILED" if failed else "ok"
    print(f"test result: {word}. {passed} passed; {failed} failed; 0 ignored")
    sys.exit(1 if failed else 0)
