"""Compiles the mid-end text of a program into Python functions, externs and tables.

A Packet is a dictionary of all fields, by paths such as headers_t.ipv4.ttl. The path of a parameter starts with its type, so
that parser, control and deparser share the fields. A field that was not written is undefined, as are values computed from it;
it is an error to branch on, match, store or emit an undefined value.
"""

import random

import externs
from tables import Table
from text import UndefinedValueError, UnsupportedError, declarations

# The intrinsic metadata that the executor supports, with widths; a pair: on Tofino 1 and on Tofino 2.
INTRINSIC = {
    "ingress_intrinsic_metadata_t": {"ingress_port": 9},
    "ingress_intrinsic_metadata_from_parser_t": {"global_tstamp": 48, "parser_err": 16},
    "ingress_intrinsic_metadata_for_tm_t": {"ucast_egress_port": 9, "mcast_grp_a": 16, "qid": (5, 7), "ingress_cos": 3},
    "ingress_intrinsic_metadata_for_deparser_t": {"drop_ctl": 3, "mirror_type": (3, 4)},
    "egress_intrinsic_metadata_t": {"egress_port": 9, "deq_qdepth": 19, "pkt_length": 16},
    "egress_intrinsic_metadata_from_parser_t": {"global_tstamp": 48},
    "egress_intrinsic_metadata_for_deparser_t": {"drop_ctl": 3, "mirror_type": (3, 4), "mirror_io_select": 1},
    "egress_intrinsic_metadata_for_output_port_t": {},
    "ghost_intrinsic_metadata_t": {},
}
BOOL = "bool"
COMPARED = ("==", "!=", "<", ">", "<=", ">=")
PARTIAL_HEADER = 2                   # PARSER_ERROR_PARTIAL_HDR


class Packet(dict):
    def __missing__(self, path):
        raise UndefinedValueError(f"{path} is read before it is written")


class PacketTooShort(Exception):
    """The packet ends within a header."""


