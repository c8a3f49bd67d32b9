"""Tests of behaviour that only the TNA programs have (docs/tofino.md, Mechanisms), with the executor."""

import unittest
import zlib

import cases_dart
import cases_fncc
import cases_hpcc
import cases_shared
import tna_stf
import wire
from cases_dart import LIMIT, OTHER, WAY, crowded, deflected, passes
from stf import EVENTS, Stf
from switch import CELL, MAX_DEPTH, Switch
from tna_stf import BRIDGE_BYTES, Test, units
from traffic import frame_bytes
from wire import ACK, DATA, END, ESCAPE, START, TELEMETRY, length, weir_frame

IMAGES = list(tna_stf.programs())
RECORD = slice(66, 74)               # position of the first record in a frame


def images(*programs):
    return [image for image in IMAGES if image[0] in programs]


def switch_after(text, chip, stf):
    """Returns a test whose switch has executed the statements of `stf`."""
    test = Test(Switch(text, chip), "own")
    test.run(tna_stf.statements(stf.text()))
    return test


def record_of(frame):
    """Returns (rate code, time, txBytes, qLen) of the first record of a frame."""
    word = int.from_bytes(frame[RECORD], "big")
    return word >> 60, word >> 36 & 0xFFFFFF, word >> 16 & 0xFFFFF, word & 0xFFFF


