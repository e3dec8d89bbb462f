import numpy as np
import pytest

import kgprobe as kp
from kgprobe.compare import Lineup, line_up
from kgprobe.report.page.queries import has_popularity, query_content
from pages import lined_up, made_up
from support import with_columns


def _restored(lineup: Lineup, name: str, table: str) -> list[list[float]]:
    content = query_content(lineup, None, weighted=True)
    values = content.arrays[table]
    return [values[content.arrays[f"{name}{run[name]}"]].tolist() for run in content.header["runs"]]


def _runs(lineup: Lineup) -> list[kp.Ranks]:
    return [run for own in lineup.runs.values() for run in own]


def test_every_rank_candidate_count_and_popularity_comes_back_exactly() -> None:
    lineup = lined_up(seeds=(2, 1), other_candidates=True)
    assert _restored(lineup, "rank", "ranks") == [run.rank.tolist() for run in _runs(lineup)]
    assert _restored(lineup, "candidates", "candidates") == [run.candidates.tolist() for run in _runs(lineup)]
    for table, column in (("entityPopularity", "entity_popularity"), ("relationPopularity", "relation_popularity")):
        assert _restored(lineup, "popularity", table) == [run.numbers(column).tolist() for run in _runs(lineup)]


def test_triples_and_sides_come_back() -> None:
    lineup = lined_up(rows=41)
    arrays = query_content(lineup, None, weighted=False).arrays
    first, triple = lineup.first, arrays["triple"]
    assert arrays["entities"][arrays["head"][triple]].tolist() == first.head.tolist()
    assert arrays["relations"][arrays["relation"][triple]].tolist() == first.relation.tolist()
    assert arrays["entities"][arrays["tail"][triple]].tolist() == first.tail.tolist()
    assert arrays["tailSide"].astype(bool).tolist() == first.predicts_tail.tolist()
    assert len(arrays["head"]) == len(set(zip(first.head, first.relation, first.tail, strict=True)))


def test_what_runs_share_is_kept_once() -> None:
    alike = query_content(lined_up(seeds=(3,)), None, weighted=True)
    assert {name for name in alike.arrays if name.startswith(("candidates", "popularity"))} == {
        "candidates",
        "candidates0",
        "popularity0",
    }
    other = query_content(lined_up(other_candidates=True), None, weighted=True)
    assert [run["candidates"] for run in other.header["runs"]] == [0, 0, 1]


def test_names_are_those_of_the_graph_and_ids_stand_where_it_has_none() -> None:
    graph = kp.KnowledgeGraph.from_triples(
        train=[[0, 0, 1], [2, 1, 0]], entity_labels=["Ada", None, "</script>", " "], name="tiny"
    )
    ranks = kp.Ranks.from_columns(
        head=[2, 3], relation=[1, 1], tail=[1, 1], side=["head", "tail"], rank=[1, 1], candidates=[3, 3]
    )
    content = query_content(line_up({"mine": ranks}), graph, weighted=False)
    assert content.header["entities"] == ["1", "</script>", "3"]
    assert "entities" not in content.arrays
    assert content.arrays["relations"].tolist() == [1]


def test_bands_of_popularity_are_those_of_eval() -> None:
    lineup = lined_up(rows=200)
    content = query_content(lineup, None, weighted=True)
    ours = [content.header["bands"][band] for band in content.arrays["band"][content.arrays["popularity0"]]]
    found = kp.scores(lineup.first, ["MRR"], by=["popularity:5"])
    assert {label: ours.count(label) for label in set(ours)} == {
        score.group["popularity"]: score.queries for score in found
    }


@pytest.mark.parametrize("lacking", ["entity_popularity", "relation_popularity"])
@pytest.mark.parametrize("value", [np.nan, 0.0], ids=["not recorded", "all 0"])
def test_popularity_counts_only_where_every_evaluated_query_of_every_run_can_be_weighed(
    lacking: str, value: float
) -> None:
    tables = made_up()
    assert has_popularity(line_up(tables))
    column = tables["model 2"].numbers(lacking).copy()
    column[0 if np.isnan(value) else slice(None)] = value
    tables["model 2"] = with_columns(tables["model 2"], **{lacking: column})
    assert not has_popularity(line_up(tables))


def test_a_query_with_a_single_candidate_needs_no_popularity() -> None:
    tables = made_up(single=5)
    for name, table in tables.items():
        column = table.numbers("entity_popularity").copy()
        column[table.candidates == 1] = np.nan
        tables[name] = with_columns(table, entity_popularity=column)
    assert has_popularity(line_up(tables))
    assert "bands" in query_content(line_up(tables), None, weighted=True).header
