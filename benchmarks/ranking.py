"""Filtered ranking of FB15k-237: ours against the bare matrix products and against PyKEEN, side by side in one run.

Usage: python benchmarks/ranking.py [--graph fb15k-237] [--run DIRECTORY] [--pykeen-triples 500]

ComplEx is ranked with random weights and with trained ones: those of a run, or of a short training of about a minute.
How many scores are close to that of the target, and so have to be computed again, depends on the weights.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from pykeen.evaluation import RankBasedEvaluator
from pykeen.models import ComplEx, Model, RotatE
from pykeen.triples import CoreTriplesFactory

import kgprobe as kp
from kgprobe.predict import Model as RankedModel
from kgprobe.predict import Opening, Setting, rank_in
from kgprobe.predict.adapters.embedding_files import write_embeddings
from kgprobe.predict.adapters.opening import model_of, open_model
from kgprobe.predict.backends import int16_backend
from kgprobe.predict.backends.backend import backend_for
from kgprobe.predict.scorers import as_array
from machine import MIB, best_of, describe

REPEATS = 5

PAUSE = 0.2

"""Seconds after the bare products, whose threads wait for more of them in a loop that occupies a core."""

THREADS = 2

BROADCAST = 32

"""Queries at a time in a broadcast: PyKEEN's automatic batch size on a CPU."""

NORMS: list[tuple[str, kp.GroupNorm, Callable[[torch.Tensor], torch.Tensor]]] = [
    ("groups of 1 (TransE, L1)", kp.GroupNorm(1), lambda difference: difference.abs().sum(dim=-1)),
    (
        "groups of 2 (RotatE)",
        kp.GroupNorm(2),
        lambda difference: torch.view_as_complex(difference.unflatten(-1, (-1, 2))).abs().sum(dim=-1),
    ),
    (
        "groups of 8 (HousE)",
        kp.GroupNorm(8),
        lambda difference: difference.unflatten(-1, (-1, 8)).norm(dim=-1).sum(dim=-1),
    ),
    ("one group (TransE, L2)", kp.GroupNorm(None), lambda difference: difference.norm(dim=-1)),
]

PRODUCT_ROWS = 4096

SHORT_TRAINING: dict[str, Any] = {
    "dimension": 128,
    "objective": "k_vs_all",
    "loss": "cross_entropy",
    "regulariser": "none",
    "batch_size": 500,
    "epochs": 2,
    "validate_every": 2,
    "select": ["MRR"],
}

"""Settings that reach a validation MRR above 0.2 on fb15k-237 in about a minute on two cores."""

