"""Tests of schemes that are Python classes."""

import gc
import sys
import time
import traceback
from pathlib import Path

import pytest
import weir

ROOT = Path(__file__).resolve().parents[2]
QUICKSTART = ROOT / "experiments" / "quickstart.yaml"
sys.path.insert(0, str(ROOT / "examples" / "python-schemes"))

from dctcp import PyDctcp  # noqa: E402
from hpcc import PyHpcc  # noqa: E402
from swift import INCAST, PySwift  # noqa: E402

STAR = {
    "topology": {"kind": "star", "hosts": 3},
    "flows": [{"from": "h1", "to": "h3"}, {"from": "h2", "to": "h3", "start": "20us"}],
    "schemes": ["dctcp"],
    "observe": {"ports": "all"},
    "duration": "200us",
}


class Fixed(weir.Scheme):
    """Sends at a share of the NIC's rate.

    For these tests.
    """

    like = "dctcp"
    gauges = ["acks"]
    share = weir.Parameter(0.5, "Share of the NIC's rate.", low=0.1, high=1.0)
    delay = weir.Parameter("10us", "Time of the first change.", high="1ms")
    limit = weir.Parameter("100KB", "Window.")
    step = weir.Parameter(2, "Packets in a change.")
    cap = weir.Parameter("40Gbps", "Largest rate.")
    fast = weir.Parameter(True, "Whether the rate ever grows.")
    events = []

    def start(self, flow):
        self.acks = 0
        values = self.share, self.delay, self.limit, self.step, self.cap, self.fast
        self.events.append(("start", values, flow.nic_rate, flow.base_rtt > 0, flow.payload, flow.bdp))
        self.rate = flow.nic_rate * self.share
        return self.limit, self.rate

    def on_ack(self, ack):
        self.acks += 1
        assert ack.rtt > 0 and ack.acked > 0 and ack.now > 0 and ack.hops == 1 and ack.telemetry == []
        return (self.limit, self.rate, ack.now + self.delay) if self.acks == 1 else None

    def on_timer(self, now):
        self.events.append(("timer", now))
        return None, self.cap if self.fast else None


def test_a_scheme_is_run_beside_others():
    Fixed.events.clear()
    slow = {"scheme": Fixed, "label": "slow", "set": {"share": 0.25, "delay": "20us", "fast": False}}
    run = weir.run(STAR, schemes=["dctcp", Fixed, slow], set={"observe.sender": ["acks"]})
    assert run.schemes == ["dctcp", "fixed", "slow"]
    starts = [event for event in Fixed.events if event[0] == "start"]
    assert [event[1] for event in starts] == [(0.5, 1e-5, 100_000, 2, 4e10, True)] * 2 + [
        (0.25, 2e-5, 100_000, 2, 4e10, False)
    ] * 2
    assert {event[2:4] for event in starts} == {(1e11, True)}
    assert [round(event[1] * 1e6) for event in Fixed.events if event[0] == "timer"] == [14, 34, 24, 44]
    rates = run.rates.to_pandas()
    for scheme, early, late in (("fixed", 50, 40), ("slow", 25, 100)):
        sent = rates[(rates["scheme"] == scheme) & (rates["flow"] == "h1->h3")].set_index("time_us")["rate_bps"] / 1e9
        assert (sent[5], sent[50]) == (early, late)
    senders = run.senders.to_pandas()
    assert senders[senders["quantity"] == "acks"]["value"].max() > 100
    again = weir.run(STAR, schemes=["dctcp", Fixed, slow], set={"observe.sender": ["acks"]}, jobs=2)
    assert again.digest == run.digest
    named = weir.run(STAR, set={"schemes": ["fixed"], "observe.ports": ["s1:h3"]})
    assert named.schemes == ["fixed"] and "fixed" in named.experiment


@pytest.mark.parametrize(
    ("scheme", "name", "experiment"),
    [(PyDctcp, "dctcp", QUICKSTART), (PyHpcc, "hpcc", QUICKSTART), (PySwift, "swift", QUICKSTART), (PySwift, "swift", INCAST)],
)
def test_the_same_rule_in_python_gives_the_same_digest(scheme, name, experiment):
    short = {"duration": "1ms"} if experiment is QUICKSTART else {}
    built_in = weir.run(experiment, set=short | {"schemes": [name]})
    python = weir.run(experiment, set=short, schemes=[{"scheme": scheme, "label": name}])
    assert built_in.digest == python.digest
    if experiment is INCAST:
        assert built_in.to_dict()["schemes"][name]["retransmits"] > 100


def test_a_class_is_run_as_itself():
    def share(of, name="share"):
        class Share(weir.Scheme):
            like = "dctcp"

            def start(self, flow):
                return None, flow.nic_rate * of

            def on_ack(self, ack):
                return None

        Share.name = name
        return Share

    half, tenth = share(0.5), share(0.1)
    digests = {weir.run(STAR, schemes=[scheme]).digest for scheme in (half, tenth)}
    assert len(digests) == 2
    assert weir.run(STAR | {"schemes": [half]}).digest in digests
    with pytest.raises(weir.InputError, match='two classes have the name "share"'):
        weir.run(STAR, schemes=[{"scheme": half, "label": "a"}, {"scheme": tenth, "label": "b"}])
    both = weir.run(STAR, schemes=[half, share(0.1, "other")])
    assert both.schemes == ["share", "other"]


