"""Runs of a sweep as tasks of Ray: what ``weir.sweep(..., engine="ray")`` and ``weir sweep --engine ray`` use.

A task does one run and returns the files of its directory as an Arrow table, so that the nodes need no file system in
common for results. The process that has submitted the tasks writes them.
"""

from __future__ import annotations

import _thread
import json
import os
import sys
import tempfile
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow
import ray

from . import _weir


def one(task: Mapping[str, Any]) -> pyarrow.Table:
    """Does a run, and returns the files of its directory."""
    with tempfile.TemporaryDirectory() as place:
        out = Path(place) / "run"
        _weir.run((task["file"], ""), task["set"], task["seed"], task["schemes"], 1, out, None)
        files = sorted(out.iterdir())
        contents = pyarrow.array([file.read_bytes() for file in files], pyarrow.large_binary())
        return pyarrow.table({"file": [file.name for file in files], "content": contents})


def run(
    tasks: Sequence[Mapping[str, Any]], retries: int, ended: Callable[[int, str | None], object]
) -> None:
    """Does all tasks, and calls ``ended`` with the number of each and why it failed, if it did.

    The cluster is that of ``ray.init()`` if it was called, else of RAY_ADDRESS or of this machine. A task whose worker
    or node died is repeated up to ``retries`` times.
    """
    ours = not ray.is_initialized()
    if ours:
        ray.init(log_to_driver=False, logging_level="warning")
    remote = ray.remote(num_cpus=1, max_retries=retries)(one)
    waiting = {remote.remote({**task, "file": os.path.abspath(task["file"])}): task for task in tasks}
    try:
        while waiting:
            ready, _ = ray.wait(list(waiting))
            for reference in ready:
                task = waiting.pop(reference)
                ended(task["number"], _keep(reference, task["dir"]))
    finally:
        for reference in waiting:
            ray.cancel(reference, force=True)
        if ours:
            ray.shutdown()


def outcomes(tasks: Sequence[Mapping[str, Any]], retries: int) -> list[str | None]:
    """Does all tasks, and returns for each why it failed, if it did."""
    failures: dict[int, str | None] = {}
    run(tasks, retries, failures.__setitem__)
    return [failures[task["number"]] for task in tasks]


def _keep(reference: ray.ObjectRef[pyarrow.Table], place: str | os.PathLike[str]) -> str | None:
    try:
        table = ray.get(reference)
    except ray.exceptions.RayTaskError as error:
        return str(error.cause)
    except ray.exceptions.RayError as error:
        return f"{type(error).__name__}: {str(error).strip().splitlines()[0]}"
    _weir.keep(place, list(zip(table["file"].to_pylist(), table["content"].to_pylist(), strict=True)))
    return None


def main() -> None:
    """Takes tasks from a line of standard input, and writes a line for each that has ended. The end of the input ends
    them all."""
    # What Ray prints must not come between the lines.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    request = json.loads(sys.stdin.readline())

    def watch() -> None:
        sys.stdin.read()
        _thread.interrupt_main()

    threading.Thread(target=watch, daemon=True).start()
    try:
        run(
            request["tasks"],
            request["retries"],
            lambda number, error: print(json.dumps({"number": number, "error": error}), file=answers, flush=True),
        )
    except KeyboardInterrupt:
        sys.exit(130)


if __name__ == "__main__":
    main()
