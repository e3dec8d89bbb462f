"""What a finished run has to show."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from kgprobe.cli.output import Row

if TYPE_CHECKING:
    from kgprobe.ranks import Ranks
    from kgprobe.train.run.directory import RunDirectory

_NUMBERS = ("validation", "test", "head", "tail")


def result_rows(run: RunDirectory) -> list[Row]:
    """One row for each target and seed, and their mean where there are several seeds.

    ``test`` is the value of the target itself on the test facts, ``head`` and ``tail`` its value where that side is
    predicted: a side that does not work hides in a mean.
    """
    from kgprobe.train.run import names

    tested = json.loads((run.path / names.RESULT).read_bytes())["targets"]
    rows: list[Row] = []
    for target in run.settings.select:
        kept = [run.load_best(target, seed)[1] for seed in run.settings.seeds]
        own = list(_rows(target, run.settings.seeds, kept, tested.get(target, {}).get("test", {})))
        rows += [*own, _mean(own)] if len(own) > 1 else own
    return rows


def _rows(
    target: str, seeds: Sequence[int], kept: Sequence[Mapping[str, Any]], test: Mapping[str, Mapping[str, list[float]]]
) -> Iterator[Row]:
    sides = {"test": "both", "head": "head", "tail": "tail"}
    for place, (seed, facts) in enumerate(zip(seeds, kept, strict=True)):
        values = {name: test[side][target][place] if test else None for name, side in sides.items()}
        yield {"target": target, "seed": str(seed), "epoch": facts["epoch"], "validation": facts["score"], **values}


def _mean(rows: Sequence[Row]) -> Row:
    columns = {name: [row[name] for row in rows] for name in _NUMBERS}
    means = {name: None if None in values else sum(values) / len(values) for name, values in columns.items()}
    return {"target": rows[0]["target"], "seed": "mean", "epoch": None, **means}


def tied_share(ranks: Ranks) -> float:
    """The share of queries whose target has exactly the score of another candidate.

    Example:
        >>> from kgprobe import Ranks
        >>> columns = dict(head=[0, 0], relation=[0, 0], tail=[1, 1], side=["head", "tail"], candidates=[5, 5])
        >>> tied_share(Ranks.from_columns(rank=[1, 2.5], ties=[0, 1], **columns))
        0.5
    """
    return float((ranks.ties > 0).mean()) if len(ranks) else 0.0
