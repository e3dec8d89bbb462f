"""Exact ranking on an NVIDIA GPU, against the torch backend, PyKEEN and the limits of the device, in one run.

Usage: PYTHONPATH=src python benchmarks/gpu_ranking.py [--only PART ...] [--mapped GB] [--runs RUN ...] [--tiny]

Times are medians of 5 runs after a first one, whose time is printed apart: it includes compilation, unless the kernels
are in Triton's cache. The queries and the filter of a setting are kept from run to run. ``--tiny`` runs all parts in
Triton's interpreter with sizes that show only that they work; TRITON_INTERPRET=1 must be set.
"""

from __future__ import annotations

import argparse
import math
import os
import platform
import statistics
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import numpy as np
import torch
import triton
from torch import Tensor

from gpu_large_tables import streamed, whole
from gpu_models import Encoded, Rotated, first_targets, generated_graph, on_host, trainable
from gpu_soundness import NORMS, soundness, used_places
from kgprobe.graph import load_graph
from kgprobe.predict import Model, Opening, Setting, rank_in
from kgprobe.predict.adapters.opening import FunctionScorer, model_of, open_model
from kgprobe.predict.backends import backend as backends
from kgprobe.predict.backends import triton_backend
from kgprobe.predict.backends.fused_counts import FusedCount, _DotTable, _NormTable
from kgprobe.predict.backends.triton_backend import Tile, Tiles, TritonBackend
from kgprobe.predict.scorers import Dot, EmbeddingScorer, Similarity
from kgprobe.resources import Resources
from kgprobe.train.fitting import fit
from kgprobe.train.validation import Validation


@dataclass(frozen=True)
class Sizes:
    """How large the parts are; pairs of numbers are rows (queries or facts) and entities."""

    repeats: int = 5
    product: int = 8192
    copied: int = 4 << 30  # bytes
    dimension: int = 256  # of the models of the benchmark graph
    large_dimension: int = 128  # of all larger tables
    passes: tuple[int, int] = (40_960, 2_500_000)
    pass_dimensions: tuple[int, ...] = (128, 512)
    norms: tuple[int, int] = (4096, 262_144)
    generated: tuple[int, int] = (20_000, 2_500_000)
    filtered: int = 8_000_000
    whole: tuple[int, int] = (20_000, 86_000_000)
    step: int = 4_000_000  # entities that are counted at a time
    checked: tuple[int, int] = (1024, 12_288)  # in each case of the soundness check
    checked_dimensions: tuple[int, ...] = (128, 200, 512)
    pykeen: int = 5000  # triples
    memory: int = 8 << 30
    streamed: tuple[int, int] = (5000, 24_000_000)
    budgets: tuple[int, ...] = (8 << 30, 1 << 30, 256 << 20)


TINY = Sizes(
    1, 64, 1 << 16, 16, 8, (32, 100), (8,), (32, 100), (10, 200), 300, (16, 4200), 4160, (16, 96), (16,), 20, 64 << 20,
    (10, 200), (64 << 20, 1 << 20),
)  # fmt: skip

SMALL = Tiles(*6 * [Tile(16, 32, 4)], counting=3, settling=2, many=48)


class Measured(NamedTuple):
    """The median in seconds, the time of the first run, and the last result."""

    seconds: float
    first: float
    result: Any