def test_a_wrong_class_does_not_concern_other_runs():
    class Draft(weir.Scheme):
        like = "swfit"

        def on_ack(self, ack):
            return None

    with pytest.raises(weir.InputError, match='Draft.like: unknown scheme "swfit"'):
        weir.run(STAR, schemes=[Draft])
    assert weir.run(STAR).schemes == ["dctcp"]


def test_gauges_that_fail_are_named():
    class Gauged(weir.Scheme):
        like = "dctcp"
        gauges = ["nope"]

        def on_ack(self, ack):
            return None

    with pytest.raises(AttributeError) as raised:
        weir.run(STAR, schemes=[Gauged], set={"observe.sender": ["nope"]})
    assert raised.value.__notes__ == ["gauge nope of the scheme gauged"]


def test_an_exception_ends_the_run_with_its_place():
    class Broken(weir.Scheme):
        like = "hpcc"

        def on_ack(self, ack):
            return ack.telemetry[7].rate, None

    start = time.monotonic()
    with pytest.raises(IndexError) as raised:
        weir.run(QUICKSTART, schemes=[Broken], set={"duration": "1s"})
    assert time.monotonic() - start < 5
    frame = traceback.extract_tb(raised.value.__traceback__)[-1]
    assert frame.filename == __file__ and "telemetry[7]" in frame.line
    assert raised.value.__notes__[0].startswith("in on_ack of the scheme broken at ")


@pytest.mark.parametrize(
    ("returned", "error", "part"),
    [
        (5, TypeError, "on_ack returned 5; expected None, (window, rate) or (window, rate, timer)"),
        ((1, 2, 3, 4), TypeError, "expected None"),
        (("a", None), TypeError, "expected None"),
        ((float("nan"), None), ValueError, "on_ack returned the window NaN; expected 0 or more"),
        ((None, -1.0), ValueError, "on_ack returned the rate -1"),
        ((None, None, 0.0), ValueError, "on_ack set a timer for 0s, which is over"),
    ],
)
def test_invalid_decisions_are_named(returned, error, part):
    class Invalid(weir.Scheme):
        like = "dctcp"

        def on_ack(self, ack):
            return returned

    with pytest.raises(error, match=part.replace("(", r"\(").replace(")", r"\)")):
        weir.run(STAR, schemes=[Invalid])


@pytest.mark.parametrize(
    ("attributes", "part"),
    [
        ({"like": "hpc"}, 'Declared.like: unknown scheme "hpc"'),
        ({"like": "amp"}, "Declared.like: expected a scheme with one path"),
        ({"name": "hpcc"}, 'Declared.name: there is a scheme "hpcc" already'),
        ({"name": "A b"}, "Declared.name: expected small letters"),
        ({"gauges": ["rtt"]}, 'Declared.gauges: "rtt" is recorded of each scheme'),
        ({"x": weir.Parameter("5 parsecs")}, 'Declared.x: "5 parsecs" is no time, rate or size'),
        ({"x": weir.Parameter(0.5, low=1.0)}, "Declared.x: the default 0.5 is out of range; expected 1.0 or more"),
        ({"x": weir.Parameter("5us", low=1e-6)}, "Declared.x: low: time \"1e-06\""),
        ({"start": weir.Parameter(1)}, "Declared.start: weir.Scheme has an attribute of this name"),
        ({"like": None}, "Declared.like: missing"),
        ({"on_ack": weir.Scheme.on_ack}, "Declared.on_ack: missing"),
        ({"on_los": lambda self, loss: None}, "Declared.on_los: no event; the events are on_ack, on_loss, on_cnp, on_rate, on_timer; did you mean on_loss?"),
        ({"x": weir.Parameter([1])}, "Declared.x: expected a number, a boolean, or a text"),
        ({"x": weir.Parameter(-1)}, "Declared.x: expected a whole number, 0 or more"),
    ],
)
def test_invalid_declarations_are_named(attributes, part):
    declared = type("Declared", (weir.Scheme,), {"like": "dctcp", "on_ack": lambda self, ack: None} | attributes)
    with pytest.raises(weir.InputError) as raised:
        weir.run(STAR, schemes=[declared])
    assert part in str(raised.value)


def test_invalid_values_of_parameters_have_their_range():
    for value, part in ((2, "2 is out of range; expected 0.1 to 1.0"), ("x", "expected 0.1 to 1.0")):
        with pytest.raises(weir.InputError, match=part):
            weir.run(STAR, schemes=[{"scheme": Fixed, "set": {"share": value}}])
    with pytest.raises(weir.InputError, match='unknown parameter "shre"'):
        weir.run(STAR, schemes=[{"scheme": Fixed, "set": {"shre": 0.5}}])
    for wrong in (int, Fixed(), 5, weir.Parameter):
        with pytest.raises(weir.InputError, match="schemes: expected labels, classes derived from weir.Scheme"):
            weir.run(STAR, schemes=[wrong])
    with pytest.raises(weir.InputError, match="Scheme.like: missing"):
        weir.run(STAR, schemes=[weir.Scheme])


def test_a_run_in_python_is_read_back(tmp_path):
    run = weir.run(STAR, schemes=[Fixed], out=tmp_path / "run")
    again = weir.load(tmp_path / "run")
    assert again.digest == run.digest and again.experiment == run.experiment


def test_senders_are_freed_after_a_run():
    weir.run(STAR, schemes=[Fixed])
    gc.collect()
    assert not any(isinstance(thing, Fixed) for thing in gc.get_objects())
