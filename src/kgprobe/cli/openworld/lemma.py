"""``kgprobe openworld lemma``: numerical checks of the paper's open-world claims."""

from __future__ import annotations

from kgprobe.cli.console import Format, FormatOption, note, print_rows

_WORST = "worst case"

_SYMBOLS = (
    "r: rank; E: candidates; N: other true answers; gamma: missing rate; l: model strength; f*: rank transformer of "
    "PROBE; unlearned: score of an answer that the model has not learned (nothing, as in the paper; or a random rank, "
    "anywhere or below the learned answers)"
)


def lemma(
    format: FormatOption = Format.table,  # noqa: A002
) -> None:
    """Test the paper's claims about missing triples, and corrected versions, on a grid of settings."""
    from kgprobe.openworld import check_claims

    rows = [claim.to_row() for claim in check_claims()]
    if format is not Format.table:
        print_rows(rows, format)
        return
    print_rows([{name: value for name, value in row.items() if name != _WORST} for row in rows], format)
    for row in rows:
        if row["violations"]:
            note(f"violated: {row['claim']}; worst case {row[_WORST]}")
    note(_SYMBOLS)
