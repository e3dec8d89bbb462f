"""Reading and evaluating a rank file that is larger than one would like to hold in memory.

Run: python benchmarks/stream.py [--rows 40000000]
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

import numpy as np
import psutil
import pyarrow as pa
import pyarrow.parquet as pq

import kgprobe as kp
from kgprobe.ranks.metadata import RanksInfo
from machine import MIB, describe, peak_memory

METRICS = ["MRR", "Hits@10", "AMRI", "PROBE(alpha=0.5,beta=0.4)", "PROBE(alpha=0,beta=0.8)", "ZPROBE(alpha=1,beta=0)"]

_PART = 1 << 20


def write(path: Path, rows: int) -> None:
    """Queries over a graph of a million entities with a power law of degrees."""
    rng = np.random.default_rng(0)
    degree = np.maximum(1, (100 / (rng.random(1_000_000) + 1e-3)).astype(np.int64))
    total = degree.sum()
    schema = pa.schema(
        {name: pa.int32() for name in ("head", "relation", "tail", "candidates")}
        | {"side": pa.dictionary(pa.int8(), pa.string()), "rank": pa.float32()}
        | {"entity_popularity": pa.float64(), "relation_popularity": pa.float64()},
        metadata=RanksInfo(model="random").to_metadata(),
    )
    with pq.ParquetWriter(path, schema, compression="zstd") as writer:
        for start in range(0, rows, _PART):
            n = min(_PART, rows - start)
            tail = rng.integers(0, 1_000_000, n)
            relation = rng.integers(0, 500, n)
            candidates = 1_000_000 - rng.integers(0, 2_000, n)
            rank = np.minimum(np.floor(np.exp(rng.uniform(0, 13.8, n))), candidates)
            share = (1 + (tail * 31 + relation * 17) % degree[tail]) / degree[tail]
            columns = {
                "head": np.arange(start, start + n),
                "relation": relation,
                "tail": tail,
                "candidates": candidates,
                "side": pa.DictionaryArray.from_arrays(pa.array(np.ones(n, dtype=np.int8)), ["head", "tail"]),
                "rank": rank,
                "entity_popularity": degree[tail] / total,
                "relation_popularity": share,
            }
            arrays = [pa.array(columns[f.name]).cast(f.type) for f in schema]
            writer.write_table(pa.Table.from_arrays(arrays, schema=schema))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=40_000_000)
    options = parser.parse_args()
    print(describe())
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "random.parquet"
        write(path, options.rows)
        size = path.stat().st_size
        before = psutil.Process().memory_info().rss / MIB
        start = time.perf_counter()
        growth, values = peak_memory(lambda: kp.evaluate(kp.RankFile(path), METRICS))
        seconds = time.perf_counter() - start
        start = time.perf_counter()
        for _ in pq.ParquetFile(path, pre_buffer=False).iter_batches(batch_size=1 << 17):
            pass
        reading = time.perf_counter() - start
    print(f"{options.rows:,} rows, {size / MIB:.0f} MiB, {size / options.rows:.1f} bytes a row")
    print(f"bare reading {reading:.1f} s; checking and evaluating {len(METRICS)} metrics {seconds:.1f} s", end=" ")
    print(f"= {seconds / reading:.1f}x, {options.rows / seconds / 1e6:.1f} M rows/s")
    print(f"peak memory of the process {before + growth:.0f} MiB, of which evaluation {growth:.0f} MiB")
    for name, value in values.items():
        print(f"  {name} = {value:.6f}")


if __name__ == "__main__":
    main()
