from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kgprobe as kp
from kgprobe.errors import DataError, UsageError
from kgprobe.graph import KnowledgeGraph
from kgprobe.predict import Resources, Sampling, Setting
from kgprobe.predict.sampled_ranking import Sampler
from kgprobe.predict.scorers import SIDES, Dot, Side
from kgprobe.predict.tasks import RelationCandidates
from kgprobe.ranks import Basis, Ranks, SampleInfo
from kgprobe.ranks.schema import SAMPLE
from ranking import Matrix, brute_force, graph_of, matrix, rows_of, vectors

STRATA = [None, "relation-type"]


def drawn(graph: KnowledgeGraph, sampling: Sampling) -> dict[tuple[int, int, int, Side], set[int]]:
    """The sample of every query, from the sampler alone."""
    setting = Setting.build(graph)
    typed = RelationCandidates.from_train(graph) if sampling.by else None
    found = {}
    for side in SIDES:
        queries = setting.ranked.queries(side)
        sampler = Sampler(setting, queries, typed, sampling)
        for part in sampler.parts(memory=20_000):  # several parts
            own = sampler.draw(part)
            lists = np.split(own.entities.entities, own.entities.offsets[1:-1])
            for row, entities in zip(queries.part(part).triple, lists, strict=True):
                head, relation, tail = setting.ranked.triples[row].tolist()
                found[head, relation, tail, side] = set(entities.tolist())
    return found


def typed_entities(graph: KnowledgeGraph, relation: int, side: Side) -> set[int]:
    train = graph.triples("train")
    return set(train[train[:, 1] == relation][:, 2 if side == "tail" else 0].tolist())


def counts_of(ranks: Ranks) -> dict[Any, dict[str, int]]:
    keys = zip(ranks.head.tolist(), ranks.relation.tolist(), ranks.tail.tolist(), ranks["side"], strict=True)
    return {key: {name: int(ranks[name][i]) for name in SAMPLE} for i, key in enumerate(keys)}


@pytest.mark.parametrize("by", STRATA)
@pytest.mark.parametrize("size", [1, 4, 9])
@pytest.mark.parametrize("kind", ["dot", "matrix"])
def test_counts_are_those_of_a_search_over_the_sample(kind: str, size: int, by: str | None) -> None:
    graph = graph_of(seed=1, entities=14)
    model: Any = matrix(graph, 2) if kind == "matrix" else vectors("duplicated", Dot(), graph, 4, 3)
    sampling = Sampling(size, by, seed=5)
    samples = drawn(graph, sampling)
    ranks = kp.rank(model, graph, sample=size, by=by, seed=5)
    found = counts_of(ranks)
    candidates = brute_force(model, graph)
    sampled = brute_force(model, graph, allowed=lambda triple, side: samples[*triple, side])
    exact = brute_force(model, graph, allowed=lambda triple, side: typed_entities(graph, triple[1], side))
    assert len(found) == len(candidates)
    for key, own in found.items():
        rank, equal, among = sampled[key]
        assert own["sampled_greater"] == rank - 1 - equal / 2
        assert own["sampled_equal"] == equal
        assert own["sample_size"] == among - 1 == len(samples[key]) == min(size, own["sampled_from"])
        rank, equal, among = exact[key] if by else (1.0, 0, 1)
        assert own["exact_greater"] == rank - 1 - equal / 2
        assert own["exact_equal"] == equal
        assert own["sampled_from"] == candidates[key][2] - among
    assert {key: row[2] for key, row in rows_of(ranks).items()} == {key: row[2] for key, row in candidates.items()}


@pytest.mark.parametrize("by", STRATA)
@pytest.mark.parametrize("kind", ["dot", "matrix"])
def test_a_sample_of_everything_gives_the_ranks_among_all(kind: str, by: str | None) -> None:
    graph = graph_of(seed=4)
    model: Any = matrix(graph, 2) if kind == "matrix" else vectors("duplicated", Dot(), graph, 4, 3)
    full, whole = kp.rank(model, graph), kp.rank(model, graph, sample=100, by=by)
    assert rows_of(whole) == rows_of(full)


@pytest.mark.parametrize("by", STRATA)
def test_estimated_ranks_are_right_on_average(by: str | None) -> None:
    graph = graph_of(seed=2, entities=30, facts=30)
    model = matrix(graph, 1)
    full = kp.rank(model, graph).rank
    draws = np.array([kp.rank(model, graph, sample=6, by=by, seed=seed).rank for seed in range(200)])
    error = draws.mean(axis=0) - full
    deviation = draws.std(axis=0) / np.sqrt(len(draws))
    assert (np.abs(error) <= 5 * deviation + 1e-9).all()
    assert deviation.max() > 0


@pytest.mark.parametrize("by", STRATA)
def test_ranks_depend_on_the_seed_and_nothing_else(tmp_path: Path, by: str | None) -> None:
    graph = graph_of(seed=3, entities=40)
    model = vectors("random", Dot(), graph, 5, 1)
    files = []
    for number, resources in enumerate(
        [Resources(), Resources(threads=1, memory=1 << 20), Resources(batch=1, tile=3), Resources(shards=4)]
    ):
        path = tmp_path / f"{number}.parquet"
        kp.rank(model, graph, sample=8, by=by, resources=resources, name="mine").write(path)
        files.append(path.read_bytes())
    assert len(set(files)) == 1
    other = kp.rank(model, graph, sample=8, by=by, seed=1, name="mine")
    assert (other["sampled_greater"] != kp.read_ranks(tmp_path / "0.parquet")["sampled_greater"]).any()


