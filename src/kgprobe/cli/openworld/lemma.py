"""``kgprobe openworld lemma``: what holds of the paper's theory."""

from __future__ import annotations

from kgprobe.cli.options import FormatOption
from kgprobe.cli.output import Format, print_rows


def lemma(
    format: FormatOption = Format.table,  # noqa: A002
) -> None:
    """Try the paper's claims about missing facts, and those that replace them, on a grid of settings."""
    from kgprobe.openworld.theory import check_claims

    print_rows([claim.to_row() for claim in check_claims()], format)
