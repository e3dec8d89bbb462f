"""The same bytes, however the work is divided and whatever computes it."""

from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import ranking
from adversarial import TABLES
from kgprobe.graph import KnowledgeGraph, load_graph
from kgprobe.predict import rank
from kgprobe.predict.backends.backend import Backend
from kgprobe.predict.scorers import Dot, GroupNorm, Similarity
from kgprobe.resources import Resources
from ranking import COUNTING, QUICK, Vectors, graph_of, relation_sets, vectors

BATCHES, THREADS, TILES, SHARDS = (1, 7, 512), (1, 2), (1, 5, 64, 4096), (1, 5)

DIVISIONS = [
    *({"batch": batch} for batch in BATCHES),
    *({"threads": threads, "batch": 7} for threads in THREADS),
    *({"tile": tile} for tile in TILES),
    *({"shards": shards} for shards in SHARDS),
    {"batch": 7, "threads": 2, "tile": 5, "shards": 5},
    {"batch": 1, "threads": 2, "tile": 64, "shards": 5, "memory": 1 << 20},
    {"memory": 1 << 20},
]

DEVICES = ["cpu", "torch:cpu", *(["cuda"] if "cuda" in COUNTING else [])]

GRAPH = graph_of(seed=0, entities=300, relations=4, facts=60)


def _columns(model: Any, backend: Backend, division: dict[str, int]) -> bytes:
    found = ranking.counted(model, GRAPH, backend, Resources(**{"threads": 1, **division}), sets=None)
    return np.array([found[key] for key in sorted(found)]).tobytes()


@cache
def _model_and_columns(kind: str, similarity: Similarity, dimension: int) -> tuple[Vectors, bytes]:
    """A model, and the columns of the brute force with its inner loop over all entities at once."""
    model = vectors(kind, similarity, GRAPH, dimension, seed=1)

    class Dense(ranking.Matrix):
        def score(self, side: Any, given: Any, relation: Any) -> Any:
            return _canonical(model, model.encode_queries(side, given, relation))

    found = ranking.brute_force(Dense(np.empty(0)), GRAPH)
    return model, np.array([found[key] for key in sorted(found)]).tobytes()


def _canonical(model: Vectors, query: NDArray[np.float32]) -> NDArray[np.float32]:
    similarity, table = model.similarity, model.table.astype(np.float64)
    total = np.zeros(len(table))
    for start, stop in _groups(similarity, len(query)):
        part = np.zeros(len(table))
        for i in range(start, stop):
            x = np.float64(query[i])
            part += x * table[:, i] if isinstance(similarity, Dot) else (x - table[:, i]) ** 2
        total += part if isinstance(similarity, Dot) else np.sqrt(part)
    with np.errstate(over="ignore"):
        return (total if isinstance(similarity, Dot) else similarity.gamma - total).astype(np.float32)


def _groups(similarity: Similarity, dimension: int) -> Iterator[tuple[int, int]]:
    width = 1 if isinstance(similarity, Dot) else similarity.size or dimension
    return ((start, start + width) for start in range(0, dimension, width))


@pytest.mark.parametrize("backend", QUICK)
@pytest.mark.parametrize("kind", TABLES)
def test_backends_agree_with_the_brute_force_in_many_dimensions(kind: str, backend: str) -> None:
    for similarity in (Dot(), GroupNorm(1), GroupNorm(2, gamma=60.0), GroupNorm(None, gamma=9.0)):
        model, expected = _model_and_columns(kind, similarity, dimension=64)
        assert _columns(model, COUNTING[backend](), {}) == expected


@pytest.mark.parametrize("backend", QUICK)
@pytest.mark.parametrize("division", DIVISIONS, ids=str)
def test_ranks_do_not_depend_on_how_the_work_is_divided(division: dict[str, int], backend: str) -> None:
    for kind, similarity in (("mixed", Dot()), ("permuted", Dot()), ("one ulp apart", GroupNorm(2))):
        model, expected = _model_and_columns(kind, similarity, 64)
        assert _columns(model, COUNTING[backend](), division) == expected


@pytest.mark.parametrize("similarity", [Dot(), GroupNorm(2, gamma=12.0)], ids=str)
def test_tables_of_a_real_graph_are_equal(similarity: Similarity, data: Path) -> None:
    graph = load_graph(data / "graphs" / "umls_standard")
    model = vectors("mixed", similarity, graph, dimension=32, seed=3)
    expected = rank(model, graph, resources=Resources(threads=1, batch=512)).to_arrow()
    assert expected.num_rows == 2 * len(np.unique(graph.triples("test"), axis=0))
    devices = [{"device": device} for device in DEVICES]
    for division in [*devices, *DIVISIONS[-3:], *(device | {"tile": 64, "shards": 5} for device in devices)]:
        found = rank(model, graph, resources=Resources(**division)).to_arrow()  # type: ignore[arg-type]
        assert found.equals(expected, check_metadata=True)


@pytest.mark.parametrize("division", DIVISIONS[-3:], ids=str)
def test_tables_with_candidate_sets_are_equal(division: dict[str, int]) -> None:
    model = vectors("mixed", GroupNorm(1), GRAPH, dimension=12, seed=4)
    sets, _ = relation_sets(GRAPH, seed=5)
    expected = rank(model, GRAPH, candidates=sets, resources=Resources(threads=1)).to_arrow()
    for device in DEVICES:
        found = rank(model, GRAPH, candidates=sets, resources=Resources(device=device, **division)).to_arrow()
        assert found.equals(expected, check_metadata=True)


def test_scores_of_a_matrix_are_ranked_alike_on_every_device() -> None:
    model = ranking.matrix(GRAPH, seed=6, levels=40)
    tables = [
        rank(model, GRAPH, resources=Resources(device=device, batch=batch, shards=shards)).to_arrow()
        for device in DEVICES
        for batch in BATCHES
        for shards in SHARDS
    ]
    assert all(table.equals(tables[0], check_metadata=True) for table in tables)


def test_a_scorer_in_float32_may_depend_on_what_else_it_encodes() -> None:
    """An encoder that works in batches, whose last bit depends on their size, is asked the same way in every run."""

    class Encoder(Vectors):
        def encode_queries(self, side: Any, given: Any, relation: Any) -> Any:
            return super().encode_queries(side, given, relation) + np.float32(len(given) * 2.0**-20)

    base = vectors("random", Dot(), GRAPH, 16, seed=7)
    model = Encoder(Dot(), base.queries, base.table)
    tables = [
        rank(model, GRAPH, resources=Resources(batch=batch, shards=shards, threads=threads)).to_arrow()
        for batch, shards, threads in ((1, 1, 1), (7, 5, 2), (512, 1, 2))
    ]
    assert all(table.equals(tables[0]) for table in tables)


def test_the_graph_is_as_adversarial_as_it_should_be() -> None:
    assert isinstance(GRAPH, KnowledgeGraph)
    unseen = set(range(GRAPH.num_entities)) - set(GRAPH.triples("train")[:, [0, 2]].ravel().tolist())
    test = GRAPH.triples("test")
    assert unseen
    assert (test[:, 0] == test[:, 2]).any()
    assert len(np.unique(test, axis=0)) < len(test)
    assert {*map(tuple, test.tolist())} & {*map(tuple, GRAPH.triples("train").tolist())}
