from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from kgprobe.errors import DataError, UsageError
from kgprobe.graph import KnowledgeGraph
from kgprobe.ranks import Basis, CandidatesInfo, ImportInfo
from kgprobe.ranks.importers.drafts import Draft, ImportOptions
from kgprobe.ranks.importers.final_tables import finish_import, seeds_of
from kgprobe.ranks.schema import entity_rules


def _draft() -> Draft:
    columns = {
        "head": pa.array([0, 9, 2]),
        "relation": pa.array([0, 0, 0]),
        "tail": pa.array([1, 1, 1]),
        "side": pa.array(["head", "tail", None]),
        "rank": pa.array([1.0, None, 3.0]),
        "candidates": pa.array([9, 9, 2]),
    }
    return Draft(Path("x.csv"), rows=3, columns=columns)


def test_what_breaks_the_rules_of_a_rank_table_is_found() -> None:
    assert _draft().all_problems(entity_rules(9)) == [
        "side is missing: 1 row (row 3)",
        "rank is missing: 1 row (row 2)",
        "rank is larger than the number of candidates: 1 row (row 3)",
        "an entity id is outside the graph (0..8): 1 row (row 2)",
    ]


def test_what_could_not_be_read_is_not_also_missing() -> None:
    draft = _draft()
    draft.refuse("rank is odd", np.array([False, True, False]), "rank")
    assert draft.all_problems(()) == [
        "rank is odd: 1 row (row 2)",
        "side is missing: 1 row (row 3)",
        "rank is larger than the number of candidates: 1 row (row 3)",
    ]


def test_nothing_refused_is_nothing_said() -> None:
    draft = _draft()
    draft.refuse("rank is odd", np.zeros(3, dtype=bool), "rank")
    assert (draft.problems, draft.malformed) == ([], set())


def test_a_column_that_needs_something_is_null_and_not_missing() -> None:
    draft = _draft()
    del draft.columns["candidates"]
    draft.require("say how many", "candidates")
    assert draft.table().column("candidates").null_count == 3
    assert not any("candidates" in problem for problem in draft.all_problems(()))
    assert draft.needs == ["say how many"]


def test_a_file_that_could_not_be_read_has_no_other_fault() -> None:
    assert Draft(Path("x.csv"), problems=["it is empty"]).all_problems(()) == ["it is empty"]


def test_labels_are_the_columns_beyond_the_canonical_ones() -> None:
    draft = _draft()
    draft.columns["kind"] = pa.array(["a", "b", "c"])
    assert draft.label_columns == ["kind"]


FROM_FILE = CandidatesInfo(Basis.recorded, counted="as in the file")


def _complete(name: str = "a.csv", **changes: list[Any]) -> Draft:
    columns: dict[str, list[Any]] = {
        "head": [0, 0],
        "relation": [0, 0],
        "tail": [3, 3],
        "side": ["head", "tail"],
        "rank": [1.0, 2.0],
        "candidates": [4, 2],
    }
    arrays = {k: pa.array(v) for k, v in (columns | changes).items()}
    return Draft(Path(name), "csv", rows=2, columns=arrays, candidates=FROM_FILE, popularity="column")


@pytest.mark.parametrize(
    ("names", "seeds"),
    [
        (["m_3.json", "m_1.json"], [3, 1]),
        (["m_1.json", "n_1.json"], [1, 2]),
        (["m_1.json", "m.json"], [1, 2]),
        (["x/m_10.csv.gz", "y/m_2.csv"], [10, 2]),
        (["m1.json", "m2.json"], [1, 2]),
        (["m_" + "9" * 30 + ".json", "m_1.json"], [1, 2]),
    ],
)
def test_seeds_are_the_numbers_that_end_the_names_if_all_differ(names: list[str], seeds: list[int]) -> None:
    assert seeds_of([Path(name) for name in names]) == seeds


def test_one_file_has_a_seed_only_if_it_is_given() -> None:
    assert finish_import([_complete("m_7.csv")], ImportOptions()).seed is None
    seed = finish_import([_complete()], ImportOptions(seed=5)).seed
    assert seed is not None
    assert seed.tolist() == [5, 5]


def test_several_files_are_several_seeds() -> None:
    drafts = [_complete("m_4.csv"), _complete("m_2.csv", rank=[1.5, 1.0])]
    ranks = finish_import(drafts, ImportOptions())
    assert ranks.seed is not None
    assert (ranks.seed.tolist(), ranks.rank.tolist()) == ([4, 4, 2, 2], [1, 2, 1.5, 1])
    assert ranks.info.imported.source == ("m_4.csv", "m_2.csv")


