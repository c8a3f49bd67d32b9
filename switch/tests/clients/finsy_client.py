"""finsy (PyPI) drives `weir switch`: WEIR=.../weir python finsy_client.py"""

import asyncio
import pathlib
import unittest

import bed
import finsy as fy
from finsy.p4entity import P4Replica
from google.protobuf.empty_pb2 import Empty

switch = None

OPTIONS = fy.SwitchOptions(
    p4info=pathlib.Path(bed.P4INFO), p4blob=pathlib.Path(bed.JSON), p4force=True, device_id=bed.DEVICE
)


def l2(destination, action, **parameters):
    return fy.P4TableEntry("l2", match=fy.Match(dst=destination), action=fy.Action(action, **parameters))


def through_tables(destination, source):
    return fy.P4PacketOut(bed.frame(destination, source), egress_port=0, tables=1, pad=0)


def connect(**options):
    return fy.Switch("sw", switch.address, OPTIONS(**options))


def connect_as(role, **options):
    # finsy requires a configuration, and the switch accepts only one without content.
    return connect(role_name=role, role_config=Empty(), **options)


async def first(messages):
    return await asyncio.wait_for(anext(messages), 10)


class Finsy(unittest.IsolatedAsyncioTestCase):
    async def read(self, sw, entity):
        return [found async for found in sw.read(entity)]

    async def test_tables(self):
        async with connect() as sw:
            self.assertTrue(sw.is_primary)
            await sw.write([+l2(1, "forward", port=3), +l2(2, "punt")])
            await sw.write([~l2(1, "forward", port=4), -l2(2, "punt")])
            found = await self.read(sw, fy.P4TableEntry("l2"))
            self.assertEqual([(it.match["dst"], it.action.args) for it in found], [(1, {"port": 4})])
            match = fy.Match(src=(0x10, 0xF0), type=(0x800, 0x8FF), ingress_port=5)
            acl = fy.P4TableEntry("acl", match=match, action=fy.Action("deny"), priority=7)
            await sw.insert([acl])
            self.assertEqual([it.priority for it in await self.read(sw, fy.P4TableEntry("acl"))], [7])
            await sw.delete_all()
            self.assertEqual(await self.read(sw, fy.P4TableEntry()), [])

    async def test_wrong_writes_name_the_update(self):
        async with connect() as sw:
            with self.assertRaises(fy.P4ClientError) as caught:
                await sw.write([+l2(1, "punt"), +l2(1, "punt"), +l2(2, "punt"), -l2(9, "punt")])
            codes = {at: error.canonical_code.name for at, error in caught.exception.details.items()}
            self.assertEqual(codes, {1: "ALREADY_EXISTS", 3: "NOT_FOUND"})
            self.assertEqual(len(await self.read(sw, fy.P4TableEntry("l2"))), 2)
            await sw.write([-l2(9, "punt")], strict=False)

    async def test_everything_else(self):
        async with connect() as sw:
            await sw.write([+fy.P4ActionProfileMember("next_hops", member_id=1, action=fy.Action("via", port=1, mac=1))])
            members = [fy.P4Member(1, weight=2)]
            await sw.write([+fy.P4ActionProfileGroup("next_hops", group_id=3, max_size=4, members=members)])
            group = fy.P4TableEntry("groups", match=fy.Match(type=0x800), action=fy.IndirectAction(group_id=3))
            await sw.write([+group])
            self.assertEqual((await self.read(sw, fy.P4TableEntry("groups")))[0].action, fy.IndirectAction(group_id=3))
            await sw.write([fy.P4RegisterEntry("last_source", index=3, data=0xABC)])
            self.assertEqual((await self.read(sw, fy.P4RegisterEntry("last_source", index=3)))[0].data, 0xABC)
            self.assertEqual(len(await self.read(sw, fy.P4RegisterEntry("last_source"))), 16)
            count = fy.P4CounterData(packet_count=7, byte_count=70)
            await sw.write([fy.P4CounterEntry("types", index=2, data=count)])
            self.assertEqual((await self.read(sw, fy.P4CounterEntry("types", index=2)))[0].packet_count, 7)
            config = fy.P4MeterConfig(cir=1, cburst=2, pir=3, pburst=4)
            await sw.write([fy.P4MeterEntry("limits", index=2, config=config)])
            self.assertEqual((await self.read(sw, fy.P4MeterEntry("limits", index=2)))[0].config, config)
            await sw.write([+fy.P4MulticastGroupEntry(4, replicas=[1, (2, 5)])])
            found = (await self.read(sw, fy.P4MulticastGroupEntry(4)))[0]
            self.assertEqual(tuple(found.replicas), (1, P4Replica(port=2, instance=5)))
            await sw.write([+fy.P4CloneSessionEntry(5, replicas=[bed.CPU_PORT])])
            self.assertEqual((await self.read(sw, fy.P4CloneSessionEntry(5)))[0].replicas[0], bed.CPU_PORT)

    async def test_packets(self):
        async with connect() as sw:
            await sw.write([+l2(1, "punt")])
            packets = sw.read_packets()
            waiting = asyncio.create_task(first(packets))
            await asyncio.sleep(0)
            await sw.write([through_tables(1, 2)])
            packet = await waiting
            self.assertEqual(packet.payload, bed.frame(1, 2))
            self.assertEqual(packet["ingress_port"], bed.CPU_PORT)

    async def test_digests(self):
        async with connect() as sw:
            await sw.write([+fy.P4DigestEntry("learn_t", max_list_size=1, ack_timeout_ns=10**12)])
            lists = sw.read_digests("learn_t")
            waiting = asyncio.create_task(first(lists))
            await asyncio.sleep(0)
            await sw.write([through_tables(1, 0xABC)])
            digest = await waiting
            self.assertEqual([message["src"] for message in digest], [0xABC])
            await sw.write([digest.ack()])

    async def test_idle_timeouts(self):
        async with connect() as sw:
            source = fy.P4TableEntry(
                "sources", match=fy.Match(src=5), action=fy.Action("known"), idle_timeout_ns=200_000_000
            )
            idle = sw.read_idle_timeouts()
            waiting = asyncio.create_task(first(idle))
            await asyncio.sleep(0)
            await sw.write([+source])
            self.assertEqual([entry.match["src"] for entry in await waiting], [5])

    async def test_two_controllers(self):
        async with connect() as primary:
            await primary.write([+l2(1, "punt")])
            async with connect(initial_election_id=20, p4force=False) as second:
                self.assertTrue(second.is_primary)
                await second.write([+l2(2, "punt")])
                with self.assertRaises(fy.P4ClientError) as caught:
                    await primary.write([+l2(3, "punt")])
                self.assertEqual(caught.exception.code.name, "PERMISSION_DENIED")
            for _ in range(1000):
                if primary.is_primary:
                    break
                await asyncio.sleep(0.01)
            await primary.write([+l2(3, "punt")])

    async def test_each_role_has_a_primary(self):
        # All with the same election id, which is unique within a role.
        async with connect() as sw, connect_as("routes", p4force=False) as routes:
            async with connect_as("sdn_controller", p4force=False) as acl:
                self.assertEqual([it.is_primary for it in (sw, routes, acl)], [True] * 3)
                await sw.write([+l2(1, "punt")])
                await routes.write([+l2(2, "punt")])
                await acl.write([+l2(3, "punt")])
                # Roles are not restricted to a part of the pipeline.
                self.assertEqual(len(await self.read(routes, fy.P4TableEntry("l2"))), 3)
                async with connect_as("routes", initial_election_id=20, p4force=False) as second:
                    self.assertTrue(second.is_primary)
                    with self.assertRaises(fy.P4ClientError) as caught:
                        await routes.write([-l2(2, "punt")])
                    self.assertEqual(caught.exception.code.name, "PERMISSION_DENIED")
                    self.assertEqual([it.is_primary for it in (sw, acl)], [True] * 2)
                    await second.write([-l2(2, "punt")])
                    await acl.write([-l2(3, "punt")])
            await sw.write([-l2(1, "punt")])
            self.assertEqual(await self.read(sw, fy.P4TableEntry("l2")), [])

    async def test_a_role_receives_packets_without_the_default_role(self):
        async with connect_as("sdn_controller") as sw:
            await sw.write([+l2(1, "punt")])
            waiting = asyncio.create_task(first(sw.read_packets()))
            await asyncio.sleep(0)
            await sw.write([through_tables(1, 2)])
            self.assertEqual((await waiting).payload, bed.frame(1, 2))

    async def test_batches_of_many_updates(self):
        async with connect() as sw:
            entries = [l2(number, "forward", port=number % 8) for number in range(1, 5001)]
            await sw.insert(entries)
            self.assertEqual(len(await self.read(sw, fy.P4TableEntry("l2"))), 5000)
            # Errors of so many updates would exceed the client's limit of headers: the message names the update.
            with self.assertRaises(fy.P4ClientError) as caught:
                await sw.write([~entry for entry in entries] + [-l2(9999, "punt")])
            self.assertIn("update 5001 of 5001: NOT_FOUND", caught.exception.message)
            await sw.delete_all()
            self.assertEqual(await self.read(sw, fy.P4TableEntry("l2")), [])


if __name__ == "__main__":
    with bed.Switch() as switch:
        result = unittest.main(exit=False, verbosity=2).result
    failed = len(result.failures) + len(result.errors)
    bed.report(result.testsRun - failed, failed)
