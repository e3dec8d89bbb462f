"""`kgprobe compare` and `kgprobe report` of two large rank files: CPU time and peak memory, against a plain bootstrap.

Run: python benchmarks/large_files.py [--rows 2000000]
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import kgprobe as kp
from kgprobe.ranks import RanksInfo
from machine import MIB, describe

_ENTITIES, _RELATIONS, _PART = 2_500_000, 800, 1 << 19
_DRAWS, _FEW = 10_000, 5


def write(path: Path, rows: int, seed: int) -> None:
    """Both sides of triples of a large graph; all models share the queries and agree in part on their ranks."""
    shared, own = np.random.default_rng(1), np.random.default_rng(seed)
    writer = None
    for start in range(0, rows // 2, _PART):
        triple = np.arange(start, min(start + _PART, rows // 2))
        n = len(triple)
        head = (_ENTITIES ** shared.random(n)).astype(np.int64) // 4 * 4 + triple // _ENTITIES
        relation = (_RELATIONS ** shared.random(n)).astype(np.int64)
        tail = triple * 1_048_573 % _ENTITIES
        target = np.stack([head, tail], axis=1).ravel()
        count = np.maximum(1, 5000 // (1 + target % 4999))
        candidates = _ENTITIES - 1 - np.minimum(3 * shared.pareto(1.1, 2 * n), _ENTITIES // 2).astype(np.int64)
        skill = 0.85 * shared.random(2 * n) + 0.15 * own.random(2 * n)
        table = pa.table(
            {
                "head": head.repeat(2),
                "relation": relation.repeat(2),
                "tail": tail.repeat(2),
                "side": pa.DictionaryArray.from_arrays(np.tile(np.int8([0, 1]), n), ["head", "tail"]),
                "rank": np.floor(np.minimum(np.exp(12 * skill**2), candidates)),
                "candidates": candidates,
                "ties": np.zeros(2 * n, dtype=np.int64),
                "entity_popularity": count / 120_000_000,
                "relation_popularity": (1 + target % 97 * (count - 1) // 97) / count,
            }
        ).replace_schema_metadata(RanksInfo(model=path.stem).to_metadata())
        writer = writer or pq.ParquetWriter(path, table.schema, compression="zstd")
        writer.write_table(table, row_group_size=1 << 20)
    assert writer is not None
    writer.close()


def plain_bootstrap(path: Path) -> float:
    """CPU seconds of the bootstrap of one mean by a loop that draws triples; measured on a few draws."""
    score = (1 / kp.read_ranks(path).rank).reshape(-1, 2).mean(axis=1)
    rng = np.random.default_rng(0)
    start = time.process_time()
    for _ in range(_FEW):
        score[rng.integers(len(score), size=len(score))].mean()
    return (time.process_time() - start) * _DRAWS / _FEW


def run(*arguments: str | Path) -> tuple[float, float, float]:
    """Wall-clock seconds, CPU seconds and peak memory in MiB of a command in a process of its own."""
    start = time.perf_counter()
    process = subprocess.Popen(
        [sys.executable, "-m", "kgprobe", *map(str, arguments)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    _, status, usage = os.wait4(process.pid, 0)
    if status:
        raise SystemExit(f"kgprobe {arguments[0]} failed")
    return time.perf_counter() - start, usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024 / MIB


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=2_000_000)
    options = parser.parse_args()
    print(describe())
    with tempfile.TemporaryDirectory() as folder:
        paths = [Path(folder) / "one.parquet", Path(folder) / "other.parquet"]
        for seed, path in enumerate(paths):
            write(path, options.rows, seed + 5)
        plain = plain_bootstrap(paths[0])
        for name, *rest in (("compare",), ("report", "-o", Path(folder) / "page.html"), ("check",), ("eval",)):
            wall, cpu, peak = run(name, *paths, *rest)
            print(f"{name:8s} {options.rows:,} rows each: {wall:6.1f} s, {cpu:6.1f} s of CPU, {peak:6,.0f} MiB", end="")
            print(f"; {plain / cpu:.0f}x a plain bootstrap of one metric of one model" if name == "compare" else "")


if __name__ == "__main__":
    main()
