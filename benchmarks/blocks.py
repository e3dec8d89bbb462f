"""What ranking by blocks and on Ray costs beyond the plain command, on a job of a minute or more.

Usage: python benchmarks/blocks.py [--model norm|dot] [--entities 160000] [--triples 160000] [--dimension 64]
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

import kgprobe as kp
from kgprobe.predict.adapters.embedding_files import write_embeddings
from kgprobe.predict.blocks.ranking_directory import RankingDirectory
from machine import describe

RELATIONS = 20

HEADERS = {"norm": {"model": "TransE", "p": 1}, "dot": {"model": "DistMult"}}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", choices=HEADERS, default="norm")
    parser.add_argument("--entities", type=int, default=160_000)
    parser.add_argument("--triples", type=int, default=160_000)
    parser.add_argument("--dimension", type=int, default=64)
    parser.add_argument("--workers", type=int, default=2, help="parts with a thread each")
    arguments = parser.parse_args()
    print(describe())
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        make(folder, arguments)
        shared = ["--threads", str(arguments.workers)]
        plain = timed(folder, "plain", "-o", "plain.parquet", *shared)
        expected = (folder / "plain.parquet").read_bytes()

        seconds = timed(folder, "blocks", "--blocks", "kept", "-o", "blocks.parquet", *shared)
        show(folder, "blocks, one process", "blocks.parquet", "kept", seconds / plain, expected)

        start = time.perf_counter()
        parts = [
            started(folder, "--blocks", "parts", "--part", f"{i}/{arguments.workers}", "--threads", "1")
            for i in range(1, arguments.workers + 1)
        ]
        if any(part.wait() for part in parts):
            raise SystemExit("a part failed")
        merge = [sys.executable, "-m", "kgprobe", "blocks", "merge", "parts", "-o", "parts.parquet"]
        subprocess.run(merge, cwd=folder, check=True, stderr=subprocess.DEVNULL)
        seconds = time.perf_counter() - start
        show(folder, f"{arguments.workers} parts at the same time", "parts.parquet", "parts", seconds / plain, expected)

        seconds = timed(folder, "ray", "--ray", "--blocks", "ray", "-o", "ray.parquet")
        show(folder, "Ray on this machine, its start included", "ray.parquet", "ray", seconds / plain, expected)


def make(folder: Path, arguments: argparse.Namespace) -> None:
    """Write the graph and the model."""
    rng = np.random.default_rng(0)
    n, entities = arguments.triples, arguments.entities
    train, test = (
        np.column_stack([rng.integers(0, size, n) for size in (entities, RELATIONS, entities)]) for _ in range(2)
    )
    graph = kp.KnowledgeGraph.from_triples(train=train, test=test, num_entities=entities, num_relations=RELATIONS)
    graph.write(folder / "graph")
    drawn = {name: rng.standard_normal((rows, arguments.dimension), dtype=np.float32)
             for name, rows in (("entity", entities), ("relation", RELATIONS))}  # fmt: skip
    write_embeddings(folder / "model.npz", HEADERS[arguments.model], drawn)


def started(folder: Path, *options: str) -> subprocess.Popen[bytes]:
    """The command in a process of its own."""
    command = [sys.executable, "-m", "kgprobe", "rank", "model.npz", "--graph", "graph", *options]
    return subprocess.Popen(command, cwd=folder, stderr=subprocess.DEVNULL)


def timed(folder: Path, what: str, *options: str) -> float:
    """Seconds of a whole command."""
    start = time.perf_counter()
    if started(folder, *options).wait():
        raise SystemExit(f"{what} failed")
    seconds = time.perf_counter() - start
    print(f"{what:>8}: {seconds:6.1f} s", flush=True)
    return seconds


def show(folder: Path, what: str, file: str, ranking: str, ratio: float, expected: bytes) -> None:
    """Print the ratio to the plain command, and whether the bytes are the same."""
    same = "the same bytes" if (folder / file).read_bytes() == expected else "OTHER BYTES"
    blocks = len(RankingDirectory.open(folder / ranking).plan.blocks)
    print(f"{what}: {ratio:.2f} x as long as the plain command, {blocks} blocks, {same}", flush=True)


if __name__ == "__main__":
    main()