class BitReader:
    """Reads the bytes of a packet bit by bit, for parsers."""

    def __init__(self, data):
        self.data, self.position = data, 0

    def bits(self, width, ahead=False):
        """Returns the next bits as a number, and consumes them unless `ahead`."""
        end = self.position + width
        if end > 8 * len(self.data):
            raise PacketTooShort
        value = int.from_bytes(self.data[self.position // 8 : (end + 7) // 8], "big") >> -end % 8 & (1 << width) - 1
        if not ahead:
            self.position = end
        return value

    def extract(self, packet, path, fields):
        value = self.bits(sum(width for _, width in fields))
        for field, width in reversed(fields):
            packet[f"{path}.{field}"] = value & (1 << width) - 1
            value >>= width
        packet[f"{path}.$valid"] = 1

    def rest(self):
        return self.data[self.position // 8 :]


def mask(width):
    return hex((1 << width) - 1)


class Program:
    """A compiled program: `functions`, `objects` (externs) and `tables`, by their names in the mid-end text."""

    def __init__(self, text, chip, seed=1):
        self.chip, self.rng = chip, random.Random(seed)
        self.types, self.scope, self.objects, self.tables, self.lines = {}, {}, {}, {}, []
        self.control_plane_names, self.actions, self.deferred = {}, {}, []
        for name, fields in INTRINSIC.items():
            widths = {field: width[chip - 1] if isinstance(width, tuple) else width for field, width in fields.items()}
            self.types[name] = "struct", [(field, ("bit", width)) for field, width in widths.items()]
        for kind, name, control_plane_name, value in declarations(text):
            self.declare(kind, name, control_plane_name, value)
        names = {"objects": self.objects, "tables": self.tables, "UnsupportedError": UnsupportedError,
                 "UndefinedValueError": UndefinedValueError}
        exec(compile("\n".join(self.lines), "<program>", "exec"), names)
        self.functions = names
        for finish in self.deferred:
            finish()

    # Declarations -----------------------------------------------------------------------------

    def declare(self, kind, name, control_plane_name, value):
        if kind in ("typedef", "struct", "header"):
            self.types[name] = kind, value
        elif kind == "instance":
            self.instance(name, control_plane_name, *value)
        elif kind == "variable":
            self.scope[name] = "path", name, value
        elif kind == "action":
            self.action(name, control_plane_name, *value)
        elif kind == "table":
            self.table(name, control_plane_name, value)
        elif kind in ("parser", "control"):
            outer = dict(self.scope)
            parameters, parts = value
            for parameter, type_, _, _ in parameters:
                self.scope[parameter] = ("stream",) if type_[0] in ("packet_in", "packet_out") else ("path", type_[0], type_)
            # Register actions read variables that are declared after them.
            for part in sorted(parts, key=lambda part: part[0] != "variable"):
                if part[0] == "apply":
                    self.function(name, part[3], "packet, stream")
                elif part[0] == "state":
                    self.state(f"{name}__{part[1]}", *part[3], parser=name)
                else:
                    self.declare(*part)
            self.scope = outer
        else:
            raise UnsupportedError(f"unsupported declaration {kind} {name}")

    def resolved(self, type_):
        while type_[0] in self.types and self.types[type_[0]][0] == "typedef":
            type_ = self.types[type_[0]][1]
        return type_

    def fields(self, type_):
        """Returns the fields of a struct or header with their widths."""
        return [(field, self.width(kind)) for field, kind in self.types[self.resolved(type_)[0]][1]]

    def width(self, type_):
        type_ = self.resolved(type_)
        if type_[0] == "bit":
            return type_[1]
        raise UnsupportedError(f"unsupported type {type_[0]}")

    def header_paths(self, path, type_):
        """Returns the paths of all headers in a value of this type."""
        kind, members = self.types.get(self.resolved(type_)[0], (None, []))
        paths = [path] if kind == "header" else []
        for field, inner in members if kind in ("header", "struct") else []:
            paths += self.header_paths(f"{path}.{field}", inner)
        return paths

    def constant(self, node):
        if node[0] == "number":
            return node[1]
        if node[0] == "struct":
            return {field: self.constant(value) for field, value in node[2]}
        if node[0] == "member":
            return node[2]           # a member of an enum
        raise UnsupportedError(f"unsupported constant {node}")

    def instance(self, name, control_plane_name, type_, arguments, body):
        kind, types = type_
        values = [self.constant(argument) for argument in arguments] if kind != "RegisterAction" else []
        if kind == "Register":
            extern = externs.Register(values[0], values[1])
        elif kind == "RegisterAction":
            extern = self.register_action(name, types, arguments[0][1], *body)
        elif kind == "RegisterParam":
            extern = externs.RegisterParam(values[0])
        elif kind == "Hash":
            extern = externs.Hash(values[0], self.width(types[0]))
        elif kind == "Random":
            extern = externs.Random(self.width(types[0]), self.rng)
        elif kind == "Counter" and values[1] == "PACKETS":
            extern = externs.Counter(values[0])
        elif kind == "DirectMeter" and values == ["BYTES"]:
            extern = externs.Meter()
        elif kind == "Checksum":
            extern = externs.Checksum()
        elif kind == "Mirror":
            extern = None              # BitWriter.mirror implements it
        else:
            raise UnsupportedError(f"unsupported extern {kind}({values}) {name}")
        self.objects[name] = extern
        self.control_plane_names[name] = control_plane_name
        self.scope[name] = "object", kind, types

    def register_action(self, name, types, register, parameters, block):
        outer = dict(self.scope)
        for parameter, type_, _, _ in parameters:
            self.scope[parameter] = "path", f"{name}.{parameter}", type_
        self.function(name, block)
        self.scope = outer
        value, result = [f"{name}.{parameter[0]}" for parameter in (parameters + [("",)])[:2]]
        kind = self.types.get(self.resolved(types[0])[0])
        return externs.RegisterAction(self.objects[register], lambda packet: self.functions[name](packet), value, result,
                                      [field for field, _ in kind[1]] if kind else [])

    def function(self, name, block, parameters="packet"):
        # A function within another one is emitted before it.
        outer, self.body = getattr(self, "body", None), []
        self.statement(block, 1)
        self.lines += [f"def {name}({parameters}):", *self.body, "    pass"]
        self.body = outer

    def action(self, name, control_plane_name, parameters, block):
        outer = dict(self.scope)
        for parameter, type_, _, _ in parameters:
            self.scope[parameter] = "path", parameter, type_
        self.function(name, block)
        self.scope = outer
        self.scope[name] = ("action",)
        self.actions[name] = control_plane_name.split(".")[-1], [(parameter, self.width(type_), label)
                                                   for parameter, type_, _, label in parameters]

    def table(self, name, control_plane_name, properties):
        keys = []
        for number, (value, kind, label) in enumerate(properties.get("key", [])):
            code, width = self.expression(value)
            self.lines += [f"def {name}__{number}(packet):", f"    return {code}"]
            keys.append((f"{name}__{number}", width, kind, label))
        default = properties["default_action"]
        default = default[1][1], [self.constant(argument) for argument in default[2]]
        unknown = properties.keys() - {"key", "actions", "default_action", "entries", "size", "meters"}
        if unknown:
            raise UnsupportedError(f"unsupported properties of table {name}: {sorted(unknown)}")
        self.control_plane_names[name] = control_plane_name
        self.scope[name] = ("table",)

        # The functions exist only after all declarations were compiled.
        def finish():
            functions = self.functions
            bound = lambda action, values: (self.actions[action][0], functions[action],
                                            [(field, value) for (field, _, _), value
                                             in zip(self.actions[action][1], values)])
            actions = {self.actions[action][0]: (functions[action], self.actions[action][1]) for action in properties["actions"]}
            meter = self.objects[properties["meters"][1]] if "meters" in properties else None
            table = Table(name, [(functions[read], *rest) for read, *rest in keys], actions, bound(*default), meter)
            for values, action in properties.get("entries", []):
                table.entries[tuple(self.constant(value) for value in values)] = (
                    len(table.entries), bound(action[1][1], [self.constant(argument) for argument in action[2]]))
            self.tables[name] = table

        self.deferred.append(finish)

    # Parsers ----------------------------------------------------------------------------------

    def state(self, name, statements, subjects, choices, parser):
        outer, self.body = getattr(self, "body", None), []
        self.statement(("block", statements), 1)
        read = [self.expression(subject) for subject in subjects]
        self.body.append(f"    key = [{', '.join(code for code, _ in read)}]")
        for keys, target in choices:
            target = "None" if target == "accept" else f"{parser}__{target}"
            if target == f"{parser}__reject":
                raise UnsupportedError(f"unsupported transition to reject in {name}")
            tests = [self.key_test(f"key[{number}]", key) for number, key in enumerate(keys)]
            self.body.append(f"    if {' and '.join(test for test in tests if test) or 'True'}: return {target}")
        self.lines += [f"def {name}(packet, stream):", *self.body, f"    raise UnsupportedError('{name}: no case matches')"]
        self.body = outer

    def key_test(self, key, node):
        if node[0] == "any":
            return ""
        if node[0] == "mask":
            return f"({key} ^ {self.constant(node[1])}) & {self.constant(node[2])} == 0"
        return f"{key} == {self.constant(node)}"

    # Statements -------------------------------------------------------------------------------

    def emit(self, depth, code):
        self.body.append("    " * depth + code)

    def statement(self, node, depth):
        kind = node[0]
        if kind == "block":
            for inner in node[1]:
                self.statement(inner, depth)
        elif kind == "if":
            self.emit(depth, f"if {self.condition(node[1])}:")
            self.branch(node[2], depth)
            self.emit(depth, "else:")
            self.branch(node[3], depth)
        elif kind == "switch":
            self.switch(node, depth)
        elif kind == "variable":
            self.scope[node[1]] = "path", node[1], node[2]
        elif kind == "assign":
            self.assign(node[1], node[2], depth)
        elif kind == "do":
            self.call(node[1], depth)
        else:
            raise UnsupportedError(f"unsupported statement {kind}")

    def branch(self, node, depth):
        self.statement(node, depth + 1)
        self.emit(depth + 1, "pass")

    def condition(self, node):
        code, width = self.expression(node)
        if width != BOOL:
            raise UnsupportedError(f"expected a Boolean condition, found {width} bits")
        return code

    def switch(self, node, depth):
        if node[1][0] != "member" or node[1][2] != "action_run":
            raise UnsupportedError("switch is supported for action_run only")
        table = node[1][1][1][1][1]
        self.emit(depth, f"ran = tables['{table}'].apply(packet)[1]")
        labels, keyword = [], "if"
        for label, block in node[2]:
            labels.append(label)
            if block is None:
                continue
            self.emit(depth, f"{keyword} {'True' if 'default' in labels else f'ran in {labels}'}:")
            self.branch(block, depth)
            labels, keyword = [], "elif"

    def assign(self, left, right, depth):
        if left[0] == "slice":
            path, width = self.path_and_width(left[1])
            code, given = self.expression(right)
            size = left[2] - left[3] + 1
            self.same(size, given, left)
            keep = ((1 << width) - 1) ^ (((1 << size) - 1) << left[3])
            # Bits of a field that is written in slices are 0 until they are written.
            self.emit(depth, f"packet[{path!r}] = packet.get({path!r}, 0) & {hex(keep)} | ({code}) << {left[3]}")
            return
        path, type_ = self.path(left)
        width = self.width(type_)
        code, given = self.expression(right)
        self.same(width, given, left)
        if "objects" in code and ".update(" in code:
            # The checksum of an invalid header is not computed.
            self.emit(depth, f"if packet[{path.rpartition('.')[0] + '.$valid'!r}]: packet[{path!r}] = {code}")
        elif "objects" in code:
            self.emit(depth, f"packet[{path!r}] = {code}")
        else:
            self.emit(depth, f"try: packet[{path!r}] = {code}")
            self.emit(depth, f"except UndefinedValueError: packet.pop({path!r}, None)")

    def same(self, width, given, what):
        if given is not None and width != given:
            raise UnsupportedError(f"{what}: widths differ, {width} and {given} bits")

    def call(self, node, depth):
        target, arguments = node[1], node[2]
        if target[0] != "member":
            raise UnsupportedError(f"unsupported call of {target}")
        subject, method = target[1], target[2]
        found = self.scope.get(subject[1]) if subject[0] == "name" else None
        if found == ("table",) and method == "apply":
            self.emit(depth, f"tables['{subject[1]}'].apply(packet)")
        elif found == ("stream",) and method == "extract":
            self.extract(arguments[0], depth)
        elif found == ("stream",) and method == "advance":
            pass                     # skips the port metadata, which frames of the executor do not have
        elif found == ("stream",) and method == "emit":
            path, type_ = self.path(arguments[0])
            self.emit(depth, f"stream.emit(packet, {path!r}, {self.fields(type_)})")
        elif found and found[0] == "object" and found[1] == "Mirror" and method == "emit":
            fields = self.pairs(arguments[1]) if len(arguments) > 1 else "[]"
            self.emit(depth, f"stream.mirror({self.expression(arguments[0])[0]}, {fields})")
        else:
            self.emit(depth, self.method(node)[0])

    def extract(self, argument, depth):
        path, type_ = self.path(argument)
        if type_[0] not in INTRINSIC:
            self.emit(depth, f"stream.extract(packet, {path!r}, {self.fields(type_)})")

    # Expressions: (code, width). The code of comparisons is Boolean, all else is a number below 2^width --

    def path(self, node):
        """Returns the path of a variable or field, and its type."""
        if node[0] == "name":
            found = self.scope.get(node[1])
            if not found or found[0] != "path":
                raise UnsupportedError(f"unknown name {node[1]}")
            return found[1], found[2]
        if node[0] == "member":
            path, type_ = self.path(node[1])
            kind, members = self.types.get(self.resolved(type_)[0], (None, []))
            if node[2] == "$valid" and kind == "header":
                return f"{path}.$valid", ("bit", 1)
            for field, inner in members if kind in ("struct", "header") else []:
                if field == node[2]:
                    return f"{path}.{field}", inner
            raise UnsupportedError(f"{path} has no {node[2]}, or the executor does not support it")
        raise UnsupportedError(f"not a variable or field: {node[0]}")

    def path_and_width(self, node):
        path, type_ = self.path(node)
        return path, self.width(type_)

    def pairs(self, node):
        """Returns code for the (value, width) pairs of a struct literal."""
        if node[0] != "struct":
            raise UnsupportedError(f"expected a struct literal, found {node[0]}")
        values = [self.expression(value) for _, value in node[2]]
        return "[" + ", ".join(f"({code}, {width})" for code, width in values) + "]"

    def method(self, node):
        subject, method, arguments = node[1][1], node[1][2], node[2]
        if method == "isValid" and not arguments:
            return f"(packet[{self.path(subject)[0] + '.$valid'!r}] == 1)", BOOL
        if subject[0] == "name" and self.scope.get(subject[1]) == ("stream",) and method == "lookahead":
            width = self.width(node[3][0])
            return f"stream.bits({width}, ahead=True)", width
        found = self.scope.get(subject[1]) if subject[0] == "name" else None
        if not found or found[0] != "object":
            raise UnsupportedError(f"unsupported call {subject}.{method}")
        _, kind, types = found
        receiver = f"objects[{subject[1]!r}]"
        numbers = [self.expression(argument)[0] for argument in arguments if argument[0] != "struct"]
        if (kind, method) == ("Hash", "get"):
            return f"{receiver}.get({self.pairs(arguments[0])})", self.width(types[0])
        if (kind, method) == ("Checksum", "add"):
            return f"{receiver}.add({self.pairs(arguments[0])})", None
        if (kind, method) == ("Checksum", "update") and len(arguments) == 1:
            return f"{receiver}.update({self.pairs(arguments[0])})", 16
        if (kind, method) == ("Checksum", "verify"):
            return f"{receiver}.verify()", BOOL
        if (kind, method) in (("Random", "get"), ("RegisterParam", "read")):
            return f"{receiver}.{method}()", self.width(types[0])
        if (kind, method) == ("RegisterAction", "execute") and len(numbers) == 1:
            return f"{receiver}.execute(packet, {numbers[0]})", self.width(types[2])
        if (kind, method) == ("Counter", "count") and len(numbers) == 1:
            return f"{receiver}.count({numbers[0]})", None
        if (kind, method) == ("DirectMeter", "execute") and not arguments:
            return f"{receiver}.execute(packet['$length'], packet['$now'])", 8
        raise UnsupportedError(f"unsupported call {kind}.{method} with {len(arguments)} arguments")

    def expression(self, node):
        kind = node[0]
        if kind == "number":
            return str(node[1]), node[2]
        if kind in ("name", "member"):
            path, width = self.path_and_width(node)
            return f"packet[{path!r}]", width
        if kind == "call":
            return self.method(node)
        if kind == "slice":
            code, _ = self.expression(node[1])
            width = node[2] - node[3] + 1
            return f"({code} >> {node[3]} & {mask(width)})", width
        if kind == "cast":
            code, given = self.expression(node[2])
            width = self.width(node[1])
            return (f"int({code})" if given == BOOL else f"({code} & {mask(width)})"), width
        if kind == "prefix!":
            return f"(not {self.condition(node[1])})", BOOL
        return self.binary(kind, node)

    def binary(self, sign, node):
        left, width = self.expression(node[1])
        right, other = self.expression(node[2])
        if sign in ("&&", "||"):
            self.same(BOOL, width, node)
            self.same(BOOL, other, node)
            return f"({left} {'and' if sign == '&&' else 'or'} {right})", BOOL
        if sign == "++":
            return f"({left} << {other} | {right})", width + other
        if sign in ("<<", ">>"):
            return (f"({left} << {right} & {mask(width)})" if sign == "<<" else f"({left} >> {right})"), width
        if width is not None and other is not None:
            self.same(width, other, node)
        width = other if width is None else width
        if sign in COMPARED:
            return f"({left} {sign} {right})", BOOL
        if sign in ("+", "-", "*"):
            return f"({left} {sign} {right} & {mask(width)})", width
        if sign in ("&", "|", "^"):
            return f"({left} {sign} {right})", width
        if sign == "|+|":
            return f"min({left} + {right}, {mask(width)})", width
        if sign == "|-|":
            return f"max({left} - {right}, 0)", width
        raise UnsupportedError(f"unsupported operator {sign}")
