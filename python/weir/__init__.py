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
import operator
import os
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal

from . import _weir
from . import scheme as _scheme
from ._weir import Ack, Flow, Hop, InputError, Loss, RateNotice, Run, Sweep, Table, WorkError
from .scheme import Decision, Parameter, Scheme

__all__ = [
    "Ack",
    "Decision",
    "Flow",
    "Hop",
    "InputError",
    "Loss",
    "Parameter",
    "RateNotice",
    "Run",
    "Scheme",
    "Sweep",
    "Table",
    "WorkError",
    "load",
    "run",
    "sweep",
]

Experiment = str | os.PathLike[str] | Mapping[str, Any]


def run(
    experiment: Experiment,
    *positional: Any,
    set: Mapping[str, Any] | None = None,
    seed: int | None = None,
    schemes: Iterable[str | type[Scheme] | Mapping[str, Any]] | None = None,
    jobs: int | None = None,
    out: str | os.PathLike[str] | None = None,
    progress: Callable[[str, float], object] | None = None,
) -> Run:
    """Runs an experiment in virtual time and returns its results.

    ``experiment`` is the path of a file, or a dictionary with the same keys. ``set`` overrides keys, for example
    ``{"flows.1.start": "200us"}`` (list indices from 0). ``schemes`` selects schemes by label (default: all), and adds
    classes (``weir.Scheme``) and entries such as ``{"scheme": Mine, "set": {"gain": 0.5}, "label": "slow"}``. They run on
    ``jobs`` threads (default: one per core; schemes in Python on one). ``out`` is a directory for the files that ``weir run --out`` writes.
    ``progress`` is called about ten times a second with a scheme's label and the completed share of its run.

    Raises InputError if the experiment is invalid, WorkError if the run failed, and exceptions of ``progress``.
    Ctrl-C interrupts the run; with ``out``, the results so far are kept in ``<out>.partial``.
    """
    _only_keywords("run", positional)
    chosen: list[type[Scheme]] = []
    path, text = None, ""
    if isinstance(experiment, Mapping):
        text = _json("experiment", _named(experiment, chosen))
    else:
        path = _path("experiment", experiment)
    choices = _choices(schemes, chosen)
    assignments = _assignments(set if set is None else _named(set, chosen))
    names = [scheme.name for scheme in chosen]
    others = [scheme for name, scheme in _scheme.classes.items() if name not in names]
    return _weir.run(
        (path, text),
        (chosen, others),
        assignments,
        _whole_number("seed", seed, 0),
        choices,
        _whole_number("jobs", jobs, 1),
        None if out is None else _path("out", out),
        progress,
    )


