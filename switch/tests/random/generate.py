"""Random v1model programs and packets for them. The same seed gives the same ones.

Every program is deterministic: it reads no clock, no queue and no random number, and reads a header only where it is valid.
(In an invalid header, BMv2 reads the values of an earlier packet.) Prefix keys have a width of whole bytes, because BMv2
counts a prefix from the padding before the key. All programs send packets of the lengths in MARKERS
to the ports there, unchanged. BMv2 has an egress thread for each of these ports.
"""

import random

MARKERS = {1500: 4, 1501: 5, 1502: 6, 1503: 7}
PORTS = range(8)
# Maximum number of times that a packet is resubmitted or recirculated.
MAX_REPEATS = 2

HASHES = ["crc16", "crc32", "csum16", "xor16", "identity"]
ARITHMETIC = ["+", "-", "|+|", "|-|", "&", "|", "^"]
COMPARISONS = ["==", "!=", "<", "<=", ">", ">="]


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
        # Maximum number of passes of a packet through the program.
        self.passes = 1
        self.port_in = self.random.choice(PORTS)
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
        """Returns the fields that exist where these headers are valid: (text, width)."""
        fields = [(f"hdr.{header}.{name}", width) for header in scope if header in self.headers
                  for name, width in self.headers[header].items()]
        fields += [(f"hdr.stk[{i}].{name}", width) for header in scope if header.startswith("stk")
                   for i in [int(header[3:])] for name, width in (("tag", 15), ("more", 1), ("data", 16))]
        return fields + [(f"meta.{name}", width) for name, width in self.meta.items()]

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
        return f"(bit<9>)({self.value(scope, 8, 1, names)} & 7)"

    # Statements.

    def assignment(self, scope, names=()):
        text, width = self.random.choice(self.fields_in(scope))
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
                yield from self.block({*scope, header}, ingress, depth - 1, tables)
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
                yield f"hdr.{header}.{name} = {self.value({'h0'}, width, 1)};"
        elif kind == 2 and self.stack:
            yield f"hdr.stk.pop_front({self.random.randint(1, self.stack - 1)});"
        elif kind == 3 and self.stack:
            yield "hdr.stk.push_front(1);\nhdr.stk[0].setValid();"
            for name, width in (("tag", 15), ("more", 1), ("data", 16)):
                yield f"hdr.stk[0].{name} = {self.value({'h0'}, width, 1)};"

    def table(self, name, needs, ingress):
        """Writes a table, its actions and its entries."""
        scope = {"h0", needs}
        actions = []
        for number in range(self.random.randint(1, 3)):
            parameters = [(f"p{i}", self.width()) for i in range(self.random.randint(0, 3))]
            actions.append((f"{name}_a{number}", parameters))
            self.put(f"action {name}_a{number}({', '.join(f'bit<{bits}> {it}' for it, bits in parameters)}) {{")
            for _ in range(self.random.randint(1, 4)):
                self.put(self.assignment(scope, parameters) if self.chance(0.6) else self.extern(scope, ingress, parameters))
            self.put("}")
        kinds, longest = [], False
        for _ in range(self.random.randint(1, 3)):
            kind = self.random.choice(["exact", "ternary", "range"] + ["lpm"] * (not longest))
            longest |= kind == "lpm"
            width = self.random.choice([4, 8, 8, 16, 32])
            kinds.append((self.value(scope, width, 0), width, kind))
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
            return "{}w{} .. {}w{}".format(width, *sorted([value, self.random.getrandbits(width)])[:1], width, max(value, self.random.getrandbits(width)))
        mask = self.random.getrandbits(width) if kind == "ternary" else top ^ (top >> self.random.randint(0, width))
        return f"{width}w{value & mask} &&& {width}w{mask}"

    # The program.

    def put(self, *lines):
        self.lines += lines

    def write(self):
        self.put("#include <core.p4>", "#include <v1model.p4>", "error { Bad }")
        for header, fields in self.headers.items():
            self.put(f"header {header}_t {{ " + " ".join(f"bit<{width}> {name};" for name, width in fields.items()) + " }")
        self.put("header stk_t { bit<15> tag; bit<1> more; bit<16> data; }", "header var_t { bit<8> len; varbit<128> data; }")
        self.put("struct headers_t {", *(f"{it}_t {it};" for it in self.headers))
        self.put(f"stk_t[{self.stack}] stk;" * (self.stack > 0), "var_t v;" * self.varbit, "}")
        keep = self.random.choice(list(self.meta))
        self.put("struct meta_t {", "@field_list(1) bit<8> passes;", *(f"@field_list(1) bit<{width}> {it};" if it == keep else f"bit<{width}> {it};"
                                     for it, width in self.meta.items()), "}")
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

    def parser(self):
        self.put("parser Par(packet_in pkt, out headers_t hdr, inout meta_t meta, inout standard_metadata_t standard_metadata) {")
        states = [*self.headers, *(["stk"] if self.stack else []), *(["v"] if self.varbit else [])]
        for number, state in enumerate(states):
            later = states[number + 1 :]
            self.put(f"state {'start' if number == 0 else state} {{")
            if state == "stk":
                self.put("pkt.extract(hdr.stk.next);", "transition select(hdr.stk.last.more) { 1: stk; default: "
                         + (later[0] if later else "accept") + "; }", "}")
                continue
            if state == "v":
                self.put("bit<8> peek = pkt.lookahead<bit<8>>();",
                         "pkt.extract(hdr.v, (bit<32>)(peek & 15) << 3);", "transition accept; }")
                continue
            self.put(f"pkt.extract(hdr.{state});")
            names = list(self.headers[state])
            if self.chance(0.2):
                self.put(f"verify(hdr.{state}.{names[0]} != {self.random.randint(0, 9)}, error.Bad);")
            if self.chance(0.15):
                self.put("pkt.advance(16);")
            if self.chance(0.4):
                text, width = self.random.choice(self.fields_in({state}))
                self.put(f"{text} = {self.value({state}, width, 1)};" if not text.startswith("hdr") else "")
            key = f"hdr.{state}.{names[0]}" if self.chance(0.7) or not later else "pkt.lookahead<bit<8>>()"
            self.put(f"transition select({key}) {{")
            for _ in range(self.random.randint(1, 3)):
                value, target = self.random.randint(0, 5), self.random.choice([*later, *later, "accept", "reject"][: max(4, len(later))])
                self.put(f"{value} &&& {self.random.choice([7, 255, 15])}: {target};")
            self.put(f"default: {self.random.choice([*later, *later, 'accept'])};", "}", "}")
        self.put("}")

    def checksums(self):
        """Writes checksum calls: a header that ends with 16 bits may have a checksum of its other fields there."""
        calls = {"verify": [], "update": []}
        for header, fields in self.headers.items():
            names = list(fields)
            if fields[names[-1]] == 16 and len(names) > 1:
                data = ", ".join(f"hdr.{header}.{name}" for name in names[:-1])
                for call in calls:
                    if self.chance(0.5):
                        calls[call].append(f"{call}_checksum({self.random.choice([f'hdr.{header}.isValid()', f'hdr.{header}.isValid() && hdr.{header}.{names[0]} > 3'])},"
                                           f" {{ {data} }}, hdr.{header}.{names[-1]}, HashAlgorithm.csum16);")
        for name, call in (("Check", "verify"), ("Compute", "update")):
            self.put(f"control {name}(inout headers_t hdr, inout meta_t meta) {{ apply {{", *calls[call], "} }")

    def control(self, name, ingress):
        self.put(f"control {name}(inout headers_t hdr, inout meta_t meta, inout standard_metadata_t standard_metadata) {{")
        registers = self.registers
        for register, (width, log) in registers.items():
            self.put(f"register<bit<{width}>>({2**log}) {register};")
        self.put("counter(4, CounterType.packets_and_bytes) count;")
        tables = {}
        for number in range(self.random.randint(0, 3)):
            table = f"{name.lower()}_t{number}"
            tables[table] = self.random.choice(list(self.headers))
            self.table(table, tables[table], ingress)
        self.put("apply {", f"if (standard_metadata.packet_length >= {min(MARKERS)}) {{")
        self.put("standard_metadata.egress_spec = (bit<9>)(standard_metadata.packet_length - 1496);" if ingress else "")
        self.put("} else {")
        if ingress:
            self.put(f"standard_metadata.egress_spec = {self.random.choice(['standard_metadata.ingress_port', '1', '2'])};")
            if self.chance(0.5):
                name, width = self.random.choice(list(self.meta.items()))
                cast = "(bit<32>)" if self.chance(0.5) else ""
                what = self.random.choice(["standard_metadata.packet_length", "(bit<32>)standard_metadata.ingress_port",
                                           "(bit<32>)standard_metadata.instance_type", "(bit<32>)standard_metadata.checksum_error",
                                           "(standard_metadata.parser_error == error.NoError ? 32w0 : 32w1)",
                                           "(standard_metadata.parser_error == error.PacketTooShort ? 32w5 : 32w6)"])
                self.put(f"meta.{name} = (bit<{width}>){cast}{what};")
        self.put("if (hdr.h0.isValid()) {", *self.block({"h0"}, ingress, 2, tables), "}")
        again = "resubmit_preserving_field_list" if ingress else "recirculate_preserving_field_list"
        if self.chance(0.3):
            self.passes = 1 + MAX_REPEATS
            self.put(f"if (meta.passes < {MAX_REPEATS} && {self.condition(set(), 0)}) {{ meta.passes = meta.passes + 1; {again}(1); }}")
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
            yield bytes(frame)
