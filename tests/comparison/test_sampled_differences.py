from itertools import combinations, product
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from kgprobe.comparison.sampled_differences import SampledDifference, sampled_differences
from kgprobe.errors import DataError
from kgprobe.metrics import parse, scores
from kgprobe.ranks import Basis, CandidatesInfo, Ranks, RanksInfo, SampleInfo
from kgprobe.ranks.schema import estimated_rank

LINEAR = ["MR", "AMRI", "PROBE(alpha=-1,beta=0.4)"]


def table(hits: Any, size: int, population: int, seed: int = 0, heads: Any = None) -> Ranks:
    hits = np.asarray(hits)
    none, rows = np.zeros(len(hits), dtype=int), len(hits)
    sample = {
        "exact_greater": none,
        "exact_equal": none,
        "sample_size": none + size,
        "sampled_from": none + population,
        "sampled_greater": hits,
        "sampled_equal": none,
    }
    return Ranks.from_columns(
        head=np.arange(rows) if heads is None else heads,
        relation=none,
        tail=none + rows,
        side=["tail"] * rows,
        rank=estimated_rank(none, none, none + size, none + population, hits),
        candidates=none + population + 1,
        entity_popularity=np.linspace(0.1, 0.9, rows),
        relation_popularity=np.linspace(0.1, 0.9, rows),
        sample=sample,
        info=RanksInfo(candidates=CandidatesInfo(Basis.verified, sample=SampleInfo(size, True, None, seed))),
    )


def exactly(better: NDArray[np.int64], population: int) -> Ranks:
    return table(better, population, population)


def shared_hits(
    one: NDArray[np.bool_], other: NDArray[np.bool_], size: int, rng: np.random.Generator
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Hits of two models [queries, candidates] in the same samples."""
    chosen = np.argsort(rng.random(one.shape), axis=1)[:, :size]
    first, second = (np.take_along_axis(flags, chosen, axis=1).sum(axis=1) for flags in (one, other))
    return first, second


@pytest.mark.parametrize("overlap", ["same", "disjoint", "random"])
@pytest.mark.parametrize("seeds", [(0, 0), (0, 1)])
def test_intervals_of_differences_hold_the_difference(overlap: str, seeds: tuple[int, int]) -> None:
    rng = np.random.default_rng(1)
    queries, population, size = 150, 60, 15
    better = rng.integers(0, 30, queries)
    one = np.arange(population) < better[:, None]
    other = {
        "same": np.arange(population) < (better + 2)[:, None],
        "disjoint": np.arange(population) >= (population - better - 2)[:, None],
        "random": rng.random((queries, population)) < 0.3,
    }[overlap]
    truth = [
        a.value - b.value
        for a, b in zip(
            *(scores(exactly(flags.sum(axis=1), population), LINEAR) for flags in (one, other)), strict=True
        )
    ]
    held, runs = np.zeros(len(LINEAR)), 50
    for _ in range(runs):
        if seeds[0] == seeds[1]:
            first, second = shared_hits(one, other, size, rng)
        else:
            (first, _), (second, _) = (shared_hits(flags, flags, size, rng) for flags in (one, other))
        models = {"a": table(first, size, population, seeds[0]), "b": table(second, size, population, seeds[1])}
        found = sampled_differences(models, LINEAR)
        held += [own.low <= true <= own.high for own, true in zip(found, truth, strict=True)]
    assert (held >= 41).all()  # of 50 at 95 %: fewer have a probability below 1e-4


def test_the_smallest_covariance_of_hits_is_that_of_disjoint_sets() -> None:
    population, size = 7, 3
    samples = [set(own) for own in combinations(range(population), size)]
    for a, b in product(range(population + 1), repeat=2):
        one, other = set(range(a)), set(range(population - b, population))  # as disjoint as they can be
        hits = np.array([[len(own & one), len(own & other)] for own in samples])
        covariance = np.cov(hits.T, bias=True)[0, 1]
        p, q = a / population, b / population
        least = -size * (1 - size / population) * population / (population - 1) * min(p * q, (1 - p) * (1 - q))
        assert covariance == pytest.approx(least, abs=1e-9)


def test_pairing_is_narrower_than_opposite_ends() -> None:
    rng = np.random.default_rng(0)
    better = rng.integers(0, 80, 300)
    tables = {name: table(rng.hypergeometric(better, 100 - better, 20), 20, 100) for name in "ab"}
    (paired,) = sampled_differences(tables, ["MR"])
    one, other = (scores(own, ["MR"])[0] for own in tables.values())
    assert paired.value == pytest.approx(one.value - other.value)
    assert paired.high - paired.low < (one.high - one.low) + (other.high - other.low)


def test_a_clear_order_is_settled_and_an_equal_one_is_not() -> None:
    rng = np.random.default_rng(0)
    better = rng.integers(0, 80, 300)
    hits = [rng.hypergeometric(b, 100 - b, 20) for b in (better, better, better // 4)]
    tables = {name: table(own, 20, 100) for name, own in zip("abc", hits, strict=True)}
    found = {
        (one.first, one.second): one for one in sampled_differences(tables, ["MR", "MRR"]) if str(one.metric) == "MR"
    }
    assert not found["a", "b"].settled
    assert "the order of a and b is not settled by the sample" in str(found["a", "b"])
    assert found["b", "c"].settled
    assert str(found["b", "c"]).startswith("MR: c is better on these queries")


def test_curved_metrics_use_opposite_ends() -> None:
    rng = np.random.default_rng(0)
    better = rng.integers(0, 80, 300)
    tables = {name: table(rng.hypergeometric(better, 100 - better, 20), 20, 100) for name in "ab"}
    (found,) = sampled_differences(tables, ["MRR"])
    one, other = (scores(own, ["MRR"])[0] for own in tables.values())
    assert found.low < one.low - other.high < one.high - other.low < found.high


def test_queries_may_stand_in_another_order() -> None:
    hits = np.array([0, 3, 5, 1, 2])
    order = np.array([3, 0, 4, 1, 2])
    one, other = table(hits, 5, 5), table(hits[order], 5, 5, heads=order)
    (found,) = sampled_differences({"a": one, "b": other}, ["MRR"])
    assert (found.value, found.low, found.high, found.settled) == (0.0, 0.0, 0.0, True)


def test_other_queries_and_several_runs_are_refused() -> None:
    one, other = table([1, 2], 5, 5), table([1, 2], 5, 5, heads=[0, 7])
    with pytest.raises(DataError, match="other queries than a"):
        sampled_differences({"a": one, "b": other}, ["MR"])


def test_a_difference_as_a_row() -> None:
    found = SampledDifference("a", "b", parse("MR"), -1.0, -2.0, -0.5)
    assert found.to_row() == {
        "first": "a",
        "second": "b",
        "metric": "MR",
        "difference": -1.0,
        "low": -2.0,
        "high": -0.5,
        "level": 0.95,
        "settled": True,
    }
    assert "a is better" in str(found)
