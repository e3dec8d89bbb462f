"""``kgprobe openworld lemma``: what holds of the paper's theory."""

from __future__ import annotations

from kgprobe.cli.console import Format, note, print_rows
from kgprobe.cli.options import FormatOption

_WORST = "worst case"

_SYMBOLS = (
    "r: rank; E: candidates; N: other true answers; gamma: missing rate; l: strength of the model; f*: the transformer "
    "of PROBE; unlearned: what an answer scores that the model has not learned (nothing, as in the paper; or a random "
    "rank, anywhere or below the learned answers)"
)


def lemma(
    format: FormatOption = Format.table,  # noqa: A002
) -> None:
    """Try the paper's claims about missing facts, and those that replace them, on a grid of settings."""
    from kgprobe.openworld import check_claims

    rows = [claim.to_row() for claim in check_claims()]
    if format is not Format.table:
        print_rows(rows, format)
        return
    print_rows([{name: value for name, value in row.items() if name != _WORST} for row in rows], format)
    for row in rows:
        if row["violations"]:
            note(f"does not hold: {row['claim']}; worst case {row[_WORST]}")
    note(_SYMBOLS)
