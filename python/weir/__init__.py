"""Weir's experiments from Python: run, sweep, and analyse them as Arrow tables.

>>> import weir
>>> run = weir.run("experiments/quickstart.yaml", set={"duration": "1ms"}, seed=7)
>>> run.summary.to_pandas()[["scheme", "peak_queue_kb"]]
  scheme  peak_queue_kb
0   fncc        127.512
1   hpcc        154.124
"""

from __future__ import annotations

import contextlib
import functools
import json
import os
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
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

    ``experiment`` is the path of a file, or a dictionary with the same keys. ``set`` overrides keys, for example
    ``{"flows.1.start": "200us"}`` (list indices from 0). ``schemes`` selects schemes by label (default: all); they run on
    ``jobs`` threads (default: one per core). ``out`` is a directory for the files that ``weir run --out`` writes.
    ``progress`` is called about ten times a second with a scheme's label and the completed share of its run.

    Raises InputError if the experiment is invalid, WorkError if the run failed, and exceptions of ``progress``.
    Ctrl-C interrupts the run; with ``out``, the results so far are kept in ``<out>.partial``.
    """
    path, text = None, ""
    if isinstance(experiment, Mapping):
        text = json.dumps(experiment, indent=1)
    else:
        path = os.fspath(experiment)
    return _weir.run((path, text), _assignments(set), seed, _labels(schemes), jobs, out, progress)


def sweep(
    experiment: Experiment,
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

    ``experiment`` is the path of a file, or a dictionary with the same keys, as in ``run``. ``over`` has the values of each key, for example ``{"workload.load": [0.2, 0.4], "seed": range(1, 6)}``; default: the
    file's ``sweep``. Means are taken over seeds, and over keys with the prefix ``~``. ``metrics`` selects metrics, in the
    syntax of ``weir sweep --metric``. Complete runs in ``out`` (default: ``runs/<name>-sweep``) are not repeated, unless
    ``fresh``. With ``engine="ray"`` runs are Ray tasks, on the cluster of ``ray.init()`` or RAY_ADDRESS, or on this
    machine; a run is retried up to ``retries`` times if its worker or node dies.

    Raises InputError before the first run if an argument is invalid. After Ctrl-C, the same call continues the sweep.
    """
    axes = [f"{key}={','.join(map(_value, values))}" for key, values in (over or {}).items()]
    run_tasks = None
    if engine == "ray":
        from . import on_ray

        run_tasks = functools.partial(on_ray.outcomes, retries=retries)
    elif engine != "local":
        raise InputError(f'engine: "{engine}" is neither "local" nor "ray"; for slurm, use `weir sweep`')
    metrics = [metrics] if isinstance(metrics, str) else list(metrics)
    with _file(experiment) as file:
        return _weir.sweep(
            file, _assignments(set), _labels(schemes), axes, metrics, out, jobs, fresh, run_tasks
        )


@contextlib.contextmanager
def _file(experiment: Experiment) -> Iterator[str | os.PathLike[str]]:
    """Provides the file of an experiment. For a dictionary it is a temporary one in the current directory, because paths in
    an experiment are relative to its file, and every run of a sweep reads it."""
    if not isinstance(experiment, Mapping):
        yield experiment
        return
    with tempfile.NamedTemporaryFile("w", prefix=".weir-", suffix=".json", dir=".", encoding="utf-8") as file:
        json.dump({"name": "experiment"} | dict(experiment), file, indent=1)
        file.flush()
        yield file.name


def _labels(schemes: Iterable[str] | None) -> list[str]:
    """Returns the labels; an empty list stands for all schemes."""
    if isinstance(schemes, str):
        schemes = [schemes]
    labels = [] if schemes is None else list(schemes)
    if schemes is not None and not labels:
        raise InputError("schemes: the list is empty; specify a scheme of the file, or omit `schemes` to run all")
    return labels


def _assignments(set: Mapping[str, Any] | None) -> list[str]:
    return [f"{key}={_value(value)}" for key, value in (set or {}).items()]


def _value(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)
