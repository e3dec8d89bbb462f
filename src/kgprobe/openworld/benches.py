"""Bench: which metrics order models alike in the open and closed world, with confidence intervals."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from kgprobe.arrays import Floats, natural
from kgprobe.errors import DataError, UsageError
from kgprobe.metrics import Metric
from kgprobe.metrics.metric import spelled
from kgprobe.metrics.popularity_metrics import PROBE
from kgprobe.metrics.rank_metrics import pMRR
from kgprobe.openworld.bench_points import Collector, Points
from kgprobe.openworld.consistency import Consistency, PairCounts, consistency
from kgprobe.openworld.world import OPEN_WORLD_METRICS
from kgprobe.openworld.world_ranks import RankPair, joined_error
from kgprobe.resources import Progress


@dataclass(frozen=True)
class BenchSettings:
    """Settings of a bench.

    Attributes:
        late: Points with a larger closed-world MRR are late.
        replicates: Number of bootstrap replicates, each a resample of models.
        level: Confidence level of the intervals.
        seed: Random seed of the bootstrap.
    """

    late: float = 0.5
    replicates: int = 2000
    level: float = 0.95
    seed: int = 0

    def __post_init__(self) -> None:
        problems = {
            f"late must be an MRR from 0 to 1, not {self.late}": 0 <= self.late <= 1,
            f"replicates must be at least 1, not {self.replicates}": self.replicates >= 1,
            f"level must lie between 0 and 1, not {self.level}": 0 < self.level < 1,
            f"seed must be at least 0, not {self.seed}": self.seed >= 0,
        }
        if wrong := [problem for problem, met in problems.items() if not met]:
            raise UsageError("invalid settings of a bench", wrong)


_SAME = "pMRR of the same exponent"
_TINY = 1e-12  # smaller differences are rounding errors


@dataclass(frozen=True)
class TauDifference:
    """Difference of two metrics in Kendall's tau between open-world and closed-world values.

    Attributes:
        first: The first metric.
        second: The second metric.
        against: Description of the second metric in sentences.
        late: Whether only late points count.
        value: Tau of the first metric minus tau of the second.
        low: Lower end of the bootstrap confidence interval.
        high: Upper end.
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
        """``more`` or ``less`` consistent, ``equal`` in every replicate, or ``undecided``."""
        if max(abs(self.value), abs(self.low), abs(self.high)) < _TINY:
            return "equal"
        return "more" if self.low > 0 else "less" if self.high < 0 else "undecided"

    def to_row(self) -> dict[str, Any]:
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
    """Compare every PROBE with the pMRR of the smallest exponent, and with that of its own exponent if there is one.

    Example:
        >>> from kgprobe.metrics import parse_all
        >>> given = parse_all("pMRR(p=1), pMRR(p=0.25), PROBE(alpha=1), PROBE(alpha=0)")
        >>> [(str(first), against) for first, _, against in comparisons(given)]
        [('PROBE(alpha=1,beta=0)', 'pMRR(p=0.25)'), ('PROBE(alpha=0,beta=0)', 'pMRR(p=0.25)'), \
('PROBE(alpha=1,beta=0)', 'pMRR of the same exponent')]
    """
    exponents = {metric.p: metric for metric in metrics if isinstance(metric, pMRR)}
    probes = [metric for metric in metrics if type(metric) is PROBE]
    if exponents:
        flattest = exponents[min(exponents)]
        yield from ((probe, flattest, str(flattest)) for probe in probes)
    yield from ((probe, exponents[probe.alpha], _SAME) for probe in probes if probe.alpha in exponents)


def tau_differences(points: Points, settings: BenchSettings, *, late: bool = False) -> list[TauDifference]:
    """The tau differences of `comparisons`, with percentile bootstrap intervals.

    Checkpoints of a model are dependent, so models are resampled, not points. Replicates without a tau are ignored.

    Args:
        points: The points.
        settings: Settings of the bootstrap, and which points are late.
        late: Whether only late points count.
    """
    kept = points.mrr > settings.late if late else np.full(len(points), True)
    present, model = np.unique(points.model[kept], return_inverse=True)
    models = len(present)
    pairs = list(comparisons(points.metrics))
    if models < 2 or not pairs:
        return []
    rng = np.random.default_rng(settings.seed)
    drawn = rng.multinomial(models, np.full(models, 1 / models), size=settings.replicates)
    weights = np.concatenate([np.ones((1, models)), drawn])
    taus: dict[Metric, Floats] = {}
    for metric in dict.fromkeys(metric for first, second, _ in pairs for metric in (first, second)):
        own = points.metrics.index(metric)
        counts = PairCounts.of(points.open[own, kept], points.closed[own, kept], model, models)
        taus[metric] = counts.tau(weights)
    found = []
    for first, second, against in pairs:
        value, *others = taus[first] - taus[second]
        if np.isfinite(value) and np.isfinite(others).any():
            low, high = np.nanquantile(others, [(1 - settings.level) / 2, (1 + settings.level) / 2])
            found.append(TauDifference(first, second, against, late, float(value), float(low), float(high)))
    return found


