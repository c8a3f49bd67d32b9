"""Random v1model programs and packets for them. The same seed gives the same ones.

Every program is deterministic: it reads no clock and no queue, its random numbers have equal bounds, and it reads a header
only where it is valid. (In an invalid header, BMv2 reads the values of an earlier packet; so it does in the metadata when it
parses a packet that ingress clones.) Prefix keys have a width of whole
bytes, because BMv2 counts a prefix from the padding before the key. All programs send packets of the lengths in MARKERS
to the ports there, unchanged. BMv2 has an egress thread for each of these ports.

A program is random statements, and some of CONSUMERS. Each of these reads a value of its own, a field of the metadata or of
a header that nothing else reads, so that an engine that loses the value shows it. What the consumer makes of the value
changes the packet; only counters, logs and digests do not.
"""

import random
from typing import NamedTuple

MARKERS = {1500: 4, 1501: 5, 1502: 6, 1503: 7}
PORTS = range(8)
# Maximum number of times that a packet is resubmitted or recirculated.
MAX_REPEATS = 2

HASHES = ["crc16", "crc32", "csum16", "xor16", "identity"]
ARITHMETIC = ["+", "-", "|+|", "|-|", "&", "|", "^"]
COMPARISONS = ["==", "!=", "<", "<=", ">", ">="]

# What reads values, with the stage that reads them. "in" and "out" are ingress and egress.
STAGES = ["parser", "verify", "in", "out", "update"]
IN_BOTH = ["key", "hash", "hash bound", "register index", "register value", "counter", "meter", "random", "truncate", "log",
           "condition", "assignment", "stack index", "deparsed"]
CONSUMERS = {
    "select": "parser", "verify": "parser", "advance": "parser", "varbit": "parser",
    "verify input": "verify", "verify sum": "verify", "verify condition": "verify",
    **{f"{what} in": "in" for what in IN_BOTH}, "digest in": "in", "port in": "in",
    **{f"{what} out": "out" for what in IN_BOTH},
    "update input": "update", "update condition": "update",
    # A list is read when the packet or its copy comes again.
    "resubmit list": "in", "recirculate list": "out",
    "clone session in": "in", "clone list in": "in", "clone session out": "out", "clone list out": "out", "multicast in": "in",
}
# A program makes one kind of copies, since two threads of BMv2 would queue them in any order.
COPIES = {"clone in": ["clone session in", "clone list in"], "clone out": ["clone session out", "clone list out"],
          "multicast in": ["multicast in"]}
# Part of the programs with a consumer.
SHARE = 0.2
# Clones, meters and groups, as statements of simple_switch_CLI and of STF.
SESSIONS, GROUPS, RED_CELLS = [1, 2], [1, 2], [1, 2]
# Values of standard_metadata.instance_type.
CLONED_IN, CLONED_OUT, RECIRCULATED, RESUBMITTED = 1, 2, 4, 6


class Value(NamedTuple):
    """A value that only one consumer reads: a field of the metadata, or of a header."""

    consumer: str
    text: str
    width: int
    header: str | None


