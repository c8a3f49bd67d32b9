"""Checks experiment files against a JSON Schema: check-schema.py SCHEMA FILE... (needs jsonschema and PyYAML)."""

import json
import sys

import jsonschema
import yaml

with open(sys.argv[1]) as file:
    schema = json.load(file)
jsonschema.Draft202012Validator.check_schema(schema)
validator = jsonschema.Draft202012Validator(schema)


def errors(experiment):
    """Yields the most specific error of each violation, as text."""
    for error in validator.iter_errors(experiment):
        best = jsonschema.exceptions.best_match([error])
        yield "/".join(map(str, best.absolute_path)) + ": " + best.message[:200]


failed = 0
for name in sys.argv[2:]:
    with open(name) as file:
        for error in errors(yaml.safe_load(file)):
            failed += 1
            print(f"{name}: {error}")
# The schema must detect errors in a workload and in a scheme's parameters.
INVALID = {
    "topology": {"kind": "star", "hosts": 3},
    "duration": "1ms",
    "schemes": [{"scheme": "fncc", "set": {"lhsc": "off"}}],
    "workload": {"kind": "incast", "senders": 2, "size": "1KB", "bla": 3},
}
if len(list(errors(INVALID))) != 2:
    failed += 1
    print("the schema does not detect the errors of an invalid experiment:", list(errors(INVALID)))
sys.exit(1 if failed else 0)