_CLAUSES = {"less": "less at {}", "equal": "equally at {}", "undecided": "undecided at {}"}


def sentences(differences: Sequence[TauDifference]) -> list[str]:
    """Summarise the differences in one sentence for each metric that PROBE is compared with.

    Example:
        >>> from kgprobe.metrics import parse
        >>> found = [
        ...     TauDifference(PROBE(alpha=alpha), parse("pMRR(p=0.25)"), "pMRR(p=0.25)", False, value, low, high)
        ...     for alpha, value, low, high in [(1, -0.1, -0.2, -0.05), (0, 0.02, -0.01, 0.05), (-1, 0.1, 0.05, 0.2)]
        ... ]
        >>> print(*sentences(found))
        Over all points PROBE is more consistent than pMRR(p=0.25) at alpha = -1; less at 1; undecided at 0.
    """
    texts = []
    for (late, against), group in groupby(differences, key=lambda one: (one.late, one.against)):
        alphas: dict[str, list[str]] = {}
        for one in group:
            assert isinstance(one.first, PROBE)
            alphas.setdefault(one.verdict, []).append(spelled(one.first.alpha))
        more = f"alpha = {', '.join(alphas['more'])}" if "more" in alphas else "no alpha"
        opening = f"Over {'late' if late else 'all'} points PROBE is more consistent than {against} at {more}"
        clauses = [clause.format(", ".join(alphas[key])) for key, clause in _CLAUSES.items() if key in alphas]
        texts.append("; ".join([opening, *clauses]) + ".")
    return texts


FEW_LATE, FEW_MODELS = 10, 5  # fewer late points or models than this are mentioned in the notes


@dataclass(frozen=True, eq=False)
class Bench:
    """Metrics of models and checkpoints in an open and a closed world.

    Attributes:
        world: Name of the world.
        points: All values.
        consistency: Statistics of every metric.
        differences: Differences of Kendall's tau between PROBE and pMRR, with confidence intervals.
        settings: Settings of the bench.
    """

    world: str
    points: Points
    consistency: tuple[Consistency, ...]
    differences: tuple[TauDifference, ...]
    settings: BenchSettings

    @classmethod
    def of(cls, points: Points, world: str = "", settings: BenchSettings | None = None) -> Bench:
        chosen = settings or BenchSettings()
        return cls(
            world=world,
            points=points,
            consistency=tuple(consistency(points, i, chosen.late) for i in range(len(points.metrics))),
            differences=tuple(one for late in (False, True) for one in tau_differences(points, chosen, late=late)),
            settings=chosen,
        )

    @property
    def verdict(self) -> list[str]:
        """Sentences: at which alpha PROBE is more consistent than pMRR, and at which it is not."""
        return sentences(self.differences)

    @property
    def notes(self) -> list[str]:
        """Limitations of the statistics, one sentence each."""
        models, points = len(self.points.models), len(self.points)
        late = int((self.points.mrr > self.settings.late).sum())
        above = f"have a closed-world MRR above {self.settings.late:g}"
        remarks = {
            "There is only one model: its checkpoints are compared, without confidence intervals.": models == 1,
            f"Intervals over {models} models are rough: each model has a large influence.": 1 < models < FEW_MODELS,
            f"No point is late: none of the {points:,} {above}.": late == 0,
            f"Only {late} of {points:,} points are late ({above}): the statistics are rough.": 0 < late < FEW_LATE,
            "No model has two late checkpoints, so there is no spread at equal closed-world value.": late > 0
            and len(set(self.points.model[self.points.mrr > self.settings.late].tolist())) == late,
        }
        return [remark for remark, holds in remarks.items() if holds]

    def to_rows(self) -> list[dict[str, Any]]:
        return [{"world": self.world} | one.to_row() for one in self.consistency]

    def __repr__(self) -> str:
        points = self.points
        return f"Bench({len(points.models)} models, {len(points)} points, {len(points.metrics)} metrics)"


def bench(
    pairs: Mapping[str, Mapping[str, RankPair]],
    metrics: Iterable[str | Metric] = OPEN_WORLD_METRICS,
    *,
    world: str = "",
    settings: BenchSettings | None = None,
) -> Bench:
    """Compare how metrics order models and checkpoints in the open and in the closed world.

    Args:
        pairs: For each model, its checkpoints in the order of training with their rank tables of both worlds.
        metrics: The metrics, each a mean over all queries of a table, with the mean rank of ties.
        world: Name of the world.
        settings: Which points are late, and settings of the bootstrap.
    """
    return Bench.of(Points.of(pairs, metrics), world, settings)


_OPEN, _CLOSED = ".open.parquet", ".closed.parquet"


