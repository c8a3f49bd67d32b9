"""A model of a Tofino switch that runs a program: ingress, traffic manager, egress, mirroring and recirculation. The caller
advances its clock.

  port -> ingress parser, control, deparser -> queue of a port (or of all ports of a group) -> egress parser, control, deparser
   ^                                                                                                          |         |
   '-- recirculation port <-- mirror session <----------------------------------------------------------------'         '-> port

There is a queue per port and priority; the highest priority is served first. A queue without a rate is served at once.
"""

import re

from compile import PARTIAL_HEADER, BitReader, Packet, Program, PacketTooShort
from text import UnsupportedError

CELL = {1: 80, 2: 176}               # bytes per buffer cell of the traffic manager
CPU_PORT = {1: 192, 2: 0}
RECIRCULATION_PORT = {1: 68, 2: 6}
MAX_DEPTH = (1 << 19) - 1
FCS_BYTES = 4
SECOND = 10**9


class BitWriter:
    """Collects the bits that a deparser emits."""

    def __init__(self):
        self.value, self.width, self.mirrored = 0, 0, None

    def emit(self, packet, path, fields):
        if packet[f"{path}.$valid"]:
            for field, width in fields:
                self.value, self.width = self.value << width | packet[f"{path}.{field}"], self.width + width

    def mirror(self, session, fields):
        header = BitWriter()
        for value, width in fields:
            header.value, header.width = header.value << width | value, header.width + width
        self.mirrored = session, header.bytes()

    def bytes(self):
        if self.width % 8:
            raise UnsupportedError(f"the deparser emitted {self.width} bits, not whole bytes")
        return self.value.to_bytes(self.width // 8, "big")


class Switch:
    def __init__(self, text, chip):
        self.program, self.chip, self.now = Program(text, chip), chip, 0
        self.sessions = {}           # mirror session -> port
        self.groups = {}             # multicast group -> [ports]
        self.queues = {}             # (port, priority) -> [(length on arrival, bytes)]
        self.rates, self.limits = {}, {}     # (port, priority) -> packets/s; port -> packets
        self.free_at = {}               # (port, priority) -> earliest departure of the next packet
        self.background_cells = {}           # port -> cells that a test adds to the depth, except in priority 0
        self.sent = {}               # port -> [frames]
        self.reads_errors = re.search(r"from_parser\.parser_err|prsr\.parser_err", text) is not None
        types = self.program.types
        self.headers = {name: self.program.header_paths(name, (name, []))
                        for name in ("headers_t", "metadata_t") if name in types}
        self.bridge_bytes = sum(width for _, width in self.program.fields(("bridge_t", []))) // 8

    def find(self, kind, name):
        """Returns the object or table with this last component of its control-plane name."""
        matches = [key for key, full in self.program.control_plane_names.items() if full.split(".")[-1] == name and key in kind]
        if len(matches) != 1:
            raise UnsupportedError(f"{name}: {len(matches)} objects have this name")
        return kind[matches[0]]

    def table(self, name):
        return self.find(self.program.tables, name)

    def extern(self, name):
        return self.find(self.program.objects, name)

    def counter_sum(self, name, index):
        """Returns the sum over all counters whose name ends with `name`."""
        return sum(counter.packets.get(index, 0) for key, counter in self.program.objects.items()
                   if hasattr(counter, "packets") and self.program.control_plane_names[key].split(".")[-1].endswith(name))

    # Pipes ------------------------------------------------------------------------------------

    def packet(self, intrinsic, length):
        packet = Packet({"$length": length, "$now": self.now})
        for paths in self.headers.values():
            packet.update((f"{path}.$valid", 0) for path in paths)
        packet.update(intrinsic)
        return packet

    def parse(self, name, packet, data):
        """Runs a parser. Returns the payload after the headers, and the error code."""
        stream = BitReader(data)
        state = self.program.functions[f"{name}__start"]
        try:
            while state:
                state = state(packet, stream)
        except PacketTooShort:
            return stream.rest(), PARTIAL_HEADER
        return stream.rest(), 0

    def pipe(self, name, packet, rest):
        self.program.functions[name](packet, None)
        output = BitWriter()
        self.program.functions[f"{name}Deparser"](packet, output)
        return output.bytes() + rest, output.mirrored

    def receive(self, port, frame):
        """Processes a frame that arrives at a port."""
        to_deparser, to_manager = "ingress_intrinsic_metadata_for_deparser_t.", "ingress_intrinsic_metadata_for_tm_t."
        packet = self.packet({
            "ingress_intrinsic_metadata_t.ingress_port": port,
            "ingress_intrinsic_metadata_from_parser_t.global_tstamp": self.now,
            to_deparser + "drop_ctl": 0, to_deparser + "mirror_type": 0,
        }, len(frame))
        rest, error = self.parse("TnaIngressParser", packet, frame)
        packet["ingress_intrinsic_metadata_from_parser_t.parser_err"] = error
        if error and not self.reads_errors:
            return
        data, mirrored = self.pipe("TnaIngress", packet, rest)
        if mirrored and mirrored[0]:
            raise UnsupportedError("ingress mirroring is not supported")
        if packet[to_deparser + "drop_ctl"] & 1:
            return
        if packet[to_deparser + "drop_ctl"]:
            raise UnsupportedError(f"unsupported drop_ctl {packet[to_deparser + 'drop_ctl']}")
        ports = list(self.groups.get(packet.get(to_manager + "mcast_grp_a", 0), []))
        if to_manager + "ucast_egress_port" in packet:
            ports.append(packet[to_manager + "ucast_egress_port"])
        priority = packet[to_manager + "qid"]
        if priority > 7 or priority != packet[to_manager + "ingress_cos"]:
            raise UnsupportedError(f"qid {priority} and ingress_cos {packet[to_manager + 'ingress_cos']} must be equal, at most 7")
        for out in ports:
            self.enqueue(out, priority, len(frame), data)

    def enqueue(self, port, priority, length, data):
        queue = self.queues.setdefault((port, priority), [])
        if len(queue) < self.limits.get(port, 1 << 30):
            queue.append((length, data))
            self.run(self.now)

    def cells(self, port, priority):
        waiting = sum(-(-len(data) // CELL[self.chip]) for _, data in self.queues[port, priority])
        return min(MAX_DEPTH, waiting + (self.background_cells.get(port, 0) if priority else 0))

    def next_departure(self):
        """Returns the time of the next departure, the negative priority and the queue; None if all queues are empty."""
        waiting = [(self.free_at.get(key, 0), -key[1], key) for key, queue in self.queues.items() if queue]
        return min(((max(free, self.now), *rest) for free, *rest in waiting), default=None)

    def run(self, until):
        """Transmits packets until this time, and sets the clock to it."""
        while (departure := self.next_departure()) and departure[0] <= until:
            self.now, _, (port, priority) = departure
            length, data = self.queues[port, priority].pop(0)
            rate = self.rates.get((port, priority)) or self.rates.get((port, None))
            if rate:
                self.free_at[port, priority] = self.now + SECOND // rate
            if priority == 0 and not any(queue for key, queue in self.queues.items() if key[0] == port):
                self.background_cells.pop(port, None)
            self.transmit(port, self.cells(port, priority), length, data)
        self.now = until

    def transmit(self, port, depth, length, data):
        to_deparser = "egress_intrinsic_metadata_for_deparser_t."
        packet = self.packet({
            "egress_intrinsic_metadata_t.egress_port": port,
            "egress_intrinsic_metadata_t.deq_qdepth": depth,
            "egress_intrinsic_metadata_t.pkt_length": length + FCS_BYTES,
            "egress_intrinsic_metadata_from_parser_t.global_tstamp": self.now,
            to_deparser + "drop_ctl": 0, to_deparser + "mirror_type": 0,
        }, length)
        rest, error = self.parse("TnaEgressParser", packet, data)
        if error:
            raise UnsupportedError("parser error in egress")
        data, mirrored = self.pipe("TnaEgress", packet, rest)
        if packet[to_deparser + "drop_ctl"] not in (0, 1):
            raise UnsupportedError(f"unsupported drop_ctl {packet[to_deparser + 'drop_ctl']} in egress")
        if not packet[to_deparser + "drop_ctl"]:
            if port == RECIRCULATION_PORT[self.chip]:
                self.receive(port, data)
            else:
                self.sent.setdefault(port, []).append(data)
        # Unconfigured sessions and session 0 drop the copy.
        if mirrored and mirrored[0] in self.sessions:
            header = mirrored[1]
            self.enqueue(self.sessions[mirrored[0]], 0, len(header) + len(data), header + data)
