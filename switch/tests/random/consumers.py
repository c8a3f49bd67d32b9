"""Consumers of values, for the random programs: tables, hashes, checksums, field lists and whatever else reads a value.

Each reads a value of its own, a field of the metadata or of a header that nothing else reads, so that an engine that loses the
value shows it. What the consumer makes of the value changes the packet; only counters, logs and digests do not.
"""

from typing import NamedTuple

PORTS = range(8)
# Maximum number of times that a packet is resubmitted or recirculated.
MAX_REPEATS = 2
HASHES = ["crc16", "crc32", "csum16", "xor16", "identity"]

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


class Consumers:
    """The part of a program that has to do with consumers."""

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

    def plan(self):
        """Chooses the consumers and their values."""
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
        self.locals = 0
        self.digest = []
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
        if "list" in what and not self.repeats.get(first, True) or what == "port in" and len(self.ports) == 1:
            return
        if "register" in what and not self.registers:
            self.registers["reg0"] = self.width(), self.random.randint(1, 4)
        if first == "stack" and self.stack < 2:
            self.stack = 2
        if first == "varbit":
            self.varbit = True
        if first == "digest":
            # The embedded switch gets packets from its CPU port, which cannot be 0.
            self.port_in = self.port_in or 1
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
        """Yields assignments of a value in a control. p4c would read what is assigned instead, if there was only one."""
        yield f"if (hdr.h0.f0_0 & 1 == {self.random.randint(0, 1)}) {{"
        yield self.assign_own(value, scope)
        yield "} else {"
        yield self.assign_own(value, scope)
        yield "}"

    def assign_own(self, value, scope):
        """Returns an assignment of a value, which differs from packet to packet. It is often small, because tables and parsers
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
        fields = [(name, width) for name, width in self.headers["h0"].items() if name not in self.own and width >= 4]
        name, width = self.random.choice(fields)
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
            data = f"{self.value(scope, bits, 1)} | 1" if what == "register index" else f"(bit<{bits}>){text}"
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
            yield self.show("8w255")
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
            yield self.assign_own(value, scope)
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
