"""Tests of the traffic and of the comparison of judge.py, without BMv2."""

import itertools
import unittest

import judge
import wire
from traffic import BARRIER_PORTS, CPU, DEFLECTS, Traffic, barrier, frame_bytes


def stream(program="fncc", seed="1 0", packets=2000):
    return list(Traffic(program, seed).steps(packets))


class TrafficTest(unittest.TestCase):
    def test_the_same_seed_gives_the_same_traffic(self):
        self.assertEqual(stream(), stream())
        self.assertNotEqual(stream(), stream(seed="1 1"))
        self.assertNotEqual(stream(), stream(program="hpcc"))

    def test_traffic_contains_every_kind_of_packet(self):
        packets = [(port, frame) for kind, port, *rest in stream() if kind == "packet" for frame in rest]
        self.assertEqual(len(packets), 2000)
        ip = [frame for port, frame in packets if port != CPU and len(frame) > 66 and frame[12:14] == b"\x08\x00"]
        weir = [frame for frame in ip if frame[14] == 0x45 and frame[23] == wire.UDP
                and wire.WEIR_PORT.to_bytes(2, "big") in (frame[34:36], frame[36:38])]
        required = {
            "every kind": {frame[42] & 15 for frame in weir} >= set(range(8)),
            "POLICY to the group, and not": {frame[30:34] == wire.POLICY_IP.to_bytes(4, "big") for frame in weir
                                             if frame[42] == 0x17} == {True, False},
            "every flag": {bit for frame in weir for bit in range(8) if frame[43] >> bit & 1} == set(range(8)),
            "hops to the limit and beyond": {frame[48] >> 4 for frame in weir} >= {0, 1, 7, 8, 9, 15},
            "other versions": any(frame[42] >> 4 != 1 for frame in weir),
            "both directions": any(frame[34:36] == b"\x57\x45" for frame in weir) and any(frame[36:38] == b"\x57\x45" for frame in weir),
            "TTL 0, 1 and 2": {frame[22] for frame in ip} >= {0, 1, 2},
            "options": any(frame[14] & 15 > 5 for frame in ip),
            "fragments": any(frame[20] & 0x3F or frame[21] for frame in ip),
            "wrong and right checksums": {wire.csum16(frame[14:34]) == 0 for frame in ip if frame[14] == 0x45} == {True, False},
            "other protocols": {wire.TCP, wire.ICMP} <= {frame[23] for frame in ip},
            "not IP": any(frame[12:14] == b"\x88\xb5" for _, frame in packets),
            "packet-outs": any(port == CPU for port, _ in packets),
            "frames too short for anything": any(len(frame) < 14 for _, frame in packets),
        }
        self.assertEqual([what for what, is_present in required.items() if not is_present], [])

    def test_statements_are_supported(self):
        for seed in range(4):
            traffic = Traffic("hpcc", seed)
            words = {line.split()[0] for line in traffic.tables()}
            self.assertEqual(words, {"add", "setdefault", "mc_mgrp_create", "mc_node_create", "mc_node_associate",
                                     "meter_set_rates"})
            states = [step[1] for step in itertools.islice(traffic.steps(200), 200) if step[0] == "state"]
            self.assertTrue(all(line.startswith("register_write ") for line in states))
            self.assertFalse(any("all_int_table" in line for line in states))

    def test_deflected_flows_have_several_packets(self):
        for program in DEFLECTS:
            with self.subTest(program):
                self.check_flows(program)

    def check_flows(self, program):
        packets = [frame for kind, _, *rest in stream(program) if kind == "packet" for frame in rest]
        # Source, message and tokens of complete DATA packets with START or END.
        data = [frame for frame in packets if len(frame) >= 66 and frame[12:15] == b"\x08\x00\x45" and frame[42] == 0x10]
        flows = {flag: {(frame[26:30], frame[50:54], frame[44] >> 4) for frame in data if frame[43] & flag and frame[44] >> 4}
                 for flag in (wire.START, wire.END)}
        self.assertGreater(len(flows[wire.START] & flows[wire.END]), 20)

    def test_barrier_frames_are_unique(self):
        frames = {frame for port in BARRIER_PORTS for serial in (0, 1) for frame in barrier(port, serial)}
        self.assertEqual(len(frames), 2 * 2 * len(BARRIER_PORTS))
        sent, left = barrier(13, 5)
        self.assertEqual((sent[22], left[22], sent[33]), (64, 63, 13))
        self.assertEqual(wire.csum16(left[14:34]), 0)


class ComparisonTest(unittest.TestCase):
    def grown(self, records, **more):
        return frame_bytes(wire.weir_frame(kind=wire.ACK, records=records, int_hops=len(records) // 16, **more))

    def test_only_the_time_of_an_added_record_is_masked(self):
        old, new = "1222222333334444", "a123456b1234c1234"[:16]
        sent, left = self.grown(old), self.grown(new + old)
        text = judge.masked("fncc", sent, left)
        self.assertEqual(text.count("*"), 6)
        self.assertIn("a******" + new[7:] + old, text)
        self.assertEqual(text.replace("*", "0"), left.hex().replace("a123456", "a000000"))
        self.assertEqual(judge.masked("fncc", left, left), left.hex(), "nothing was added")

    def test_other_frames_are_compared_completely(self):
        sent = frame_bytes(wire.plain_frame(wire.ICMP, b"12345678"))
        self.assertNotIn("*", judge.masked("hpcc", sent, sent))
        # 8 bytes longer, but not IPv4.
        self.assertNotIn("*", judge.masked("hpcc", b"\0" * 20, b"\0" * 28))


if __name__ == "__main__":
    unittest.main()
