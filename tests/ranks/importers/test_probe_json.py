import gzip
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kgprobe.errors import DataError, UsageError
from kgprobe.graph import KnowledgeGraph, load_graph
from kgprobe.ranks import Basis, CandidatesInfo, ImportInfo, read_ranks
from kgprobe.ranks.importers import import_ranks, probe_json
from kgprobe.ranks.importers.drafts import Draft
from kgprobe.ranks.importers.probe_json import read_entries

GOOD: list[Any] = [[0, 1, 2], "h", 1.5, 0.5, 0.25, 3]


def _read(*entries: Any) -> tuple[dict[str, list[Any]], list[str]]:
    draft = Draft(Path("x.json"))
    found = read_entries(list(entries), draft)
    return {name: column.to_pylist() for name, column in found.items()}, draft.problems


def _with(position: int, value: Any) -> list[Any]:
    return [*GOOD[:position], value, *GOOD[position + 1 :]]


EXPECTED: dict[str, list[Any]] = {
    "head": [0],
    "relation": [1],
    "tail": [2],
    "side": ["head"],
    "rank": [1.5],
    "relation_popularity": [0.5],
    "entity_popularity": [0.25],
    "filtered": [3],
}


def test_fields_become_columns() -> None:
    assert _read(GOOD) == (EXPECTED, [])
    assert _read(GOOD, _with(1, "t"))[0]["side"] == ["head", "tail"]


def test_good_entries_are_not_looked_at_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probe_json, "_cast_each", None)
    assert _read(GOOD, _with(2, 7), _with(3, 0), _with(4, 1))[1] == []


def test_the_slow_way_reads_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    def only_one(values: Sequence[Any], kind: pa.DataType) -> pa.Array:
        if len(values) > 1:
            raise pa.ArrowInvalid("one at a time")
        return cast(values, kind)

    cast = probe_json._cast
    monkeypatch.setattr(probe_json, "_cast", only_one)
    assert _read(GOOD, GOOD) == ({name: values * 2 for name, values in EXPECTED.items()}, [])


def test_whole_numbers_may_be_written_as_floats() -> None:
    assert _read(_with(0, [0.0, 1, 2.0]), _with(5, 3.0)) == ({k: v * 2 for k, v in EXPECTED.items()}, [])


@pytest.mark.parametrize(
    ("entry", "said"),
    [
        (GOOD[:5], "the entry is not a list of 6 fields"),
        ([*GOOD, 0], "the entry is not a list of 6 fields"),
        ({"head": 0}, "the entry is not a list of 6 fields"),
        ("abcdef", "the entry is not a list of 6 fields"),
        (None, "the entry is not a list of 6 fields"),
        (_with(0, [0, 1]), "the triple is not [head, relation, tail] in whole numbers"),
        (_with(0, [0, 1, "2"]), "the triple is not [head, relation, tail] in whole numbers"),
        (_with(0, [0, 1, True]), "the triple is not [head, relation, tail] in whole numbers"),
        (_with(0, [0, 1, 2.5]), "the triple is not [head, relation, tail] in whole numbers"),
        (_with(0, [0, 1, 2**63]), "the triple is not [head, relation, tail] in whole numbers"),
        (_with(0, "012"), "the triple is not [head, relation, tail] in whole numbers"),
        (_with(1, "head"), 'the side is neither "h" nor "t"'),
        (_with(1, 1), 'the side is neither "h" nor "t"'),
        (_with(1, ["h"]), 'the side is neither "h" nor "t"'),
        (_with(2, "1"), "the rank is not a finite number"),
        (_with(2, None), "the rank is not a finite number"),
        (_with(2, 10**400), "the rank is not a finite number"),
        (_with(3, "x"), "delta(r|e) is not a finite number"),
        (_with(3, float("nan")), "delta(r|e) is not a finite number"),
        (_with(2, float("inf")), "the rank is not a finite number"),
        (_with(2, True), "the rank is not a finite number"),
        (_with(3, 1.5), "delta(r|e) is not between 0 and 1"),
        (_with(4, None), "delta(e) is not a finite number"),
        (_with(4, -0.1), "delta(e) is not between 0 and 1"),
        (_with(5, 1.5), "the number of filtered entities is not a whole number"),
        (_with(5, float("inf")), "the number of filtered entities is not a whole number"),
        (_with(5, "3"), "the number of filtered entities is not a whole number"),
    ],
)
def test_what_is_wrong_with_an_entry_is_said_with_its_number(entry: Any, said: str) -> None:
    found, problems = _read(GOOD, entry, GOOD)
    assert problems == [f"{said}: 1 row (row 2)"]
    for values in found.values():
        assert len(values) == 3
        assert values[0] == values[2] is not None


