"""The TNA programs, executed: all STF tests but those that tna_differences.json lists, and what is Tofino's own."""

import unittest

import tna_stf
from run_bmv2 import Failure
from tna_stf import DIFFERENCES, HERE, Unknown


def outcome(text, chip, path):
    """None if the test passes, or what is wrong."""
    try:
        tna_stf.run(text, chip, path.stem, path.read_text())
    except (Failure, Unknown) as problem:
        return str(problem)
    return None


class StfTest(unittest.TestCase):
    def test_the_programs_do_what_the_v1model_programs_do_but_where_it_is_said(self):
        met = set()
        for program, chip, text in tna_stf.programs():
            for path in sorted((HERE / program).glob("*.stf")):
                with self.subTest(program=program, chip=chip, test=path.stem):
                    problem = outcome(text, chip, path)
                    if path.stem in DIFFERENCES["tests"]:
                        met.add(path.stem)
                        self.assertIsNotNone(problem, "listed in tna_differences.json, but it passes")
                    else:
                        self.assertIsNone(problem)
        self.assertEqual(met, DIFFERENCES["tests"].keys(), "a listed test is gone")

    def test_the_documentation_has_the_results(self):
        self.assertEqual(tna_stf.PAGE.read_text(), tna_stf.page(), "run p4src/tests/tna_stf.py --write")
