"""Frames of switch/tests/programs/live.p4."""

import dataclasses
import struct

ETHER_TYPE = 0x88B5
HEADER = struct.Struct(">HIBBIII6s6s")
START, QUEUE = 14, 22
END = START + HEADER.size
# Destination addresses of markers: this number plus the port.
MARKERS = 0xFF00


def frame(dst, src=0, kind=0, serial=0, size=60):
    head = dst.to_bytes(6, "big") + src.to_bytes(6, "big") + ETHER_TYPE.to_bytes(2, "big")
    return (head + HEADER.pack(kind, serial, 0, 0, 0, 0, 0, bytes(6), bytes(6))).ljust(size, b"\x5a")


@dataclasses.dataclass
class Probe:
    """The fields that the program writes to a frame. Times are in us."""

    kind: int
    serial: int
    colour: int
    instance: int
    enq_qdepth: int
    deq_qdepth: int
    waited: int
    came: int
    left: int


def parse(octets):
    *numbers, came, left = HEADER.unpack_from(octets, START)
    return Probe(*numbers, int.from_bytes(came, "big"), int.from_bytes(left, "big"))


def timeless(octets):
    """Returns the frame without the fields that depend on the clock and the queue."""
    return octets[:QUEUE] + octets[END:]
