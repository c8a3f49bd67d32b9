"""A switch that runs a program: ingress, traffic manager, egress, mirroring and recirculation. Its clock is an argument.

  port -> ingress parser, control, deparser -> queue of a port (or of all ports of a group) -> egress parser, control, deparser
   ^                                                                                                          |         |
   '-- recirculation port <-- mirror session <----------------------------------------------------------------'         '-> port

A queue is a port's and a priority's; the highest priority leaves first. Without a rate a packet leaves when it comes.
"""

import re

from compile import PARTIAL_HEADER, Input, Packet, Program, Short
from text import Unknown

CELL = {1: 80, 2: 176}               # bytes, of the traffic manager's memory
CPU_PORT = {1: 192, 2: 0}
RECIRCULATION_PORT = {1: 68, 2: 6}
MAX_DEPTH = (1 << 19) - 1
FCS_BYTES = 4
SECOND = 10**9


class Output:
    """What a deparser emits."""

    def __init__(self):
        self.value, self.width, self.mirrored = 0, 0, None

    def emit(self, packet, path, fields):
        if packet[f"{path}.$valid"]:
            for field, width in fields:
                self.value, self.width = self.value << width | packet[f"{path}.{field}"], self.width + width

    def mirror(self, session, fields):
        head = Output()
        for value, width in fields:
            head.value, head.width = head.value << width | value, head.width + width
        self.mirrored = session, head.bytes()

    def bytes(self):
        if self.width % 8:
            raise Unknown(f"{self.width} bits are emitted")
        return self.value.to_bytes(self.width // 8, "big")


class Switch:
    def __init__(self, text, chip):
        self.program, self.chip, self.now = Program(text, chip), chip, 0
        self.sessions = {}           # of mirroring: number -> port
        self.groups = {}             # of multicast: number -> [ports]
        self.queues = {}             # (port, priority) -> [(arrival's length, bytes)]
        self.rates, self.limits = {}, {}     # (port, priority) -> packets a second, packets
        self.free = {}               # (port, priority) -> when the next packet may leave
        self.standing = {}           # port -> cells that wait beside what came in (a test's), in all priorities but 0
        self.sent = {}               # port -> [frames]
        self.reads_errors = re.search(r"from_parser\.parser_err|prsr\.parser_err", text) is not None
        types = self.program.types
        self.headers = {name: self.program.header_paths(name, (name, [])) for name in ("headers_t", "metadata_t") if name in types}
        self.bridge = sum(width for _, width in self.program.fields(("bridge_t", []))) // 8

    def find(self, kind, name):
        """An object or table by the last part of the name that it has for a controller."""
        found = [it for it, shown in self.program.shown.items() if shown.split(".")[-1] == name and it in kind]
        if len(found) != 1:
            raise Unknown(f"{name}: {len(found)} of this name")
        return kind[found[0]]

    def table(self, name):
        return self.find(self.program.tables, name)

    def extern(self, name):
        return self.find(self.program.objects, name)

    def counted(self, name, index):
        """The sum over all counters whose name ends so."""
        return sum(it.packets.get(index, 0) for key, it in self.program.objects.items()
                   if hasattr(it, "packets") and self.program.shown[key].split(".")[-1].endswith(name))

    # Pipes ------------------------------------------------------------------------------------

    def packet(self, intrinsic, length):
        packet = Packet({"$length": length, "$now": self.now})
        for paths in self.headers.values():
            packet.update((f"{path}.$valid", 0) for path in paths)
        packet.update(intrinsic)
        return packet

    def parse(self, name, packet, data):
        """Returns what is behind the headers, and the parser's error."""
        stream = Input(data)
        state = self.program.functions[f"{name}__start"]
        try:
            while state:
                state = state(packet, stream)
        except Short:
            return stream.rest(), PARTIAL_HEADER
        return stream.rest(), 0

    def pipe(self, name, packet, rest):
        self.program.functions[name](packet, None)
        output = Output()
        self.program.functions[f"{name}Deparser"](packet, output)
        return output.bytes() + rest, output.mirrored

    def receive(self, port, frame):
        """A frame comes in by a port."""
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
            raise Unknown("a mirror of ingress")
        if packet[to_deparser + "drop_ctl"] & 1:
            return
        if packet[to_deparser + "drop_ctl"]:
            raise Unknown(f"drop_ctl {packet[to_deparser + 'drop_ctl']}")
        ports = list(self.groups.get(packet.get(to_manager + "mcast_grp_a", 0), []))
        if to_manager + "ucast_egress_port" in packet:
            ports.append(packet[to_manager + "ucast_egress_port"])
        priority = packet[to_manager + "qid"]
        if priority > 7 or priority != packet[to_manager + "ingress_cos"]:
            raise Unknown(f"queue {priority} of class {packet[to_manager + 'ingress_cos']}")
        for out in ports:
            self.enqueue(out, priority, len(frame), data)

    def enqueue(self, port, priority, length, data):
        queue = self.queues.setdefault((port, priority), [])
        if len(queue) < self.limits.get(port, 1 << 30):
            queue.append((length, data))
            self.run(self.now)

    def cells(self, port, priority):
        waiting = sum(-(-len(data) // CELL[self.chip]) for _, data in self.queues[port, priority])
        return min(MAX_DEPTH, waiting + (self.standing.get(port, 0) if priority else 0))

    def due(self):
        """When the next packet leaves, and its queue; of one port the highest priority first."""
        waiting = [(self.free.get(key, 0), -key[1], key) for key, queue in self.queues.items() if queue]
        return min(((max(free, self.now), *rest) for free, *rest in waiting), default=None)

    def run(self, until):
        """Lets packets leave until this time."""
        while (next := self.due()) and next[0] <= until:
            self.now, _, (port, priority) = next
            length, data = self.queues[port, priority].pop(0)
            rate = self.rates.get((port, priority)) or self.rates.get((port, None))
            if rate:
                self.free[port, priority] = self.now + SECOND // rate
            if priority == 0 and not any(queue for key, queue in self.queues.items() if key[0] == port):
                self.standing.pop(port, None)
            self.leave(port, self.cells(port, priority), length, data)
        self.now = until

    def leave(self, port, depth, length, data):
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
            raise Unknown("an error of the egress parser")
        data, mirrored = self.pipe("TnaEgress", packet, rest)
        if packet[to_deparser + "drop_ctl"] not in (0, 1):
            raise Unknown(f"drop_ctl {packet[to_deparser + 'drop_ctl']} in egress")
        if not packet[to_deparser + "drop_ctl"]:
            if port == RECIRCULATION_PORT[self.chip]:
                self.receive(port, data)
            else:
                self.sent.setdefault(port, []).append(data)
        # A session that is not bound takes nothing, nor does number 0.
        if mirrored and mirrored[0] in self.sessions:
            head = mirrored[1]
            self.enqueue(self.sessions[mirrored[0]], 0, len(head) + len(data), head + data)
