"""Metrics that are broken on purpose: the search must find out how."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest

from kgprobe.metrics import Metric
from kgprobe.metrics.base import Facts, Floats, MeanMetric, Sums
from kgprobe.metrics.properties import Property, check_properties
from kgprobe.transform import AffinePower, Identity, Power, Transformer

OPTIMUM, PESSIMUM, ANTI_MONOTONE, SIZE, SHARPNESS, POPULARITY = Property


@dataclass(frozen=True)
class _Broken(MeanMetric):
    """PROBE, until a test breaks it."""

    name: ClassVar[str] = "Broken"
    facts: ClassVar[Facts] = Facts("Broken", 0, 1, True, "tests")

    @property
    def transformer(self) -> Transformer:
        return AffinePower(1.0)


@dataclass(frozen=True)
class _Increasing(_Broken):
    @property
    def transformer(self) -> Transformer:
        return Identity()


@dataclass(frozen=True)
class _SizeBlind(_Broken):
    @property
    def transformer(self) -> Transformer:
        return Power(1.0)


@dataclass(frozen=True)
class _CountsQueries(_Broken):
    def finish(self, sums: Sums) -> Floats:
        return sums.score


@dataclass(frozen=True)
class _Rounded(_Broken):
    def finish(self, sums: Sums) -> Floats:
        return np.round(sums.score / sums.weight, 3)


@dataclass(frozen=True)
class _FlatWhereNobodyLooks(_Broken):
    """Its parameter acts on good scores alone."""

    a: float = 1.0

    def finish(self, sums: Sums) -> Floats:
        value = sums.score / sums.weight
        return np.where(value > 0.1, value**self.a, value)


def test_the_unbroken_metric_passes_what_does_not_need_a_parameter() -> None:
    assert [result.holds for result in check_properties([_Broken()])] == [True, True, True, True, False, False]
    assert all(result.paper is None and result.agrees is None for result in check_properties([_Broken()]))


@pytest.mark.parametrize(
    ("metric", "fails"),
    [
        (_Increasing(), {PESSIMUM, ANTI_MONOTONE, SIZE}),
        (_SizeBlind(), {PESSIMUM, SIZE}),
        (_CountsQueries(), {OPTIMUM}),
        (_Rounded(), {ANTI_MONOTONE, SIZE}),
    ],
)
def test_a_broken_metric_is_caught(metric: Metric, fails: set[Property]) -> None:
    found = {result.about for result in check_properties([metric]) if not result.holds}
    assert found == fails | {SHARPNESS, POPULARITY}


def test_a_parameter_that_spares_some_ranks_is_no_sharpness() -> None:
    result = check_properties([_FlatWhereNobodyLooks()])[4]
    assert not result.holds
    assert result.counterexample
    assert all(0 < seen.value <= 0.1 for seen in result.counterexample.observations)
