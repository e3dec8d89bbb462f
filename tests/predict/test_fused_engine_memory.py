"""What counting holds on the device at any time stays within the memory that is given."""

import threading
from typing import Any

import numpy as np
import pytest

pytest.importorskip("triton")

import torch
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._python_dispatch import TorchDispatchMode

from kgprobe.graph import KnowledgeGraph
from kgprobe.predict.backends import triton_backend
from kgprobe.predict.backends.numba_backend import NumbaBackend
from kgprobe.predict.backends.triton_backend import Tile, Tiles, TritonBackend, _Copies
from kgprobe.predict.scorers import Dot, GroupNorm, Similarity
from kgprobe.resources import Resources
from ranking import Vectors, counted

MEMORY = 1 << 20

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"

TILES = Tiles(*6 * [Tile(128, 256, 8, 64, 2)], counting=64, settling=2, many=512)

SIMILARITIES = [(Dot(), 2), (Dot(), 100), (GroupNorm(1), 2), (GroupNorm(2), 64), (GroupNorm(None), 33)]


class Ledger:
    """The bytes of the tensors that are alive, and their peak. Threads may share it."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.alive: dict[int, tuple[StorageWeakRef, int]] = {}
        self.peak = 0

    def add(self, tensor: torch.Tensor) -> None:
        storage = tensor.untyped_storage()
        reference = StorageWeakRef(storage)
        with self.lock:
            self.alive[reference.cdata] = reference, storage.nbytes()
            self.alive = {key: entry for key, entry in self.alive.items() if not entry[0].expired()}
            self.peak = max(self.peak, sum(size for _, size in self.alive.values()))


class Watched(TorchDispatchMode):
    """Enters the results of all operations of a thread into a ledger."""

    def __init__(self, ledger: Ledger) -> None:
        super().__init__()
        self.ledger = ledger

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        results = function(*args, **(kwargs or {}))
        for result in results if isinstance(results, tuple | list) else [results]:
            if isinstance(result, torch.Tensor) and result.device.type == DEVICE:
                self.ledger.add(result)
        return results


def model_of(similarity: Similarity, entities: int, dimension: int) -> Vectors:
    rng = np.random.default_rng(1)
    table = rng.standard_normal((entities, dimension), dtype=np.float32)
    return Vectors(similarity, rng.standard_normal((2, entities, 1, dimension), dtype=np.float32), table)


def graph_with_little_to_filter(facts: int, entities: int) -> KnowledgeGraph:
    rng = np.random.default_rng(0)
    test = np.stack([rng.integers(0, entities, facts), np.zeros(facts, int), rng.integers(0, entities, facts)], axis=1)
    return KnowledgeGraph.from_triples(train=test[:1], test=test, num_entities=entities, num_relations=1)


def peak_of(model: Vectors, graph: KnowledgeGraph, monkeypatch: pytest.MonkeyPatch) -> int:
    """The most bytes of tensors, while the ranks are as they should be."""
    ledger, plain = Ledger(), _Copies.start

    def watched(self: Any, chosen: Any, part: slice) -> Any:
        with Watched(ledger):  # in its own thread
            return plain(self, chosen, part)

    monkeypatch.setattr(_Copies, "start", watched)
    monkeypatch.setattr(triton_backend, "_ROUNDED_ROWS", 128)  # quick in the interpreter; divides the rows of tiles
    with Watched(ledger):
        found = counted(model, graph, TritonBackend(DEVICE, TILES), Resources(memory=MEMORY))
    assert found == counted(model, graph, NumbaBackend())
    return ledger.peak


@pytest.mark.parametrize(("similarity", "dimension"), SIMILARITIES, ids=str)
@pytest.mark.parametrize(
    ("entities", "facts"),
    [pytest.param(4000, 8, id="candidates"), pytest.param(60, 200, id="targets", marks=pytest.mark.slow)],
)
def test_what_does_not_fit_is_counted_in_parts(
    entities: int, facts: int, similarity: Similarity, dimension: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, graph = model_of(similarity, entities, dimension), graph_with_little_to_filter(facts, entities)
    assert peak_of(model, graph, monkeypatch) < MEMORY
