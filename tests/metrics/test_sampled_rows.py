import numpy as np
import pytest
from scipy.stats import hypergeom

from kgprobe.metrics.sample_bounds import RIDGES, SampleBounds
from kgprobe.metrics.sampled_rows import SampledRows, bounds_of_rows
from kgprobe.transform import AffinePower, Identity, InverseLog, Log, Power, TopK, Transformer

TRANSFORMERS = [Power(1.0), AffinePower(0.5), AffinePower(-0.5), TopK(3), TopK(40), Log(), InverseLog(), Power(-0.5)]
LINEAR = [Identity(), AffinePower(-1.0), Power(-1.0)]
SIZES = [(1, 0), (8, 1), (30, 12), (60, 20), (60, 59), (300, 40)]


def every_sample(population: int, size: int, first: float, ties: int = 0) -> SampledRows:
    """A row for every number of hits, of which ``ties`` are no hits at best."""
    x = np.arange(size + 1)
    ones = np.ones(size + 1, dtype=np.int64)
    return SampledRows(
        first=np.full(size + 1, first),
        size=size * ones,
        population=population * ones,
        fewest=np.maximum(x - ties, 0),
        most=x,
        hits=x.astype(float),
        squares=x.astype(float),
        candidates=np.full(size + 1, first + population + 3),
    )


@pytest.mark.parametrize("transformer", [*TRANSFORMERS, *LINEAR], ids=str)
@pytest.mark.parametrize("first", [1.0, 2.5, 9.0])
@pytest.mark.parametrize(("population", "size"), SIZES)
def test_expectations_of_all_kinds_bound_the_score(
    population: int, size: int, first: float, transformer: Transformer
) -> None:
    rows = every_sample(population, size, first)
    found = bounds_of_rows(rows, [transformer], np.full(size + 1, 0.01))[transformer]
    assert len(found.upper) == (1 if transformer in LINEAR else len(RIDGES) + 1)
    b = SampleBounds(population, size).grid if size < population else np.arange(population + 1)
    score = transformer(first + b, np.full(len(b), first + population + 3.0))
    score = score if score[0] >= score[-1] else -score
    exact = hypergeom(population, b[:, None], size).pmf(np.arange(size + 1))
    for upper, lower in zip(found.upper, found.lower, strict=True):
        assert (exact @ upper >= score - 1e-8).all()
        assert (exact @ lower <= score + 1e-8).all()
    assert (found.possible[0] >= found.best - 1e-12).all()
    assert (found.possible[1] <= found.worst + 1e-12).all()


@pytest.mark.parametrize("transformer", LINEAR, ids=str)
def test_a_linear_score_is_estimated_without_bias_and_with_its_variance(transformer: Transformer) -> None:
    rows = every_sample(30, 12, 2.0)
    found = bounds_of_rows(rows, [transformer], np.full(13, 0.01))[transformer]
    b = np.arange(31)
    exact = hypergeom(30, b[:, None], 12).pmf(np.arange(13))
    score = transformer(2.0 + b, np.full(31, 35.0))
    score = score if score[0] >= score[-1] else -score
    assert exact @ found.upper[0] == pytest.approx(score, rel=1e-9)
    assert (found.upper == found.lower).all()
    variance = exact @ np.square(found.upper[0]) - np.square(exact @ found.upper[0])
    assert exact @ found.upper_variance[0] == pytest.approx(variance, abs=1e-9)


@pytest.mark.parametrize("transformer", [*TRANSFORMERS, *LINEAR], ids=str)
@pytest.mark.parametrize(("population", "size"), SIZES[1:5])
def test_a_hit_lowers_the_line_and_never_raises_the_first_statistic(
    population: int, size: int, transformer: Transformer
) -> None:
    found = bounds_of_rows(every_sample(population, size, 2.0), [transformer], np.full(size + 1, 0.01))[transformer]
    x = np.arange(size + 1)
    for statistics, line, ends in (
        (found.upper, found.upper_line, found.upper_ends),
        (found.lower, found.lower_line, found.lower_ends),
    ):
        assert statistics[-1] == pytest.approx(line[0] - line[1] * x, abs=1e-9)
        assert (line[1] >= -1e-12).all()
        if transformer not in LINEAR:
            assert (np.diff(statistics[0]) <= 1e-12).all()
            assert ends[:, 0] == pytest.approx([statistics[0, 0], statistics[0, -1]], abs=1e-12)


def test_ties_are_hits_in_the_lower_and_none_in_the_upper_statistic() -> None:
    plain, tied = (
        bounds_of_rows(every_sample(60, 20, 1.0, ties), [Power(1.0)], np.full(21, 0.01))[Power(1.0)] for ties in (0, 3)
    )
    assert tied.upper[:, 3:] == pytest.approx(plain.upper[:, :-3], abs=1e-9)
    assert tied.lower == pytest.approx(plain.lower, abs=1e-9)


def test_what_is_known_has_no_bounds() -> None:
    rows = every_sample(12, 12, 4.0)
    found = bounds_of_rows(rows, [Power(1.0)], np.full(13, 0.01))[Power(1.0)]
    assert (found.upper == 1 / (4.0 + np.arange(13))).all()
    assert (found.lower == found.upper).all()
    assert not found.upper_variance.any()
    assert (found.best == found.worst).all()
