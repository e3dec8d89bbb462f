"""What ranking by blocks and on Ray costs beyond the plain command, on a job of a minute or more.

Usage: python benchmarks/blocks.py [--model norm|dot] [--entities 160000] [--triples 160000] [--dimension 64]
       [--runs 1] [--ways blocks parts ray cluster]
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tempfile
import time
from functools import cache
from pathlib import Path
from statistics import median

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
    parser.add_argument("--runs", type=int, default=1, help="runs of each way in turn; ratios are those of medians")
    parser.add_argument("--ways", nargs="+", choices=[*WAYS][1:], default=[*WAYS][1:])
    arguments = parser.parse_args()
    ways = {way: run for way, run in WAYS.items() if way in ("plain", *arguments.ways)}
    if "cluster" in ways:
        cluster(arguments.workers)
    print(describe())
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        make(folder, arguments)
        seconds: dict[str, list[float]] = {way: [] for way in ways}
        for _ in range(arguments.runs):
            for way, run in ways.items():
                shutil.rmtree(folder / way, ignore_errors=True)
                start = time.perf_counter()
                run(folder, way, arguments.workers)
                seconds[way].append(time.perf_counter() - start)
                print(f"{way:>8}: {seconds[way][-1]:6.1f} s", flush=True)
        expected = (folder / "plain.parquet").read_bytes()
        for way in list(ways)[1:]:
            ratio = median(seconds[way]) / median(seconds["plain"])
            same = "the same bytes" if (folder / f"{way}.parquet").read_bytes() == expected else "OTHER BYTES"
            blocks = len(RankingDirectory.open(folder / way).plan.blocks)
            print(f"{way}: {ratio:.3f} x as long as the plain command, {blocks} blocks, {same}", flush=True)


def plain(folder: Path, way: str, workers: int) -> None:
    """The command without blocks."""
    ended(started(folder, "-o", f"{way}.parquet", "--threads", str(workers)))


def by_blocks(folder: Path, way: str, workers: int) -> None:
    """The command with blocks, in one process."""
    ended(started(folder, "--blocks", way, "-o", f"{way}.parquet", "--threads", str(workers)))


def in_parts(folder: Path, way: str, workers: int) -> None:
    """Parts at the same time, with a thread each, and the command that merges them."""
    parts = [f"{number}/{workers}" for number in range(1, workers + 1)]
    ended(*[started(folder, "--blocks", way, "--part", part, "--threads", "1") for part in parts])
    merge = [sys.executable, "-m", "kgprobe", "blocks", "merge", way, "-o", f"{way}.parquet"]
    subprocess.run(merge, cwd=folder, check=True, stderr=subprocess.DEVNULL)


def on_ray(folder: Path, way: str, workers: int) -> None:
    """Ray on this machine, its start and its end included."""
    ended(started(folder, "--ray", "--blocks", way, "-o", f"{way}.parquet"))


def on_cluster(folder: Path, way: str, workers: int) -> None:
    """A Ray cluster that is running, of a node with a CPU for each worker."""
    ended(started(folder, "--ray", cluster(workers), "--blocks", way, "-o", f"{way}.parquet"))


@cache
def cluster(nodes: int) -> str:
    """The address of a cluster of processes of this machine, which end with this process."""
    from ray.cluster_utils import Cluster

    running = Cluster(initialize_head=True, head_node_args={"num_cpus": 1})
    for _ in range(nodes - 1):
        running.add_node(num_cpus=1)
    running.wait_for_nodes()
    return str(running.address)


WAYS = {"plain": plain, "blocks": by_blocks, "parts": in_parts, "ray": on_ray, "cluster": on_cluster}


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


def ended(*processes: subprocess.Popen[bytes]) -> None:
    """Wait for processes, none of which may fail."""
    codes = [process.wait() for process in processes]
    if any(codes):
        raise SystemExit("a command failed")


if __name__ == "__main__":
    main()
