"""``kgprobe rules``: the rules of a rule-based model."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kgprobe.cli.console import Format, FormatOption, NamesOption, note, print_rows
from kgprobe.errors import UsageError
from kgprobe.report.grid import Record

if TYPE_CHECKING:
    from kgprobe.arrays import AnyInts

RunArgument = Annotated[Path, typer.Argument(metavar="RUN", help="Run of a rule-based model, or a checkpoint in it.")]

RunGraphOption = Annotated[
    str | None,
    typer.Option(
        "--graph",
        "-g",
        metavar="GRAPH",
        help="Directory or name of its graph.",
        show_default="the graph it was trained on",
    ),
]

RunSelectOption = Annotated[
    str | None,
    typer.Option("--select", metavar="METRIC", help="Metric that selected the checkpoint.", show_default="the first"),
]

RunSeedOption = Annotated[
    int | None, typer.Option("--seed", metavar="N", help="Seed of the run.", show_default="the first")
]


class Sort(StrEnum):
    """The sort key of rules."""

    weight = "weight"
    confidence = "confidence"
    support = "support"


_TOP = 20


def rules(
    run: RunArgument,
    relation: Annotated[
        list[str] | None,
        typer.Option(metavar="R", help="Show the rules of this relation (name or id). May be repeated."),
    ] = None,
    graph: RunGraphOption = None,
    names: NamesOption = None,
    select: RunSelectOption = None,
    seed: RunSeedOption = None,
    top: Annotated[
        int | None,
        typer.Option(min=1, metavar="N", help="Rules per relation.", show_default=f"{_TOP} with --relation, else 1"),
    ] = None,
    sort: Annotated[Sort, typer.Option(help="Sort key.")] = Sort.weight,
    format: FormatOption = Format.table,  # noqa: A002
) -> None:
    """Show the rules of a model: the best rule of each relation, or the rules of the given relations.

    The weight of a rule is the change of the score by one grounding of its body, for tail and for head queries. The
    support is the number of training triples that the rule implies, the confidence their share among all triples that
    it implies.
    """
    require_models(run)
    from kgprobe.models.rules.explanations import rule_rows
    from kgprobe.models.rules.written_queries import Vocabulary
    from kgprobe.train.trained_models import open_rules

    opened = open_rules(run, graph, names=names or (), select=select, seed=seed)
    heads = list(dict.fromkeys(Vocabulary(opened.graph).relations(relation))) if relation else None
    most = top or (_TOP if heads else 1)
    rows = rule_rows(opened.scorer, opened.graph, relations=heads, sort=sort, top=most)
    if rows or format is not Format.table:
        print_rows(rows if format.is_data else [_named(row) for row in rows], format)
    learned = opened.scorer.rules
    _print_count(opened.name, learned.head % max(learned.relations, 1), heads)


def _named(row: Record) -> Record:
    """The row with the name of its relation in place of the label."""
    name = {"relation": row["relation_name"]} if "relation_name" in row else {}
    return {key: value for key, value in (dict(row) | name).items() if key != "relation_name"}


def require_models(run: Path) -> None:
    """Raise a UsageError if the packages that open a trained model are not installed."""
    from importlib.util import find_spec

    missing = [name for name in ("torch", "safetensors", "scipy") if find_spec(name) is None]
    if missing:
        raise UsageError(f"{run}: opening it needs {' and '.join(missing)}", remedy="pip install 'kgprobe[models]'")


def _print_count(model: str, heads: AnyInts, relations: Sequence[int] | None) -> None:
    import numpy as np

    shown = heads if relations is None else heads[np.isin(heads, relations)]
    about = f"{len(np.unique(shown)):,} relations" if relations is None else "these relations"
    note(f"{model} has {len(shown):,} rules for {about}; rules for tail and for head queries are counted separately")
