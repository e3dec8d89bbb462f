from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import kgprobe as kp
from kgprobe.audit import Finding, check
from kgprobe.audit.auditing import broken_rules, unreadable
from kgprobe.errors import DataError
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
    found = check(files, kp.load_graph(data / f"graphs/{name}") if told else None)
    # With the graph, the counts of pLogicNet say that test answers stayed candidates. Its ranks say that they did not.
    shared = [finding for finding in found if "share rank 1" in finding.message]
    assert [finding.models for finding in shared] == [("pLogicNet",)] * told
    others = [finding for finding in found if finding not in shared]
    assert [(finding.models, finding.kind, finding.severity) for finding in others] == EXPECTED[name]
    assert found[0].message.startswith("Filtered by train only: ") == told


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


def test_a_sample_is_looked_at_where_files_are_large(on_umls, umls) -> None:
    files = {name: silent(ranks) for name, ranks in on_umls.items()}
    files["odd"] = silent(kp.rank("entity-frequency", umls, filter="train"))
    found = check(files, umls, most_rows=6528)
    assert [finding.models for finding in found if finding.unclean] == [("odd",)]
    sample = next(finding for finding in found if finding.kind == "sample")
    assert "the other checks used one in 5 queries" in sample.message
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
    found = check({str(i): table for i, table in enumerate(files)}, graph if told else None)
    assert all(isinstance(finding, Finding) and finding.message for finding in found)
    assert all(set(finding.models) <= set(map(str, range(len(files)))) for finding in found)
    order = ["error", "warning", "note"]
    assert [f.severity for f in found] == sorted((f.severity for f in found), key=order.index)


@settings(max_examples=40)
@given(tables(smallest=1, runs=3))
def test_the_findings_do_not_depend_on_the_order_of_rows(table: kp.Ranks) -> None:
    order = pa.array(np.random.default_rng(0).permutation(len(table)))
    turned = kp.Ranks(table.to_arrow().take(order), table.info, validate=False)
    one, other = (_told(check({"a": rows})) for rows in (table, turned))
    assert one == other


def _told(findings: list[Finding]) -> list[tuple]:
    return [(finding.kind, finding.severity, finding.rows) for finding in findings if finding.kind != "rules"]


def test_empty_tables(nations, on_nations) -> None:
    assert check({}) == []
    for graph in (None, nations):
        for others in ({}, {name: on_nations[name] for name in ("CP", "RESCAL")}):
            found = only({"none": empty(), **others}, graph)
            assert (found.models, found.kind, found.severity, found.rows) == (("none",), "rules", "error", 0)
            assert "The file has no rows" in found.message


def test_a_graph_with_counts_of_train_alone(data: Path, tmp_path: Path) -> None:
    graph = kp.load_graph(data / "graphs/yago3-10")
    ranks = kp.rank("random", graph, filter="valid+test", triples=graph.triples("test")[:40])
    assert unclean({"random": ranks}, graph) == []


def test_a_file_is_as_good_as_a_table(on_nations, nations, tmp_path: Path) -> None:
    files = {**on_nations, "odd": silent(kp.rank("entity-frequency", nations, filter="none"))}
    for name, ranks in files.items():
        ranks.write(tmp_path / f"{name}.parquet")
    opened = {name: kp.RankFile(tmp_path / f"{name}.parquet") for name in files}
    assert check(opened, nations) == check(files, nations)


def test_columns_of_other_types_are_read(on_nations, nations, tmp_path: Path) -> None:
    table = on_nations["CP"].to_arrow()
    narrow = table.set_column(0, "head", table["head"].cast(pa.int32()))
    pq.write_table(narrow, tmp_path / "narrow.parquet")
    assert unclean({"narrow": kp.RankFile(tmp_path / "narrow.parquet")}, nations) == []


def test_files_of_different_graphs_are_told_apart(on_nations, nations) -> None:
    files = {
        name: ranks.with_info(graph_hash="0" * 64) if name == "CP" else ranks for name, ranks in on_nations.items()
    }
    found = only(files)
    assert (found.models, found.kind) == (("CP",), "metadata")
    assert "Recorded graph (content hash): 000000000000; most other files:" in found.message
    assert "not on the given graph nations" in only(files, nations).message


def test_two_files_that_disagree_are_both_named(on_nations) -> None:
    files = {"a": on_nations["CP"].with_info(split="test"), "b": on_nations["RESCAL"].with_info(split="valid")}
    found = only(files)
    assert (found.models, "a: test; b: valid" in found.message) == (("a", "b"), True)


def test_files_that_say_nothing_disagree_with_nobody(on_nations, nations) -> None:
    files = {
        name: ranks.with_info(split=None, graph_hash=None) if name == "CP" else ranks
        for name, ranks in on_nations.items()
    }
    assert unclean(files) == unclean(files, nations) == []


def test_different_candidates_are_named(nations, on_nations) -> None:
    files = dict(on_nations)
    files["typed"] = kp.rank("entity-frequency", nations, candidates="train")
    found = [finding for finding in unclean(files, nations) if finding.kind == "metadata"]
    assert [finding.models for finding in found] == [("typed",)]
    assert "Recorded candidates: train; most other files: all entities" in found[0].message


def test_a_filter_that_can_be_counted_is_reported_once(umls, on_umls) -> None:
    files = dict(on_umls) | {"odd": kp.rank("entity-frequency", umls, filter="train")}
    found = only(files, umls)
    assert (found.models, found.kind) == (("odd",), "candidates")


def test_a_filter_that_cannot_be_counted_is_compared_as_it_is_said(umls, on_umls) -> None:
    files = dict(on_umls) | {"odd": kp.rank("entity-frequency", umls, filter="train")}
    kinds = {finding.kind for finding in unclean(files) if finding.models == ("odd",)}
    assert kinds == {"metadata", "candidates"}


def test_a_sound_table_breaks_no_rule(on_nations, nations) -> None:
    assert broken_rules("CP", on_nations["CP"], nations) == []


BROKEN = {
    "ranks start at 1, not at 0": {"rank": np.arange(402) % 2, "ties": None},
    "rank is larger than the number of candidates": {"rank": np.full(402, 99.0), "ties": None},
    "the rank must be the mean rank of the tie group": {"rank": np.ones(402), "ties": np.full(402, 2)},
    "a share of that degree": {"relation_popularity": np.full(402, 7.0)},
    "a relation id is outside the graph (0..54): 402 rows": {"relation": np.full(402, 55)},
}


@pytest.mark.parametrize("name", BROKEN)
def test_what_is_broken_is_named_with_a_likely_cause(on_nations, nations, name: str) -> None:
    found = broken_rules("CP", planted(on_nations["CP"], **BROKEN[name]), nations)
    assert {(finding.models, finding.kind, finding.severity) for finding in found} == {(("CP",), "rules", "error")}
    assert any(name in finding.message for finding in found), [finding.message for finding in found]


def test_a_file_that_cannot_be_read_says_why() -> None:
    found = unreadable("mine", DataError("mine: damaged", ["its end is missing", "it is old"]))
    assert [finding.message for finding in found] == ["its end is missing", "it is old"]
    assert [finding.message for finding in unreadable("mine", DataError("mine: no such file"))] == [
        "mine: no such file"
    ]
