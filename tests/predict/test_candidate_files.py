import json
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import kgprobe as kp
from kgprobe.errors import DataError
from kgprobe.graph import KnowledgeGraph, load_graph
from kgprobe.predict.candidate_files import is_type_file, read_pairs, read_types
from kgprobe.predict.queries import RankedTriples
from kgprobe.predict.tasks import open_candidates
from kgprobe.ranks import Basis


def _brute_force(graph: KnowledgeGraph, types: dict[str, list[Any]]) -> dict[tuple[str, int], list[int]]:
    own = [set(types.get(label, ())) for label in graph.entity_label(range(graph.num_entities))]
    found = {}
    for side, place in (("head", 0), ("tail", 2)):
        for relation in range(graph.num_relations):
            seen = {int(row[place]) for row in graph.triples("train") if row[1] == relation}
            wanted = set().union(*(own[entity] for entity in seen))
            found[side, relation] = [e for e, kinds in enumerate(own) if e in seen or not kinds or kinds & wanted]
    return found


def _sets(graph: KnowledgeGraph, path: Path) -> dict[tuple[str, int], list[int]]:
    with warnings.catch_warnings(action="ignore"):
        sets = open_candidates(path, graph, RankedTriples.build(graph, "train"))
    return {
        (side, relation): sets.ids(side, relation).tolist()  # type: ignore[union-attr, arg-type]
        for side in ("head", "tail")
        for relation in range(graph.num_relations)
    }


@settings(max_examples=40, deadline=None)
@given(draws=st.data())
def test_types_against_sets(draws: st.DataObject, tmp_path_factory: pytest.TempPathFactory) -> None:
    numbers = st.integers(0, 6)
    rows = draws.draw(st.lists(st.tuples(numbers, st.integers(0, 2), numbers), min_size=1, max_size=12))
    graph = KnowledgeGraph.from_triples(
        train=np.array(rows), entity_labels=[f"é{i}" for i in range(7)], relation_labels=["r", "s", "t"]
    )
    kinds = st.lists(st.sampled_from("abcd"), max_size=3)
    types = {f"é{i}": draws.draw(kinds) for i in draws.draw(st.sets(st.integers(0, 9), min_size=1))}
    folder = tmp_path_factory.mktemp("types")
    listed = {label: some for label, some in types.items() if some and int(label[1:]) < 7}
    if not listed:
        return
    (folder / "entity2types.json").write_text(json.dumps(types))
    lines = "".join("\t".join((label, *some)) + "\n" for label, some in types.items() if some)
    (folder / "entity_types.tsv").write_text(lines, encoding="utf-8")
    expected = _brute_force(graph, types)
    assert _sets(graph, folder / "entity2types.json") == expected
    assert _sets(graph, folder / "entity_types.tsv") == expected


def test_types_of_codex(data: Path, tmp_path: Path) -> None:
    graph, path = load_graph(data / "graphs" / "codex-s"), data / "names" / "codex-s" / "entity2types.json"
    types = json.loads(path.read_text(encoding="utf-8"))
    expected = _brute_force(graph, types)
    assert _sets(graph, path) == expected
    one_a_line = "".join(f"{label}\t{kind}\n" for label, kinds in types.items() for kind in kinds)
    (tmp_path / "types.txt").write_text(one_a_line, encoding="utf-8")
    assert _sets(graph, tmp_path / "types.txt") == expected
    whole = kp.rank("relation-frequency", graph)
    ranks = kp.rank("relation-frequency", graph, candidates=path)
    assert ranks.info.candidates.basis is Basis.given
    assert (ranks.info.candidates.name, len(ranks.info.candidates.hash or "")) == ("entity2types.json", 64)
    assert (ranks.candidates <= whole.candidates).all()
    assert ranks.candidates.mean() < 0.7 * whole.candidates.mean()
    known = graph.known_answers()
    for row in range(0, len(ranks), 97):
        side, h, r, t = (ranks.column(name)[row].as_py() for name in ("side", "head", "relation", "tail"))
        target, groups, asked = (t, known.tails, h) if side == "tail" else (h, known.heads, t)
        key = asked * graph.num_relations + r
        others = [e for e in expected[side, r] if not groups.contains(np.array([key]), np.array([e]))[0]]
        assert ranks.candidates[row] == len({*others, target})


GRAPH = KnowledgeGraph.from_labels(train=[("Ada", "knows", "Bob"), ("Bob", "in", "Rome")], test=[("Cy", "in", "Rome")])