@dataclass(frozen=True)
class StoredPair:
    """A pair of rank files: one checkpoint of the model that its folder is named after."""

    folder: Path
    checkpoint: str

    @property
    def model(self) -> str:
        return self.folder.resolve().name

    def read(self) -> RankPair:
        return RankPair.read(self.folder, self.checkpoint)


def find_pairs(folders: Iterable[str | PathLike[str]]) -> list[StoredPair]:
    """All pairs of rank files below the folders, by folder and in the order of training."""
    found, problems = [], []
    for root in dict.fromkeys(map(Path, folders)):
        names = {ending: _names(root, ending) for ending in (_OPEN, _CLOSED)}
        if not root.is_dir():
            problems.append(f"{root}: no such folder")
        elif not any(names.values()):
            problems.append(f"{root}: no rank tables named NAME{_OPEN} and NAME{_CLOSED} in it")
        for own, other in ((_OPEN, _CLOSED), (_CLOSED, _OPEN)):
            single = sorted(names[own] - names[other], key=_order)
            problems += [f"{one.folder / one.checkpoint}{own}: its {other} is missing" for one in single]
        found += sorted(names[_OPEN] & names[_CLOSED], key=_order)
    if problems:
        title = "some rank tables are missing" if found else "there are no rank tables to compare"
        raise DataError(title, problems, "give folders that 'kgprobe openworld evaluate' wrote")
    return list(dict.fromkeys(found))


def _names(root: Path, ending: str) -> set[StoredPair]:
    return {StoredPair(path.parent, path.name.removesuffix(ending)) for path in root.rglob(f"*{ending}")}


def _order(one: StoredPair) -> tuple[Any, Any]:
    return natural(str(one.folder)), natural(one.checkpoint)


def read_bench(
    folders: Iterable[str | PathLike[str]],
    metrics: Iterable[str | Metric] = OPEN_WORLD_METRICS,
    *,
    settings: BenchSettings | None = None,
    progress: Progress | None = None,
) -> dict[str, Bench]:
    """Read rank files and make one bench for each world; different splits or tasks are different worlds.

    Args:
        folders: Folders with the rank files of one model each, or their parents at any depth.
        metrics: The metrics.
        settings: Which points are late, and settings of the bootstrap.
        progress: Called with the number of pairs read since the last call.
    """
    found = collected_worlds(folders, metrics, progress)
    names = world_names([world for world, _ in found])
    return {
        name: Bench.of(collector.points(), name, settings) for name, (_, collector) in zip(names, found, strict=True)
    }


def collected_worlds(
    folders: Iterable[str | PathLike[str]], metrics: Iterable[str | Metric], progress: Progress | None = None
) -> list[tuple[dict[str, Any], Collector]]:
    """The settings of every world that has rank files below the folders, and the values of its models.

    Args:
        folders: Folders with the rank files of one model each, or their parents at any depth.
        metrics: The metrics.
        progress: Called with the number of pairs read since the last call.
    """
    metrics = list(metrics)
    collectors: dict[str, tuple[dict[str, Any], Collector]] = {}
    errors: list[DataError] = []
    for one in find_pairs(folders):
        try:
            pair = one.read()
        except DataError as error:
            errors.append(error)
            continue
        world = _world(pair)
        _, collector = collectors.setdefault(json.dumps(world, sort_keys=True), (world, Collector(metrics)))
        collector.add(one.model, one.checkpoint, pair)
        if progress:
            progress(1)
    if errors:
        raise joined_error("some rank tables cannot be used", errors)
    return list(collectors.values())


def _world(pair: RankPair) -> dict[str, Any]:
    """The split and task settings; rank tables with equal ones are of the same world."""
    info = pair.open.info
    named: dict[str, Any] = {"name": info.graph or "world"}
    if info.world is None:
        return named
    task = info.world.task | ({} if info.world.sides is None else {"sides": info.world.sides})
    return named | info.world.split | {f"task {key}": value for key, value in task.items()}


def world_names(worlds: Sequence[Mapping[str, Any]]) -> list[str]:
    """A name for each world; worlds of equal names get a distinguishing setting, or all that differ, as a suffix.

    Example:
        >>> world_names([{"name": "tree", "seed": 0, "density": 0.65}, {"name": "tree", "seed": 0, "density": 0.75}])
        ['tree (density=0.65)', 'tree (density=0.75)']
    """
    names = []
    for world in worlds:
        alike = [other for other in worlds if other["name"] == world["name"]]
        written = {key: [json.dumps(other.get(key)) for other in alike] for key in world}
        differing = [key for key, values in written.items() if len(set(values)) > 1]
        telling = [key for key in differing if len(set(written[key])) == len(alike) and "null" not in written[key]]
        inside = ", ".join(f"{key}={world[key]}" for key in telling[:1] or differing)
        names.append(f"{world['name']} ({inside})" if inside else str(world["name"]))
    return names
