"""Line-ups for tests of decisions: random models of both sides of some triples, and the plain formulas as loops."""

from __future__ import annotations

import math
from collections import defaultdict

import numpy as np
from numpy.typing import NDArray

from kgprobe.comparison import Lineup, line_up
from kgprobe.ranks import Ranks, merge_seeds

Floats = NDArray[np.float64]


def queries_of(triples: int, seed: int = 0) -> dict[str, object]:
    """Columns of both sides of every triple, popularity included, all but ranks and candidates."""
    rng = np.random.default_rng(seed)
    return {
        "head": np.repeat(np.arange(triples), 2),
        "relation": np.repeat(rng.integers(0, 5, triples), 2),
        "tail": np.repeat(rng.integers(0, 9, triples), 2),
        "side": np.tile(["head", "tail"], triples),
        "entity_popularity": rng.choice([0, 0.001, 0.02, 0.3], 2 * triples, p=[0.1, 0.3, 0.4, 0.2]),
        "relation_popularity": rng.choice([0, 0.1, 0.4, 1.0], 2 * triples, p=[0.1, 0.3, 0.4, 0.2]),
    }


def random_lineup(
    models: int = 3, triples: int = 40, runs: int = 1, seed: int = 0, *, same_candidates: bool = True
) -> Lineup:
    """Models whose ranks on the sides of a triple, and of the same query, are alike.

    Where candidates are not the same, every run of every other model has its own, for some queries only one.
    """
    rng = np.random.default_rng(seed)
    columns = queries_of(triples, seed)
    ease = np.repeat(rng.normal(size=triples), 2) + rng.normal(size=2 * triples)
    common = rng.integers(5, 60, 2 * triples)

    def model(number: int) -> Ranks:
        tables = {}
        for run in range(runs):
            fewer = np.maximum(1, common - rng.integers(0, 40, 2 * triples))
            candidates = common if same_candidates or number % 2 == 0 else fewer
            hardness = 1 / (1 + np.exp(ease + rng.normal(size=2 * triples)))
            tables[run] = Ranks.from_columns(rank=np.ceil(candidates**hardness), candidates=candidates, **columns)  # type: ignore[arg-type]
        return tables[0] if runs == 1 else merge_seeds(tables)

    return line_up({f"m{number}": model(number) for number in range(models)})


def ranked(triples: int, rank: object, candidates: int = 100, seed: int = 0) -> Ranks:
    """A model with these ranks."""
    size = np.full(2 * triples, candidates)
    return Ranks.from_columns(rank=rank, candidates=size, **queries_of(triples, seed))  # type: ignore[arg-type]


def plain_scores(run: Ranks, alpha: float) -> list[float]:
    """The paper's rescaled power, query by query; NaN for a single candidate."""
    found = []
    for rank, size in zip(run.rank.tolist(), run.candidates.tolist(), strict=True):
        if size == 1:
            found.append(math.nan)
        elif alpha == 0:
            found.append(1 - math.log(rank) / math.log(size))
        else:
            found.append((rank**-alpha - 1) / (1 - size**-alpha) + 1)
    return found


def plain_weights(run: Ranks, beta: float) -> list[float]:
    """The paper's weight, query by query; 0 for a single candidate."""
    counted = [size > 1 for size in run.candidates.tolist()]
    product = [1.0] * len(run)
    for column in ("entity_popularity", "relation_popularity"):
        values = run.numbers(column).tolist()
        least = min(value for value, counts in zip(values, counted, strict=True) if counts and value > 0)
        product = [before * (value + least) ** -beta for before, value in zip(product, values, strict=True)]
    return [weight if counts else 0.0 for weight, counts in zip(product, counted, strict=True)]


def plain_influences(lineup: Lineup, model: str, alpha: float, beta: float, cluster: NDArray[np.int64]) -> Floats:
    """What every cluster adds to the score of a model, the mean over its runs, by loops."""
    moved: dict[int, float] = defaultdict(float)
    runs = lineup.runs[model]
    for run in runs:
        scores, weights = plain_scores(run, alpha), plain_weights(run, beta)
        total = math.fsum(weights)
        counted = [i for i, weight in enumerate(weights) if weight > 0]
        mean = math.fsum(weights[i] * scores[i] for i in counted) / total
        for i in counted:
            moved[int(cluster[i])] += weights[i] * (scores[i] - mean) / total / len(runs)
    return np.array([moved[c] for c in range(int(cluster.max()) + 1)])