def test_entities_without_types_are_said(tmp_path: Path) -> None:
    path = tmp_path / "entity2types.json"
    path.write_text(json.dumps({"Ada": ["person"], "Bob": "person", "Nobody": ["person"], "Cy": []}))
    problems: list[str] = []
    with pytest.warns(UserWarning, match="have no type") as said:
        pairs = read_types(path, GRAPH, problems)
    assert [str(warning.message) for warning in said] == [
        "entity2types.json: 2 of 4 entities have no type (1 that it lists are not of graph): "
        "they are candidates of every relation"
    ]
    assert pairs is not None
    relation, entity = pairs["head"]
    assert sorted(set(zip(relation.tolist(), entity.tolist(), strict=True))) == [
        (r, e) for r in (0, 1) for e in range(4)
    ]


WRONG = {
    "not JSON": ("entity2types.json", "{", ["entity2types.json: not readable as JSON"]),
    "a list": ("entity2types.json", "[]", ["not an object of entities"]),
    "no lists": (
        "entity2types.json",
        '{"Ada": 1, "Bob": [[]], "Cy": ["x"]}',
        ["2 entities do not have a list of types"],
    ),
    "others": ("entity2types.json", '{"x": ["y"]}', ["none of its 1 entities is an entity of graph"]),
    "one field": (
        "entity2types.tsv",
        "Ada\tperson\nBob\nCy\t\tx\n",
        ["tsv, line 2: expected", "tsv, line 3: expected"],
    ),
    "empty": ("entity_types.txt", "", ["entity_types.txt: empty"]),
    "Parquet": ("entity2types.tsv", "PAR1", ["is a Parquet file"]),
}


@pytest.mark.parametrize(("name", "content", "expected"), WRONG.values(), ids=WRONG)
def test_what_are_no_types(tmp_path: Path, name: str, content: str, expected: list[str]) -> None:
    (tmp_path / name).write_text(content)
    with pytest.raises(DataError) as caught:
        kp.rank("random", GRAPH, candidates=tmp_path / name)
    assert all(part in str(caught.value) for part in expected), str(caught.value)
    assert "entity2types.json" in caught.value.remedy


def test_types_need_training_triples(tmp_path: Path) -> None:
    (tmp_path / "entity2types.json").write_text('{"Ada": ["x"]}')
    graph = KnowledgeGraph.from_labels(test=[("Ada", "knows", "Bob")])
    with pytest.raises(DataError, match="no training triples"):
        kp.rank("random", graph, candidates=tmp_path / "entity2types.json")


@pytest.mark.parametrize(
    ("name", "content", "expected"),
    [
        ("entity2types.json", "", True),
        ("entity2type.txt.gz", "", True),
        ("entity_types.tsv", "", True),
        ("Entity2Types.tsv", "", True),
        ("types.json", "", True),
        ("types.tsv", "Ada\tperson\n", True),
        ("types.tsv", "knows\thead\tAda\n", False),
        ("type_constrain.txt", "", False),
    ],
)
def test_how_types_are_recognised(tmp_path: Path, name: str, content: str, expected: bool) -> None:
    (tmp_path / name).write_text(content)
    assert is_type_file(tmp_path / name) is expected


def test_sides_by_other_names(tmp_path: Path) -> None:
    path = tmp_path / "types.tsv"
    path.write_text("knows\tsubject\tAda\nknows\tobject\tBob\nin\ttail\tRome\n")
    pairs = read_pairs(path, GRAPH, [])
    assert pairs is not None
    named = {side: GRAPH.entity_label(entity) for side, (_, entity) in pairs.items()}
    assert named == {"head": ["Ada"], "tail": ["Bob", "Rome"]}


def test_the_command_says_what_is_assumed(tmp_path: Path) -> None:
    GRAPH.write(tmp_path / "g")
    (tmp_path / "entity2types.json").write_text(json.dumps({"Ada": ["person"]}))
    words = [
        "rank",
        "random",
        "--graph",
        "g",
        "--candidates",
        "entity2types.json",
        "--side",
        "object",
        "-o",
        "r.parquet",
    ]
    done = subprocess.run(
        [sys.executable, "-m", "kgprobe", *words], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "3 of 4 entities have no type" in done.stderr
    ranks = kp.read_ranks(tmp_path / "r.parquet")
    assert ranks.column("side").to_pylist() == ["tail"]
    assert ranks.info.candidates.name == "entity2types.json"
