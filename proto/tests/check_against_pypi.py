#!/usr/bin/env python3
"""Compares our .proto files with the published ones, in both directions.

    pip install p4runtime
    check_against_pypi.py descriptors.bin

The argument is an encoded FileDescriptorSet (build.rs writes it). Every message, field, enum, oneof, service
and method of it is turned into a line of text, and so is the `p4runtime` package from PyPI; the two sets of lines
must be the same. Exit status 0: they are. 1: they differ, the differences are printed. 2: cannot check.
"""

import os
import sys

# The package's code is of an old protoc, which only the pure Python runtime still reads.
os.environ.setdefault("PROTOCOL_BUFFERS_PYTHON_IMPLEMENTATION", "python")

try:
    from google.protobuf import descriptor_pb2
    from google.rpc import code_pb2, status_pb2
    from p4.config.v1 import p4info_pb2, p4types_pb2
    from p4.v1 import p4data_pb2, p4runtime_pb2
except (ImportError, TypeError) as error:
    print(f"cannot check: {error} (pip install p4runtime)", file=sys.stderr)
    sys.exit(2)

PUBLISHED = (p4runtime_pb2, p4data_pb2, p4info_pb2, p4types_pb2, status_pb2, code_pb2)
Field = descriptor_pb2.FieldDescriptorProto


def ranges(item, end_is_last):
    for r in item.reserved_range:
        yield f"{r.start}..{r.end if end_is_last else r.end - 1}"
    yield from item.reserved_name


def enum_facts(prefix, enum):
    name = f"{prefix}.{enum.name}"
    yield f"enum {name}"
    for value in enum.value:
        yield f"enum {name}: {value.name} = {value.number}"
    for reserved in ranges(enum, True):
        yield f"enum {name}: reserved {reserved}"


def message_facts(prefix, message):
    name = f"{prefix}.{message.name}"
    yield f"message {name}{' (map entry)' if message.options.map_entry else ''}"
    for field in message.field:
        kind = Field.Type.Name(field.type) + field.type_name
        label = Field.Label.Name(field.label)
        oneof = message.oneof_decl[field.oneof_index].name if field.HasField("oneof_index") else "-"
        notes = (" deprecated" if field.options.deprecated else "") + (" optional" if field.proto3_optional else "")
        yield f"field {name}.{field.name} = {field.number}: {label} {kind} oneof {oneof}{notes}"
    for oneof in message.oneof_decl:
        yield f"oneof {name}.{oneof.name}"
    for reserved in ranges(message, False):
        yield f"message {name}: reserved {reserved}"
    for inner in message.nested_type:
        yield from message_facts(name, inner)
    for inner in message.enum_type:
        yield from enum_facts(name, inner)


def facts(file):
    yield f"file {file.name}: package {file.package}, {file.syntax}"
    prefix = f".{file.package}"
    for message in file.message_type:
        yield from message_facts(prefix, message)
    for enum in file.enum_type:
        yield from enum_facts(prefix, enum)
    for service in file.service:
        for m in service.method:
            way = f"{'stream ' * m.client_streaming}{m.input_type} -> {'stream ' * m.server_streaming}{m.output_type}"
            yield f"method {prefix}.{service.name}.{m.name}: {way}"


def main():
    if len(sys.argv) != 2:
        print(__doc__, file=sys.stderr)
        return 2
    theirs = set()
    for module in PUBLISHED:
        file = descriptor_pb2.FileDescriptorProto()
        module.DESCRIPTOR.CopyToProto(file)
        theirs.update(facts(file))
    with open(sys.argv[1], "rb") as descriptors:
        files = descriptor_pb2.FileDescriptorSet.FromString(descriptors.read()).file
    ours = {fact for file in files if not file.name.startswith("google/protobuf/") for fact in facts(file)}
    for fact in sorted(theirs - ours):
        print(f"published, not ours: {fact}")
    for fact in sorted(ours - theirs):
        print(f"ours, not published: {fact}")
    print(f"{len(ours & theirs)} facts agree, {len(ours ^ theirs)} differ")
    return 1 if ours != theirs else 0


if __name__ == "__main__":
    sys.exit(main())
