"""Every public result converts and shows itself, read back by pandas, polars, pyarrow and an HTML parser."""

import sys
from collections.abc import Callable
from html.parser import HTMLParser
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import kgprobe as kp
from kgprobe.graph.family_tree import family_tree
from kgprobe.models.rules.explanations import Answer, Answers, Reason
from kgprobe.tables import SHOWN_ROWS, Table, arrow_table

EVIL = "<script>alert(1)</script>\n\x1b[31m"


@pytest.fixture(scope="module")
def graph() -> kp.KnowledgeGraph:
    return family_tree(trees=1, people_per_tree=40)


@pytest.fixture(scope="module")
def models(graph: kp.KnowledgeGraph) -> dict[str, kp.Ranks]:
    return {name: kp.rank(name, graph) for name in ("random", "relation-frequency")}


FEW = {"replicates": 100, "permutations": 100}

RESULTS: dict[str, Callable[[kp.KnowledgeGraph, dict[str, kp.Ranks]], Any]] = {
    "graph": lambda graph, models: graph,
    "ranks": lambda graph, models: models["random"],
    "scores": lambda graph, models: kp.evaluate(models["random"], ["MRR", "MR"], by="relation", graph=graph),
    "surface": lambda graph, models: kp.surface(models["random"]),
    "report": lambda graph, models: kp.compare(models, **FEW),
    "decision": lambda graph, models: kp.decide(models, 1, 0, **FEW),
    "map": lambda graph, models: kp.decision_map(models, replicates=100),
    "audit": lambda graph, models: kp.check(list(models.values()), graph),
    "estimation": lambda graph, models: kp.estimate_closed(
        models, "MRR", missing=0.1, graph=graph, draws=4, curve=False
    ),
    "sensitivity": lambda graph, models: kp.sensitivity(graph, [0.1, 0.2], "MRR"),
    "answers": lambda graph, models: Answers(
        "parent(Ada, ?)",
        (
            Answer(0, "Bob", 1.5, 1, 9, 0.25, {}, ("train",), (Reason("a(x) <- b(x)", 1, 2.5, 2.5, "b(Bob)"),), 0),
            Answer(1, "Eve", 3.0, 0, 9, 0.0, {}, (), (), 0),
        ),
    ),
}
"""How to get every kind of result."""

PLOTTED = ("scores", "surface", "report", "map", "estimation")


@pytest.fixture(scope="module")
def results(graph: kp.KnowledgeGraph, models: dict[str, kp.Ranks]) -> dict[str, Any]:
    return {name: make(graph, models) for name, make in RESULTS.items()}


@pytest.mark.parametrize("name", RESULTS)
def test_every_result_is_the_same_table_in_every_library(results: dict[str, Any], name: str) -> None:
    result = results[name]
    rows = result.to_rows()
    assert rows
    frame, polars, stream = result.to_pandas(), result.to_polars(), _stream(result)
    assert isinstance(frame, pd.DataFrame)
    assert isinstance(polars, pl.DataFrame)
    assert stream.schema == result.to_arrow().schema
    names = list(dict.fromkeys(name for row in rows for name in row))
    assert list(frame.columns) == polars.columns == stream.column_names == names
    assert len(frame) == len(polars) == stream.num_rows == len(rows)
    for column in frame.columns:
        given = [row.get(column) for row in rows]
        for read in (frame[column].tolist(), polars[column].to_list()):
            assert [_same(value) for value in read] == [_same(value) for value in given]


def _stream(result: Any) -> pa.Table:
    return pa.RecordBatchReader.from_stream(result).read_all()


def _same(value: Any) -> Any:
    """A value with one form of what is missing; pandas has NaN for it, and floats in its place."""
    if value is None or value is pd.NA or value != value:
        return None
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else value


class _Texts(HTMLParser):
    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.texts: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


@pytest.mark.parametrize("name", RESULTS)
def test_every_result_has_a_short_text_and_a_table_in_html(results: dict[str, Any], name: str) -> None:
    result = results[name]
    text = repr(result)
    assert text.startswith(f"{type(result).__name__}(")
    assert len(text) < 160
    assert "\n" not in text
    read = _Texts(result._repr_html_())
    assert "table" in read.tags
    assert 1 <= read.tags.count("tr") - 1 <= SHOWN_ROWS + 1
    if name != "report":  # its table has notes of its own
        assert read.texts[0] == text


