"""``kgprobe metrics``: the list of metrics."""

from __future__ import annotations

from typing import Annotated

import typer

from kgprobe.cli.console import Format, FormatOption, print_rows


def metrics(
    name: Annotated[list[str] | None, typer.Argument(metavar="METRIC", help="Metrics to show; by default all.")] = None,
    format: FormatOption = Format.table,  # noqa: A002
) -> None:
    """List the metrics with their range, direction and reference."""
    from kgprobe.metrics import METRICS, parse_all
    from kgprobe.metrics.catalogue import reference_row

    shown = [type(metric) for metric in parse_all(name)] if name else METRICS
    print_rows([reference_row(metric) for metric in shown], format)
