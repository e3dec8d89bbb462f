from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chisquare

from kgprobe.arrays import EntityRows
from kgprobe.predict.random_samples import sample_rows, skipping, states


def listed(rows: EntityRows) -> list[list[int]]:
    return [part.tolist() for part in np.split(rows.entities, rows.offsets[1:-1])]


@settings(max_examples=60)
@given(st.lists(st.integers(0, 60), min_size=1, max_size=20), st.integers(0, 40), st.integers(0, 5))
def test_samples_have_the_size_and_are_distinct_and_in_order(sizes: list[int], size: int, seed: int) -> None:
    population = np.array(sizes)
    samples = listed(sample_rows(states(seed, np.arange(len(sizes))), population, size))
    for own, whole in zip(samples, sizes, strict=True):
        assert len(own) == min(size, whole)
        assert own == sorted(set(own))
        assert all(0 <= number < whole for number in own)


@pytest.mark.parametrize(("population", "size"), [(6, 2), (6, 3), (6, 4), (5, 1), (7, 6)])
def test_every_subset_is_as_likely_as_any_other(population: int, size: int) -> None:
    rows = 20_000
    samples = listed(sample_rows(states(3, np.arange(rows)), np.full(rows, population), size))
    subsets = dict.fromkeys(combinations(range(population), size), 0)
    for own in samples:
        subsets[tuple(own)] += 1
    assert chisquare(list(subsets.values())).pvalue > 1e-4


def test_numbers_of_a_large_population_are_drawn_equally_often() -> None:
    rows, population, size = 2_000, 1_000, 100
    drawn = sample_rows(states(0, np.arange(rows)), np.full(rows, population), size).entities
    counts = np.bincount(drawn, minlength=population)
    # The counts of one row are not independent, which makes the statistic smaller by n / N.
    assert chisquare(counts).pvalue > 1e-4
    assert counts.var() == pytest.approx(rows * 0.1 * 0.9, rel=0.2)


def test_a_row_does_not_depend_on_the_other_rows() -> None:
    keys, population = np.arange(50), np.arange(50) * 7
    together = listed(sample_rows(states(1, keys), population, 30))
    for row in range(50):
        alone = sample_rows(states(1, keys[row : row + 1]), population[row : row + 1], 30)
        assert alone.entities.tolist() == together[row]


def test_samples_of_neighbouring_rows_and_seeds_are_independent() -> None:
    rows = 4_000
    population = np.full(rows, 40)
    one, other = (sample_rows(states(seed, np.arange(rows)), population, 10) for seed in (0, 1))
    shared = [len(set(a) & set(b)) for a, b in zip(listed(one), listed(other), strict=True)]
    assert np.mean(shared) == pytest.approx(2.5, abs=0.1)  # 10 * 10 / 40
    neighbours = [len(set(a) & set(b)) for a, b in zip(listed(one)[1:], listed(one), strict=False)]
    assert np.mean(neighbours) == pytest.approx(2.5, abs=0.1)


@given(st.lists(st.integers(0, 20), max_size=8, unique=True), st.integers(0, 30))
def test_skipping_counts_what_is_left(excluded: list[int], number: int) -> None:
    rows = EntityRows(np.array([0, len(excluded), len(excluded)]), np.array(sorted(excluded), dtype=np.int64))
    left = [n for n in range(60) if n not in excluded]
    assert skipping(np.array([0, 1]), np.array([number, number]), rows).tolist() == [left[number], number]
