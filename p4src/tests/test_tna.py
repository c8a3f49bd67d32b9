"""Runs the STF tests on the TNA programs, except those listed in tna_differences.json, and tests the executor."""

import unittest

import make_stf
import tna_stf
from compile import Packet, Program
from run_bmv2 import Failure
from tna_stf import DIFFERENCES, UnsupportedError


def outcome(text, chip, name, test):
    """Returns None if the test passes, else an error message."""
    try:
        tna_stf.run(text, chip, name, test)
    except (Failure, UnsupportedError) as error:
        return str(error)
    return None


class StfTest(unittest.TestCase):
    def test_the_programs_behave_like_the_v1model_programs_except_listed_differences(self):
        failed = set()
        for program, chip, text in tna_stf.programs():
            for name, test in sorted(make_stf.tests(program).items()):
                with self.subTest(program=program, chip=chip, test=name):
                    error = outcome(text, chip, name, test)
                    if name in DIFFERENCES["tests"]:
                        failed.add(name)
                        self.assertIsNotNone(error, "listed in tna_differences.json, but it passes")
                    else:
                        self.assertIsNone(error)
        self.assertEqual(failed, DIFFERENCES["tests"].keys(), "a listed test does not exist")

    def test_the_documentation_has_the_results(self):
        self.assertEqual(tna_stf.PAGE.read_text(), tna_stf.page(), "run p4src/tests/tna_stf.py --write")


class ExecutorTest(unittest.TestCase):
    """Tests of the executor. Unsupported constructs are errors that name them."""

    def program(self, declarations, body):
        return Program(f"""struct metadata_t {{ bit<8> a; bit<8> b; bit<16> c; }}
control C(inout metadata_t meta) {{ {declarations} apply {{ {body} }} }}""", chip=1)

    def computed(self, body, **given):
        packet = Packet({f"metadata_t.{field}": value for field, value in given.items()})
        self.program("", body).functions["C"](packet, None)
        return packet["metadata_t.a"]

    def test_arithmetic_has_the_width_of_its_fields(self):
        for body, result in {
            "meta.a = meta.a + meta.b;": 44, "meta.a = meta.b - meta.a;": 156, "meta.a = meta.a |+| meta.b;": 255,
            "meta.a = meta.b |-| meta.a;": 0, "meta.a = meta.a << 1;": 144, "meta.a = meta.c[11:4];": 0x23,
            "meta.a[7:4] = 4w15;": 0xF8, "meta.c = meta.a ++ meta.b; meta.a = meta.c[15:8];": 200,
            "meta.a = (bit<8>)meta.c;": 0x34, "meta.a = meta.a & 8w0xf0 ^ 8w1;": 193,
            "if (meta.b < meta.a && !(meta.c == 16w0)) { meta.a = 8w1; } else meta.a = 8w2;": 1,
        }.items():
            with self.subTest(body):
                self.assertEqual(self.computed(body, a=200, b=100, c=0x1234), result)

    def test_undefined_fields_cannot_be_compared(self):
        self.assertEqual(self.computed("meta.b = meta.c[7:0]; meta.a = 8w1;"), 1)
        for body in ("if (meta.b == 8w0) { meta.a = 8w1; }", "meta.b = meta.c[7:0]; if (meta.b == 8w0) { meta.a = 8w1; }"):
            with self.subTest(body), self.assertRaisesRegex(UnsupportedError, "metadata_t.[bc] is read before it is written"):
                self.computed(body)

    def test_errors_name_unsupported_constructs(self):
        for declarations, body, named in (
            ("Lpf<bit<8>, bit<8>>(32w4) low;", "", "Lpf"),
            ("Hash<bit<8>>(HashAlgorithm_t.XOR8) h;", "", "XOR8"),
            ("", "meta.a = meta.c;", "8 and 16 bits"),
            ("", "meta.a = meta.nothing;", "has no nothing"),
            ("", "meta.a = meta.a / meta.b;", "/"),
            ("", "exit;", "exit"),
            ("", "meta.a = other.get();", "other"),
        ):
            with self.subTest(declarations + body), self.assertRaisesRegex(UnsupportedError, named):
                self.program(declarations, body)
