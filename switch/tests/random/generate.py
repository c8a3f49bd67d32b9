"""Random v1model programs and packets for them. The same seed gives the same ones.

Every program is deterministic: it reads no clock and no queue, its random numbers have equal bounds, and it reads a header
only where it is valid. (In an invalid header, BMv2 reads the values of an earlier packet; so it does in the metadata when it
parses a packet that ingress clones.) Prefix keys have a width of whole bytes, because BMv2 counts a prefix from the padding
before the key. All programs send packets of the lengths in MARKERS to the ports there, unchanged. BMv2 has an egress thread for
each of these ports.

A program is random statements and some consumers of values (consumers.py).
"""

import random

from consumers import CLONED_IN, CLONED_OUT, HASHES, MAX_REPEATS, PORTS, RECIRCULATED, RESUBMITTED, Consumers

MARKERS = {1500: 4, 1501: 5, 1502: 6, 1503: 7}
ARITHMETIC = ["+", "-", "|+|", "|-|", "&", "|", "^"]
COMPARISONS = ["==", "!=", "<", "<=", ">", ">="]


class Program(Consumers):
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
        # Whether expressions contain no metadata.
        self.without_metadata = False
        self.plan()
        self.write()

    text = property(lambda self: "\n".join(self.lines) + "\n")

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
        order += ["stk"] * (self.stack > 0)
        # In another place, so that its length matters.
        order.insert(0 if "varbit" in self.consumers else len(order), "v")
        if not self.varbit:
            order.remove("v")
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
            written = list(filter(here, self.writes["parser"]))
            self.put(*(self.assign_own(value, (state,)) for value in written if value not in own))
            if number == 0:
                # The values that a packet brings from its earlier pass.
                self.put(*(self.show(value.text) for value in self.read_in_parser))
            if written := [value for value in written if value in own]:
                # p4c would read what is assigned instead, if there was only one assignment.
                self.put(f"transition select(hdr.{state}.{names[0]}) {{ 0 &&& 1: {state}_even; default: {state}_odd; }}", "}")
                for part in ("even", "odd"):
                    self.put(f"state {state}_{part} {{", *(self.assign_own(value, (state,)) for value in written))
                    self.put(f"transition {state}_both;", "}")
                self.put(f"state {state}_both {{")
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
                case += [f"{self.random.randint(0, 3)} &&& {self.random.choice([1, 3])}" for _ in selected]
                self.put(f"{case[0] if len(case) == 1 else '(' + ', '.join(case) + ')'}: {target};")
            targets = [*later, *later, "accept"] + ["v"] * (2 * len(later) + 2) * ("varbit" in self.consumers)
            targets += ["stk"] * len(targets) * ("stk" in later and any("stack" in what for what in self.consumers))
            self.put(f"default: {self.random.choice(targets)};", "}", "}")
        self.put("}")
        self.without_metadata = False

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
            if value.consumer == "recirculate list" and self.chance(0.3) and value.width <= 64:
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
            self.put(*self.guarded(value.header, self.write_own(value, ("h0", *([value.header] if value.header else [])))))
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
