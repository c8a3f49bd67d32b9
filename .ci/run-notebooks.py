"""Executes notebooks, each in its directory, and compares their texts with the outputs that the files store:
run-notebooks.py [--store] FILE... With --store it writes the outputs into the files instead. Needs nbclient, ipykernel and the
imports of the notebooks."""

import pathlib
import sys

import nbclient
import nbformat

# The report of a run is far larger: the file then has its description alone.
MAX_HTML_LENGTH = 20_000


def outputs(notebook):
    """Yields the outputs of all cells, without warnings and without what is too large to store."""
    for cell in notebook.cells:
        for output in cell.get("outputs", []):
            if output.get("name") != "stderr":
                data = output.get("data", {})
                if len(data.get("text/html", "")) > MAX_HTML_LENGTH:
                    del data["text/html"]
                yield output


def words(notebook):
    """Returns the words of all texts, sorted: their layout depends on the version of pandas."""
    texts = [output.get("text") or output.get("data", {}).get("text/plain", "") for output in outputs(notebook)]
    return sorted(word for text in texts for word in text.split())


def has_figure(notebook):
    return any("image/png" in output.get("data", {}) for output in outputs(notebook))


arguments = sys.argv[1:]
stores = arguments[:1] == ["--store"]
for name in map(pathlib.Path, arguments[stores:]):
    stored, notebook = (nbformat.read(name, as_version=4) for _ in range(2))
    resources = {"metadata": {"path": name.parent}}
    nbclient.NotebookClient(notebook, timeout=300, resources=resources, record_timing=False).execute()
    if not has_figure(notebook):
        sys.exit(f"{name}: no cell draws a figure")
    if stores:
        for cell in notebook.cells:
            if "outputs" in cell:
                cell.outputs = list(outputs(nbformat.from_dict({"cells": [cell]})))
        notebook.metadata = stored.metadata
        nbformat.write(notebook, name)
    elif words(stored) != words(notebook) or not has_figure(stored):
        changed = set(words(stored)) ^ set(words(notebook))
        sys.exit(f"{name}: the outputs differ from the stored ones: {sorted(changed)}; update them with .ci/run-notebooks.py --store {name}")
    print(f"{name}: {len(notebook.cells)} cells, {'stored' if stores else 'as stored'}")
