"""Simulated models about which every kind of claim is true, false or undecidable by construction."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from kgprobe.comparison import line_up
from kgprobe.comparison.lineup import Lineup
from kgprobe.metrics import parse
from kgprobe.metrics.popularity_metrics import PROBE
from kgprobe.openworld.bench_points import Points
from kgprobe.ranks import Ranks, merge_seeds
from kgprobe.studies.claim_kinds import (
    BestChanges,
    Better,
    Claim,
    MoreRanks,
    NoBest,
    OrderChanges,
    Overtakes,
    Place,
    PlaceAt,
    RareLoss,
    Wins,
)
from kgprobe.studies.fact_claims import KeepsOrder
from kgprobe.studies.verdicts import SourceRanks, Verdict, judge

SHARP, FLAT, RARE = PROBE(alpha=1.0, beta=0.0), PROBE(alpha=-1.0, beta=0.0), PROBE(alpha=1.0, beta=0.4)
CANDIDATES = 1000
GRAPH = "planted"
MISSING = 0.25


@dataclass(frozen=True)
class Method:
    """A way of answering queries.

    Attributes:
        first: Probability of rank 1 on the rarest queries, and on the most popular ones.
        others: Range of the exponent of all other ranks: rank = candidates to that power, evenly spread.
        between: Standard deviation of the probability between training runs.
    """

    first: tuple[float, float]
    others: tuple[float, float] = (0.2, 0.9)
    between: float = 0.01


APART: Mapping[str, Method] = {
    "Sharp": Method((0.60, 0.60), (0.6, 1.0)),
    "Even": Method((0.15, 0.15), (0.15, 0.45)),
    "Popular": Method((0.10, 0.80), (0.4, 0.9)),
    "Steady": Method((0.38, 0.38), (0.4, 0.9)),
    "Weak": Method((0.03, 0.03), (0.6, 1.0)),
}
"""Five methods that differ clearly; at alpha 1 in this order: Sharp, Popular, Steady, Even, Weak."""

ALIKE: Mapping[str, Method] = {name: Method((0.4, 0.4), between=0.0) for name in APART}
"""Five names for one method whose training runs do not differ."""

ALIKE_WITH_NOISE: Mapping[str, Method] = {name: Method((0.4, 0.4), between=0.03) for name in APART}
"""Five names for one method whose training runs differ."""


def planted(methods: Mapping[str, Method], seed: int, *, triples: int = 800, runs: int = 5) -> Lineup:
    """Ranks of some methods on the same queries, with training runs that vary."""
    random = np.random.default_rng(seed)
    queries = 2 * triples
    popularity = random.permutation(np.repeat(np.linspace(0.01, 0.5, triples), 2))
    difficulty = np.repeat(random.random(triples), 2)  # shared by both sides of a triple, and by all models
    columns = {
        "head": np.repeat(np.arange(triples), 2),
        "relation": np.zeros(queries, dtype=int),
        "tail": np.repeat(np.arange(triples) + triples, 2),
        "side": np.tile(["head", "tail"], triples),
        "candidates": np.full(queries, CANDIDATES),
        "entity_popularity": popularity,
        "relation_popularity": np.full(queries, 0.5),
    }
    tables = {}
    for name, method in methods.items():
        made = [_ranks(method, popularity, difficulty, random) for _ in range(runs)]
        tables[name] = merge_seeds({run: Ranks.from_columns(**columns, rank=rank) for run, rank in enumerate(made)})
    return line_up(tables)


def _ranks(method: Method, popularity: np.ndarray, difficulty: np.ndarray, random: np.random.Generator) -> np.ndarray:
    rare, popular = method.first
    share = (popularity - popularity.min()) / np.ptp(popularity)
    chance = np.clip(rare + (popular - rare) * share + random.normal(0, method.between), 0, 1)
    mixed = 0.5 * difficulty + 0.5 * random.random(len(difficulty))  # a sum of two uniform numbers
    uniform = np.where(mixed < 0.5, 2 * mixed**2, 1 - 2 * (1 - mixed) ** 2)  # its distribution function
    low, high = method.others
    exponent = low + (high - low) * random.random(len(difficulty))
    return np.where(uniform < chance, 1.0, np.clip(np.floor(CANDIDATES**exponent), 2, CANDIDATES))


def planted_points(noise: Mapping[str, float], seed: int, *, models: int = 10, checkpoints: int = 12) -> Points:
    """Open- and closed-world values of models, in which metrics have errors of given sizes."""
    random = np.random.default_rng(seed)
    metrics = tuple(parse(name) for name in noise)
    quality = random.random(models)
    closed = (quality[:, None] * np.linspace(0.2, 1, checkpoints)).ravel()
    closed = np.repeat(closed[None], len(metrics), axis=0)
    # The error of a model is shared by its checkpoints in part, so models are what is independent.
    shared = np.repeat(random.normal(size=(len(metrics), models)), checkpoints, axis=1)
    error = (shared + random.normal(size=closed.shape)) * np.array(list(noise.values()))[:, None]
    return Points(
        metrics,
        tuple(f"model {i}" for i in range(models)),
        np.repeat(np.arange(models), checkpoints),
        tuple(str(i) for _ in range(models) for i in range(checkpoints)),
        closed + error,
        closed,
        closed[0],
        np.ones(len(metrics)),
    )


def _about(name: str) -> dict[str, object]:
    return {"name": name, "statement": name, "section": "", "graphs": (GRAPH,)}


GRID = (SHARP, FLAT, RARE)
_ORDER = {"name": "keeps-order", "statement": "", "section": "", "missing": MISSING}
_MRR, _HITS = parse("MRR"), parse("Hits@10")

TRUE: tuple[Claim, ...] = (
    Place(**_about("place"), model="Weak", at=(PlaceAt(5, SHARP),)),
    Better(**_about("better"), model="Sharp", other="Weak", at=GRID),
    Overtakes(**_about("overtakes"), model="Even", other="Sharp", start=SHARP, end=FLAT),
    OrderChanges(**_about("order-changes"), start=SHARP, end=FLAT, share=0.2),
    BestChanges(**_about("best-changes"), start=SHARP, end=FLAT),
    MoreRanks(**_about("more-ranks"), model="Even", other="Sharp", low=2, high=30),
    RareLoss(**_about("rare-loss"), model="Popular", other="Steady", at=SHARP),
    NoBest(**_about("no-best"), at=GRID),
    Wins(**_about("wins"), model="Sharp", at=(SHARP, RARE), share=1.0, graph_share=1.0),
    KeepsOrder(**_ORDER, metric=_MRR, than=_HITS),
)

FALSE: tuple[Claim, ...] = (
    Place(**_about("place"), model="Weak", at=(PlaceAt(1, SHARP),)),
    Better(**_about("better"), model="Weak", other="Sharp", at=GRID),
    Overtakes(**_about("overtakes"), model="Sharp", other="Even", start=SHARP, end=FLAT),
    OrderChanges(**_about("order-changes"), start=SHARP, end=FLAT, share=1.0),
    BestChanges(**_about("best-changes"), start=SHARP, end=RARE),
    MoreRanks(**_about("more-ranks"), model="Sharp", other="Even", low=2, high=30),
    RareLoss(**_about("rare-loss"), model="Steady", other="Popular", at=SHARP),
    NoBest(**_about("no-best"), at=(SHARP, RARE)),
    Wins(**_about("wins"), model="Weak", at=(SHARP, RARE), share=0.5, graph_share=1.0),
    KeepsOrder(**_ORDER, metric=_HITS, than=_MRR),
)

_NOISE_APART, _NOISE_ALIKE = {"MRR": 0.02, "Hits@10": 0.3}, {"MRR": 0.1, "Hits@10": 0.1}

SCENARIOS: Mapping[str, tuple[tuple[Claim, ...], Mapping[str, Method], Mapping[str, float]]] = {
    "true": (TRUE, APART, _NOISE_APART),
    "false": (FALSE, APART, _NOISE_APART),
    "undecidable": (TRUE, ALIKE, _NOISE_ALIKE),
    "undecidable, runs differ": (TRUE, ALIKE_WITH_NOISE, _NOISE_ALIKE),
}
"""The claims, the methods, and the errors of metrics in the open world, by what is true of the claims."""


def verdicts_of(scenario: str, seed: int, *, runs: int = 5) -> list[Verdict]:
    """The verdicts of one draw of a scenario."""
    claims, methods, noise = SCENARIOS[scenario]
    source = SourceRanks(
        "planted", {GRAPH: planted(methods, seed, runs=runs)}, worlds={MISSING: planted_points(noise, seed + 1_000_000)}
    )
    return judge(claims, source)
