"""Executes notebooks, each in its directory: run-notebooks.py FILE... (needs nbclient, ipykernel and the imports of the notebooks)."""

import pathlib
import sys

import nbclient
import nbformat

for name in map(pathlib.Path, sys.argv[1:]):
    notebook = nbformat.read(name, as_version=4)
    nbclient.NotebookClient(notebook, timeout=300, resources={"metadata": {"path": name.parent}}).execute()
    figures = sum("image/png" in output.get("data", {}) for cell in notebook.cells for output in cell.get("outputs", []))
    if figures == 0:
        sys.exit(f"{name}: no cell draws a figure")
    print(f"{name}: {len(notebook.cells)} cells, {figures} figures")
