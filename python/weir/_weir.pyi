from collections.abc import Callable
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
    overrides: list[str],
    seed: int | None,
    schemes: list[str],
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
def load(dir: str | PathLike[str]) -> Run:
    """Reads the directory of a run, written by ``weir run`` or ``weir.run(..., out=...)``."""
