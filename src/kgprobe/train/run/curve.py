"""The validation curve of a run as a table that any program plots."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from kgprobe.files import replacing
from kgprobe.train.keep import Facts

COLUMNS = ("epoch", "seconds", "seed", "target", "score", "loss")


def write_curve(path: Path, rows: Iterable[Facts], seeds: Sequence[int]) -> None:
    """Write the rows of a log with one line for each validation, target and seed.

    Example:
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp()) / "curve.csv"
        >>> write_curve(path, [{"epoch": 5, "seconds": 2.5, "loss": [0.1], "scores": {"MRR": [0.5]}}], [7])
        >>> print(path.read_text().strip())
        epoch,seconds,seed,target,score,loss
        5,2.5,7,MRR,0.5,0.1
    """
    with replacing(path) as temporary, temporary.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(COLUMNS)
        for row in rows:
            writer.writerows(_lines(row, seeds))


def _lines(row: Facts, seeds: Sequence[int]) -> Iterator[tuple[Any, ...]]:
    for target, scores in row["scores"].items():
        for seed, score, loss in zip(seeds, scores, row["loss"], strict=True):
            yield row["epoch"], row["seconds"], seed, target, score, loss
