"""Graphs of a hundred million triples: time and memory per triple to read, filter, hash and count them.

A graph with a power law of degrees is written as memory-mapped arrays; every measurement is a process of its own. With
``--before``, the `src` of another version is measured on the same files, side by side.

Usage: python benchmarks/large_graph.py --folder DIR [--entities 20000000] [--millions 12.5 25 50 100] [--before DIR]
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from numpy.typing import NDArray

from machine import describe

GIB = 1 << 30
_PART = 1 << 22
_HELD_OUT = 20_000
_STEPS = ("load", "content hash", "filter", "filter hash", "popularity")
_FREEBASE = {"triples": 338_586_276, "entities": 86_054_151, "relations": 14_824}


def triples(count: int, entities: int, relations: int, seed: int) -> Iterator[NDArray[np.int32]]:
    """Triples in parts: the chance of an id falls with its place in a permutation, as in Zipf's law."""
    rng = np.random.default_rng(seed)
    spread = next(step for step in range(entities * 2 // 3, entities) if np.gcd(step, entities) == 1)
    for start in range(0, count, _PART):
        rows = min(_PART, count - start)
        ends = (entities ** rng.random((2, rows))).astype(np.int64) * spread % entities
        relation = (relations ** rng.random(rows)).astype(np.int64) % relations
        yield np.column_stack([ends[0], relation, ends[1]]).astype(np.int32)


def write_graph(folder: Path, count: int, entities: int, relations: int) -> None:
    """The graph as train.npy, test.npy and graph.json. Smaller graphs are the first triples of larger ones."""
    folder.mkdir()
    for split, rows, seed in (("train", count, 1), ("test", _HELD_OUT, 2)):
        array = np.lib.format.open_memmap(folder / f"{split}.npy", "w+", np.int32, (rows, 3))
        for start, part in zip(range(0, rows, _PART), triples(rows, entities, relations, seed), strict=True):
            array[start : start + len(part)] = part
        array.flush()
    (folder / "graph.json").write_text(json.dumps({"num_entities": entities, "num_relations": relations}))


def child(options: argparse.Namespace) -> None:
    """What `rank` does with a graph before it scores, or another use of it: CPU seconds and peak memory as JSON."""
    resource.setrlimit(resource.RLIMIT_AS, (int(options.limit * GIB),) * 2)
    from kgprobe.graph import KnowledgeGraph, load_graph, statistics
    from kgprobe.predict.setting import Setting

    _ = Setting.build(KnowledgeGraph.from_triples(train=[[0, 0, 1]], test=[[0, 0, 2]])).table  # imports what is used
    measured: dict[str, Any] = {}

    def step(name: str, work: Callable[[], Any]) -> Any:
        start = time.process_time()
        result = work()
        measured[name] = time.process_time() - start
        return result

    kind, folder = options.child, options.folder
    if kind == "before":  # a version that does not read arrays
        sizes = json.loads((folder / "graph.json").read_text())
        splits = {split: np.load(folder / f"{split}.npy", mmap_mode="r") for split in ("train", "test")}
        graph = step("load", lambda: KnowledgeGraph("g", **sizes, splits=splits))
    else:
        graph = step("load", lambda: load_graph(folder))
    if kind in ("rank", "before"):
        step("content hash", lambda: graph.content_hash)
        ranked = graph.triples("test")[: options.queries]
        setting = step("filter", lambda: Setting.build(graph, triples=ranked))
        step("filter hash", lambda: setting.known.hash)
        step("popularity", lambda: setting.table)
        known = setting.known.known
        measured["answers"] = len(known.tails.values) + len(known.heads.values)
    elif kind != "load":
        work = {
            "statistics": lambda: statistics(graph),
            "all answers": graph.known_answers,
            "all pairs": lambda: graph.popularity,
            "write Parquet": lambda: graph.write(folder / "parquet"),
        }
        step(kind, work[kind])
    with open("/proc/self/status") as file:
        peak = next(int(line.split()[1]) * 1024 for line in file if line.startswith("VmHWM"))
    print(json.dumps(measured | {"peak": peak}))


def measure(kind: str, folder: Path, options: argparse.Namespace, queries: int = 0, source: Path | None = None) -> dict:
    """The measurements of a process, of this version or of that in another folder; empty if it failed."""
    own = Path(__file__).resolve().parent
    paths = [str(source or own.parent / "src"), str(own)]
    command = [sys.executable, __file__, "--folder", str(folder), "--child", kind, "--queries", str(queries)]
    done = subprocess.run(
        [*command, "--limit", str(options.limit)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
        capture_output=True,
        text=True,
    )
    if done.returncode:
        print(f"  {kind}: failed within {options.limit:g} GiB: {done.stderr.strip().splitlines()[-1][:100]}")
        return {}
    measured: dict[str, Any] = json.loads(done.stdout)
    return measured


def show(name: str, count: int, found: Mapping[str, Any], first: Mapping[str, Any], least: int) -> None:
    """The costs per triple, and their ratios to those of the smallest graph."""
    if not found:
        return
    costs = []
    for step in (step for step in found if step not in ("peak", "answers")):
        each = found[step] / count * 1e9
        ratio = f" ({each / (first[step] / least * 1e9):.2f}x)" if first else ""
        costs.append(f"{step} {found[step]:.2f} s = {each:.1f} ns{ratio}")
    print(
        f"  {name}: {', '.join(costs)}; peak {found['peak'] / GIB:.2f} GiB = {found['peak'] / count:.1f} B", flush=True
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, required=True, help="for temporary files, which are removed")
    parser.add_argument("--entities", type=int, default=20_000_000)
    parser.add_argument("--relations", type=int, default=1000)
    parser.add_argument("--millions", type=float, nargs="+", default=[12.5, 25, 50, 100], help="of triples")
    parser.add_argument("--limit", type=float, default=12, help="GiB of address space of each process")
    parser.add_argument("--before", type=Path, help="the src folder of another version")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    parser.add_argument("--queries", type=int, default=0, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        child(options)
        return
    print(describe())
    print(
        f"{options.entities:,} entities, {options.relations:,} relations; CPU seconds; CPU time and memory per triple",
        flush=True,
    )
    counts = [int(million * 1e6) for million in options.millions]
    runs: dict[tuple[str, int], dict[str, Any]] = {}
    with TemporaryDirectory(dir=options.folder) as name:
        for count in counts:
            folder = Path(name) / str(count)
            write_graph(folder, count, options.entities, options.relations)
            print(f"{count:,} triples")
            for queries in (500, _HELD_OUT):
                found = runs[f"{queries:,}", count] = measure("rank", folder, options, queries)
                show(f"filter of {queries:,} test triples", count, found, runs[f"{queries:,}", counts[0]], counts[0])
                print(f"    {found.get('answers', 0):,} known answers", flush=True)
            for kind in ("statistics", "all answers", "all pairs", "write Parquet"):
                found = runs[kind, count] = measure(kind, folder, options)
                show(kind, count, found, runs[kind, counts[0]], counts[0])
            found = runs["Parquet", count] = measure("load", folder / "parquet", options)
            show("from Parquet", count, found, runs["Parquet", counts[0]], counts[0])
            if options.before:
                before = measure("before", folder, options, 500, options.before)
                show("version before, 500 test triples", count, before, before, count)
                compare(before, runs["500", count])
            shutil.rmtree(folder)
        folder = Path(name) / "wide"
        write_graph(folder, counts[0], _FREEBASE["entities"], _FREEBASE["relations"])
        wide = measure("rank", folder, options, 500)
        print(f"{counts[0]:,} triples of {_FREEBASE['entities']:,} entities, {_FREEBASE['relations']:,} relations")
        show("filter of 500 test triples", counts[0], wide, runs["500", counts[0]], counts[0])
    arithmetic(runs, counts, wide, options)


def compare(before: Mapping[str, Any], now: Mapping[str, Any]) -> None:
    """How many times the time and memory of this version the other one took."""
    if before:
        seconds = [sum(found[step] for step in _STEPS) for found in (before, now)]
        peaks = [found["peak"] for found in (before, now)]
        print(
            f"    before / now: {seconds[0] / seconds[1]:.1f}x the time, {peaks[0] / peaks[1]:.1f}x the memory",
            flush=True,
        )


def arithmetic(
    runs: Mapping[tuple[str, int], Mapping[str, Any]],
    counts: list[int],
    wide: Mapping[str, Any],
    options: argparse.Namespace,
) -> None:
    """What Freebase takes by the bytes per triple and per entity, and by the seconds of a graph with as many ids."""
    small, middle, large = (runs["500", count] for count in (counts[0], counts[-2], counts[-1]))
    per_triple = (large["peak"] - middle["peak"]) / (counts[-1] - counts[-2])
    per_entity = (wide["peak"] - small["peak"]) / (_FREEBASE["entities"] - options.entities)
    fixed = large["peak"] - per_triple * counts[-1] - per_entity * options.entities
    peak = fixed + per_triple * _FREEBASE["triples"] + per_entity * _FREEBASE["entities"]
    seconds = sum(wide[step] for step in _STEPS) / counts[0] * _FREEBASE["triples"]
    print(f"peak = {fixed / GIB:.2f} GiB + {per_triple:.1f} B x triples + {per_entity:.1f} B x entities")
    print(
        f"Freebase, {_FREEBASE['triples']:,} triples x {_FREEBASE['entities']:,} entities, 500 test triples: ", end=""
    )
    print(f"{peak / GIB:.1f} GiB, {seconds:.0f} s")


if __name__ == "__main__":
    main()
