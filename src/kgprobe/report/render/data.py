"""Rows for programs: JSON and CSV with every digit, nothing where there is no number."""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Sequence
from typing import Any

from kgprobe.report.render.grid import Record, columns_of


def json_text(rows: Sequence[Record]) -> str:
    """A list of flat objects, one on each line; null where a number is not finite.

    Example:
        >>> print(json_text([{"metric": "MRR", "value": 0.1 + 0.2, "std": float("nan")}]), end="")
        [
          {"metric": "MRR", "value": 0.30000000000000004, "std": null}
        ]
    """
    if not rows:
        return "[]\n"
    lines = ",\n".join("  " + json.dumps(_finite(row), ensure_ascii=False) for row in rows)
    # Half of a surrogate pair cannot be written as UTF-8; what Python writes for it is JSON too.
    return f"[\n{lines}\n]\n".encode("utf-8", "backslashreplace").decode()


def csv_text(rows: Sequence[Record]) -> str:
    """Comma-separated values with a heading; empty where a number is not finite.

    Example:
        >>> print(csv_text([{"metric": "MRR", "value": 0.1 + 0.2, "std": None}]), end="")
        metric,value,std
        MRR,0.30000000000000004,
    """
    lines = _Lines()
    # A lone carriage return is quoted only where it is part of the line's end.
    writer = csv.DictWriter(lines, columns_of(rows), restval="", lineterminator=_Lines.end)
    writer.writeheader()
    writer.writerows(_finite(row) for row in rows)
    return "".join(lines.written).encode("utf-8", "replace").decode()


class _Lines:
    """Takes lines that end in CR LF, and keeps them ending in LF."""

    end = "\r\n"

    def __init__(self) -> None:
        self.written: list[str] = []

    def write(self, line: str) -> None:
        self.written.append(line.removesuffix(self.end) + "\n")


def _finite(row: Record) -> dict[str, Any]:
    return {key: None if isinstance(v, float) and not math.isfinite(v) else v for key, v in row.items()}