class Program:
    """One program. `text` is its P4 source; `packets(n)` yields packets for its parser."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.lines = []
        self.headers = {f"h{i}": self.fields(i) for i in range(self.random.randint(2, 5))}
        self.stack = self.random.choice([0, 0, 2, 3, 4])
        self.varbit = self.random.random() < 0.25
        self.meta = {f"m{i}": self.width() for i in range(self.random.randint(2, 6))}
        self.registers = {f"reg{i}": (self.width(), self.random.randint(1, 4)) for i in range(self.random.randint(0, 2))}
        self.port_in = self.random.choice(PORTS)
        # The fields that only a consumer reads, and the metadata among them.
        self.own, self.own_meta = set(), {}
        # The values of the consumers, and those to be assigned in each stage.
        self.values, self.writes = [], {stage: [] for stage in STAGES}
        # The field lists in which metadata is.
        self.lists = {name: [number for number in (1, 2, 3) if self.chance(0.25)] for name in self.meta}
        # Checksums over metadata by one of their values: (algorithm, inputs, sum); and those over h0, by names.
        self.checks, self.sums = {}, []
        # The values of field lists that the parser reads, not ingress.
        self.read_in_parser = []
        self.without_metadata = False
        self.locals = 0
        self.digest = []
        self.plan()
        self.write()

    text = property(lambda self: "\n".join(self.lines) + "\n")
    consumers = property(lambda self: [value.consumer for value in self.values])

    @property
    def passes(self):
        """The maximum number of passes of a packet and its copies through the program, one after the other."""
        repeats = MAX_REPEATS * any(self.repeats.values())
        return 1 + repeats + (1 + repeats) * (self.copies is not None)

    @property
    def setup(self):
        """The statements, of STF and of simple_switch_CLI, that come before the packets."""
        lines = [f"meter_set_rates {control}.meters {cell} 0:0 0:0" for control in self.metered for cell in RED_CELLS]
        if self.copies in ("clone in", "clone out"):
            lines += [f"mirroring_add {session} {port}" for session, port in zip(SESSIONS, self.copy_ports)]
        if self.copies == "multicast in":
            lines += [f"mc_mgrp_create {group}" for group in GROUPS]
            for node, group in enumerate((1, 2, 2)):
                lines += [f"mc_node_create {node + 1} {self.copy_ports[node % 2]}", f"mc_node_associate {group} {node}"]
        return lines

    # The consumers.

    def plan(self):
        """Chooses the consumers and their values."""
        self.copies = self.random.choice([None] * 3 + list(COPIES))
        self.copied = {what: self.chance(0.7) for what in COPIES.get(self.copies, [])}
        chosen = [what for what in CONSUMERS if self.chance(SHARE) and what != "verify sum"]
        repeated = {"resubmit": "resubmit list" in chosen or self.chance(0.25),
                    "recirculate": "recirculate list" in chosen or self.chance(0.25)}
        if self.copies and all(repeated.values()):
            repeated[self.random.choice(list(repeated))] = False
        self.repeats = {again: self.random.randint(1, 3) if does else 0 for again, does in repeated.items()}
        self.clone_list = self.random.randint(1, 3)
        # The order of packets is the same in BMv2 if one thread queues them, and at one port.
        ordered = self.copies and (self.registers or any("register" in what for what in chosen) or any(self.repeats.values()))
        self.ports = [self.random.choice(PORTS)] if ordered else PORTS
        self.copy_ports = [self.random.choice(self.ports) for _ in range(2)]
        self.metered = []
        of_copies = [what for known in COPIES.values() for what in known]
        for what in CONSUMERS:
            if self.copied.get(what) if what in of_copies else what in chosen:
                self.add_consumer(what)

    def add_consumer(self, what):
        first = what.split()[0]
        if what in ("resubmit list", "recirculate list") and not self.repeats[first]:
            return
        if "register" in what and not self.registers:
            self.registers["reg0"] = self.width(), self.random.randint(1, 4)
        if first == "stack" and self.stack < 2:
            self.stack = 2
        if first == "varbit":
            self.varbit = True
        if first == "meter":
            self.metered.append(what.split()[-1].capitalize())
        widths = [8, 8, 12, 16, 24, 32]
        if first in ("hash", "log", "digest", "assignment", "deparsed", "resubmit", "recirculate") or "list" in what or what == "register value":
            widths = [1, 3, 8, 9, 16, 20, 32, 48, 64, 65, 128]
        if what == "hash bound":
            widths = [1, 3, 8, 16, 32]
        if first == "random":
            widths = [8, 9, 16, 32, 33, 64]
        if what == "update input":
            widths = [4, 8, 16, 20, 32, 64, 128]
        if what == "verify input":
            return self.add_verified()
        in_header = "deparsed" in what or self.chance(0.4) and "list" not in what
        header = "h0" if what == "varbit" or self.chance(0.6) else self.random.choice(list(self.headers))
        value = self.own_value(what, self.random.choice(widths), header if in_header else None)
        if what in ("resubmit list", "recirculate list") and self.copies != "clone in" and self.chance(0.5):
            self.read_in_parser.append(value)

    def add_verified(self):
        """Adds a checksum to verify: over h0, for which packets are made, or over metadata, which the parser computes."""
        header = "h0" if self.chance(0.5) else None
        total = self.own_value("verify sum", 16, header)
        algorithm = self.random.choice(["csum16", "xor16"] if header else ["csum16", "xor16", "identity"])
        inputs = [self.own_value("verify input", self.random.choice([16, 32, 48]) if header else 16, header)
                  for _ in range(self.random.randint(1, 2) if header else 1 + (algorithm != "identity"))]
        self.checks[inputs[0]] = algorithm, inputs, total
        if header:
            self.sums.append((algorithm, [value.text.split(".")[-1] for value in inputs], total.text.split(".")[-1]))

    def own_value(self, what, width, header):
        """Makes a field that nothing else reads, in a header or in the metadata, and chooses where it is assigned."""
        name, stage = f"o{len(self.own)}", CONSUMERS[what]
        self.own.add(name)
        if header:
            fields = list(self.headers[header].items())
            place = self.random.randint(1, len(fields) - (fields[-1][1] == 16))
            new = [(name, width)] + [(f"p{name}", -width % 8)] * (width % 8 > 0)
            if self.chance(0.5):
                new.reverse()
            self.headers[header] = dict(fields[:place] + new + fields[place:])
        else:
            self.own_meta[name] = width
            self.lists[name] = [number for number in (1, 2, 3) if self.chance(0.2)]
        value = Value(what, f"hdr.{header}.{name}" if header else f"meta.{name}", width, header)
        if "list" in what:
            number = self.clone_list if "clone" in what else self.repeats[what.split()[0]]
            self.lists[name] = sorted({number, *self.lists[name]})
            before = {"resubmit": ["in"], "recirculate": ["in", "out"], "clone": ["parser", "in"] + ["out"] * (stage == "out")}
            self.writes[self.random.choice(before[what.split()[0]])].append(value)
        elif what in ("verify input", "verify sum") or "deparsed" in what:
            pass
        elif not header or self.chance(0.4):
            before = STAGES[: STAGES.index(stage) + 1]
            self.writes[self.random.choice([it for it in before if it in ("parser", "in", "out")])].append(value)
        self.values.append(value)
        return value

    def of(self, *stages):
        """Returns the values that these stages read."""
        return [value for value in self.values if CONSUMERS[value.consumer] in stages]

    def write_own(self, value, scope):
        """Returns the assignment of a value, which differs from packet to packet. It is often small, because tables and parsers
        match small numbers."""
        fields = [field for field in self.fields_in(scope) if field[0].startswith("hdr")]
        text, width = self.random.choice(fields)
        text = text if width == value.width else f"((bit<{value.width}>){text})"
        if self.chance(0.5):
            text = f"({text} {self.random.choice(['^', '+', '-'])} {self.value(scope, value.width, 1)})"
        if value.width >= 8 and self.chance(0.6):
            text = f"({text} & {value.width}w7)"
        return f"{value.text} = {text};"

    def local(self):
        self.locals += 1
        return f"t{self.locals}"

    def show(self, text):
        """Returns a statement by which this value changes the packet."""
        name, width = self.random.choice([(name, width) for name, width in self.headers["h0"].items() if name not in self.own])
        return f"hdr.h0.{name} = hdr.h0.{name} ^ (bit<{width}>){text};"

    def consume(self, value, ingress):
        """Yields the statements in which a control reads a value, where its header is valid."""
        what, (text, width) = value.consumer.rsplit(" ", 1)[0], value[1:3]
        scope = ("h0", *([value.header] if value.header else []))
        index = f"(bit<32>){text}"
        other = lambda: self.value(scope, self.random.choice([8, 16, 32, 48]), 0)
        if what in ("hash", "hash bound"):
            data = [text, other()] if what == "hash" else [other()]
            self.random.shuffle(data)
            base, most = (index if what == "hash bound" else "32w0"), f"32w{self.random.choice([7, 256, 65536])}"
            if what == "hash bound" and self.chance(0.5):
                base, most = "32w0", f"({index} | 1)"
            local = self.local()
            yield f"bit<32> {local};"
            yield f"hash({local}, HashAlgorithm.{self.random.choice(HASHES)}, {base}, {{ {', '.join(data)} }}, {most});"
            yield self.show(local)
        elif what in ("register index", "register value"):
            register, (bits, log) = self.random.choice(list(self.registers.items()))
            cell = f"{index} & {2**log - 1}" if what == "register index" else f"32w{self.random.randrange(2**log)}"
            data = self.value(scope, bits, 1) if what == "register index" else f"(bit<{bits}>){text}"
            local = self.local()
            if what == "register index" and self.chance(0.5):
                yield f"{register}.write(32w{self.random.randrange(2**log)}, {data});"
            else:
                yield f"{register}.write({cell}, {data});"
                cell = f"32w{self.random.randrange(2**log)}" if what == "register index" else cell
            yield f"bit<{bits}> {local};"
            yield f"{register}.read({local}, {cell});"
            yield self.show(local)
        elif what == "counter":
            yield f"count.count({index} & 3);"
        elif what == "meter":
            local = self.local()
            yield f"bit<8> {local};"
            yield f"meters.execute_meter({index} & 3, {local});"
            yield self.show(local)
        elif what == "random":
            local = self.local()
            yield f"bit<{width}> {local};"
            yield f"random({local}, {text}, {text});"
            yield self.show(local)
        elif what == "truncate":
            yield f"truncate(32w14 + ({index} & 63));"
        elif what == "log":
            data = [text, other()]
            self.random.shuffle(data)
            yield f'log_msg("{value.text} {{}} {{}}", {{ {", ".join(data)} }});'
        elif what == "condition":
            mask = 2 ** min(width, 2) - 1
            yield f"if ({text} & {width}w{mask} == {width}w{self.random.randint(0, mask)}) {{"
            yield self.show(self.constant(8))
            yield "}"
        elif what == "assignment":
            yield self.show(text)
        elif what == "stack index":
            # Valid elements are the first ones. p4c cannot compile isValid() with an index that is computed.
            place = f"hdr.stk[{index} & 1].data"
            yield "if (hdr.stk[1].isValid()) {"
            yield self.show(place) if self.chance(0.5) else f"{place} = {place} ^ {self.value(scope, 16, 1)};"
            yield "}"
        elif what == "deparsed":
            yield self.write_own(value, scope)
        elif what == "digest":
            data = [(text, width), *((self.value(scope, bits, 0), bits) for bits in [8, 16][: self.random.randint(0, 2)])]
            self.random.shuffle(data)
            self.digest = [bits for _, bits in data]
            yield f"digest<digest_t>(1, {{ {', '.join(text for text, _ in data)} }});"
        elif what == "port":
            yield f"standard_metadata.egress_spec = {self.to_port(text, width)};"
        elif what == "clone session":
            yield from self.clone(ingress, f"{index} & 3")
        elif what == "multicast":
            yield f"if (meta.passes == 0) {{ standard_metadata.mcast_grp = (bit<16>){text} & 3; }}"

    def clone(self, ingress, session):
        kind, new = ("I2E", "") if ingress else ("E2E", " && standard_metadata.instance_type == 0")
        yield f"if (meta.passes == 0{new}) {{ clone_preserving_field_list(CloneType.{kind}, {session}, {self.clone_list}); }}"

    def copy(self, ingress):
        """Yields the statement that makes copies of a packet, if no consumer does."""
        if self.copies == ("clone in" if ingress else "clone out") and not any("session" in what for what in self.consumers):
            yield from self.clone(ingress, f"32w{self.random.choice(SESSIONS)}")
        if self.copies == "multicast in" and ingress and "multicast in" not in self.consumers:
            yield f"if (meta.passes == 0) {{ standard_metadata.mcast_grp = {self.random.choice(GROUPS)}; }}"

    def guarded(self, header, lines):
        """Yields statements that need this header."""
        if header in (None, "h0"):
            yield from lines
        else:
            yield f"if (hdr.{header}.isValid()) {{"
            yield from lines
            yield "}"

    # Choices.

    def chance(self, probability):
        return self.random.random() < probability

    def width(self):
        return self.random.choice([1, 3, 4, 7, 8, 9, 12, 16, 16, 20, 32, 32, 33, 48, 64, 65, 100, 128])

    def fields(self, number):
        """Returns names and widths, together whole bytes. The first field is a byte, on which the parser selects."""
        widths = [8, *(self.random.choice([1, 2, 3, 4, 5, 8, 12, 16, 24, 32, 48, 64, 128]) for _ in range(self.random.randint(1, 6)))]
        if self.chance(0.3):
            widths.append(16)
        pad = -sum(widths) % 8
        widths += [pad] * (pad > 0)
        return {f"f{number}_{i}": width for i, width in enumerate(widths)}

    def fields_in(self, scope):
        """Returns the fields that exist where these headers are valid, but for those of consumers: (text, width)."""
        scope = tuple(dict.fromkeys(scope))
        fields = [(f"hdr.{header}.{name}", width) for header in scope if header in self.headers
                  for name, width in self.headers[header].items() if name not in self.own]
        fields += [(f"hdr.stk[{i}].{name}", width) for header in scope if header.startswith("stk")
                   for i in [int(header[3:])] for name, width in (("tag", 15), ("more", 1), ("data", 16))]
        return fields + [(f"meta.{name}", width) for name, width in self.meta.items()] * (not self.without_metadata)

    def targets_in(self, scope):
        """Returns the fields that may be assigned: also those that only a consumer reads."""
        own = [(f"hdr.{header}.{name}", width) for header in dict.fromkeys(scope) if header in self.headers
               for name, width in self.headers[header].items() if name in self.own]
        return self.fields_in(scope) + own + [(f"meta.{name}", width) for name, width in self.own_meta.items()]

    def constant(self, width):
        value = self.random.choice([0, 1, 2**width - 1, self.random.getrandbits(width), self.random.getrandbits(min(width, 3))])
        return f"{width}w{value % 2**width}"

    def value(self, scope, width, depth=2, names=()):
        """Returns a random expression of this width."""
        known = self.fields_in(scope) + list(names)
        kind = self.random.choice(["field"] * 4 + ["constant"] + (["two"] * 4 + ["not", "shift", "signed", "if", "join", "less"]) * (depth > 0))
        inner = lambda bits=width: self.value(scope, bits, depth - 1, names)
        if kind == "two":
            return f"({inner()} {self.random.choice(ARITHMETIC)} {inner()})"
        if kind == "not":
            return f"({self.random.choice('~-')}{inner()})"
        if kind == "shift":
            return f"({inner()} {self.random.choice(['<<', '>>'])} ({inner(8)} & 63))"
        if kind == "signed":
            return f"(bit<{width}>)((int<{width}>){inner()} {self.random.choice(['+', '-', '|+|', '|-|'])} (int<{width}>){inner()})"
        if kind == "less":
            return f"(bit<{width}>)((int<{width}>){inner()} >> {self.random.randint(0, width - 1)})"
        if kind == "if":
            return f"({self.condition(scope, depth - 1, names)} ? {inner()} : {inner()})"
        if kind == "join" and width > 1:
            cut = self.random.randint(1, width - 1)
            return f"({inner(cut)} ++ {inner(width - cut)})"
        same = [text for text, bits in known if bits == width]
        if kind == "constant" or not known:
            return self.constant(width)
        if same and self.chance(0.7):
            return self.random.choice(same)
        text, bits = self.random.choice(known)
        if bits > width and self.chance(0.5):
            low = self.random.randint(0, bits - width)
            return f"{text}[{low + width - 1}:{low}]"
        return f"((bit<{width}>){text})"

    def condition(self, scope, depth=1, names=()):
        kind = self.random.randint(0, 5 if depth > 0 else 3)
        if kind == 5:
            return f"({self.condition(scope, depth - 1, names)} {self.random.choice(['&&', '||'])} {self.condition(scope, depth - 1, names)})"
        if kind == 4:
            return f"(!{self.condition(scope, depth - 1, names)})"
        if kind == 3:
            return f"hdr.{self.random.choice(list(self.headers))}.isValid()"
        width = self.random.choice([bits for _, bits in self.fields_in(scope)])
        sign = f"(int<{width}>)" * self.chance(0.3)
        left, right = (self.value(scope, width, depth, names) for _ in range(2))
        return f"({sign}{left} {self.random.choice(COMPARISONS)} {sign}{right})"

    def port(self, scope, names=()):
        return self.to_port(self.value(scope, 8, 1, names), 8)

    def to_port(self, text, width):
        return f"(bit<9>)({text} & {width}w7)" if len(self.ports) > 1 else f"{self.ports[0]}"

    # Statements.

    def assignment(self, scope, names=()):
        text, width = self.random.choice(self.targets_in(scope))
        if width > 2 and self.chance(0.15):
            low = self.random.randint(0, width - 2)
            high = self.random.randint(low, width - 1)
            return f"{text}[{high}:{low}] = {self.value(scope, high - low + 1, 1, names)};"
        return f"{text} = {self.value(scope, width, 2, names)};"

    def extern(self, scope, ingress, names=()):
        """Returns a statement that calls an extern of v1model."""
        kind = self.random.randint(0, 5)
        meta = [(name, width) for name, width in self.meta.items()]
        name, width = self.random.choice(meta)
        if kind == 0 and self.registers:
            register, (bits, log) = self.random.choice(list(self.registers.items()))
            index = f"(bit<32>){self.value(scope, log, 1, names)}"
            if self.chance(0.5):
                return f"{register}.write({index}, {self.value(scope, bits, 1, names)});"
            same = [f"meta.{name}" for name, width in meta if width == bits]
            if same:
                return f"{register}.read({self.random.choice(same)}, {index});"
        if kind == 1:
            data = ", ".join(self.value(scope, bits, 0, names) for bits in [self.random.choice([8, 16, 32, 48]) for _ in range(self.random.randint(1, 4))])
            most = self.random.choice([1, 2, 7, 256, 65536])
            return f"hash(meta.{name}, HashAlgorithm.{self.random.choice(HASHES)}, {width}w{self.random.randint(0, 1)}, {{ {data} }}, 32w{most});"
        if kind == 2:
            return "mark_to_drop(standard_metadata);" if self.chance(0.3) else f"count.count((bit<32>){self.value(scope, 2, 0, names)});"
        if kind == 3 and self.chance(0.3):
            return f"truncate({self.random.choice([14, 40, 64])});"
        if ingress:
            return f"standard_metadata.egress_spec = {self.port(scope, names)};"
        return self.assignment(scope, names)

    def block(self, scope, ingress, depth, tables):
        """Yields the statements of an apply block."""
        for _ in range(self.random.randint(1, 4)):
            kind = self.random.choice(["assign"] * 3 + ["extern"] * 2 + (["if", "valid", "valid"] * (depth > 0)) + ["table"] * 2)
            if kind == "table":
                ready = [table for table, needs in tables.items() if needs in scope]
                if not ready:
                    continue
                table = self.random.choice(ready)
                del tables[table]
                kind = self.random.randint(0, 2)
                if kind == 0:
                    yield f"{table}.apply();"
                elif kind == 1:
                    yield f"if ({table}.apply().{self.random.choice(['hit', 'miss'])}) {{"
                    yield from self.block(scope, ingress, 0, {})
                    yield "}"
                else:
                    yield f"switch ({table}.apply().action_run) {{"
                    yield f"{table}_a0: {{"
                    yield from self.block(scope, ingress, 0, {})
                    yield "}\ndefault: {"
                    yield from self.block(scope, ingress, 0, {})
                    yield "}\n}"
            elif kind == "if":
                yield f"if ({self.condition(scope)}) {{"
                yield from self.block(scope, ingress, depth - 1, tables)
                yield "} else {"
                yield from self.block(scope, ingress, depth - 1, tables)
                yield "}"
            elif kind == "valid":
                header = self.random.choice([*self.headers, *(f"stk{i}" for i in range(self.stack))])
                text = f"stk[{header[3:]}]" if header.startswith("stk") else header
                yield f"if (hdr.{text}.isValid()) {{"
                yield from self.block((*scope, header), ingress, depth - 1, tables)
                yield "}"
            else:
                yield self.assignment(scope) if kind == "assign" else self.extern(scope, ingress)

    def changes(self):
        """Yields statements that make headers valid and invalid."""
        header = self.random.choice(list(self.headers)[1:])
        kind = self.random.randint(0, 3)
        if kind == 0:
            yield f"hdr.{header}.setInvalid();"
        elif kind == 1:
            yield f"hdr.{header}.setValid();"
            for name, width in self.headers[header].items():
                yield f"hdr.{header}.{name} = {self.value(['h0'], width, 1)};"
        elif kind == 2 and self.stack:
            yield f"hdr.stk.pop_front({self.random.randint(1, self.stack - 1)});"
        elif kind == 3 and self.stack:
            yield "hdr.stk.push_front(1);\nhdr.stk[0].setValid();"
            for name, width in (("tag", 15), ("more", 1), ("data", 16)):
                yield f"hdr.stk[0].{name} = {self.value(['h0'], width, 1)};"

    def table(self, name, needs, ingress, own_key, in_action):
        """Writes a table, its actions and its entries. `own_key` is the value of a consumer, or None; those of `in_action`
        are read in actions."""
        scope = ("h0", needs)
        actions = []
        for number in range(self.random.randint(1, 3)):
            parameters = [(f"p{i}", self.width()) for i in range(self.random.randint(0, 3))]
            actions.append((f"{name}_a{number}", parameters))
            self.put(f"action {name}_a{number}({', '.join(f'bit<{bits}> {it}' for it, bits in parameters)}) {{")
            for _ in range(self.random.randint(1, 4)):
                self.put(self.assignment(scope, parameters) if self.chance(0.6) else self.extern(scope, ingress, parameters))
            if in_action:
                self.put(*self.consume(in_action.pop(), ingress))
            self.put("}")
        kinds, longest = [], False
        for _ in range(self.random.randint(1, 3)):
            kind = self.random.choice(["exact", "ternary", "range"] + ["lpm"] * (not longest))
            longest |= kind == "lpm"
            width = self.random.choice([4, 8, 8, 16, 32])
            kinds.append((self.value(scope, width, 0), width, kind))
        if own_key:
            kind = self.random.choice(["exact", "ternary", "range"] + ["lpm"] * (not longest and own_key.width % 8 == 0))
            longest |= kind == "lpm"
            kinds = [(own_key.text, own_key.width, kind), *kinds[1:]]
            self.random.shuffle(kinds)
        kinds = [(text, width, "ternary" if kind == "lpm" and width % 8 else kind) for text, width, kind in kinds]
        if longest and any(kind == "range" for _, _, kind in kinds):
            kinds = [(text, width, "ternary" if kind == "range" else kind) for text, width, kind in kinds]
        keys = " ".join(f"{text} : {kind} @name(\"k{i}\");" for i, (text, _, kind) in enumerate(kinds))
        call = lambda: (lambda it: f"{it[0]}({', '.join(self.constant(bits) for _, bits in it[1])})")(self.random.choice(actions))
        # Entries are distinct; in other than exact tables, the first match wins.
        entries = dict.fromkeys(", ".join(self.match(width, kind) for _, width, kind in kinds) for _ in range(self.random.randint(0, 8)))
        self.put(f"table {name} {{", f"key = {{ {keys} }}", f"actions = {{ {' '.join(f'{it};' for it, _ in actions)} }}",
                 f"default_action = {call()};")
        if entries:
            self.put("const entries = {", *(f"({it}) : {call()};" for it in entries), "}")
        self.put("}")

    def match(self, width, kind):
        """Returns the match of an entry, mostly of small values, so that packets match."""
        value = self.random.getrandbits(self.random.choice([2, 3, width]) if width > 3 else width)
        top = 2**width - 1
        if kind == "exact":
            return f"{width}w{value}"
        if kind == "range":
            low, high = sorted([value, self.random.getrandbits(width)])
            return f"{width}w{low} .. {width}w{high}"
        mask = self.random.getrandbits(width) if kind == "ternary" else top ^ (top >> self.random.randint(0, width))
        return f"{width}w{value & mask} &&& {width}w{mask}"

    # The program.

    def put(self, *lines):
        self.lines += lines

    def write(self):
        self.parser()
        self.checksums()
        self.control("In", True)
        self.control("Out", False)
        order = list(self.headers)
        if self.chance(0.3):
            self.random.shuffle(order)
        order += ["v"] * self.varbit + ["stk"] * (self.stack > 0)
        self.put("control Dep(packet_out pkt, in headers_t hdr) { apply {", *(f"pkt.emit(hdr.{it});" for it in order), "} }")
        self.put("V1Switch(Par(), Check(), In(), Out(), Compute(), Dep()) main;")
        body, self.lines = self.lines, []
        self.put("#include <core.p4>", "#include <v1model.p4>", "error { Bad }")
        for header, fields in self.headers.items():
            self.put(f"header {header}_t {{ " + " ".join(f"bit<{width}> {name};" for name, width in fields.items()) + " }")
        self.put("header stk_t { bit<15> tag; bit<1> more; bit<16> data; }", "header var_t { bit<8> len; varbit<128> data; }")
        self.put("struct headers_t {", *(f"{it}_t {it};" for it in self.headers))
        self.put(f"stk_t[{self.stack}] stk;" * (self.stack > 0), "var_t v;" * self.varbit, "}")
        listed = lambda name: f"@field_list({', '.join(map(str, self.lists[name]))}) " if self.lists[name] else ""
        self.put("struct meta_t {", "@field_list(1, 2, 3) bit<8> passes;",
                 *(f"{listed(name)}bit<{width}> {name};" for name, width in {**self.meta, **self.own_meta}.items()), "bit<16> zero;", "}")
        if self.digest:
            self.put("struct digest_t {", *(f"bit<{bits}> d{i};" for i, bits in enumerate(self.digest)), "}")
        self.lines += body

    def parser(self):
        self.put("parser Par(packet_in pkt, out headers_t hdr, inout meta_t meta, inout standard_metadata_t standard_metadata) {")
        self.without_metadata = self.copies == "clone in"
        states = [*self.headers, *(["stk"] if self.stack else []), *(["v"] if self.varbit else [])]
        own = self.of("parser", "verify")
        for number, state in enumerate(states):
            later = states[number + 1 :]
            self.put(f"state {'start' if number == 0 else state} {{")
            if state == "stk":
                self.put("pkt.extract(hdr.stk.next);", "transition select(hdr.stk.last.more) { 1: stk; default: "
                         + (later[0] if later else "accept") + "; }", "}")
                continue
            if state == "v":
                length = [f"(bit<32>){value.text}" for value in own if value.consumer == "varbit"]
                if not length:
                    self.put("bit<8> peek = pkt.lookahead<bit<8>>();")
                self.put(f"pkt.extract(hdr.v, ({length[0] if length else '(bit<32>)peek'} & 15) << 3);", "transition accept; }")
                continue
            self.put(f"pkt.extract(hdr.{state});")
            names = list(self.headers[state])
            here = lambda value: value.header == state or value.header is None and number == 0
            for value in filter(here, self.writes["parser"]):
                self.put(self.write_own(value, (state,)))
            if number == 0:
                # The values that a packet brings from its earlier pass.
                self.put(*(self.show(value.text) for value in self.read_in_parser))
            if self.chance(0.2):
                self.put(f"verify(hdr.{state}.{names[0]} != {self.random.randint(0, 9)}, error.Bad);")
            if self.chance(0.15):
                self.put("pkt.advance(16);")
            if self.chance(0.4):
                name, width = self.random.choice(list(self.meta.items()))
                self.put(f"meta.{name} = {self.value((state,), width, 1)};")
            key = f"hdr.{state}.{names[0]}" if self.chance(0.7) or not later else "pkt.lookahead<bit<8>>()"
            selected = []
            for value in filter(here, own):
                if value.consumer == "select":
                    selected.append(value)
                elif value.consumer == "verify":
                    self.put(f"verify({value.text} & {value.width}w3 != {self.random.randint(0, 3)}, error.Bad);")
                elif value.consumer == "advance":
                    self.put(f"pkt.advance(((bit<32>){value.text} & 3) << 3);")
                elif value in self.checks and not value.header:
                    self.put(*self.balance(value, state))
            self.put(f"transition select({', '.join([key, *(value.text for value in selected)])}) {{")
            for _ in range(self.random.randint(1, 3)):
                value, target = self.random.randint(0, 5), self.random.choice([*later, *later, "accept", "reject"][: max(4, len(later))])
                case = [f"{value} &&& {self.random.choice([7, 255, 15])}"]
                case += [f"{self.random.randint(0, 3)} &&& {self.random.choice([0, 1, 3])}" for _ in selected]
                self.put(f"{case[0] if len(case) == 1 else '(' + ', '.join(case) + ')'}: {target};")
            targets = [*later, *later, "accept"] + ["v"] * (2 * len(later) + 2) * ("varbit" in self.consumers)
            self.put(f"default: {self.random.choice(targets)};", "}", "}")
        self.put("}")
        self.without_metadata = False

    def balance(self, value, state):
        """Yields the assignments by which a checksum over metadata is right in many packets."""
        algorithm, inputs, total = self.checks[value]
        a, b = (self.value((state,), 16, 1) for _ in range(2))
        yield f"{total.text} = {a}" + f" + (bit<16>)({self.value((state,), 8, 0)} & 1)" * self.chance(0.5) + ";"
        if algorithm == "identity":
            yield f"{value.text} = {a};"
            return
        yield f"{inputs[1].text} = {b};"
        if algorithm == "xor16":
            yield f"{value.text} = {a} ^ {b};"
            return
        local = self.local()
        yield f"bit<17> {local} = (bit<17>)(~{a}) + (bit<17>)(~{b});"
        yield f"{value.text} = {local}[15:0] + (bit<16>){local}[16:16];"

    def checksums(self):
        """Writes checksum calls: a header that ends with 16 bits may have a checksum of its other fields there; consumers
        read parts of headers and metadata."""
        calls = {"verify": [], "update": []}
        write = lambda call, condition, data, target, algorithm: calls[call].append(
            f"{call}_checksum{'_with_payload' * self.chance(0.1 * (call == 'update'))}({condition}, {{ {', '.join(data)} }}, {target}, HashAlgorithm.{algorithm});")
        for value in self.of("verify", "update"):
            if value.consumer == "verify input" and value in self.checks:
                algorithm, inputs, total = self.checks[value]
                write("verify", "hdr.h0.isValid()", [it.text for it in inputs], total.text, algorithm)
            elif value.consumer == "verify condition":
                write("verify", self.own_condition(value), ["hdr.h0.f0_0", "8w90"], "meta.zero", "csum16")
            elif value.consumer == "update input":
                self.update(value, "{}", value.text, write)
            elif value.consumer == "update condition":
                self.update(value, f"{{}} && {self.own_condition(value)}", None, write)
        for value in self.values:
            if value.consumer == "recirculate list" and self.chance(0.3):
                write("update", "hdr.h0.isValid()", ["hdr.h0.f0_0"], value.text, "crc16")
        for header, fields in self.headers.items():
            names = list(fields)
            if fields[names[-1]] == 16 and len(names) > 1 and names[-1] not in self.own:
                data = [f"hdr.{header}.{name}" for name in names[:-1]]
                for call in calls:
                    # Only the packets of h0 have the right one: another would hide what consumers read.
                    if self.chance(0.5) and (call == "update" or header == "h0" or not self.of("verify")):
                        condition = self.random.choice([f"hdr.{header}.isValid()", f"hdr.{header}.isValid() && hdr.{header}.{names[0]} > 3"])
                        calls[call].append(f"{call}_checksum({condition}, {{ {', '.join(data)} }}, hdr.{header}.{names[-1]}, HashAlgorithm.csum16);")
                        if call == "verify" and header == "h0":
                            self.sums.append(("csum16", names[:-1], names[-1]))
        for name, call in (("Check", "verify"), ("Compute", "update")):
            self.put(f"control {name}(inout headers_t hdr, inout meta_t meta) {{ apply {{", *calls[call], "} }")

    def own_condition(self, value):
        mask = 2 ** min(value.width, 2) - 1
        condition = f"{value.text} & {value.width}w{mask} == {value.width}w{self.random.randint(0, mask)}"
        return f"hdr.{value.header}.isValid() && {condition}" if value.header else condition

    def update(self, value, condition, own, write):
        """Writes a checksum of random fields, and of the field `own`, into a random field. `{}` in `condition` is the validity
        of its header."""
        header = self.random.choice(list(self.headers)) if self.chance(0.4) else "h0"
        # The embedded switch refuses wider ones.
        targets = [name for name, width in self.headers[header].items() if name not in self.own and width <= 64]
        target = self.random.choice(targets[1:] or targets)
        fields = [it for it in self.fields_in(self.headers) if it[0] != f"hdr.{header}.{target}"]
        data = [self.random.choice(fields) for _ in range(self.random.randint(0 if own else 1, 3))]
        if own:
            data.insert(self.random.randint(0, len(data)), (own, value.width))
        pad = -sum(width for _, width in data) % 16
        data = [text for text, _ in data] + [f"{pad}w0"] * (pad > 0)
        if self.varbit and self.chance(0.2):
            data.append("hdr.v.data")
        algorithm = self.random.choice(["csum16", "csum16", "xor16", "crc16", "crc32", "identity"])
        write("update", condition.format(f"hdr.{header}.isValid()"), data, f"hdr.{header}.{target}", algorithm)

    def control(self, name, ingress):
        self.put(f"control {name}(inout headers_t hdr, inout meta_t meta, inout standard_metadata_t standard_metadata) {{")
        stage = name.lower()
        own = self.of(stage)
        for register, (width, log) in self.registers.items():
            self.put(f"register<bit<{width}>>({2**log}) {register};")
        self.put("counter(4, CounterType.packets_and_bytes) count;")
        if name in self.metered:
            self.put("meter(4, MeterType.packets) meters;")
        keys = [value for value in own if value.consumer == f"key {stage}"]
        read = [value for value in own if value not in keys and "list" not in value.consumer]
        self.random.shuffle(read)
        tables, forced = {}, []
        for number in range(max(len(keys), self.random.randint(0, 3))):
            table, key = f"{stage}_t{number}", keys.pop() if keys else None
            tables[table] = key.header if key and key.header else self.random.choice(list(self.headers))
            in_action = [value for value in read if value.header in (None, "h0", tables[table]) and value.consumer.rsplit(" ", 1)[0]
                         not in ("condition", "stack index", "clone session", "multicast") and self.chance(0.15)]
            read = [value for value in read if value not in in_action]
            forced += [table] * (key is not None or in_action != [])
            self.table(table, tables[table], ingress, key, in_action)
            read += in_action
        self.put("apply {", f"if (standard_metadata.packet_length >= {min(MARKERS)}) {{")
        self.put("standard_metadata.egress_spec = (bit<9>)(standard_metadata.packet_length - 1496);" if ingress else "")
        self.put("} else {")
        if ingress:
            self.put(f"standard_metadata.egress_spec = {self.random.choice(['standard_metadata.ingress_port', '1', '2'])};" if len(self.ports) > 1
                     else f"standard_metadata.egress_spec = {self.ports[0]};")
            if self.chance(0.5):
                name, width = self.random.choice(list(self.meta.items()))
                cast = "(bit<32>)" if self.chance(0.5) else ""
                what = self.random.choice(["standard_metadata.packet_length", "(bit<32>)standard_metadata.ingress_port",
                                           "(bit<32>)standard_metadata.instance_type", "(bit<32>)standard_metadata.checksum_error",
                                           "(standard_metadata.parser_error == error.NoError ? 32w0 : 32w1)",
                                           "(standard_metadata.parser_error == error.PacketTooShort ? 32w5 : 32w6)"])
                self.put(f"meta.{name} = (bit<{width}>){cast}{what};")
        self.put("if (hdr.h0.isValid()) {")
        if ingress and self.of("verify"):
            self.put(self.show("standard_metadata.checksum_error"))
        if ingress and "verify" in self.consumers:
            self.put(self.show("(standard_metadata.parser_error == error.Bad ? 8w1 : 8w0)"))
        for value in self.values:
            if value.consumer in ("resubmit list", "recirculate list") and ingress and value not in self.read_in_parser:
                kind = RESUBMITTED if value.consumer == "resubmit list" else RECIRCULATED
            elif value.consumer == ("clone list in" if self.copies == "clone in" else "clone list out") and not ingress:
                kind = CLONED_IN if self.copies == "clone in" else CLONED_OUT
            else:
                continue
            self.put(f"if (standard_metadata.instance_type == {kind}) {{", self.show(value.text), "}")
        for value in self.writes[stage]:
            self.put(*self.guarded(value.header, [self.write_own(value, ("h0", *([value.header] if value.header else [])))]))
        parts = [list(self.guarded(value.header, self.consume(value, ingress))) for value in read]
        parts += [list(self.guarded(tables.pop(table), [f"{table}.apply();"])) for table in forced]
        parts += [list(self.copy(ingress)), list(self.block(("h0",), ingress, 2, tables))]
        self.random.shuffle(parts)
        self.put(*(line for part in parts for line in part), "}")
        again = "resubmit" if ingress else "recirculate"
        if self.repeats[again]:
            condition = self.condition(("h0",), 0) if self.chance(0.5) else f"hdr.h0.f0_0 & 3 != {self.random.randint(0, 3)}"
            self.put(f"if (meta.passes < {MAX_REPEATS} && hdr.h0.isValid() && {condition}) {{",
                     f"meta.passes = meta.passes + 1; {again}_preserving_field_list({self.repeats[again]}); }}")
        self.put("if (hdr.h0.isValid()) {", *self.changes(), "}", "}", "}", "}")


    # Packets.

    def packets(self, count):
        """Yields random frames."""
        for _ in range(count):
            length = self.random.choice([self.random.randint(1, 20), self.random.randint(20, 160), self.random.randint(60, 700)])
            frame = bytearray(self.random.getrandbits(8) for _ in range(length))
            # Many bytes are small, because parser and tables match small numbers.
            for index in range(length):
                if self.chance(0.5):
                    frame[index] = self.random.randint(0, 6)
            for algorithm, inputs, total in self.sums:
                if self.chance(0.6):
                    self.set_sum(frame, algorithm, inputs, total)
            yield bytes(frame)

    def set_sum(self, frame, algorithm, inputs, total):
        """Makes a checksum of fields of h0, the first header, right."""
        widths = self.headers["h0"]
        length = sum(widths.values())
        if len(frame) * 8 < length:
            return
        bits, left, shifts = int.from_bytes(frame[: length // 8], "big"), length, {}
        for name, width in widths.items():
            left -= width
            shifts[name] = left
        data, size = 0, 0
        for name in inputs:
            data, size = data << widths[name] | bits >> shifts[name] & 2 ** widths[name] - 1, size + widths[name]
        # A last byte is the upper half of a word.
        data, size = data << -size % 16, size + -size % 16
        result = 0
        for shift in range(0, size, 16):
            word = data >> shift & 0xFFFF
            result = result ^ word if algorithm == "xor16" else (result + word) % 0xFFFF or 0xFFFF * (result + word > 0)
        result = result if algorithm == "xor16" else 0xFFFF - result
        bits = bits & ~(0xFFFF << shifts[total]) | result << shifts[total]
        frame[: length // 8] = bits.to_bytes(length // 8, "big")
