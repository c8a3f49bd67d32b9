"""Weir's experiments from Python: run, sweep, and analyse them as Arrow tables.

>>> import weir
>>> run = weir.run("experiments/quickstart.yaml", set={"duration": "1ms"}, seed=7)
>>> run.summary.to_pandas()[["scheme", "peak_queue_kb"]]
  scheme  peak_queue_kb
0   fncc        127.512
1   hpcc        154.124
"""

from __future__ import annotations

import functools
import json
import os
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Literal

from . import _weir
from ._weir import InputError, Run, Sweep, Table, WorkError, load

__all__ = ["InputError", "Run", "Sweep", "Table", "WorkError", "load", "run", "sweep"]

Experiment = str | os.PathLike[str] | Mapping[str, Any]


def run(
    experiment: Experiment,
    *,
    set: Mapping[str, Any] | None = None,
    seed: int | None = None,
    schemes: Iterable[str] | None = None,
    jobs: int | None = None,
    out: str | os.PathLike[str] | None = None,
    progress: Callable[[str, float], object] | None = None,
) -> Run:
    """Runs an experiment in virtual time and returns its results.

    ``experiment`` is the path of a file, or a dictionary with the same keys. ``set`` replaces keys: dots go down,
    numbers count list entries from 0, as in ``{"flows.1.start": "200us"}``. ``schemes`` selects by label (absent:
    all), and ``jobs`` threads run them (absent: one for each core). ``out`` names a directory that gets what ``weir run --out`` writes.
    ``progress`` is called about ten times a second with a scheme's label and the share of its run that is done.

    Raises InputError if the experiment is wrong, WorkError if running it failed, and what ``progress`` raises.
    Ctrl-C ends the run; with ``out``, the results so far stay in ``<out>.partial``.
    """
    path, text = None, ""
    if isinstance(experiment, Mapping):
        text = json.dumps(experiment, indent=1)
    else:
        path = os.fspath(experiment)
    return _weir.run((path, text), _assignments(set), seed, _labels(schemes), jobs, out, progress)


def sweep(
    experiment: str | os.PathLike[str],
    over: Mapping[str, Iterable[Any]] | None = None,
    *,
    metrics: Iterable[str] = (),
    set: Mapping[str, Any] | None = None,
    schemes: Iterable[str] | None = None,
    jobs: int | None = None,
    out: str | os.PathLike[str] | None = None,
    fresh: bool = False,
    engine: Literal["local", "ray"] = "local",
    retries: int = 3,
) -> Sweep:
    """Runs an experiment for every combination of values and returns means with 95 % confidence intervals.

    ``over`` has the values of each key, as in ``{"workload.load": [0.2, 0.4], "seed": range(1, 6)}``; absent: those of
    the file's ``sweep``. Means are taken over seeds, and over keys with ``~`` before them. ``metrics`` selects numbers
    as ``weir sweep --metric`` does. Runs that are done in ``out`` (absent: ``runs/<name>-sweep``) are not done again,
    unless ``fresh``. With ``engine="ray"`` they are tasks of Ray, on the cluster of ``ray.init()`` or RAY_ADDRESS, or on
    this machine; a run is repeated up to ``retries`` times if its worker or node died.

    Raises InputError if something is wrong, before anything runs. Ctrl-C keeps what is done, and the same call
    continues.
    """
    axes = [f"{key}={','.join(map(_value, values))}" for key, values in (over or {}).items()]
    elsewhere = None
    if engine == "ray":
        from . import on_ray

        elsewhere = functools.partial(on_ray.outcomes, retries=retries)
    elif engine != "local":
        raise InputError(f'engine: "{engine}" is neither "local" nor "ray"; `weir sweep` has slurm, too')
    return _weir.sweep(
        experiment, _assignments(set), _labels(schemes), axes, list(metrics), out, jobs, fresh, elsewhere
    )


def _labels(schemes: Iterable[str] | None) -> list[str]:
    """Returns the labels that were given; an empty list stands for all schemes."""
    labels = [] if schemes is None else list(schemes)
    if schemes is not None and not labels:
        raise InputError("schemes: the list is empty, name a scheme of the file or leave it out for all")
    return labels


def _assignments(set: Mapping[str, Any] | None) -> list[str]:
    return [f"{key}={_value(value)}" for key, value in (set or {}).items()]


def _value(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)
