import numpy as np
import pyarrow as pa
import pytest

import kgprobe as kp
from kgprobe.comparison import Lineup, line_up
from kgprobe.report.page.page_queries import draw_sample, has_popularity, query_content
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


def test_triples_are_drawn_whole_and_at_random() -> None:
    lineup = lined_up(rows=400)
    sample = draw_sample(lineup, 100)
    codes = lineup.clusters("triple").codes
    assert len(sample.random) == 100
    assert sorted(codes[sample.random].tolist()) == sorted(np.repeat(np.unique(codes[sample.random]), 2).tolist())
    assert sample.random.tolist() == sorted(sample.random.tolist())
    assert draw_sample(lineup, 100, seed=1).random.tolist() != sample.random.tolist()
    assert draw_sample(lineup, 100).rows.tolist() == sample.rows.tolist()


def test_every_triple_is_as_likely_as_any_other() -> None:
    lineup = lined_up(rows=40)
    drawn = np.zeros(40)
    for seed in range(400):
        drawn[draw_sample(lineup, 10, seed).random] += 1
    assert drawn / 400 == pytest.approx(np.full(40, 0.25), abs=0.09)


def test_the_others_are_those_on_which_the_models_differ_most() -> None:
    tables = made_up(rows=400, models=2)
    candidates = tables["model 0"].candidates
    tables["model 1"] = with_columns(tables["model 0"], rank=np.where(np.arange(400) % 40 == 0, candidates, 1.0))
    tables["model 0"] = with_columns(tables["model 0"], rank=np.ones(400))
    sample = draw_sample(line_up(tables), 50)
    unusual = set(range(0, 400, 40)) - set(sample.random.tolist())
    assert len(sample.different) == 10
    assert unusual - {row for row in range(400) if candidates[row] == 1} <= set(sample.different.tolist())
    assert not set(sample.different.tolist()) & set(sample.random.tolist())


def test_a_sample_larger_than_all_is_all() -> None:
    lineup = lined_up(rows=30)
    sample = draw_sample(lineup, 1000)
    assert sample.rows.tolist() == list(range(30))
    assert len(sample.of(lineup)) == 30


def test_the_lineup_of_a_sample_has_its_rows_in_every_run() -> None:
    lineup = lined_up(rows=60, seeds=(2, 1))
    sample = draw_sample(lineup, 20)
    for model, runs in sample.of(lineup).runs.items():
        for own, whole in zip(runs, lineup.runs[model], strict=True):
            assert own.rank.tolist() == whole.rank[sample.rows].tolist()


def test_bands_are_named_by_counts_of_training_triples() -> None:
    graph = kp.KnowledgeGraph.from_triples(
        train=[[0, 0, i] for i in range(1, 9)] + [[9, 0, i] for i in range(4, 9)] + [[9, 1, 8]],
        test=[[9, 1, i] for i in range(1, 9)] + [[0, 0, 8]],
        num_entities=10,
        num_relations=2,
    )
    head, relation, tail = np.repeat(graph.triples("test"), 2, axis=0).T
    ranks = kp.Ranks.from_columns(
        head=head,
        relation=relation,
        tail=tail,
        side=["head", "tail"] * 9,
        rank=np.ones(18),
        candidates=np.full(18, 9),
    )
    lineup = line_up({"mine": ranks}, graph=graph)
    content = query_content(lineup, graph, weighted=True)
    train = graph.triples("train")
    seen = [
        int(((train[:, 1] == r) & (train[:, 0] == target)).sum() + ((train[:, 1] == r) & (train[:, 2] == target)).sum())
        for r, target in zip(relation, lineup.first.target, strict=True)
    ]
    band = content.arrays["band"][content.arrays["popularity0"]]
    for code, words in enumerate(content.header["bandWords"]):
        counts = {count for count, own in zip(seen, band, strict=True) if own == code}
        low, high = min(counts), max(counts)
        range_ = f"{low} to {high} times" if low < high else "once" if low == 1 else f"{low} times"
        assert words == ("never seen with this relation" if high == 0 else f"seen {range_} with this relation")
    assert content.header["bandWords"][0] == "never seen with this relation"


def test_without_a_graph_bands_are_named_by_degree() -> None:
    words = query_content(lined_up(rows=200), None, weighted=True).header["bandWords"]
    assert words[0] == "never seen with this relation"
    assert words[-1] in ("common", "very common")


def test_names_for_people_come_before_labels() -> None:
    graph = kp.KnowledgeGraph(
        "tiny",
        2,
        1,
        {"train": np.array([[0, 0, 1]])},
        pa.array(["Q1", "Q2"]),
        pa.array(["P1"]),
        entity_names=pa.array(["Ada", None]),
        relation_names=pa.array(["knows"]),
    )
    ranks = kp.Ranks.from_columns(head=[0], relation=[0], tail=[1], side=["tail"], rank=[1], candidates=[2])
    header = query_content(line_up({"mine": ranks}), graph, weighted=False).header
    assert (header["entities"], header["relations"]) == (["Ada", "Q2"], ["knows"])
