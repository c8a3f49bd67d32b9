"""P4Runtime and Thrift clients with the same methods, so that a case can use either.

A key is {field: value}, where a value is a number, or (number, prefix length), or (number, mask). Changes return "ok" or
the error's code.
"""

import pathlib
import queue

import grpc
import thriftpy2
from google.protobuf import text_format
from google.rpc import status_pb2
from p4.config.v1 import p4info_pb2
from p4.v1 import p4runtime_pb2 as p4
from p4.v1 import p4runtime_pb2_grpc
from thriftpy2.protocol import TBinaryProtocolFactory, TMultiplexedProtocolFactory
from thriftpy2.rpc import make_client

CALL_S = 20
# The highest priority wins in P4Runtime, the lowest in BMv2: this number minus the priority converts it.
LOWEST = 1_000_000
IDL = thriftpy2.load(str(pathlib.Path(__file__).with_name("bmv2.thrift")), module_name="bmv2_thrift")


class Info:
    """Names, ids and widths of a program."""

    def __init__(self, path):
        self.message = text_format.Parse(path.read_text(), p4info_pb2.P4Info())
        m = self.message
        objects = (m.tables, m.actions, m.action_profiles, m.counters, m.meters)
        self.objects = {name: it for kind in objects for it in kind for name in (it.preamble.name, it.preamble.alias)}

    def __getitem__(self, name):
        return self.objects[name]

    def parameters(self, action, values):
        """Returns (id, bytes) of each parameter."""
        return [(it.id, octets(values[it.name], it.bitwidth)) for it in self[action].params]

    def key(self, table, key):
        """Yields (id, kind, bytes, prefix length or mask) of each match field in the key."""
        for field in self[table].match_fields:
            if field.name in key:
                value = key[field.name]
                number, more = value if isinstance(value, tuple) else (value, None)
                kind = p4info_pb2.MatchField.MatchType.Name(field.match_type)
                more = octets(more, field.bitwidth) if kind == "TERNARY" else more
                yield field.id, kind, octets(number, field.bitwidth), more


