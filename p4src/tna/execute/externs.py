"""TNA's externs: registers, counters, hashes, checksums, meters and random numbers. Values are integers."""

import zlib

from text import UnsupportedError


def pack_bits(fields):
    """Returns (value, width) pairs as bytes, the first field first, padded with zero bits in front to whole bytes."""
    value = bits = 0
    for field, width in fields:
        value, bits = value << width | field, bits + width
    return value.to_bytes((bits + 7) // 8, "big")


def crc16(data):
    """CRC-16/ARC, the compiler's default for CRC16."""
    crc = 0
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0xA001 if crc & 1 else 0)
    return crc


def ones_complement_sum(fields):
    data = pack_bits(fields)
    total = sum(int.from_bytes(data[at : at + 2], "big") for at in range(0, len(data), 2))
    while total > 0xFFFF:
        total = (total & 0xFFFF) + (total >> 16)
    return total


class Hash:
    ALGORITHMS = {"CRC32": zlib.crc32, "CRC16": crc16}

    def __init__(self, algorithm, width):
        if algorithm not in self.ALGORITHMS:
            raise UnsupportedError(f"unsupported hash {algorithm}")
        self.algorithm, self.mask = self.ALGORITHMS[algorithm], (1 << width) - 1

    def get(self, fields):
        return self.algorithm(pack_bits(fields)) & self.mask


class Checksum:
    """In a parser: `add`, then `verify`, once per packet. In a deparser: `update`."""

    def add(self, fields):
        self.fields = fields

    def verify(self):
        """Returns True if the checksum is wrong, as TNA programs expect."""
        return ones_complement_sum(self.fields) != 0xFFFF

    @staticmethod
    def update(fields):
        return ones_complement_sum(fields) ^ 0xFFFF


class Counter:
    def __init__(self, size):
        self.size, self.packets = size, {}

    def count(self, index):
        if index >= self.size:
            raise UnsupportedError(f"index {index} of a counter with size {self.size}")
        self.packets[index] = self.packets.get(index, 0) + 1


class Register:
    def __init__(self, size, initial):
        self.size, self.initial = size, initial
        self.reset()

    def reset(self):
        self.cells = {}

    def read(self, index):
        if index >= self.size:
            raise UnsupportedError(f"index {index} of a register with size {self.size}")
        return self.cells.get(index, self.initial)


class RegisterAction:
    """Reads, computes and writes one cell. `value` and `result` are the paths of the action's parameters: the cell, and the
    value that execute returns. `fields` are the fields of a struct cell."""

    def __init__(self, register, run, value, result, fields):
        self.register, self.run, self.value, self.result = register, run, value, result
        self.fields = fields

    def execute(self, packet, index):
        cell = self.register.read(index)
        if self.fields:
            packet.update((f"{self.value}.{field}", cell[field]) for field in self.fields)
        else:
            packet[self.value] = cell
        packet[self.result] = 0
        self.run(packet)
        if self.fields:
            cell = {field: packet[f"{self.value}.{field}"] for field in self.fields}
        else:
            cell = packet[self.value]
        self.register.cells[index] = cell
        return packet[self.result]


class RegisterParam:
    def __init__(self, value):
        self.value = value

    def read(self):
        return self.value


class Random:
    def __init__(self, width, rng):
        self.width, self.rng = width, rng

    def get(self):
        return self.rng.getrandbits(self.width)


class Meter:
    """A token bucket for each entry of a table (RFC 2698 with equal rates): green is 0, red is 3."""

    def __init__(self):
        self.buckets, self.entry = {}, None

    def set(self, entry, bytes_per_ns, burst, now):
        self.buckets[entry] = [bytes_per_ns, burst, burst, now]

    def execute(self, length, now):
        if self.entry not in self.buckets:
            return 0
        rate, burst, level, then = self.buckets[self.entry]
        level = min(burst, level + rate * (now - then))
        green = level >= length
        self.buckets[self.entry] = [rate, burst, level - length if green else level, now]
        return 0 if green else 3
