import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from clustered import model
from kgprobe.compare import line_up
from kgprobe.compare.estimator import estimator
from kgprobe.compare.family import family
from kgprobe.compare.medians import of_distributions
from kgprobe.compare.permutation import permutation_tests
from kgprobe.compare.resampling import flipped, resampled
from kgprobe.metrics import parse

METRICS = ["MedianRank", "IMedianRank", "MADRank"]


@pytest.mark.parametrize("name", METRICS)
@given(weight=arrays(float, (7, 5), elements=st.integers(0, 3)))
def test_many_at_once_are_those_one_by_one(name, weight):
    weight[:, 2] += 1
    ranks, metric = np.array([1.0, 1.5, 4.0, 6.5, 7.0]), parse(name)
    expected = [metric.of_distribution(ranks[row > 0], row[row > 0]) for row in weight]
    assert of_distributions(metric, ranks, weight).tolist() == expected


def estimators(name, runs=2):
    lined = line_up({f"m{i}": model(700, i, runs=runs, worse=1.5 * i) for i in range(2)})
    return [estimator(lined, one, parse(name), clusters=lined.clusters()) for one in lined.models]


@pytest.mark.parametrize("name", METRICS)
def test_fewer_ranks_give_the_same_values_for_every_draw(name):
    whole = estimators(name)
    narrow = family(whole)
    ranks = {len(part.ranks) for one in whole for part in one.parts}
    if name != "MADRank":
        assert max(len(part.ranks) for one in narrow.estimators for part in one.parts) < min(ranks) / 2
    counts = resampled(200, 700, np.random.default_rng(0))
    for full, few in zip(whole, narrow.estimators, strict=True):
        assert few.estimate == full.estimate
        np.testing.assert_array_equal(few.value(counts @ few.columns), full.value(counts @ full.columns))


@pytest.mark.parametrize("name", METRICS)
def test_fewer_ranks_give_the_same_values_for_every_swap(name):
    """Models whose medians are far apart, swapped triple by triple."""
    first, second = estimators(name, runs=1)
    (p,) = permutation_tests([family([first, second])], [[(0, 1)]], permutations=300)
    # The signs of the first chunk, drawn as the test draws them.
    signs = flipped(300, 700, np.random.default_rng([0, 0]))
    tables = [np.asarray(one.parts[0].columns.todense()) for one in (first, second)]
    ranks = [one.parts[0].ranks for one in (first, second)]
    metric = parse(name)

    def swapped(row):
        values = []
        for own, other in ((0, 1), (1, 0)):
            weight = np.concatenate([tables[own][row > 0].sum(axis=0), tables[other][row < 0].sum(axis=0)])
            joined, place = np.unique(np.concatenate([ranks[own], ranks[other]]), return_inverse=True)
            total = np.bincount(place, weight)
            values.append(metric.of_distribution(joined[total > 0], total[total > 0]))
        return values[0] - values[1]

    differences = np.array([swapped(row) for row in signs])
    observed = first.estimate - second.estimate
    expected = (1 + (np.abs(differences) >= abs(observed) * (1 - 1e-12)).sum()) / 301
    assert p[0] == pytest.approx(expected)
