"""Executes the runs of a sweep as Ray tasks, for ``weir.sweep(..., engine="ray")`` and ``weir sweep --engine ray``.

A task returns the files of its run directory as an Arrow table, and the process that has submitted the tasks writes them. So
the nodes need no shared file system for results.
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


def run_one(task: Mapping[str, Any]) -> pyarrow.Table:
    """Ray task: runs one experiment and returns the files of its run directory as an Arrow table."""
    with tempfile.TemporaryDirectory() as directory:
        out = Path(directory) / "run"
        _weir.run((task["file"], ""), ([], []), task["set"], task["seed"], task["schemes"], 1, out, None)
        files = sorted(out.iterdir())
        contents = pyarrow.array([file.read_bytes() for file in files], pyarrow.large_binary())
        return pyarrow.table({"file": [file.name for file in files], "content": contents})


def run(
    tasks: Sequence[Mapping[str, Any]], retries: int, on_end: Callable[[int, str | None], object]
) -> None:
    """Runs all tasks. Calls ``on_end`` with the number of each finished task, and its error message or None.

    The cluster is that of ``ray.init()`` if it was called, else that of RAY_ADDRESS or a local one. A task is retried up to
    ``retries`` times if its worker or node dies.
    """
    is_own_cluster = not ray.is_initialized()
    if is_own_cluster:
        ray.init(log_to_driver=False, logging_level="warning")
    remote = ray.remote(num_cpus=1, max_retries=retries)(run_one)
    waiting = {remote.remote({**task, "file": os.path.abspath(task["file"])}): task for task in tasks}
    try:
        while waiting:
            ready, _ = ray.wait(list(waiting))
            for reference in ready:
                task = waiting.pop(reference)
                on_end(task["number"], _write_result(reference, task["dir"]))
    finally:
        for reference in waiting:
            ray.cancel(reference, force=True)
        if is_own_cluster:
            ray.shutdown()


def outcomes(tasks: Sequence[Mapping[str, Any]], retries: int) -> list[str | None]:
    """Runs all tasks; returns the error message of each, or None."""
    failures: dict[int, str | None] = {}
    run(tasks, retries, failures.__setitem__)
    return [failures[task["number"]] for task in tasks]


def _write_result(reference: ray.ObjectRef[pyarrow.Table], directory: str | os.PathLike[str]) -> str | None:
    """Writes the files of a finished task. Returns its error message, or None."""
    try:
        table = ray.get(reference)
    except ray.exceptions.RayTaskError as error:
        return str(error.cause)
    except ray.exceptions.RayError as error:
        return f"{type(error).__name__}: {str(error).strip().splitlines()[0]}"
    _weir.write_run_files(directory, list(zip(table["file"].to_pylist(), table["content"].to_pylist(), strict=True)))
    return None


def main() -> None:
    """Reads a request with tasks from standard input, one line of JSON, and writes a line of JSON for each finished task.
    Cancels the tasks when standard input is closed."""
    # Ray prints to standard output; redirect that to standard error, so that the replies stay separate.
    replies = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    request = json.loads(sys.stdin.readline())

    def interrupt_at_end_of_input() -> None:
        sys.stdin.read()
        _thread.interrupt_main()

    threading.Thread(target=interrupt_at_end_of_input, daemon=True).start()
    try:
        run(
            request["tasks"],
            request["retries"],
            lambda number, error: print(json.dumps({"number": number, "error": error}), file=replies, flush=True),
        )
    except KeyboardInterrupt:
        sys.exit(130)


if __name__ == "__main__":
    main()
