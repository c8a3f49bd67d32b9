"""What manifest.py and tna/report.py share: their options, and whether what is recorded is what is there."""

import argparse
import hashlib
import sys


def options(description, p4c):
    """--build or --check, and which compiler."""
    parser = argparse.ArgumentParser(description=description.splitlines()[0])
    parser.add_argument("--build", action="store_true")
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--p4c", default=p4c)
    parser.add_argument("--p4c-flags", default="")
    parser.add_argument("programs", nargs="*")
    arguments = parser.parse_args()
    if arguments.build == arguments.check:
        parser.error("say --build or --check")
    return arguments


def sha256(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()


def differences(kind, recorded, found):
    for name in sorted(recorded.keys() | found.keys()):
        if name not in found or found[name] is None:
            yield f"{kind} {name}: in the manifest, but missing"
        elif name not in recorded:
            yield f"{kind} {name}: not in the manifest"
        elif recorded[name] != found[name]:
            yield f"{kind} {name}: changed since the manifest was written"


def verdict(problems, folder, command):
    """Prints the problems. The exit status."""
    for problem in problems:
        print(problem, file=sys.stderr)
    if problems:
        print(f"{folder} is out of date: run `{command}` and commit {folder}", file=sys.stderr)
    return 1 if problems else 0