def octets(number, bits):
    return number.to_bytes((bits + 7) // 8, "big")


class P4Runtime:
    """The primary controller of a switch. It installs the program."""

    def __init__(self, port, info, program):
        self.info = info
        self.channel = grpc.insecure_channel(f"127.0.0.1:{port}")
        grpc.channel_ready_future(self.channel).result(CALL_S)
        self.stub = p4runtime_pb2_grpc.P4RuntimeStub(self.channel)
        self.requests = queue.Queue()
        self.stream = self.stub.StreamChannel(iter(self.requests.get, None))
        bid = p4.StreamMessageRequest()
        bid.arbitration.election_id.low = 1
        self.requests.put(bid)
        next(self.stream)
        config = p4.SetForwardingPipelineConfigRequest(action="VERIFY_AND_COMMIT")
        config.election_id.low = 1
        config.config.p4info.CopyFrom(info.message)
        config.config.p4_device_config = program.read_bytes()
        self.stub.SetForwardingPipelineConfig(config, timeout=CALL_S)

    def close(self):
        self.requests.put(None)
        self.channel.close()

    def write(self, kind, entity):
        request = p4.WriteRequest()
        request.election_id.low = 1
        update = request.updates.add(type=kind)
        update.entity.CopyFrom(entity)
        try:
            self.stub.Write(request, timeout=CALL_S)
        except grpc.RpcError as error:
            details = dict(error.trailing_metadata()).get("grpc-status-details-bin", b"")
            for packed in status_pb2.Status.FromString(details).details:
                each = p4.Error()
                if packed.Unpack(each):
                    return each.canonical_code
            raise
        return "ok"

    def action(self, message, name, values):
        message.action_id = self.info[name].preamble.id
        for number, value in self.info.parameters(name, values):
            message.params.add(param_id=number, value=value)

    def table_entry(self, table, key, priority=0):
        entity = p4.Entity()
        entry = entity.table_entry
        entry.table_id, entry.priority = self.info[table].preamble.id, priority
        for number, kind, value, more in self.info.key(table, key):
            match = entry.match.add(field_id=number)
            if kind == "EXACT":
                match.exact.value = value
            elif kind == "LPM":
                match.lpm.value, match.lpm.prefix_len = value, more
            else:
                match.ternary.value, match.ternary.mask = value, more
        return entity

    def entry(self, kind, table, key, action, values, priority):
        entity = self.table_entry(table, key, priority)
        if action:
            self.action(entity.table_entry.action.action, action, values)
        return self.write(kind, entity)

    def insert(self, table, key, action, values, priority=0):
        return self.entry("INSERT", table, key, action, values, priority)

    def modify(self, table, key, action, values, priority=0):
        return self.entry("MODIFY", table, key, action, values, priority)

    def delete(self, table, key, priority=0):
        return self.entry("DELETE", table, key, None, {}, priority)

    def default(self, table, action, values):
        entity = self.table_entry(table, {})
        entity.table_entry.is_default_action = True
        self.action(entity.table_entry.action.action, action, values)
        return self.write("MODIFY", entity)

    def member(self, profile, number, action, values, new=True):
        entity = p4.Entity()
        member = entity.action_profile_member
        member.action_profile_id, member.member_id = self.info[profile].preamble.id, number
        self.action(member.action, action, values)
        return self.write("INSERT" if new else "MODIFY", entity)

    def group(self, profile, number, members, new=True):
        entity = p4.Entity()
        group = entity.action_profile_group
        group.action_profile_id, group.group_id, group.max_size = self.info[profile].preamble.id, number, 8
        for member in members:
            group.members.add(member_id=member, weight=1)
        return self.write("INSERT" if new else "MODIFY", entity)

    def point(self, table, key, group, new=True):
        """Inserts or modifies an entry that refers to a group."""
        entity = self.table_entry(table, key)
        entity.table_entry.action.action_profile_group_id = group
        return self.write("INSERT" if new else "MODIFY", entity)

    def multicast(self, group, ports, new=True):
        entity = p4.Entity()
        entry = entity.packet_replication_engine_entry.multicast_group_entry
        entry.multicast_group_id = group
        for port in ports:
            entry.replicas.add(egress_port=port, instance=1)
        return self.write("INSERT" if new else "MODIFY", entity)

    def session(self, number, port):
        entity = p4.Entity()
        entry = entity.packet_replication_engine_entry.clone_session_entry
        entry.session_id = number
        entry.replicas.add(egress_port=port, instance=1)
        return self.write("INSERT", entity)

    def read(self, entity):
        request = p4.ReadRequest()
        request.entities.add().CopyFrom(entity)
        return [it for answer in self.stub.Read(request, timeout=CALL_S) for it in answer.entities]

    def counter(self, name, index):
        entity = p4.Entity()
        entity.counter_entry.counter_id = self.info[name].preamble.id
        entity.counter_entry.index.index = index
        data = self.read(entity)[0].counter_entry.data
        return data.packet_count, data.byte_count

    def direct_counter(self, table, key):
        entity = p4.Entity()
        entity.direct_counter_entry.table_entry.CopyFrom(self.table_entry(table, key).table_entry)
        data = self.read(entity)[0].direct_counter_entry.data
        return data.packet_count, data.byte_count

    def meter(self, name, index, cir, cburst, pir, pburst):
        """Rates are in units per second."""
        entity = p4.Entity()
        entry = entity.meter_entry
        entry.meter_id, entry.index.index = self.info[name].preamble.id, index
        config = entry.config
        config.cir, config.cburst, config.pir, config.pburst = cir, cburst, pir, pburst
        return self.write("MODIFY", entity)


class Thrift:
    """A client of the Thrift services. `handles` has the handles of the switch, by object."""

    def __init__(self, port, info):
        self.info = info
        self.standard, self.replication, self.target = (
            make_client(service, "127.0.0.1", port, timeout=CALL_S * 1000,
                        proto_factory=TMultiplexedProtocolFactory(TBinaryProtocolFactory(), name))
            for service, name in ((IDL.Standard, "standard"), (IDL.Replication, "simple_pre_lag"), (IDL.Target, "simple_switch")))
        self.handles = {}

    def close(self):
        for client in (self.standard, self.replication, self.target):
            client.close()

    def change(self, call, *arguments):
        try:
            self.result = call(0, *arguments)
        except IDL.Refused as refused:
            return refused.code
        return "ok"

    def handle(self, *what):
        """Returns the handle of an object; an invalid one if it does not exist."""
        return self.handles.get(what, 0x7FFFFF)

    def added(self, outcome, *what):
        if outcome == "ok":
            self.handles[what] = self.result
        return outcome

    def name(self, name):
        return self.info[name].preamble.name

    def data(self, action, values):
        return self.name(action), [value for _, value in self.info.parameters(action, values)]

    def key(self, table, key):
        for _, kind, value, more in self.info.key(table, key):
            if kind == "EXACT":
                yield IDL.Match(kind=0, exact=IDL.Exact(key=value))
            elif kind == "LPM":
                yield IDL.Match(kind=1, lpm=IDL.Lpm(key=value, prefix_length=more))
            else:
                yield IDL.Match(kind=2, ternary=IDL.Ternary(key=value, mask=more))

    def insert(self, table, key, action, values, priority=0):
        options = IDL.Options(priority=LOWEST - priority) if priority else IDL.Options()
        outcome = self.change(self.standard.bm_mt_add_entry, self.name(table), list(self.key(table, key)),
                              *self.data(action, values), options)
        return self.added(outcome, table, str(key))

    def modify(self, table, key, action, values, priority=0):
        return self.change(self.standard.bm_mt_modify_entry, self.name(table), self.handle(table, str(key)),
                           *self.data(action, values))

    def delete(self, table, key, priority=0):
        indirect = self.info[table].implementation_id
        call = self.standard.bm_mt_indirect_delete_entry if indirect else self.standard.bm_mt_delete_entry
        outcome = self.change(call, self.name(table), self.handle(table, str(key)))
        self.handles.pop((table, str(key)), None)
        return outcome

    def default(self, table, action, values):
        return self.change(self.standard.bm_mt_set_default_action, self.name(table), *self.data(action, values))

    def member(self, profile, number, action, values, new=True):
        if not new:
            return self.change(self.standard.bm_mt_act_prof_modify_member, self.name(profile), self.handle("member", number),
                               *self.data(action, values))
        outcome = self.change(self.standard.bm_mt_act_prof_add_member, self.name(profile), *self.data(action, values))
        return self.added(outcome, "member", number)

    def group(self, profile, number, members, new=True):
        name = self.name(profile)
        if new:
            self.added(self.change(self.standard.bm_mt_act_prof_create_group, name), "group", number)
        before, group = self.handles.get(("members", number), []), self.handle("group", number)
        self.handles["members", number] = members
        return [self.change(call, name, self.handle("member", member), group)
                for call, some in ((self.standard.bm_mt_act_prof_add_member_to_group, set(members) - set(before)),
                                   (self.standard.bm_mt_act_prof_remove_member_from_group, set(before) - set(members)))
                for member in sorted(some)]

    def point(self, table, key, group, new=True):
        group = self.handle("group", group)
        if not new:
            return self.change(self.standard.bm_mt_indirect_ws_modify_entry, self.name(table), self.handle(table, str(key)), group)
        outcome = self.change(self.standard.bm_mt_indirect_ws_add_entry, self.name(table), list(self.key(table, key)), group,
                              IDL.Options())
        return self.added(outcome, table, str(key))

    def multicast(self, group, ports, new=True):
        ports = "".join(str(int(port in ports)) for port in range(max(ports), -1, -1))
        if not new:
            return self.change(self.replication.bm_mc_node_update, self.handle("node", group), ports, "")
        outcome = self.change(self.replication.bm_mc_mgrp_create, group)
        self.added(outcome, "multicast", group)
        self.added(self.change(self.replication.bm_mc_node_create, 1, ports, ""), "node", group)
        self.change(self.replication.bm_mc_node_associate, self.handle("multicast", group), self.handle("node", group))
        return outcome

    def session(self, number, port):
        try:
            self.target.mirroring_session_add(number, IDL.Session(port=port))
        except IDL.Refused as refused:
            return refused.code
        return "ok"

    def counter(self, name, index):
        count = self.standard.bm_counter_read(0, self.name(name), index)
        return count.packets, count.bytes

    def direct_counter(self, table, key):
        count = self.standard.bm_mt_read_counter(0, self.name(table), self.handle(table, str(key)))
        return count.packets, count.bytes

    def meter(self, name, index, cir, cburst, pir, pburst):
        rates = [IDL.MeterRate(units_per_micros=rate / 1e6, burst_size=burst) for rate, burst in ((cir, cburst), (pir, pburst))]
        return self.change(self.standard.bm_meter_set_rates, self.name(name), index, rates)

    # Operations that only Thrift has.

    def register(self, name, index):
        # Thrift integers are signed.
        return self.standard.bm_register_read(0, name, index) % 2**64

    def set_register(self, name, index, value):
        self.standard.bm_register_write(0, name, index, value - 2**64 * (value >= 2**63))

    def rate(self, port, packets_per_second, priority=None):
        if priority is None:
            self.target.set_egress_queue_rate(port, packets_per_second)
        else:
            self.target.set_egress_priority_queue_rate(port, priority, packets_per_second)

    def depth(self, port, packets, priority=None):
        if priority is None:
            self.target.set_egress_queue_depth(port, packets)
        else:
            self.target.set_egress_priority_queue_depth(port, priority, packets)
