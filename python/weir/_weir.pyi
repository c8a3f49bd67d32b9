from collections.abc import Callable, Sequence
from os import PathLike
from pathlib import Path
from typing import Any

import pandas
import polars

class InputError(ValueError):
    file: str | None
    line: int | None
    column: int | None

class WorkError(RuntimeError): ...

class Table:
    """A table in Arrow's memory layout."""

    @property
    def columns(self) -> list[str]: ...
    def __len__(self) -> int: ...
    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object: ...
    def to_pandas(self) -> pandas.DataFrame: ...
    def to_polars(self) -> polars.DataFrame: ...

class Flow:
    """A flow that starts."""

    @property
    def nic_rate(self) -> float:
        """Rate of the host's NIC in bit/s, at which flows start."""
    @property
    def base_rtt(self) -> float:
        """Base round-trip time of the fabric in seconds."""
    @property
    def base_rtt_ps(self) -> int:
        """``base_rtt`` in picoseconds."""
    @property
    def payload(self) -> int:
        """Payload bytes of a full packet."""
    @property
    def frame(self) -> int:
        """Length in bytes of a full DATA frame, without telemetry records."""
    @property
    def tick(self) -> float:
        """Unit of telemetry timestamps in seconds."""
    @property
    def bdp(self) -> int:
        """Bytes at the NIC's rate in a base round-trip time."""
    def bytes_at(self, rate: float) -> int:
        """Returns the whole bytes at ``rate`` bit/s in a base round-trip time."""

class Hop:
    """The state of a port on the path when it wrote its record."""

    @property
    def rate(self) -> float:
        """Rate of the port in bit/s; 0 if the switch does not know it."""
    @property
    def queue(self) -> int:
        """Queue of the port in bytes, or the packet's wait in ticks where the records carry that."""
    @property
    def tx_bytes(self) -> int:
        """Bytes sent by the port, modulo 2^27."""
    @property
    def timestamp(self) -> int:
        """Time of the record in ticks, modulo 2^24."""
    @property
    def link(self) -> int:
        """The link that leaves the port: switch id and port id; 0 if the record has none."""
    def ticks_since(self, earlier: Hop) -> int:
        """Returns the ticks since an earlier record of the port, across at most one wrap."""
    def bytes_since(self, earlier: Hop) -> int:
        """Returns the bytes sent since an earlier record of the port, across at most one wrap."""

class Ack:
    """An ACK, or a NACK."""

    @property
    def now(self) -> float:
        """Time of arrival in seconds."""
    @property
    def now_ps(self) -> int:
        """``now`` in picoseconds."""
    @property
    def seq(self) -> int:
        """Next byte that the receiver expects."""
    @property
    def acked(self) -> int:
        """Payload bytes acknowledged for the first time."""
    @property
    def snd_nxt(self) -> int:
        """Next byte that the sender would send."""
    @property
    def rtt(self) -> float | None:
        """Time since the acknowledged packet was sent, in seconds; None if it is implausible."""
    @property
    def rtt_ps(self) -> int | None:
        """``rtt`` in picoseconds."""
    @property
    def hops(self) -> int | None:
        """Number of switches on the path; None if unknown."""
    @property
    def marked(self) -> bool:
        """True if the acknowledged packet had an ECN mark."""
    @property
    def concurrency(self) -> int:
        """Number of active flows at the receiver; 0 if it does not report them."""
    @property
    def grant(self) -> int:
        """The grant field of the ACK."""
    @property
    def endpoint_delay(self) -> float | None:
        """The part of ``rtt`` that passed in the hosts, in seconds; None unless the scheme asks for it."""
    @property
    def path_id(self) -> int:
        """XOR of the switch ids on the path that the telemetry describes."""
    @property
    def data_path(self) -> int:
        """XOR of the switch ids on the path of the data."""
    @property
    def telemetry(self) -> list[Hop]:
        """Telemetry of the path, first hop after the sender first; empty if the packet carries none."""
    @property
    def records(self) -> list[list[int]]:
        """Values of the scheme's ``record_fields`` at each hop, first hop after the sender first."""

class Loss:
    """A loss."""

    @property
    def now(self) -> float:
        """Time of detection in seconds."""
    @property
    def now_ps(self) -> int:
        """``now`` in picoseconds."""
    @property
    def kind(self) -> str:
        """"nack" or "timeout"."""
    @property
    def seq(self) -> int:
        """First unacknowledged byte."""
    @property
    def snd_nxt(self) -> int:
        """Next byte that the sender would have sent."""

class RateNotice:
    """A rate that a switch assigns to the flow."""

    @property
    def now(self) -> float:
        """Time of arrival in seconds."""
    @property
    def rate(self) -> float:
        """The rate in bit/s. Not authenticated: may have any value."""
    @property
    def port(self) -> int:
        """Number of the port at its switch."""
    @property
    def path_id(self) -> int:
        """XOR of the switch ids on the path from the switch to the sender."""

class Run:
    """The results of an experiment."""

    @property
    def name(self) -> str: ...
    @property
    def schemes(self) -> list[str]: ...
    @property
    def digest(self) -> str: ...
    @property
    def partial(self) -> bool: ...
    @property
    def experiment(self) -> str: ...
    @property
    def dir(self) -> Path | None: ...
    @property
    def summary(self) -> Table: ...
    @property
    def flows(self) -> Table: ...
    @property
    def fct(self) -> Table: ...
    @property
    def queues(self) -> Table: ...
    @property
    def rates(self) -> Table: ...
    @property
    def senders(self) -> Table: ...
    @property
    def pauses(self) -> Table: ...
    @property
    def report(self) -> str: ...
    def to_dict(self) -> dict[str, Any]:
        """Returns the content of ``summary.json``."""
    def _repr_html_(self) -> str: ...

class Sweep:
    """A finished sweep."""

    @property
    def name(self) -> str: ...
    @property
    def dir(self) -> Path: ...
    @property
    def runs(self) -> list[Path]: ...
    @property
    def failures(self) -> list[str]: ...
    @property
    def table(self) -> Table: ...
    @property
    def fct(self) -> Table: ...

def run(
    source: tuple[str | None, str],
    classes: tuple[list[type], list[type]],
    overrides: list[str],
    seed: int | None,
    schemes: Sequence[str | tuple[str]],
    jobs: int | None,
    dir: str | PathLike[str] | None,
    progress: Callable[[str, float], Any] | None,
) -> Run: ...
def sweep(
    file: str | PathLike[str],
    set: list[str],
    schemes: list[str],
    over: list[str],
    metrics: list[str],
    dir: str | PathLike[str] | None,
    jobs: int | None,
    fresh: bool,
    run_tasks: Callable[[list[dict[str, Any]]], list[str | None]] | None,
) -> Sweep: ...
def write_run_files(dir: str | PathLike[str], files: list[tuple[str, bytes]]) -> None:
    """Writes the files of a run that was executed on another machine into its directory."""
def load(dir: str | PathLike[str], classes: list[type]) -> Run:
    """Reads the directory of a run, written by ``weir run`` or ``weir.run(..., out=...)``."""
