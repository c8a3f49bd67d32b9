"""Congestion control schemes as Python classes."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from typing import Any, ClassVar

from ._weir import Ack, Flow, InputError, Loss, RateNotice

#: What a method returns: window in bytes and rate in bit/s, with or without the time of a timer in seconds; ``None`` in place of a
#: window or a rate is no limit. ``None`` alone keeps the decision in force.
Decision = tuple[float | None, float | None] | tuple[float | None, float | None, float | None] | None

#: The class of each name, as defined last, for experiments that name it.
classes: dict[str, type[Scheme]] = {}


class Parameter:
    """A parameter of a scheme. In its methods, ``self.<name>`` is the value.

    The kind follows from ``default``: a number, a whole number, a boolean, or a text with a unit, such as ``"25us"``,
    ``"1Gbps"`` or ``"30KB"``, which methods see in seconds, bit/s or bytes. ``low`` and ``high`` are the least and the largest
    value, written like the default.
    """

    def __init__(
        self,
        default: bool | int | float | str,
        help: str = "",
        *,
        low: int | float | str | None = None,
        high: int | float | str | None = None,
        symbol: str = "-",
        source: str = "the class",
    ) -> None:
        self.default = default
        self.help = help
        self.low = low
        self.high = high
        self.symbol = symbol
        self.source = source


class Scheme:
    """A congestion control scheme: the sender of one flow.

    A subclass sets ``like`` and defines ``on_ack``. Experiments then name it, and ``weir.run`` takes the class itself. One
    instance is made for each flow; ``start`` takes the place of ``__init__``. Times are in seconds, rates in bit/s, sizes in bytes.
    """

    #: Name in experiments. Default: that of the class, in small letters.
    name: ClassVar[str] = "scheme"
    #: The built-in scheme whose P4 program, telemetry, marks, receivers and transport this one uses.
    like: ClassVar[str | None] = None
    #: Attributes that ``observe: {sender: ..}`` may record.
    gauges: ClassVar[Sequence[str]] = ()
    #: Fields of the program's own telemetry records that ``Ack.records`` has.
    record_fields: ClassVar[Sequence[str]] = ()

    def __init_subclass__(cls, **arguments: Any) -> None:
        super().__init_subclass__(**arguments)
        if "name" not in vars(cls):
            cls.name = cls.__name__.lower()
        if cls.like is not None:
            classes[cls.name] = cls

    @classmethod
    def _parameters(cls) -> list[tuple[str, Parameter]]:
        """Returns the parameters, those of base classes first. Raises InputError if the class is incomplete."""

        def wrong(attribute: str, reason: str) -> InputError:
            return InputError(f"{cls.__qualname__}.{attribute}: {reason}")

        if cls.like is None:
            what = "missing; name the built-in scheme whose P4 program, marks and receivers the class uses"
            raise wrong("like", f'{what}, such as like = "dctcp"')
        events = [name for name in vars(Scheme) if name.startswith("on_")]
        for name in dir(cls):
            if name.startswith("on_") and name not in events:
                near = difflib.get_close_matches(name, events, 1)
                hint = f"; did you mean {near[0]}?" if near else ""
                raise wrong(name, f"no event; the events are {', '.join(events)}{hint}")
        if cls.on_ack is Scheme.on_ack:
            raise wrong("on_ack", "missing; the method is called for each ACK")
        found: dict[str, Parameter] = {}
        for base in reversed(cls.__mro__):
            found |= {name: value for name, value in vars(base).items() if isinstance(value, Parameter)}
        for name in found:
            if hasattr(Scheme, name):
                raise wrong(name, "weir.Scheme has an attribute of this name; choose another for the parameter")
        return list(found.items())

    def start(self, flow: Flow) -> Decision:
        """Called when the flow starts. Default: the NIC's rate, and the window of a base round-trip time."""
        return flow.bdp, flow.nic_rate

    def on_ack(self, ack: Ack) -> Decision:
        """Called for each ACK and NACK. Required."""

    def on_loss(self, loss: Loss) -> Decision:
        """Called when a loss is detected; the transport retransmits."""

    def on_cnp(self, now: float) -> Decision:
        """Called for a congestion notification packet."""

    def on_rate(self, notice: RateNotice) -> Decision:
        """Called for a rate that a switch assigns."""

    def on_timer(self, now: float) -> Decision:
        """Called at the time that the last decision set."""

    def resume(self, rate: float) -> Decision:
        """Called once, before any event, if a policy replaces the scheme of a running flow: start from its rate."""