def test_files_with_seeds_of_their_own_keep_them() -> None:
    ranks = finish_import([_complete(seed=[9, 9]), _complete(seed=[8, 8])], ImportOptions())
    assert ranks.seed is not None
    assert ranks.seed.tolist() == [9, 9, 8, 8]
    with pytest.raises(DataError, match="not usable"):
        finish_import([_complete(seed=[9, 9]), _complete(seed=[9, 9])], ImportOptions())


def test_seeds_must_be_in_all_files_or_in_none() -> None:
    with pytest.raises(DataError) as caught:
        finish_import([_complete(seed=[9, 9]), _complete("b.csv")], ImportOptions())
    assert caught.value.problems == ["some files have a seed column, others do not: b.csv"]


def test_a_given_seed_contradicts_a_column_of_seeds() -> None:
    with pytest.raises(UsageError) as caught:
        finish_import([_complete(seed=[9, 9])], ImportOptions(seed=1))
    assert caught.value.problems == ["`seed` is given, but a.csv has a seed column"]


def test_problems_of_all_files_are_said_at_once_by_name() -> None:
    bad, worse = _complete("bad.csv", rank=[0.0, 9.0]), _complete("worse.csv", head=[0, 7])
    worse.problems.append("it is odd")
    worse.needs.append("say more")
    with pytest.raises(DataError) as caught:
        finish_import([_complete("good.csv"), bad, worse], ImportOptions(num_entities=4))
    assert caught.value.problems == [
        "bad.csv: rank is below 1: 1 row (row 1)",
        "bad.csv: rank is larger than the number of candidates: 1 row (row 2)",
        "worse.csv: it is odd",
        "worse.csv: an entity id is outside the graph (0..3): 1 row (row 2)",
        "worse.csv: say more",
    ]


def test_only_needs_are_a_usage_error() -> None:
    draft = _complete()
    draft.needs.append("say more")
    with pytest.raises(UsageError) as caught:
        finish_import([draft], ImportOptions())
    assert caught.value.problems == ["say more"]


def test_a_graph_gives_popularity_its_rules_and_its_name(graph: KnowledgeGraph) -> None:
    draft = _complete()
    draft.filtered = ("train", "test")
    ranks = finish_import([draft], ImportOptions(graph=graph, model="m", split="test"))
    assert ranks.numbers("entity_popularity").tolist() == [2 / 8, 1 / 8]
    assert ranks.numbers("relation_popularity").tolist() == [1.0, 0.0]
    info = ranks.info
    assert (info.model, info.split, info.graph, info.graph_hash) == ("m", "test", "people", graph.content_hash)
    assert (info.filtered, info.filter_hash) == (("train", "test"), None)
    assert info.imported.popularity == "graph"
    with pytest.raises(DataError) as caught:
        finish_import([_complete(relation=[0, 2], candidates=[5, 2])], ImportOptions(graph=graph))
    assert len(caught.value.problems) == 2


def test_a_graph_without_training_triples_gives_no_popularity() -> None:
    bare = KnowledgeGraph.from_triples(test=[[0, 0, 3]], name="bare")
    ranks = finish_import([_complete(entity_popularity=[0.5, 0.5])], ImportOptions(graph=bare))
    assert ranks.numbers("entity_popularity").tolist() == [0.5, 0.5]
    assert ranks.info.imported.popularity == "column"
    assert "bare has no training triples, so it gives no popularity" in ranks.info.imported.notes


def test_what_is_null_is_noted() -> None:
    draft = _complete(ties=[None, 0], entity_popularity=[0.1, 0.2], kind=["a", None])
    draft.notes.append("read in a special way")
    notes = (
        "read in a special way",
        "not recorded: relation_popularity",
        "ties is null in 1 of 2 rows",
        "kind is null in 1 of 2 rows",
    )
    info = finish_import([draft], ImportOptions()).info
    assert info.imported == ImportInfo(("a.csv",), "csv", "column", notes)
    assert info.candidates == FROM_FILE


def test_the_graph_has_its_own_number_of_entities(graph: KnowledgeGraph) -> None:
    assert ImportOptions(graph=graph).size == 4
    assert [ImportOptions(num_entities=n).size for n in (1, 7)] == [1, 7]
    assert ImportOptions().size is None
