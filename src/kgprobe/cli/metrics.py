"""``kgprobe metrics``: what can be computed."""

from __future__ import annotations

from typing import Annotated

import typer

from kgprobe.cli.console import Format, print_rows
from kgprobe.cli.options import FormatOption


def metrics(
    name: Annotated[list[str] | None, typer.Argument(metavar="METRIC", help="Only these.")] = None,
    format: FormatOption = Format.table,  # noqa: A002
) -> None:
    """List the metrics with range, direction and reference."""
    from kgprobe.metrics import METRICS, parse_all
    from kgprobe.metrics.catalogue import reference_row

    wanted = [type(metric) for metric in parse_all(name)] if name else METRICS
    print_rows([reference_row(metric) for metric in wanted], format)
