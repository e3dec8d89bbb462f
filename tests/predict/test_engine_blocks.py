"""How the work on vectors is divided among blocks and threads, and how it ends early."""

import threading
import tracemalloc
from typing import Any

import numpy as np
import pytest

from kgprobe.graph import KnowledgeGraph
from kgprobe.predict import Dot
from kgprobe.predict.backends.backend import NumpyBackend
from kgprobe.predict.backends.int16_backend import Int16Backend
from kgprobe.predict.engine import count_embedding
from kgprobe.predict.queries import KnownFilter, RankedTriples
from kgprobe.predict.tasks import Task
from kgprobe.resources import Resources
from ranking import BACKENDS, Vectors, graph_of, vectors


class Interrupt(BaseException):
    pass


class Slow(NumpyBackend):
    """An backend that counts its tiles."""

    tiles = 0

    def scores(self, similarity: Any, queries: Any, candidates: Any) -> Any:
        Slow.tiles += 1
        return super().scores(similarity, queries, candidates)


def large_task() -> tuple[Vectors, Task]:
    graph = graph_of(seed=0, entities=200, facts=400)
    queries = RankedTriples.build(graph).queries("tail")
    task = Task(graph, queries, KnownFilter.build(graph), None, range(200))
    return vectors("random", Dot(), graph, 4, seed=0), task


@pytest.mark.parametrize("error", [Interrupt, KeyboardInterrupt, ValueError])
def test_a_run_that_is_stopped_stops(error: type[BaseException]) -> None:
    model, task = large_task()
    before = threading.active_count()
    Slow.tiles = 0
    watched: list[int] = []

    def progress(targets: int) -> None:
        watched.append(targets)
        raise error("enough")

    with pytest.raises(error, match="enough"):
        count_embedding(model, task, Slow(), Resources(threads=2, batch=1, tile=1), progress)
    assert len(watched) == 1
    assert Slow.tiles < len(task.queries) * 200 / 2
    assert threading.active_count() == before


def test_an_error_while_encoding_or_counting_is_passed_on_and_leaves_no_thread() -> None:
    model, task = large_task()
    before = threading.active_count()

    class Fails(Vectors):
        def encode_queries(self, side: Any, given: Any, relation: Any) -> Any:
            raise Interrupt("encoding")

    class Breaks(NumpyBackend):
        def count(self, scores: Any, bounds: Any) -> Any:
            raise Interrupt("counting")

    resources = Resources(threads=2, batch=3)
    with pytest.raises(Interrupt, match="encoding"):
        count_embedding(Fails(Dot(), model.queries, model.table), task, NumpyBackend(), resources, lambda n: None)
    with pytest.raises(Interrupt, match="counting"):
        count_embedding(model, task, Breaks(), resources, lambda n: None)
    assert threading.active_count() == before


def test_memory_limits_how_many_queries_are_counted_at_once() -> None:
    model, task = large_task()

    def blocks(**resources: Any) -> list[int]:
        watched: list[int] = []
        count_embedding(model, task, NumpyBackend(), Resources(threads=1, **resources), watched.append)
        assert sum(watched) == len(task.queries.query)
        return watched

    assert len(blocks()) == 1
    assert len(blocks(memory=1 << 20, tile=1 << 16)) == len(task.queries)
    assert 1 < len(blocks(memory=1 << 20, tile=1 << 10)) < len(task.queries)
    assert len(blocks(batch=10)) == -(-len(task.queries) // 10)


@pytest.mark.parametrize(("threads", "blocks"), [(1, 4), (2, 4), (3, 6), (7, 7)])
def test_every_thread_has_as_many_blocks_of_one_size(threads: int, blocks: int) -> None:
    model, task = large_task()
    rows: list[int] = []

    class Noted(NumpyBackend):
        def shape(self, columns: int, dimension: int, memory: int) -> tuple[int, int]:
            assert (columns, dimension, memory) == (200, 4, (1 << 30) // threads)
            return -(-len(task.queries) // 4), 1 << 20

        def scores(self, similarity: Any, queries: Any, candidates: Any) -> Any:
            rows.append(len(queries))
            return super().scores(similarity, queries, candidates)

    count_embedding(model, task, Noted(), Resources(threads=threads), lambda n: None)
    assert len(rows) == blocks
    assert sum(rows) == len(task.queries)
    assert max(rows) - min(rows) <= blocks


@pytest.mark.parametrize(
    ("fits", "expected"), [(1100, {1100}), (1099, {1024, 76}), (700, {512, 76}), (300, {300, 200})]
)
def test_tiles_have_a_multiple_of_512_candidates_or_all_or_fewer(fits: int, expected: set[int]) -> None:
    graph = graph_of(seed=0, entities=1100, facts=20)
    task = Task(graph, RankedTriples.build(graph).queries("tail"), KnownFilter.build(graph), None, range(1100))
    columns = set()

    class Noted(NumpyBackend):
        def shape(self, columns: int, dimension: int, memory: int) -> tuple[int, int]:
            return len(task.queries), len(task.queries) * fits

        def scores(self, similarity: Any, queries: Any, candidates: Any) -> Any:
            columns.add(len(candidates))
            return super().scores(similarity, queries, candidates)

    model = vectors("random", Dot(), graph, 4, seed=0)
    count_embedding(model, task, Noted(), Resources(threads=1), lambda n: None)
    assert columns == expected


@pytest.mark.parametrize("backend", ["plain", "compiled", "int16"])
@pytest.mark.parametrize(("entities", "dimension", "facts"), [(20_000, 64, 100), (200_000, 4, 10), (500, 4, 4000)])
def test_many_undecided_pairs_stay_within_the_memory(backend: str, entities: int, dimension: int, facts: int) -> None:
    """A model that has collapsed: no fast score decides anything."""
    rng, memory = np.random.default_rng(0), 16 << 20
    test = np.stack([rng.integers(0, entities, facts), np.zeros(facts, int), rng.integers(0, entities, facts)], axis=1)
    graph = KnowledgeGraph.from_triples(train=test[:1], test=test, num_entities=entities, num_relations=1)
    queries = np.ones((2, entities, 1, dimension), dtype=np.float32)
    model, resources = Vectors(Dot(), queries, queries[0, :, 0]), Resources(threads=2, memory=memory)
    task = Task(graph, RankedTriples.build(graph).queries("tail"), KnownFilter.build(graph), None, range(entities))
    counting = Int16Backend(memory) if backend == "int16" else BACKENDS[backend]()
    count_embedding(model, task, counting, resources, lambda n: None)  # compiles
    tracemalloc.start()
    counts = count_embedding(model, task, counting, resources, lambda n: None)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert counts.equal.tolist() == (counts.candidates - 1).tolist()
    assert peak < memory
