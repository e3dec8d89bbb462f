import numpy as np
import pytest

from kgprobe.aggregate import surface
from kgprobe.errors import DataError
from kgprobe.graph import KnowledgeGraph
from kgprobe.metrics import RankAccumulator, evaluate, parse, scores
from kgprobe.ranks import RankFile, Ranks
from support import EVERYTHING, random_ranks, with_columns


def test_results_are_keyed_by_canonical_name_in_the_order_asked():
    found = evaluate(random_ranks(5), ["hits@3", "probe(.5)", "mean rank", "Hits@3"])
    assert list(found) == ["Hits@3", "PROBE(alpha=0.5,beta=0)", "MR"]
    assert all(type(value) is float for value in found.values())


def test_metrics_may_be_values():
    ranks = random_ranks(5)
    assert evaluate(ranks, [parse("MRR")]) == evaluate(ranks, ["MRR"])


def test_asking_for_more_changes_no_value():
    ranks = random_ranks(50, smallest=1)
    together = evaluate(ranks, EVERYTHING)
    for name in EVERYTHING:
        ((canonical, alone),) = evaluate(ranks, [name]).items()
        assert together[canonical] == pytest.approx(alone, rel=1e-14)


def test_a_file_is_streamed_to_the_same_values(tmp_path):
    ranks = random_ranks(300, smallest=1, runs=3)
    ranks.write(tmp_path / "ranks.parquet")
    file = RankFile(tmp_path / "ranks.parquet")
    for options in ({}, {"macro": "relation"}, {"tie": "pessimistic"}, {"weight": "weight"}):
        wanted = evaluate(ranks, EVERYTHING, **options)
        assert evaluate(file, EVERYTHING, **options) == pytest.approx(wanted, rel=1e-12)


def test_more_rows_than_a_batch_holds():
    ranks = random_ranks(140_000, largest=500)
    r, size = ranks.rank, ranks.candidates
    found = evaluate(ranks, ["MRR", "MR", "MedianRank", "PROBE(alpha=1,beta=0)"])
    assert list(found.values()) == pytest.approx(
        [np.mean(1 / r), r.mean(), np.median(r), np.mean((1 / r - 1 / size) / (1 - 1 / size))], rel=1e-13
    )


class TestGraph:
    @pytest.fixture
    def graph(self):
        train = np.array([[0, 0, 1], [0, 1, 1], [2, 1, 1], [3, 0, 0]])
        return KnowledgeGraph("tiny", 5, 2, {"train": train, "test": np.array([[3, 1, 1], [4, 0, 0]])})

    @pytest.fixture
    def ranks(self):
        return Ranks.from_columns(
            head=[3, 3, 4],
            relation=[1, 1, 0],
            tail=[1, 1, 0],
            side=["head", "tail", "head"],
            rank=[1, 2, 4],
            candidates=[5, 5, 4],
        )

    def test_popularity_comes_from_the_graph(self, ranks, graph):
        # delta(e): entity 3 is in 1 of 8 places, 1 in 3, 4 in none; delta(r|e): 0 of 1, 2 of 3, none
        weights = (
            np.array([1 / 8 + 1 / 8, 3 / 8 + 1 / 8, 0 + 1 / 8]) ** -1 * np.array([2 / 3, 2 / 3 + 2 / 3, 2 / 3]) ** -1
        )
        f = np.array([1, (1 / 2 - 1 / 5) / (1 - 1 / 5), 0])
        found = evaluate(ranks, ["PROBE(alpha=1,beta=1)"], graph=graph)["PROBE(alpha=1,beta=1)"]
        assert found == pytest.approx((weights * f).sum() / weights.sum(), rel=1e-13)

    def test_it_replaces_what_the_table_has(self, ranks, graph):
        wrong = with_columns(ranks, entity_popularity=[0.9, 0.9, 0.1], relation_popularity=[0.1, 0.2, 0.3])
        assert evaluate(wrong, ["PROBE(beta=1)"], graph=graph) == evaluate(ranks, ["PROBE(beta=1)"], graph=graph)

    def test_a_file_gets_it_too(self, ranks, graph, tmp_path):
        ranks.write(tmp_path / "ranks.parquet")
        file = RankFile(tmp_path / "ranks.parquet")
        assert evaluate(file, ["PROBE(beta=1)"], graph=graph) == evaluate(ranks, ["PROBE(beta=1)"], graph=graph)

    def test_ids_outside_the_graph_are_refused(self, ranks, graph):
        with pytest.raises(DataError, match="not usable") as caught:
            evaluate(with_columns(ranks, head=[3, 3, 99]), ["MRR"], graph=graph)
        assert "outside the graph" in str(caught.value)


def test_a_bad_file_is_refused_with_everything_that_is_wrong(tmp_path):
    import pyarrow.parquet as pq

    table = random_ranks(3).to_arrow()
    at = table.column_names.index("rank")
    pq.write_table(table.set_column(at, "rank", [np.array([0.5, np.nan, 1e9])]), tmp_path / "bad.parquet")
    with pytest.raises(DataError) as caught:
        scores(RankFile(tmp_path / "bad.parquet"), ["MRR"])
    text = str(caught.value)
    assert all(part in text for part in ("bad.parquet", "rank is below 1", "not a number", "larger than the number"))


def test_a_large_beta_rests_on_the_rarest_query_even_where_entity_and_relation_are_rare_apart():
    ranks = Ranks.from_columns(
        head=[0, 1],
        relation=[0, 0],
        tail=[1, 0],
        side=["tail", "tail"],
        rank=[1, 3],
        candidates=[9, 9],
        entity_popularity=[1e-6, 0.5],
        relation_popularity=[1.0, 1e-4],
    )
    accumulator = RankAccumulator(["PROBE(beta=200)"])
    accumulator.update(ranks)
    assert evaluate(ranks, "PROBE(beta=200)") == accumulator.compute() == {"PROBE(alpha=1,beta=200)": 1.0}
    assert evaluate(ranks, ["PROBE(beta=1)", "PROBE(beta=200)"])["PROBE(alpha=1,beta=200)"] == 1.0
    assert surface(ranks, [1.0], [1.0, 200.0])[0, 1] == 1.0
