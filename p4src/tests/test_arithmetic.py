"""Tests of the programs' fixed-point arithmetic against exact arithmetic, and of committed files that must agree."""

import itertools
import pathlib
import random
import re
import struct
import unittest

import laws
import make_stf
import stf
import wire

HERE = pathlib.Path(__file__).resolve().parent
P4SRC = HERE.parent
WORD = 2**32


def constant(text, name):
    """Returns a number from the P4 source, so that the test uses the compiled value."""
    return int(re.search(name, (P4SRC / text).read_text()).group(1))


class QueueUnits(unittest.TestCase):
    """QUEUE_UNITS of controls/queue_bytes.p4: bytes / 80, at most 65535."""

    FACTOR = constant("controls/queue_bytes.p4", r">> 4\) \* (\d+)\)")
    SHIFT = constant("controls/queue_bytes.p4", r"\* \d+\) >> (\d+)\)")
    SATURATION_BIAS = WORD - 1 - (65536 * 80 - 1)

    def units(self, bytes_):
        saturated = min(bytes_ + self.SATURATION_BIAS, WORD - 1) - self.SATURATION_BIAS
        product = (saturated >> 4) * self.FACTOR
        self.assertLess(product, 2**64)
        return product >> self.SHIFT & 0xFFFF

    def test_exact_for_every_value_that_does_not_saturate(self):
        for sixteenth in range(65536 * 5):
            # all 16 values of x with the same x >> 4 give the same result, and x / 80 changes at none of them
            self.assertEqual(self.units(sixteenth << 4), sixteenth // 5)

    def test_edges_of_units_and_saturation(self):
        edges = {0, 1, 79, 80, 81, 5242799, 5242800, 5242879, 5242880, 5242881, 2**31 - 1, 2**31, WORD - 80, WORD - 1}
        for bytes_ in edges:
            self.assertEqual(self.units(bytes_), min(bytes_ // 80, 65535), bytes_)

    def test_the_factor_would_be_exact_for_all_32_bits(self):
        error = 5 * self.FACTOR - 2**self.SHIFT
        self.assertTrue(0 < error * (WORD >> 4) < 2**self.SHIFT)


class TxUnits(unittest.TestCase):
    """TX_UNITS: the 20 bits of a record wrap consistently with the 32-bit register."""

    def test_differences_are_right_across_both_wraps(self):
        for start, sent in itertools.product((0, 2**27 - 1, WORD - 128, WORD - 1), (0, 128, 1500, 2**26)):
            before, after = start % WORD, (start + sent) % WORD
            difference = (wire.tx_units(after) - wire.tx_units(before)) % 2**20
            self.assertIn(difference - sent // 128, (0, 1), (start, sent))


class Hashes(unittest.TestCase):
    """The hashes of wire.py are the standard ones; the path hash is symmetric, and its slices are independent."""

    def test_crc16_check_value(self):
        self.assertEqual(wire.crc16(b"123456789"), 0xBB3D)

    def test_the_path_hash_is_symmetric(self):
        a, b = wire.IP["h1"], wire.IP["far"]
        self.assertEqual(wire.path_hash(a, b, 17, 4791, 22341), wire.path_hash(b, a, 17, 22341, 4791))
        self.assertEqual(wire.path_hash(a, b, 1), wire.path_hash(b, a, 1))
        self.assertNotEqual(wire.path_hash(a, b, 17, 4791, 22341), wire.path_hash(a, b, 6, 4791, 22341))

    def test_tiers_are_independent(self):
        """Flows that chose the same member in one tier spread evenly over the members of the next."""
        size, flows = 4, 16000
        hosts = [0x0A000000 | pod << 16 | edge << 8 | host for pod, edge, host in itertools.product(range(4), range(4), range(2, 6))]
        pairs = [(a, b) for a, b in itertools.permutations(hosts, 2)]
        words = [wire.path_hash(*pairs[n % len(pairs)], 17, 1024 + n * 7 % 64000, 22341) for n in range(flows)]
        for first, second in ((0, 8), (0, 16), (8, 16)):
            table = [[0] * size for _ in range(size)]
            for word in words:
                table[wire.member_index(word, first, size)][wire.member_index(word, second, size)] += 1
            expected = flows / size**2
            for count in itertools.chain(*table):
                self.assertAlmostEqual(count / expected, 1, delta=0.25, msg=f"slices {first}, {second}: {table}")

    def test_a_salt_would_not_make_tiers_independent(self):
        """The reason for slices: a CRC is linear, so a salt only XORs a constant."""
        crc = lambda word, salt: wire.crc16(struct.pack("!II", salt, word))
        differences = {crc(word, 1) ^ crc(word, 2) for word in range(1000)}
        self.assertEqual(len(differences), 1)


class Laws(unittest.TestCase):
    """The integer laws against the equations of the papers."""

    def test_rocc(self):
        rng = random.Random(1)
        row = laws.rocc_row(100_000_000, 500_000, 40_000, 2**32 // 40_000)
        for _ in range(20_000):
            rate, queue, old = rng.randrange(100_000, 100_000_001), rng.randrange(1, 900_000), rng.randrange(900_000)
            paper = laws.rocc(rate, queue, old, line=100_000_000, sent=500_000)
            self.assertTrue(laws.close(laws.rocc_integers(row, rate, queue, old, 40_000), paper, 1e-6), (rate, queue, old))

    def test_rcp(self):
        rng = random.Random(1)
        for line, rtt in ((10_000_000, 20_000), (100_000_000, 12_240), (400_000_000, 6_000)):
            row = laws.rcp_row(line, rtt, rtt)
            for _ in range(5_000):
                elapsed = rng.randrange(rtt, 3 * rtt)
                max_bytes = line * 1000 / 8 * elapsed / 1e9
                rate, arrived = rng.randrange(line // 1000, line), rng.randrange(int(3 * max_bytes))
                queue = rng.randrange(int(2 * max_bytes))
                paper = laws.rcp(rate * 1000, arrived, queue, elapsed / 1e9, line=line * 1000, rtt=rtt / 1e9) / 1000
                found = laws.rcp_integers(row, rate, arrived, queue, elapsed)
                # Fractions have 16 bits, both of the rate and of its maximum change.
                self.assertLess(abs(found - paper), 2 + 1e-3 * max(rate, paper), (line, rate, arrived, queue, elapsed))


class Consistency(unittest.TestCase):
    """Definitions in several files must be equal."""

    def test_reasons_and_events(self):
        text = (P4SRC / "include/reasons.p4").read_text()
        for prefix, table in (("DROP", stf.REASONS), ("EVENT", stf.EVENTS)):
            found = re.findall(rf"const \w+ {prefix}_(\w+)\s*= (\d+);", text)
            self.assertEqual({name.lower(): int(number) for name, number in found if name != "NONE"}, table)

    def test_the_example_stf_files_are_those_generated(self):
        examples = make_stf.examples()
        self.assertEqual({path.parent.name for path in examples}, make_stf.PROGRAMS.keys(), "one example a program, at least")
        for path, text in examples.items():
            self.assertEqual(path.read_text(), text, f"{path}: outdated; run p4src/tests/make_stf.py")


if __name__ == "__main__":
    unittest.main()
