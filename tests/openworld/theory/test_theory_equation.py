import math

import numpy as np
import pytest

from kgprobe.openworld.theory import Removed, Unlearned, expected, paper_slope
from kgprobe.transform import AffinePower, Hits, Identity, InverseLog, Log, Power, Transformer

KINDS: list[Transformer] = [
    *map(Power, (2.0, 1.0, -1.0)),
    *map(AffinePower, (1.0, 0.0, -1.0)),
    Hits(3),
    InverseLog(),
    Log(),
    Identity(),
]


@pytest.mark.parametrize("f", KINDS, ids=str)
def test_it_is_the_slope_of_the_expected_metric(f: Transformer) -> None:
    grid = np.meshgrid([0.0, 1.0, 9.0, 28.0, 500.0], [0.05, 0.25, 0.9], [0.1, 0.5, 1.0])
    n, rate, strength = (axis.ravel() for axis in grid)
    slope = expected(f, Removed(n, rate), 6004.0, strength, Unlearned.nothing).slope
    assert paper_slope(f, n, 6004.0, rate, strength) == pytest.approx(slope, rel=1e-9)


@pytest.mark.parametrize("at_zero", [0.0, 1.0])
def test_it_is_the_printed_sum(at_zero: float) -> None:
    n, size, rate, strength = 6, 40, 0.3, 0.5
    p = rate * strength
    total = at_zero * (1 - p) ** (n + 1)
    total += sum(math.comb(n + 1, r) * p**r * (1 - p) ** (n + 1 - r) * r * r**-0.5 for r in range(1, n + 2))
    assert paper_slope(Power(0.5), n, size, rate, strength, at_zero) == pytest.approx(total / (p * (n + 1)), rel=1e-12)


def test_a_term_for_rank_zero_would_be_off() -> None:
    n, rate, strength = 28, 0.25, 0.3
    with_it, without = (paper_slope(Power(1.0), n, 5976, rate, strength, at_zero=g).item() for g in (1.0, 0.0))
    p = rate * strength
    assert with_it - without == pytest.approx((1 - p) ** (n + 1) / (p * (n + 1)), rel=1e-12)
    assert with_it - without == pytest.approx(0.048, abs=0.0005)