_MEASURED = """
import sys
sys.path.append(sys.argv[3])
import kgprobe as kp
from machine import peak_of_process
graph = kp.load_graph(sys.argv[1])
before = peak_of_process()
kp.rank(sys.argv[2], graph)
print(before, peak_of_process())
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--graph", default="fb15k-237")
    parser.add_argument("--run", type=Path, help="a run of 'kgprobe train complex'; without it, one is trained briefly")
    parser.add_argument("--pykeen-triples", type=int, default=500, help="how many test triples PyKEEN gets")
    arguments = parser.parse_args()
    print(describe(), f"torch {torch.__version__}")
    graph = kp.load_graph(arguments.graph)
    setting = Setting.build(graph)
    distinct = sum(len(setting.ranked.queries(side)) for side in setting.ranked.sides)
    print(f"{graph.name}: {setting.queries:,} queries, {distinct:,} distinct, {graph.num_entities:,} entities")
    factory = CoreTriplesFactory(
        torch.from_numpy(graph.triples("train").astype(np.int64)), graph.num_entities, graph.num_relations
    )
    torch.manual_seed(0)
    few, fewer = arguments.pykeen_triples, max(1, arguments.pykeen_triples // 20)
    compare(setting, ComplEx(triples_factory=factory, embedding_dim=128), few, products=True)
    compare(setting, trained(setting, arguments.run), products=True)
    compare(setting, RotatE(triples_factory=factory, embedding_dim=128), fewer, products=False)
    compare_norms(graph)
    measure_memory(arguments.graph, graph)


def trained(setting: Setting, run: Path | None) -> RankedModel:
    """The best checkpoint of a run, or of a short training."""
    with TemporaryDirectory() as folder:
        if run is None:
            run = Path(folder) / "run"
            fitted = kp.fit("complex", setting.graph, run, **SHORT_TRAINING)
            print(f"training of {fitted.trained.epochs} epochs: {fitted.trained.seconds:.0f} s")
        return open_model(run, Opening(setting.graph, setting.ranked))


def compare(setting: Setting, model: Model | RankedModel, triples: int = 0, *, products: bool) -> None:
    """Ours on the whole setting; a PyKEEN model also against PyKEEN on some test triples, by query."""
    mine = model_of(model, setting.graph)
    rank_in(setting, mine, kp.Resources())  # compiles, and computes the hashes of graph and filter
    floors, times = [], []
    for _ in range(REPEATS):  # in turns, so that both see the same noise
        if products:
            floors.append(bare_products(setting, mine.scorer))
            time.sleep(PAUSE)
        start = time.perf_counter()
        rank_in(setting, mine, kp.Resources())
        times.append(time.perf_counter() - start)
    query, ranks = min(times) / setting.queries, rank_in(setting, mine, kp.Resources()).to_arrow()
    reals = mine.scorer.candidates("tail").shape[1]
    print(f"{mine.name}, {reals} reals, {_weights(mine)}: {min(times):.2f} s, {1e6 * query:.1f} us a query")
    if products:
        ratios = np.array(times) / np.array(floors)
        print(f"  bare products of the distinct queries {min(floors):.2f} s: {min(times) / min(floors):.2f} x")
        print(f"  neighbouring runs: {ratios.min():.2f} to {ratios.max():.2f} x")
        with float32_alone():
            seconds, other = best_of(REPEATS, lambda: rank_in(setting, mine, kp.Resources()))
        same = "the same" if other.to_arrow().equals(ranks) else "DIFFERENT"
        print(f"  without integers: {seconds:.2f} s, {seconds / min(times):.1f} x as long, {same} ranks")
    if isinstance(model, Model):
        peer = pykeen_query(setting, model, triples)
        print(f"  PyKEEN, automatic batch size, {triples:,} triples: {1e6 * peer:,.0f} us a query")
        print(f"  {peer / query:,.0f} x as long as ours")


@contextmanager
def float32_alone() -> Iterator[None]:
    """Dot products are computed in float32 first, as on CPUs without instructions for int16."""
    measured = int16_backend.is_worthwhile
    int16_backend.is_worthwhile = lambda: False
    try:
        yield
    finally:
        int16_backend.is_worthwhile = measured


def _weights(model: RankedModel) -> str:
    """Where the weights of a model come from, with its score if it was trained."""
    if model.training is None:
        return "random weights"
    best = model.training.checkpoints[0]
    return f"trained for {best.epoch} epochs (validation {model.training.selected_by} {best.score:.3f})"


def bare_products(setting: Setting, scorer: kp.EmbeddingScorer) -> float:
    """Seconds of nothing but the matrix products of the distinct queries, as large as BLAS likes them best."""
    parts = []
    for side in setting.ranked.sides:
        queries = setting.ranked.queries(side)
        parts.append(as_array(scorer.encode_queries(side, queries.given, queries.relation)))
    vectors, table = np.concatenate(parts), np.ascontiguousarray(as_array(scorer.candidates("tail")).T)
    # Written before, because the first write to new memory takes up to half as long again as the products.
    out = np.ones((PRODUCT_ROWS, table.shape[1]), dtype=np.float32)
    start = time.perf_counter()
    for first in range(0, len(vectors), PRODUCT_ROWS):
        some = vectors[first : first + PRODUCT_ROWS]
        np.matmul(some, table, out=out[: len(some)])
    return time.perf_counter() - start


def pykeen_query(setting: Setting, model: Model, triples: int) -> float:
    """Seconds that PyKEEN's evaluator takes for a query."""
    graph = setting.graph
    tensors = {split: torch.from_numpy(graph.triples(split).astype(np.int64)) for split in ("train", "valid", "test")}
    evaluator = RankBasedEvaluator(filtered=True)
    start = time.perf_counter()
    evaluator.evaluate(
        model,
        tensors["test"][:triples],
        additional_filter_triples=[tensors["train"], tensors["valid"], tensors["test"]],
        use_tqdm=False,
    )
    return (time.perf_counter() - start) / (2 * triples)


def compare_norms(graph: kp.KnowledgeGraph) -> None:
    """The compiled group norms in two threads against broadcasts in torch, which has as many."""
    rng = np.random.default_rng(0)
    table = rng.standard_normal((graph.num_entities, 256), dtype=np.float32)
    queries = rng.standard_normal((THREADS * 256, 256), dtype=np.float32)
    torch.set_num_threads(THREADS)
    for name, similarity, broadcast in NORMS:
        backend_for("cpu").scores(similarity, queries[:1], table[:1])  # compiles
        mine, _ = best_of(REPEATS, lambda s=similarity: _in_threads(s, queries, table))
        few = torch.from_numpy(queries[:BROADCAST])[:, None]
        peer, _ = best_of(2, lambda f=broadcast, q=few: f(q - torch.from_numpy(table)))
        query, other = mine / len(queries), peer / BROADCAST
        print(f"{name}: {1e6 * query:.0f} us a query; torch broadcast {1e6 * other:,.0f}: {other / query:.0f} x")


def _in_threads(similarity: kp.GroupNorm, queries: NDArray[np.float32], table: NDArray[np.float32]) -> None:
    backend = backend_for("cpu")
    parts = np.array_split(queries, THREADS)
    with ThreadPoolExecutor(THREADS) as pool:
        for start in range(0, len(table), 1024):
            list(pool.map(lambda part, s=start: backend.scores(similarity, part, table[s : s + 1024]), parts))


def measure_memory(name: str, graph: kp.KnowledgeGraph) -> None:
    """What ranking an embedding file takes, in a process of its own."""
    rng = np.random.default_rng(0)
    arrays = {
        "entity": rng.standard_normal((graph.num_entities, 256), dtype=np.float32),
        "relation": rng.standard_normal((graph.num_relations, 256), dtype=np.float32),
    }
    with TemporaryDirectory() as folder:
        path = Path(folder) / "complex.npz"
        write_embeddings(path, {"model": "ComplEx"}, arrays)
        result = subprocess.run(
            [sys.executable, "-c", _MEASURED, name, path, str(Path(__file__).parent)],
            check=True,
            capture_output=True,
            text=True,
        )
    before, peak = map(float, result.stdout.split())
    table = arrays["entity"].nbytes / MIB
    print(f"memory: table {table:.0f} MiB; process with the graph {before:.0f} MiB, peak {peak:.0f} MiB")


if __name__ == "__main__":
    main()
