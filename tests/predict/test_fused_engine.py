"""Counts by fused kernels: where embeddings are, how the work is divided, and what is refused."""

from concurrent.futures import ProcessPoolExecutor
from functools import reduce
from multiprocessing import get_context
from operator import add
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("triton")

import torch

from kgprobe.errors import DataError
from kgprobe.graph import KnowledgeGraph, load_graph
from kgprobe.predict import Opening, encoding, open_model, rank
from kgprobe.predict.backends.fused_counts import Footprint
from kgprobe.predict.backends.numba_backend import NumbaBackend
from kgprobe.predict.backends.triton_backend import Tile, Tiles, TritonBackend
from kgprobe.predict.encoding import shared_candidates
from kgprobe.predict.engine import count_embedding
from kgprobe.predict.fused_engine import _Work
from kgprobe.predict.queries import KnownFilter, RankedTriples
from kgprobe.predict.scorers import Dot, GroupNorm, Similarity
from kgprobe.predict.tasks import Counts, RelationCandidates, Task
from kgprobe.resources import Resources
from kgprobe.train.fitting import fit
from ranking import (
    SIMILARITIES,
    SMALL,
    RelationVectors,
    Vectors,
    brute_force,
    counted,
    graph_of,
    relation_sets,
    vectors,
)

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"

GRAPH = graph_of(seed=3, entities=60, facts=30)

FEW: Any = {side: (np.arange(3), np.array([7, 8, 9])) for side in ("head", "tail")}

"""One candidate for each relation."""


def backend() -> TritonBackend:
    return TritonBackend(DEVICE, SMALL)


def part_of_umls(data: Path) -> KnowledgeGraph:
    """All of it on a GPU; for the interpreter, all training triples and few others."""
    whole = load_graph(data / "graphs" / "umls_standard")
    if DEVICE == "cuda":
        return whole
    return KnowledgeGraph.from_triples(
        **{split: whole.triples(split)[:most] for split, most in (("train", None), ("valid", 100), ("test", 60))},
        num_entities=whole.num_entities,
        num_relations=whole.num_relations,
    )


class OnDevice(Vectors):
    """The same model with its vectors as tensors on the device."""

    def encode_queries(self, side: Any, given: Any, relation: Any) -> Any:
        return torch.from_numpy(super().encode_queries(side, given, relation)).to(DEVICE)

    def candidates(self, side: Any) -> Any:
        return torch.from_numpy(self.table).to(DEVICE)


@pytest.mark.parametrize("similarity", SIMILARITIES, ids=str)
@pytest.mark.parametrize("kind", ["random", "mixed"])
def test_ranks_equal_the_brute_force(kind: str, similarity: Similarity) -> None:
    """With and without a filter, for candidates of all queries and of each relation."""
    graph = graph_of(seed=8, entities=40, facts=20)
    model = vectors(kind, similarity, graph, 6, seed=1)
    assert counted(model, graph, backend(), filtered="none") == brute_force(model, graph, ())
    depends = RelationVectors(similarity, model.queries, model.table)
    sets, allowed = relation_sets(graph, seed=2)
    assert counted(depends, graph, backend(), sets=sets) == brute_force(depends, graph, allowed=allowed)


@pytest.mark.parametrize("similarity", [Dot(), GroupNorm(2, 12.0)], ids=str)
def test_embeddings_may_be_on_the_device(similarity: Similarity) -> None:
    model = vectors("mixed", similarity, GRAPH, 8, seed=1)
    there = OnDevice(model.similarity, model.queries, model.table)
    assert counted(there, GRAPH, backend()) == counted(model, GRAPH, NumbaBackend())


@pytest.mark.parametrize("dtype", [np.float64, ">f4"])
def test_a_table_in_a_file_is_read_in_ranges(dtype: Any, tmp_path: Path) -> None:
    """The file is mapped to memory, and may have numbers of another type."""
    model = vectors("random", Dot(), GRAPH, 8, seed=1)
    np.save(tmp_path / "table.npy", model.table.astype(dtype))
    mapped = np.load(tmp_path / "table.npy", mmap_mode="r")
    stored = Vectors(Dot(), model.queries, mapped)
    expected = counted(Vectors(Dot(), model.queries, mapped.astype(np.float32)), GRAPH, NumbaBackend())
    for tile in (None, 17):
        assert counted(stored, GRAPH, backend(), Resources(tile=tile)) == expected