class Bench:
    """The device, the sizes, and what several parts measure or make."""

    def __init__(self, arguments: argparse.Namespace) -> None:
        self.arguments, self.sizes = arguments, TINY if arguments.tiny else Sizes()
        self.place = "cpu" if arguments.tiny else "cuda"
        ours = "interpreted" if arguments.tiny else "cuda"
        self.ours = Resources(device=ours, memory=self.sizes.memory)
        self.before = Resources(device=f"torch:{self.place}", memory=self.sizes.memory)
        self.backend: Any = backends.backend_for(ours)
        if not isinstance(self.backend, TritonBackend):
            raise SystemExit(f"the Triton backend does not run here: found {type(self.backend).__name__}")
        self.generator = torch.Generator(self.place).manual_seed(0)

    def synchronize(self) -> None:
        """Wait for the device."""
        if self.place == "cuda":
            torch.cuda.synchronize()

    def measured(self, work: Callable[[], Any]) -> Measured:
        """Run a first time, and then as often as the sizes say."""
        seconds = []
        for _ in range(1 + self.sizes.repeats):
            self.synchronize()
            start = time.perf_counter()
            result = work()
            self.synchronize()
            seconds.append(time.perf_counter() - start)
        return Measured(statistics.median(seconds[1:]), seconds[0], result)

    def normal(self, *shape: int) -> Tensor:
        """Random float32 numbers on the device."""
        return torch.randn(shape, device=self.place, generator=self.generator)

    def uniform(self, low: float, high: float, *shape: int) -> Tensor:
        """Random float64 numbers on the device."""
        drawn = torch.rand(shape, device=self.place, generator=self.generator, dtype=torch.float64)
        return low + (high - low) * drawn

    def chosen(self, below: int, number: int) -> Tensor:
        """Random integers on the device."""
        return torch.randint(below, (number,), device=self.place, generator=self.generator)

    def asked(self, targets: Tensor, like_a_model: bool) -> Tensor:
        """Queries: noise, or noise with a share of the target, so that ranks are spread as those of a trained model."""
        noise = self.normal(*targets.shape)
        if not like_a_model:
            return noise
        share = self.uniform(0.1, 0.9, len(targets), 1).float() * math.sqrt(128 / targets.shape[1])
        share[::10] = 0
        return noise.addcmul_(share, targets)

    def counter(self, similarity: Similarity, queries: Tensor, targets: Tensor) -> FusedCount:
        """What counts one target for each query, with as much memory for lists as the engine gives."""
        every = torch.arange(len(queries), dtype=torch.int32, device=self.place)
        return FusedCount(self.backend, similarity, queries, every, targets, self.sizes.memory // 4)

    def product_rate(self, dtype: torch.dtype) -> float:
        """FLOP/s of a product of square matrices of random numbers."""
        size = self.sizes.product
        one, other = (self.normal(size, size).to(dtype) for _ in range(2))
        return 2 * size**3 / self.measured(lambda: one @ other).seconds

    @cached_property
    def short_rate(self) -> float:
        """FLOP/s of bfloat16 products, the limit of dot products."""
        return self.product_rate(torch.bfloat16)

    @cached_property
    def setting(self) -> Setting:
        """The test triples of the benchmark graph."""
        if self.arguments.tiny:
            return Setting.build(generated_graph(20, 20, 60))
        return Setting.build(load_graph(self.arguments.graph))


def limits(bench: Bench) -> None:
    """What the device does at most."""
    full = bench.product_rate(torch.float32)
    print(f"products of {bench.sizes.product:,}: bf16 {bench.short_rate / 1e12:.1f}, float32 {full / 1e12:.1f} TFLOP/s")
    source = torch.empty(bench.sizes.copied, dtype=torch.uint8, device=bench.place)
    target = torch.empty_like(source)
    inside = 2 * len(source) / bench.measured(lambda: target.copy_(source)).seconds
    pinned = torch.empty(len(source) // 4, dtype=torch.uint8, pin_memory=bench.place == "cuda")
    there = target[: len(pinned)]
    inward = len(pinned) / bench.measured(lambda: there.copy_(pinned, non_blocking=True)).seconds
    print(f"copies: on the device {inside / 1e12:.2f} TB/s read and written, from the host {inward / 1e9:.1f} GB/s")


def graph(bench: Bench) -> None:
    """The benchmark graph: whole jobs from a model on the device to the rank table on the host."""
    setting, size = bench.setting, bench.sizes.dimension
    known = setting.graph
    print(f"{known.name}: {setting.queries:,} queries, {known.num_entities:,} entities, {size} reals, random weights")
    entities, relations = bench.normal(known.num_entities, size), bench.normal(known.num_relations, size)
    turns = bench.uniform(0, 2 * math.pi, known.num_relations, size // 2).float()
    circle = torch.stack([turns.cos(), turns.sin()], 2).flatten(1)
    compare(bench, setting, "ComplEx, Dot()", Rotated(Dot(), entities, relations))
    for similarity in NORMS:
        compare(bench, setting, f"rotated, {similarity}", Rotated(similarity, entities, circle))
    start = time.perf_counter()
    rank_in(Setting.build(known), Model("ComplEx", Rotated(Dot(), entities, relations)), bench.ours)
    print(f"  Dot() with a new setting, whose filter is built: {1e3 * (time.perf_counter() - start):.1f} ms")


def compare(bench: Bench, setting: Setting, name: str, scorer: EmbeddingScorer, *, placed: bool = True) -> None:
    """Ours, the torch backend on the same device, and the CPU on the same numbers; ``placed`` if they are there."""
    model = Model(name, scorer)
    ours = bench.measured(lambda: rank_in(setting, model, bench.ours).to_arrow())
    before = bench.measured(lambda: rank_in(setting, model, bench.before).to_arrow())
    start = time.perf_counter()
    host = rank_in(setting, on_host(model), Resources()).to_arrow()
    cpu = time.perf_counter() - start
    same = ", ".join(
        f"{'the same' if ours.result.equals(table) else 'DIFFERENT'} ranks as {other}"
        for other, table in (("torch", before.result), ("CPU", host))
    )
    pairs = setting.queries * setting.graph.num_entities / ours.seconds / 1e9
    print(f"  {name}: {1e3 * ours.seconds:.2f} ms, {pairs:.1f} G pairs/s (first run {ours.first:.2f} s); {same}")
    print(f"    torch {1e3 * before.seconds:.1f} ms, {before.seconds / ours.seconds:.1f} x; CPU once {cpu:.2f} s")
    if isinstance(scorer.similarity, Dot) and placed:
        bare = bare_products(bench, setting, scorer)
        print(f"    bare bf16 products {1e3 * bare:.2f} ms: ours takes {ours.seconds / bare:.2f} x as long")


def bare_products(bench: Bench, setting: Setting, scorer: EmbeddingScorer) -> float:
    """Seconds of the bfloat16 products of the distinct queries, in blocks whose scores are overwritten."""
    work = []
    for side in setting.ranked.sides:
        own = setting.ranked.queries(side)
        queries = torch.as_tensor(scorer.encode_queries(side, own.given, own.relation)).bfloat16()
        work.append((queries, torch.as_tensor(scorer.candidates(side)).bfloat16().split(1 << 16)))
    out = work[0][0].new_empty(max(len(queries) for queries, _ in work) * max(len(work[0][1][0]), 1))

    def products() -> None:
        for queries, parts in work:
            for part in parts:
                torch.mm(queries, part.T, out=out[: len(queries) * len(part)].view(len(queries), len(part)))

    return bench.measured(products).seconds


def models(bench: Bench) -> None:
    """Models that take time to encode queries, or candidates for every relation, with random weights."""
    for model in trainable(bench.setting.graph, bench.place, small=bench.arguments.tiny):
        ours, before = (
            bench.measured(partial(rank_in, bench.setting, model, how)) for how in (bench.ours, bench.before)
        )
        start = time.perf_counter()
        host = rank_in(bench.setting, on_host(model), Resources())
        cpu = time.perf_counter() - start
        # Where an encoder multiplies matrices, the last bit of a query depends on the number of queries in a batch.
        equal = [np.mean(ours.result.rank == other.rank) for other in (before.result, host)]
        print(f"  {model.name}: {1e3 * ours.seconds:.1f} ms (first run {ours.first:.2f} s)")
        print(f"    torch {1e3 * before.seconds:.0f} ms, {before.seconds / ours.seconds:.1f} x; CPU once {cpu:.1f} s")
        print(f"    equal ranks: torch {equal[0]:.4%}, CPU {equal[1]:.4%}")


def passes(bench: Bench) -> None:
    """The counting passes alone: no settling, no filter."""
    rows, columns = bench.sizes.passes
    for dimension in bench.sizes.pass_dimensions:
        table = bench.normal(columns, dimension)
        targets = table[bench.chosen(columns, rows)]
        for like_a_model in (True, False):
            counter = bench.counter(Dot(), bench.asked(targets, like_a_model), targets)
            made = bench.measured(partial(_DotTable, counter, table))
            kind = "like a model" if like_a_model else "random"
            print(f"{rows:,} x {columns:,}, d {dimension}, {kind}; table rounded in {1e3 * made.seconds:.1f} ms")
            for level, products in ((0, 1), (1, 3)):
                room = counter.room(columns, rows)
                done = bench.measured(partial(made.result.compare, counter._rows, level, room))
                rate = 2 * rows * columns * dimension * products / done.seconds
                print(
                    f"  {products} product(s): {1e3 * done.seconds:.1f} ms, {rate / 1e12:.0f} TFLOP/s, "
                    f"{rate / bench.short_rate:.2f} of the bf16 rate (first run {done.first:.2f} s); "
                    f"{unclear_text(done.result, columns)}"
                )
            del counter, made
    rows, columns = bench.sizes.norms
    table = bench.normal(columns, bench.sizes.large_dimension)
    targets = table[bench.chosen(columns, rows)]
    queries = bench.asked(targets, like_a_model=True)
    for similarity in NORMS:
        counter = bench.counter(similarity, queries, targets)
        compared = partial(_NormTable(counter, table).compare, counter._rows, 0, counter.room(columns, rows))
        done = bench.measured(compared)
        rate = rows * columns / done.seconds
        print(
            f"{similarity}, {rows:,} x {columns:,}, d {bench.sizes.large_dimension}: {rate / 1e9:.1f} G pairs/s, "
            f"{rate * bench.sizes.large_dimension / 1e12:.2f} T coordinates/s (first run {done.first:.2f} s); "
            f"{unclear_text(done.result, columns)}"
        )


def unclear_text(compared: tuple[Tensor, Tensor, Tensor], columns: int) -> str:
    """The share of unclear pairs by some of the rows, and the share of rows whose lists are full."""
    _, listed, found = compared
    some = slice(None, listed.shape[1], max(1, listed.shape[1] // 512))
    used = used_places(listed[:, some], found)
    entries = torch.where(used, found[: listed.shape[1]][some] & 0xFFFFFFFF, 0)
    entries = entries - (entries >> 1 & 0x55555555)  # counts the bits, first of pairs, then of fours, and so on
    entries = (entries & 0x33333333) + (entries >> 2 & 0x33333333)
    bits = (((entries + (entries >> 4)) & 0x0F0F0F0F) * 0x01010101 >> 24) & 0xFF
    full = (listed > found.shape[2]).any(0).float().mean().item()
    return (
        f"unclear and listed {bits.sum().item() / (len(bits) * columns):.4%}, lists of {full:.1%} of the rows are full"
    )


def generated(bench: Bench) -> None:
    """Whole jobs on a generated graph with a large filter, next to the bare products."""
    facts, entities = bench.sizes.generated
    setting = Setting.build(generated_graph(facts, entities, bench.sizes.filtered))
    table = bench.normal(entities, bench.sizes.large_dimension)
    print(f"{setting.queries:,} queries x {entities:,}, d {table.shape[1]}, {setting.known.triples:,} known triples")
    for like_a_model in (True, False):
        queries = {}
        for side in setting.ranked.sides:
            target = torch.from_numpy(first_targets(setting, side)).long()
            queries[side] = bench.asked(table[target.to(bench.place)], like_a_model)
        scorer = Encoded(Dot(), setting, queries, dict.fromkeys(queries, table))
        done = bench.measured(partial(rank_in, setting, Model("generated", scorer), bench.ours))
        bare = bare_products(bench, setting, scorer)
        kind, reciprocal = "like a model" if like_a_model else "random", (1 / done.result.rank).mean()
        print(
            f"  {kind}: {done.seconds:.3f} s (first run {done.first:.2f} s), bare bf16 products {bare:.3f} s, "
            f"{done.seconds / bare:.1f} x; mean of 1/rank {reciprocal:.2f}"
        )


def pykeen(bench: Bench) -> None:
    """PyKEEN's evaluator on the same device and model."""
    if find_spec("pykeen") is None:
        print("PyKEEN is not installed here, so it is not compared")
        return
    from pykeen.evaluation import RankBasedEvaluator
    from pykeen.models import ComplEx as PykeenComplEx
    from pykeen.triples import CoreTriplesFactory

    known, few = bench.setting.graph, bench.sizes.pykeen
    splits = {split: torch.from_numpy(known.triples(split).astype(np.int64)) for split in ("train", "valid", "test")}
    factory = CoreTriplesFactory(splits["train"], known.num_entities, known.num_relations)
    model = PykeenComplEx(triples_factory=factory, embedding_dim=bench.sizes.dimension // 2).to(bench.place)
    ours = bench.measured(partial(rank_in, bench.setting, model_of(model, known), bench.ours))
    evaluate = partial(
        RankBasedEvaluator(filtered=True).evaluate, model, splits["test"][:few], use_tqdm=False,
        additional_filter_triples=list(splits.values()),
    )  # fmt: skip
    theirs = bench.measured(evaluate)
    mine, other = ours.seconds / bench.setting.queries, theirs.seconds / (2 * min(few, len(splits["test"])))
    print(f"ComplEx: ours {1e6 * mine:.3f} us a query; PyKEEN {1e6 * other:.1f} us on {few:,} triples, its batch size")
    print(f"  PyKEEN takes {other / mine:,.0f} x as long (its first run {theirs.first:.1f} s)")


def training(bench: Bench) -> None:
    """The share of validations in a training of ComplEx, with and without the kernels; the trained model is ranked."""
    known, fused, plain = bench.setting.graph, Validation._scorer, Validation.__call__
    options = {"dimension": 8, "epochs": 2, "validate_every": 1} if bench.arguments.tiny else {}
    ways = {"score matrices": lambda validation, run: FunctionScorer(run.score), "the kernels": fused}
    seconds: list[float] = []

    def timed(validation: Validation, runs: Any) -> Any:
        bench.synchronize()
        start = time.perf_counter()
        validated = plain(validation, runs)
        seconds.append(time.perf_counter() - start)
        return validated

    Validation.__call__ = timed  # type: ignore[method-assign]
    with TemporaryDirectory() as folder:
        for name, scorer in ways.items():
            Validation._scorer = scorer  # type: ignore[method-assign]
            run, seconds[:] = Path(folder) / name, []
            trained = fit("complex", known, run, device=bench.place, seeds=[0], **options).trained
            print(
                f"{len(seconds)} validations by {name}: median {1e3 * statistics.median(seconds):.1f} ms, together "
                f"{sum(seconds) / trained.seconds:.2%} of {trained.seconds:.1f} s for {trained.epochs} epochs"
            )
        trained_scorer: Any = open_model(run, Opening(known, bench.setting.ranked)).scorer
    getattr(trained_scorer, "model", trained_scorer).to(bench.place)  # reciprocal relations wrap the model
    compare(bench, bench.setting, "trained ComplEx", trained_scorer)
    for run in bench.arguments.runs:  # in the memory of the host, where their queries are encoded
        opened: Any = open_model(run, Opening(known, bench.setting.ranked))
        compare(bench, bench.setting, f"trained {opened.name}, on the host", opened.scorer, placed=False)


PARTS: dict[str, Callable[[Bench], None]] = {
    part.__name__: part
    for part in (limits, graph, models, passes, generated, whole, streamed, soundness, pykeen, training)
}


def described(place: str) -> str:
    """The machine in one line; without psutil, the memory of the host is left out."""
    host = f"{time.strftime('%Y-%m-%d')}, {os.cpu_count()} cores, Python {platform.python_version()}"
    if find_spec("psutil") is not None:
        from machine import describe

        host = describe()
    device = "interpreted kernels"
    if place == "cuda":
        found = torch.cuda.get_device_properties(0)
        device = f"{found.name}, {found.total_memory / 2**30:.0f} GiB"
    return f"{host}, torch {torch.__version__}, triton {triton.__version__}, {device}"


def use_interpreter() -> None:
    """Choose small interpreted kernels for the device "interpreted"."""
    if os.environ.get("TRITON_INTERPRET") != "1":
        raise SystemExit("--tiny needs the environment variable TRITON_INTERPRET=1")
    backends._may_use_triton = lambda device: device == "interpreted"
    triton_backend.TritonBackend = lambda device: TritonBackend("cpu", SMALL)  # type: ignore[assignment,misc]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=PARTS, default=list(PARTS), metavar="PART", help=", ".join(PARTS))
    parser.add_argument("--graph", default="fb15k-237")
    parser.add_argument("--mapped", type=float, default=44.0, metavar="GB", help="size of the mapped file; 0 for none")
    parser.add_argument("--runs", nargs="+", type=Path, default=[], help="runs on the graph that 'training' ranks too")
    parser.add_argument("--tiny", action="store_true", help="only show that all parts work, without a GPU")
    arguments = parser.parse_args()
    if arguments.tiny:
        use_interpreter()
    bench = Bench(arguments)
    print(described(bench.place))
    failed = []
    for name in arguments.only:
        print(f"== {name}", flush=True)
        start = time.perf_counter()
        try:
            PARTS[name](bench)
        except Exception:  # the other parts are worth their time on a device that is lent
            traceback.print_exc()
            failed.append(name)
        print(f"   ({time.perf_counter() - start:.1f} s in all)", flush=True)
        if bench.place == "cuda":
            torch.cuda.empty_cache()  # the next part may need most of the memory
    if failed:
        raise SystemExit(f"failed: {', '.join(failed)}")


if __name__ == "__main__":
    main()
