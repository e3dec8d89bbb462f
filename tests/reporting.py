"""What tests of tables share: names that try to break out of a cell, tables that hold them, and LaTeX."""

import math
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from itertools import combinations
from pathlib import Path

import pytest
from hypothesis import strategies as st

from kgprobe.comparison.intervals import Interval
from kgprobe.comparison.results import Comparison, ComparisonSettings, Difference, Estimate
from kgprobe.metrics import parse
from kgprobe.report.grid import Cell, Column, Grid, GridRow, one_line

# ruff: noqa: RUF001 (names that look like others are among them)

HOSTILE = (
    r"R&D 50% $5 #1 a_b {x} ~y ^z \input{/etc/passwd}",
    "<script>alert('x')</script> & <b onclick=\"y\">bold</b>",
    "pipe | pipe \\| `code` *star* _under_ [link](javascript:1) ~~gone~~",
    "two\nlines\r\nand\ta tab",
    "\x1b[31mred\x1b[0m \x07bell",
    "\u202eturned\u2066 around",
    "مرحبا שלום",
    "\N{GRINNING FACE} 中文 Ωμέγα",
    "Čapek, Ångström, Łódź, ą, é, e\u0301, ñ, ü, ß, Erdős",
    "-- --- `` '' ?` !` << >> ,,",
    "[1em] optional",
    "* starred",
    "=1+1,\"quoted\";'x'",
    "x² H₂O −1 ± 2 – 3 — “quoted” ‘single’ …",
    "%",
    "\\",
    "&amp; &#60; &lt",
    "http://example.org/a_b?c=d&e=f",
    "| --- |",
    "",
    " ",
)

NAMES = st.one_of(st.sampled_from(HOSTILE), st.text(max_size=20), st.text("\\|`*_[]<>&~$#{}^%\n\r\"'-!a ", max_size=12))


def numbers_grid(names: Sequence[str], columns: int = 3) -> Grid:
    """A table that has everything: two lines of headings, deviations, intervals, places, marks, notes."""
    above = ["", "PROBE(β=0)", "PROBE(β=0)"]
    heads = [Column(("", "model"))]
    heads += [Column((above[i % 3], f"α=−{i}"), numeric=True) for i in range(columns)]
    lines = [
        GridRow(
            (
                Cell(one_line(name)),
                *(
                    Cell(
                        f"{i - row / 7:.4f}",
                        deviation="0.0123" if (row + i) % 2 else "",
                        interval="[-0.1000, 0.2000]" if i % 3 == 1 else "",
                        place=row + 1 if row < 5 else None,
                        marks=["", "†", "†‡", "abc"][(row + i) % 4],
                    )
                    for i in range(columns)
                ),
            ),
            opens=row == 2,
        )
        for row, name in enumerate(names)
    ]
    return Grid(tuple(heads), tuple(lines), ("† not significantly worse, p > 5 %.", "‡ <not> trusted & so_on"))


def compiled(document: str, folder: Path) -> str:
    """The log of pdflatex, which must go through a document without an error."""
    program = shutil.which("pdflatex")
    if program is None:
        pytest.skip("pdflatex is not installed")
    (folder / "table.tex").write_text(document, encoding="utf-8")
    done = subprocess.run(
        [program, "-interaction=nonstopmode", "-halt-on-error", "-no-shell-escape", "table.tex"],
        cwd=folder, capture_output=True, timeout=120, check=False,
    )  # fmt: skip
    log = (folder / "table.log").read_text(encoding="latin-1")
    assert done.returncode == 0, log[-3000:]
    assert (folder / "table.pdf").stat().st_size > 1000
    assert "Missing character" not in log
    assert "Undefined" not in log
    return log


def comparison(
    values: Mapping[str, Mapping[str, float]],
    p: Mapping[tuple[str, str, str], float] | None = None,
    *,
    groups: Sequence[Mapping[str, object]] = ({},),
    untrusted: Sequence[str] = (),
    seeds: int = 1,
    **settings: object,
) -> Comparison:
    """A comparison by hand: values by metric and model, and adjusted p-values by pair.

    Args:
        values: The value of every model by every metric.
        p: The adjusted p-value of (metric, one model, other model); 1 where there is none.
        groups: Each has the same values.
        untrusted: Models whose intervals are not to be trusted.
        seeds: How many training runs each has.
        settings: Other than the default ones.
    """
    given = p or {}
    estimates, differences = [], []
    for group in groups:
        for name, by_model in values.items():
            metric = parse(name)
            for model, value in by_model.items():
                doubt = f"{model} is doubtful" if model in untrusted else None
                interval = Interval(value - 0.01, value + 0.01, 0.95, "bootstrap-t", doubt is None, doubt)
                std = 0.005 if seeds > 1 else None
                estimates.append(Estimate(model, metric, value, interval, std, seeds, 100, 50, 80.0, dict(group)))
            for one, other in combinations(by_model, 2):
                found = given.get((name, one, other), given.get((name, other, one), 1.0))
                value = by_model[one] - by_model[other]
                interval = Interval(value - 0.01, value + 0.01, 0.95, "permutation")
                tests = len(by_model) * (len(by_model) - 1) // 2
                significant = bool(found <= 0.05) and value != 0
                differences.append(
                    Difference(
                        one,
                        other,
                        metric,
                        value,
                        interval,
                        found / 4,
                        found,
                        significant,
                        tests,
                        found,
                        found / 2,
                        group=dict(group),
                    )
                )
    return Comparison(estimates, differences, ComparisonSettings(**settings))  # type: ignore[arg-type]


def same(one: float | None, other: float | None) -> bool:
    """Whether two numbers are equal, or both are missing or no number."""
    missing = [value is None or math.isnan(value) for value in (one, other)]
    return all(missing) if any(missing) else one == other