@pytest.mark.parametrize("division", [{"batch": 5, "tile": 13}, {"memory": 1 << 20}, {"shards": 3}], ids=str)
def test_ranks_do_not_depend_on_blocks_and_ranges(division: dict[str, int]) -> None:
    model = vectors("random", Dot(), GRAPH, 8, seed=1)
    assert counted(model, GRAPH, backend(), Resources(**division)) == counted(model, GRAPH, NumbaBackend())


def count_range(entities: range) -> list[Counts]:
    """The counts of both sides over a range of entities, by the kernels."""
    ranked, known = RankedTriples.build(GRAPH), KnownFilter.build(GRAPH)
    model = vectors("mixed", Dot(), GRAPH, 8, seed=1)
    tasks = [Task(GRAPH, ranked.queries(side), known, None, entities) for side in ranked.sides]
    return [count_embedding(model, task, backend(), Resources(), lambda targets: None) for task in tasks]


@pytest.mark.slow
def test_several_processes_share_a_gpu() -> None:
    """Each counts a range of the entities; their counts add up."""
    ranges = Resources(shards=3).ranges(GRAPH.num_entities)
    with ProcessPoolExecutor(3, mp_context=get_context("spawn")) as pool:
        parts = list(pool.map(count_range, ranges))
    for whole, *some in zip(count_range(range(GRAPH.num_entities)), *parts, strict=True):
        added = reduce(add, some)
        assert added.rank.tolist() == whole.rank.tolist()
        assert added.equal.tolist() == whole.equal.tolist()
        assert added.candidates.tolist() == whole.candidates.tolist()


@pytest.mark.skipif(DEVICE == "cpu", reason="needs a GPU")
def test_threads_share_a_gpu() -> None:
    """As several GPUs would share the entities: each thread has a backend of its own."""
    model = vectors("mixed", GroupNorm(2), GRAPH, 8, seed=1)
    several = rank(model, GRAPH, resources=Resources(device="cuda:0,cuda:0,cuda:0"))
    assert several.to_arrow().equals(rank(model, GRAPH).to_arrow())


@pytest.mark.slow
def test_a_real_graph_in_large_tiles(data: Path) -> None:
    """The tiles that GPUs have."""
    graph = part_of_umls(data)
    for similarity in (Dot(), GroupNorm(1), GroupNorm(2), GroupNorm(None)):
        model = vectors("random", similarity, graph, 20, seed=1)
        wide = TritonBackend(DEVICE, Tiles(narrow=Tile(64, 256, 8), pairs=128, counting=1, settling=1))
        assert counted(model, graph, wide) == counted(model, graph, NumbaBackend())


@pytest.mark.slow
@pytest.mark.parametrize("name", ["complex", "rotate", "tucker", "house", "transe"])
def test_trained_models_on_a_real_graph(name: str, data: Path, tmp_path: Path) -> None:
    """Models whose targets are ranked well, HousE with candidates that depend on the relation."""
    graph = part_of_umls(data)
    fit(name, graph, tmp_path / "run", epochs=12, dimension=32, threads=1)
    model: Any = open_model(tmp_path / "run", Opening(graph, RankedTriples.build(graph))).scorer
    tiles = Tiles() if DEVICE == "cuda" else Tiles(*6 * [Tile(64, 128, 4)])
    found = counted(model, graph, TritonBackend(DEVICE, tiles))
    assert found == counted(model, graph, NumbaBackend())
    assert np.mean([1 / rank for rank, _, _ in found.values()]) > 0.2


@pytest.mark.parametrize("entity", [0, 59])
def test_nan_in_embeddings_of_candidates_is_refused_with_their_names(entity: int) -> None:
    model = vectors("random", Dot(), GRAPH, 8, seed=1)
    model.table[entity, 3] = np.nan
    texts = []
    for counting in (NumbaBackend(), backend()):
        for sets in (None, RelationCandidates.from_pairs("few", GRAPH, FEW)):
            with pytest.raises(DataError, match="embeddings of 1 entities contain NaN") as caught:
                counted(model, GRAPH, counting, sets=sets)
            texts.append(str(caught.value))
    assert len(set(texts)) == 1


