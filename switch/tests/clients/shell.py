"""p4runtime-shell (PyPI) drives `weir switch`: WEIR=.../weir python shell.py"""

import time
import unittest

import bed
import grpc
import p4runtime_sh.shell as sh
from p4runtime_sh.p4runtime import P4RuntimeWriteException

switch = None


def l2(destination, action, **parameters):
    entry = sh.TableEntry("TheIngress.l2")(action=f"TheIngress.{action}")
    entry.match["hdr.ethernet.dst"] = bed.mac(destination)
    for name, value in parameters.items():
        entry.action[name] = str(value)
    return entry


def through_tables(destination, source, ethertype=0x88B5):
    packet = sh.PacketOut(bed.frame(destination, source, ethertype))
    packet.metadata["egress_port"] = "0"
    packet.metadata["tables"] = "1"
    packet.metadata["pad"] = "0"
    packet.send()


def wait_until(condition, what):
    end = time.monotonic() + 10
    while not condition():
        if time.monotonic() > end:
            raise AssertionError(what)
        time.sleep(0.01)


class Shell(unittest.TestCase):
    def setUp(self):
        config = sh.FwdPipeConfig(bed.P4INFO, bed.JSON)
        sh.setup(device_id=bed.DEVICE, grpc_addr=switch.address, election_id=(0, 1), config=config, verbose=False)

    def tearDown(self):
        sh.teardown()

    def refused(self, change, code, text):
        with self.assertRaises(P4RuntimeWriteException) as caught:
            change()
        message = str(caught.exception)
        self.assertIn(code, message)
        self.assertIn(text, message)

    def test_pipeline_push(self):
        self.assertIn("TheIngress.l2", [table.name for table in sh.P4Objects(sh.P4Type.table)])
        self.assertEqual(sh.client.api_version(), "1.5.0")
        l2(1, "forward", port=3).insert()
        sh.client.set_fwd_pipe_config(bed.P4INFO, bed.JSON)
        self.assertEqual(list(l2(1, "forward", port=3).read()), [])

    def test_table_entries(self):
        entry = l2(1, "forward", port=3)
        entry.insert()
        self.refused(entry.insert, "ALREADY_EXISTS", "has this entry")
        entry.action["port"] = "4"
        entry.modify()
        found = list(sh.TableEntry("TheIngress.l2").read())
        self.assertEqual([found[0].action["port"].value, len(found)], [b"\x04", 1])
        entry.delete()
        self.refused(entry.delete, "NOT_FOUND", "has no such entry")
        acl = sh.TableEntry("TheIngress.acl")(action="TheIngress.deny", priority=7)
        acl.match["hdr.ethernet.src"] = "00:00:00:00:00:10&&&00:00:00:00:00:f0"
        acl.match["hdr.ethernet.type"] = "0x800..0x8ff"
        acl.match["std.ingress_port"] = "5"
        acl.insert()
        self.assertEqual([entry.priority for entry in sh.TableEntry("TheIngress.acl").read()], [7])
        route = sh.TableEntry("TheIngress.routes")(action="TheIngress.via")
        route.match["hdr.ethernet.dst"] = "02:00:00:00:00:00/16"
        route.action["port"] = "1"
        route.action["mac"] = "02:00:00:00:00:01"
        route.insert()
        self.assertEqual(len(list(sh.TableEntry("TheIngress.routes").read())), 1)

    def test_wrong_writes(self):
        update = sh.p4runtime_pb2.Update()
        update.type = sh.p4runtime_pb2.Update.INSERT
        entry = update.entity.table_entry
        entry.table_id = 5
        self.refused(lambda: sh.client.write_update(update), "INVALID_ARGUMENT", "there is no table 0x00000005")
        wide = l2(1, "forward", port=3)
        wide._update_msg()
        entry.CopyFrom(wide.msg())
        update.entity.table_entry.action.action.params[0].value = b"\x02\x00"
        self.refused(lambda: sh.client.write_update(update), "INVALID_ARGUMENT", "does not fit 9 bits")

    def test_action_profile(self):
        for number in (1, 2):
            member = sh.ActionProfileMember("TheIngress.next_hops")(member_id=number, action="TheIngress.via")
            member.action["port"] = str(number)
            member.action["mac"] = bed.mac(number)
            member.insert()
        group = sh.ActionProfileGroup("TheIngress.next_hops")(group_id=9, max_size=4)
        group.add(1).add(2, weight=2)
        group.insert()
        entry = sh.TableEntry("TheIngress.groups")(group_id=9)
        entry.match["hdr.ethernet.type"] = "0x88b5"
        entry.insert()
        self.assertEqual([entry.group_id for entry in sh.TableEntry("TheIngress.groups").read()], [9])
        self.refused(member.delete, "FAILED_PRECONDITION", "is in group 9")
        groups = list(sh.ActionProfileGroup("TheIngress.next_hops").read())
        self.assertEqual([(it.member_id, it.weight) for it in groups[0].members], [(1, 1), (2, 2)])
        self.assertEqual(len(list(sh.ActionProfileMember("TheIngress.next_hops").read())), 2)

    def test_counters_and_meters(self):
        l2(1, "punt").insert()
        cell = sh.CounterEntry("TheIngress.types")
        cell.index = 5
        through_tables(1, 2)
        wait_until(lambda: next(iter(cell.read())).packet_count == 1, "the packet is counted")
        direct = sh.DirectCounterEntry("TheIngress.forwarded")
        direct.table_entry.match["hdr.ethernet.dst"] = bed.mac(1)
        self.assertEqual([it.packet_count for it in direct.read()], [1])
        cell.packet_count = 41
        cell.modify()
        self.assertEqual([it.packet_count for it in cell.read()], [41])
        meter = sh.MeterEntry("TheIngress.limits")
        meter.index = 5
        meter.cir, meter.cburst, meter.pir, meter.pburst = 1, 2, 3, 4
        meter.modify()
        self.assertEqual([(it.cir, it.pburst) for it in meter.read()], [(1, 4)])
        meter.pir = 0
        self.refused(meter.modify, "INVALID_ARGUMENT", "below cir")

    def test_replication(self):
        group = sh.MulticastGroupEntry(4)
        group.add(1, 1).add(2, 2)
        group.insert()
        found = list(sh.MulticastGroupEntry(4).read())
        self.assertEqual([(it.egress_port, it.instance) for it in found[0].replicas], [(1, 1), (2, 2)])
        session = sh.CloneSessionEntry(5)
        session.packet_length_bytes = 30
        session.add(bed.CPU_PORT, 1)
        session.insert()
        found = list(sh.CloneSessionEntry(5).read())
        self.assertEqual([it.egress_port for it in found[0].replicas], [bed.CPU_PORT])
        l2(3, "mirror", port=1).insert()
        packets = sh.PacketIn()
        through_tables(3, 2)
        copies = list(packets.sniff(timeout=1))
        self.assertEqual([len(it.packet.payload) for it in copies], [28])

    def test_packets(self):
        l2(1, "punt").insert()
        packets = sh.PacketIn()
        through_tables(1, 2)
        found = list(packets.sniff(timeout=1))
        self.assertEqual([it.packet.payload for it in found], [bed.frame(1, 2)])
        values = {it.metadata_id: it.value for it in found[0].packet.metadata}
        self.assertEqual(values, {1: bytes([bed.CPU_PORT]), 2: b"\0"})

    def test_digests(self):
        entry = sh.DigestEntry("learn_t")
        entry.ack_timeout_ns = 10**12
        entry.max_timeout_ns = 0
        entry.max_list_size = 1
        entry.insert()
        lists = sh.DigestList()
        through_tables(1, 0xABC)
        found = list(lists.sniff(timeout=1))
        members = [it.struct.members[0].bitstring for it in found[0].digest.data]
        self.assertEqual(members, [b"\x0a\xbc"])

    def test_idle_timeout(self):
        entry = sh.TableEntry("TheIngress.sources")(action="TheIngress.known")
        entry.match["hdr.ethernet.src"] = bed.mac(5)
        entry.idle_timeout_ns = 200_000_000
        entry.insert()
        found = list(sh.IdleTimeoutNotification().sniff(timeout=1))
        self.assertGreaterEqual(len(found), 2)
        self.assertEqual(found[0].idle_timeout_notification.table_entry[0].idle_timeout_ns, 200_000_000)
        entry.delete()

    def test_a_second_client_is_a_backup_and_cannot_write(self):
        first = sh.client
        second = sh.P4RuntimeClient(bed.DEVICE, switch.address, (0, 0))
        try:
            entry = l2(7, "punt")
            entry._update_msg()
            update = sh.p4runtime_pb2.Update()
            update.type = sh.p4runtime_pb2.Update.INSERT
            update.entity.table_entry.CopyFrom(entry.msg())
            with self.assertRaises(grpc.RpcError) as caught:
                second.write_update(update)
            self.assertEqual(caught.exception.code(), grpc.StatusCode.PERMISSION_DENIED)
        finally:
            second.tear_down()
        self.assertIs(sh.client, first)


if __name__ == "__main__":
    with bed.Switch() as switch:
        result = unittest.main(exit=False, verbosity=2).result
    failed = len(result.failures) + len(result.errors)
    bed.report(result.testsRun - failed, failed)