def test_all_kinds_of_problems_are_said_at_once() -> None:
    entries = [_with(1, "x"), _with(2, "x"), [], _with(0, None), _with(1, None), _with(4, 2), _with(5, None)]
    assert _read(*entries)[1] == [
        "the entry is not a list of 6 fields: 1 row (row 3)",
        "the triple is not [head, relation, tail] in whole numbers: 1 row (row 4)",
        'the side is neither "h" nor "t": 2 rows (rows 1, 5)',
        "the rank is not a finite number: 1 row (row 2)",
        "the number of filtered entities is not a whole number: 1 row (row 7)",
        "delta(e) is not between 0 and 1: 1 row (row 6)",
    ]


HEAD_SIDE: list[Any] = [[0, 0, 3], "h", 2.0, 0.5, 0.25, 1]

TAIL_SIDE: list[Any] = [[0, 0, 3], "t", 1.0, 0.125, 0.75, 2]


def _write(path: Path, *entries: Any) -> Path:
    path.write_text(json.dumps(entries))
    return path


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "RotatE_people_1.json"


def test_the_published_file_is_the_first_seed_of_the_published_table(data: Path) -> None:
    graph = load_graph(data / "graphs" / "umls")
    ranks = import_ranks(data / "published_ranks" / "raw" / "RotatE_umls_1.json", num_entities=graph.num_entities)
    published = read_ranks(data / "published_ranks" / "umls" / "RotatE.parquet")
    assert published.seed is not None
    first = published.filter(published.seed == 1)
    expected, found = (
        {
            (h, r, t, side): (rank, candidates)
            for h, r, t, side, rank, candidates in zip(
                *(table.column(c).to_pylist() for c in ("head", "relation", "tail", "side", "rank", "candidates")),
                strict=True,
            )
        }
        for table in (first, ranks)
    )
    assert found == expected
    assert len(found) == len(ranks) == 2 * 3264


def test_the_published_popularity_is_that_of_the_targets_in_the_graph(data: Path) -> None:
    graph = load_graph(data / "graphs" / "umls")
    ranks = import_ranks(data / "published_ranks" / "raw" / "RotatE_umls_1.json", num_entities=135)
    entity, relation = (ranks.numbers(name) for name in ("entity_popularity", "relation_popularity"))
    np.testing.assert_allclose(entity, graph.popularity.entity(ranks.target), rtol=1e-14)
    np.testing.assert_allclose(relation, graph.popularity.relation(ranks.relation, ranks.target), rtol=1e-14)


def test_the_popularity_of_a_target_stands_at_the_other_side(path: Path) -> None:
    ranks = import_ranks(_write(path, HEAD_SIDE, TAIL_SIDE), num_entities=9, model="RotatE", split="test")
    assert ranks.numbers("entity_popularity").tolist() == [0.75, 0.25]
    assert ranks.numbers("relation_popularity").tolist() == [0.125, 0.5]
    assert ranks.candidates.tolist() == [8, 7]
    assert (ranks.info.model, ranks.info.split, ranks.info.graph) == ("RotatE", "test", None)
    notes = ("not recorded: ties",)
    assert ranks.info.imported == ImportInfo(("RotatE_people_1.json",), "probe-json", "entry of the other side", notes)
    assert ranks.info.candidates == CandidatesInfo(Basis.recorded, counted="entities minus filtered")


QUERIES = st.lists(
    st.tuples(st.integers(0, 3), st.integers(0, 2), st.integers(0, 3), st.sampled_from("ht")), unique=True, min_size=1
)


@given(QUERIES)
def test_partners_are_those_that_a_dictionary_finds(
    tmp_path_factory: pytest.TempPathFactory, queries: list[tuple[int, int, int, str]]
) -> None:
    own = {query: ((i + 1) / 200, (i + 1) / 100) for i, query in enumerate(queries)}
    entries = [[[h, r, t], side, 1.0, *own[h, r, t, side], 0] for h, r, t, side in queries]
    path = _write(tmp_path_factory.getbasetemp() / "drawn.json", *entries)
    ranks = import_ranks(path, num_entities=4)
    partners = [own.get((h, r, t, "t" if side == "h" else "h"), (None, None)) for h, r, t, side in queries]
    assert ranks.column("relation_popularity").to_pylist() == [relation for relation, _ in partners]
    assert ranks.column("entity_popularity").to_pylist() == [entity for _, entity in partners]
    notes = [note for note in ranks.info.imported.notes if "other side" in note]
    absent = partners.count((None, None))
    assert notes == (
        [
            f"{absent} of {len(queries)} entries have none for the other side of their triple, "
            "so the popularity of their targets is null; a graph would give it"
        ]
        if absent
        else []
    )


