"""Ranks estimated from a sample of candidates: coverage, width and bias of the intervals of metrics, and the speed-up.

Run: python benchmarks/sampled_ranking.py [--ranks FILE ...] [--model RUN:GRAPH ...] [--sets 200]

Every query of a real model has known ranks, among all candidates and among those that train has on that side of the
relation. So the number of hits in a sample of the others is exactly hypergeometric, and thousands of samples of all
queries can be drawn without scoring anything. `--end-to-end` ranks models with `kp.rank(..., sample=N)` instead.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

import kgprobe as kp
from kgprobe.comparison.sampled_differences import sampled_differences
from kgprobe.metrics import parse_all, scores
from kgprobe.metrics.sampled_estimates import SampledTable
from kgprobe.ranks import Ranks, merge_seeds
from kgprobe.ranks.schema import estimated_rank
from machine import describe

Ints = NDArray[np.int64]

METRICS = parse_all(
    [
        *("MR", "AMRI", "PROBE(alpha=-1,beta=0.4)", "PROBE(alpha=-0.5)", "PROBE(alpha=0)", "GMR", "PROBE(alpha=0.5)"),
        *("MRR", "PROBE(alpha=1,beta=0.4)", "Hits@10", "Hits@1"),
    ]
)
_MOST_QUERIES = 2_000


@dataclass(frozen=True)
class Ranked:
    """A model whose ranks are known.

    Attributes:
        name: The model and the graph.
        ranks: Its ranks among all candidates.
        typed: For every query, how many candidates are better and how many there are, among those of its type.
    """

    name: str
    ranks: Ranks
    typed: tuple[Ints, Ints] | None = None

    @property
    def better(self) -> Ints:
        """The number of better candidates; a tie counts as one half, rounded up."""
        return np.ceil(self.ranks.rank).astype(np.int64) - 1

    def truth(self) -> Ranks:
        return self.ranks.with_ranks(1 + self.better, np.zeros(len(self.ranks), dtype=int), self.ranks.candidates)

    def sampled(self, size: int, rng: np.random.Generator, *, typed: bool) -> Ranks:
        """The ranks that a sample would give."""
        none = np.zeros(len(self.ranks), dtype=np.int64)
        exact, known = self.typed if typed and self.typed is not None else (none, none)
        others = self.ranks.candidates.astype(np.int64) - 1 - known
        better = np.minimum(self.better - exact, others)
        drawn = np.minimum(size, others)
        hits = rng.hypergeometric(better, others - better, drawn) if size else none
        sample = {
            "exact_greater": exact,
            "exact_equal": none,
            "sample_size": drawn,
            "sampled_from": others,
            "sampled_greater": hits,
            "sampled_equal": none,
        }
        rank = estimated_rank(exact, none, drawn, others, hits)
        return self.ranks.with_ranks(rank, none, self.ranks.candidates, sample=sample)


def published(path: Path) -> Iterator[Ranked]:
    """The first training run of published ranks, in a folder named as the graph."""
    table = kp.read_ranks(path)
    table = table if table.seed is None else table.filter(table.seed == table.seed.min())
    graph = kp.load_graph(path.parent.name)
    yield Ranked(f"{path.stem} {path.parent.name}", some(table).with_popularity(graph.popularity))


def some(table: Ranks) -> Ranks:
    """At most so many queries, always the same."""
    if len(table) <= _MOST_QUERIES:
        return table
    return table.take(np.sort(np.random.default_rng(0).permutation(len(table))[:_MOST_QUERIES]))


def trained(run: str, graph: str) -> Ranked:
    """A trained model, ranked among all candidates and among those of the type."""
    full, typed = kp.rank(run, graph), kp.rank(run, graph, candidates="train")
    rows = np.sort(np.random.default_rng(0).permutation(len(full))[:_MOST_QUERIES])
    full, typed = full.take(rows), typed.take(rows)
    counts = np.ceil(typed.rank).astype(np.int64) - 1, typed.candidates.astype(np.int64) - 1
    return Ranked(f"{full.info.model} {graph}", full, counts)


def coverage(ranked: Ranked, size: int, sets: int, *, typed: bool) -> Iterator[str]:
    """A line for each metric: how often the interval holds the value, its mean width, and the bias of the estimate."""
    rng = np.random.default_rng(1)
    held, width, error = (np.zeros(len(METRICS)) for _ in range(3))
    truth = np.array([score.value for score in scores(ranked.truth(), METRICS)])
    at_once = max(1, min(sets, 200_000 // len(ranked.ranks)))
    for start in range(0, sets, at_once):
        many = [ranked.sampled(size, rng, typed=typed) for _ in range(min(at_once, sets - start))]
        joined = merge_seeds(dict(enumerate(many)))
        table = SampledTable(joined, METRICS)
        for i, metric in enumerate(METRICS):
            for score in table.slice_scores(metric):
                held[i] += score.low - 1e-9 <= truth[i] <= score.high + 1e-9
                width[i] += score.high - score.low
                error[i] += score.value - truth[i]
    for i, metric in enumerate(METRICS):
        yield (
            f"{ranked.name:24} {'strata' if typed else 'all':6} {size:6,} {metric!s:26} {truth[i]:10.4f} "
            f"{held[i] / sets:8.3f} {width[i] / sets:10.4f} {error[i] / sets:10.4f}"
        )


def speed(run: str, graph: str, size: int) -> str:
    """How long ranking takes with a sample, as a share of ranking among all candidates."""
    loaded = kp.load_graph(graph)
    kp.rank(run, loaded, sample=1)  # opens and reads everything once
    times = {}
    for name, options in (
        ("all", {}),
        ("sample", {"sample": size}),
        ("typed", {"sample": size, "by": "relation-type"}),
    ):
        start = time.perf_counter()
        kp.rank(run, loaded, **options)  # type: ignore[arg-type]
        times[name] = time.perf_counter() - start
    return (
        f"{graph}: {size:,} samples take {times['sample'] / times['all']:.2f} of the time of all candidates "
        f"({times['all']:.2f} s), {times['typed'] / times['all']:.2f} with all typed candidates"
    )


def end_to_end(run: str, graph: str, size: int, draws: int) -> Iterator[str]:
    """Coverage with real draws: the model is ranked again with other seeds."""
    loaded, truth = kp.load_graph(graph), scores(kp.rank(run, graph), METRICS)
    for by in (None, "relation-type"):
        held = np.zeros(len(METRICS))
        for seed in range(draws):
            found = scores(kp.rank(run, loaded, sample=size, by=by, seed=seed), METRICS)
            held += [one.low - 1e-9 <= true.value <= one.high + 1e-9 for one, true in zip(found, truth, strict=True)]
        shares = ", ".join(f"{metric} {share:.2f}" for metric, share in zip(METRICS, held / draws, strict=True))
        yield f"{Path(run).name} {by or 'all'} {size}: held in {draws} draws: {shares}"


def order(one: Ranked, other: Ranked, size: int, sets: int) -> Iterator[str]:
    """How often the order of two models is settled, and how often it is settled wrongly, with independent samples."""
    rng = np.random.default_rng(2)
    truth = {
        str(m): a.value - b.value
        for m, a, b in zip(METRICS, *(scores(r.truth(), METRICS) for r in (one, other)), strict=True)
    }
    settled, wrong = (dict.fromkeys(truth, 0) for _ in range(2))
    for _ in range(sets):
        tables = {r.name: r.sampled(size, rng, typed=False) for r in (one, other)}
        for found in sampled_differences(tables, METRICS):
            name = str(found.metric)
            settled[name] += found.settled
            wrong[name] += found.settled and (found.value > 0) != (truth[name] > 0)
    for name, difference in truth.items():
        yield (
            f"{one.name} - {other.name}, {size:,}: {name:26} {difference:9.4f} "
            f"settled {settled[name] / sets:.2f}, wrongly {wrong[name] / sets:.2f}"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ranks", type=Path, nargs="*", default=[], help="rank files in folders named as their graphs")
    parser.add_argument("--model", nargs="*", default=[], metavar="RUN:GRAPH", help="trained models")
    parser.add_argument("--size", type=int, nargs="*", default=[20, 100, 500, 2_000], help="sizes of samples")
    parser.add_argument("--sets", type=int, default=200, help="samples of all queries")
    parser.add_argument("--order", action="store_true", help="whether the order of the models is settled")
    parser.add_argument("--speed", action="store_true", help="the time of ranking")
    parser.add_argument("--end-to-end", type=int, default=0, metavar="DRAWS", help="rank models so many times")
    given = parser.parse_args()
    print(describe())
    models = [text.rpartition(":")[::2] for text in given.model]
    known = [ranked for path in given.ranks for ranked in published(path)]
    if not (given.speed or given.end_to_end):
        known += [trained(run, graph) for run, graph in models]
    print("model graph              candidates  N metric                          value    held      width       bias")
    for ranked in known:
        for size in given.size:
            if size >= ranked.ranks.candidates.max() - 1:
                continue
            for typed in (False, True)[: 1 + (ranked.typed is not None)]:
                if not given.order:
                    print(*coverage(ranked, size, given.sets, typed=typed), sep="\n", flush=True)
    if given.order:
        for one, other in pairwise(known):
            for size in given.size:
                print(*order(one, other, size, given.sets), sep="\n", flush=True)
    for run, graph in models:
        for size in given.size:
            if given.speed:
                print(speed(run, graph, size), flush=True)
            if given.end_to_end:
                print(*end_to_end(run, graph, size, given.end_to_end), sep="\n", flush=True)


if __name__ == "__main__":
    main()
