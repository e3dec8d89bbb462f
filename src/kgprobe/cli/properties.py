"""``kgprobe properties``: search each metric for counterexamples to the paper's six properties."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from kgprobe.cli.console import Format, FormatOption, print_rows

if TYPE_CHECKING:
    from kgprobe.metrics.six_properties import PropertyResult

_LEGEND = """
yes  no counterexample in {searched:,} comparisons    no  see the counterexamples
+    holds for the definition used here, not for the literal one, see the notes
*    differs from the paper's table ({differ} of {claims} shared verdicts)"""


def properties(
    metric: Annotated[
        list[str] | None, typer.Option("--metric", "-m", help="Metric to test, by default all. May be repeated.")
    ] = None,
    format: FormatOption = Format.table,  # noqa: A002
) -> None:
    """Test metrics for the paper's six properties by searching for counterexamples."""
    from kgprobe.metrics.property_search import check_properties

    results = check_properties(metric or None)
    if format is Format.table:
        _print_tables(results)
    else:
        print_rows([result.row() for result in results], format)


def _print_tables(results: Sequence[PropertyResult]) -> None:
    matrix: dict[str, dict[str, str]] = {}
    for result in results:
        matrix.setdefault(str(result.metric), {})[result.about.short] = _mark(result)
    print_rows([{"metric": name, **marks} for name, marks in matrix.items()], Format.table)
    compared = [result for result in results if result.agrees is not None]
    differing = [result for result in compared if not result.agrees]
    print(_LEGEND.format(searched=sum(r.searched for r in results), differ=len(differing), claims=len(compared)))
    _print_section("Differences from the paper's table", differing, "why", lambda result: result.reason)
    _print_section(
        "Counterexamples", results, "counterexample", lambda r: r.counterexample.text if r.counterexample else ""
    )
    _print_section("Notes", results, "note", lambda result: result.note)


def _mark(result: PropertyResult) -> str:
    return ("yes" if result.holds else "no") + "+" * bool(result.literal) + "*" * (result.agrees is False)


def _print_section(
    title: str, results: Sequence[PropertyResult], column: str, text: Callable[[PropertyResult], str]
) -> None:
    rows = [
        {"metric": str(result.metric), "property": result.about.short, column: text(result)}
        for result in results
        if text(result)
    ]
    if rows:
        print(f"\n{title}")
        print_rows(rows, Format.table)