def cells(frame, chip):
    return -(-(length(frame) + BRIDGE_BYTES) // CELL[chip])


class OwnTest(unittest.TestCase):
    def assert_passes(self, stf, *programs):
        for program, chip, text in images(*programs):
            with self.subTest(program=program, chip=chip):
                tna_stf.run(text, chip, "own", stf.text())

    # Forwarding -------------------------------------------------------------------------------

    def test_supported_slices_and_numbers_of_trees_select_paths(self):
        everywhere = ("ecn", "weir")
        for slice_ in (0, 16):
            self.assert_passes(cases_shared.forwarding_symmetric(slice_), *everywhere)
        self.assert_passes(cases_shared.forwarding_slices((0, 16)), *everywhere)
        for trees in (2, 4):
            self.assert_passes(cases_shared.forwarding_trees(trees), *everywhere)

    # Queues -----------------------------------------------------------------------------------

    def test_a_longer_queue_never_reports_less(self):
        for _, chip, text in images("hpcc"):
            test = switch_after(text, chip, cases_hpcc.start("", priority=1))
            found = []
            for depth in (0, 1, 2, 3, 100, 16383, 29_000, 29_959, 32_767, 32_768, 40_000, 65_535, 65_536, MAX_DEPTH):
                test.switch.background_cells[2] = depth
                test.do(f"packet 1 {wire.text(weir_frame(kind=DATA, flags=TELEMETRY))}")
                found.append(record_of(test.switch.sent[2][-1])[3])
                self.assertEqual(found[-1], units(depth, chip), f"{depth} cells")
            self.assertEqual(found, sorted(found))
            self.assertEqual(found[-1], 65_535)

    def test_marking_probability_is_a_step_function(self):
        for _, chip, text in images("ecn"):
            stf = Stf("")
            stf.via("h2", 2)
            stf.classify(DATA, 1)
            test = switch_after(text, chip, stf)
            test.entry("port_profile", {"profile_port": 2}, "profile", {"rate_code": 12, "ecn_ramp": 7, "fabric": 0})
            steps = {(1000, 1999): 16384, (2000, 2999): 49152, (3000, 65535): None}
            for depths, probability in steps.items():
                action = ("mark_always", {}) if probability is None else ("mark_with", {"probability": probability})
                test.entry("ecn_ramp", {"ramp": 7, "depth": depths}, *action)
            for depth, low, high in ((0, 0, 0), (400, 0, 0), (900, 60, 140), (1300, 260, 340), (30_000, 400, 400)):
                # Equal depth in units of both chips.
                test.switch.background_cells[2] = depth * 80 * 2 // CELL[chip]
                if not low and depth:
                    test.switch.background_cells[2] //= 2
                test.switch.sent.clear()
                for _ in range(400):
                    test.do(f"packet 1 {wire.text(weir_frame(kind=DATA, ecn=2))}")
                marked = sum(frame[15] & 3 == wire.CE for frame in test.switch.sent[2])
                self.assertTrue(low <= marked <= high, f"chip {chip}, depth {depth}: {marked} of 400 are marked")

    # FNCC -------------------------------------------------------------------------------------

    def test_an_ack_reads_the_depth_at_the_last_departure(self):
        stf = cases_fncc.start("", ack_priority=1)
        data = dict(kind=DATA, payload=bytes(1000))
        size = length(weir_frame(**data))
        stf.register("queue_bytes", 2, 17600)
        stf.packet(1, weir_frame(**data))
        stf.expect(2, weir_frame(**data, path_id=1, ttl=63))
        stf.register("queue_bytes", 2, 0)
        for _ in range(2):
            stf.packet(2, cases_fncc.ack())
            stf.expect(1, cases_fncc.answered(tx=size, queue=17600))
        self.assert_passes(stf, "fncc", "weir")

    def test_acks_write_no_entry_but_are_counted_in_the_next(self):
        stf = cases_fncc.start("")
        grown = length(cases_fncc.ack()) + 8
        there = dict(kind=ACK, flags=TELEMETRY)

        def reads(tx):
            stf.packet(1, weir_frame(**there))
            stf.expect(2, weir_frame(**there, records=wire.record(cases_fncc.RATE_BACK, wire.tx_units(tx), 0), int_hops=1,
                                     path_id=1, ttl=63))

        for _ in range(2):
            stf.packet(2, cases_fncc.ack())
            stf.expect(1, cases_fncc.answered(tx=0))
            stf.line("register_reset all_int_table")
        reads(0)
        plain = cases_fncc.BACK | dict(kind=ACK, flags=0)
        stf.packet(2, weir_frame(**plain))
        stf.expect(1, weir_frame(**plain, path_id=1, ttl=63))
        reads(2 * grown + length(weir_frame(**plain)))
        self.assert_passes(stf, "fncc", "weir")

    def test_packets_queued_since_the_last_departure_are_not_in_the_entry(self):
        for _, chip, text in images("fncc", "weir"):
            stf = cases_fncc.start("")
            stf.hold(2, weir_frame(kind=wire.NACK))
            waits = [weir_frame(kind=DATA, payload=bytes(size)) for size in (900, 500, 300)]
            for frame in waits:
                stf.packet(1, frame)
            test = Test(Switch(text, chip), "own")
            for line in tna_stf.statements(stf.text()):
                test.do(line[1])
            for behind in ([], waits[1:], waits[2:]):
                test.do(f"packet 2 {wire.text(cases_fncc.ack())}")
                _, _, _, queue = record_of(test.switch.sent[1][-1])
                self.assertEqual(queue, units(sum(cells(frame, chip) for frame in behind), chip))
                test.do("time 1100ms")

    # Deflection -------------------------------------------------------------------------------

    def flows_of_one_cell(self):
        """Returns two messages with different digests that select the same cell."""
        cells = {}
        for message in range(1, 10_000):
            key = (wire.IP["h1"] << 36 | message << 4 | 4).to_bytes(9, "big")
            other = cells.setdefault(zlib.crc32(key) & 0xFFF, message)
            if other != message:
                return other, message
        self.fail("no two messages select one cell")

    def test_a_cell_is_claimed_kept_and_released(self):
        first, second = self.flows_of_one_cell()
        stf = cases_dart.start("")
        crowded(stf, 2 * LIMIT)
        deflected(stf, flags=START, message=first)
        stf.note("The other flow takes its route, and so does all that follows its START. It frees nothing.")
        for flags in (START, 0, END):
            passes(stf, WAY, flags=flags, message=second)
            crowded(stf, 2 * LIMIT)
        deflected(stf, flags=0, message=first)
        deflected(stf, flags=END, message=first)
        passes(stf, WAY, flags=0, message=first)
        stf.note("The cell is free: now the other has it.")
        crowded(stf, 2 * LIMIT)
        deflected(stf, flags=START, message=second)
        deflected(stf, flags=END, message=second)
        stf.counted("deflected", 5)
        self.assert_passes(stf, "dart", "weir")

    def test_an_idle_cell_is_claimed_after_its_lifetime(self):
        first, second = self.flows_of_one_cell()
        stf = cases_dart.start("", lifetime=1_000_000)
        crowded(stf, 2 * LIMIT)
        deflected(stf, flags=START, message=first)
        stf.line("time 1ms")
        stf.note("as old as its lifetime, not older; its own packet renews it")
        crowded(stf, 2 * LIMIT)
        passes(stf, WAY, flags=START, message=second)
        deflected(stf, flags=0, message=first)
        stf.line("time 1000001ns")
        crowded(stf, 2 * LIMIT)
        deflected(stf, flags=START, message=second)
        passes(stf, WAY, flags=0, message=first)
        deflected(stf, flags=0, message=second)
        self.assert_passes(stf, "dart", "weir")

    def test_consecutive_messages_select_different_cells(self):
        stf = cases_dart.start("")
        for message in range(64):
            crowded(stf, 2 * LIMIT)
            deflected(stf, flags=START, message=message)
        for message in range(64):
            deflected(stf, flags=END, message=message)
        self.assert_passes(stf, "dart", "weir")

    def test_records_of_a_deflected_message_are_of_its_new_port(self):
        stf = cases_fncc.start("")
        stf.profile(3, cases_fncc.RATE_BACK)
        stf.deflect(2, LIMIT, [3])
        stf.escape(4)
        message = dict(kind=DATA, flags=TELEMETRY | START, tokens=4)
        stf.register("queue_bytes", 2, 2 * LIMIT)
        stf.packet(1, weir_frame(**message))
        message |= dict(flags=TELEMETRY | START | ESCAPE, tokens=3)
        stf.expect(3, weir_frame(**message, records=wire.record(cases_fncc.RATE_BACK, 0, 0), int_hops=1, path_id=1, ttl=63))
        self.assert_passes(stf, "weir")

    def deflects(self, test):
        """Returns whether a single-packet message towards port WAY is deflected."""
        before = test.switch.counter_sum("events", EVENTS["deflected"])
        test.switch.receive(1, frame_bytes(weir_frame(kind=DATA, flags=START | END, tokens=4)))
        return test.switch.counter_sum("events", EVENTS["deflected"]) != before

    def test_ingress_uses_the_depth_that_egress_has_reported(self):
        for program, chip, text in images("dart", "weir"):
            with self.subTest(program=program, chip=chip):
                test = switch_after(text, chip, cases_dart.start(""))
                test.do(f"queue_rate 1 {WAY}")
                depth = lambda: test.switch.extern("waiting").read(WAY)
                fill = frame_bytes(weir_frame(kind=DATA, payload=bytes(60)))
                for _ in range(101):
                    test.switch.receive(1, fill)
                self.assertEqual(depth(), 0, "the first packet left an empty queue, the others were not reported")
                self.assertFalse(self.deflects(test), "100 packets are queued, but not reported to ingress")
                test.do("time 1s")
                waits = 100 * cells(weir_frame(payload=bytes(60)), chip)
                self.assertEqual(depth(), units(waits, chip), "reported by the packet that left")
                self.assertTrue(self.deflects(test))
                known, reports = depth(), 0
                for _ in range(100):
                    test.do("time 1s")
                    reports += depth() != known
                    known = depth()
                self.assertEqual(known >> 6, 0)
                # One report for each multiple of 64 units that the depth crosses.
                self.assertEqual(reports, units(waits, chip) >> 6)
                self.assertFalse(self.deflects(test))
                self.assertEqual(test.switch.sent.keys() - {WAY, OTHER}, set(), "reports are not sent to a port")

    def test_without_a_session_nothing_is_reported(self):
        for program, chip, text in images("dart", "weir"):
            with self.subTest(program=program, chip=chip):
                test = switch_after(text, chip, cases_dart.start(""))
                table = test.switch.table("report")
                table.default = table.first_default
                test.switch.background_cells[WAY] = 20_000
                test.do("add traffic_class kind:2 express:0 classify(priority:1)")
                test.switch.receive(1, frame_bytes(weir_frame(kind=wire.NACK)))
                self.assertEqual(test.switch.extern("waiting").read(WAY), 0)
                self.assertFalse(self.deflects(test))


if __name__ == "__main__":
    unittest.main()