@pytest.mark.parametrize("name", PLOTTED)
def test_a_figure_is_shown_by_a_notebook_without_pyplot(results: dict[str, Any], name: str) -> None:
    figure = results[name].plot()
    assert figure._repr_png_()[:8] == b"\x89PNG\r\n\x1a\n"


def test_hostile_names_are_harmless_in_html() -> None:
    column = {"head": [0], "relation": [0], "tail": [1], "side": ["tail"], "candidates": [9]}
    ranks = kp.Ranks.from_columns(**column, rank=[2], labels={EVIL: [EVIL]}).with_info(model=EVIL)
    graph = kp.KnowledgeGraph.from_triples(train=[[0, 0, 1]], name=EVIL, entity_labels=[EVIL, "b"])
    finding = kp.Finding((EVIL,), EVIL, EVIL, "error")
    for result in (ranks, graph, kp.Audit([finding]), kp.evaluate(ranks, "MRR", by=EVIL), kp.decide(ranks, 1, 0)):
        assert "script" not in _Texts(result._repr_html_()).tags
        assert "\x1b" not in result._repr_html_()


def test_long_tables_are_cut_and_it_is_said() -> None:
    class Long(Table):
        def to_rows(self) -> list[dict[str, Any]]:
            return [{"x": x} for x in range(1000)]

    html = Long()._repr_html_()
    assert html.count("<tr") == SHOWN_ROWS + 1
    assert "The first 20 of 1,000 rows" in html


def test_rows_with_other_keys_and_types_become_columns() -> None:
    table = arrow_table([{"a": 1, "b": "x"}, {"a": None, "c": 0.5}, {"a": "text", "b": None}])
    assert table.to_pydict() == {"a": ["1", None, "text"], "b": ["x", None, None], "c": [None, 0.5, None]}
    assert arrow_table([{"huge": 10**30}, {"huge": 1}]).to_pydict() == {"huge": [str(10**30), "1"]}
    assert arrow_table([]).num_rows == 0


def test_an_audit_without_findings_has_its_columns(models: dict[str, kp.Ranks]) -> None:
    clean = kp.Audit()
    assert clean == []
    assert repr(clean) == str(clean) == "Audit(no findings)"
    assert list(clean.to_pandas().columns) == ["models", "severity", "kind", "finding", "rows"]
    assert clean.to_polars().schema["rows"] == pl.Int64
    assert "Audit(no findings)" in clean._repr_html_()


@pytest.mark.parametrize("package", ["pandas", "polars"])
def test_a_missing_library_is_named(monkeypatch: pytest.MonkeyPatch, models: dict[str, kp.Ranks], package: str) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(kp.UsageError, match=rf"to_{package}\(\) needs {package}\nRemedy: pip install {package}"):
        getattr(models["random"], f"to_{package}")()


def test_the_triples_of_a_graph_are_those_of_its_splits(graph: kp.KnowledgeGraph) -> None:
    frame = graph.to_pandas()
    for split in graph.splits:
        own = frame[frame["split"] == split]
        head, relation, tail = graph.triples(split).T
        assert own["head"].tolist() == graph.entity_label(head)
        assert own["relation"].tolist() == graph.relation_label(relation)
        assert own["tail"].tolist() == graph.entity_label(tail)
    plain = kp.KnowledgeGraph.from_triples(test=[[5, 0, 1]])
    assert plain.to_arrow().to_pylist() == [{"head": 5, "relation": 0, "tail": 1, "split": "test"}]
    assert kp.KnowledgeGraph.from_triples(num_entities=3).to_arrow().num_rows == 0


def test_a_part_of_a_surface_is_an_array(models: dict[str, kp.Ranks]) -> None:
    surface = kp.surface(models["random"], [1, 0], [0, 0.5, 1])
    assert repr(surface).startswith("Surface(2 alphas x 3 betas")
    for part in (surface[0], surface.mean(), surface.T, surface[:1], surface + 1):
        assert part is not None
    assert repr(surface[0]) == repr(np.asarray(surface[0]))
    assert surface[0]._repr_html_().startswith("<pre>array(")
    with pytest.raises(kp.UsageError, match="a part of a surface"):
        surface[0].to_pandas()
