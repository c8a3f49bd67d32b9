"""Shared by manifest.py and tna/report.py: command line, and comparison of recorded and actual artifacts."""

import argparse
import hashlib
import sys


def options(description, p4c):
    """Parses the command line: --build or --check, and the compiler."""
    parser = argparse.ArgumentParser(description=description.splitlines()[0])
    parser.add_argument("--build", action="store_true")
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--p4c", default=p4c)
    parser.add_argument("--p4c-flags", default="")
    parser.add_argument("programs", nargs="*")
    arguments = parser.parse_args()
    if arguments.build == arguments.check:
        parser.error("specify either --build or --check")
    return arguments


def sha256(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()


def differences(kind, recorded, actual):
    """Yields a message for each difference between two mappings of names to checksums. None: the file is missing."""
    for name in sorted(recorded.keys() | actual.keys()):
        if name not in actual or actual[name] is None:
            yield f"{kind} {name}: in the manifest, but missing"
        elif name not in recorded:
            yield f"{kind} {name}: not in the manifest"
        elif recorded[name] != actual[name]:
            yield f"{kind} {name}: changed since the manifest was written"


def report_problems(problems, directory, command):
    """Prints the problems, and returns the exit status."""
    for problem in problems:
        print(problem, file=sys.stderr)
    if problems:
        print(f"{directory} is out of date: run `{command}` and commit {directory}", file=sys.stderr)
    return 1 if problems else 0