def test_a_query_has_the_same_sample_whatever_else_is_ranked() -> None:
    graph = graph_of(seed=3, entities=40)
    model = vectors("random", Dot(), graph, 5, 1)
    every = counts_of(kp.rank(model, graph, sample=8, by="relation-type"))
    few = counts_of(
        kp.rank(model, graph, sample=8, by="relation-type", triples=graph.triples("test")[3:5], sides="head")
    )
    assert few
    assert all(every[key] == own for key, own in few.items())


def test_without_a_sample_only_typed_candidates_are_counted() -> None:
    graph = graph_of(seed=5)
    ranks = kp.rank(matrix(graph, 1), graph, sample=0, by="relation-type")
    typed = kp.rank(matrix(graph, 1), graph, candidates="train")
    assert (ranks["sample_size"] == 0).all()
    assert (ranks["sampled_greater"] == 0).all()
    assert (1 + ranks["exact_greater"] + ranks["exact_equal"] / 2 == typed.rank).all()
    assert (ranks.rank == typed.rank + ranks["sampled_from"] / 2).all()


def test_a_relation_that_train_does_not_have_has_no_typed_candidates() -> None:
    graph = KnowledgeGraph.from_triples(train=[[0, 0, 1]], test=[[0, 1, 2]], num_entities=6, num_relations=2)
    ranks = kp.rank("random", graph, sample=2, by="relation-type")
    assert ranks["exact_greater"].tolist() == [0, 0]
    assert ranks["sampled_from"].tolist() == [5, 5]


def test_one_query_with_a_single_candidate() -> None:
    graph = KnowledgeGraph.from_triples(train=[[0, 0, 1]], test=[[0, 0, 0]], num_entities=2, num_relations=1)
    ranks = kp.rank("random", graph, sample=5, sides="tail")
    assert ranks.rank.tolist() == [1.0]
    assert ranks["sampled_from"].tolist() == [0]
    assert ranks.candidates.tolist() == [1]


def test_ties_are_known_where_the_sample_is_everything() -> None:
    graph = graph_of(seed=5, entities=20)
    ranks = kp.rank(matrix(graph, 1), graph, sample=15)
    known = ranks["sample_size"] == ranks["sampled_from"]
    assert known.any()
    assert not known.all()
    assert (np.isnan(ranks.ties) == ~known).all()


def test_the_metadata_say_how_candidates_were_sampled(tmp_path: Path) -> None:
    graph = graph_of(seed=5)
    kp.rank(matrix(graph, 1), graph, sample=3, by="relation-type", seed=7).write(tmp_path / "ranks.parquet")
    candidates = kp.read_ranks(tmp_path / "ranks.parquet").info.candidates
    assert candidates is not None
    assert candidates.basis is Basis.verified
    assert candidates.sample == SampleInfo(3, estimates=True, exact="relation-type", seed=7)


def test_fixed_negatives_are_recorded_as_a_sample() -> None:
    graph = KnowledgeGraph.from_triples(train=[[0, 0, 1]], test=[[0, 0, 2]], num_entities=6)
    lists = {side: np.array([[3, 4, 5]]) for side in SIDES}
    infos = []
    for change in (0, 1):
        sets = kp.QueryCandidates("negatives", {side: own - change for side, own in lists.items()}, rows=np.array([0]))
        info = kp.rank("random", graph, candidates=sets).info
        assert info.sample == SampleInfo(3)
        assert info.candidates is not None
        assert info.candidates.basis is Basis.given
        infos.append(info.candidates)
    assert infos[0].hash is not None
    assert infos[0] != infos[1]


def test_typed_candidates_are_no_sample() -> None:
    graph = graph_of(seed=5)
    assert kp.rank("random", graph, candidates="train").info.sample is None


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"sample": 0}, "at least 1, not 0"),
        ({"sample": -1, "by": "relation-type"}, "at least 0, not -1"),
        ({"sample": 3, "by": "relation"}, "nearest: relation-type"),
        ({"by": "relation-type"}, "give `sample`"),
        ({"sample": 3, "candidates": "train"}, "use `candidates='all'`"),
    ],
)
def test_wrong_samplings_are_refused(options: dict[str, Any], said: str) -> None:
    with pytest.raises(UsageError) as raised:
        kp.rank("random", graph_of(seed=5), **options)
    assert said in str(raised.value)


def test_a_graph_without_train_has_no_typed_candidates() -> None:
    graph = KnowledgeGraph.from_triples(test=[[0, 0, 1]])
    with pytest.raises(DataError, match="no training triples"):
        kp.rank("random", graph, sample=1, by="relation-type")


def test_nan_scores_are_refused() -> None:
    graph = graph_of(seed=5)
    scores = np.full((2, 12, 3, 12), np.nan)
    with pytest.raises(DataError, match="NaN"):
        kp.rank(Matrix(scores), graph, sample=3)
