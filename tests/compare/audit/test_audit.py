from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import kgprobe as kp
from kgprobe.compare.audit import Finding, audit, audit_files
from kgprobe.compare.audit.view import prepare
from planting import honest, only, planted, silent, unclean
from support import tables


@pytest.mark.parametrize("graph", ["umls", "codex", "nations"])
@pytest.mark.parametrize("told", [True, False], ids=["with graph", "without graph"])
def test_honest_models_are_clean(request, graph: str, told: bool) -> None:
    files, knowledge = request.getfixturevalue(f"on_{graph}"), request.getfixturevalue(graph)
    baselines = {name: kp.rank(name, knowledge) for name in ("random", "entity-frequency")}
    assert unclean({**files, **baselines}, knowledge if told else None) == []
    assert unclean({name: silent(ranks) for name, ranks in files.items()}, knowledge if told else None) == []


@pytest.mark.parametrize("name", ["kinship", "family", "countries_s1", "umls_standard"])
def test_honest_models_are_clean_on_other_graphs(data: Path, name: str) -> None:
    graph = kp.load_graph(data / f"graphs/{name}")
    assert unclean(honest(graph), graph) == []


EXPECTED = {
    "wn18rr": [
        (("pLogicNet",), "candidates", "error"),
        (("pLogicNet",), "implausible", "warning"),
        (("TuckER",), "ties", "warning"),
        (("RNNLogic",), "ties", "note"),
    ],
    "umls": [
        (("pLogicNet",), "candidates", "error"),
        (("pLogicNet",), "implausible", "warning"),
        (("ComplEx",), "implausible", "warning"),
        (("pLogicNet",), "ties", "note"),
    ],
}


@pytest.mark.parametrize("name", EXPECTED)
@pytest.mark.parametrize("told", [True, False], ids=["with graph", "without graph"])
def test_the_published_ranks(data: Path, name: str, told: bool) -> None:
    files = {path.stem: kp.RankFile(path) for path in sorted((data / f"published_ranks/{name}").glob("*.parquet"))}
    found = audit_files(files, kp.load_graph(data / f"graphs/{name}") if told else None)
    assert [(finding.models, finding.kind, finding.severity) for finding in found] == EXPECTED[name]
    assert found[0].message.startswith("filtered by train only: ") == told


def test_a_broken_file_does_not_stop_the_others(on_nations, nations, tmp_path: Path) -> None:
    path = tmp_path / "cut.parquet"
    on_nations["CP"].write(path)
    cut = kp.RankFile(path)
    path.write_bytes(path.read_bytes()[:4] + bytes(2000) + path.read_bytes()[2004:])
    files: dict[str, Any] = {
        "cut": cut,
        "low": planted(on_nations["CP"], rank=np.zeros(402), ties=None),
        "odd": silent(kp.rank("entity-frequency", nations, filter="none")),
        "RESCAL": silent(on_nations["RESCAL"]),
    }
    found = {(finding.models, finding.kind) for finding in unclean(files, nations)}
    assert found == {(("cut",), "unreadable"), (("low",), "rules"), (("odd",), "candidates")}


def test_a_sample_is_looked_at_where_files_are_large(on_umls, umls, monkeypatch: pytest.MonkeyPatch) -> None:
    files = {name: silent(ranks) for name, ranks in on_umls.items()}
    files["odd"] = silent(kp.rank("entity-frequency", umls, filter="train"))
    monkeypatch.setattr(audit, "prepare", partial(prepare, most_rows=6528))
    found = audit_files(files, umls)
    assert [finding.models for finding in found if finding.unclean] == [("odd",)]
    sample = next(finding for finding in found if finding.kind == "sample")
    assert "one in 5 queries was looked at" in sample.message
    assert sample.rows == pytest.approx(6528, rel=0.1)


def empty(**columns: Any) -> kp.Ranks:
    names = ("head", "relation", "tail", "side", "rank", "candidates")
    return kp.Ranks.from_columns(**({name: [] for name in names} | columns))


@settings(max_examples=40)
@given(st.lists(tables(smallest=1), min_size=1, max_size=4), st.booleans())
def test_odd_tables_give_findings_and_no_traceback(files: list[kp.Ranks], told: bool) -> None:
    graph = kp.KnowledgeGraph.from_triples(
        train=[[0, 0, 1], [1, 1, 2]], valid=[[3, 0, 1]], test=[[0, 0, 2], [5, 2, 0]], num_entities=45, num_relations=3
    )
    found = audit_files({str(i): table for i, table in enumerate(files)}, graph if told else None)
    assert all(isinstance(finding, Finding) and finding.message for finding in found)
    assert all(set(finding.models) <= set(map(str, range(len(files)))) for finding in found)
    order = ["error", "warning", "note"]
    assert [f.severity for f in found] == sorted((f.severity for f in found), key=order.index)


@settings(max_examples=40)
@given(tables(smallest=1, runs=3))
def test_the_findings_do_not_depend_on_the_order_of_rows(table: kp.Ranks) -> None:
    order = pa.array(np.random.default_rng(0).permutation(len(table)))
    turned = kp.Ranks(table.to_arrow().take(order), table.info, validate=False)
    one, other = (_told(audit_files({"a": rows})) for rows in (table, turned))
    assert one == other


def _told(findings: list[Finding]) -> list[tuple]:
    return [(finding.kind, finding.severity, finding.rows) for finding in findings if finding.kind != "rules"]


def test_empty_tables(nations, on_nations) -> None:
    assert audit_files({}) == []
    for graph in (None, nations):
        for others in ({}, {name: on_nations[name] for name in ("CP", "RESCAL")}):
            found = only({"none": empty(), **others}, graph)
            assert (found.models, found.kind, found.severity, found.rows) == (("none",), "rules", "error", 0)
            assert "the file has no rows" in found.message


def test_a_graph_with_counts_of_train_alone(data: Path, tmp_path: Path) -> None:
    graph = kp.load_graph(data / "graphs/yago3-10")
    ranks = kp.rank("random", graph, filter="valid+test", triples=graph.triples("test")[:40])
    assert unclean({"random": ranks}, graph) == []


def test_a_file_is_as_good_as_a_table(on_nations, nations, tmp_path: Path) -> None:
    files = {**on_nations, "odd": silent(kp.rank("entity-frequency", nations, filter="none"))}
    for name, ranks in files.items():
        ranks.write(tmp_path / f"{name}.parquet")
    opened = {name: kp.RankFile(tmp_path / f"{name}.parquet") for name in files}
    assert audit_files(opened, nations) == audit_files(files, nations)


def test_columns_of_other_types_are_read(on_nations, nations, tmp_path: Path) -> None:
    table = on_nations["CP"].to_arrow()
    narrow = table.set_column(0, "head", table["head"].cast(pa.int32()))
    pq.write_table(narrow, tmp_path / "narrow.parquet")
    assert unclean({"narrow": kp.RankFile(tmp_path / "narrow.parquet")}, nations) == []
