"""Is one metric more consistent than another? Differences of Kendall's tau with intervals over models."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kgprobe.metrics import Metric
from kgprobe.metrics.base import spelled
from kgprobe.metrics.plain import PMRR
from kgprobe.metrics.popularity import Probe
from kgprobe.openworld.bench.pairs import PairCounts
from kgprobe.openworld.bench.points import Points
from kgprobe.openworld.bench.settings import Settings

Floats = NDArray[np.float64]

_SAME = "pMRR of the same exponent"
_TINY = 1e-12
"""Differences of this size come from the order of summation."""


@dataclass(frozen=True)
class TauDifference:
    """Kendall's tau between both worlds by one metric less that by another.

    Attributes:
        first: The one metric.
        second: The other.
        against: What the second stands for in a sentence.
        late: Whether it is over the late points alone.
        value: The difference.
        low: Where its interval over samples of models begins.
        high: Where it ends.
    """

    first: Metric
    second: Metric
    against: str
    late: bool
    value: float
    low: float
    high: float

    @property
    def verdict(self) -> str:
        """Whether the first is ``more`` or ``less`` consistent, ``equal`` in every sample, or it is ``undecided``."""
        if max(abs(self.value), abs(self.low), abs(self.high)) < _TINY:
            return "equal"
        return "more" if self.low > 0 else "less" if self.high < 0 else "undecided"

    def to_row(self) -> dict[str, Any]:
        """A flat row."""
        return {
            "first": str(self.first),
            "second": str(self.second),
            "points": "late" if self.late else "all",
            "difference": self.value,
            "low": self.low,
            "high": self.high,
            "verdict": self.verdict,
        }


def comparisons(metrics: Sequence[Metric]) -> Iterator[tuple[Metric, Metric, str]]:
    """Every PROBE against the pMRR of the smallest exponent, and against that of its own exponent where there is one.

    Example:
        >>> from kgprobe.metrics import parse_all
        >>> given = parse_all("pMRR(p=1), pMRR(p=0.25), PROBE(alpha=1), PROBE(alpha=0)")
        >>> [(str(first), against) for first, _, against in comparisons(given)]
        [('PROBE(alpha=1,beta=0)', 'pMRR(p=0.25)'), ('PROBE(alpha=0,beta=0)', 'pMRR(p=0.25)'), \
('PROBE(alpha=1,beta=0)', 'pMRR of the same exponent')]
    """
    exponents = {metric.p: metric for metric in metrics if isinstance(metric, PMRR)}
    probes = [metric for metric in metrics if type(metric) is Probe]
    if exponents:
        gentlest = exponents[min(exponents)]
        yield from ((probe, gentlest, str(gentlest)) for probe in probes)
    yield from ((probe, exponents[probe.alpha], _SAME) for probe in probes if probe.alpha in exponents)


def tau_differences(points: Points, settings: Settings, *, late: bool = False) -> list[TauDifference]:
    """The differences that `comparisons` names, with percentile intervals over samples of whole models.

    Checkpoints of a model are alike, so that models are drawn and never points. A sample in which a tau has no value
    says nothing.

    Args:
        points: The points.
        settings: How often models are drawn, and which points are late.
        late: Whether late points alone count.
    """
    kept = points.mrr > settings.late if late else np.full(len(points), True)
    present, model = np.unique(points.model[kept], return_inverse=True)
    models = len(present)
    wanted = list(comparisons(points.metrics))
    if models < 2 or not wanted:
        return []
    rng = np.random.default_rng(settings.seed)
    drawn = rng.multinomial(models, np.full(models, 1 / models), size=settings.replicates)
    weights = np.concatenate([np.ones((1, models)), drawn])
    taus: dict[Metric, Floats] = {}
    for metric in dict.fromkeys(metric for first, second, _ in wanted for metric in (first, second)):
        own = points.metrics.index(metric)
        counts = PairCounts.of(points.open[own, kept], points.closed[own, kept], model, models)
        taus[metric] = counts.tau(weights)
    found = []
    for first, second, against in wanted:
        value, *others = taus[first] - taus[second]
        if np.isfinite(value) and np.isfinite(others).any():
            low, high = np.nanquantile(others, [(1 - settings.level) / 2, (1 + settings.level) / 2])
            found.append(TauDifference(first, second, against, late, float(value), float(low), float(high)))
    return found


_CLAUSES = {"less": "less at {}", "equal": "equally at {}", "undecided": "undecided at {}"}


def sentences(differences: Sequence[TauDifference]) -> list[str]:
    """What the differences say, in one sentence for each rival.

    Example:
        >>> from kgprobe.metrics import parse
        >>> found = [
        ...     TauDifference(Probe(alpha=alpha), parse("pMRR(p=0.25)"), "pMRR(p=0.25)", False, value, low, high)
        ...     for alpha, value, low, high in [(1, -0.1, -0.2, -0.05), (0, 0.02, -0.01, 0.05), (-1, 0.1, 0.05, 0.2)]
        ... ]
        >>> print(*sentences(found))
        Over all points PROBE is more consistent than pMRR(p=0.25) at alpha = -1; less at 1; undecided at 0.
    """
    texts = []
    for (late, against), group in groupby(differences, key=lambda one: (one.late, one.against)):
        alphas: dict[str, list[str]] = {}
        for one in group:
            assert isinstance(one.first, Probe)
            alphas.setdefault(one.verdict, []).append(spelled(one.first.alpha))
        more = f"alpha = {', '.join(alphas['more'])}" if "more" in alphas else "no alpha"
        opening = f"Over {'late' if late else 'all'} points PROBE is more consistent than {against} at {more}"
        clauses = [clause.format(", ".join(alphas[key])) for key, clause in _CLAUSES.items() if key in alphas]
        texts.append("; ".join([opening, *clauses]) + ".")
    return texts