def test_a_graph_gives_popularity_in_place_of_the_file(path: Path, graph: KnowledgeGraph) -> None:
    ranks = import_ranks(_write(path, HEAD_SIDE), graph=graph)
    assert ranks.candidates.tolist() == [3]
    assert ranks.numbers("entity_popularity").tolist() == [0.25]
    assert ranks.info.imported.popularity == "graph"
    assert ranks.info.graph_hash == graph.content_hash
    assert ranks.info.imported.notes == ("not recorded: ties",)


def test_several_files_are_several_seeds(tmp_path: Path) -> None:
    paths = [_write(tmp_path / f"m_{seed}.json", HEAD_SIDE, TAIL_SIDE) for seed in (3, 2)]
    seed = import_ranks(paths, num_entities=9).seed
    assert seed is not None
    assert seed.tolist() == [3, 3, 2, 2]


def test_compressed_files_are_read(tmp_path: Path) -> None:
    with gzip.open(tmp_path / "m.json.gz", "wt") as file:
        json.dump([HEAD_SIDE], file)
    assert len(import_ranks(tmp_path / "m.json.gz", num_entities=9)) == 1


def test_the_number_of_entities_is_needed(path: Path) -> None:
    with pytest.raises(UsageError, match="needs `graph` or `num_entities`"):
        import_ranks(_write(path, HEAD_SIDE))


def test_a_query_that_occurs_twice_is_reported(path: Path) -> None:
    with pytest.raises(DataError) as caught:
        import_ranks(_write(path, HEAD_SIDE, TAIL_SIDE, HEAD_SIDE), num_entities=9)
    assert caught.value.problems == ["the same query (and seed) occurs again: 1 row (row 3)"]


def test_structure_and_values_of_all_files_are_judged_at_once(tmp_path: Path) -> None:
    one = _write(tmp_path / "one.json", HEAD_SIDE, [1], ["x", *TAIL_SIDE[1:]], [*TAIL_SIDE[:2], 0.5, 0.1, 0.1, 9])
    two = _write(tmp_path / "two.json", [*HEAD_SIDE[:2], float("nan"), 0.1, 0.1, 0], [[0, 0, 9], "t", 1, 0.1, 0.1, -1])
    with pytest.raises(DataError) as caught:
        import_ranks([one, two], num_entities=9)
    assert caught.value.problems == [
        "one.json: the entry is not a list of 6 fields: 1 row (row 2)",
        "one.json: the triple is not [head, relation, tail] in whole numbers: 1 row (row 3)",
        "one.json: rank is below 1: 1 row (row 4)",
        "one.json: rank is larger than the number of candidates: 1 row (row 4)",
        "one.json: fewer than 1 candidate: 1 row (row 4)",
        "two.json: the rank is not a finite number: 1 row (row 1)",
        "two.json: an entity id is outside the graph (0..8): 1 row (row 2)",
        "two.json: more candidates than the graph has entities (9): 1 row (row 2)",
    ]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"[[1,\n 2,]", "line 2, column 4: this is not JSON"),
        (b"[[1, 2]", "line 1, column 8: this is not JSON"),
        (b"head,relation", "line 1, column 1: this is not JSON"),
        (b'{"ranks": []}', "it holds JSON of type dict, expected a list of entries"),
        (b"[]", "it holds an empty list, expected a list of entries"),
        (b"3", "it holds JSON of type int, expected a list of entries"),
        (b"[\xff]", "cannot be read ('utf-8' codec can't decode"),
        (b"PAR1", "it is a Parquet file, expected JSON"),
        (b"[" * 200_000, "cannot be read"),
        (b"[" + b"9" * 5000 + b"]", "cannot be read"),
    ],
)
def test_what_is_not_json_is_named_with_its_place(path: Path, content: bytes, said: str) -> None:
    path.write_bytes(content)
    with pytest.raises(DataError) as caught:
        import_ranks(path, "probe-json", num_entities=9)
    assert str(caught.value).startswith(f"{path}: cannot be imported")
    assert said in caught.value.problems[0]
