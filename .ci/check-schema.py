"""Checks experiment files against a JSON Schema: check-schema.py SCHEMA FILE... (needs jsonschema and PyYAML)."""

import json
import sys

import jsonschema
import yaml

with open(sys.argv[1]) as file:
    schema = json.load(file)
jsonschema.Draft202012Validator.check_schema(schema)
validator = jsonschema.Draft202012Validator(schema)


def faults(experiment):
    """The deepest faults of an experiment, as text."""
    for error in validator.iter_errors(experiment):
        best = jsonschema.exceptions.best_match([error])
        yield "/".join(map(str, best.absolute_path)) + ": " + best.message[:200]


failed = 0
for name in sys.argv[2:]:
    with open(name) as file:
        for fault in faults(yaml.safe_load(file)):
            failed += 1
            print(f"{name}: {fault}")
# What is wrong is found, also in a workload and in a scheme's parameters.
WRONG = {
    "topology": {"kind": "star", "hosts": 3},
    "duration": "1ms",
    "schemes": [{"scheme": "fncc", "set": {"lhsc": "off"}}],
    "workload": {"kind": "incast", "senders": 2, "size": "1KB", "bla": 3},
}
if len(list(faults(WRONG))) != 2:
    failed += 1
    print("a wrong experiment passes:", list(faults(WRONG)))
sys.exit(1 if failed else 0)