def sweep(
    experiment: Experiment,
    over: Mapping[str, Iterable[Any]] | None = None,
    *positional: Any,
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
    _only_keywords("sweep", positional)
    axes = _axes(over)
    run_tasks = None
    if engine == "ray":
        from . import on_ray

        run_tasks = functools.partial(on_ray.outcomes, retries=retries)
    elif engine != "local":
        raise InputError(f'engine: "{engine}" is neither "local" nor "ray"; for slurm, use `weir sweep`')
    metrics = [metrics] if isinstance(metrics, str) else list(metrics)
    with _file(experiment) as file:
        return _weir.sweep(
            file,
            _assignments(set),
            _labels(schemes),
            axes,
            metrics,
            None if out is None else _path("out", out),
            _whole_number("jobs", jobs, 1),
            fresh,
            run_tasks,
        )


@contextlib.contextmanager
def _file(experiment: Experiment) -> Iterator[str | os.PathLike[str]]:
    """Provides the file of an experiment. For a dictionary it is a temporary one in the current directory, because paths in
    an experiment are relative to its file, and every run of a sweep reads it."""
    if not isinstance(experiment, Mapping):
        yield _path("experiment", experiment)
        return
    with tempfile.NamedTemporaryFile("w", prefix=".weir-", suffix=".json", dir=".", encoding="utf-8") as file:
        file.write(_json("experiment", {"name": "experiment"} | dict(experiment)))
        file.flush()
        try:
            yield file.name
        except (InputError, WorkError) as error:
            # The caller knows no file.
            error.args = (str(error).replace(file.name, "experiment"),)
            raise


def load(dir: str | os.PathLike[str]) -> Run:
    """Reads the directory of a run."""
    return _weir.load(_path("dir", dir), list(_scheme.classes.values()))


def _named(value: Any, chosen: list[type[Scheme]]) -> Any:
    """Returns the value with the names of classes in place of the classes, which are added to ``chosen``."""
    if isinstance(value, type) and issubclass(value, Scheme):
        if any(other.name == value.name and other is not value for other in chosen):
            raise InputError(f'schemes: two classes have the name "{value.name}"; set the attribute `name` of one')
        if value not in chosen:
            chosen.append(value)
        return value.name
    if isinstance(value, Mapping):
        return {key: _named(entry, chosen) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [_named(entry, chosen) for entry in value]
    return value


def _choices(schemes: Any, chosen: list[type[Scheme]]) -> Sequence[str | tuple[str]]:
    """Returns labels as they are, and other schemes as entries of the key ``schemes``, in tuples."""
    if schemes is None or isinstance(schemes, str):
        return _labels(schemes)
    if isinstance(schemes, type | Mapping):
        schemes = [schemes]
    elif not isinstance(schemes, Iterable):
        return _labels(schemes)
    choices: list[str | tuple[str]] = []
    for scheme in schemes:
        entry = _named(scheme, chosen)
        if isinstance(scheme, str):
            choices.append(scheme)
        elif isinstance(scheme, Mapping) or isinstance(entry, str):
            choices.append((_json("schemes", entry),))
        else:
            raise InputError(
                "schemes: expected labels, classes derived from weir.Scheme, or entries such as"
                f' {{"scheme": "hpcc", "label": "x"}}, found {scheme!r}'
            )
    return choices or _labels([])


def _labels(schemes: Iterable[str] | None) -> list[str]:
    """Returns the labels; an empty list stands for all schemes."""
    if isinstance(schemes, str):
        schemes = [schemes]
    if schemes is not None and not isinstance(schemes, Iterable):
        raise InputError(f'schemes: expected labels such as ["fncc"], found {schemes!r}')
    labels = [] if schemes is None else list(schemes)
    for label in labels:
        if not isinstance(label, str):
            raise InputError(f"schemes: expected labels of the experiment's schemes, found {label!r}")
    if schemes is not None and not labels:
        raise InputError("schemes: the list is empty; specify a scheme of the file, or omit `schemes` to run all")
    return labels


def _only_keywords(function: str, positional: tuple[Any, ...]) -> None:
    if positional:
        raise InputError(
            f"weir.{function}: the argument {positional[0]!r} has no name; keys of the experiment are given as"
            ' set={"duration": "1ms"}, the seed as seed=3'
        )


def _path(name: str, path: Any) -> str:
    try:
        return os.fsdecode(path)
    except TypeError:
        what = "the path of a file, or a dictionary with its keys" if name == "experiment" else "a path"
        raise InputError(f"{name}: expected {what}, found {path!r}") from None


def _whole_number(name: str, value: Any, least: int) -> int | None:
    """Returns an integer of 64 bits. Accepts those of numpy, and no booleans, which are integers in Python."""
    if value is None:
        return None
    try:
        number = None if isinstance(value, bool) else operator.index(value)
    except TypeError:
        number = None
    if number is None or not least <= number < 1 << 64:
        raise InputError(f"{name}: expected a whole number, {least} or more, found {value!r}")
    return number


def _axes(over: Mapping[str, Iterable[Any]] | None) -> list[str]:
    """Returns the axes of a sweep in the syntax of ``weir sweep --over``."""
    example = '{"workload.load": [0.2, 0.4], "seed": range(1, 6)}'
    if over is not None and not isinstance(over, Mapping):
        raise InputError(f"over: expected a dictionary such as {example}, found {over!r}")
    axes = []
    for key, values in (over or {}).items():
        # A string is iterable, but its characters are not values.
        if isinstance(values, str | Mapping) or not isinstance(values, Iterable):
            raise InputError(f"over: {key}: expected a list of values as in {example}, found {values!r}")
        axes.append(f"{key}={','.join(_value(f'over: {key}', value) for value in values)}")
    return axes


def _assignments(set: Mapping[str, Any] | None) -> list[str]:
    if set is not None and not isinstance(set, Mapping):
        raise InputError(f'set: expected a dictionary such as {{"duration": "1ms"}}, found {set!r}')
    assignments = []
    for key, value in (set or {}).items():
        if not isinstance(key, str):
            raise InputError(f"set: expected the path of a key, such as \"flows.1.start\", found {key!r}")
        assignments.append(f"{key}={_value(f'set: {key}', value)}")
    return assignments


def _value(name: str, value: Any) -> str:
    return value if isinstance(value, str) else _json(name, value)


def _json(name: str, value: Any) -> str:
    """Returns a value of an experiment as JSON, which is YAML too."""
    try:
        return json.dumps(value, indent=1 if name == "experiment" else None, default=_plain)
    except (TypeError, ValueError) as error:
        raise InputError(f"{name}: not a value of an experiment: {error}") from None


def _plain(value: Any) -> Any:
    """Returns paths as text, and numbers of numpy and other libraries as those of Python."""
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if hasattr(value, "item"):
        return value.item()
    raise TypeError(f"{value!r} of type {type(value).__name__}")