def test_nan_in_queries_and_in_scores_is_refused_with_the_queries() -> None:
    model = vectors("random", Dot(), GRAPH, 8, seed=1)
    head, relation, _ = GRAPH.triples("test")[0]
    model.queries[1, head, relation, 2] = np.nan
    with pytest.raises(DataError, match=rf"query \({head}, {relation}, \?\)"):
        counted(model, GRAPH, backend())
    model = vectors("random", Dot(), GRAPH, 8, seed=1)
    model.queries[1, head, relation, :2] = np.inf
    model.table[GRAPH.triples("test")[5, 2], :2] = [1, -1]
    model.table[:, 1] = -model.table[:, 0]
    with pytest.raises(DataError, match=rf"query \({head}, {relation}, \?\)"):
        counted(model, GRAPH, backend())


def test_a_filtered_candidate_may_have_no_score() -> None:
    """Infinities that meet only in a filtered pair are nobody's rank."""
    model = vectors("random", Dot(), GRAPH, 8, seed=1)
    head, relation, tail = GRAPH.triples("train")[0]
    model.queries[:] = 1.0
    model.queries[1, head, relation] = 0.0
    model.table[tail, 0] = np.inf
    outcomes = []
    for counting in (NumbaBackend(), backend()):
        try:
            outcomes.append(repr(sorted(counted(model, GRAPH, counting).items())))
        except DataError as error:
            outcomes.append(error.title)
    assert outcomes[0] == outcomes[1]


@pytest.mark.parametrize("batch", [1, 9])
def test_progress_reaches_all_targets(batch: int) -> None:
    queries = RankedTriples.build(GRAPH).queries("tail")
    task = Task(GRAPH, queries, KnownFilter.build(GRAPH), None, range(60))
    seen: list[float] = []
    model = vectors("random", Dot(), GRAPH, 8, seed=1)
    count_embedding(model, task, backend(), Resources(batch=batch), seen.append)
    assert sum(seen) == len(queries.query)
    assert len(seen) == -(-len(queries) // batch)


@pytest.mark.parametrize("encoded_at_once", [1, 70, 1 << 18])
def test_blocks_of_queries_are_even_and_fit(encoded_at_once: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Some queries have many targets, and most have one."""
    monkeypatch.setattr(encoding, "_ENCODED_AT_ONCE", 8 * encoded_at_once)
    rng = np.random.default_rng(0)
    head = np.append(rng.integers(0, 20, 1000), rng.integers(20, 3000, 2000))
    test = np.stack([head, rng.integers(0, 2, 3000), rng.integers(0, 3000, 3000)], axis=1)
    graph = KnowledgeGraph.from_triples(train=test[:1], test=test, num_entities=3000, num_relations=2)
    task = Task(graph, RankedTriples.build(graph).queries("tail"), KnownFilter.build(graph), None, range(3000))
    model, resources = vectors("random", Dot(), graph, 8, seed=1), Resources(memory=1 << 20)
    (shared,) = shared_candidates(model, task)
    work, footprint = _Work(model, task, backend(), resources, shared), Footprint.of(Dot(), 8)
    starts, parts = zip(*work.blocks(), strict=True)
    given, relation = task.queries.given, task.queries.relation
    assert torch.cat(parts).cpu().numpy().tolist() == model.encode_queries("tail", given, relation).tolist()
    queries = np.array([len(part) for part in parts])
    assert list(starts) == (np.cumsum(queries) - queries).tolist()
    targets = np.bincount(np.searchsorted(starts, task.queries.query, side="right") - 1)
    sizes = footprint.query * queries + footprint.target * targets
    largest = footprint.query + footprint.target * np.bincount(task.queries.query).max()
    assert len(sizes) == -(-sizes.sum() // (resources.memory // 4))
    assert sizes.max() < resources.memory // 4 + largest
    assert sizes.max() - sizes.min() < 2 * largest
