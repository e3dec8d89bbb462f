"""A ranking of a graph of a hundred million triples by embeddings that stay in their files, in bounded memory.

Usage: python benchmarks/large_ranking.py [--entities 20000000] [--triples 100000000] [--dimension 64] [--queries 500]

It writes a graph of NumPy arrays and a DistMult model in the files of DGL-KE, ranks the model by blocks in a process of
its own, and compares the rate with that of bare products of float32. Ten ranks are checked against float64.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

import kgprobe as kp
from machine import describe
from popularity import RELATIONS, power_law_triples

CHUNK = 1 << 20

PRODUCT_QUERIES, PRODUCT_ROWS = 512, 1 << 16

CHECKED = 10


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--entities", type=int, default=20_000_000)
    parser.add_argument("--triples", type=int, default=100_000_000)
    parser.add_argument("--dimension", type=int, default=64)
    parser.add_argument("--queries", type=int, default=500)
    parser.add_argument("--folder", type=Path, help="where the files are made; they are removed at the end")
    parser.add_argument("--device", default="cpu")
    arguments = parser.parse_args()
    print(describe())
    with tempfile.TemporaryDirectory(dir=arguments.folder) as name:
        folder = Path(name)
        start = time.perf_counter()
        make_graph(folder / "graph", arguments)
        make_model(folder / "model", arguments)
        size = (folder / "model" / "large_DistMult_entity.npy").stat().st_size / 2**30
        print(f"files: {time.perf_counter() - start:.0f} s; embeddings {size:.1f} GiB", flush=True)
        seconds, peak = ranked(folder, arguments.device)
        print(f"kgprobe rank: {seconds:.1f} s, peak {peak:.2f} GiB, pages of mapped files included", flush=True)
        counting = counted(folder)
        table = np.load(folder / "model" / "large_DistMult_entity.npy", mmap_mode="r")
        ranks = kp.read_ranks(folder / "ranks.parquet")
        distinct = len(np.unique(np.column_stack([given(ranks), ranks.relation, ranks.predicts_tail]), axis=0))
        mine, bare = 2 * distinct * table.size / counting / 1e9, product_rate(table)
        print(f"{distinct} distinct queries x {len(table):,} entities counted in {counting:.1f} s: {mine:.0f} GFLOP/s, "
              f"{mine / bare:.2f} of {bare:.0f} of bare products that read the file")  # fmt: skip
        print(f"{check(folder, ranks, table)} of {CHECKED} unfiltered ranks differ from float64")


def make_graph(folder: Path, arguments: argparse.Namespace) -> None:
    """Write the triples as NumPy arrays, a chunk at a time."""
    folder.mkdir()
    sizes = {"train": arguments.triples, "test": arguments.queries // 2}
    for seed, (split, rows) in enumerate(sizes.items()):
        array = np.lib.format.open_memmap(folder / f"{split}.npy", "w+", np.int32, (rows, 3))
        for first in range(0, rows, 10 * CHUNK):
            count = min(10 * CHUNK, rows - first)
            array[first : first + count] = power_law_triples(
                count, arguments.entities, seed=1000 * seed + first // CHUNK
            )
        array.flush()
    about = {"num_entities": arguments.entities, "num_relations": RELATIONS}
    (folder / "graph.json").write_text(json.dumps(about), encoding="utf-8")


def make_model(folder: Path, arguments: argparse.Namespace) -> None:
    """Write the files of a DGL-KE model, a chunk at a time."""
    folder.mkdir()
    rng = np.random.default_rng(0)
    for name, rows in (("entity", arguments.entities), ("relation", RELATIONS)):
        shape = (rows, arguments.dimension)
        array = np.lib.format.open_memmap(folder / f"large_DistMult_{name}.npy", "w+", np.float32, shape)
        for first in range(0, rows, CHUNK):
            part = array[first : first + CHUNK]
            part[:] = rng.standard_normal(part.shape, dtype=np.float32)
        array.flush()
    about = {"model": "DistMult", "emb_size": arguments.dimension, "dataset": "large", "gamma": 12.0}
    (folder / "config.json").write_text(json.dumps(about), encoding="utf-8")


def ranked(folder: Path, device: str) -> tuple[float, float]:
    """Seconds and peak memory in GiB of the command."""
    words = ["rank", "model", "-g", "graph", "--blocks", "ranking", "-o", "ranks.parquet", "--device", device]
    code = (
        "import sys; sys.argv = ['kgprobe', *sys.argv[1:]]\n"
        "from kgprobe.cli.main import main\n"
        "try:\n"
        "    main()\n"
        "finally:\n"
        "    print(open('/proc/self/status').read(), flush=True)\n"
    )
    start = time.perf_counter()
    done = subprocess.run([sys.executable, "-c", code, *words], cwd=folder, check=True, capture_output=True, text=True)
    seconds = time.perf_counter() - start
    match = re.search(r"VmHWM:\s+(\d+) kB", done.stdout)
    assert match is not None
    return seconds, int(match[1]) / 2**20


def counted(folder: Path) -> float:
    """Seconds that the blocks took, one after the other."""
    from kgprobe.predict.blocks.ranking_directory import RankingDirectory

    directory = RankingDirectory.open(folder / "ranking")
    print(f"{len(directory.plan.blocks)} blocks", flush=True)
    return sum(directory.blocks.record(block).seconds for block in directory.plan.blocks)


def product_rate(table: NDArray[np.float32]) -> float:
    """GFLOP/s of nothing but products of float32 with pieces of the file."""
    queries = np.random.default_rng(1).standard_normal((PRODUCT_QUERIES, table.shape[1]), dtype=np.float32)
    out = np.empty((PRODUCT_QUERIES, PRODUCT_ROWS), dtype=np.float32)
    start = time.perf_counter()
    for first in range(0, len(table), PRODUCT_ROWS):
        some = np.asarray(table[first : first + PRODUCT_ROWS])
        np.matmul(queries, some.T, out=out[:, : len(some)])
    return 2 * PRODUCT_QUERIES * table.size / (time.perf_counter() - start) / 1e9


def given(ranks: kp.Ranks) -> NDArray[np.int64]:
    """The entity that each query gives."""
    return np.where(ranks.predicts_tail, ranks.head, ranks.tail)


def check(folder: Path, ranks: kp.Ranks, table: NDArray[np.float32]) -> int:
    """How many of the first ranks do not lie where float64 scores of all entities put them, known answers left out."""
    relations = np.load(folder / "model" / "large_DistMult_relation.npy")
    rows = np.linspace(0, len(ranks) - 1, CHECKED).astype(int)
    query = table[given(ranks)[rows]].astype(np.float64) * relations[ranks.relation[rows]]
    own = np.einsum("ij,ij->i", query, table[ranks.target[rows]])
    better, near = np.zeros(CHECKED, int), np.zeros(CHECKED, int)
    for first in range(0, len(table), CHUNK // 4):
        scores = query @ table[first : first + CHUNK // 4].T.astype(np.float64)
        tolerance = 2.0**-22 * np.abs(own)[:, None]  # canonical scores are rounded to float32
        better += (scores > own[:, None] + tolerance).sum(axis=1)
        near += (np.abs(scores - own[:, None]) <= tolerance).sum(axis=1)
    known = len(table) - ranks.candidates[rows]  # known answers may have been ahead
    found = ranks.rank[rows] - 1
    return int(((found > better + near) | (found < better - known)).sum())


if __name__ == "__main__":
    main()
