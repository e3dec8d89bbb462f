"""The tutorial notebook, executed by a real kernel."""

import os
from pathlib import Path

import nbclient
import nbformat
import pytest

import kgprobe

NOTEBOOK = Path(__file__).parents[1] / "docs" / "tutorials" / "notebook.ipynb"


def executed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> nbformat.NotebookNode:
    source = Path(kgprobe.__file__).parents[1]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(source), os.environ.get("PYTHONPATH", "")]))
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path))
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    nbclient.NotebookClient(notebook, timeout=300, resources={"metadata": {"path": str(tmp_path)}}).execute()
    return notebook


def shown(cell: nbformat.NotebookNode) -> dict[str, str]:
    """What a cell shows, by MIME type."""
    return {
        kind: text
        for output in cell.outputs
        if output.output_type == "execute_result"
        for kind, text in output.data.items()
    }


def test_the_notebook_is_stored_without_outputs() -> None:
    cells = nbformat.read(NOTEBOOK, as_version=4).cells
    assert [cell.id for cell in cells if cell.cell_type == "code" and (cell.outputs or cell.execution_count)] == []


@pytest.mark.slow
def test_every_cell_of_the_notebook_runs_and_shows_its_result(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    notebook = executed(monkeypatch, tmp_path)
    results = {cell.source.splitlines()[-1]: shown(cell) for cell in notebook.cells if cell.cell_type == "code"}
    for name in ("graph", "relatives", "by_relation", "audit", "report", "plane"):
        assert "<table" in results[name]["text/html"], name
    drawn = [source for source in results if source.endswith(".plot()")]
    assert len(drawn) == 4
    assert all("image/png" in results[source] for source in drawn)
    assert "KnowledgeGraph('family-tree'" in results["graph"]["text/plain"]
    errors = [out for cell in notebook.cells for out in cell.get("outputs", []) if out.get("name") == "stderr"]
    assert errors == []
